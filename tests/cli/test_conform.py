"""`mooring conform`: one answer a line, whatever the lines are."""

import json
from typing import Any

import pytest
from command import as_manifest, mooring

from build import a_node, a_pod

NODE = as_manifest(a_node("n", cpu="2"))
POD = as_manifest(a_pod("p", cpu="1", schedulerName="default-scheduler"))
GIANT = as_manifest(a_pod("giant", cpu="3", schedulerName="default-scheduler"))
GOOD = {"name": "good", "config": None, "objects": [NODE, POD, GIANT], "pods": ["default/p", "default/giant"]}


def answers(mode: str, *lines: Any) -> list[Any]:
    """What is answered to scenarios, or to lines of text."""
    text = "".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines)
    ran = mooring("conform", mode, stdin=text.encode())
    assert (ran.code, ran.err) == (0, "")
    return [json.loads(line) for line in ran.out.splitlines()]


def test_decide_answers_with_every_verdict() -> None:
    (answer,) = answers("decide", GOOD)
    placed, pending = answer["steps"]
    assert placed == {
        "pod": "default/p",
        "result": "scheduled",
        "node": "n",
        "feasible": ["n"],
        "rejected": {},
        "unschedulablePlugins": [],
    }
    assert (pending["pod"], pending["result"]) == ("default/giant", "unschedulable")
    assert pending["message"] == "0/1 nodes are available: 1 Insufficient cpu."
    assert pending["rejected"] == {
        "n": {"plugin": "NodeResourcesFit", "code": "UnschedulableAndUnresolvable", "reasons": ["Insufficient cpu"]}
    }


def test_a_scenario_may_choose_feature_gates() -> None:
    tainted = as_manifest(a_node("n", taints=["level=3:NoSchedule"]))
    pod = as_manifest(
        a_pod("p", schedulerName="default-scheduler", tolerations=[{"key": "level", "operator": "Gt", "value": "2"}])
    )
    scenario = {"name": "x", "objects": [tainted, pod], "pods": ["default/p"]}
    gates = "TaintTolerationComparisonOperators=true"
    without, with_gate, wrong = answers(
        "decide", scenario, {**scenario, "featureGates": gates}, {**scenario, "featureGates": "No=true"}
    )
    assert (without["steps"][0]["result"], with_gate["steps"][0]["result"]) == ("unschedulable", "scheduled")
    assert wrong["error"].startswith("featureGates: ")


def test_compact_answers_without_details() -> None:
    (answer,) = answers("compact", GOOD)
    assert answer["steps"][0] == {
        "pod": "default/p",
        "result": "scheduled",
        "node": "n",
        "numFeasible": 1,
        "topScore": 0,
        "unschedulablePlugins": [],
    }


def test_config_answers_with_the_plugins_of_each_profile() -> None:
    (answer,) = answers("config", {"name": "default", "config": None})
    assert (answer["name"], answer["stage"]) == ("default", "ok")
    assert answer["plugins"]["default-scheduler"]["queueSort"] == ["PrioritySort"]


def test_a_configuration_that_is_refused_is_an_answer() -> None:
    (answer,) = answers("config", {"name": "bad", "config": {"kind": "Pod"}})
    assert (answer["name"], answer["stage"]) == ("bad", "decode")
    assert answer["error"].startswith("Object 'apiVersion' is missing in ")


def test_pods_that_are_not_waiting_are_already_scheduled() -> None:
    placed = as_manifest(a_pod("old", nodeName="n"))
    (answer,) = answers("decide", {"name": "x", "objects": [NODE, placed], "pods": ["default/old"]})
    assert answer["steps"] == [{"pod": "default/old", "result": "already-scheduled"}]


