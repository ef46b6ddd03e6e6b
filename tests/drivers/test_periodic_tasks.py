"""When the timers of a scheduler are due: ticks, the flush of unschedulable pods, and the sweep of a driver."""

from typing import Any, cast

from mooring.drivers.driver import PeriodicTasks
from mooring.kit.clock import VirtualClock
from mooring.scheduler.scheduler import Scheduler

S = 1_000_000_000
START = 50 * S


class Timers:
    """A scheduler that notes what it is told, and says when it is to be asked again."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.release_ns: int | None = None
        self.deadline_ns: int | None = None
        self.clock = VirtualClock(START)
        self.tasks = PeriodicTasks(cast(Scheduler, self), self.clock, lambda: self.notes.append("sweep"))

    def handle(self, told: Any) -> None:
        self.notes.append(type(told).__name__)

    def release_waiting(self) -> None:
        self.notes.append("release")

    def next_release_ns(self) -> int | None:
        return self.release_ns

    def next_deadline_ns(self) -> int | None:
        return self.deadline_ns

    def at(self, now_ns: int) -> list[str]:
        """What a beat at this moment does."""
        self.clock.advance_ns(now_ns - self.clock.now_ns())
        self.notes.clear()
        self.tasks.beat()
        return [*self.notes]


TICK = ["TimePassed", "release"]


def test_a_tick_is_due_at_once_and_then_each_tenth_of_a_second() -> None:
    timers = Timers()
    assert timers.at(START) == TICK
    assert timers.at(START + S // 10 - 1) == []
    assert timers.at(START + S // 10) == TICK
    assert timers.at(START + S // 4) == TICK
    assert timers.at(START + S // 4 + S // 10 - 1) == [], "a tick that is late delays the next"


def test_the_flush_is_due_each_half_minute_and_the_sweep_each_minute() -> None:
    timers = Timers()
    timers.at(START)
    assert timers.at(START + 30 * S - 1) == TICK
    assert timers.at(START + 30 * S) == ["HalfMinutePassed"]
    assert timers.at(START + 60 * S - 1) == TICK
    assert timers.at(START + 60 * S) == ["HalfMinutePassed", "sweep"]
    assert timers.at(START + 90 * S) == [*TICK, "HalfMinutePassed"]
    assert timers.at(START + 120 * S) == [*TICK, "HalfMinutePassed", "sweep"]


def test_the_next_beat_is_the_earliest_but_no_sooner_than_a_tick() -> None:
    timers = Timers()
    timers.at(START)
    assert timers.tasks.next_ns() == START + 30 * S
    timers.release_ns = START + 7 * S
    assert timers.tasks.next_ns() == START + 7 * S
    timers.deadline_ns = START + 5 * S
    assert timers.tasks.next_ns() == START + 5 * S
    timers.release_ns = START + 1
    assert timers.tasks.next_ns() == START + S // 10
