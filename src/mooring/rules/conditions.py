"""Conditions in the status of an object: each type stands in the list at most once, and its lastTransitionTime changes
only when its status changes. Parameters call the type `kind`.

The functions return new lists and never change the one that they are given, because the store shares objects.
"""

from collections.abc import Iterable, Sequence

import msgspec

from mooring.api.json_objects import JsonObject
from mooring.model.meta import Condition

Conditions = Iterable[JsonObject]


def find_condition(conditions: Conditions, kind: str) -> JsonObject | None:
    return next((held for held in conditions if held.get("type") == kind), None)


def condition_of(item: JsonObject, kind: str) -> JsonObject | None:
    """The condition of that type in the object's status."""
    return find_condition(item.get("status", {}).get("conditions", ()), kind)


def holds(item: JsonObject, kind: str) -> bool:
    """Whether the condition of that type is `True`; `Unknown` and a missing condition are not."""
    found = condition_of(item, kind)
    return found is not None and found.get("status") == "True"


def timed(held: JsonObject | None, new: JsonObject, now: str) -> JsonObject:
    """The new condition with its lastTransitionTime: the one of `held`, which it replaces, if the status is the same."""
    is_same = held is not None and held.get("status") == new["status"]
    moment = held.get("lastTransitionTime") if held is not None and is_same else None
    return {**new, "lastTransitionTime": moment or now}


def with_condition(conditions: Conditions, new: JsonObject, now: str) -> list[JsonObject]:
    """The conditions with `new` instead of the one of its type, or at the end: upstream's order for pods and nodes."""
    listed = list(conditions)
    for i, held in enumerate(listed):
        if held.get("type") == new["type"]:
            listed[i] = timed(held, new, now)
            return listed
    return [*listed, timed(None, new, now)]


# ---- workloads


def workload_condition(kind: str, status: bool | str, now: str, reason: str = "", message: str = "") -> JsonObject:
    """A condition without empty fields, as Go writes it. `status` may also be `Unknown`."""
    told = status if isinstance(status, str) else str(bool(status))
    made = {"type": kind, "status": told, "lastTransitionTime": now, "reason": reason, "message": message}
    return {key: value for key, value in made.items() if value}


def with_workload_condition(conditions: Sequence[JsonObject], new: JsonObject) -> list[JsonObject]:
    """The conditions with `new`.

    Parity: controllers of workloads move a changed condition to the end, and leave one alone if status and reason stay,
    even if the message differs. Without that, each change of a counter in the message would write the status.
    """
    held = find_condition(conditions, new["type"])
    if held is not None and (held["status"], held.get("reason")) == (new["status"], new.get("reason")):
        return list(conditions)
    return [*without_condition(conditions, new["type"]), timed(held, new, new["lastTransitionTime"])]


def without_condition(conditions: Conditions, kind: str) -> list[JsonObject]:
    return [condition for condition in conditions if condition.get("type") != kind]


# ---- pods


def disruption_target(reason: str, message: str, pod: JsonObject) -> JsonObject:
    """The condition for a pod that the control plane deletes, for instance by preemption, eviction or a node's taint.

    Jobs read it: their pod failure policies can ignore such pods.
    """
    target = {"type": "DisruptionTarget", "status": "True", "lastProbeTime": None}
    return {**target, "reason": reason, "message": message, "observedGeneration": pod["metadata"].get("generation", 1)}


# ---- typed conditions, as the scheduler and the simulation have them: the same rules on structs


def typed_condition(conditions: Iterable[Condition] | None, kind: str) -> Condition | None:
    return next((held for held in conditions or () if held.type == kind), None)


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
