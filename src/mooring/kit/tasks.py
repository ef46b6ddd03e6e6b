"""Waiting for several asyncio tasks.

`asyncio.wait` raises for an empty collection. Owners of tasks remove each one as it ends, so that a collection may be
empty by the time at which they wait for it: these functions accept that.
"""

import asyncio
from collections.abc import Awaitable, Iterable
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
