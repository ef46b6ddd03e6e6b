"""How conditions replace each other, for pods and nodes and for workloads."""

import copy

import msgspec
import pytest

from mooring.api.json_objects import JsonObject
from mooring.model.meta import Condition
from mooring.rules.conditions import (
    condition_of,
    find_condition,
    holds,
    timed_typed,
    typed_condition,
    with_condition,
    with_typed_condition,
    with_workload_condition,
    without_condition,
    workload_condition,
)

THEN, NOW = "2026-11-15T00:00:00Z", "2026-11-15T01:00:00Z"


def a_condition(type: str, status: str = "True", reason: str = "", since: str = THEN) -> JsonObject:
    return {"type": type, "status": status, "reason": reason, "lastTransitionTime": since}


HELD = [a_condition("A"), a_condition("B", "False", "Old"), a_condition("C")]
B, C = HELD[1], HELD[2]

IN_PLACE = {
    "the same status keeps its time": ({"type": "B", "status": "False"}, 1, THEN),
    "another status is a transition": ({"type": "B", "status": "True"}, 1, NOW),
    "a new type comes last": ({"type": "D", "status": "True"}, 3, NOW),
}


@pytest.mark.parametrize(("new", "place", "since"), IN_PLACE.values(), ids=IN_PLACE)
def test_conditions_of_pods_and_nodes_stay_in_their_places(new: JsonObject, place: int, since: str) -> None:
    before = copy.deepcopy(HELD)
    made = with_condition(HELD, new, NOW)
    assert made[place] == {**new, "lastTransitionTime": since}, "nothing of the old one is left but the time"
    assert [c["type"] for c in made] == [c["type"] for c in HELD] + (["D"] if place == 3 else [])
    assert before == HELD


@pytest.mark.parametrize(("new", "place", "since"), IN_PLACE.values(), ids=IN_PLACE)
def test_typed_conditions_follow_the_same_rules(new: JsonObject, place: int, since: str) -> None:
    typed, added = msgspec.convert(HELD, list[Condition]), msgspec.convert(new, Condition)
    assert with_typed_condition(typed, added, NOW) == msgspec.convert(with_condition(HELD, new, NOW), list[Condition])
    assert typed == msgspec.convert(HELD, list[Condition]), "the list that is there stays as it is"
    assert timed_typed(typed_condition(typed, new["type"]), added, None).last_transition_time == (
        THEN if since == THEN else None
    )


def test_a_condition_without_a_time_gets_one() -> None:
    assert with_condition([{"type": "A", "status": "True"}], {"type": "A", "status": "True"}, NOW) == [
        {"type": "A", "status": "True", "lastTransitionTime": NOW}
    ]


AT_THE_END = {
    "nothing to say": (workload_condition("B", False, NOW, "Old", "other words"), HELD),
    "another reason": (workload_condition("B", False, NOW, "New"), [HELD[0], C, a_condition("B", "False", "New")]),
    "another status": (
        workload_condition("B", "Unknown", NOW, "Old"),
        [HELD[0], C, a_condition("B", "Unknown", "Old", NOW)],
    ),
}


@pytest.mark.parametrize(("new", "expected"), AT_THE_END.values(), ids=AT_THE_END)
def test_conditions_of_workloads_that_change_come_last(new: JsonObject, expected: list[JsonObject]) -> None:
    assert with_workload_condition(HELD, new) == expected


def test_finding_and_removing() -> None:
    item = {"status": {"conditions": HELD}}
    assert condition_of(item, "B") is B and find_condition(HELD, "D") is None
    assert (holds(item, "A"), holds(item, "B"), holds({}, "A")) == (True, False, False)
    assert without_condition(HELD, "B") == [HELD[0], C]
    assert workload_condition("A", True, NOW) == {"type": "A", "status": "True", "lastTransitionTime": NOW}
