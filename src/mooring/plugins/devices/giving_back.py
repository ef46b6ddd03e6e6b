"""Release of devices by DynamicResources. PostFilter deallocates claims that keep a pod from all nodes; Unreserve releases
all that a pod holds of its claims when the pod does not go to its node."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

from mooring.cluster.claims.claim_ledger import ClaimLedger, claim_id
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.group_points import GroupFitError
from mooring.framework.contract.intents import WriteFault
from mooring.framework.contract.points import NoRoom, SchedulerServices
from mooring.framework.contract.status import PluginError, Rejection, curable
from mooring.model.devices import ResourceClaim
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.plugins.devices.allocation import (
    Late,
    allocated,
    deallocate,
    delete_claim,
    give_back_reservation,
    is_unreliable,
    read_again,
)
from mooring.plugins.devices.claim_rules import idle_group_claims
from mooring.plugins.devices.device_claims import ClaimState, Unresolved, is_reserved_for, is_unwritten
from mooring.plugins.devices.node_resources import write_taken

READS = 5
"""How often a claim is read after an answer that is not to be relied on."""


def free_devices(context: SchedulingContext, state: ClaimState, services: SchedulerServices) -> NoRoom:
    """Free devices of a claim that no other pod uses, if its allocation keeps the pod from a node. Without such a claim
    there is nothing to say."""
    if not state:
        return NoRoom(curable())
    freed = free_claim(context, state, services)
    return NoRoom(curable() if freed is None else curable(freed))


def free_claim(context: SchedulingContext, state: ClaimState, services: SchedulerServices) -> str | None:
    """Deallocate one claim that keeps the pod from a node, or delete the claim for its extended resources. Returns what was
    done; None: there is nothing to free."""
    for index in sorted(state.unavailable):
        claim = state.claims[index]
        users = claim.status.reserved_for or ()
        if claim is not state.extended and (not users or (len(users) == 1 and is_reserved_for(claim, context.pod))):
            services.want(replace(deallocate(claim), late=partial(_try_again, services, context.pod)))
            return "deallocation of ResourceClaim completed"
    if state.extended is not None and not is_unwritten(state.extended):
        for write in delete_claim(state.extended):
            services.want(write)
        return "deletion of ResourceClaim completed"
    return None


def free_for_group(
    failure: GroupFitError, states: Sequence[ClaimState | None], services: SchedulerServices
) -> Rejection:
    """Free devices for a pod group that does not fit: one claim for each member that was tried, as for a single pod. If one
    of them has none, a claim of the group, unless a member uses those. `states` are those of the members; None: it was not
    tried. Raises PluginError.

    Parity: the answer is the same whether or not a claim was freed.
    """
    tried = [(c, s) for c, s in zip(failure.contexts, states, strict=True) if c is not None and s is not None]
    freed = [free_claim(context, state, services) if state else None for context, state in tried]
    if None in freed and failure.cluster.claims.has_group_claims:
        found = _free_group_claim(failure, [state for _, state in tried if state], services)
        if found is not None:
            return curable(found)
    return curable("deallocation and deletion of ResourceClaims completed")


def _free_group_claim(failure: GroupFitError, states: Sequence[ClaimState], services: SchedulerServices) -> str | None:
    """Deallocate a claim that keeps members from nodes and that only the group uses; or else take the group out of
    reservedFor of one of its claims, so that the next attempt can free the devices. Nothing while a member has a node."""
    pod, groups = failure.members[0], failure.cluster.groups
    if groups is None or groups.scheduled(failure.name.key):
        return None
    for state in states:
        for index in sorted(state.unavailable):
            claim = state.claims[index]
            users = claim.status.reserved_for or ()
            if not users or [user.uid for user in users] == [failure.group.uid]:
                services.want(replace(deallocate(claim), late=partial(_try_again, services, pod)))
                return "deallocation of PodGroup ResourceClaim completed"
    try:
        idle = next(idle_group_claims(pod, failure.cluster), None)
    except Unresolved as why:
        raise PluginError(str(why)) from why
    if idle is None:
        return None
    withdraw(*idle, failure.cluster.claims, services, partial(_try_again, services, pod))
    return "ResourceClaim unreserved for PodGroup"


def _try_again(services: SchedulerServices, pod: Pod, answer: object) -> None:
    """The claim could not be freed, because it changed meanwhile: no event may come that wakes the pod."""
    if isinstance(answer, WriteFault):
        services.activate((pod,))


def withdraw(
    claim: ResourceClaim, uid: str, ledger: ClaimLedger, services: SchedulerServices, then: Late | None = None
) -> None:
    """Take a pod or a group out of reservedFor, then call `then` with the answer.

    After an answer that is not to be relied on the claim is read: a reservation that is gone must not be taken for one
    that the next attempt has.
    """
    answered = ledger.give_back(claim, uid)

    def heard(tries: int, answer: KubeObject | WriteFault | None) -> None:
        if isinstance(answer, WriteFault) and is_unreliable(answer) and tries:
            services.want(replace(read_again(claim), late=partial(heard, tries - 1)))
            return
        answered(answer)
        if then is not None:
            then(answer)

    services.want(replace(give_back_reservation(claim, uid), late=partial(heard, READS)))


def give_back(context: SchedulingContext, state: ClaimState, services: SchedulerServices) -> None:
    """Give back allocations that were never written, unless other pods count on them, and reservations that were."""
    ledger, pod = context.cluster.claims, context.pod
    for index, claim in enumerate(state.claims):
        if state.extended is not None and index == len(state.claims) - 1:
            _give_up_extended(context, state, claim, services)
            continue
        if index in state.allocations:
            ledger.leave(claim_id(claim), pod.id)
        if claim.status.allocation is not None and is_reserved_for(claim, pod):
            withdraw(claim, pod.id, ledger, services)
    state.allocations.clear()
    if state.node_resources:
        services.want(write_taken(pod, None))


def _give_up_extended(
    context: SchedulingContext, state: ClaimState, claim: ResourceClaim, services: SchedulerServices
) -> None:
    """Delete a claim that was created for this attempt; until that is done its devices count as taken."""
    ledger, pending = context.cluster.claims, claim_id(claim)
    if is_unwritten(claim):
        ledger.end(pending)
        return
    allocation = state.allocations.get(len(state.claims) - 1)
    if allocation is not None:
        ledger.begin(allocated(claim, allocation))
    for write in delete_claim(claim, lambda answer: ledger.settle(pending)):
        ledger.doubt(pending)
        services.want(write)
