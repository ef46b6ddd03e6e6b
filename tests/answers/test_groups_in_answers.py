"""Pod groups in simulations and differences: each is placed or pending as one, on one line."""

import json
from pathlib import Path
from typing import Any

from jsonschema import validate
from written import GROUP_GATES, Written, a_node, a_pod, a_pod_group, members

from mooring.answers.explain.explanation import GroupExplanation, PodExplanation
from mooring.answers.simulate.day_answer import DayAnswer
from mooring.answers.simulate.simulating import place_pending, run_day
from mooring.answers.simulate.simulation_answer import SimulationAnswer
from mooring.answers.what_if.difference import WhatIf
from mooring.answers.what_if.question import Change, what_if
from mooring.inputs.arrivals import Arrival
from mooring.inputs.loaded_cluster import load

SCHEMAS = Path(__file__).parents[2] / "docs/schemas"


def schema(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SCHEMAS / f"{name}.v1.json").read_text())
    return found


def simulated(*objects: Written, gates: dict[str, bool] | None = None) -> SimulationAnswer:
    answer = place_pending(load(list(objects), feature_gates=GROUP_GATES if gates is None else gates))
    validate(answer.to_dict(), schema("simulate"))
    return answer


def asked(*objects: Written, change: Change) -> WhatIf:
    answer = what_if(load(list(objects), feature_gates=GROUP_GATES), [change])
    validate(answer.to_dict(), schema("what-if"))
    return answer


def table(answer: SimulationAnswer | DayAnswer | WhatIf, title: str) -> list[tuple[object, ...]]:
    return [tuple(row) for each in answer.tables() if each.title == title for row in each.rows]


TWO_GANGS = (
    a_node("n1", "4"),
    a_pod_group("small", 2),
    *members(2, "1", group="small"),
    a_pod_group("large", 8),
    *members(8, "1", group="large"),
)


def test_a_simulation_tells_of_groups_placed_and_pending() -> None:
    answer = simulated(*TWO_GANGS)
    assert answer.summary()[:2] == ["2 of 10 pending pods placed, 1 node", "1 of 2 pod groups placed, after 1ms."]
    large, small = table(answer, "Pod groups")
    assert large[:5] == ("default/large", "pending", "0/8", 8, "-")
    assert str(large[5]).startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert small == ("default/small", "placed", "2/2", 2, "1ms", "-")
    assert table(answer, "Pending") == []
    data = answer.to_dict()
    assert (data["summary"]["groups"], data["summary"]["groupsPlaced"], data["summary"]["groupsPending"]) == (2, 1, 1)
    assert [(each["podGroup"], each["result"], each["onNodes"]) for each in data["groups"]] == [
        ("default/large", "pending", 0),
        ("default/small", "placed", 2),
    ]


def test_a_pending_pod_beyond_the_minimum_has_a_line_of_its_own() -> None:
    answer = simulated(a_node("n1", "2"), a_pod_group(min_count=2), *members(3, "1"))
    assert [(group.is_placed, group.placed_count) for group in answer.groups] == [(True, 2)]
    assert [row[0:2] for row in table(answer, "Pending")] == [(1, "default/gang-2")]


def test_a_gang_that_does_not_fit_does_not_keep_the_simulation_going() -> None:
    answer = simulated(a_node("n1", "1"), a_pod_group(min_count=2), *members(2, "1"))
    assert answer.simulated_s < 60
    assert answer.notes == []


def test_other_pods_still_run_into_the_end_of_the_simulation_as_before() -> None:
    """Groups are no reason to stop while pods of another kind are retried."""
    answer = simulated(a_node("n1", "1"), a_pod("alone", "2"), a_pod_group(min_count=2), *members(2, "1"))
    assert [group.is_placed for group in answer.groups] == [False]
    assert [row[1] for row in table(answer, "Pending")] == ["default/alone"]


def test_without_the_gate_nothing_is_said_of_groups() -> None:
    answer = simulated(*TWO_GANGS, gates={})
    assert answer.groups == []
    assert "groups" not in answer.to_dict() and "groups" not in answer.to_dict()["summary"]
    assert table(answer, "Pod groups") == []


