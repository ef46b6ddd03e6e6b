"""How lists and watches end: what the reflector does next after a failure, the limit for a silent stream, the record of ends
for metrics, and the advice for operators if a server does not show a resource.
"""

import asyncio
from collections import Counter
from enum import Enum, StrEnum, auto
from types import TracebackType
from typing import Self

from mooring.api.api_errors import ApiError
from mooring.api.kind_spec import KindSpec
from mooring.apiclient.request_errors import ConnectionLost, ConnectionRefused, TimedOut, TooLarge
from mooring.apiclient.served_kinds import NotServed
from mooring.apiclient.throttle import Timing

# ---- what to do after a failure


MAX_SERVER_ERRORS = 3
"""After so many errors 500 in a row, the version that the watch starts from may be the cause, and a list follows."""


class Restart(Enum):
    """How to continue after a list or a watch has failed."""

    RESUME = auto()
    """Watch again from the last version, or list again as before."""
    RELIST = auto()
    """List again, not older than the last version."""
    RELIST_NEWEST = auto()
    """List again without a minimum version: the server does not have the last version, or cannot compare with it."""


def restart_after(fault: Exception, is_listing: bool, failures: int) -> Restart:
    """How to continue after a fault; `failures` is the number of failures in a row before it."""
    if is_expired(fault) or _is_ahead(fault) or isinstance(fault, TooLarge):
        # A list that is too large came from the server's cache, which ignores the page size; the newest list has pages.
        return Restart.RELIST_NEWEST if is_listing or _is_ahead(fault) else Restart.RELIST
    if isinstance(fault, ConnectionRefused | ConnectionLost | TimedOut) or _has_code(fault, 429):
        return Restart.RESUME
    if _has_code(fault, 500) and failures < MAX_SERVER_ERRORS:
        return Restart.RESUME
    return Restart.RELIST


def rules_out_streaming(refusal: ApiError) -> bool:
    """Whether the error is about streaming lists, so that a list in pages may succeed."""
    return refusal.code not in (401, 403, 404, 429) and not is_expired(refusal) and not _is_ahead(refusal)


def is_expired(fault: Exception) -> bool:
    """Whether the server no longer has the history that the watch needs. That is normal after a long interruption."""
    return isinstance(fault, ApiError) and (fault.code == 410 or fault.reason in ("Expired", "Gone"))


def _has_code(fault: Exception, code: int) -> bool:
    return isinstance(fault, ApiError) and fault.code == code


def _is_ahead(fault: Exception) -> bool:
    """Whether the requested version is later than any of the server: its data were restored from a backup."""
    if not isinstance(fault, ApiError) or fault.details is None:
        return False
    return any(cause.reason == "ResourceVersionTooLarge" for cause in fault.details.causes)


# ---- silent streams


class Silent(TimedOut):
    """The connection is open, but nothing arrives."""


class SilenceLimit:
    """Ends its block with Silent when `heard` was not called for `limit_s`.

    A connection may be half open: the server is gone, and the network does not report it. Like asyncio.timeout this
    cancels the task, and distinguishes its own cancellation from others.
    """

    _heard_at_s: float
    _guard: asyncio.Task[None]
    _cancellations: int
    """All three are set by __aenter__; the last is how often the task had been cancelled before."""

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
            raise Silent(f"{self._what}: nothing arrived for {self._limit_s:g} s") from None

    async def _wait(self, task: asyncio.Task[object]) -> None:
        while (left_s := self._heard_at_s + self._limit_s - self._timing.monotonic_s()) > 0:
            await self._timing.sleep(left_s)
        self.is_broken = True
        task.cancel()


# ---- the record


class WatchEnd(StrEnum):
    """Why a watch ended; the values are label values of a metric."""

    AFTER_EVENTS = "after_events"
    """The server or the network ended it after events. Servers do so regularly, and the reflector resumes at once."""
    WITHOUT_EVENTS = "without_events"
    """The server or the network ended the watch before it delivered an event."""
    SILENT = "silent"
    """Nothing arrived, not even bookmarks, so the reflector ended it."""
    EXPIRED = "expired"
    """The server no longer has the history that the watch needs; a list follows."""
    FAILED = "failed"
    """The server rejected it or could not be reached, or a streamed list ended before it was complete."""


def end_by(fault: Exception) -> WatchEnd:
    """The kind of end for an exception that is more than the end of a connection."""
    if isinstance(fault, Silent):
        return WatchEnd.SILENT
    return WatchEnd.EXPIRED if is_expired(fault) else WatchEnd.FAILED


class WatchRecord:
    """Counts ends, and the seconds from each end until the server has answered the next watch.

    The time before the first answer counts, too. A gap that is still open counts up to now.
    """

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self.ends: Counter[WatchEnd] = Counter()
        self._gap_s = 0.0
        self._gap_since_s: float | None = timing.monotonic_s()
        """The start of the present gap; None while there is a watch."""

    @property
    def is_watching(self) -> bool:
        return self._gap_since_s is None

    def answered(self) -> None:
        """The server has answered the request for a watch. It may be called several times."""
        self._gap_s = self.gap_s()
        self._gap_since_s = None

    def ended(self, end: WatchEnd) -> None:
        self.ends[end] += 1
        if self._gap_since_s is None:
            self._gap_since_s = self._timing.monotonic_s()

    def gap_s(self) -> float:
        """Seconds without a watch in total."""
        since_s = self._gap_since_s
        return self._gap_s if since_s is None else self._gap_s + self._timing.monotonic_s() - since_s

    def clear(self) -> None:
        """Set all counts to zero."""
        self.ends.clear()
        self._gap_s = 0.0
        if self._gap_since_s is not None:
            self._gap_since_s = self._timing.monotonic_s()


# ---- resources that a server does not show


def is_definite(fault: Exception) -> bool:
    """Whether a retry soon is useless: the server does not serve the resource, or does not allow access to it."""
    return isinstance(fault, ApiError) and fault.code in (403, 404)


def advice(kind: KindSpec, fault: ApiError) -> str:
    """One paragraph for the operator: what the server rejects, what follows from it, and how to change it."""
    remedy = _grant(kind) if fault.code == 403 else _serving(kind)
    return f"Failed to watch {kind.resource}: {fault.message} ({fault.code}). {_consequence(kind)} {remedy}"


def unwatched_text(kind: KindSpec, fault: ApiError) -> str:
    """The resource that is not watched and why, for pages that anyone may read: without names of users."""
    if fault.code == 403:
        return f"{kind.resource}: the server does not allow get, list and watch"
    return str(fault) if isinstance(fault, NotServed) else f"the server does not serve {kind.resource}"


def _consequence(kind: KindSpec) -> str:
    if kind.watch is not None and kind.watch.is_required:
        return "The scheduler cannot schedule without it."
    return "Until that changes, the scheduler continues as if there were none, and asks again from time to time."


def _grant(kind: KindSpec) -> str:
    rule = f'{{apiGroups: ["{kind.group}"], resources: ["{kind.plural}"], verbs: ["get", "list", "watch"]}}'
    return f"Add this rule to the ClusterRole of the scheduler: {rule}"


def _serving(kind: KindSpec) -> str:
    if not kind.group:
        return "Check that the server's address is that of a Kubernetes API server."
    return (
        f"The server does not serve {' or '.join(kind.api_versions)}: "
        f"kubectl api-resources --api-group={kind.group} shows what it does serve."
    )
