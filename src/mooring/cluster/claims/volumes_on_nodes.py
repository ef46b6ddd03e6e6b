"""The volumes that the pods of each node use, kept up to date row by row as pods, claims and volumes change."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.claims.storage_view import StorageView
from mooring.cluster.columns.labels import grown
from mooring.cluster.nodes.table import NodeTable
from mooring.model.pod import Pod
from mooring.model.pod_spec import Volume
from mooring.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass, VolumeAttachment
from mooring.model.volumes import (
    IN_TREE_PLUGINS,
    disks_of,
    driver_of_provisioner,
    handle_of,
    in_tree_of,
    named_claims,
    ownership_fault,
    zones_of,
)

# ---- Names that storage drivers give to the volumes of pods: (driver, handle). One volume counts once on a node


VolumeHandle = tuple[str, str]
"""Driver and handle."""

NO_NAME = "PersistentVolumeClaim had no name"
"""Upstream's words."""


class PodHandles(msgspec.Struct):
    """The volumes of a pod, as far as drivers are concerned; `fault`: why they cannot be determined."""

    handles: set[VolumeHandle] = msgspec.field(default_factory=set)
    native: set[str] = msgspec.field(default_factory=set)
    """The drivers of volumes and classes that name their driver themselves. Others are translated from in-tree plugins."""
    claims: list[str] = msgspec.field(default_factory=list)
    """Keys of the claims that were looked up, found or not."""
    missing: str | None = None
    """Key of the first claim that is not there."""
    fault: str | None = None


def handles_of(storage: StorageView, pod: Pod) -> PodHandles:
    """Volume by volume, until one has a fault."""
    found = PodHandles()
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None or volume.ephemeral is not None:
            found.fault = _add_claim(found, storage, pod, volume)
            if found.fault is not None:
                return found
        else:
            found.handles.update(_inline(volume))
    return found


def _add_claim(found: PodHandles, storage: StorageView, pod: Pod, volume: Volume) -> str | None:
    """Look up the claim of a volume and add its handle. A claim that does not exist is noted in `missing`, for the
    plugin to judge. Returns the fault, if there is one."""
    named = volume.persistent_volume_claim
    name = named.claim_name if named is not None else f"{pod.name}-{volume.name}"
    if not name:
        return NO_NAME
    key = f"{pod.namespace}/{name}"
    found.claims.append(key)
    claim = storage.claims.get(key)
    if claim is None:
        found.missing = found.missing or key
        return None
    fault = ownership_fault(claim, pod) if named is None else None
    handle = None if fault else handle_of_claim(storage, claim)
    if handle is not None:
        found.handles.add(handle)
        if not _is_translated(storage, claim):
            found.native.add(handle[0])
    return fault


def _is_translated(storage: StorageView, claim: PersistentVolumeClaim) -> bool:
    """Whether an in-tree plugin stands behind the claim: behind its volume, or if it has none, behind its class."""
    volume = storage.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
    if volume is not None:
        return volume.spec.csi is None
    storage_class = storage.classes.get(claim.class_name) if claim.class_name else None
    return storage_class is not None and storage_class.provisioner in IN_TREE_PLUGINS


def handle_of_claim(storage: StorageView, claim: PersistentVolumeClaim) -> VolumeHandle | None:
    """The handle of its volume; for a claim without one the driver that will provision it, with a handle that no real
    volume has.

    Upstream counts unbound claims as well: they will be attached once they are bound.
    """
    volume = storage.volumes.get(claim.spec.volume_name) if claim.spec.volume_name else None
    if volume is not None:
        return handle_of_volume(volume)
    storage_class = storage.classes.get(claim.class_name) if claim.class_name else None
    driver = driver_of_provisioner(storage_class.provisioner) if storage_class is not None else ""
    return (driver, f"unbound {claim.key}") if driver else None


def handle_of_volume(volume: PersistentVolume) -> VolumeHandle | None:
    """The handle as the CSI driver knows it; in-tree volumes are translated to the driver that replaced them. None:
    no driver counts it."""
    if volume.spec.csi is not None:
        return _complete(volume.spec.csi.driver, volume.spec.csi.volume_handle)
    in_tree = in_tree_of(volume.spec)
    if in_tree is None:
        return None
    return _complete(in_tree.driver, handle_of(in_tree, volume.spec, zones_of(volume)))


