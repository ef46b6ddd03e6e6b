"""Drives the scheduler against an API server: attempts between two awaits, writes as tasks, answers back to the core.

The driver decides nothing. It reports the outcome of each write to the core exactly once, because the core holds a pod's
room until then. If a bind ends without an answer, the driver first reads the pod to see whether the API server carried the
bind out.
"""

import asyncio
import logging
from collections.abc import Callable

from mooring.api.api_errors import ApiError
from mooring.apiclient.throttle import Timing
from mooring.drivers.api_writer import ApiWriter
from mooring.drivers.binder import Binder, BindOutcome
from mooring.drivers.driver import IntentDriver, PeriodicTasks, pod_ref
from mooring.drivers.event_writer import EventWriter
from mooring.drivers.status_writer import StatusWriter
from mooring.framework.contract.intents import Bind, Evict, PatchStatus, Record, Write, WriteFault
from mooring.kit.clock import NS_PER_S, Clock
from mooring.kit.logs import Log
from mooring.kit.tasks import NO_FENCE, Fence, TaskSet
from mooring.model.pod import Pod
from mooring.scheduler.inputs import BindAnswered, EvictionAnswered
from mooring.scheduler.scheduler import Scheduler

log = logging.getLogger(__name__)
_lines = Log(log)

SLICE_S = 0.005
"""How long the driver attempts pods before it lets the event loop run: watches and binds wait at most for this and one
attempt. Most attempts take 0.1 to 1 ms; a turn of the loop costs 0.05 ms."""
MAX_BINDS = 512
"""How many binds may be under way before attempts wait: eight for each connection (binder.BINDERS). Without a bound,
assumed pods would pile up behind a slow API server, and each bind would time out."""
REFILL = 64
"""After MAX_BINDS, attempts go on once so many binds are answered, and not after each: that would be a turn of the loop for
each pod, and an API server that is busy with the other binds does not notice."""
LONGEST_REST_S = 1.0
"""The longest pause of the loop without news: it checks the fence at least this often."""


