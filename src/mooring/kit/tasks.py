"""Starting asyncio tasks, and waiting for several of them.

`asyncio.wait` raises for an empty collection. Owners of tasks remove each one as it ends, so that a collection may be
empty by the time at which they wait for it: these functions accept that.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any, TypeVar

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
