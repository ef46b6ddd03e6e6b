"""The taints that a node's conditions and its owner call for, and how to put them beside those of others."""

from mooring.model.json_objects import JsonObject
from mooring.model.node import NO_EXECUTE, NO_SCHEDULE

NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"

_BY_CONDITION: dict[tuple[str, str], str] = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
_EVICTING = frozenset((NOT_READY, UNREACHABLE))
_OURS = frozenset(
    [(key, NO_SCHEDULE) for key in (*_BY_CONDITION.values(), UNSCHEDULABLE)] + [(key, NO_EXECUTE) for key in _EVICTING]
)

Mark = tuple[str, str]


def wanted_taints(node: JsonObject) -> list[Mark]:
    """Key and effect of each. A node that has not said yet whether it is ready stays not ready, if it is so marked."""
    conditions = {c["type"]: c.get("status", "") for c in node.get("status", {}).get("conditions", ())}
    keys = [_BY_CONDITION[pair] for pair in conditions.items() if pair in _BY_CONDITION]
    marks = [(key, NO_SCHEDULE) for key in keys] + [(key, NO_EXECUTE) for key in keys if key in _EVICTING]
    if node.get("spec", {}).get("unschedulable"):
        marks.append((UNSCHEDULABLE, NO_SCHEDULE))
    if "Ready" not in conditions:
        marks += [mark for mark in map(mark_of, taints_of(node)) if mark[0] == NOT_READY]
    return marks


def with_taints(node: JsonObject, wanted: list[Mark], now: str) -> list[JsonObject]:
    """The node's taints: those of others, ours that are still wanted as they are, and new ones from now on."""
    kept = [taint for taint in taints_of(node) if mark_of(taint) not in _OURS or mark_of(taint) in wanted]
    held = {mark_of(taint) for taint in kept}
    new = [mark for mark in wanted if mark not in held]
    return [*kept, *({"key": key, "effect": effect, "timeAdded": now} for key, effect in new)]


def taints_of(node: JsonObject) -> list[JsonObject]:
    taints: list[JsonObject] = node.get("spec", {}).get("taints", [])
    return taints


def mark_of(taint: JsonObject) -> Mark:
    return taint.get("key", ""), taint.get("effect", "")
