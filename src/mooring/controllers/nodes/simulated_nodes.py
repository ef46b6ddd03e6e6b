"""Simulated nodes: manifests made from a template and a number (`mooring up --nodes 5000`), the status that their
kubelets report, what pods see of their node, and their devices."""

import itertools
from collections.abc import Collection, Iterable
from copy import deepcopy
from dataclasses import dataclass
from ipaddress import IPv4Address

from mooring.api.json_objects import JsonObject
from mooring.model.names import HOSTNAME, ZONE
from mooring.model.quantity import NANO, QuantityError, parse
from mooring.model.release import KUBERNETES_VERSION
from mooring.rules.conditions import condition_of, with_condition

# ---- Allocatable of a node, as the kubelet computes it: the capacity minus the reserved amounts.
#
# A kubelet knows its reservations from its configuration. A simulated one has none, so the difference between
# capacity and allocatable, as the manifest of the node has them, stands for them.


_MILLI = NANO // 1000


def with_allocatable(status: JsonObject, before: JsonObject | None = None) -> JsonObject:
    """The status with allocatable amounts that follow from the capacity. `before` is the status before others changed the
    capacity; None if nobody did.

    A resource that only the capacity has is copied, such as an extended resource that somebody patched in. A resource whose
    capacity changed keeps its reservation, and one that left the capacity is not allocatable either. An amount that was
    changed together with the capacity stays as it was written.
    """
    capacity, held = status.get("capacity") or {}, status.get("allocatable") or {}
    found = {**{name: amount for name, amount in capacity.items() if name not in held}, **held}
    if before is not None:
        old_capacity, old = before.get("capacity") or {}, before.get("allocatable") or {}
        for name in [name for name in held if held[name] == old.get(name)]:
            if name in capacity and name in old_capacity and capacity[name] != old_capacity[name]:
                found[name] = _reduced(capacity[name], old_capacity[name], held[name])
            elif name in old_capacity and name not in capacity:
                del found[name]
    return {**status, "allocatable": found} if found != held else status


def _reduced(capacity: str, old_capacity: str, allocatable: str) -> str:
    """A capacity without what was reserved of the old one, and never less than nothing."""
    try:
        reserved = parse(old_capacity) - parse(allocatable)
        if reserved <= 0:
            return capacity
        return _written(max(parse(capacity) - reserved, 0))
    except QuantityError:
        return allocatable  # validation refuses what is no quantity, so this was stored by an older version


def _written(nano: int) -> str:
    if nano % NANO == 0:
        return str(nano // NANO)
    return f"{nano // _MILLI}m" if nano % _MILLI == 0 else f"{nano}n"


ARCH, OS = "kubernetes.io/arch", "kubernetes.io/os"
ZONES = ("zone-a", "zone-b", "zone-c")
"""Nodes go to these in turn, unless the template names a zone."""
DEFAULT_CAPACITY = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
_FEWEST_DIGITS = 4
"""node-0001: names of up to 9,999 nodes sort by number."""
_MOST_DIGITS = 10
"""Longer suffixes are no numbers of this kind but something else, such as a date."""

DEFAULT_TEMPLATE: JsonObject = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"labels": {ARCH: "amd64", OS: "linux", "node.kubernetes.io/instance-type": "mooring-8x32"}},
    "status": {"capacity": DEFAULT_CAPACITY},
}


def missing_nodes(count: int, existing: Collection[str], template: JsonObject | None = None) -> list[JsonObject]:
    """The nodes numbered from 1 to `count` that do not exist yet, however many digits the others' names have."""
    return _numbered(range(1, count + 1), count, existing, template, len(str(count)))


def more_nodes(count: int, existing: Collection[str], template: JsonObject | None = None) -> list[JsonObject]:
    """`count` nodes, under the first numbers that are free."""
    return _numbered(itertools.count(1), count, existing, template)


def _numbered(
    numbers: Iterable[int], most: int, existing: Collection[str], template: JsonObject | None, digits: int = 0
) -> list[JsonObject]:
    """At most `most` nodes with those of the numbers that are free, written as long as the longest that is there, so that
    names sort by number."""
    taken = _numbers(existing, template)
    digits = max(_FEWEST_DIGITS, digits, *taken.values())
    free = (number for number in numbers if number not in taken)
    return [make_node(number, template, digits) for number in itertools.islice(free, most)]


