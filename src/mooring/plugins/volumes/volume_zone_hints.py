"""When a pod that VolumeZone rejected is worth another attempt: claims, volumes and nodes may have come together."""

from typing import cast

from mooring.framework.events import NODE, Action, Change, ClusterEvent, Registration
from mooring.model.kinds.storage import PERSISTENT_VOLUME, PERSISTENT_VOLUME_CLAIM, STORAGE_CLASS
from mooring.model.pod import Pod
from mooring.model.storage import WAIT_FOR_FIRST_CONSUMER, PersistentVolume, StorageClass
from mooring.model.volumes import zone_rules
from mooring.plugins.volumes.volume_restrictions_hints import named_claim_came


def class_can_wait(pod: Pod, change: Change) -> bool:
    """Whether claims of the new class wait for their pods: such claims are no obstacle."""
    return cast("StorageClass", change.new).volume_binding_mode == WAIT_FOR_FIRST_CONSUMER


def volume_moved(pod: Pod, change: Change) -> bool:
    """Whether a volume is new, or is somewhere else now."""
    old, new = cast("PersistentVolume | None", change.old), cast("PersistentVolume", change.new)
    return old is None or zone_rules(old) != zone_rules(new)


ZONE_EVENTS = (
    Registration(ClusterEvent(STORAGE_CLASS.event, Action.ADD), class_can_wait),
    Registration(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL)),
    Registration(ClusterEvent(PERSISTENT_VOLUME_CLAIM.event, Action.ADD | Action.UPDATE), named_claim_came),
    Registration(ClusterEvent(PERSISTENT_VOLUME.event, Action.ADD | Action.UPDATE), volume_moved),
)
