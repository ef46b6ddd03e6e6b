"""Conditions as lists in a status: found by type, replaced without changing the list that is there."""

from collections.abc import Iterable

from mooring.model.json_objects import JsonObject

Conditions = Iterable[JsonObject]


def condition_of(item: JsonObject, type: str) -> JsonObject | None:
    """The condition of that type in the object's status."""
    for condition in item.get("status", {}).get("conditions", ()):
        if condition["type"] == type:
            found: JsonObject = condition
            return found
    return None


def holds(item: JsonObject, type: str) -> bool:
    found = condition_of(item, type)
    return found is not None and found.get("status") == "True"


def with_condition(conditions: Conditions, new: JsonObject, now: str) -> list[JsonObject]:
    """The conditions with `new` in its place, or at the end. The time of its last transition moves only with its status."""
    held = list(conditions)
    for i, condition in enumerate(held):
        if condition["type"] == new["type"]:
            same = condition.get("status") == new["status"]
            moment = condition.get("lastTransitionTime") if same else None
            held[i] = {**new, "lastTransitionTime": moment or now}
            return held
    return [*held, {**new, "lastTransitionTime": now}]


def disruption_target(reason: str, message: str, pod: JsonObject) -> JsonObject:
    """The condition that tells why a pod is being deleted by somebody who is not its owner."""
    target = {"type": "DisruptionTarget", "status": "True", "lastProbeTime": None}
    return {**target, "reason": reason, "message": message, "observedGeneration": pod["metadata"].get("generation", 1)}
