"""What an Event must hold: events.k8s.io asks for more than the core group, which takes what old clients write."""

from collections.abc import Iterator

from mooring.apiserver.lookups import JsonObject
from mooring.model.api_errors import Cause, field_invalid, field_required
from mooring.model.resources import Resource

_NOTE_BYTES = 1024


def complete_event(resource: Resource, event: JsonObject) -> None:
    """Parity: events.k8s.io shows these even where they are not set."""
    if resource.group:
        event.setdefault("deprecatedSource", {})
        event.setdefault("deprecatedFirstTimestamp", None)
        event.setdefault("deprecatedLastTimestamp", None)


def event_faults(resource: Resource, event: JsonObject) -> list[Cause]:
    """Parity: who reports and what was done are asked for only where eventTime is there."""
    faults = [*_report(resource, event)] if event.get("eventTime") else []
    if not resource.group:
        return faults
    return [*faults, *_series(event), *_strict(event)]


def _report(resource: Resource, event: JsonObject) -> Iterator[Cause]:
    controller = "reportingController" if resource.group else "reportingComponent"
    for field, key in (("reportingController", controller), ("reportingInstance", "reportingInstance")):
        if not event.get(key):
            yield field_required(field)
    for field in ("action", "reason"):
        if not event.get(field):
            yield field_required(field)
    if len(event.get("note" if resource.group else "message", "").encode()) > _NOTE_BYTES:
        yield field_invalid("message", "", f"can have at most {_NOTE_BYTES} bytes")


def _series(event: JsonObject) -> Iterator[Cause]:
    series = event.get("series")
    if series is None:
        return
    if series.get("count", 0) < 2:
        yield field_invalid("series.count", "", "should be at least 2")
    if not series.get("lastObservedTime"):
        yield field_required("series.lastObservedTime")


def _strict(event: JsonObject) -> Iterator[Cause]:
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
