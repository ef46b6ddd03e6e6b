"""The kinds that Mooring knows: the struct and apiVersions of each, and whether it lives in a namespace."""

from collections.abc import Mapping
from dataclasses import dataclass

from mooring.model import devices, storage, workloads
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.validation.problem import Problem, show

_RESOURCE = ("resource.k8s.io/v1", "resource.k8s.io/v1beta2")
"""v1beta2 has the form of v1; v1beta1 has not (its devices hide under `basic`, its requests lack `exactly`)."""


@dataclass(frozen=True, slots=True)
class Kind:
    name: str
    struct: type[KubeObject]
    api_versions: tuple[str, ...]
    is_namespaced: bool = True


def _by_name(*kinds: Kind) -> Mapping[str, Kind]:
    return {kind.name: kind for kind in kinds}


KINDS: Mapping[str, Kind] = _by_name(
    Kind("Pod", Pod, ("v1",)),
    Kind("Node", Node, ("v1",), is_namespaced=False),
    Kind("Namespace", workloads.Namespace, ("v1",), is_namespaced=False),
    Kind("Service", workloads.Service, ("v1",)),
    Kind("ReplicationController", workloads.ReplicationController, ("v1",)),
    Kind("ReplicaSet", workloads.ReplicaSet, ("apps/v1",)),
    Kind("StatefulSet", workloads.StatefulSet, ("apps/v1",)),
    Kind("PriorityClass", workloads.PriorityClass, ("scheduling.k8s.io/v1",), is_namespaced=False),
    Kind("PodDisruptionBudget", workloads.PodDisruptionBudget, ("policy/v1",)),
    Kind("PodGroup", workloads.PodGroup, ("scheduling.k8s.io/v1alpha2",)),
    Kind("LimitRange", workloads.LimitRange, ("v1",)),
    Kind("RuntimeClass", workloads.RuntimeClass, ("node.k8s.io/v1",), is_namespaced=False),
    Kind("PersistentVolume", storage.PersistentVolume, ("v1",), is_namespaced=False),
    Kind("PersistentVolumeClaim", storage.PersistentVolumeClaim, ("v1",)),
    Kind("StorageClass", storage.StorageClass, ("storage.k8s.io/v1",), is_namespaced=False),
    Kind("CSINode", storage.CSINode, ("storage.k8s.io/v1",), is_namespaced=False),
    Kind("CSIDriver", storage.CSIDriver, ("storage.k8s.io/v1",), is_namespaced=False),
    Kind("CSIStorageCapacity", storage.CSIStorageCapacity, ("storage.k8s.io/v1",)),
    Kind("VolumeAttachment", storage.VolumeAttachment, ("storage.k8s.io/v1",), is_namespaced=False),
    Kind("ResourceClaim", devices.ResourceClaim, _RESOURCE),
    Kind("ResourceClaimTemplate", devices.ResourceClaimTemplate, _RESOURCE),
    Kind("DeviceClass", devices.DeviceClass, _RESOURCE, is_namespaced=False),
    Kind("ResourceSlice", devices.ResourceSlice, _RESOURCE, is_namespaced=False),
)
"""Kinds that are kept as objects."""

WORKLOADS: Mapping[str, Kind] = _by_name(
    Kind("Deployment", workloads.Workload, ("apps/v1",)),
    Kind("ReplicaSet", workloads.Workload, ("apps/v1",)),
    Kind("StatefulSet", workloads.Workload, ("apps/v1",)),
    Kind("DaemonSet", workloads.Workload, ("apps/v1",)),
    Kind("Job", workloads.Workload, ("batch/v1",)),
    Kind("ReplicationController", workloads.Workload, ("v1",)),
)
"""Kinds that stand for pods. Three of them are also kept as objects, for their selectors."""

_IRRELEVANT: Mapping[str, frozenset[str]] = {
    "v1": frozenset(
        ("Binding", "ComponentStatus", "ConfigMap", "Endpoints", "Event", "PodTemplate", "ResourceQuota", "Secret")
    )
    | {"ServiceAccount", "Status"},
    "apps/v1": frozenset({"ControllerRevision"}),
    "batch/v1": frozenset({"CronJob"}),
    "policy/v1": frozenset({"Eviction"}),
}
"""Groups of which every kind is known, so that any other is a slip of the pen. A CronJob has no pods until its hour."""


def kind_of(name: str) -> Kind | None:
    return KINDS.get(name) or WORKLOADS.get(name)


def kind_problem(name: str, api_version: str) -> Problem | None:
    """Why this pair cannot be what its author meant; None for kinds that are known or none of our business."""
    kind = kind_of(name)
    if kind is not None:
        if api_version in kind.api_versions or _is_foreign(api_version):
            return None
        return Problem("apiVersion", show(api_version), " or ".join(kind.api_versions))
    alike = next((known for known in (*KINDS, *WORKLOADS) if known.casefold() == name.casefold()), None)
    if alike is not None:
        return Problem("kind", show(name), alike)
    if api_version in _IRRELEVANT and name not in _IRRELEVANT[api_version]:
        return Problem("kind", show(name), f"one of the kinds of {api_version}: {', '.join(_kinds_in(api_version))}")
    return None


def is_read(name: str, api_version: str) -> bool:
    """Whether objects of this kind can change a decision. A kind of the same name in another group cannot."""
    return kind_of(name) is not None and not _is_foreign(api_version)


def _is_foreign(api_version: str) -> bool:
    """Whether the group belongs to someone else: `serving.knative.dev/v1`, and not `extensions/v1beta1`."""
    group, slash, _ = api_version.partition("/")
    return bool(slash) and "." in group and not group.endswith(".k8s.io")


def _kinds_in(api_version: str) -> list[str]:
    ours = {kind.name for kind in (*KINDS.values(), *WORKLOADS.values()) if api_version in kind.api_versions}
    return sorted(ours | _IRRELEVANT[api_version])
