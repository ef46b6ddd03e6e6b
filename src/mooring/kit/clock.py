"""Time as a value: clocks that callers pass in, and moments as text.

The core never reads the clock of the machine. It takes a `Clock`, so that simulations and tests run on virtual time and a
recorded run can be repeated. A moment is a whole number of nanoseconds since 1970, so that sums of small steps are exact.

Timers go by a SteadyClock, and so do moments that are compared with each other. The WallClock is for what other programs
read: times in objects and the validity of certificates. A machine whose clock is set therefore delays nothing.
"""

import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache, partial
from typing import Protocol

NS_PER_S = 1_000_000_000
"""Nanoseconds in a second: names of moments end in `_ns`, those of settings in `_s`."""


class Clock(Protocol):
    """Tells the time in whole nanoseconds since 1970."""

    def now_ns(self) -> int: ...


class WallClock:
    """The time of this machine. It may jump, also backwards, when the machine's clock is set."""

    now_ns = staticmethod(time.time_ns)


_BOOT_TIME = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
"""CLOCK_MONOTONIC of Linux does not count the time in which the machine is suspended; this clock does."""

elapsed_s: Callable[[], float] = partial(time.clock_gettime, _BOOT_TIME)
"""Seconds that pass also while the process is stopped and while the machine is suspended: a lease runs out in that time."""
elapsed_ns: Callable[[], int] = partial(time.clock_gettime_ns, _BOOT_TIME)


class SteadyClock:
    """Shows the time of `wall` at its start, and goes on with `elapsed_ns`. Setting the machine's clock does not move it.

    After the machine's clock was set, the two differ by that step until the process ends. So only moments of one steady
    clock can be compared, and a time that another program compares with its own clock comes from the wall clock.
    """

    def __init__(self, wall: Clock | None = None, elapsed_ns: Callable[[], int] = time.monotonic_ns) -> None:
        start_ns = (wall or WallClock()).now_ns() - elapsed_ns()

        def now_ns() -> int:
            return elapsed_ns() + start_ns

        self.now_ns: Callable[[], int] = now_ns
        """Hot: metrics ask some twenty times an attempt; a method takes 10 ns more than this function."""


class VirtualClock:
    """A clock that moves only when its owner calls `advance_ns`, and never backwards."""

    def __init__(self, start_ns: int = 0) -> None:
        self._now_ns = start_ns

    def now_ns(self) -> int:
        return self._now_ns

    def advance_ns(self, step_ns: int) -> None:
        if step_ns < 0:
            raise ValueError(f"a clock cannot go back by {-step_ns} ns")
        self._now_ns += step_ns


# ---- moments as text, in the forms of RFC 3339 that the Kubernetes API uses


def in_seconds(moment_ns: int) -> str:
    """`2026-11-15T07:17:46Z`: metav1.Time, which drops everything below a second."""
    return f"{_second(moment_ns // NS_PER_S)}Z"


def in_micros(moment_ns: int) -> str:
    """`2026-11-15T07:17:46.000123Z`: metav1.MicroTime, the type of timestamps in leases and events."""
    return f"{_second(moment_ns // NS_PER_S)}.{moment_ns % NS_PER_S // 1000:06d}Z"


def in_millis(moment_ns: int) -> str:
    """`2026-11-15T07:17:46.123Z`: as precise as a browser reads it."""
    return f"{_second(moment_ns // NS_PER_S)}.{moment_ns % NS_PER_S // 1_000_000:03d}Z"


@lru_cache(maxsize=64)
def _second(moment_s: int) -> str:
    """Hot: thousands of events have timestamps in the same second. 64 seconds cover reports that come late."""
    return f"{datetime.fromtimestamp(moment_s, UTC):%Y-%m-%dT%H:%M:%S}"


def moment_ns(text: str) -> int:
    """The moment that a text names, to the microsecond. Raises ValueError if the text is not a moment.

    A time without a zone is UTC: what a text means must not depend on the zone of the machine that reads it.
    """
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return round(moment.timestamp() * 1_000_000) * 1000
