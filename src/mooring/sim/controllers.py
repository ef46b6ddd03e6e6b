"""The controllers of a simulated cluster: pods instead of those that are gone, their claims, and volumes for claims.

They act at once, by the rules in `rules/` that the controllers of the embedded cluster use. A volume that is provisioned for
a claim can be used on every node that the class allows: which node a real driver would choose is not known here.
"""

from collections.abc import Mapping

import msgspec

from mooring.cluster.claims.storage_view import StorageView
from mooring.cluster.columns.shelf import AVAILABLE
from mooring.drivers.simulated_driver import START_NS, Driver
from mooring.inputs.admission import Admission, ClaimSources, claims_for
from mooring.kit.clock import in_seconds
from mooring.model.devices import ResourceClaim, ResourceClaimStatus
from mooring.model.meta import KubeObject
from mooring.model.names import TOPOLOGY
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodStatus
from mooring.model.storage import PersistentVolume, PersistentVolumeClaim, PhaseStatus, StorageClass
from mooring.model.volumes import is_fully_bound, is_kept_for, kept_for, selected_node
from mooring.model.workloads import PodGroup
from mooring.plugins.volumes.volume_choice import fitting_ranks
from mooring.plugins.volumes.volume_claims import is_delayed
from mooring.rules.claims_and_volumes import (
    binding_marks,
    can_provision,
    chosen_volume,
    owning_pod,
    preference,
    provisioned,
    with_users,
)
from mooring.rules.evictions import comes_back

# ---- The pod that a controller creates instead of one that is gone, and the claims that belong to it. A simulation gives
# the new pod a new name, as the controller would. In an answer to a what-if question a pod and the one that replaces it are
# the same: there the new pod has the old name, and so one sees where it moved.

_GENERATION = "~"
"""Stands between the uid of the first pod of a name and the number of its replacement. No uid of a server has it."""
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
        """Create the pod with which a controller replaces an evicted pod. Its ephemeral claims are deleted and created again,
        because they belong to the pod."""
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
        """Name of the new pod that the controller creates: the old name for a StatefulSet, otherwise the stem of the old name
        with a number. A number replaces random letters, so that two runs have the same names."""
        owner = victim.controller()
        if owner is not None and owner.kind == _NAMED_BY_ORDINAL:
            return victim.name
        stem = victim.name.rpartition("-")[0] or victim.name
        known, number = f"{victim.namespace}/{stem}", self._names.get(f"{victim.namespace}/{stem}", 0)
        while f"{stem}-{number}" == victim.name or ("Pod", f"{known}-{number}") in self._driver.objects:
            number += 1
        self._names[known] = number + 1
        return f"{stem}-{number}"


# ---- resource claims


def free_claims(driver: Driver, item: KubeObject) -> None:
    """Free the claims of a pod or a pod group that is gone, and delete those that were created for it."""
    if not isinstance(item, Pod | PodGroup) or not _may_have_claims(item):
        return
    user_id = item.id if isinstance(item, Pod) else item.uid
    for claim in [each for each in driver.objects.values() if isinstance(each, ResourceClaim)]:
        if any(user.uid == user_id for user in claim.status.reserved_for or ()):
            driver.update(_without(claim, user_id))
        if _is_made_for(claim, item):
            # After the update: the loss of its devices is what wakes pods.
            driver.delete("ResourceClaim", claim.key)


def _may_have_claims(item: Pod | PodGroup) -> bool:
    is_served = isinstance(item, Pod) and item.status.extended_resource_claim_status is not None
    return bool(item.spec.resource_claims) or is_served


def _is_made_for(claim: ResourceClaim, item: Pod | PodGroup) -> bool:
    if isinstance(item, Pod):
        return owning_pod({"metadata": msgspec.to_builtins(claim.metadata)}) == (item.name, item.uid)
    owner = claim.controller()
    return owner is not None and owner.uid == item.uid


def _without(claim: ResourceClaim, user_id: str) -> ResourceClaim:
    """The claim without a reservation; after the last one it also loses its devices."""
    users = [msgspec.to_builtins(user) for user in claim.status.reserved_for or () if user.uid != user_id]
    left = with_users(msgspec.to_builtins(claim.status), users)
    return msgspec.structs.replace(claim, status=msgspec.convert(left, ResourceClaimStatus))


# ---- volumes

BOUND = PhaseStatus(phase="Bound")


