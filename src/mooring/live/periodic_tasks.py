"""Time, as a driver lets it pass for a scheduler: ticks, the flush of pods that waited too long, a sweep each minute."""

from collections.abc import Callable

from mooring.kit.clock import NS_PER_S, Clock
from mooring.queue.queue import UNSCHEDULABLE_FLUSH_PERIOD_S
from mooring.scheduler.inputs import HalfMinutePassed, TimePassed
from mooring.scheduler.scheduler import Scheduler

TICK_NS = NS_PER_S // 10
FLUSH_NS = UNSCHEDULABLE_FLUSH_PERIOD_S * NS_PER_S
SWEEP_NS = 60 * NS_PER_S


class PeriodicTasks:
    """`sweep` is whatever else is to be done about once a minute."""

    def __init__(self, scheduler: Scheduler, clock: Clock, sweep: Callable[[], None]) -> None:
        self._scheduler = scheduler
        self._clock = clock
        self._sweep = sweep
        now_ns = clock.now_ns()
        self._tick_ns, self._flush_ns, self._sweep_ns = now_ns, now_ns + FLUSH_NS, now_ns + SWEEP_NS

    def beat(self) -> None:
        """Do what is due."""
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
        """When the next beat has something to do."""
        times = (self._flush_ns, self._scheduler.next_release_ns(), self._scheduler.next_deadline_ns())
        return max(min(when for when in times if when is not None), self._tick_ns)
