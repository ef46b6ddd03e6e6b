"""Conditions of workloads: a list of which each type is in at most once, and times that mean something."""

from collections.abc import Sequence

from mooring.model.json_objects import JsonObject


def condition_of(status: JsonObject, type: str) -> JsonObject | None:
    return next((held for held in status.get("conditions", ()) if held["type"] == type), None)


def holds(status: JsonObject, type: str) -> bool:
    found = condition_of(status, type)
    return found is not None and found["status"] == "True"


def a_condition(type: str, status: bool | str, now: str, reason: str = "", message: str = "") -> JsonObject:
    """`status` may also be `Unknown`."""
    told = status if isinstance(status, str) else str(bool(status))
    made = {"type": type, "status": told, "lastTransitionTime": now, "reason": reason, "message": message}
    return {key: value for key, value in made.items() if value}


def with_condition(conditions: Sequence[JsonObject], new: JsonObject) -> list[JsonObject]:
    """The conditions with this one in the place of the other of its type.

    Nothing changes if status and reason are what they were; a transition is a change of status.
    """
    held = next((condition for condition in conditions if condition["type"] == new["type"]), None)
    if held is not None and (held["status"], held.get("reason")) == (new["status"], new.get("reason")):
        return list(conditions)
    if held is not None and held["status"] == new["status"]:
        new = {**new, "lastTransitionTime": held["lastTransitionTime"]}
    return [*without_condition(conditions, new["type"]), new]


def without_condition(conditions: Sequence[JsonObject], type: str) -> list[JsonObject]:
    return [condition for condition in conditions if condition["type"] != type]
