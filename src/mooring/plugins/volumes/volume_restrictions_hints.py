"""When a pod that VolumeRestrictions rejected is worth another attempt: a disk or a claim may have come free."""

from mooring.framework.events import NODE, POD, Action, Change, ClusterEvent, Registration
from mooring.model.kinds.storage import PERSISTENT_VOLUME_CLAIM
from mooring.model.pod import Pod
from mooring.model.volumes import collide, disks_of, named_claims
from mooring.plugins.hints import pods_of


def disk_or_claim_came_free(pod: Pod, change: Change) -> bool:
    """Whether a pod of the same namespace left that had a disk or a claim which the waiting pod wants."""
    old, _ = pods_of(change)
    if old is None or old.namespace != pod.namespace:
        return False
    if any(collide(wanted, used) for wanted in disks_of(pod) for used in disks_of(old)):
        return True
    return not set(named_claims(pod)).isdisjoint(named_claims(old))


def named_claim_came(pod: Pod, change: Change) -> bool:
    """Whether it is a claim that the pod names."""
    claim = change.new
    return claim is not None and claim.namespace == pod.namespace and claim.name in named_claims(pod)


RESTRICTION_EVENTS = (
    Registration(ClusterEvent(POD, Action.DELETE), disk_or_claim_came_free),
    Registration(ClusterEvent(NODE, Action.ADD)),
    Registration(ClusterEvent(PERSISTENT_VOLUME_CLAIM.event, Action.ADD), named_claim_came),
)