class VolumeController:
    """Binds claims to volumes. The driver calls `changed` for each change.

    Before `begin` it only notes changes: while the cluster is being set up, the volume of a claim may not be there yet.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._storage: StorageView = driver.scheduler.cluster.storage
        self._has_begun = False
        self._waiting: dict[str, None] = {}
        """Keys of claims without a volume, in the order of their creation."""

    def begin(self) -> None:
        for volume in list(self._storage.volumes.values()):
            self._offer(volume)
        self._has_begun = True
        self._serve_all()

    def changed(self, item: KubeObject) -> None:
        """An object was created or changed; binds what can be bound now."""
        if isinstance(item, Pod):
            return  # Hot: most changes, and `isinstance` takes three times as long where a struct is of another class
        if isinstance(item, PersistentVolumeClaim):
            if is_fully_bound(item):
                self._waiting.pop(item.key, None)
            else:
                self._waiting[item.key] = None
                if self._has_begun:
                    self._serve(item)
        elif isinstance(item, PersistentVolume):
            self._volume_changed(item)
        elif isinstance(item, StorageClass) and self._has_begun:
            self._serve_all()

    def _volume_changed(self, volume: PersistentVolume) -> None:
        """Serve the claim that the volume is reserved for, or all waiting claims if the volume is free."""
        held = volume.spec.claim_ref
        if not self._has_begun:
            return
        if held is None:
            self._offer(volume)
            self._serve_all()
            return
        claim = self._storage.claims.get(f"{held.namespace}/{held.name}")
        if claim is not None and not is_fully_bound(claim) and is_kept_for(volume, claim):
            self._serve(claim)

    def _offer(self, volume: PersistentVolume) -> None:
        """Make a volume without a phase, as manifests have them, Available."""
        if volume.spec.claim_ref is None and not volume.status.phase:
            self._driver.update(msgspec.structs.replace(volume, status=PhaseStatus(phase=AVAILABLE)))

    def _serve_all(self) -> None:
        """Try to bind or provision all waiting claims. Claims that are gone are forgotten."""
        for key in list(self._waiting):
            claim = self._storage.claims.get(key)
            if claim is None:
                del self._waiting[key]
            elif not is_fully_bound(claim):
                self._serve(claim)

    def _serve(self, claim: PersistentVolumeClaim) -> None:
        volume = self._volume_for(claim)
        if volume is not None:
            self._bind(claim, volume)

    def _volume_for(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """The volume that is reserved for the claim, that it names, that fits it best, or a new one; None: it waits."""
        storage, storage_class = self._storage, self._storage.classes.get(claim.class_name)
        chosen = self._chosen(claim)
        if chosen is not None or claim.spec.volume_name:
            return chosen
        waits = storage_class is not None and storage_class.volume_binding_mode and is_delayed(storage, claim)
        if waits and selected_node(claim) is None:
            return None
        shelf = storage.shelf(claim.class_name)
        fitting: list[int] = [] if waits else fitting_ranks(shelf, claim).tolist()
        if fitting:
            return min((shelf.volumes[rank] for rank in fitting), key=_preference)
        if storage_class is None or not can_provision(storage_class.provisioner):
            return None
        made = new_volume(claim, storage_class)
        self._driver.create(made)
        return storage.volumes.get(made.name)

    def _chosen(self, claim: PersistentVolumeClaim) -> PersistentVolume | None:
        """The volume that the user or the scheduler has chosen, if it is free."""
        volumes = self._storage.volumes
        named, naming = volumes.get(claim.spec.volume_name), self._storage.kept_for(claim.key)
        if named is None and not naming:
            return None
        plain = None if named is None else msgspec.to_builtins(named)
        found = chosen_volume(msgspec.to_builtins(claim), plain, map(msgspec.to_builtins, naming))
        return None if found is None else volumes.get(found["metadata"]["name"])

    def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        """Update the volume, then the claim, unless a callback of the first update has bound the claim already."""
        bound = kept_for(volume, claim)
        if bound.status.phase != BOUND.phase or bound is not volume:
            self._driver.update(msgspec.structs.replace(bound, status=BOUND))
        now = self._storage.claims.get(claim.key)
        if now is None or is_fully_bound(now):
            return
        metadata, spec = now.metadata, now.spec
        annotations = {**(metadata.annotations or {}), **binding_marks(bool(spec.volume_name))}
        metadata = msgspec.structs.replace(metadata, annotations=annotations)
        spec = msgspec.structs.replace(spec, volume_name=volume.name)
        self._driver.update(PersistentVolumeClaim(metadata=metadata, spec=spec, status=BOUND))


def new_volume(claim: PersistentVolumeClaim, storage_class: StorageClass) -> PersistentVolume:
    """A volume that is provisioned for a claim."""
    made = provisioned(msgspec.to_builtins(claim), msgspec.to_builtins(storage_class), None)
    volume = msgspec.convert(made, PersistentVolume)
    volume.metadata.uid, volume.status = volume.name, BOUND
    return volume


def _preference(volume: PersistentVolume) -> tuple[int, int, str]:
    return preference(volume.spec.access_modes or (), volume.capacity_nano, volume.name)
