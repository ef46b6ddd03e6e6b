"""The bytes of a call: the core's plain data, with whole objects where the core has only what a scheduler reads."""

from collections.abc import Callable
from typing import Any

import msgspec

from mooring.apiserver.admission.pod_updates import PODS
from mooring.apiserver.resource_api import ResourceApi
from mooring.framework.intents import Call
from mooring.model.kinds import RESOURCES
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod

NODES = RESOURCES["", "v1", "nodes"]

Whole = Callable[[KubeObject], Any]
"""The object as the server has it, ready for JSON; or what was given where there is no better."""

_encode = msgspec.json.Encoder().encode


def encoded(call: Call, whole: Whole) -> bytes:
    return _encode(_filled(call.body, whole))


def _filled(value: Any, whole: Whole) -> Any:
    if isinstance(value, KubeObject):
        return whole(value)
    if isinstance(value, dict):
        return {key: _filled(member, whole) for key, member in value.items()}
    if isinstance(value, list):
        return [_filled(item, whole) for item in value]
    return value


def shown(item: dict[str, Any], is_pod: bool) -> dict[str, Any]:
    """Parity: neither kind nor apiVersion; managedFields are cut from pods, and stay in nodes."""
    bare = {key: value for key, value in item.items() if key not in ("kind", "apiVersion")}
    metadata = bare.get("metadata")
    if is_pod and isinstance(metadata, dict) and "managedFields" in metadata:
        bare["metadata"] = {key: value for key, value in metadata.items() if key != "managedFields"}
    return bare


def whole_in_store(api: ResourceApi) -> Whole:
    """Objects of an embedded cluster."""

    def whole(item: KubeObject) -> Any:
        is_pod = isinstance(item, Pod)
        stored = api.find(PODS if is_pod else NODES, item.namespace, item.name)
        if stored is None or stored["metadata"].get("uid", "") != item.uid:
            return item
        return shown(stored, is_pod)

    return whole
