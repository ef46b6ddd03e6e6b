"""How fast one client may ask: a token bucket like client-go's, in time that is handed in."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

DEFAULT_QPS, DEFAULT_BURST = 5.0, 10
"""Parity: what client-go takes for zero."""


@dataclass(frozen=True, slots=True)
class Timing:
    """The passing of time, so that tests need not wait for it."""

    monotonic_s: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep


class Throttle:
    """`burst` requests at once, `qps` of them a second in the long run; a negative qps stands for no limit.

    Whoever comes while the bucket is empty takes a token that is not there yet and sleeps until it is,
    so requests go out in the order in which they came.
    """

    def __init__(self, qps: float, burst: int, timing: Timing) -> None:
        self._qps = qps or DEFAULT_QPS
        self._burst = burst or DEFAULT_BURST
        self._timing = timing
        self._tokens = float(self._burst)
        self._filled_at_s = timing.monotonic_s()

    async def take(self) -> float:
        """Wait for one's turn; returns the seconds waited."""
        if self._qps < 0:
            return 0.0
        self._fill()
        self._tokens -= 1
        if self._tokens >= 0:
            return 0.0
        wait_s = -self._tokens / self._qps
        try:
            await self._timing.sleep(wait_s)
        except asyncio.CancelledError:
            self._tokens += 1
            raise
        return wait_s

    def _fill(self) -> None:
        now_s = self._timing.monotonic_s()
        self._tokens = min(self._burst, self._tokens + (now_s - self._filled_at_s) * self._qps)
        self._filled_at_s = now_s


# ---- How long to wait before asking again: longer each time, and never in step with others.


FIRST_S, LONGEST_S = 0.8, 30.0
RESET_AFTER_S = 120.0
"""Parity: client-go's reflector."""

_MOST_FAILURES = 30
"""More need not be counted."""

Random = Callable[[], float]
"""Draws from [0, 1)."""


class RetryBackoff:
    """Doubles from one failure to the next, with up to as much again at random.

    It starts over as soon as it hears of a success, or after two quiet minutes.
    """

    def __init__(self, timing: Timing, draw: Random = random.random) -> None:
        self._timing = timing
        self._draw = draw
        self._failures = 0
        self._paused_until_s = timing.monotonic_s()

    def failures(self) -> int:
        """In a row."""
        if self._timing.monotonic_s() - self._paused_until_s > RESET_AFTER_S:
            self._failures = 0
        return self._failures

    def forget(self) -> None:
        """A success: the next failure is the first one."""
        self._failures = 0

    def wait_s(self) -> float:
        """Another failure: the pause that it is worth."""
        pause_s = min(FIRST_S * 2.0 ** self.failures(), LONGEST_S) * (1 + self._draw())
        self._failures = min(self._failures + 1, _MOST_FAILURES)
        self._paused_until_s = self._timing.monotonic_s() + pause_s
        return pause_s