@pytest.mark.parametrize("cpu", ["1e30", "9223372036854775808"])
def test_an_amount_that_no_column_holds_counts_as_the_largest(cpu: str) -> None:
    objects = [as_manifest(a_node("n", cpu=cpu)), POD]
    (answer,) = answers("decide", {"name": "x", "objects": objects, "pods": ["default/p"]})
    assert [(step["result"], step["node"]) for step in answer["steps"]] == [("scheduled", "n")]


TWICE = as_manifest(a_pod("p", nodeName="n"))


@pytest.mark.parametrize(
    ("line", "error"),
    [
        pytest.param("junk", "JSON is malformed: invalid character (byte 0)", id="no JSON"),
        pytest.param("[]", "Expected `object`, got `array`", id="no object"),
        pytest.param('{"pods": 7}', "Expected `array`, got `int` - at `$.pods`", id="a field of a wrong type"),
        pytest.param(
            '{"config": ' + '{"a":' * 500_000 + "1" + "}" * 500_001, "nesting that is too deep", id="deep nesting"
        ),
        pytest.param({"objects": [7]}, "objects[0]: Expected `object`, got `int`", id="an object that is none"),
        pytest.param(
            {"objects": [TWICE, TWICE]}, "objects[1]: pod default/p(default/p) is already on n", id="a pod twice"
        ),
    ],
)
@pytest.mark.parametrize("mode", ["decide", "compact"])
def test_a_broken_scenario_is_answered_with_its_error_and_the_next_one_is_taken(
    mode: str, line: Any, error: str
) -> None:
    broken, good = answers(mode, line, GOOD)
    assert broken == {"name": "", "error": error, "steps": []}
    assert [step["result"] for step in good["steps"]] == ["scheduled", "unschedulable"]


def test_a_configuration_that_cannot_be_built_is_an_error_of_the_scenario() -> None:
    broken, good = answers("decide", {"name": "x", "config": {"kind": "Pod", "apiVersion": "v1"}}, GOOD)
    assert (broken["name"], broken["steps"]) == ("x", [])
    assert broken["error"].startswith('config: no kind "Pod" is registered')
    assert len(good["steps"]) == 2


def test_timeline_answers_with_the_state_after_each_operation() -> None:
    create = [{"op": "create", "object": item} for item in (NODE, POD)]
    (answer,) = answers("timeline", {"name": "two", "config": None, "ops": create})
    assert answer["name"] == "two"
    assert [state["bound"] for state in answer["states"]] == [{}, {"default/p": "n"}]


@pytest.mark.parametrize(
    "ops",
    [
        pytest.param([7], id="an operation that is none"),
        pytest.param([{"op": "explode"}], id="an unknown operation"),
        pytest.param([{"op": "create", "object": 7}], id="an object that is none"),
        pytest.param([{"op": "advance", "seconds": "soon"}], id="a time that is no number"),
    ],
)
def test_a_broken_timeline_is_answered_with_its_error_and_the_next_one_is_taken(ops: Any) -> None:
    broken, good = answers("timeline", {"name": "bad", "ops": ops}, {"name": "good", "ops": []})
    assert (broken["name"], broken["states"]) == ("bad", [])
    assert broken["error"]
    assert good == {"name": "good", "states": []}


@pytest.mark.parametrize("line", ["junk", "[]", "{", "\x00"], ids=repr)
def test_a_broken_line_among_configurations_is_answered_too(line: str) -> None:
    broken, good = answers("config", line, {"name": "good"})
    assert (broken["name"], broken["stage"]) == ("", "decode")
    assert (good["name"], good["stage"]) == ("good", "ok")


def test_bytes_that_are_no_text_are_answered_too() -> None:
    ran = mooring("conform", "decide", stdin=b'{"name": "\xff"}\n')
    assert ran.code == 0
    assert json.loads(ran.out)["error"]


def test_no_lines_no_answers() -> None:
    assert answers("decide") == []


def test_an_unknown_mode_is_refused() -> None:
    ran = mooring("conform", "guess")
    assert (ran.code, ran.out) == (2, "")
    assert "'guess' is not one of" in ran.err
