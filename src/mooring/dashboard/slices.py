"""Work on the scheduler's thread in short slices, so that a page about a large cluster does not delay attempts."""

import asyncio
from collections.abc import Generator
from time import thread_time
from typing import TypeVar

T = TypeVar("T")
Sliced = Generator[None, None, T]
"""Work that yields at least every few hundred steps, and returns its result."""

SLICE_S = 0.002
"""How long a slice works before others get their turn; the driver attempts pods for 5 ms at a time."""
SHARE = 0.25
"""The share of the time that the work of one page takes at most, while the scheduler is busy."""


async def in_slices(work: Sliced[T]) -> T:
    """Run work to its end, with pauses in which the scheduler goes on."""
    return (await timed_slices(work))[0]


async def timed_slices(work: Sliced[T]) -> tuple[T, float]:
    """Run work as `in_slices` does. Returns its result and the processor time that it took, in seconds without pauses."""
    total_s, began_s = 0.0, thread_time()
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value, total_s + thread_time() - began_s
        worked_s = thread_time() - began_s
        if worked_s >= SLICE_S:
            total_s += worked_s
            await asyncio.sleep(worked_s * (1 / SHARE - 1))
            began_s = thread_time()


class TooBusy(Exception):
    """Too much work waits already."""


class OneAtATime:
    """Runs work of several requests one after another: together they take no more of the processor than one."""

    MAX_WAITING = 16

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._waiting = 0

    async def run(self, work: Sliced[T]) -> T:
        """Raises TooBusy."""
        if self._waiting >= self.MAX_WAITING:
            raise TooBusy
        self._waiting += 1
        try:
            async with self._turn:
                return await in_slices(work)
        finally:
            self._waiting -= 1


def at_once(work: Sliced[T]) -> T:
    """Run work without pauses, where nothing else waits."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            result: T = end.value
            return result
