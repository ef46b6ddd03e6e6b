"""Time as a value: clocks that callers pass in, and moments as text.

The core never reads the clock of the machine. It takes a `Clock`, so that simulations and tests run on virtual time and a
recorded run can be repeated. A moment is a whole number of nanoseconds since 1970, so that sums of small steps are exact.
"""

import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol

NS_PER_S = 1_000_000_000
"""Nanoseconds in a second: names of moments end in `_ns`, those of settings in `_s`."""


class Clock(Protocol):
    """Tells the time in whole nanoseconds since 1970."""

    def now_ns(self) -> int: ...


class WallClock:
    """The time of this machine. It may jump, also backwards, when the machine's clock is set."""

    now_ns = staticmethod(time.time_ns)
    """Hot: metrics ask some twenty times an attempt; a method around it would take twice as long (75 ns)."""


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
    """The moment that a text names, to the microsecond. Raises ValueError if the text is not a moment."""
    return round(datetime.fromisoformat(text).timestamp() * 1_000_000) * 1000
