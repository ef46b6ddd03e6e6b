"""PreBind of DynamicResources: write which claim gets which device, then wait until the devices are prepared.

The work is a generator of writes and pauses. It can be stopped at any of them (the pod is deleted, the scheduler
stops), also while a write is under way. Then it is not known whether the API server carried the write out, and the
devices must count as taken until the answer comes: otherwise two claims could get one device. Most of this module is
about that.

Invariants: a claim that is being written is pending or in doubt in the ledger; every write has a `late` answer, which
settles the doubt when the work is gone; at most one pod at a time writes a claim (`turns`), and it writes the
reservations of the waiting pods along with its own; an allocation stays pending until the whole work of a pod that wrote it
has succeeded, or the last pod that counts on it has given up.
"""

from collections.abc import Generator, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from mooring.cluster.claims.claim_ledger import ClaimLedger, claim_id
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.intents import Record, Write, WriteFault
from mooring.framework.contract.points import Pause, PodGone, SchedulerServices, Work
from mooring.framework.contract.status import PluginError
from mooring.kit.clock import NS_PER_S, in_seconds
from mooring.model.devices import Allocation, ClaimConsumer, ResourceClaim
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.plugins.devices.allocation import (
    FAILED,
    FINALIZER,
    TIMEOUT,
    BindingFailed,
    ClaimMetrics,
    add_finalizer,
    allocated,
    create_extended,
    is_overdue,
    is_prepared,
    is_unreliable,
    must_be_prepared,
    name_extended,
    read_again,
    results_of,
    write_status,
)
from mooring.plugins.devices.device_claims import ClaimState, is_reserved_for, is_unwritten
from mooring.plugins.devices.giving_back import withdraw
from mooring.plugins.devices.node_resources import write_taken

# ---- The wait for devices that must be prepared before the pod is bound: their drivers report on that in the claims.


POLL_NS = 5 * NS_PER_S
"""Upstream polls for binding conditions every five seconds as well; changes of the claims wake it earlier here."""


def wait_until_prepared(
    state: ClaimState, ledger: ClaimLedger, services: SchedulerServices, metrics: ClaimMetrics, timeout_ns: int
) -> Generator[Pause, KubeObject | WriteFault | None, None]:
    """Wait for binding conditions; the metrics record every way out."""
    began_ns, status = services.now_ns(), "success"
    deadline_ns = began_ns + timeout_ns
    watched = frozenset((ResourceClaim, claim.key) for claim in state.claims)
    try:
        while not _are_prepared(state, ledger, timeout_ns, services.now_ns()):
            if services.now_ns() >= deadline_ns:
                raise PluginError(f"{TIMEOUT}: context deadline exceeded")
            yield Pause(min(services.now_ns() + POLL_NS, deadline_ns), watched)
    except PluginError as fault:
        text = str(fault)
        status = "timeout" if text.startswith(TIMEOUT) else "failure" if text.startswith(FAILED) else "error"
        raise
    except (GeneratorExit, PodGone):
        status = "error"
        raise
    finally:
        devices = [result for claim in state.claims for result in results_of(claim)]
        metrics.waited(devices, status, (services.now_ns() - began_ns) / NS_PER_S)


def _are_prepared(state: ClaimState, ledger: ClaimLedger, timeout_ns: int, now_ns: int) -> bool:
    """Whether all claims are prepared, by the newest that the watch showed. The first that is not decides."""
    for index, claim in enumerate(state.claims):
        if is_unwritten(claim):
            continue
        known = ledger.get(claim.key)
        if known is None:
            raise PluginError(f'could not find ResourceClaim "{claim.key}"')
        state.claims[index] = known
        try:
            if is_prepared(known):
                continue
        except BindingFailed as fault:
            raise PluginError(str(fault)) from fault
        if is_overdue(known, timeout_ns, now_ns):
            raise PluginError(f"{TIMEOUT}: claim={known.name}")
        return False
    return True


ATTEMPTS = 5
"""How often a claim is written that other clients change at the same time."""
SHOWN_NS = 120 * NS_PER_S
"""How long to wait until the watch shows a claim that was created; after that it is taken as shown."""
CONFLICT = 409
RETRY_NS = NS_PER_S // 100
"""How long to wait when another client wrote the claim at the same time. Upstream waits ten milliseconds as well."""
MAX_CONSUMERS = 256
"""Entries in reservedFor of one claim (ResourceClaimReservedForMaxSize)."""

Steps = Generator[Write | Pause, KubeObject | WriteFault | None, ResourceClaim]


