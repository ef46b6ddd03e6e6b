"""The streams of lists and watches: decoding, and how they end.

Decoding turns bytes into typed objects. An object that cannot be decoded is reported as such, with its name as far as
possible, and never passes for another.

The end of a stream decides what the reflector does next: after a failure, or when the stream is silent for too long.
Ends are recorded for metrics, and operators get advice if a server does not show a resource.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator
from enum import Enum, StrEnum, auto
from types import TracebackType
from typing import Generic, Self, TypeVar

import msgspec

from mooring.api.api_errors import ApiError, internal_error
from mooring.api.decode import decode_as
from mooring.api.kind_spec import KindSpec, OtherForm
from mooring.apiclient.http_requests import (
    ConnectionLost,
    ConnectionRefused,
    ListMeta,
    TimedOut,
    TooLarge,
    Unreadable,
    failed_status,
)
from mooring.apiclient.served_kinds import NotServed
from mooring.apiclient.throttle import Timing
from mooring.kit.lazy import lazy
from mooring.model.meta import KubeObject, ObjectMeta

T = TypeVar("T", bound=KubeObject)

ADDED, MODIFIED, DELETED, BOOKMARK, ERROR = "ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"
_OF_OBJECTS = frozenset((ADDED, MODIFIED, DELETED, BOOKMARK))
_INITIAL_EVENTS_END = "k8s.io/initial-events-end"

_FAULTS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""The exceptions of decoding; the last is for data that is nested deeper than Python can follow."""


class MalformedObject(Exception):
    """An event, or an item of a list, that cannot be decoded. `metadata` is None if even its name cannot."""

    def __init__(self, metadata: ObjectMeta | None, why: str) -> None:
        super().__init__(why)
        self.metadata = metadata

    @property
    def key(self) -> str:
        return KubeObject(metadata=self.metadata).key if self.metadata is not None else ""


class WatchEvent(msgspec.Struct, Generic[T], gc=False):
    """One line of a watch. For BOOKMARK and DELETED only the metadata counts."""

    type: str
    object: T

    @property
    def ends_initial_list(self) -> bool:
        """Whether this bookmark ends the initial objects of a streaming list."""
        return (self.object.metadata.annotations or {}).get(_INITIAL_EVENTS_END) == "true"


class _RawEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Headed(msgspec.Struct):
    metadata: ObjectMeta


