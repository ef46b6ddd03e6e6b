"""Manifests of nodes, made from a template and a number: `mooring up --nodes 5000` is that many of them."""

import itertools
from collections.abc import Collection
from copy import deepcopy

from mooring.model.json_objects import JsonObject

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
ARCH, OS = "kubernetes.io/arch", "kubernetes.io/os"
ZONES = ("zone-a", "zone-b", "zone-c")
DEFAULT_CAPACITY = {"cpu": "8", "memory": "32Gi", "pods": "110", "ephemeral-storage": "100Gi"}
_FEWEST_DIGITS = 4
_MOST_DIGITS = 10
"""Longer ones are no numbers of ours but something else, such as a date."""

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


def missing_nodes(count: int, existing: Collection[str], template: JsonObject | None = None) -> list[JsonObject]:
    """Those of the nodes numbered from 1 to `count` that are not there, however many digits the others' names have."""
    taken = _numbers(existing, template)
    digits = max(_FEWEST_DIGITS, len(str(count)), *taken.values())
    return [make_node(number, template, digits) for number in range(1, count + 1) if number not in taken]


def more_nodes(count: int, existing: Collection[str], template: JsonObject | None = None) -> list[JsonObject]:
    """That many, under the first numbers that are free."""
    taken = _numbers(existing, template)
    digits = max(_FEWEST_DIGITS, *taken.values()) if taken else _FEWEST_DIGITS
    free = (number for number in itertools.count(1) if number not in taken)
    return [make_node(number, template, digits) for number in itertools.islice(free, count)]


def _numbers(names: Collection[str], template: JsonObject | None) -> dict[int, int]:
    """The numbers that nodes called after the template have, with how many digits each is written."""
    stem = f"{_stem((template or {}).get('metadata') or {})}-"
    found = (name.removeprefix(stem) for name in names if name.startswith(stem))
    return {int(text): len(text) for text in found if text.isascii() and text.isdecimal() and len(text) < _MOST_DIGITS}


def _stem(meta: JsonObject) -> str:
    stem: str = meta.get("name") or meta.get("generateName") or "node"
    return stem.rstrip("-")


def make_node(number: int, template: JsonObject | None = None, digits: int = _FEWEST_DIGITS) -> JsonObject:
    """One node. It is called after the template (`node` if that has no name), and is in a zone in turn unless that has one.

    What only one node can have (uid, addresses, pod range, provider's id) is not taken over.
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
    """Of a node that has not been heard of yet; one that does not say what it has gets the usual."""
    kept = {key: value for key, value in status.items() if key not in ("addresses", "conditions", "nodeInfo")}
    capacity = kept.get("capacity") or kept.get("allocatable") or dict(DEFAULT_CAPACITY)
    return {**kept, "capacity": capacity, "allocatable": kept.get("allocatable") or dict(capacity)}
