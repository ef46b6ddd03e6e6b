"""How the watches of one resource ended, and for how long there was none: what an operator is shown of them."""

import asyncio
from collections import Counter
from enum import Enum, StrEnum, auto
from types import TracebackType
from typing import Self

from mooring.apiclient.request_errors import ConnectionLost, ConnectionRefused, TimedOut, TooLarge
from mooring.apiclient.throttle import Timing
from mooring.model.api_errors import ApiError

# ---- What a reflector does next after a list or watch has failed: a table in the form of a function.


MAX_SERVER_ERRORS = 3
"""Errors in a row after which the version that we watch from may be their cause."""


class Restart(Enum):
    RESUME = auto()
    """Watch again from the last version, or list again as before."""
    RELIST = auto()
    """List again, not older than the last version."""
    RELIST_NEWEST = auto()
    """List again, whatever is the newest: the server cannot say how it stands to the last version."""


def restart_after(fault: Exception, is_listing: bool, failures: int) -> Restart:
    """`failures` counts those in a row before this one."""
    if is_expired(fault) or _is_ahead(fault) or isinstance(fault, TooLarge):
        # A list that is too large came from a server's cache, which has no pages; the newest has.
        return Restart.RELIST_NEWEST if is_listing or _is_ahead(fault) else Restart.RELIST
    if isinstance(fault, ConnectionRefused | ConnectionLost | TimedOut) or _has_code(fault, 429):
        return Restart.RESUME
    if _has_code(fault, 500) and failures < MAX_SERVER_ERRORS:
        return Restart.RESUME
    return Restart.RELIST


def rules_out_streaming(refusal: ApiError) -> bool:
    """Whether a server that answers so to a streaming list may still answer a plain one."""
    return refusal.code not in (401, 403, 404, 429) and not is_expired(refusal) and not _is_ahead(refusal)


def is_expired(fault: Exception) -> bool:
    """Whether the server no longer keeps the history that we asked for: nothing is wrong, but we were away for long."""
    return isinstance(fault, ApiError) and (fault.code == 410 or fault.reason in ("Expired", "Gone"))


def _has_code(fault: Exception, code: int) -> bool:
    return isinstance(fault, ApiError) and fault.code == code


def _is_ahead(fault: Exception) -> bool:
    """Whether our version is later than any that the server has: its data were restored from a backup."""
    if not isinstance(fault, ApiError) or fault.details is None:
        return False
    return any(cause.reason == "ResourceVersionTooLarge" for cause in fault.details.causes)


# ---- Notices that a stream has gone silent, in time that is handed in.


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


class WatchEnd(StrEnum):
    """Why a watch ended; the values are those of a metric's label."""

    AFTER_EVENTS = "after_events"
    """The server or the network ended it after events: servers do so all the time, and it is resumed at once."""
    WITHOUT_EVENTS = "without_events"
    """The same, but the watch told nothing."""
    SILENT = "silent"
    """Nothing came, not even bookmarks, so we ended it."""
    EXPIRED = "expired"
    """The server no longer keeps the history that we asked for; a list follows."""
    FAILED = "failed"
    """The server refused it, or could not be reached, or a streamed list broke off."""


def end_by(fault: Exception) -> WatchEnd:
    """What an exception that ends a watch stands for, if it is more than the end of a connection."""
    if isinstance(fault, Silent):
        return WatchEnd.SILENT
    return WatchEnd.EXPIRED if is_expired(fault) else WatchEnd.FAILED


class WatchRecord:
    """Counts ends, and the seconds from each until the server has answered the next watch.

    The time before the first answer counts as well. A pause that goes on is counted up to now.
    """

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self.ends: Counter[WatchEnd] = Counter()
        self._gap_s = 0.0
        self._gap_since_s: float | None = timing.monotonic_s()
        """None while there is a watch."""

    @property
    def is_watching(self) -> bool:
        return self._gap_since_s is None

    def answered(self) -> None:
        """The server has begun to answer. May be told again."""
        self._gap_s = self.gap_s()
        self._gap_since_s = None

    def ended(self, end: WatchEnd) -> None:
        self.ends[end] += 1
        if self._gap_since_s is None:
            self._gap_since_s = self._timing.monotonic_s()

    def gap_s(self) -> float:
        """Seconds without a watch, all in all."""
        since_s = self._gap_since_s
        return self._gap_s if since_s is None else self._gap_s + self._timing.monotonic_s() - since_s

    def clear(self) -> None:
        """Count anew."""
        self.ends.clear()
        self._gap_s = 0.0
        if self._gap_since_s is not None:
            self._gap_since_s = self._timing.monotonic_s()
