"""Manifests of nodes, made from a template and a number: `mooring up --nodes 5000` is that many of them."""

from copy import deepcopy

from mooring.api.store import JsonObject

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
ARCH, OS = "kubernetes.io/arch", "kubernetes.io/os"
ZONES = ("zone-a", "zone-b", "zone-c")
DEFAULT_CAPACITY = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
_FEWEST_DIGITS = 4

DEFAULT_TEMPLATE: JsonObject = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"labels": {ARCH: "amd64", OS: "linux", "node.kubernetes.io/instance-type": "mooring-8x32"}},
    "status": {"capacity": DEFAULT_CAPACITY},
}


def make_nodes(count: int, template: JsonObject | None = None, first: int = 1) -> list[JsonObject]:
    """That many nodes, numbered from `first` on, with names of one length."""
    digits = max(_FEWEST_DIGITS, len(str(first + count - 1)))
    return [make_node(number, template, digits) for number in range(first, first + count)]


def make_node(number: int, template: JsonObject | None = None, digits: int = _FEWEST_DIGITS) -> JsonObject:
    """One node. It is called after the template (`node` if that has no name), and is in a zone in turn unless that has one.

    What only one node can have (uid, addresses, pod range, provider's id) is not taken over.
    """
    node = deepcopy(template or DEFAULT_TEMPLATE)
    meta = node.get("metadata") or {}
    stem = (meta.get("name") or meta.get("generateName") or "node").rstrip("-")
    name = f"{stem}-{number:0{digits}d}"
    labels = {ZONE: ZONES[(number - 1) % len(ZONES)], ARCH: "amd64", OS: "linux", **(meta.get("labels") or {})}
    node |= {"apiVersion": "v1", "kind": "Node"}
    node["metadata"] = {"name": name, "labels": {**labels, HOSTNAME: name}}
    if meta.get("annotations"):
        node["metadata"]["annotations"] = meta["annotations"]
    node["spec"] = {k: v for k, v in (node.get("spec") or {}).items() if k not in ("podCIDR", "podCIDRs", "providerID")}
    node["status"] = _fresh_status(node.get("status") or {})
    return node


def _fresh_status(status: JsonObject) -> JsonObject:
    """Of a node that has not been heard of yet; one that does not say what it has gets the usual."""
    kept = {key: value for key, value in status.items() if key not in ("addresses", "conditions", "nodeInfo")}
    capacity = kept.get("capacity") or kept.get("allocatable") or dict(DEFAULT_CAPACITY)
    return {**kept, "capacity": capacity, "allocatable": kept.get("allocatable") or dict(capacity)}
