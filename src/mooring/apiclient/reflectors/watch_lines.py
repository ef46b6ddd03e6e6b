"""Decoding of lists and watches: from bytes to typed objects. An object that cannot be decoded is reported as such, with its
name as far as possible, and never passes for another.
"""

from collections.abc import Iterator
from typing import Generic, TypeVar

import msgspec

from mooring.api.api_errors import ApiError, internal_error
from mooring.api.decode import decode_as
from mooring.api.kind_spec import OtherForm
from mooring.apiclient.request_errors import ListMeta, Unreadable, failed_status
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
        self._pages: msgspec.json.Decoder[_WatchPage[T]] = msgspec.json.Decoder(_WatchPage[struct])  # type: ignore[valid-type]

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
