"""When a pod that VolumeBinding rejected is worth another attempt: its claims may have got volumes, or may get them."""

from typing import cast

from mooring.framework.events import NODE, Action, Change, ClusterEvent, Registration
from mooring.model.csi_migration import MIGRATED_PLUGINS
from mooring.model.kinds.storage import (
    CSI_DRIVER,
    CSI_NODE,
    CSI_STORAGE_CAPACITY,
    PERSISTENT_VOLUME,
    PERSISTENT_VOLUME_CLAIM,
    STORAGE_CLASS,
)
from mooring.model.pod import Pod
from mooring.model.storage import CSIDriver, CSINode, CSIStorageCapacity, StorageClass
from mooring.plugins.volumes.node_volume_limits_hints import claim_came

_CHANGED = Action.ADD | Action.UPDATE


def topologies_changed(pod: Pod, change: Change) -> bool:
    """Whether a class is new, or allows other topologies now."""
    old, new = cast("StorageClass | None", change.old), cast("StorageClass", change.new)
    return old is None or (old.allowed_topologies or []) != (new.allowed_topologies or [])


def migration_changed(pod: Pod, change: Change) -> bool:
    """Whether a node is new to its drivers, or leaves other volumes to them now."""
    old, new = cast("CSINode | None", change.old), cast("CSINode", change.new)
    return old is None or _migrated(old) != _migrated(new)


def capacity_went_unchecked(pod: Pod, change: Change) -> bool:
    """Whether the driver of a volume that the pod has made for itself stopped to report room.

    Parity: claims of that driver's classes are not looked at.
    """
    old, new = cast("CSIDriver", change.old), cast("CSIDriver", change.new)
    if not old.spec.storage_capacity or new.spec.storage_capacity:
        return False
    return any(volume.csi is not None and volume.csi.driver == new.name for volume in pod.spec.volumes or ())


def room_grew(pod: Pod, change: Change) -> bool:
    """Whether a report of room is new, or larger than before."""
    old, new = cast("CSIStorageCapacity | None", change.old), cast("CSIStorageCapacity", change.new)
    if old is None:
        return True
    before, now = old.largest_volume_bytes, new.largest_volume_bytes
    return now is not None and (before is None or now > before)


def _migrated(node: CSINode) -> str:
    return (node.metadata.annotations or {}).get(MIGRATED_PLUGINS, "")


BINDING_EVENTS = (
    Registration(ClusterEvent(STORAGE_CLASS.event, _CHANGED), topologies_changed),
    Registration(ClusterEvent(PERSISTENT_VOLUME_CLAIM.event, _CHANGED), claim_came),
    Registration(ClusterEvent(PERSISTENT_VOLUME.event, _CHANGED)),
    Registration(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
    Registration(ClusterEvent(CSI_NODE.event, _CHANGED), migration_changed),
    Registration(ClusterEvent(CSI_DRIVER.event, Action.UPDATE), capacity_went_unchecked),
    Registration(ClusterEvent(CSI_STORAGE_CAPACITY.event, _CHANGED), room_grew),
)
