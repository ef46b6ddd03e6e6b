"""Notices that a stream has gone silent, in time that is handed in."""

import asyncio
from types import TracebackType
from typing import Self

from mooring.apiclient.throttle import Timing
from mooring.apiclient.unanswered import TimedOut


class Silent(TimedOut):
    """The connection stands, but nothing comes."""


class SilenceLimit:
    """Ends the block that it stands around with Silent, once `heard` was not called for so long.

    A connection may be half open: the other side is gone, and nobody says so. Like asyncio.timeout it cancels the task
    from within, and tells its own cancellation from that of others.
    """

    _heard_at_s: float
    _guard: asyncio.Task[None]
    _cancellations: int
    """Set by __aenter__; the last is how often the task had been cancelled before."""

    def __init__(self, limit_s: float, timing: Timing, what: str) -> None:
        self._limit_s = limit_s
        self._timing = timing
        self._what = what
        self.is_broken = False

    def heard(self) -> None:
        self._heard_at_s = self._timing.monotonic_s()

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self.heard()
        self._cancellations = task.cancelling()
        self._guard = asyncio.create_task(self._wait(task), name=f"silence of {self._what}")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._guard.cancel()
        is_ours = self.is_broken and task.uncancel() <= self._cancellations
        if is_ours and kind is not None and issubclass(kind, asyncio.CancelledError):
            raise Silent(f"{self._what}: nothing was heard for {self._limit_s:g} s") from None

    async def _wait(self, task: asyncio.Task[object]) -> None:
        while (left_s := self._heard_at_s + self._limit_s - self._timing.monotonic_s()) > 0:
            await self._timing.sleep(left_s)
        self.is_broken = True
        task.cancel()
