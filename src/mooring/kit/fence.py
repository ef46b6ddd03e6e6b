"""Until when this process may write: the one thing that the thread of the lease shares with the scheduler.

A process can be stopped anywhere (SIGSTOP, a suspended machine, a starved container) and continue after its lease has run
out. So the moment that counts is that of sending: a connection asks the fence directly before it hands bytes to the socket.
"""

import asyncio
from collections.abc import Callable
from math import inf

from mooring.kit.clock import elapsed_s


class FencedOff(asyncio.CancelledError):
    """The lease has run out, so the write is not sent.

    It is a cancellation: code that retries, reports or logs failures lets a cancellation pass, so the task that wanted to
    write ends here and nothing follows from it. Another instance may schedule now, and this one has to halt.
    """


class Fence:
    """Open until a deadline. One thread moves the deadline, others ask; a single float needs no lock."""

    def __init__(self, until_s: float = -inf, now_s: Callable[[], float] = elapsed_s) -> None:
        self._until_s = until_s
        self._now_s = now_s

    def open_until(self, until_s: float) -> None:
        """Let writes pass until then, on the clock of `elapsed_s`."""
        self._until_s = until_s

    def shut(self) -> None:
        self._until_s = -inf

    @property
    def is_open(self) -> bool:
        return self._now_s() < self._until_s

    def check(self) -> None:
        """Raises FencedOff after the deadline. Call it directly before sending: nothing may wait between the two."""
        if not self._now_s() < self._until_s:
            raise FencedOff("the lease has run out: this instance must not write")


NO_FENCE = Fence(inf)
"""For what needs no lease: reads, reviews, the lease itself, and a scheduler that runs without leader election."""
