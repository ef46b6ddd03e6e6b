"""How long to wait before asking again: longer each time, and never in step with others."""

import random
from collections.abc import Callable

from mooring.apiclient.throttle import Timing

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
