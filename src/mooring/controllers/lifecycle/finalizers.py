"""Finalizers: taken off by whoever put them on, once what they stand for is done."""

from mooring.apiserver.resource_api import ResourceApi
from mooring.model.json_objects import JsonObject
from mooring.model.kind_spec import KindSpec


def lift(api: ResourceApi, resource: KindSpec, item: JsonObject, finalizer: str) -> None:
    """Take a finalizer off an object, if it is there."""
    meta = item["metadata"]
    if finalizer not in meta.get("finalizers", ()):
        return
    api.change(resource, meta.get("namespace", ""), meta["name"], lambda held: without_finalizer(held, finalizer))


def without_finalizer(item: JsonObject, finalizer: str) -> JsonObject:
    held = item["metadata"].get("finalizers", ())
    return {**item, "metadata": {**item["metadata"], "finalizers": [name for name in held if name != finalizer]}}