def _inline(volume: Volume) -> Iterator[VolumeHandle]:
    """The handle of a volume that the pod names without a claim."""
    in_tree = in_tree_of(volume)
    handle = None if in_tree is None else _complete(in_tree.driver, handle_of(in_tree, volume))
    if handle is not None:
        yield handle


def _complete(driver: str, handle: str) -> VolumeHandle | None:
    """A handle, unless a part of it is missing: such a volume cannot be identified, and does not count."""
    return (driver, handle) if driver and handle else None


K = TypeVar("K")


class RowVolumes(msgspec.Struct, frozen=True):
    """Volumes and claims that the pods on a node use, and the volumes that are attached to the node."""

    used: frozenset[VolumeHandle] = frozenset()
    attached: frozenset[VolumeHandle] = frozenset()
    """By volume attachments; the driver is the one that attached the volume."""
    named: frozenset[str] = frozenset()
    """Keys of claims that pods name."""
    disks: tuple[Volume, ...] = ()
    """Volumes that pods use without a claim and that conflict with other uses of the same disk (VolumeRestrictions)."""
    claims: frozenset[str] = frozenset()
    """Keys of all claims that were looked up."""
    volumes: frozenset[str] = frozenset()
    """Names of all volumes that were looked up."""
    fault: str | None = None
    """Why the volumes of a pod cannot be determined."""

    def counts(self) -> Counter[str]:
        """Volumes by driver; one that is in use and attached counts once."""
        return Counter(driver for driver, _ in self.used | self.attached)


NOTHING = RowVolumes()
"""Value of the rows without volumes, which are the most. They share it, so that a comparison is quick."""


def volumes_of_row(storage: StorageView, pods: Iterable[Pod], attachments: Sequence[VolumeAttachment]) -> RowVolumes:
    """Worked out anew, from the pods on a node and what is attached to it."""
    pods = [pod for pod in pods if pod.spec.volumes]
    if not pods and not attachments:
        return NOTHING
    found = [handles_of(storage, pod) for pod in pods]
    claims = frozenset(key for each in found for key in each.claims)
    known = (storage.claims.get(key) for key in claims)
    attached = (attachment.spec.source.persistent_volume_name or "" for attachment in attachments)
    return RowVolumes(
        frozenset().union(*(each.handles for each in found)),
        frozenset(_attached(storage, attachments)),
        frozenset(f"{pod.namespace}/{name}" for pod in pods for name in named_claims(pod)),
        tuple(volume for pod in pods for volume in disks_of(pod)),
        claims,
        frozenset((*(claim.spec.volume_name for claim in known if claim), *attached)),
        next((each.fault for each in found if each.fault is not None), None),
    )


def _attached(storage: StorageView, attachments: Sequence[VolumeAttachment]) -> Iterable[VolumeHandle]:
    for attachment in attachments:
        volume = storage.volumes.get(attachment.spec.source.persistent_volume_name or "")
        if attachment.spec.attacher and volume is not None and volume.spec.csi is not None:
            yield attachment.spec.attacher, volume.spec.csi.volume_handle


