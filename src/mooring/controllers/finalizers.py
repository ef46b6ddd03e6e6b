"""Finalizers: taken off by whoever put them on, once what they stand for is done."""

from mooring.api.access import Api
from mooring.api.resources import Resource
from mooring.api.store import JsonObject


def lift(api: Api, resource: Resource, item: JsonObject, finalizer: str) -> None:
    """Take a finalizer off an object, if it is there."""
    meta = item["metadata"]
    if finalizer not in meta.get("finalizers", ()):
        return
    api.change(resource, meta.get("namespace", ""), meta["name"], lambda held: without_finalizer(held, finalizer))


def without_finalizer(item: JsonObject, finalizer: str) -> JsonObject:
    held = item["metadata"].get("finalizers", ())
    return {**item, "metadata": {**item["metadata"], "finalizers": [name for name in held if name != finalizer]}}
