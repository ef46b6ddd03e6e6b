"""Events that the cluster's own controllers write. The same event again is the same object with a higher count."""

from hashlib import blake2b

from mooring.apiserver.resource_api import ResourceApi
from mooring.controllers.cluster_kinds import EVENTS
from mooring.model.api_errors import ApiError
from mooring.model.json_objects import JsonObject
from mooring.model.kind_spec import KindSpec

WARNING, NORMAL = "Warning", "Normal"


def record_event(
    api: ResourceApi, source: str, item: JsonObject, reason: str, message: str, type: str = NORMAL
) -> None:
    """Say of an object what happened to it. Where that cannot be written, as in a namespace that ends, it is left."""
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
    return blake2b("\0".join(parts).encode(), digest_size=8).hexdigest()


def _event(item: JsonObject, name: str, source: str, reason: str, message: str, type: str, now: str) -> JsonObject:
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
    return {**event, "count": event.get("count", 1) + 1, "lastTimestamp": now}


# ---- Finalizers: taken off by whoever put them on, once what they stand for is done.


def lift(api: ResourceApi, resource: KindSpec, item: JsonObject, finalizer: str) -> None:
    """Take a finalizer off an object, if it is there."""
    meta = item["metadata"]
    if finalizer not in meta.get("finalizers", ()):
        return
    api.change(resource, meta.get("namespace", ""), meta["name"], lambda held: without_finalizer(held, finalizer))


def without_finalizer(item: JsonObject, finalizer: str) -> JsonObject:
    held = item["metadata"].get("finalizers", ())
    return {**item, "metadata": {**item["metadata"], "finalizers": [name for name in held if name != finalizer]}}