class LiveDriver(IntentDriver):
    """The reflectors hand changes to the scheduler and call `wake` after each one.

    Invariants: at most MAX_BINDS binds are under way; each write leads to exactly one answer; after `halt` nothing is
    written.
    """

    def __init__(
        self,
        scheduler: Scheduler,
        clock: Clock,
        writer: ApiWriter,
        events: EventWriter,
        statuses: StatusWriter,
        timing: Timing | None = None,
        fence: Fence = NO_FENCE,
    ) -> None:
        super().__init__(scheduler)
        self._fence = fence
        self._clock = clock
        self._writer = writer
        self._events = events
        self._statuses = statuses
        self._timing = timing or Timing()
        self._news = asyncio.Event()
        self._tasks = TaskSet(self._finished)
        self._binder = Binder(writer, statuses, self._timing, scheduler.pods.get, self._tasks.start, self._answer)
        events.yield_to(self._binder.has_all_at_work)
        self._room = MAX_BINDS
        """Attempts are made while there are fewer binds than this."""
        self._victims: dict[str, list[Evict]] = {}
        """The victims that the present intents want evicted, by the id of the preemptor."""
        self._timers = PeriodicTasks(scheduler, clock, events.sweep)
        self.report: Callable[[Record], None] = _tell
        """Logs what the scheduler recorded; a dry run puts its own report here."""

    def wake(self) -> None:
        """Something changed: there may be work."""
        if self._binder.under_way < self._room or self.scheduler.has_intents():
            self._news.set()

    async def run(self) -> None:
        """Schedule until cancelled. Raises FencedOff if the lease has run out before the elector reports it."""
        try:
            while True:
                self._fence.check()
                self._news.clear()
                self._timers.beat()
                self.carry_out()
                if self._attempt_some():
                    await asyncio.sleep(0)
                else:
                    await self._rest()
        finally:
            if self.extenders is not None:
                self.extenders.stop()  # a reply would lead to a bind

    async def close(self, patience_s: float = 5.0) -> None:
        """Wait up to `patience_s` for writes that are under way, then cancel them."""
        await self._tasks.settle(patience_s)
        self._tasks.cancel()
        if self.extenders is not None:
            await self.extenders.close()
        await self._statuses.close()
        await self._events.close()

    def halt(self) -> None:
        """Cancel all writes at once: this instance lost the lease, and another one may schedule now."""
        self._binder.halt()
        self._tasks.cancel()
        if self.extenders is not None:
            self.extenders.stop()
        self._statuses.halt()
        self._events.halt()

    # ---- the loop

    def _attempt_some(self) -> bool:
        """Attempt pods for one time slice. Returns whether there is more to do."""
        ends_s = self._timing.monotonic_s() + SLICE_S
        while self._binder.under_way < self._room and self.scheduler.has_work():
            self._room = MAX_BINDS
            self.scheduler.attempt()
            self.carry_out()
            if self._timing.monotonic_s() >= ends_s:
                return True
        if self._binder.under_way >= MAX_BINDS:
            self._room = max(MAX_BINDS - REFILL, 0) + 1
        return False

    async def _rest(self) -> None:
        """Sleep until a change arrives or a timer of the scheduler is due."""
        pause_s = (self._timers.next_ns() - self._clock.now_ns()) / NS_PER_S
        # Hot: asyncio.timeout takes 6 µs more.
        timer = asyncio.get_running_loop().call_later(min(max(pause_s, 0.0), LONGEST_REST_S), self._news.set)
        try:
            await self._news.wait()
        finally:
            timer.cancel()

    # ---- what the scheduler wants

    def carry_out(self) -> None:
        """Start the writes for all intents. Victims of one preemptor form one task: their order matters."""
        self.scheduler.carry_out(self.do)
        if self._victims:
            victims, self._victims = self._victims, {}
            for evictions in victims.values():
                self._tasks.start(self._evict_all(evictions))

    def _bind(self, intent: Bind) -> None:
        self._binder.queue(intent)

    def _record(self, intent: Record) -> None:
        self.report(intent)
        self._events.record(intent)

    def _evict(self, intent: Evict) -> None:
        self._victims.setdefault(intent.preemptor.id, []).append(intent)

    def _write(self, intent: Write) -> None:
        self._tasks.start(self._write_soon(intent))

    def _patch_status(self, intent: PatchStatus) -> None:
        """Leave out the condition while a bind of the pod is in doubt. Nothing is lost: if the pod stays pending, its next
        attempt asks for the condition again."""
        if intent.condition is not None and self._binder.is_in_doubt(intent.pod):
            intent = PatchStatus(intent.pod, None, intent.nominated_node_name)
        if intent.condition is not None or intent.nominated_node_name is not None:
            self._statuses.patch(intent)

    def go_on(self) -> None:
        """An extender has replied: carry out the intents that follow."""
        self.carry_out()
        self._news.set()

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._news.set()
        if not task.cancelled() and (fault := task.exception()) is not None:
            log.error("a write failed unexpectedly", exc_info=fault)

    def _answer(self, intent: Bind, outcome: BindOutcome) -> None:
        """A bind is over: tell the scheduler, and let the loop go on if there is something to do."""
        if outcome.fault is None:
            self.bound += 1
        else:
            _lines.v(1, "Failed to bind pod", pod=pod_ref(intent.pod), err=outcome.fault)
            self._news.set()
        self.scheduler.handle(BindAnswered(intent.pod, outcome.fault, outcome.elsewhere))
        self.carry_out()
        if not self._binder.has_all_at_work():
            self._events.go_on()  # with those that were held for binds, whatever became of these
        if self._binder.under_way < self._room and self.scheduler.has_work():
            self._news.set()

    # ---- other objects

    async def _write_soon(self, intent: Write) -> None:
        """Write another object, and report the object or the fault under the token of the intent."""
        item, fault = None, None
        try:
            item = await self._writer.write(intent)
        except ApiError as refused:
            fault = WriteFault(refused.message, refused.code)
        except Exception as unforeseen:  # otherwise the pod would wait for this write for ever
            fault = WriteFault(str(unforeseen))
        self._answer_write(intent, item, fault)
        self.carry_out()

    # ---- victims

    async def _evict_all(self, evictions: list[Evict]) -> None:
        """Evict all but the last victim at once, then the last one: its deletion completes the room that the preemptor waits
        for, so it must not come before a failure of the others."""
        *others, last = evictions
        faults = await asyncio.gather(*(self._evict_one(eviction) for eviction in others))
        if any(faults):
            self._report(last, next(fault for fault in faults if fault))
        else:
            await self._evict_one(last)

    async def _evict_one(self, eviction: Evict) -> str | None:
        """Returns why the eviction failed, or None. A victim that is gone counts as evicted."""
        fault, cause_id = None, eviction.preemptor.id
        was_there = self._is_known(eviction.victim)
        try:
            if was_there:
                await self._statuses.patch_now(eviction.victim, eviction.condition, cause_id)
                was_there = self._is_known(eviction.victim)
            if was_there:
                await self._writer.delete(eviction.victim, cause_id)
        except ApiError as refused:
            was_there = refused.code != 404
            fault = refused.message if was_there else None
        except Exception as unforeseen:  # otherwise the preemptor would wait for this victim
            fault = str(unforeseen)
        self._report(eviction, fault, was_there)
        return fault

    def _is_known(self, victim: Pod) -> bool:
        """Whether the pod with this name is still the victim: a new pod may have taken the name of a deleted one."""
        seen = self.scheduler.pods.get(victim.key)
        return seen is not None and seen.id == victim.id

    def _report(self, eviction: Evict, fault: str | None, was_there: bool = True) -> None:
        if fault is not None:
            log.error("Error preempting pod %s for %s: %s", eviction.victim.key, eviction.preemptor.key, fault)
        self.scheduler.handle(EvictionAnswered(eviction.victim, eviction.preemptor, fault, was_there=was_there))
        self.carry_out()


_TOLD = {
    "Scheduled": "Successfully bound pod to node",
    "FailedScheduling": "Unable to schedule pod; no fit; waiting",
    "Preempted": "Preemptor Pod preempted victim Pod",
}
"""The line for each reason of an event, in upstream's words: people and tools look for them."""


def _tell(record: Record) -> None:
    if not _lines.shows(2) or record.reason not in _TOLD:
        return
    if record.reason == "Scheduled":
        _lines.v(2, _TOLD[record.reason], pod=pod_ref(record.pod), node=record.pod.spec.node_name)
    else:
        _lines.v(2, _TOLD[record.reason], pod=pod_ref(record.pod), err=record.note)
