"""The timers of a scheduler, run by its driver: ticks, the flush of unschedulable pods, and a sweep each minute.

The live and the embedded driver share it; a simulation has its own, because its clock jumps.
"""

from collections.abc import Callable

from mooring.kit.clock import NS_PER_S, Clock
from mooring.queue.queue import UNSCHEDULABLE_FLUSH_PERIOD_S
from mooring.scheduler.inputs import HalfMinutePassed, TimePassed
from mooring.scheduler.scheduler import Scheduler

TICK_NS = NS_PER_S // 10
"""How often backoffs and Permit waits are checked at most. Upstream checks backoffs each second; a shorter tick lets a pod
start closer to the end of its backoff."""
FLUSH_NS = UNSCHEDULABLE_FLUSH_PERIOD_S * NS_PER_S
"""Upstream's flushUnschedulablePodsLeftover runs every 30 s."""
SWEEP_NS = 60 * NS_PER_S
"""Event series end after six minutes (event_writer.IDLE_NS); a minute is exact enough."""


class PeriodicTasks:
    """`sweep` is the driver's own work once a minute, such as ending series of events."""

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
            self._scheduler.handle(TimePassed())
            self._scheduler.release_waiting()
        if now_ns >= self._flush_ns:
            self._flush_ns = now_ns + FLUSH_NS
            self._scheduler.handle(HalfMinutePassed())
        if now_ns >= self._sweep_ns:
            self._sweep_ns = now_ns + SWEEP_NS
            self._sweep()

    def next_ns(self) -> int:
        """When `beat` has something to do next."""
        times = (self._flush_ns, self._scheduler.next_release_ns(), self._scheduler.next_deadline_ns())
        return max(min(when for when in times if when is not None), self._tick_ns)
