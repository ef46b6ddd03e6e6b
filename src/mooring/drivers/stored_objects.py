"""The objects of the embedded API server, as its scheduler writes and reads them in this process.

This is not beside the same over HTTP (`live`), so that `mooring run` does not import the API server (20 ms).
"""

from typing import Any

import msgspec

from mooring.api.json_objects import JsonObject
from mooring.api.kinds import RESOURCES
from mooring.api.kinds.pods import POD as PODS
from mooring.api.patches.json_patch import apply_merge_patch
from mooring.api.patches.strategic_merge import apply_strategic_merge_patch
from mooring.apiserver.resource_api import ResourceApi
from mooring.drivers.api_writer import body_of, resource_of
from mooring.drivers.extender_calls import Whole, shown
from mooring.framework.contract.intents import Write
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod

NODES = RESOURCES["", "v1", "nodes"]


def carry_out(api: ResourceApi, write: Write) -> KubeObject | None:
    """Write to the API of the embedded cluster. Returns the object as written, None after a deletion. Raises ApiError."""
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


def whole_in_store(api: ResourceApi) -> Whole:
    """Whole objects from the store of an embedded cluster."""

    def whole(item: KubeObject) -> Any:
        is_pod = isinstance(item, Pod)
        stored = api.find(PODS if is_pod else NODES, item.namespace, item.name)
        if stored is None or stored["metadata"].get("uid", "") != item.uid:
            return item
        return shown(stored, is_pod)

    return whole