class _Identity(msgspec.Struct, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str | None = None


class _Identified(msgspec.Struct):
    metadata: _Identity


class _WatchPage(msgspec.Struct, Generic[T]):
    kind: str = ""
    items: list[T] | None = None
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


class LineDecoder(Generic[T]):
    """Decodes lines and pages of one kind. It tries the fast way first; only input with a fault takes the slow way."""

    def __init__(self, struct: type[T], form: OtherForm | None = None) -> None:
        """`form` is that of an API version that differs from the struct: all its input takes the slow way."""
        self._struct = struct
        self._form = form
        # The parameter of the generic struct is a value at run time, which type hints cannot express.
        self._events: msgspec.json.Decoder[WatchEvent[T]] = msgspec.json.Decoder(WatchEvent[struct])  # type: ignore[valid-type]

    @lazy
    def _pages(self) -> "msgspec.json.Decoder[_WatchPage[T]]":
        """Hot: made when the first page comes, because lists that are streamed have none: 2 ms of the start for 19 kinds."""
        return msgspec.json.Decoder(_WatchPage[self._struct])  # type: ignore[name-defined]

    def event(self, line: bytes) -> WatchEvent[T]:
        """The event in a line. Raises MalformedObject, and ApiError for an ERROR event.

        Hot: one pass over the bytes, which skips the fields that the structs do not have.
        """
        if self._form is not None:
            return self._event_in_parts(line)
        try:
            event = self._events.decode(line)
        except _FAULTS:
            return self._event_in_parts(line)
        if event.type not in _OF_OBJECTS:
            return self._event_in_parts(line)
        if not event.object.metadata.name and event.type != BOOKMARK:
            raise MalformedObject(None, "an object without a name")
        return event

    def page(self, page: bytes) -> tuple[str, Iterator[T | MalformedObject]]:
        """The version of a list and its items. Raises Unreadable for a page that is not a list, ApiError for a Status."""
        if self._form is not None:
            return self._page_in_parts(page)
        try:
            read = self._pages.decode(page)
        except _FAULTS:
            return self._page_in_parts(page)
        if read.items is None or not read.kind.endswith("List"):
            return self._page_in_parts(page)
        return read.metadata.resource_version or "", (_named(item) for item in read.items)

    # ---- the slow way: each part is decoded separately, to find the one with the fault

    def _event_in_parts(self, line: bytes) -> WatchEvent[T]:
        """Decode an event in two steps, type first, to find out which part of the line is malformed. Raises the error that an
        ERROR event carries."""
        try:
            raw = msgspec.json.decode(line, type=_RawEvent)
        except _FAULTS as fault:
            raise MalformedObject(None, f"a line of the watch that is not an event: {fault}") from None
        if raw.type == ERROR:
            raise _error(raw.object)
        if raw.type not in _OF_OBJECTS:
            raise MalformedObject(None, f"an event of the unknown type {raw.type!r}")
        if raw.type in (BOOKMARK, DELETED):  # Parity: servers write null lists into the objects of bookmarks
            return WatchEvent(raw.type, self._struct(metadata=_metadata(raw.object, raw.type == BOOKMARK)))
        return WatchEvent(raw.type, self._item(raw.object))

    def _page_in_parts(self, page: bytes) -> tuple[str, Iterator[T | MalformedObject]]:
        """Decode a page of a list item by item, so that one malformed object does not make the other objects unreadable.
        Returns the resource version of the list and the items."""
        try:
            read = msgspec.json.decode(page, type=_WatchPage[msgspec.Raw])  # type: ignore[type-var]
        except _FAULTS as fault:
            raise Unreadable(f"the answer is not a list of the API: {fault}") from None
        if error := failed_status(msgspec.json.decode(page)):
            raise error
        if not read.kind.endswith("List"):  # otherwise an empty answer would look like an empty cluster
            raise Unreadable(f"the answer is not a list of the API but of the kind {read.kind!r}")
        return read.metadata.resource_version or "", map(self._item_or_fault, read.items or ())

    def _item_or_fault(self, raw: msgspec.Raw) -> T | MalformedObject:
        try:
            return self._item(raw)
        except MalformedObject as fault:
            return fault

    def _item(self, raw: msgspec.Raw) -> T:
        metadata = _metadata(raw)
        try:
            written = msgspec.json.decode(raw)
            item, problems = decode_as(self._struct, written if self._form is None else self._form.read(written))
        except (*_FAULTS, ValueError) as fault:
            raise MalformedObject(metadata, str(fault)) from None
        if item is None:
            raise MalformedObject(metadata, "; ".join(map(str, problems)))
        return item


def _named(item: T) -> T | MalformedObject:
    return item if item.metadata.name else MalformedObject(None, "an object without a name")


def _metadata(raw: msgspec.Raw, may_lack_name: bool = False) -> ObjectMeta:
    """The metadata, or at least the name, namespace, uid and version, if another field of it has the fault."""
    try:
        metadata = msgspec.json.decode(raw, type=_Headed).metadata
    except _FAULTS:
        metadata = _identity(raw)
    if not metadata.name and not may_lack_name:
        raise MalformedObject(None, "an object without a name")
    return metadata


def _identity(raw: msgspec.Raw) -> ObjectMeta:
    try:
        found = msgspec.json.decode(raw, type=_Identified).metadata
    except _FAULTS as fault:
        raise MalformedObject(None, f"an object whose metadata cannot be decoded: {fault}") from None
    return ObjectMeta(
        name=found.name, namespace=found.namespace, uid=found.uid, resource_version=found.resource_version
    )


def _error(status: msgspec.Raw) -> ApiError:
    try:
        error = failed_status(msgspec.json.decode(status))
    except _FAULTS:
        error = None
    return error or internal_error("the server ended the watch with an error that cannot be decoded")


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
