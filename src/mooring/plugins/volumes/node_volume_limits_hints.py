"""When a pod that NodeVolumeLimits rejected is worth another attempt: a driver may be able to attach more."""

from typing import cast

from mooring.framework.events import POD, Action, Change, ClusterEvent, Registration
from mooring.model.csi_migration import in_tree_of
from mooring.model.kinds.storage import CSI_NODE, PERSISTENT_VOLUME_CLAIM, VOLUME_ATTACHMENT
from mooring.model.pod import Pod
from mooring.model.storage import CSINode, VolumeAttachment
from mooring.model.volumes import claim_names
from mooring.plugins.hints import has_place, pods_of


def limit_rose(pod: Pod, change: Change) -> bool:
    """Whether a driver can attach more than before. Parity: to lift a limit altogether counts as lowering it to 0."""
    before, now = _limits(cast("CSINode", change.old)), _limits(cast("CSINode", change.new))
    return any(limit > before.get(driver, 0) for driver, limit in now.items())


def volumes_came_free(pod: Pod, change: Change) -> bool:
    """Whether a pod left that had, or was about to have, a volume that may have been attached."""
    old, _ = pods_of(change)
    return old is not None and has_place(old) and (bool(claim_names(old)) or _has_inline(old))


def claim_came(pod: Pod, change: Change) -> bool:
    """Whether it is a claim of the pod."""
    claim = change.new
    if claim is None or claim.namespace != pod.namespace:
        return False
    return any(used.name == claim.name for used in claim_names(pod))


def volume_was_detached(pod: Pod, change: Change) -> bool:
    """Whether that may have been a volume of a driver that the pod needs. For claims nobody looks which that is."""
    attacher = cast("VolumeAttachment", change.old).spec.attacher
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            return True
        in_tree = in_tree_of(volume)
        if in_tree is not None and in_tree.is_on and in_tree.driver == attacher:
            return True
    return False


def _limits(node: CSINode) -> dict[str, int]:
    drivers = node.spec.drivers or ()
    return {driver.name: (driver.allocatable.count or 0) if driver.allocatable else 0 for driver in drivers}


def _has_inline(pod: Pod) -> bool:
    return any(in_tree_of(volume) is not None for volume in pod.spec.volumes or ())


LIMIT_EVENTS = (
    Registration(ClusterEvent(CSI_NODE.event, Action.ADD)),
    Registration(ClusterEvent(CSI_NODE.event, Action.UPDATE), limit_rose),
    Registration(ClusterEvent(POD, Action.DELETE), volumes_came_free),
    Registration(ClusterEvent(PERSISTENT_VOLUME_CLAIM.event, Action.ADD), claim_came),
    Registration(ClusterEvent(VOLUME_ATTACHMENT.event, Action.DELETE), volume_was_detached),
)
