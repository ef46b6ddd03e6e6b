"""The volume controllers of a simulated cluster: claims get their volumes at once, one that is there or a new one.

A volume that is made for a claim can be used on every node that the class allows: where a real driver would have put
it, nobody here knows.
"""

from typing import Protocol

import msgspec

from mooring.cluster.claims.storage_view import StorageView
from mooring.cluster.nodes.shelf import AVAILABLE
from mooring.model.meta import KubeObject, ObjectMeta, Requirement
from mooring.model.pod import NodeSelector, NodeSelectorTerm
from mooring.model.storage import (
    CsiSource,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    PhaseStatus,
    StorageClass,
    TopologyTerm,
    VolumeNodeAffinity,
)
from mooring.model.volume_claims import (
    BIND_COMPLETED,
    is_fully_bound,
    is_kept_for,
    kept_for,
    reference_to,
    selected_node,
)
from mooring.plugins.volumes.choice import fitting_ranks
from mooring.plugins.volumes.claim_kinds import is_delayed
from mooring.plugins.volumes.provisioning import can_provision

BOUND = PhaseStatus(phase="Bound")


class Objects(Protocol):
    """What the controller needs of the cluster that it works on."""

    def create(self, item: KubeObject) -> None: ...

    def update(self, item: KubeObject) -> None: ...


class VolumeController:
    """Told of each change by the driver. Until `begin`, changes are only noted: the cluster is still being set up."""

    def __init__(self, objects: Objects, storage: StorageView) -> None:
        self._objects = objects
        self._storage = storage
        self._has_begun = False
        self._waiting: dict[str, None] = {}
        """Keys of claims without a volume, in order of arrival."""

    def begin(self) -> None:
        for volume in list(self._storage.volumes.values()):
            self._offer(volume)
        self._has_begun = True
        self._serve_all()

    def changed(self, item: KubeObject) -> None:
        """An object was created or changed."""
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
        held = volume.spec.claim_ref
        if not self._has_begun:
            return
        if held is None:
            self._offer(volume)
            self._serve_all()
            return
        claim = self._storage.claims.get(f"{held.namespace}/{held.name}")
        if claim is not None and not is_fully_bound(claim) and is_kept_for(volume, claim):
            self._bind(claim, volume)

    def _offer(self, volume: PersistentVolume) -> None:
        """A volume that nobody said anything of, as in a manifest, is to be had."""
        if volume.spec.claim_ref is None and not volume.status.phase:
            self._objects.update(msgspec.structs.replace(volume, status=PhaseStatus(phase=AVAILABLE)))

    def _serve_all(self) -> None:
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
        """The volume that is kept for the claim, that it names, that suits it, or a new one; None: it has to wait."""
        storage, storage_class = self._storage, self._storage.classes.get(claim.class_name)
        kept = next((v for v in storage.kept_for(claim.key) if is_kept_for(v, claim)), None)
        if kept is not None or claim.spec.volume_name:
            return kept or _free(storage.volumes.get(claim.spec.volume_name))
        waits = storage_class is not None and storage_class.volume_binding_mode and is_delayed(storage, claim)
        if waits and selected_node(claim) is None:
            return None
        shelf = storage.shelf(claim.class_name)
        fitting: list[int] = [] if waits else fitting_ranks(shelf, claim).tolist()
        if fitting:
            return shelf.volumes[fitting[0]]
        if storage_class is None or not can_provision(storage_class):
            return None
        made = new_volume(claim, storage_class)
        self._objects.create(made)
        return storage.volumes.get(made.name)

    def _bind(self, claim: PersistentVolumeClaim, volume: PersistentVolume) -> None:
        """Volume first, then claim; what the volume's change leads to may have bound the claim already."""
        bound = kept_for(volume, claim)
        if bound.status.phase != BOUND.phase or bound is not volume:
            self._objects.update(msgspec.structs.replace(bound, status=BOUND))
        now = self._storage.claims.get(claim.key)
        if now is None or is_fully_bound(now):
            return
        metadata, spec = now.metadata, now.spec
        annotations = {**(metadata.annotations or {}), BIND_COMPLETED: "yes"}
        metadata = msgspec.structs.replace(metadata, annotations=annotations)
        spec = msgspec.structs.replace(spec, volume_name=volume.name)
        self._objects.update(PersistentVolumeClaim(metadata=metadata, spec=spec, status=BOUND))


def new_volume(claim: PersistentVolumeClaim, storage_class: StorageClass) -> PersistentVolume:
    """A volume made for a claim."""
    name = f"pvc-{claim.uid or claim.key.replace('/', '-')}"
    asked = (claim.spec.resources.requests if claim.spec.resources else None) or {}
    return PersistentVolume(
        metadata=ObjectMeta(name=name, uid=name),
        spec=PersistentVolumeSpec(
            capacity={"storage": asked.get("storage", 0)},
            access_modes=claim.spec.access_modes,
            claim_ref=reference_to(claim),
            storage_class_name=claim.class_name,
            volume_mode=claim.spec.volume_mode,
            volume_attributes_class_name=claim.spec.volume_attributes_class_name,
            node_affinity=_reach(storage_class.allowed_topologies),
            csi=CsiSource(driver=storage_class.provisioner, volume_handle=name),
        ),
        status=BOUND,
    )


def _reach(terms: list[TopologyTerm] | None) -> VolumeNodeAffinity | None:
    if not terms:
        return None
    selected = [
        NodeSelectorTerm(
            match_expressions=[
                Requirement(key=line.key, operator="In", values=line.values)
                for line in term.match_label_expressions or ()
            ]
        )
        for term in terms
    ]
    return VolumeNodeAffinity(required=NodeSelector(node_selector_terms=selected))


def _free(volume: PersistentVolume | None) -> PersistentVolume | None:
    return volume if volume is not None and volume.spec.claim_ref is None else None
