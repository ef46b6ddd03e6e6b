"""AgentScore: what policies may answer, how they are loaded, and TotalsPlugin, the point that it extends."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_cluster, a_node, a_pod
from mooring.framework import config as configuration
from mooring.framework.attempts.runner import Runner
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import Handle, Rows, ScorePlugin, Scores
from mooring.framework.contract.special_points import TotalsPlugin
from mooring.framework.profile.profiles import Profile
from mooring.plugins.agent_score import AgentScore, DecisionObserver, chosen, onnx_policy, weighed
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import DecisionError, Placement
from mooring.state.scheduler_assembly import all_plugins, build_runners


def a_runner(args: Mapping[str, Any] | None = None) -> Runner:
    """The default profile with AgentScore."""
    profile = {
        "plugins": {"multiPoint": {"enabled": [{"name": "AgentScore"}]}},
        "pluginConfig": [{"name": "AgentScore", "args": dict(args or {})}],
    }
    kind = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    config = configuration.from_object({**kind, "profiles": [profile]})
    return build_runners(config, all_plugins())["default-scheduler"]


NODES = [a_node("b", cpu="4"), a_node("c", cpu="8"), a_node("a", cpu="2")]


def decided(answer: Any, args: Mapping[str, Any] | None = None, cpu: str = "1") -> Placement:
    runner = a_runner(args)
    assert isinstance(runner.judge, AgentScore)
    runner.judge.policy = lambda observation: answer
    decision = decide(runner, a_pod(cpu=cpu), a_cluster(*NODES), DecideOptions())
    assert isinstance(decision, Placement)
    return decision


@pytest.mark.parametrize(
    ("answer", "node"),
    [
        (0, "a"),
        (np.int64(1), "b"),
        (2, "c"),
        (3, "c"),
        (None, "c"),
        (99, "c"),
        (-1, "c"),
        (np.array([0.5, 0.9, 0.1, 0.2]), "b"),
        (np.array([0.5, 0.4, 0.1, 0.9]), "c"),
    ],
    ids=[
        "the first node by name",
        "a number of NumPy",
        "the last node",
        "one more: the scores decide",
        "nothing: the scores decide",
        "a place that is not there",
        "a negative place",
        "preferences",
        "preferences for the scores",
    ],
)
def test_an_action_names_a_node_or_leaves_it_to_the_scores(answer: Any, node: str) -> None:
    assert decided(answer).node == node


def test_preferences_for_nodes_that_are_not_open_do_not_count() -> None:
    assert decided(np.array([9.0, 1.0, 0.5, 0.0]), cpu="3").node == "b"


def test_weights_are_those_of_the_score_plugins() -> None:
    names = [plugin.name for plugin in a_runner().scores if plugin.name != "AgentScore"]
    weights = np.array([-1.0 if name == "NodeResourcesFit" else 0.0 for name in names])
    # 1 cpu of 2, 4 or 8: the least free node has the lowest score of LeastAllocated, and the weight turns that around.
    assert decided(weights, {"action": "weights"}).node == "a"
    assert decided(-weights, {"action": "weights"}).node == "c"


@pytest.mark.parametrize(
    ("answer", "args", "told"),
    [
        (np.array([1.0]), {}, "(1,) preferences for 4 actions"),
        (np.array([1.0]), {"action": "weights"}, "(1,) weights for"),
        ("a", {}, "invalid literal for int()"),
    ],
    ids=["too few preferences", "too few weights", "a text"],
)
def test_an_answer_that_means_nothing_ends_the_attempt_with_the_plugin_named(answer: Any, args: Any, told: str) -> None:
    runner = a_runner(args)
    assert isinstance(runner.judge, AgentScore)
    runner.judge.policy = lambda observation: answer
    decision = decide(runner, a_pod(cpu="1"), a_cluster(*NODES), DecideOptions())
    assert isinstance(decision, DecisionError)
    assert told in decision.error
    assert "AgentScore" in decision.error


@pytest.mark.parametrize("weight", [np.nan, np.inf, 1e7])
def test_weights_that_no_total_can_hold_are_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="weights must be numbers"):
        weighed(np.array([weight]), {"A": np.array([1, 2])})


@given(st.lists(st.floats(-9, 9), min_size=2, max_size=6), st.integers(0, 63))
def test_the_highest_preference_among_open_actions_is_taken(preferences: list[float], bits: int) -> None:
    mask = np.array([bits >> at & 1 for at in range(len(preferences) - 1)] + [1], np.int8)
    best = max(range(len(preferences)), key=lambda at: (bool(mask[at]), preferences[at], -at))
    assert chosen(np.array(preferences), mask) == best


@given(st.lists(st.tuples(st.integers(1, 8), st.integers(0, 9)), min_size=1, max_size=5))
def test_an_observation_is_what_a_plain_loop_says(nodes: list[tuple[int, int]]) -> None:
    table = a_cluster(*(a_node(f"n{at}", cpu=str(cpu), pods=4) for at, (cpu, _) in enumerate(nodes))).nodes
    for at, (_, pods) in enumerate(nodes):
        for number in range(pods):
            table.place(a_pod(f"p-{at}-{number}", cpu="1"), f"n{at}")
    pod = a_pod("next", cpu="3")
    seen = DecisionObserver(("cpu",)).observe(table, pod, np.array([0], np.intp))
    largest = max(cpu for cpu, _ in nodes)
    for at, (cpu, pods) in enumerate(nodes):
        plain = [cpu / largest, max((cpu - pods) / largest, -1), max((4 - pods) / 4, -1)]
        assert seen["nodes"][at].tolist() == np.array(plain, np.float32).tolist()
    assert seen["pod"].tolist() == [np.float32(min(3 / largest, 2))]
    assert seen["action_mask"].tolist() == [1] + [0] * (len(nodes) - 1) + [1]


def test_an_observation_follows_a_node_that_comes(tmp_path: Path) -> None:
    cluster, observer = a_cluster(a_node("b", cpu="2")), DecisionObserver(("cpu",))
    assert observer.observe(cluster.nodes, a_pod(cpu="1"), slice(0, 1))["nodes"].shape == (1, 3)
    cluster.put(a_node("a", cpu="4"))
    assert observer.observe(cluster.nodes, a_pod(cpu="1"), slice(0, 2))["nodes"][:, 0].tolist() == [1, 0.5]


# ---- arguments


@pytest.mark.parametrize(
    ("args", "told"),
    [
        ([], "must be an object"),
        ({"polcy": 1}, "unknown fields: polcy"),
        ({"action": "move"}, "action: Unsupported value: 'move'"),
        ({"resources": "cpu"}, "resources: must be a list"),
        ({"resources": []}, "resources: must be a list"),
        ({"policy": "here"}, "write FILE.py:FUNCTION"),
        ({"policy": "/nowhere.py:act"}, "cannot be loaded: FileNotFoundError"),
        ({"onnx": "/nowhere.onnx"}, "onnx: "),
        ({"onnx": "a", "policy": "b:c"}, "give one of them"),
    ],
    ids=str,
)
def test_arguments_that_cannot_be_used_are_refused(args: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        AgentScore(args, Handle())


def test_a_policy_is_a_function_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "policy.py"
    file.write_text("def first(observation):\n    return 0\n")
    assert AgentScore({"policy": f"{file}:first"}, Handle()).policy({}) == 0
    with pytest.raises(ValueError, match="has no function 'second'"):
        AgentScore({"policy": f"{file}:second"}, Handle())


def test_a_model_in_onnx_answers_as_the_function_that_it_was_made_from(tmp_path: Path) -> None:
    helper, floats = onnx.helper, onnx.TensorProto.FLOAT
    weights = np.array([[0.0], [-1.0], [0.0]], np.float32)
    graph = helper.make_graph(
        [
            helper.make_node("MatMul", ["nodes", "weights"], ["scores"]),
            helper.make_node("Squeeze", ["scores", "axes"], ["by_node"]),
            helper.make_node("Concat", ["by_node", "rest"], ["preferences"], axis=1),
        ],
        "least_free",
        [helper.make_tensor_value_info("nodes", floats, [1, None, 3])],
        [helper.make_tensor_value_info("preferences", floats, [1, None])],
        [
            onnx.numpy_helper.from_array(weights, "weights"),
            onnx.numpy_helper.from_array(np.array([2], np.int64), "axes"),
            onnx.numpy_helper.from_array(np.array([[-9.0]], np.float32), "rest"),
        ],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    file = tmp_path / "agent.onnx"
    file.write_bytes(model.SerializeToString())
    seen = DecisionObserver(("cpu",)).observe(a_cluster(*NODES).nodes, a_pod(cpu="1"), slice(0, 3))
    answer = onnx_policy(str(file))(seen)
    assert np.asarray(answer).tolist() == [*(-seen["nodes"][:, 1]).tolist(), -9.0]
    assert chosen(answer, seen["action_mask"]) == 0


# ---- the extension point


class ByRow(ScorePlugin):
    """Gives each row 10 points more than the one before."""

    name = "ByRow"

    def __init__(self) -> None: ...

    def score(self, context: SchedulingContext, rows: Rows) -> Scores:
        return 10 * np.arange(context.nodes.height, dtype=np.int64)[rows]


class Judge(TotalsPlugin):
    """Answers what a function makes of the scores of the others."""

    name = "Judge"

    def __init__(self, answer: Callable[[Mapping[str, Scores]], Any]) -> None:
        self.answer = answer

    def totals(
        self, context: SchedulingContext, rows: Rows, scores: Callable[[], Mapping[str, Scores]]
    ) -> Scores | None:
        answer: Scores | None = self.answer(scores())
        return answer


class OtherJudge(Judge):
    name = "OtherJudge"


def a_judged_runner(*judges: Judge) -> Runner:
    return Runner(Profile("p", None, {"score": (ByRow(), *judges)}, {"ByRow": 7, "Judge": 1, "OtherJudge": 1}))


def test_a_totals_plugin_sees_scores_without_weights_and_has_the_last_word() -> None:
    seen: list[list[int]] = []

    def judge(scores: Mapping[str, Scores]) -> Scores:
        seen.append(scores["ByRow"].tolist())
        return -scores["ByRow"]

    runner, cluster = a_judged_runner(Judge(judge)), a_cluster(*NODES)
    decision = decide(runner, a_pod(), cluster, DecideOptions(explain=True))
    assert isinstance(decision, Placement)
    assert (decision.node, decision.score, seen) == ("b", 0, [[0, 10, 20]])
    assert decision.details is not None
    assert decision.details.totals == {"b": 0, "c": -10, "a": -20}


def test_without_a_word_of_the_totals_plugin_the_weighted_sum_stands() -> None:
    decision = decide(a_judged_runner(Judge(lambda scores: None)), a_pod(), a_cluster(*NODES), DecideOptions())
    assert isinstance(decision, Placement)
    assert (decision.node, decision.score) == ("a", 140)


@pytest.mark.parametrize("answer", [np.array([1, 2]), np.array([1.0, 2.0, 3.0]), [1, 2, 3]], ids=str)
def test_totals_are_an_integer_for_each_row(answer: Any) -> None:
    decision = decide(a_judged_runner(Judge(lambda scores: answer)), a_pod(), a_cluster(*NODES), DecideOptions())
    assert isinstance(decision, DecisionError)
    assert 'running Score plugins: plugin "Judge" failed' in decision.error


def test_a_profile_has_one_plugin_with_the_last_word() -> None:
    with pytest.raises(ValueError, match="Judge, OtherJudge do: disable all but one"):
        a_judged_runner(Judge(lambda scores: None), OtherJudge(lambda scores: None))
