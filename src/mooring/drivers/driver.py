"""The base of the live, the embedded and the simulated driver: how intents find the method that carries them out,
what a scheduler is told of changes and of writes, and its timers.

The three differ in their hands: requests over HTTP as tasks, calls of an API server in this process, or a store of objects
on a virtual clock.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING

import msgspec

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.api.patches.json_patch import apply_merge_patch
from mooring.api.patches.strategic_merge import apply_strategic_merge_patch
from mooring.framework.contract.intents import Bind, Call, Evict, Intent, PatchStatus, Record, Write, WriteFault
from mooring.kit.clock import NS_PER_S, Clock
from mooring.kit.logs import ObjectRef
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.queue.queue import UNSCHEDULABLE_FLUSH_PERIOD_S
from mooring.scheduler import inputs
from mooring.scheduler.scheduler import Scheduler

if TYPE_CHECKING:  # a simulation does not import an HTTP client
    from mooring.drivers.extender_calls import ExtenderCaller


class IntentDriver(ABC):
    """Carries out the intents of a scheduler, each with the method for its kind, and reports what became of them."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.extenders: ExtenderCaller | None = None
        """Asks the extenders, where there are any."""
        self.bound = 0
        """Pods that this driver has bound."""

    def reconfigure(self, change: inputs.ConfigurationChanged) -> None:
        """Have the scheduler go by another configuration. Raises ConfigError for extenders that cannot be called."""
        if self.extenders is not None and change.profiles is not None:
            self.extenders.know(change.profiles.extenders)
        self.scheduler.handle(change)

    def carry_out(self) -> None:
        """Carry out all intents of the scheduler, and those that follow from them."""
        self.scheduler.carry_out(self.do)

    def do(self, intent: Intent) -> None:
        """Carry out one intent. Nothing here waits: it runs between two attempts."""
        # Hot: nearly all intents are of the first two kinds. Where a struct is of another class, `isinstance`, and so a
        # pattern, takes five times as long as a comparison of types.
        if type(intent) is Bind:
            self._bind(intent)
            return
        if type(intent) is Record:
            self._record(intent)
            return
        match intent:
            case PatchStatus():
                self._patch_status(intent)
            case Evict():
                self._evict(intent)
            case Write():
                self._write(intent)
            case Call():
                self._call(intent)

    @abstractmethod
    def _bind(self, intent: Bind) -> None: ...

    @abstractmethod
    def _record(self, intent: Record) -> None: ...

    @abstractmethod
    def _patch_status(self, intent: PatchStatus) -> None: ...

    @abstractmethod
    def _evict(self, intent: Evict) -> None: ...

    def _write(self, intent: Write) -> None:
        """Write an object for a plugin, such as the allocation of a claim, and report the object or the refusal."""
        try:
            item = self._written(intent)
        except ApiError as refused:
            self._answer_write(intent, None, WriteFault(refused.message, refused.code))
        else:
            self._answer_write(intent, item)

    def _written(self, intent: Write) -> KubeObject | None:
        """The object after the write, None after a deletion. Raises ApiError. For drivers that write at once."""
        raise NotImplementedError

    def _answer_write(self, intent: Write, item: KubeObject | None, fault: WriteFault | None = None) -> None:
        self.scheduler.handle(inputs.WriteAnswered(intent.token, item, fault))

    def _call(self, intent: Call) -> None:
        assert self.extenders is not None, "there are calls only where there are extenders"
        self.extenders.begin(intent)


# ---- pods, changes and writes


def pod_ref(pod: Pod) -> ObjectRef:
    """The pod, as log lines name it."""
    return ObjectRef(pod.name, pod.namespace)


def input_of(old: KubeObject | None, new: KubeObject | None) -> inputs.Input:
    """The change of an object, as a scheduler takes it in: without `old` the object is new, without `new` it is gone."""
    if old is not None and new is not None:
        return inputs.ObjectUpdated(old, new)
    if new is not None:
        return inputs.ObjectAdded(new)
    assert old is not None
    return inputs.ObjectRemoved(old)


def plain_body(write: Write) -> JsonObject:
    """The body of a write as JSON; empty without one."""
    return write.body if isinstance(write.body, dict) else msgspec.to_builtins(write.body) or {}


def changed_by(write: Write, held: JsonObject, body: JsonObject) -> JsonObject:
    """The object after a write that changes it: patched, or replaced by the body."""
    if write.method != "PATCH":
        return body
    return apply_strategic_merge_patch(held, body) if write.form == "strategic" else apply_merge_patch(held, body)


# ---- timers

TICK_NS = NS_PER_S // 10
"""How often backoffs and Permit waits are checked at most. Upstream checks backoffs each second; a shorter tick lets a pod
start closer to the end of its backoff."""
FLUSH_NS = UNSCHEDULABLE_FLUSH_PERIOD_S * NS_PER_S
"""Upstream's flushUnschedulablePodsLeftover runs every 30 s."""
SWEEP_NS = 60 * NS_PER_S
"""Event series end after six minutes (event_writer.IDLE_NS); a minute is exact enough."""


class PeriodicTasks:
    """The timers of a scheduler on a clock that runs: ticks, the flush of unschedulable pods, and a sweep each minute. A
    simulation has its own, because its clock jumps.

    `sweep` is the driver's own work once a minute, such as ending series of events."""

    def __init__(self, scheduler: Scheduler, clock: Clock, sweep: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._sweep = sweep
        now_ns = clock.now_ns()
        self._tick_ns, self._flush_ns, self._sweep_ns = now_ns, now_ns + FLUSH_NS, now_ns + SWEEP_NS

    def beat(self) -> None:
        """Run the timers that are due. Cheap if none is: the driver calls it in every turn of its loop."""
        now_ns = self._clock.now_ns()
        if now_ns >= self._tick_ns:
            self._tick_ns = now_ns + TICK_NS
            self._scheduler.handle(inputs.TimePassed())
            self._scheduler.release_waiting()
        if now_ns >= self._flush_ns:
            self._flush_ns = now_ns + FLUSH_NS
            self._scheduler.handle(inputs.HalfMinutePassed())
        if now_ns >= self._sweep_ns:
            self._sweep_ns = now_ns + SWEEP_NS
            self._sweep()

    def next_ns(self) -> int:
        """When `beat` has something to do next."""
        times = (self._flush_ns, self._scheduler.next_release_ns(), self._scheduler.next_deadline_ns())
        return max(min(when for when in times if when is not None), self._tick_ns)