class ClaimWork:
    """The work of one binding."""

    # State of the claim that is being written: `_bind` sets these fields.
    _is_asking: bool
    """Whether a write is under way."""
    _is_in_doubt: bool
    """Whether a write got no answer to rely on, so that it is not known whether it was carried out."""
    _consumer: ClaimConsumer
    """Whom the claim is reserved for: the pod, or its group."""
    _pending: str
    """The id under which the claim is pending in the ledger."""

    def __init__(
        self,
        context: SchedulingContext,
        state: ClaimState,
        services: SchedulerServices,
        binding_timeout_ns: int | None,
        metrics: ClaimMetrics,
    ) -> None:
        self._pod: Pod = context.pod
        self._ledger: ClaimLedger = context.cluster.claims
        self._state = state
        self._services = services
        self._metrics = metrics
        self._timeout_ns = binding_timeout_ns
        """None: devices need no preparation."""
        self._along: list[ClaimConsumer] = []
        """Other pods whose reservation is in a write that is not answered yet."""
        self._bound: set[int] = set()
        """The places of claims that this work has written."""

    def run(self, node_name: str) -> Work:
        """Claim by claim, in order; then wait for the devices."""
        state, pod = self._state, self._pod
        for index in range(len(state.claims)):
            is_extended = state.extended is not None and index == len(state.claims) - 1
            yield from self._wait_for_own_release(index)
            if is_extended and index not in state.allocations:
                continue
            if not self._is_reserved(state.claims[index]):
                bind = self._bind(index, True) if is_extended else self._bind_in_turn(index)
                state.claims[index] = yield from bind
        if state.node_resources:
            write = write_taken(pod, state.node_resources)
            yield from self._write_pod(write, f"updating pod {pod.key} NodeAllocatableResourceClaimStatuses")
        if self._timeout_ns is not None and any(map(must_be_prepared, state.claims)):
            note = f"waiting for binding conditions for device on node {node_name}"
            self._services.want(Record(pod, "Normal", "BindingConditionsPending", "Scheduling", note))
            yield from wait_until_prepared(state, self._ledger, self._services, self._metrics, self._timeout_ns)
        self._settle()
        return None

    def _settle(self) -> None:
        """All claims are bound: what was written is not pending any more. Another member of the group may have written a
        shared claim, and may be gone."""
        for index, claim in enumerate(self._state.claims):
            if index in self._bound:
                self._ledger.end_for_all(claim_id(claim))
            elif self._state.is_shared(index):
                self._ledger.leave(claim_id(claim), self._pod.id)

    # ---- one claim

    def _wait_for_own_release(self, index: int) -> Generator[Pause, KubeObject | WriteFault | None, None]:
        """Wait while the pod is still giving the claim back, after an attempt that failed: a reservation that is about
        to be removed must not be taken for one that stays."""
        claim, consumer = self._state.claims[index], self._state.consumer(index, self._pod)
        while self._ledger.is_given_back(claim, consumer.uid):
            yield _pause_for(claim)
        self._refresh(index)

    def _refresh(self, index: int) -> ResourceClaim:
        """The claim as the ledger knows it by now; a claim of the same name with another uid is not it."""
        claim = self._state.claims[index]
        known = self._ledger.get(claim.key)
        if known is not None and known.uid == claim.uid:
            self._state.claims[index] = claim = known
        return claim

    def _bind_in_turn(self, index: int) -> Steps:
        """Write the claim when no other pod is writing it. Meanwhile the writing pod may write this pod's reservation
        too."""
        claim, turns = self._state.claims[index], self._ledger.turns
        turn_id, consumer = claim_id(claim), None
        if self._state.allocations.get(index) is None or self._state.is_shared(index):
            consumer = self._state.consumer(index, self._pod)
        is_served = False
        try:
            while not turns.take(turn_id, self._pod.id, consumer):
                yield _pause_for(claim)
                if consumer is not None and self._is_reserved(self._refresh(index)):
                    is_served = True
                    return self._state.claims[index]
            self._refresh(index)
            claim = yield from self._bind(index, False)
            is_served = True
            return claim
        finally:
            turns.leave(turn_id, self._pod.id, is_served)

    def _bind(self, index: int, is_extended: bool) -> Steps:
        """Write the claim. Until all claims are written, or one has failed, its devices count as taken.

        If the work is stopped while a write is under way they go on counting as taken until the answer comes.
        """
        claim, allocation, is_written = self._state.claims[index], self._state.allocations.get(index), False
        self._pending, self._is_asking, self._is_in_doubt = claim_id(claim), False, False
        self._consumer = self._state.consumer(index, self._pod)
        try:
            if is_extended and is_unwritten(claim):
                claim = yield from self._create(allocation)
            claim = yield from self._write(claim, allocation, self._state.is_shared(index))
            if is_extended:
                yield from self._wait_until_shown(claim)
                named = name_extended(self._pod, claim, self._state.mappings)
                yield from self._write_pod(named, f"update pod {self._pod.key} ExtendedResourceClaimStatus")
            else:
                self._ledger.wrote(claim)
            is_written = True
            self._bound.add(index)
        except (GeneratorExit, PodGone):
            if allocation is not None and (self._is_asking or self._is_in_doubt):
                self._leave_in_doubt(claim)
            raise
        finally:
            if not is_written:
                self._ledger.leave(self._pending, self._pod.id)
            if not self._is_asking:
                self._ledger.turns.end(self._pending, self._along)
        return claim

    def _leave_in_doubt(self, claim: ResourceClaim) -> None:
        """Make sure that the outcome of the last write becomes known: by its answer, or else by reading the claim."""
        self._ledger.doubt(self._pending)
        if not self._is_asking:
            self._services.want(self._followed(read_again(claim), ATTEMPTS))

    def _write(self, claim: ResourceClaim, allocation: Allocation | None, is_shared: bool) -> Steps:
        """Finalizer, allocation and reservation. On a conflict the claim is read and the write is tried again. Of an
        allocation that is shared only the reservation is left if another member wrote it first.

        The same goes for a write that got no answer, or none to rely on: a write is for one version of the claim only,
        so it does no harm the second time, and the first cannot be carried out any more once the second was.
        """
        for attempt in range(ATTEMPTS):
            if attempt:
                claim = yield from self._read_again(claim)
            if self._is_in_doubt and self._is_ours(claim, allocation):
                return claim
            allocation = None if is_shared and _has(claim, allocation) else allocation
            if attempt and allocation is None and self._is_reserved(claim):
                return claim  # another pod wrote it along
            self._check(claim, allocation)
            what = "add finalizer to claim"
            answer: ResourceClaim | WriteFault = claim
            if allocation is not None and FINALIZER not in (claim.metadata.finalizers or ()):
                answer = yield from self._ask(add_finalizer(claim))
            if not isinstance(answer, WriteFault):
                what = "add reservation to claim" if allocation is None else "add allocation and reservation to claim"
                consumers = self._consumers(answer)
                answer = yield from self._ask(self._reservation(answer, allocation, consumers), consumers)
            self._is_in_doubt = isinstance(answer, WriteFault) and is_unreliable(answer)
            if not isinstance(answer, WriteFault):
                return answer
            if self._is_in_doubt:
                yield Pause(self._services.now_ns() + NS_PER_S)
            elif answer.code == CONFLICT:
                yield Pause(self._services.now_ns() + RETRY_NS)
            else:
                break
        if self._is_in_doubt:
            claim = yield from self._read_again(claim)
            if self._is_ours(claim, allocation):
                return claim
        assert isinstance(answer, WriteFault), "what was written was returned"
        raise PluginError(f"{what} {claim.key}: {answer.message}")

    def _read_again(self, claim: ResourceClaim) -> Steps:
        """The claim as it is on the server, which is asked until it gives an answer to rely on."""
        found = yield from self._ask(read_again(claim))
        while isinstance(found, WriteFault) and is_unreliable(found):
            yield Pause(self._services.now_ns() + NS_PER_S)
            found = yield from self._ask(read_again(claim))
        if isinstance(found, WriteFault):
            raise PluginError(f"get updated claim {claim.key} after conflict: {found.message}")
        if found.uid != claim.uid:  # another one of that name, which may ask for something else
            raise PluginError(f"claim {claim.key} got deleted in the meantime")
        self._ledger.wrote(found)
        return found

    def _is_ours(self, claim: ResourceClaim, allocation: Allocation | None) -> bool:
        """Whether a write of this work was carried out after all."""
        if claim.status.allocation is None or not self._is_reserved(claim):
            return False
        return allocation is None or _has(claim, allocation)

    def _is_reserved(self, claim: ResourceClaim) -> bool:
        return is_reserved_for(claim, self._pod, self._ledger.has_group_claims)

    def _check(self, claim: ResourceClaim, allocation: Allocation | None) -> None:
        """Raise PluginError if another client changed the claim so that the pod cannot be bound. The texts are upstream's."""
        if claim.metadata.deletion_timestamp is not None:
            raise PluginError(f"claim {claim.key} got deleted in the meantime")
        if allocation is not None and claim.status.allocation is not None:
            raise PluginError(f"claim {claim.key} got allocated elsewhere in the meantime")
        if allocation is None and claim.status.allocation is None and self._timeout_ns is not None:
            raise PluginError(f"claim {claim.key} got deallocated elsewhere in the meantime")

    def _consumers(self, claim: ResourceClaim) -> list[ClaimConsumer]:
        """This pod or its group, and as many of those that wait for their reservation as the claim has room for."""
        known = claim.status.reserved_for or ()
        reserved = {self._consumer.uid, *(each.uid for each in known)}
        waiting = {each.uid: each for each in self._ledger.turns.consumers(claim_id(claim))}
        others = [each for uid, each in waiting.items() if uid not in reserved]
        return [self._consumer, *others[: max(0, MAX_CONSUMERS - len(known) - 1)]]

    def _reservation(
        self, claim: ResourceClaim, allocation: Allocation | None, consumers: Sequence[ClaimConsumer]
    ) -> Write:
        """The patch of the status. The timestamp starts the time for binding conditions, once for the claim."""
        status: dict[str, Any] = {}
        if allocation is not None:
            status["allocation"] = msgspec.to_builtins(allocation)
        known = allocation or claim.status.allocation
        if self._timeout_ns is not None and known is not None and known.allocation_timestamp is None:
            status.setdefault("allocation", {})["allocationTimestamp"] = in_seconds(self._services.now_ns())
        status["reservedFor"] = msgspec.to_builtins([*(claim.status.reserved_for or ()), *consumers])
        return write_status(claim, status)

    def _ask(
        self, write: Write, consumers: Sequence[ClaimConsumer] = ()
    ) -> Generator[Write | Pause, KubeObject | WriteFault | None, ResourceClaim | WriteFault]:
        """Yield a write, and note that it is under way until the answer comes."""
        self._is_asking = True
        self._ledger.turns.begin(self._pending, consumers[1:])
        self._along = [*self._along, *consumers[1:]]
        answer = yield self._followed(write, ATTEMPTS, self._along)
        self._is_asking = False
        if isinstance(answer, WriteFault):
            return answer
        assert isinstance(answer, ResourceClaim)
        self._release(answer, self._along)
        self._along = []
        return answer

    def _release(self, claim: ResourceClaim, consumers: Sequence[ClaimConsumer]) -> None:
        """Give back what was written for pods that stopped during the write."""
        self._ledger.wrote(claim)
        reserved = {each.uid for each in claim.status.reserved_for or ()}
        for consumer in self._ledger.turns.end(claim_id(claim), consumers):
            if consumer.uid in reserved:
                withdraw(claim, consumer.uid, self._ledger, self._services)

    def _followed(self, write: Write, tries: int, consumers: Sequence[ClaimConsumer] = ()) -> Write:
        """The write, with a `late` answer for when the work is stopped before: then the doubt is settled and the pod
        activated.

        An answer that is not to be relied on leads to a read of the claim, at most `tries` times.
        """
        pending = self._pending

        def answered_late(answer: KubeObject | WriteFault | None) -> None:
            if isinstance(answer, WriteFault) and is_unreliable(answer) and tries and write.name:
                question = replace(write, method="PATCH", body={}, subresource="")
                self._services.want(self._followed(question, tries - 1, consumers))
                return
            if isinstance(answer, ResourceClaim):
                self._release(answer, consumers)
            self._ledger.settle(pending)
            self._services.activate((self._pod,))

        return replace(write, late=answered_late)

    # ---- the claim for extended resources

    def _create(self, allocation: Allocation | None) -> Steps:
        """Create the claim for extended resources. From now on the created claim is the pending one."""
        assert self._state.node_claim is not None and allocation is not None
        answer = yield from self._ask(create_extended(self._state.node_claim))
        self._metrics.created(not isinstance(answer, WriteFault))
        if isinstance(answer, WriteFault):
            raise PluginError(
                f"create claim for extended resources {self._state.node_claim.namespace}/: {answer.message}"
            )
        self._state.claims[-1] = answer
        self._ledger.begin(allocated(answer, allocation))
        self._ledger.end(self._pending)
        self._pending = claim_id(answer)
        return answer

    def _wait_until_shown(self, claim: ResourceClaim) -> Generator[Pause, KubeObject | WriteFault | None, None]:
        """Wait for the watch to show the claim: until then only this process knows that its devices are taken."""
        deadline_ns = self._services.now_ns() + SHOWN_NS
        while not self._ledger.wrote(claim) and self._services.now_ns() < deadline_ns:
            known = self._ledger.get(claim.key)
            if known is not None and known.uid != claim.uid:
                return
            yield Pause(deadline_ns, frozenset(((ResourceClaim, claim.key),)))

    def _write_pod(self, write: Write, what: str) -> Generator[Write, KubeObject | WriteFault | None, None]:
        """Write into the pod's status which claim serves its extended resources, or what its devices take from the node."""
        answer = yield write
        if isinstance(answer, WriteFault):
            raise PluginError(f"{what}: {answer.message}")


def _has(claim: ResourceClaim, allocation: Allocation | None) -> bool:
    """Whether the claim has the devices of this allocation."""
    known = claim.status.allocation
    return known is not None and allocation is not None and known.devices.results == allocation.devices.results


def _pause_for(claim: ResourceClaim) -> Pause:
    """Pause until the claim changes."""
    return Pause(None, frozenset(((ResourceClaim, claim.key),)))