def _numbers(names: Collection[str], template: JsonObject | None) -> dict[int, int]:
    """The numbers that nodes called after the template have, with how many digits each is written."""
    stem = f"{_stem((template or {}).get('metadata') or {})}-"
    found = (name.removeprefix(stem) for name in names if name.startswith(stem))
    return {int(text): len(text) for text in found if text.isascii() and text.isdecimal() and len(text) < _MOST_DIGITS}


def _stem(meta: JsonObject) -> str:
    """The part of a name before the number."""
    stem: str = meta.get("name") or meta.get("generateName") or "node"
    return stem.rstrip("-")


def make_node(number: int, template: JsonObject | None = None, digits: int = _FEWEST_DIGITS) -> JsonObject:
    """One node, named after the template (`node` if that has no name); zones are assigned in turn unless the template
    has one.

    What only one node can have (uid, addresses, pod range, provider's id) is not taken from the template.
    """
    node = deepcopy(template or DEFAULT_TEMPLATE)
    meta = node.get("metadata") or {}
    name = f"{_stem(meta)}-{number:0{digits}d}"
    labels = {ZONE: ZONES[(number - 1) % len(ZONES)], ARCH: "amd64", OS: "linux", **(meta.get("labels") or {})}
    node |= {"apiVersion": "v1", "kind": "Node"}
    node["metadata"] = {"name": name, "labels": {**labels, HOSTNAME: name}}
    if meta.get("annotations"):
        node["metadata"]["annotations"] = meta["annotations"]
    node["spec"] = {k: v for k, v in (node.get("spec") or {}).items() if k not in ("podCIDR", "podCIDRs", "providerID")}
    node["status"] = _fresh_status(node.get("status") or {})
    return node


def _fresh_status(status: JsonObject) -> JsonObject:
    """The status of a node that has not reported yet; without a capacity it gets the default one."""
    kept = {key: value for key, value in status.items() if key not in ("addresses", "conditions", "nodeInfo")}
    capacity = kept.get("capacity") or kept.get("allocatable") or dict(DEFAULT_CAPACITY)
    return {**kept, "capacity": capacity, "allocatable": kept.get("allocatable") or dict(capacity)}


# ---- Report of a kubelet about its node: conditions (ready, no pressure) and facts about the machine.


KUBELET_VERSION = f"v{KUBERNETES_VERSION}"

# Upstream's texts.
_READY = ("Ready", "True", "KubeletReady", "kubelet is posting ready status")
_PRESSURES = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
)
_INFO = {
    "kernelVersion": "6.12.0-mooring",
    "osImage": "Mooring simulated node",
    "containerRuntimeVersion": "containerd://2.1.4",
    "kubeletVersion": KUBELET_VERSION,
}


def missing_labels(node: JsonObject) -> JsonObject:
    """Labels that every kubelet sets on its node, as far as they are not there."""
    labels = node["metadata"].get("labels", {})
    usual = {HOSTNAME: node["metadata"]["name"], ARCH: "amd64", OS: "linux"}
    return {key: value for key, value in usual.items() if key not in labels}


def alive_status(
    node: JsonObject, is_new: bool, address: str, now: str, resized: JsonObject | None = None
) -> JsonObject:
    """The status of a living node. Only what is missing or unknown is reported, so that users can put a node under
    pressure; a new node is ready whatever its manifest says. The same status comes back if there is nothing to report.
    `resized` is the status before others changed the capacity of the node, if they did.
    """
    held = node.get("status", {})
    status = {**held, "conditions": _conditions(node, is_new, now)}
    if not held.get("addresses"):
        hostname = node["metadata"].get("labels", {}).get(HOSTNAME, node["metadata"]["name"])
        given = (("InternalIP", address), ("Hostname", hostname))
        status["addresses"] = [{"type": kind, "address": text} for kind, text in given]
    if not held.get("capacity") and not held.get("allocatable"):
        status |= {"capacity": dict(DEFAULT_CAPACITY), "allocatable": dict(DEFAULT_CAPACITY)}
    if not held.get("nodeInfo", {}).get("kubeletVersion"):
        status["nodeInfo"] = _info(node)
    return with_allocatable(status, resized)


