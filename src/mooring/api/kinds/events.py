"""Events of both groups. events.k8s.io validates more strictly than the core group, which accepts what old clients write.

Both groups show the same stored objects; `api/kinds/events.py` converts between the two forms.
"""

from collections.abc import Callable, Iterator
from typing import Any

from mooring.api.api_errors import Cause, field_invalid, field_required
from mooring.api.json_objects import JsonObject, at
from mooring.api.kind_spec import (
    OF_METADATA,
    Cell,
    Column,
    FieldReader,
    KindSpec,
    field_cell,
    labels_at,
    since,
    text_at,
    wide,
)

_NOTE_BYTES = 1024
"""Upstream's limit for the message of an event (noteLengthLimit)."""


def _complete_new(event: JsonObject) -> None:
    """Parity: events.k8s.io shows these even where they are not set."""
    event.setdefault("deprecatedSource", {})
    event.setdefault("deprecatedFirstTimestamp", None)
    event.setdefault("deprecatedLastTimestamp", None)


def _core_faults(event: JsonObject) -> list[Cause]:
    """Parity: the core group requires reporter, action and reason only of events with an eventTime."""
    return [*_report(event, "reportingComponent", "message")] if event.get("eventTime") else []


def _new_faults(event: JsonObject) -> list[Cause]:
    faults = [*_report(event, "reportingController", "note")] if event.get("eventTime") else []
    return [*faults, *_series(event), *_strict(event)]


def _report(event: JsonObject, controller: str, note: str) -> Iterator[Cause]:
    """`controller` and `note` are the names of these fields in the group of the event."""
    for field, key in (("reportingController", controller), ("reportingInstance", "reportingInstance")):
        if not event.get(key):
            yield field_required(field)
    for field in ("action", "reason"):
        if not event.get(field):
            yield field_required(field)
    if len(event.get(note, "").encode()) > _NOTE_BYTES:
        yield field_invalid("message", "", f"can have at most {_NOTE_BYTES} bytes")


def _series(event: JsonObject) -> Iterator[Cause]:
    """A series has at least two occurrences, and the time of the last."""
    series = event.get("series")
    if series is None:
        return
    if series.get("count", 0) < 2:
        yield field_invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield field_required("series.lastObservedTime")


def _strict(event: JsonObject) -> Iterator[Cause]:
    """Faults by the stricter rules of events.k8s.io; it rejects the deprecated fields of the core group."""
    if not event.get("eventTime"):
        yield field_required("eventTime")
    if event.get("type") not in ("Normal", "Warning"):
        yield field_invalid("type", "", f"has invalid value: {event.get('type', '')}")
    for written, field in (
        ("deprecatedFirstTimestamp", "firstTimestamp"),
        ("deprecatedLastTimestamp", "lastTimestamp"),
    ):
        if event.get(written):
            yield field_invalid(field, "", "needs to be unset")
    if event.get("deprecatedCount"):
        yield field_invalid("count", "", "needs to be unset")
    if event.get("deprecatedSource"):
        yield field_invalid("source", "", "needs to be unset")


def _first(item: JsonObject, *paths: str, otherwise: Any = "") -> Any:
    """The first path that has a value: the two groups have different names for the same field."""
    return next((found for path in paths if (found := at(item, path))), otherwise)


_FIRST_SEEN = ("firstTimestamp", "deprecatedFirstTimestamp", "eventTime")

_LAST_SEEN = ("series.lastObservedTime", "lastTimestamp", "deprecatedLastTimestamp", *_FIRST_SEEN)


def _event_object(event: JsonObject, _: int) -> Cell:
    about = _first(event, "involvedObject", "regarding", otherwise={})
    kind, name = about.get("kind", "").lower(), about.get("name", "")
    return f"{kind}/{name}" if name else kind


def _event_source(event: JsonObject, _: int) -> Cell:
    component = _first(
        event, "source.component", "deprecatedSource.component", "reportingComponent", "reportingController"
    )
    host = _first(event, "source.host", "deprecatedSource.host", "reportingInstance")
    return f"{component}, {host}" if host else str(component)


