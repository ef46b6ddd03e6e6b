"""Writes of objects that are no pods, such as claims and volumes: to the API in this process, or by request."""

from functools import cache

import msgspec

from mooring.apiserver.patches.json_patch import apply_merge_patch
from mooring.apiserver.patches.strategic_merge import apply_strategic_merge_patch
from mooring.apiserver.resource_api import ResourceApi
from mooring.framework.intents import Write
from mooring.model.json_objects import MERGE_PATCH, STRATEGIC_MERGE_PATCH, JsonObject
from mooring.model.kind_spec import KindSpec
from mooring.model.kinds import BY_STRUCT
from mooring.model.meta import KubeObject

JSON = "application/json"


@cache
def resource_of(kind: type[KubeObject]) -> KindSpec:
    """Where objects of the kind are served, under the version that Mooring knows best."""
    return BY_STRUCT[kind]


def body_of(write: Write) -> JsonObject:
    """The body as JSON; one that is not a patch says what it is."""
    body = write.body if isinstance(write.body, dict) else msgspec.to_builtins(write.body)
    if write.method == "PATCH" or body is None:
        return body or {}
    resource = resource_of(write.kind)
    return {"apiVersion": resource.api_version, "kind": resource.kind, **body}


def request_of(write: Write) -> tuple[str, str]:
    """Path and content type of the request that carries the write out."""
    resource = resource_of(write.kind)
    within = f"/namespaces/{write.namespace}" if resource.namespaced else ""
    parts = [f"{resource.path}{within}/{resource.plural}"]
    if write.method != "POST":
        parts += filter(None, (write.name, write.subresource))
    if write.method != "PATCH":
        return "/".join(parts), JSON
    return "/".join(parts), STRATEGIC_MERGE_PATCH if write.form == "strategic" else MERGE_PATCH


def carry_out(api: ResourceApi, write: Write) -> KubeObject | None:
    """Do it in this process. Returns the object as it is now, None for one that was deleted. Raises ApiError."""
    resource, body = resource_of(write.kind), body_of(write)
    if write.method == "DELETE":
        api.delete(resource, write.namespace, write.name)
        return None
    if write.method == "POST":
        return msgspec.convert(api.create(resource, write.namespace, body), write.kind)

    def change(live: JsonObject) -> JsonObject:
        if write.method != "PATCH":
            return body
        return apply_strategic_merge_patch(live, body) if write.form == "strategic" else apply_merge_patch(live, body)

    made = api.change(resource, write.namespace, write.name, change, subresource=write.subresource)
    return msgspec.convert(made, write.kind)
