"""Builders of devices, of the slices they come in, and of claims for them: say what matters, leave out the rest."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from mooring.model.devices import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from mooring.model.pod import Pod
from mooring.model.pod_spec import MappedResource, NodeAllocatableClaimStatus
from mooring.plugins.devices import device_search

DRIVER = "gpu.example.com"
JsonObject = dict[str, Any]


def a_device(name: str = "dev-0", capacity: JsonObject | None = None, **content: Any) -> JsonObject:
    """Attributes are given by their value: `a_device("dev-0", numa=0, model="a100")`; other fields in camelCase."""
    known = (
        *("consumesCounters", "nodeName", "nodeSelector", "allNodes", "taints", "bindsToNode"),
        *("bindingConditions", "bindingFailureConditions", "allowMultipleAllocations", "attributes"),
        "nodeAllocatableResources",
    )
    fields = {key: value for key, value in content.items() if key in known}
    attributes = {key: _attribute(value) for key, value in content.items() if key not in known}
    written = {key: value if isinstance(value, dict) else {"value": value} for key, value in (capacity or {}).items()}
    return {"name": name, "attributes": {**attributes, **fields.pop("attributes", {})}, "capacity": written, **fields}


def _attribute(value: Any) -> JsonObject:
    kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"
    return {kind: value}


def a_slice(
    name: str = "slice",
    *devices: JsonObject,
    node: str | None = None,
    driver: str = DRIVER,
    pool: str | None = None,
    generation: int = 1,
    count: int = 1,
    **spec: Any,
) -> ResourceSlice:
    """A slice of one node, or else of wherever `spec` says; its pool is named after the node."""
    written = {
        "driver": driver,
        "pool": {"name": pool or node or "pool", "generation": generation, "resourceSliceCount": count},
        "devices": list(devices),
        **({"nodeName": node} if node else {}),
        **spec,
    }
    return msgspec.convert({"metadata": {"name": name}, "spec": written}, ResourceSlice)


def a_rule(name: str = "rule", effect: str = "NoSchedule", key: str = "broken", **selector: str) -> DeviceTaintRule:
    """A rule that taints devices; `driver`, `pool` and `device` are those of its selector."""
    spec = {"taint": {"key": key, "effect": effect}, **({"deviceSelector": selector} if selector else {})}
    return msgspec.convert({"metadata": {"name": name}, "spec": spec}, DeviceTaintRule)


def a_class(name: str = "gpu", *selectors: str, **spec: Any) -> DeviceClass:
    return msgspec.convert({"metadata": {"name": name}, "spec": {"selectors": cel(*selectors), **spec}}, DeviceClass)


def cel(*expressions: str) -> list[JsonObject]:
    return [{"cel": {"expression": expression}} for expression in expressions]


def an_ask(
    count: int = 1, *selectors: str, mode: str = "ExactCount", device_class: str = "gpu", **more: Any
) -> JsonObject:
    """What a request asks for; `mode="All"` for all devices."""
    asked: JsonObject = {"deviceClassName": device_class, "allocationMode": mode, "selectors": cel(*selectors), **more}
    return asked if mode == "All" else {**asked, "count": count}


def a_claim(name: str = "claim", *requests: JsonObject | list[JsonObject], **content: Any) -> ResourceClaim:
    """Requests are asks, which get the names r0, r1 and so on, or a list of asks with names of their own."""
    written = [_request(i, each) for i, each in enumerate(requests or (an_ask(),))]
    devices: JsonObject = {"requests": written}
    devices |= {key: content.pop(key) for key in ("constraints", "config") if key in content}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", **content.pop("metadata", {})}
    return msgspec.convert({"metadata": metadata, "spec": {"devices": devices}, **content}, ResourceClaim)


def _request(index: int, ask: Any) -> JsonObject:
    if isinstance(ask, list):
        return {"name": f"r{index}", "firstAvailable": [{"name": f"s{i}", **each} for i, each in enumerate(ask)]}
    return {"name": f"r{index}", "exactly": ask}


def an_allocation(*devices: str, node: str | None = None, **more: Any) -> JsonObject:
    """Devices are named `pool/device`."""
    results = [
        {"request": "r0", "driver": DRIVER, "pool": pool, "device": device, **more}
        for pool, device in (each.split("/") for each in devices)
    ]
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    selector = {"nodeSelector": {"nodeSelectorTerms": [term]}} if node else {}
    return {"devices": {"results": results}, **selector}


def given(claim: ResourceClaim) -> list[str]:
    """The devices of a claim, as `request=pool/device`."""
    allocation = claim.status.allocation
    results = (allocation.devices.results or ()) if allocation is not None else ()
    return [f"{each.request}={each.pool}/{each.device}" for each in results]


def parts_of_node(**resources: str) -> JsonObject:
    """The field of a device that is so much of each resource of its node."""
    return {name: {"mapping": {"deviceMultiplier": amount}} for name, amount in resources.items()}


def a_status(claim: str, containers: list[str], **resources: str) -> NodeAllocatableClaimStatus:
    """The entry in the status of a pod for a claim whose devices are so much of each resource of the node."""
    mapped = [MappedResource(name, amount) for name, amount in sorted(resources.items())]
    return NodeAllocatableClaimStatus(claim, containers, mapped or None)


def claiming(pod: Pod, *names: str) -> Pod:
    """The pod with these claims."""
    entries = [{"name": name, "resourceClaimName": name} for name in names]
    written = {**msgspec.to_builtins(pod)}
    written["spec"] = {**written["spec"], "resourceClaims": entries}
    return msgspec.convert(written, Pod)


@pytest.fixture(autouse=True, scope="module", params=["few devices are wanted", "many devices are wanted"])
def few_and_many_devices(request: pytest.FixtureRequest) -> Iterator[None]:
    """Runs all tests of a module twice: a search for many devices keeps a list of the free ones, and must find the same."""
    before = device_search.MANY_DEVICES
    device_search.MANY_DEVICES = before if request.param == "few devices are wanted" else -1
    yield
    device_search.MANY_DEVICES = before