def _conditions(node: JsonObject, is_new: bool, now: str) -> list[JsonObject]:
    """The node's conditions, with those that are missing or unknown set to healthy."""
    conditions: list[JsonObject] = list(node.get("status", {}).get("conditions", ()))
    for kind, wanted, reason, message in (*_PRESSURES, _READY):
        known = condition_of(node, kind)
        # A condition that a user set to True or False stands, so that pressure and failures can be simulated.
        is_unheard = known is None or known.get("status") not in ("True", "False")
        if is_unheard or (is_new and kind == "Ready"):
            told = {"type": kind, "status": wanted, "lastHeartbeatTime": now, "reason": reason, "message": message}
            conditions = with_condition(conditions, told, now)
    return conditions


def _info(node: JsonObject) -> JsonObject:
    """nodeInfo: what the manifest says, completed by that of a simulated machine."""
    labels, uid = node["metadata"].get("labels", {}), node["metadata"]["uid"]
    machine = {"machineID": uid.replace("-", ""), "systemUUID": uid, "bootID": uid, "kubeProxyVersion": ""}
    system = {"operatingSystem": labels.get(OS, "linux"), "architecture": labels.get(ARCH, "amd64")}
    given = {key: value for key, value in node.get("status", {}).get("nodeInfo", {}).items() if value}
    return {**machine, **_INFO, **system, **given}


# ---- Facts about a node that its pods need: whether it lives and its address; and the addresses that nodes and pods get.


FAILED = "mooring.dev/failed"
"""The annotation by which a user makes a node fail: `"true"` stops its kubelet, anything else lets it recover."""


def lives(node: JsonObject) -> bool:
    """Whether the kubelet of the node runs."""
    return bool(node["metadata"].get("annotations", {}).get(FAILED) != "true")


def address_of(node: JsonObject) -> str:
    """Its internal address; empty: it has none yet."""
    for address in node.get("status", {}).get("addresses", ()):
        if address.get("type") == "InternalIP":
            found: str = address.get("address", "")
            return found
    return ""


@dataclass(frozen=True, slots=True)
class Host:
    """A node as its pods need it; made once for each version of the node."""

    node: JsonObject
    lives: bool
    address: str
    """Its internal address; empty: it has none yet."""
    addresses: list[JsonObject]
    """The internal address as a list of entries with `ip`, empty if there is none. The statuses of pods share this list."""

    @classmethod
    def of(cls, node: JsonObject) -> "Host":
        address = address_of(node)
        return cls(node, lives(node), address, [{"ip": address}] if address else [])


# ---- Addresses of pods and nodes: each is given out once for as long as it is in use.


class Addresses:
    """IPv4 addresses of one range, given out in turn."""

    def __init__(self, first: str, count: int, taken: Iterable[str] = ()) -> None:
        """`taken` are addresses that are in use already; those outside of the range do no harm."""
        self._first = IPv4Address(first)
        self._count = count
        self._turn = 0
        self._taken = set(taken)

    def take(self) -> str:
        """A free address. If all are taken they are shared: nothing here routes by them."""
        # At most one more try than there are addresses in use, so it ends also when the range is exhausted.
        for _ in range(min(self._count, len(self._taken) + 1)):
            address = str(self._first + self._turn)
            self._turn = (self._turn + 1) % self._count
            if address not in self._taken:
                break
        self._taken.add(address)
        return address

    def free(self, address: str) -> None:
        self._taken.discard(address)


# ---- Devices of simulated nodes: a ResourceSlice for each driver that a node's annotation names.


DEVICES = "mooring.dev/devices"
"""The annotation of a node: `gpu.example.com=8:model=a100,memory=80Gi`, several drivers joined by semicolons."""

MOST_DEVICES = 128
"""The most devices of one slice (upstream: ResourceSliceMaxDevices)."""


def slices_of(node: JsonObject) -> list[JsonObject]:
    """The slices for the devices that a node's annotation declares. Simulations from manifests use it too."""
    metadata = node["metadata"]
    owner = {"apiVersion": "v1", "kind": "Node", "name": metadata["name"], "uid": metadata.get("uid", "")}
    return [
        {
            "metadata": {"name": f"{metadata['name']}-{driver}", "ownerReferences": [{**owner, "controller": True}]},
            "spec": _spec(node, driver, count, attributes),
        }
        for driver, count, attributes in _offers(declared_devices(node))
    ]


def declared_devices(node: JsonObject) -> str:
    """The devices of a node as its annotation has them; empty: it has none."""
    return str(node["metadata"].get("annotations", {}).get(DEVICES, ""))


def _offers(written: str) -> list[tuple[str, int, dict[str, str]]]:
    """Driver, number and attributes of each offer. Parts that cannot be parsed are left out."""
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
