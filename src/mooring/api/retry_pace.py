"""How long to wait before asking again: longer each time, and never in step with others."""

import random
from collections.abc import Callable

from mooring.api.throttle import Timing

FIRST_S, LONGEST_S = 0.8, 30.0
RESET_AFTER_S = 120.0
"""Parity: client-go's reflector."""

Random = Callable[[], float]
"""Draws from [0, 1)."""


class RetryPace:
    """Doubles from one failure to the next, with up to as much again at random; forgets after two quiet minutes."""

    def __init__(self, timing: Timing, draw: Random = random.random) -> None:
        self._timing = timing
        self._draw = draw
        self._next_s = FIRST_S
        self._asked_at_s = timing.monotonic_s()
        self.failures = 0
        """In a row."""

    def wait_s(self) -> float:
        """Another failure: the pause that it is worth."""
        now_s = self._timing.monotonic_s()
        if now_s - self._asked_at_s > RESET_AFTER_S:
            self._next_s, self.failures = FIRST_S, 0
        pause_s, self._next_s = self._next_s, min(self._next_s * 2, LONGEST_S)
        self.failures += 1
        pause_s *= 1 + self._draw()
        self._asked_at_s = now_s + pause_s
        return pause_s
