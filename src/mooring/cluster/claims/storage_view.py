"""Claims, volumes and storage classes as decisions look them up: with assumed changes, and ordered by class and
claim."""

from collections import defaultdict
from collections.abc import Mapping
from typing import Any, Generic, TypeVar, cast

from mooring.cluster.change_log import ChangeLog
from mooring.cluster.columns.shelf import Shelf
from mooring.cluster.nodes.table import ClusterError
from mooring.model.meta import KubeObject
from mooring.model.storage import (
    CSIDriver,
    CSINode,
    CSIStorageCapacity,
    PersistentVolume,
    PersistentVolumeClaim,
    StorageClass,
    VolumeAttachment,
)

# ---- Objects as the scheduler is about to change them, on top of what the watch shows of them.


T = TypeVar("T", bound=KubeObject)


class Assumed(Generic[T]):
    """Changed copies by key. A copy counts only while the watch shows the version that it was made of.

    Parity: versions are compared as text, so where objects have none a copy stays until it is restored.
    """

    def __init__(self, shown: Mapping[str, T]) -> None:
        self._shown = shown
        self._copies: dict[str, T] = {}

    def get(self, key: str) -> T | None:
        """The object as it is assumed to be, or as the watch shows it."""
        shown = self._shown.get(key)
        copy = self._copies.get(key)
        if shown is None or copy is None:
            return shown
        return copy if _version(copy) == _version(shown) else shown

    def assume(self, copy: T) -> None:
        """From now on `get` returns this copy. Raises ClusterError if the copy was not made of the version that the
        watch shows: the decision for it rests on an old state. The words are upstream's."""
        shown = self._shown.get(copy.key)
        if shown is None:
            raise ClusterError(f'could not find {type(copy).__name__} "{copy.key}"')
        if _version(shown) != _version(copy):
            said = f"stored: {_version(shown)}, assume: {_version(copy)}"
            raise ClusterError(f'{type(copy).__name__} "{copy.key}" is out of sync ({said})')
        self._copies[copy.key] = copy

    def restore(self, key: str) -> None:
        """The copy is no longer what the object is going to be; nothing happens where there is none."""
        self._copies.pop(key, None)

    def refresh(self, key: str) -> None:
        """The watch showed the object anew, or its removal."""
        shown, copy = self._shown.get(key), self._copies.get(key)
        if copy is not None and (shown is None or _version(shown) != _version(copy)):
            del self._copies[key]

    def keys(self) -> set[str]:
        return set(self._copies)

    def adopt(self, other: "Assumed[T]") -> list[str]:
        """Assume what another view of the same objects assumes, and nothing else. Returns the keys that changed."""
        ours, theirs = self._copies, other._copies
        changed = [key for key in {**ours, **theirs} if ours.get(key) is not theirs.get(key)]
        self._copies = dict(theirs)
        return changed


def _version(item: KubeObject) -> str:
    """As text: versions of Kubernetes objects are opaque, so only equality means something."""
    return item.metadata.resource_version or ""


Objects = Mapping[type[KubeObject], dict[str, KubeObject]]

_NOTED = (PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment)
"""Kinds whose changes may alter which volumes the pods of a node use (volumes_on_nodes.py follows them)."""


