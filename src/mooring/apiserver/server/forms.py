"""Objects and lists in the form that a client wants, by its Accept header: the object, a table of it, or its metadata
alone.

kubectl prints the cells of a table as they come, so their words are kube-apiserver's. Cells are functions of the object
and of the present moment, because kubectl prints ages, not times.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from mooring.api.api_errors import bad_request, not_acceptable
from mooring.api.json_objects import JSON, OFFERED, YAML, JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds.events import is_event, shown_form
from mooring.apiserver.server.request import Answer, Request
from mooring.apiserver.watch import stamped
from mooring.kit.http_shell import accepted_media

Form = Literal["object", "table", "metadata"]

_FORMS: dict[str, Form] = {
    "Table": "table",
    "PartialObjectMetadata": "metadata",
    "PartialObjectMetadataList": "metadata",
}
"""By the kind that a client wants the answer `as`."""
_ANY = ("*/*", "application/*", "")
"""Media types of clients that take anything."""


@dataclass(frozen=True, slots=True)
class WantedMedia:
    """The form in which a client gets the answer. `is_aggregated`: discovery in one document instead of one for each
    group."""

    form: Form = "object"
    media: str = JSON
    is_aggregated: bool = False


@lru_cache(maxsize=256)
def wanted(accept: str) -> WantedMedia:
    """The first of the client's wishes that the server can fulfil; weights (`q=`) do not count. Raises 406 if it can fulfil
    none."""
    for media, settings in accepted_media(accept or "*/*"):
        if media not in OFFERED and media not in _ANY:
            continue
        chosen = YAML if media == YAML else JSON
        kind = settings.get("as", "")
        if not kind:
            return WantedMedia(media=chosen)
        if kind in _FORMS and settings.get("g") == "meta.k8s.io" and settings.get("v") == "v1":
            return WantedMedia(_FORMS[kind], chosen)
        if kind == "APIGroupDiscoveryList" and settings.get("v") == "v2":
            return WantedMedia(is_aggregated=True)
    raise not_acceptable(OFFERED)


# ---- objects and lists

Include = Literal["None", "Metadata", "Object"]
"""How much of each object a row carries along; kubectl needs the metadata to sort and to show namespaces."""
_META = "meta.k8s.io/v1"
_INCLUDES: dict[str, Include] = {"": "Metadata", "None": "None", "Metadata": "Metadata", "Object": "Object"}


def included(request: Request) -> Include:
    """How much of each object a row of a table carries along."""
    text = request.query.get("includeObject", "")
    if text not in _INCLUDES:
        raise bad_request(f"includeObject: must be one of None, Metadata, Object, not {text!r}")
    return _INCLUDES[text]


def check_form_asked(request: Request) -> None:
    """Raises 406 or 400 before a write is made: otherwise the server would make the write and could not answer."""
    wanted(request.accept)
    included(request)


def answer_one(request: Request, resource: KindSpec, item: JsonObject, now_ns: int, code: int = 200) -> Answer:
    """The answer with one object, in the form that the client asked for."""
    chosen, include = wanted(request.accept), included(request)
    if chosen.form == "table":
        shown = table_of_one(resource, item, now_ns, include)
    else:
        shown = metadata_of(item) if chosen.form == "metadata" else stamped(item, resource)
    return Answer(code, shown, chosen.media)


def answer_many(
    request: Request, resource: KindSpec, items: list[JsonObject], metadata: JsonObject, now_ns: int
) -> Answer:
    """The answer with a list of stored objects, in the form that the client asked for. `metadata` is the list's."""
    chosen, include = wanted(request.accept), included(request)
    if is_event(resource) or resource.stored_version:
        items = [shown_form(resource, item) for item in items]
    if chosen.form == "table":
        shown = table(resource, items, now_ns, metadata, include)
    elif chosen.form == "metadata":
        shown = {"kind": "PartialObjectMetadataList", "apiVersion": _META, "metadata": metadata}
        shown["items"] = [metadata_of(item) for item in items]
    else:
        shown = {"kind": resource.list_kind, "apiVersion": resource.api_version, "metadata": metadata}
        # Parity: items of custom kinds name their kind.
        shown["items"] = [stamped(item, resource) if resource.definition else _unstamped(item) for item in items]
    return Answer(200, shown, chosen.media)


def metadata_of(item: JsonObject) -> JsonObject:
    """The metadata alone, for clients such as the garbage collector."""
    return {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": item["metadata"]}


def _unstamped(item: JsonObject) -> JsonObject:
    """Items of a list do not name their kind: the list does."""
    return {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}


# ---- tables


def table(
    resource: KindSpec,
    items: Iterable[JsonObject],
    now_ns: int,
    metadata: JsonObject | None = None,
    include: Include = "Metadata",
) -> JsonObject:
    """The Table of a list. `metadata` is the list's: its version, and where to go on."""
    return {
        "kind": "Table",
        "apiVersion": _META,
        "metadata": metadata or {},
        "columnDefinitions": [column.definition() for column in resource.columns],
        "rows": [_row(resource, item, now_ns, include) for item in items],
    }


def table_of_one(
    resource: KindSpec, item: JsonObject, now_ns: int, include: Include = "Metadata", headed: bool = True
) -> JsonObject:
    """The one-row Table of an object or of a watch event. Only the first event of a watch is `headed`."""
    metadata = {"resourceVersion": item["metadata"].get("resourceVersion", "")}
    made = table(resource, [item], now_ns, metadata, include)
    return made if headed else {**made, "columnDefinitions": None}


def _row(resource: KindSpec, item: JsonObject, now_ns: int, include: Include) -> JsonObject:
    """One object as a row, with as much of the object as the client asked for."""
    row: JsonObject = {"cells": [column.read(item, now_ns) for column in resource.columns]}
    if resource.row_conditions is not None and (conditions := resource.row_conditions(item)):
        row["conditions"] = conditions
    if include == "Metadata":
        row["object"] = metadata_of(item)
    elif include == "Object":
        row["object"] = stamped(item, resource)
    return row