def _event_field(*paths: str, otherwise: Cell = "") -> Callable[[JsonObject, int], Cell]:
    def cell(event: JsonObject, _: int) -> Cell:
        found = _first(event, *paths, otherwise=otherwise)
        return found.strip() if isinstance(found, str) else int(found)

    return cell


def _field_labels() -> dict[str, FieldReader]:
    """The field labels of both groups: each has its own names for the same fields."""
    labels = {**OF_METADATA}
    for name in ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath"):
        read = text_at(f"involvedObject.{name}", f"regarding.{name}")
        labels |= {f"involvedObject.{name}": read, f"regarding.{name}": read}
    controller = ("reportingComponent", "reportingController")
    return labels | {
        **labels_at("reason", "type"),
        "reportingComponent": text_at(*controller),
        "reportingController": text_at(*controller),
        "source": text_at("source.component", "deprecatedSource.component", *controller),
    }


_COLUMNS = (
    Column("Last Seen", lambda event, now_ns: since(_first(event, *_LAST_SEEN), now_ns)),
    Column("Type", field_cell("type")),
    Column("Reason", field_cell("reason")),
    Column("Object", _event_object),
    wide("Subobject", _event_field("involvedObject.fieldPath", "regarding.fieldPath")),
    wide("Source", _event_source),
    Column("Message", _event_field("message", "note")),
    wide("First Seen", lambda event, now_ns: since(_first(event, *_FIRST_SEEN), now_ns)),
    wide("Count", _event_field("series.count", "count", "deprecatedCount", otherwise=1)),
    wide("Name", field_cell("metadata.name")),
)

_LABELS = _field_labels()
EVENT = KindSpec(
    *("", "v1", "events", "Event", True, ("ev",)),
    stored_as="events",
    new_faults=_core_faults,
    field_labels=_LABELS,
    columns=_COLUMNS,
)

NEW_EVENT = KindSpec(
    *("events.k8s.io", "v1", "events", "Event", True, ("ev",)),
    stored_as="events",
    complete=_complete_new,
    new_faults=_new_faults,
    field_labels=_LABELS,
    columns=_COLUMNS,
)


# ---- One event, two forms: the core group and events.k8s.io show the same object under other names.
#
# The store has the core form only, so that a client of either group sees all events.


_CORE_NAMES = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
"""By the name that events.k8s.io gives a field; fields that are not here are called the same in both."""

_NEW_NAMES = {core: new for new, core in _CORE_NAMES.items()}
"""By the name that the core group gives a field."""
_STORAGE = EVENT.storage
_CORE_VERSION, _NEW_VERSION = "v1", "events.k8s.io/v1"
_ALWAYS_SHOWN: JsonObject = {
    "involvedObject": {},
    "source": {},
    "firstTimestamp": None,
    "lastTimestamp": None,
    "eventTime": None,
    "reportingComponent": "",
    "reportingInstance": "",
}
"""Parity: what the core form has even where no writer said it."""


def is_event(resource: KindSpec) -> bool:
    """Whether a resource is the events of either group."""
    return resource.storage == _STORAGE


def stored_form(resource: KindSpec, item: JsonObject) -> JsonObject:
    """The form in which the store keeps an object that a client wrote through this resource."""
    if not is_event(resource):
        if resource.form is not None and resource.stored_version:
            return resource.form.read(item)
        return {**item, "apiVersion": resource.stored_version} if resource.stored_version else item
    core = {_CORE_NAMES.get(key, key): value for key, value in item.items()} if resource.group else item
    return {**_ALWAYS_SHOWN, **core, "apiVersion": _CORE_VERSION}


def shown_form(resource: KindSpec, item: JsonObject) -> JsonObject:
    """The form in which a client of this resource sees a stored object."""
    if resource.stored_version:
        write = resource.form.write if resource.form is not None else None
        return write(item) if write is not None else {**item, "apiVersion": resource.api_version}
    if not is_event(resource) or not resource.group:
        return item
    return {**{_NEW_NAMES.get(key, key): value for key, value in item.items()}, "apiVersion": _NEW_VERSION}
