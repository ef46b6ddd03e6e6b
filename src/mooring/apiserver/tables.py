"""Tables: what `kubectl get` is answered with.

kubectl prints the cells as they come, so their words are kube-apiserver's. Cells are functions of the object and of the
present moment, because ages are printed, not times.
"""

from collections.abc import Iterable
from typing import Literal

from mooring.model.json_objects import JsonObject
from mooring.model.kind_spec import KindSpec

Include = Literal["None", "Metadata", "Object"]
"""How much of each object a row carries along; kubectl needs the metadata to sort and to show namespaces."""

_META = "meta.k8s.io/v1"


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
    row: JsonObject = {"cells": [column.read(item, now_ns) for column in resource.columns]}
    if resource.row_conditions is not None and (conditions := resource.row_conditions(item)):
        row["conditions"] = conditions
    if include == "Metadata":
        row["object"] = {"kind": "PartialObjectMetadata", "apiVersion": _META, "metadata": item["metadata"]}
    elif include == "Object":
        row["object"] = {"kind": resource.kind, "apiVersion": resource.api_version} | item
    return row
