"""The scale subresource: how many replicas a workload has, whatever its kind."""

from mooring.api.errors import bad_request, field_invalid, invalid
from mooring.api.resources import Resource
from mooring.api.store import JsonObject
from mooring.api.written_selectors import selector_text

_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")


def scale_of(resource: Resource, item: JsonObject) -> JsonObject:
    metadata = {key: item["metadata"][key] for key in _KEPT if key in item["metadata"]}
    spec, status = item.get("spec", {}), item.get("status", {})
    selector = spec.get("selector")
    if resource.plural == "replicationcontrollers":
        selector = {"matchLabels": selector or {}}
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": spec["replicas"]} if spec.get("replicas") else {},
        "status": {"replicas": status.get("replicas", 0), "selector": selector_text(selector)},
    }


def with_scale(item: JsonObject, scale: JsonObject) -> JsonObject:
    """The workload with the replicas of a Scale, meant for the version that the Scale names."""
    if scale.get("kind", "Scale") != "Scale" or not isinstance(scale.get("spec") or {}, dict):
        raise bad_request("the object provided is unrecognized (must be of type Scale)")
    replicas = (scale.get("spec") or {}).get("replicas", 0)
    if isinstance(replicas, bool) or not isinstance(replicas, int):
        raise bad_request("json: cannot unmarshal a field into Go struct field ScaleSpec.spec.replicas of type int32")
    if replicas < 0:
        fault = field_invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid("Scale", item["metadata"]["name"], [fault], "autoscaling")
    metadata = {**item["metadata"]}
    expected = (scale.get("metadata") or {}).get("resourceVersion")
    if expected:
        metadata["resourceVersion"] = expected
    return {**item, "metadata": metadata, "spec": {**item["spec"], "replicas": replicas}}
