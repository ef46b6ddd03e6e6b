"""The scale subresource: how many replicas a workload has, whatever its kind."""

from mooring.apiserver.schema.typed_values import check_typed
from mooring.apiserver.written_selectors import selector_text
from mooring.model.api_errors import bad_request, field_invalid, invalid, undecodable
from mooring.model.json_objects import JsonObject
from mooring.model.kind_spec import KindSpec

_KEPT = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_MOST_REPLICAS = (1 << 31) - 1


def scale_of(resource: KindSpec, item: JsonObject) -> JsonObject:
    metadata = {key: item["metadata"][key] for key in _KEPT if key in item["metadata"]}
    spec, status = item.get("spec", {}), item.get("status", {})
    selector = spec.get("selector")
    if resource.has_plain_selector:
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
    check_typed("autoscaling.Scale", scale, "Scale", "v1")
    if scale.get("kind", "Scale") != "Scale":
        raise bad_request("the object provided is unrecognized (must be of type Scale)")
    replicas = (scale.get("spec") or {}).get("replicas") or 0
    if replicas > _MOST_REPLICAS:
        raise undecodable(replicas, "struct field ScaleSpec.spec.replicas of type int32")
    if replicas < 0:
        fault = field_invalid("spec.replicas", replicas, "must be greater than or equal to 0")
        raise invalid("Scale", item["metadata"]["name"], [fault], "autoscaling")
    metadata = {**item["metadata"]}
    expected = (scale.get("metadata") or {}).get("resourceVersion")
    if expected:
        metadata["resourceVersion"] = expected
    return {**item, "metadata": metadata, "spec": {**item["spec"], "replicas": replicas}}
