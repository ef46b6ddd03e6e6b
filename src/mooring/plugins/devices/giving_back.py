"""Release of devices by DynamicResources. PostFilter deallocates claims that keep a pod from all nodes; Unreserve releases
all that a pod holds of its claims when the pod does not go to its node."""

from dataclasses import replace
from functools import partial

from mooring.cluster.claims.claim_ledger import ClaimLedger, claim_id
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.intents import WriteFault
from mooring.framework.contract.points import NoRoom, SchedulerServices
from mooring.framework.contract.status import PluginError, curable, final
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
from mooring.plugins.devices.device_claims import ClaimState, Unresolved, is_reserved_for, is_unwritten
from mooring.plugins.devices.group_claims import idle_group_claims
from mooring.plugins.devices.node_resources import write_taken

READS = 5
"""How often a claim is read after an answer that is not to be relied on."""


def free_devices(context: SchedulingContext, state: ClaimState, services: SchedulerServices) -> NoRoom:
    """Free devices of a claim that no other pod uses, if its allocation keeps the pod from a node."""
    if not state:
        return NoRoom(curable("no new claims to deallocate"))
    for index in sorted(state.unavailable):
        claim = state.claims[index]
        users = claim.status.reserved_for or ()
        if claim is not state.extended and (not users or (len(users) == 1 and is_reserved_for(claim, context.pod))):
            services.want(replace(deallocate(claim), late=partial(_try_again, services, context.pod)))
            return NoRoom(curable("deallocation of ResourceClaim completed"))
    if state.extended is not None and not is_unwritten(state.extended):
        for write in delete_claim(state.extended):
            services.want(write)
        return NoRoom(curable("deletion of ResourceClaim completed"))
    return _unreserve_group(context, services) or NoRoom(curable("still not schedulable"))


def _unreserve_group(context: SchedulingContext, services: SchedulerServices) -> NoRoom | None:
    """Take the group of the pod out of reservedFor of one of its claims, if none of its pods uses them: the next attempt
    can then free the devices, and find others. Raises PluginError."""
    try:
        idle = next(idle_group_claims(context.pod, context.cluster), None)
    except Unresolved as why:
        raise PluginError(str(why)) from why
    if idle is None:
        return None
    withdraw(*idle, context.cluster.claims, services, partial(_try_again, services, context.pod))
    return NoRoom(final("ResourceClaim unreserved for PodGroup"))


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
