"""Tasks of asyncio: waiting for several of them, and the fence that ends those that may no longer write.

`asyncio.wait` raises for an empty collection. Owners of tasks remove each one as it ends, so that a collection may be
empty by the time at which they wait for it: these functions accept that.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from math import inf
from typing import Any, TypeVar

from mooring.kit.clock import elapsed_s

T = TypeVar("T")


async def settle(tasks: Iterable["asyncio.Future[Any]"], patience_s: float | None = None) -> None:
    """Return when all tasks have ended, in whatever way, or after `patience_s`. An empty collection returns at once."""
    if waited := {*tasks}:
        await asyncio.wait(waited, timeout=patience_s)


async def first_of(*tasks: "asyncio.Future[Any]") -> None:
    """Return when one of the tasks has ended; at least one must be given. The others keep running."""
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


async def sooner(work: Awaitable[T], end: Awaitable[object]) -> T | None:
    """The result of the work, or None if `end` completes first: the work is cancelled then, and not awaited."""
    doing, ending = asyncio.ensure_future(work), asyncio.ensure_future(end)
    try:
        await first_of(doing, ending)
        return doing.result() if doing.done() else None
    finally:
        doing.cancel()
        ending.cancel()


class TaskSet:
    """Tasks that run beside their owner. Each is kept until it ends, because an event loop does not keep its tasks.

    `on_end` is called with each task that has ended.
    """

    def __init__(self, on_end: "Callable[[asyncio.Task[None]], None] | None" = None) -> None:
        self._tasks: set[asyncio.Task[None]] = set()
        self._on_end = on_end

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        if self._on_end is not None:
            task.add_done_callback(self._on_end)

    def __len__(self) -> int:
        return len(self._tasks)

    def cancel(self) -> None:
        """Cancel all tasks that are under way."""
        for task in self._tasks:
            task.cancel()

    async def settle(self, patience_s: float | None = None) -> None:
        """Return when all tasks have ended, or after `patience_s`."""
        await settle(self._tasks, patience_s)


# ---- the fence: until when this process may write, the one thing that the thread of the lease shares with the scheduler
#
# A process can be stopped anywhere (SIGSTOP, a suspended machine, a starved container) and continue after its lease
# has run out. So the moment that counts is that of sending: a connection asks the fence directly before it hands
# bytes to the socket.


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
