"""Preemption passes through extenders: they may drop nodes and change victims (extender.md §6, preemption.md §6)."""

from typing import Any

import pytest

from extending import URL, Extended, a_pending, a_running, as_json
from mooring.framework.contract.intents import CallFault

ONE = {"preemptVerb": "preempt", "nodeCacheCapable": True}


def a_world(*extenders: dict[str, Any]) -> Extended:
    """Two full nodes. Without extenders n1 is chosen: its victim has the lower priority."""
    world = Extended(*extenders, nodes=("n1", "n2"))
    world.put(
        a_running("low", "n1", cpu="2", priority=1),
        a_running("high", "n1", cpu="2", priority=50),
        a_running("middle", "n2", cpu="4", priority=5),
    )
    return world


def victims(**by_node: list[str]) -> dict[str, Any]:
    meta = {node: {"Pods": [{"UID": f"uid-{pod}"} for pod in pods]} for node, pods in by_node.items()}
    return {"NodeNameToMetaVictims": meta}


def outcome(world: Extended) -> tuple[str, set[str]]:
    """The node that the pod gets in the end, and who was evicted for it."""
    place = world.place(a_pending(cpu="2", priority=10))
    gone = {"low", "high", "middle"} - {pod.name for pod in world.driver.pods()}
    return place, gone


def test_without_extenders_the_least_harmful_node_is_taken() -> None:
    assert outcome(a_world()) == ("n1", {"low"})


OUTCOMES: dict[str, tuple[Any, tuple[str, set[str]]]] = {
    "it agrees": (victims(n1=["low"], n2=["middle"]), ("n1", {"low"})),
    "it drops the best node": (victims(n2=["middle"]), ("n2", {"middle"})),
    "it names other victims": (victims(n1=["low", "high"]), ("n1", {"low", "high"})),
    "its victims decide which node is best": (victims(n1=["high"], n2=["middle"]), ("n2", {"middle"})),
    "the first victim is taken for the most important": (
        victims(n1=["low", "high"], n2=["middle"]),
        ("n1", {"low", "high"}),
    ),
    "keys may be in any case": (
        {"nodeNameToMetaVictims": {"n2": {"pods": [{"uid": "uid-middle"}]}}},
        ("n2", {"middle"}),
    ),
    "budgets that it counts decide first": (
        {
            "NodeNameToMetaVictims": {
                "n1": {"Pods": [{"UID": "uid-low"}], "NumPDBViolations": 1},
                "n2": {"Pods": [{"UID": "uid-middle"}]},
            }
        },
        ("n2", {"middle"}),
    ),
}


@pytest.mark.parametrize("case", OUTCOMES)
def test_the_answer_replaces_the_candidates(case: str) -> None:
    answer, expected = OUTCOMES[case]
    world = a_world(ONE)
    world.answers["preempt"] = answer
    assert outcome(world) == expected


def test_the_next_extender_gets_what_is_left() -> None:
    world = a_world(ONE, {"filterVerb": "", "weight": 1}, {**ONE, "preemptVerb": "second"})
    world.answers |= {"preempt": victims(n2=["middle"]), "second": victims(n2=["middle"])}
    assert outcome(world) == ("n2", {"middle"})
    first, second = (as_json(call)["NodeNameToMetaVictims"] for call in world.calls)
    assert first == {
        "n1": {"Pods": [{"UID": "uid-low"}], "NumPDBViolations": 0},
        "n2": {"Pods": [{"UID": "uid-middle"}], "NumPDBViolations": 0},
    }
    assert second == {"n2": {"Pods": [{"UID": "uid-middle"}], "NumPDBViolations": 0}}


@pytest.mark.parametrize("answer", [{}, None, {"NodeNameToMetaVictims": {}}, {"NodeNameToMetaVictims": None}])
def test_where_nothing_is_left_nobody_leaves(answer: Any) -> None:
    world = a_world(ONE, {**ONE, "preemptVerb": "second"})
    world.answers["preempt"] = answer
    assert outcome(world) == ("", set())
    assert world.asked() == ["preempt"], "there is nothing to ask the second about"
    reason, message = world.why()
    assert reason == "Unschedulable"
    assert message.endswith("preemption: no candidate node for preemption")


FAULTS: dict[str, tuple[Any, str]] = {
    "it cannot be reached": (CallFault(f'Post "{URL}/preempt": EOF'), f'Post "{URL}/preempt": EOF'),
    "a node that nobody knows": (victims(ghost=["low"]), 'nodeinfo not found for node name "ghost"'),
    "a pod on another node": (
        victims(n1=["middle"]),
        f"extender: {URL} claims to preempt pod (UID: uid-middle) on node: n1, but the pod is not found on that node",
    ),
    "an answer that is no object": (
        [],
        "json: cannot unmarshal array into Go value of type v1.ExtenderPreemptionResult",
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_failure_ends_preemption(case: str) -> None:
    answer, text = FAULTS[case]
    world = a_world(ONE)
    world.answers["preempt"] = answer
    assert outcome(world) == ("", set())
    assert world.why() == ("Unschedulable", f"0/2 nodes are available: 2 Insufficient cpu. preemption: {text}")


@pytest.mark.parametrize("case", FAULTS)
def test_one_that_may_fail_is_passed_over(case: str) -> None:
    answer, text = FAULTS[case]
    world = a_world({**ONE, "ignorable": True})
    world.answers["preempt"] = answer
    assert outcome(world) == ("n1", {"low"})
    skipped = "Skipped extender as it returned error and has ignorable flag set"
    assert world.reports == [f"{skipped}: extender {URL}: {text}"]


def test_a_node_without_victims_is_an_error() -> None:
    world = a_world(ONE)
    world.answers["preempt"] = victims(n1=[], n2=["middle"])
    assert outcome(world) == ("", set())
    assert world.why()[1].endswith('preemption: expected at least one victim pod on node "n1"')


def test_or_is_dropped_where_the_extender_may_fail() -> None:
    world = a_world({**ONE, "ignorable": True})
    world.answers["preempt"] = victims(n1=[], n2=["middle"])
    assert outcome(world) == ("n2", {"middle"})
    ignored = "Ignored node for which the extender didn't report victims"
    assert world.reports == [f"{ignored}: extender {URL}: node n1"]


def test_where_there_are_no_candidates_nobody_is_asked() -> None:
    world = a_world(ONE)
    world.place(a_pending(cpu="2", priority=0))
    assert world.calls == []
    assert "No preemption victims found for incoming pod" in world.why()[1]
