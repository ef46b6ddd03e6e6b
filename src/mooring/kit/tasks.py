"""Waiting for several tasks. `asyncio.wait` refuses an empty collection, and a collection that tasks leave as they end
may be empty by the time at which it is looked at."""

import asyncio
from collections.abc import Awaitable, Iterable
from typing import Any, TypeVar

T = TypeVar("T")


async def settle(tasks: Iterable["asyncio.Future[Any]"], patience_s: float | None = None) -> None:
    """Return when all have ended, however they ended, or when the time has passed. None to wait for is fine."""
    if waited := {*tasks}:
        await asyncio.wait(waited, timeout=patience_s)


async def first_of(*tasks: "asyncio.Future[Any]") -> None:
    """Return when one of them has ended; at least one has to be given. The others go on."""
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)


async def sooner(work: Awaitable[T], end: Awaitable[object]) -> T | None:
    """The result of the work, or None if the end comes first. The work is cancelled in that case."""
    doing, ending = asyncio.ensure_future(work), asyncio.ensure_future(end)
    try:
        await first_of(doing, ending)
        return doing.result() if doing.done() else None
    finally:
        doing.cancel()
        ending.cancel()
