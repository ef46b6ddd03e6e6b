"""One event, two forms: the core group and events.k8s.io show the same object under other names.

The store has the core form only, so that a client of either group sees all events.
"""

from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds.events import EVENT

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
"""The other way round."""
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
    """What a client wrote through this resource, as the store has it."""
    if not is_event(resource):
        return item
    core = {_CORE_NAMES.get(key, key): value for key, value in item.items()} if resource.group else item
    return {**_ALWAYS_SHOWN, **core, "apiVersion": _CORE_VERSION}


def shown_form(resource: KindSpec, item: JsonObject) -> JsonObject:
    """What the store has, as a client of this resource sees it."""
    if not is_event(resource) or not resource.group:
        return item
    return {**{_NEW_NAMES.get(key, key): value for key, value in item.items()}, "apiVersion": _NEW_VERSION}
