"""Conditions as lists in a status: each type at most once, and a transition is a change of status.

All functions leave the lists that are there as they are.
"""

from collections.abc import Iterable, Sequence

import msgspec

from mooring.model.json_objects import JsonObject
from mooring.model.meta import Condition

Conditions = Iterable[JsonObject]


def find_condition(conditions: Conditions, type: str) -> JsonObject | None:
    return next((held for held in conditions if held.get("type") == type), None)


def condition_of(item: JsonObject, type: str) -> JsonObject | None:
    """The condition of that type in the object's status."""
    return find_condition(item.get("status", {}).get("conditions", ()), type)


def holds(item: JsonObject, type: str) -> bool:
    found = condition_of(item, type)
    return found is not None and found.get("status") == "True"


def timed(held: JsonObject | None, new: JsonObject, now: str) -> JsonObject:
    """The new condition, with the time of the one that it replaces if the status is the same."""
    is_same = held is not None and held.get("status") == new["status"]
    moment = held.get("lastTransitionTime") if held is not None and is_same else None
    return {**new, "lastTransitionTime": moment or now}


def with_condition(conditions: Conditions, new: JsonObject, now: str) -> list[JsonObject]:
    """The conditions with `new` in its place, or at the end, as pods and nodes have them."""
    listed = list(conditions)
    for i, held in enumerate(listed):
        if held.get("type") == new["type"]:
            listed[i] = timed(held, new, now)
            return listed
    return [*listed, timed(None, new, now)]


# ---- workloads


def workload_condition(type: str, status: bool | str, now: str, reason: str = "", message: str = "") -> JsonObject:
    """A condition without what is empty. `status` may also be `Unknown`."""
    told = status if isinstance(status, str) else str(bool(status))
    made = {"type": type, "status": told, "lastTransitionTime": now, "reason": reason, "message": message}
    return {key: value for key, value in made.items() if value}


def with_workload_condition(conditions: Sequence[JsonObject], new: JsonObject) -> list[JsonObject]:
    """Parity: the controllers of workloads put a condition at the end, and change none whose status and reason stay."""
    held = find_condition(conditions, new["type"])
    if held is not None and (held["status"], held.get("reason")) == (new["status"], new.get("reason")):
        return list(conditions)
    return [*without_condition(conditions, new["type"]), timed(held, new, new["lastTransitionTime"])]


def without_condition(conditions: Conditions, type: str) -> list[JsonObject]:
    return [condition for condition in conditions if condition.get("type") != type]


# ---- pods


def disruption_target(reason: str, message: str, pod: JsonObject) -> JsonObject:
    """The condition that tells why a pod is being deleted by somebody who is not its owner."""
    target = {"type": "DisruptionTarget", "status": "True", "lastProbeTime": None}
    return {**target, "reason": reason, "message": message, "observedGeneration": pod["metadata"].get("generation", 1)}


# ---- typed conditions, as the scheduler and the simulation have them: the same rules on structs


def typed_condition(conditions: Iterable[Condition] | None, type: str) -> Condition | None:
    return next((held for held in conditions or () if held.type == type), None)


def timed_typed(held: Condition | None, new: Condition, now: str | None) -> Condition:
    """`timed` for structs. `now` is None where conditions carry no times, as in a simulation."""
    is_same = held is not None and held.status == new.status
    return msgspec.structs.replace(new, last_transition_time=held.last_transition_time if held and is_same else now)


def with_typed_condition(
    conditions: Iterable[Condition] | None, new: Condition, now: str | None = None
) -> list[Condition]:
    """`with_condition` for structs."""
    listed = list(conditions or ())
    for i, held in enumerate(listed):
        if held.type == new.type:
            listed[i] = timed_typed(held, new, now)
            return listed
    return [*listed, timed_typed(None, new, now)]
