"""When a pod that DynamicResources rejected is worth another attempt: its claims, or devices for them, may have come."""

from typing import cast

from mooring.cluster.claims.claim_ledger import claim_id
from mooring.framework.events import NODE, POD, Action, Change, ClusterEvent, Registration
from mooring.model.devices import ResourceClaim
from mooring.model.kinds.devices import DEVICE_CLASS, RESOURCE_CLAIM, RESOURCE_SLICE
from mooring.model.pod import Pod
from mooring.plugins.devices.claims import Unresolved, claims_of
from mooring.plugins.hints import is_itself

_CHANGED = Action.ADD | Action.UPDATE


def claim_matters(pod: Pod, change: Change) -> bool:
    """Whether devices were given back, whoever had them, or the status of a claim of the pod changed.

    Parity: it is not even asked while a claim of the pod is missing.
    """
    old, new = cast("ResourceClaim | None", change.old), cast("ResourceClaim", change.new)
    try:
        own = {claim_id(claim) for claim in claims_of(pod, change.cluster.claims)}
    except Unresolved:
        return False
    if old is not None and old.status.allocation is not None and new.status.allocation is None:
        return True
    return claim_id(new) in own and (old is None or old.status != new.status)


def pod_got_claims(pod: Pod, change: Change) -> bool:
    """Whether it is the pod itself, and all its claims are there now."""
    if not is_itself(pod, change):
        return False
    try:
        claims_of(cast("Pod", change.new), change.cluster.claims)
    except Unresolved:
        return False
    return True


DEVICE_EVENTS = (
    Registration(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE)),
    Registration(ClusterEvent(RESOURCE_CLAIM.event, _CHANGED), claim_matters),
    Registration(ClusterEvent(POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM), pod_got_claims),
    Registration(ClusterEvent(DEVICE_CLASS.event, _CHANGED)),
    Registration(ClusterEvent(RESOURCE_SLICE.event, _CHANGED)),
)
