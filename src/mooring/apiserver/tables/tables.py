"""Tables: what `kubectl get` is answered with.

kubectl prints the cells as they come, so their words are kube-apiserver's. Cells are functions of the object and of the
present moment, because ages are printed, not times.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

from mooring.apiserver.store import JsonObject
from mooring.apiserver.tables.pod_cells import FINISHED
from mooring.apiserver.tables.table_cells import at
from mooring.apiserver.tables.table_columns import COLUMNS, PLAIN, Column
from mooring.model.resources import Resource

Include = Literal["None", "Metadata", "Object"]
"""How much of each object a row carries along; kubectl needs the metadata to sort and to show namespaces."""

_META = "meta.k8s.io/v1"


def columns_of(kind: str) -> Sequence[Column]:
    """The columns of a kind; those that have none of their own show their name and age."""
    return COLUMNS.get(kind, PLAIN)


def table(
    resource: Resource,
    items: Iterable[JsonObject],
    now_ns: int,
    metadata: JsonObject | None = None,
    include: Include = "Metadata",
) -> JsonObject:
    """The Table of a list. `metadata` is the list's: its version, and where to go on."""
    columns = columns_of(resource.kind)
    return {
        "kind": "Table",
        "apiVersion": _META,
        "metadata": metadata or {},
        "columnDefinitions": [column.definition() for column in columns],
        "rows": [_row(resource, item, now_ns, include) for item in items],
    }


def table_of_one(
    resource: Resource, item: JsonObject, now_ns: int, include: Include = "Metadata", headed: bool = True
) -> JsonObject:
    """The one-row Table of an object or of a watch event. Only the first event of a watch is `headed`."""
    metadata = {"resourceVersion": item["metadata"].get("resourceVersion", "")}
    made = table(resource, [item], now_ns, metadata, include)
    return made if headed else {**made, "columnDefinitions": None}


def _row(resource: Resource, item: JsonObject, now_ns: int, include: Include) -> JsonObject:
    row: JsonObject = {"cells": [column.read(item, now_ns) for column in columns_of(resource.kind)]}
    if resource.kind == "Pod" and at(item, "status.phase") in FINISHED:
        row["conditions"] = [FINISHED[at(item, "status.phase")]]
    if include == "Metadata":
        row["object"] = {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": item["metadata"]}
    elif include == "Object":
        row["object"] = {"kind": resource.kind, "apiVersion": resource.api_version} | item
    return row