class StorageView:
    """Follows the objects of the cluster: `changed` is called for each change. The mappings hold what the watch
    shows; the methods know what is assumed as well."""

    def __init__(self, objects: Objects) -> None:
        by_kind: dict[type[KubeObject], Any] = cast("dict[type[KubeObject], Any]", objects)
        self.volumes: dict[str, PersistentVolume] = by_kind[PersistentVolume]
        self.claims: dict[str, PersistentVolumeClaim] = by_kind[PersistentVolumeClaim]
        self.classes: dict[str, StorageClass] = by_kind[StorageClass]
        self.nodes: dict[str, CSINode] = by_kind[CSINode]
        self.drivers: dict[str, CSIDriver] = by_kind[CSIDriver]
        self.capacities: dict[str, CSIStorageCapacity] = by_kind[CSIStorageCapacity]
        self.attachments: dict[str, VolumeAttachment] = by_kind[VolumeAttachment]
        self.changes: ChangeLog[tuple[type[KubeObject], str]] = ChangeLog()
        """Kinds and keys of claims, volumes, classes and attachments."""
        self._assumed_volumes = Assumed(self.volumes)
        self._assumed_claims = Assumed(self.claims)
        self._shelves: dict[str, Shelf] = defaultdict(Shelf)
        """Storage class -> its volumes that no claim has."""
        self._placed: dict[str, PersistentVolume] = {}
        """Volumes as they are on the shelves, or kept for a claim."""
        self._kept: dict[str, dict[str, PersistentVolume]] = defaultdict(dict)
        """Volumes by the key of the claim that they name."""
        self.version = 0
        """Grows with each change, also of what is assumed."""
        self.capacity_version = 0
        """Grows with each change of a CSIStorageCapacity."""
        self.node_version = 0
        """Grows with each change of a CSINode."""

    def changed(self, kind: type[KubeObject], key: str) -> None:
        """The watch showed an object, or its removal."""
        self.version += 1
        if kind is PersistentVolume:
            self._assumed_volumes.refresh(key)
            self._place(key)
        elif kind is PersistentVolumeClaim:
            self._assumed_claims.refresh(key)
        elif kind is CSIStorageCapacity:
            self.capacity_version += 1
        elif kind is CSINode:
            self.node_version += 1
        if kind in _NOTED:
            self.changes.note((kind, key))

    # ---- with what is assumed

    def volume(self, name: str) -> PersistentVolume | None:
        """The volume as it is assumed to be, or as the watch shows it."""
        return self._assumed_volumes.get(name)

    def claim(self, key: str) -> PersistentVolumeClaim | None:
        """The claim as it is assumed to be, or as the watch shows it."""
        return self._assumed_claims.get(key)

    def shelf(self, class_name: str) -> Shelf:
        """The volumes of a class that no claim has. It is sorted here, because between two reads many volumes may
        change."""
        shelf = self._shelves[class_name]
        shelf.sort()
        return shelf

    def kept_for(self, claim_key: str) -> list[PersistentVolume]:
        """The volumes that name a claim, by name."""
        kept = self._kept.get(claim_key)
        return [kept[name] for name in sorted(kept)] if kept else []

    def assume_volume(self, volume: PersistentVolume) -> None:
        """From now on the volume is as in this copy, until the watch shows a new version. Raises ClusterError."""
        self._assumed_volumes.assume(volume)
        self._place(volume.name)

    def restore_volume(self, name: str) -> None:
        """The volume is what the watch shows again: a binding was given up."""
        self._assumed_volumes.restore(name)
        self._place(name)

    def assume_claim(self, claim: PersistentVolumeClaim) -> None:
        """From now on the claim is as in this copy, until the watch shows a new version. Raises ClusterError."""
        self._assumed_claims.assume(claim)
        self.version += 1

    def restore_claim(self, key: str) -> None:
        self._assumed_claims.restore(key)
        self.version += 1

    def is_settled(self) -> bool:
        """Whether nothing is assumed: all is as the watch shows it."""
        return not self._assumed_volumes.keys() and not self._assumed_claims.keys()

    def assumed_claims(self) -> set[str]:
        """Keys of the claims that are about to be bound."""
        return self._assumed_claims.keys()

    def assumed_volumes(self) -> dict[str, str]:
        """By name of a volume that is about to be bound: the key of its claim."""
        found = ((name, self.volume(name)) for name in sorted(self._assumed_volumes.keys()))
        return {name: _claim_key(volume) for name, volume in found if volume is not None}

    def filed(self) -> Mapping[str, PersistentVolume]:
        """By name: the volumes as they are filed under their class and claim. `check` says how they should be."""
        return self._placed

    def file_anew(self, name: str) -> None:
        """File a volume under its class and its claim, whatever it is filed under now."""
        for shelf in self._shelves.values():
            shelf.remove(name)
        for key in [key for key, kept in self._kept.items() if name in kept]:
            self._let_go(key, name)
        self._placed.pop(name, None)
        self._place(name)

    def adopt(self, other: "StorageView") -> None:
        """Assume what another view of the same objects assumes, and nothing else."""
        for name in self._assumed_volumes.adopt(other._assumed_volumes):
            self._place(name)
        if self._assumed_claims.adopt(other._assumed_claims):
            self.version += 1

    def check(self) -> list[str]:
        """The invariants that do not hold, in words."""
        faults = []
        for name in self.volumes:
            volume, placed = self.volume(name), self._placed.get(name)
            if placed is not volume:
                faults.append(f"volume {name} is not filed as it is")
        faults += [f"volume {name} is filed but gone" for name in self._placed if name not in self.volumes]
        for class_name in self._shelves:
            shelf = self.shelf(class_name)
            for volume, offered in zip(shelf.volumes, shelf.offered.tolist(), strict=True):
                current = self.volume(volume.name)
                if offered and (current is not volume or volume.spec.claim_ref is not None):
                    faults.append(f"volume {volume.name} is offered but not to be had")
        return faults

    def _place(self, name: str) -> None:
        """File a volume under its class, and under the claim that it names. `version` grows even if nothing moved:
        its status may have changed."""
        self.version += 1
        volume, before = self.volume(name), self._placed.pop(name, None)
        if before is not None:
            if volume is None or volume.class_name != before.class_name:
                self._shelves[before.class_name].remove(name)
            if before.spec.claim_ref is not None:
                self._let_go(_claim_key(before), name)
        if volume is not None:
            self._placed[name] = volume
            self._shelves[volume.class_name].put(volume)
            if volume.spec.claim_ref is not None:
                self._kept[_claim_key(volume)][name] = volume

    def _let_go(self, claim_key: str, name: str) -> None:
        kept = self._kept[claim_key]
        kept.pop(name, None)
        if not kept:
            del self._kept[claim_key]


def _claim_key(volume: PersistentVolume) -> str:
    held = volume.spec.claim_ref
    return "" if held is None else f"{held.namespace}/{held.name}"
