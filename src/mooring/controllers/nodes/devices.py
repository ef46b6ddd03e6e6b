"""Devices of simulated nodes: a ResourceSlice for each driver that a node's annotation names."""

from collections.abc import Iterable, Sequence

from mooring.api.json_objects import JsonObject
from mooring.api.kinds import RESOURCES
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_kinds import NODE_STORE, NODES

SLICES = RESOURCES["resource.k8s.io", "v1", "resourceslices"]
DEVICES = "mooring.dev/devices"
"""The annotation of a node: `gpu.example.com=8:model=a100,memory=80Gi`, several drivers joined by semicolons."""

MOST_DEVICES = 128
"""The most devices of one slice (upstream: ResourceSliceMaxDevices)."""


class Devices:
    """Publishes one slice for each driver that a node names."""

    name = "devices"
    storages: Sequence[str] = (NODE_STORE,)
    rest_ns = 0

    def __init__(self, api: ResourceApi) -> None:
        self._api = api

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        return (write.key,) if write.type != "DELETED" and _written(write.object) else ()

    def sync(self, key: Key) -> int | None:
        """Create or update the slices. A changed slice gets a new generation: schedulers go by it."""
        node = self._api.find(NODES, "", key[1])
        if node is None:
            return None
        for made in slices_of(node):
            spec = made["spec"]
            held = self._api.find(SLICES, "", made["metadata"]["name"])
            if held is None:
                self._api.create(SLICES, "", made)
            elif held["spec"]["devices"] != spec["devices"]:
                pool = {**spec["pool"], "generation": held["spec"]["pool"]["generation"] + 1}
                self._api.put_spec(SLICES, held, {**spec, "pool": pool})
        return None


def slices_of(node: JsonObject) -> list[JsonObject]:
    """The slices for the devices that a node's annotation declares. Simulations from manifests use it too."""
    metadata = node["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": metadata["name"], "uid": metadata.get("uid", "")}
    return [
        {
            "metadata": {"name": f"{metadata['name']}-{driver}", "ownerReferences": [{**owner, "controller": True}]},
            "spec": _spec(node, driver, count, attributes),
        }
        for driver, count, attributes in _offers(_written(node))
    ]


def _written(node: JsonObject) -> str:
    return str(node["metadata"].get("annotations", {}).get(DEVICES, ""))


def _offers(written: str) -> list[tuple[str, int, dict[str, str]]]:
    """(driver, number, attributes) for each driver. What cannot be parsed is left out."""
    offers = []
    for part in filter(None, written.split(";")):
        what, _, told = part.partition(":")
        driver, _, count = what.strip().partition("=")
        if driver and count.isdecimal():
            pairs = (pair.partition("=") for pair in told.split(",") if "=" in pair)
            attributes = {name.strip(): value.strip() for name, _, value in pairs}
            offers.append((driver, min(int(count), MOST_DEVICES), attributes))
    return offers


def _spec(node: JsonObject, driver: str, count: int, told: dict[str, str]) -> JsonObject:
    """The spec of a slice. `memory` becomes a capacity, everything else a string attribute."""
    memory = told.get("memory")
    attributes = {name: {"string": value} for name, value in told.items() if name != "memory"}
    capacity = {"memory": {"value": memory}} if memory else {}
    return {
        "driver": driver,
        "nodeName": node["metadata"]["name"],
        "pool": {"name": node["metadata"]["name"], "generation": 1, "resourceSliceCount": 1},
        "devices": [_device(i, attributes, capacity) for i in range(count)],
    }


def _device(number: int, attributes: JsonObject, capacity: JsonObject) -> JsonObject:
    device: JsonObject = {"name": f"device-{number}", "attributes": {**attributes, "index": {"int": number}}}
    return {**device, "capacity": capacity} if capacity else device
