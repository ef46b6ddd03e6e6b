"""Claims that members of a pod group share while they are scheduled together.

In one attempt for a group, the first member that needs a claim gets devices for it, and the members that follow count on
the same allocation, although no claim says so yet. Whoever binds first writes it.
"""

from mooring.cluster.claims.claim_ledger import claim_id
from mooring.cluster.pods.pod_groups import GroupCycle
from mooring.framework.context import SchedulingContext
from mooring.framework.status import PluginError
from mooring.model.devices import Allocation, ResourceClaim

_BEGUN = "mooring/claims-begun"
"""In the state of a group cycle: the ids of the claims for which the cycle found devices."""


def pending_in_group(context: SchedulingContext, claim: ResourceClaim) -> ResourceClaim | None:
    """The claim with the allocation that another member of the pod's group is about to give it, in the same attempt for
    the group; None: there is none, or it is of another attempt."""
    cycle = _cycle(context)
    if cycle is None or claim_id(claim) not in cycle.state.get(_BEGUN, ()):
        return None
    return context.cluster.claims.pending(claim)


def offer_to_group(context: SchedulingContext, claim: ResourceClaim) -> bool:
    """Let the members that follow count on the allocation that is now pending. False: the pod is tried alone."""
    cycle = _cycle(context)
    if cycle is None:
        return False
    cycle.state.setdefault(_BEGUN, set()).add(claim_id(claim))
    return context.cluster.claims.share(claim_id(claim), context.pod.id)


def count_on(context: SchedulingContext, claim: ResourceClaim) -> Allocation:
    """The allocation that the group shares: it stays pending for this pod as well. Raises PluginError."""
    pending = pending_in_group(context, claim)
    if pending is None or not context.cluster.claims.share(claim_id(claim), context.pod.id):
        raise PluginError("claim allocation not found for node")
    assert pending.status.allocation is not None, "pending claims have allocations"
    return pending.status.allocation


def _cycle(context: SchedulingContext) -> GroupCycle | None:
    groups = context.cluster.groups
    return groups.cycle_of(context.pod) if groups is not None else None