def test_a_day_tells_how_long_groups_waited() -> None:
    loaded = load([a_node("n1", "2"), a_pod_group("a", 2), a_pod_group("b", 2)], feature_gates=GROUP_GATES)
    written = [*members(2, "1", group="a"), *members(2, "1", group="b")]
    pods = load(written, feature_gates=GROUP_GATES).pods()
    second = 1_000_000_000
    arrivals = [Arrival(number * second, pod, 60 * second) for number, pod in enumerate(pods)]
    answer = run_day(loaded, arrivals)
    validate(answer.to_dict(), schema("simulate"))
    waits = {group.key: group.waited_s for group in answer.groups}
    assert waits["default/a"] is not None and waits["default/a"] < 1
    assert waits["default/b"] is not None and 55 < waits["default/b"] < 75
    assert answer.summary()[1].startswith("2 of 2 pod groups placed, after ")
    assert [row[0] for row in table(answer, "Pod groups")] == ["default/b", "default/a"]


# ---- what-if


def test_a_gang_that_is_placed_by_a_change_is_one_line() -> None:
    answer = asked(
        a_node("n1", "4"),
        a_node("n2", "4", cordoned=True),
        a_pod_group(min_count=8),
        *members(8),
        change=("uncordon", "n2"),
    )
    assert answer.summary()[2] == "Pod groups: 1 pending before and placed now (default/gang)."
    assert table(answer, "Pods") == [("default/gang (group of 8)", "placed", "", "n1 (4), n2 (4)", "")]
    assert answer.to_dict()["groups"][0]["change"] == "placed"


def test_a_gang_that_loses_its_nodes_becomes_pending_as_one() -> None:
    running = [
        a_pod(f"g{i}", "2", node="n1", owner="Job/train", schedulingGroup={"podGroupName": "gang"}) for i in range(2)
    ]
    answer = asked(
        a_node("n1", "4"), a_node("n2", "2"), a_pod_group(min_count=2), *running, change=("remove-nodes", "n1")
    )
    assert answer.summary()[2] == "Pod groups: 1 pending now (default/gang)."
    ((group, change, _, where, reason),) = table(answer, "Pods")
    assert (group, change, where) == ("default/gang (group of 2)", "pending", "")
    assert str(reason).startswith("0/1 nodes are available: 1 Insufficient cpu.")
    assert {each.key for each in answer.pending} == {"default/g0", "default/g1"}


def test_a_gang_that_stays_where_it_is_is_not_told() -> None:
    running = [a_pod(f"g{i}", node="n1", schedulingGroup={"podGroupName": "gang"}) for i in range(2)]
    answer = asked(a_node("n1"), a_node("n2"), a_pod_group(min_count=2), *running, change=("cordon", "n2"))
    assert answer.groups == []
    assert "groups" not in answer.to_dict()


def test_a_gang_that_a_manifest_brings_is_new() -> None:
    objects = [a_pod_group(min_count=2), *members(2)]
    answer = asked(a_node("n1"), change=("apply", objects))
    assert [(each.key, each.change) for each in answer.groups] == [("default/gang", "new")]


def test_an_explained_member_of_a_pending_group_gets_the_answer_about_the_group() -> None:
    cluster = load(list(TWO_GANGS), feature_gates=GROUP_GATES)
    answer = place_pending(cluster, ["large-0", "large-7", "small-0"])
    validate(answer.to_dict(), schema("simulate"))
    assert [*answer.answers] == ["default/large-0", "default/large-7"], "the other group is placed"
    for key, found in answer.answers.items():
        assert isinstance(found, GroupExplanation)
        assert found.summary()[0] == f"{key} is scheduled with its group default/large"
        assert (found.fit_count, found.min_count, bool(found.cures)) == (2, 8, True)
        assert found.to_dict() in [each["answer"] for each in answer.to_dict()["explanations"] if "answer" in each]


def test_without_groups_each_pod_is_explained_alone() -> None:
    answer = place_pending(load(list(TWO_GANGS), feature_gates={}), ["large-7"])
    assert [type(found) for found in answer.answers.values()] == [PodExplanation]