class VolumesOnNodes:
    """Follows one node table. Call `refresh` before reading."""

    def __init__(self, storage: StorageView, nodes: NodeTable) -> None:
        self._storage = storage
        self.nodes = nodes
        self._position = -1
        """How far the touches of the table, and below the changes of storage, are taken in; -1: not at all."""
        self._changes = -1
        self._rows: dict[int, RowVolumes] = {}
        self.by_driver: dict[str, NDArray[np.int64]] = {}
        """Driver -> for each row how many of its volumes are in use or attached there."""
        self.rows_using: dict[VolumeHandle, set[int]] = defaultdict(set)
        """Rows with pods that use a volume."""
        self.rows_naming: dict[str, set[int]] = defaultdict(set)
        """Key of a claim -> rows with pods that name it."""
        self.rows_with_disks: set[int] = set()
        self.faulty_rows: set[int] = set()
        self._rows_of: dict[tuple[type, str], set[int]] = defaultdict(set)
        """(Kind, key) of a claim or volume -> rows that looked it up: these are looked at again when it changes."""
        self._attachments: dict[str, dict[str, VolumeAttachment]] = defaultdict(dict)
        """By node name, then by key."""
        self._node_of_attachment: dict[str, str] = {}

    def row(self, row: int) -> RowVolumes:
        """Volumes of the node of a row, as of the last `refresh`."""
        return self._rows.get(row, NOTHING)

    def attachments(self, row: int) -> list[VolumeAttachment]:
        """The VolumeAttachments that name the node of a row."""
        return list(self._attachments.get(self.nodes.names[row], {}).values())

    def refresh(self) -> None:
        """Look again at rows whose pods or volumes changed."""
        for _ in self.refresh_in_steps():
            pass

    def refresh_in_steps(self) -> Iterator[None]:
        """Look again at changed rows, one in each step: on many rows it takes long. What changes between two steps is left to
        the next refresh."""
        rows = self._touched_rows()
        for driver, column in self.by_driver.items():
            if len(column) < self.nodes.capacity:
                self.by_driver[driver] = grown(column, self.nodes.capacity)
        for row in rows:
            self._put(row, volumes_of_row(self._storage, self.nodes.pods_on[row], self.attachments(row)))
            yield

    def _touched_rows(self) -> Iterable[int]:
        """The rows to look at again. After a change of a storage class all of them: any unbound claim may have got
        another driver, and classes are rarely changed."""
        touches, changes = self.nodes.touches, self._storage.changes
        touched = touches.since(self._position) if self._position >= 0 else None
        changed = changes.since(self._changes) if self._changes >= 0 else None
        self._position, self._changes = touches.end, changes.end
        if touched is None or changed is None:
            for key in {*self._node_of_attachment, *self._storage.attachments}:
                self._attach(key)
            return range(self.nodes.height)
        rows = set(touched)
        for kind, key in changed:
            rows |= self._attach(key) if kind is VolumeAttachment else self._rows_of.get((kind, key), set())
        return range(self.nodes.height) if any(kind is StorageClass for kind, _ in changed) else rows

    def _attach(self, key: str) -> set[int]:
        """File an attachment under its node. Returns the rows that it concerns, before and now."""
        before, attachment = self._node_of_attachment.pop(key, ""), self._storage.attachments.get(key)
        if before:
            self._attachments[before].pop(key, None)
        now = attachment.spec.node_name if attachment is not None else ""
        if attachment is not None and now:
            self._attachments[now][key] = attachment
            self._node_of_attachment[key] = now
        book = self.nodes.row_book
        return {book[name] for name in (before, now) if name in book}

    def _put(self, row: int, new: RowVolumes) -> None:
        """Replace what is known of a row, and bring every index over rows in line."""
        old = self._rows.get(row, NOTHING)
        if old == new:
            return
        _move(self.rows_using, row, old.used, new.used)
        _move(self.rows_naming, row, old.named, new.named)
        _move(self._rows_of, row, _looked_up(old), _looked_up(new))
        self._put_counts(row, old.counts(), new.counts())
        (self.rows_with_disks.add if new.disks else self.rows_with_disks.discard)(row)
        (self.faulty_rows.add if new.fault else self.faulty_rows.discard)(row)
        self._rows[row] = new

    def _put_counts(self, row: int, old: Counter[str], new: Counter[str]) -> None:
        """A driver gets its column with its first volume."""
        for driver in {*old, *new}:
            if old[driver] != new[driver]:
                column = self.by_driver.get(driver)
                if column is None:
                    column = self.by_driver[driver] = np.zeros(self.nodes.capacity, np.int64)
                column[row] = new[driver]


def _move(book: dict[K, set[int]], row: int, old: frozenset[K], new: frozenset[K]) -> None:
    """Enter the row under what is new, and take it out from under what is gone."""
    for key in old - new:
        rows = book[key]
        rows.discard(row)
        if not rows:
            del book[key]
    for key in new - old:
        book[key].add(row)


def _looked_up(row: RowVolumes) -> frozenset[tuple[type, str]]:
    """The claims and volumes that the row depends on."""
    claims = ((PersistentVolumeClaim, key) for key in row.claims)
    return frozenset((*claims, *((PersistentVolume, name) for name in row.volumes if name)))
