"""Writes that many controllers make: events about objects, and finalizers that they remove."""

from hashlib import blake2b

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.apiserver.resource_api import ResourceApi
from mooring.controllers.cluster_kinds import EVENTS

WARNING, NORMAL = "Warning", "Normal"


def record_event(
    api: ResourceApi, source: str, item: JsonObject, reason: str, message: str, type: str = NORMAL
) -> None:
    """Record an event about an object. The same event again raises the count of the one that is there, as upstream's
    recorder does.

    An event that the API server refuses is dropped, as in a namespace that is being deleted: it must not fail the
    controller.
    """
    meta = item["metadata"]
    namespace = meta.get("namespace", "default")
    name = f"{meta['name']}.{_mark(meta['uid'], source, reason, message)}"
    try:
        if api.find(EVENTS, namespace, name) is None:
            api.create(EVENTS, namespace, _event(item, name, source, reason, message, type, api.now()))
        else:
            api.change(EVENTS, namespace, name, lambda held: _again(held, api.now()))
    except ApiError:
        return


def _mark(*parts: str) -> str:
    """A name suffix that is the same for the same event, so that it is found again."""
    return blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


def _event(item: JsonObject, name: str, source: str, reason: str, message: str, type: str, now: str) -> JsonObject:
    """The event as core/v1 has it. Events about objects without a namespace go to `default`, as upstream."""
    meta = item["metadata"]
    regarding = {"kind": item["kind"], "apiVersion": item["apiVersion"], "name": meta["name"], "uid": meta["uid"]}
    if meta.get("namespace"):
        regarding["namespace"] = meta["namespace"]
    return {
        "metadata": {"name": name},
        "involvedObject": regarding,
        "reason": reason,
        "message": message,
        "type": type,
        "source": {"component": source},
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
        "reportingComponent": source,
    }


def _again(event: JsonObject, now: str) -> JsonObject:
    """The event, seen once more."""
    return {**event, "count": event.get("count", 1) + 1, "lastTimestamp": now}


# ---- Finalizers: the controller that is responsible for one removes it when its work is done.


def lift(api: ResourceApi, resource: KindSpec, item: JsonObject, finalizer: str) -> None:
    """Remove a finalizer from an object, if it is there. The API server deletes the object with its last one."""
    meta = item["metadata"]
    if finalizer not in meta.get("finalizers", ()):
        return
    api.change(resource, meta.get("namespace", ""), meta["name"], lambda held: without_finalizer(held, finalizer))


def without_finalizer(item: JsonObject, finalizer: str) -> JsonObject:
    held = item["metadata"].get("finalizers", ())
    return {**item, "metadata": {**item["metadata"], "finalizers": [name for name in held if name != finalizer]}}
