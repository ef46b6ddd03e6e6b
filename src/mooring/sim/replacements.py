"""The pod that a controller creates instead of one that is gone, and the claims that belong to it.

A simulation gives the new pod a new name, as the controller would. In an answer to a what-if question a pod and the one that
replaces it are the same: there the new pod has the old name, and so one sees where it moved.
"""

from collections.abc import Mapping

import msgspec

from mooring.drivers.simulated_driver import START_NS, Driver
from mooring.inputs.admission import Admission, ClaimSources, claims_for
from mooring.kit.clock import in_seconds
from mooring.model.meta import KubeObject
from mooring.model.names import TOPOLOGY
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodStatus

_GENERATION = "~"
"""Stands between the uid of the first pod of a name and the number of its replacement. No uid of a server has it."""
_KUBELET = "Node"
"""The owner of the mirror of a static pod, which no controller creates again."""
_NAMED_BY_ORDINAL = "StatefulSet"


def replacement(pod: Pod, number: int, created: str, name: str = "") -> Pod:
    """A new pod from the same template, without a node. `number` makes its uid unique; `name` is for one more pod."""
    first = pod.id.partition(_GENERATION)[0]
    uid = f"{first}{_GENERATION}{number}"
    if _is_as_created(pod):
        # Hot: with what is computed from the template, which the new pod has too: 4 µs instead of 40 µs.
        fresh = pod.with_node("").with_status(PodStatus(phase="Pending")).with_name(name or pod.name, uid)
        meta = fresh.metadata
    else:
        # The API server copies these labels from the node when a pod is bound; a new pod has none yet.
        labels = {key: value for key, value in pod.labels.items() if key not in TOPOLOGY}
        meta = msgspec.structs.replace(pod.metadata, name=name or pod.name, uid=uid, labels=labels)
        spec = msgspec.structs.replace(pod.spec, node_name="")
        fresh = Pod(metadata=meta, spec=spec, status=PodStatus(phase="Pending"))
    meta.resource_version, meta.deletion_timestamp, meta.creation_timestamp = None, None, created
    return fresh


def _is_as_created(pod: Pod) -> bool:
    """Whether neither binding nor the kubelet has changed what the shape and the labels of the pod depend on."""
    status = pod.status
    taken = status.node_allocatable_resource_claim_statuses
    if status.resources is not None or status.allocated_resources is not None or taken is not None:
        return False
    containers = (*(status.container_statuses or ()), *(status.init_container_statuses or ()))
    if any(each.resources is not None or each.allocated_resources is not None for each in containers):
        return False
    if any(condition.type == "PodResizePending" for condition in status.conditions or ()):
        return False
    return not any(key in pod.labels for key in TOPOLOGY)


def claims_with(pod: Pod, sources: ClaimSources) -> list[KubeObject]:
    """The claims that controllers create for a new pod, with uids of their own. Sets the pod's status to name them."""
    claims = claims_for(pod, sources)
    for claim in claims:
        claim.metadata.uid = f"{claim.key}{_GENERATION}{pod.id.rpartition(_GENERATION)[2]}"
    return claims


def volume_claims_of(pod: Pod) -> list[str]:
    """Keys of the claims of its ephemeral volumes, which are deleted with it."""
    return [f"{pod.namespace}/{pod.name}-{volume.name}" for volume in pod.spec.volumes or () if volume.ephemeral]


class PreemptedPods:
    """Pods of a simulation that were preempted, until the pods that their controllers create instead are taken."""

    def __init__(self, driver: Driver, gates: Mapping[str, bool] | None) -> None:
        self._driver, self._gates = driver, gates
        self._lost: list[Pod] = []
        self._names: dict[str, int] = {}
        """By stem of a name, the next number."""
        self._made = 0
        self._created = ""

    def preempted(self, victim: Pod) -> None:
        """Note a victim, which the driver has deleted. Its replacement comes after the attempt: see `take`."""
        if comes_back(victim):
            self._lost.append(victim)

    def take(self) -> list[tuple[Pod, Pod]]:
        """The victims since the last call, each with the pod that replaces it; the caller creates that pod. Its claims are
        there already."""
        if not self._lost:
            return []
        lost, self._lost = self._lost, []
        return [(victim, self._replacement(victim)) for victim in lost]

    def _replacement(self, victim: Pod) -> Pod:
        self._made += 1
        if not self._created:
            known = (item.metadata.creation_timestamp or "" for item in self._driver.objects.values())
            self._created = max(in_seconds(START_NS), *known, "")
        pod = replacement(victim, self._made, self._created, self._new_name(victim))
        for key in volume_claims_of(victim):
            self._driver.delete("PersistentVolumeClaim", key)
        if volume_claims_of(pod) or pod.spec.resource_claims:
            self._create_claims(pod)
        return pod

    def _create_claims(self, pod: Pod) -> None:
        objects = [*self._driver.objects.values()]
        admission = Admission.of(objects, self._gates)
        for claim in claims_with(pod, ClaimSources.of(objects, self._gates)):
            admission.admit(claim)
            self._driver.create(claim)

    def _new_name(self, victim: Pod) -> str:
        """What the controller gives the new pod: the old name for a StatefulSet, else its stem with a number. A number takes
        the place of random letters, so that two runs have the same names."""
        owner = victim.controller()
        if owner is not None and owner.kind == _NAMED_BY_ORDINAL:
            return victim.name
        stem = victim.name.rpartition("-")[0] or victim.name
        known, number = f"{victim.namespace}/{stem}", self._names.get(f"{victim.namespace}/{stem}", 0)
        while f"{stem}-{number}" == victim.name or ("Pod", f"{known}-{number}") in self._driver.objects:
            number += 1
        self._names[known] = number + 1
        return f"{stem}-{number}"


def comes_back(pod: Pod) -> bool:
    """Whether a controller creates the pod again when it is preempted. A pod without a controller is gone."""
    owner = pod.controller()
    return owner is not None and owner.kind != _KUBELET
