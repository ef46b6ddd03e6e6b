"""Pods without the fields that a scheduler does not read, because the feature gate of a field is off."""

from collections.abc import Mapping

import msgspec

from mooring.model.pod import Pod
from mooring.model.pod_spec import PodSpec, TopologySpreadConstraint


class CountedPods:
    """Which fields of pods count, by the feature gates of the cluster.

    Upstream asks for the gate wherever it reads such a field. Here the field is taken off once, when a pod comes in: a
    shape then has nothing that depends on gates.
    """

    def __init__(self, gates: Mapping[str, bool]) -> None:
        """Gates that are not named have their defaults."""
        self._has_devices = gates.get("DRANodeAllocatableResources", False)
        self._has_pod_level = gates.get("PodLevelResources", True)
        self._resizes_pods = self._has_pod_level and gates.get("InPlacePodLevelResourcesVerticalScaling", True)
        self._has_label_keys = gates.get("MatchLabelKeysInPodTopologySpread", True)
        self._reads_all_specs = self._has_pod_level and self._has_label_keys

    def counted(self, pod: Pod) -> Pod:
        """The pod without what does not count; the pod itself where everything does."""
        if not self._has_devices and pod.status.node_allocatable_resource_claim_statuses is not None:
            pod = pod.with_device_resources(None)
        if not self._reads_all_specs:
            spec = self._counted_spec(pod.spec)
            pod = pod if spec is pod.spec else Pod(pod.metadata, spec, pod.status)
        if not self._resizes_pods and pod.status.resources is not None:
            status = msgspec.structs.replace(pod.status, resources=None, allocated_resources=None)
            pod = Pod(pod.metadata, pod.spec, status)
        return pod

    def _counted_spec(self, spec: PodSpec) -> PodSpec:
        if not self._has_pod_level and spec.resources is not None:
            spec = msgspec.structs.replace(spec, resources=None)
        constraints = spec.topology_spread_constraints or ()
        if not self._has_label_keys and any(constraint.match_label_keys for constraint in constraints):
            plain = [_without_label_keys(constraint) for constraint in constraints]
            spec = msgspec.structs.replace(spec, topology_spread_constraints=plain)
        return spec


def _without_label_keys(constraint: TopologySpreadConstraint) -> TopologySpreadConstraint:
    return msgspec.structs.replace(constraint, match_label_keys=None)
