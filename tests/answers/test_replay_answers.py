"""Differences that are planted into a recording are found and explained; the story of a pod says why it went there."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest

from build import a_node, a_pod
from build_storage import a_claim, a_class, a_volume
from mooring.answers.form.answer import ClusterAnswer
from mooring.answers.recorded.decision_difference import explain_placed
from mooring.answers.recorded.pod_story import follow_pod
from mooring.answers.recorded.replaying import recorded_settings, replay, would_have
from mooring.drivers.simulated_driver import START_NS
from mooring.framework import config as configuration
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.contract.plain import NodeView, PlainPlugin
from mooring.framework.profile.registry import Registry
from mooring.inputs.input_errors import NoSuchPod
from mooring.kit.clock import NS_PER_S
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.scheduler.ties import TieRule
from mooring.sim.simulated_cluster import SimulatedCluster
from mooring.state.recording.recorder import RunRecorder, scheduler_header
from mooring.state.recording.run_files import RecordingLimits
from mooring.state.recording.run_reading import runs_in
from mooring.state.recording.segment_file import RecordingError
from mooring.state.replay.replayer import Replayer
from mooring.state.replay.run_reader import RecordedSpan, UnusableSpan, span_of
from mooring.state.scheduler_assembly import all_plugins

SCHEMA = json.loads((Path(__file__).parent.parent.parent / "docs/schemas/replay.v1.json").read_text())


class Preferring(PlainPlugin):
    """Prefers one node, and lets no pod on another."""

    name = "Preferring"
    best, closed = "a", ""

    def score(self, pod: Pod, node: NodeView) -> int:
        return 100 if node.name == self.best else 0

    def filter(self, pod: Pod, node: NodeView) -> str | None:
        return "node(s) are closed" if node.name == self.closed else None


class PreferringB(Preferring):
    best = "b"


class ClosingA(Preferring):
    closed = "a"


class ClosingAll(Preferring):
    def filter(self, pod: Pod, node: NodeView) -> str | None:
        return "node(s) are closed"


def a_registry(plugin: type[Preferring]) -> Registry:
    registry = all_plugins()
    registry.register(plugin)
    return registry


def a_config(*plugins: str) -> KubeSchedulerConfiguration:
    written = {"plugins": {"multiPoint": {"enabled": [{"name": name} for name in plugins]}}}
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return configuration.from_object({**header, "profiles": [written]})


def record(
    directory: Path,
    pods: list[Pod],
    config: KubeSchedulerConfiguration,
    registry: Registry | None = None,
    objects: list[KubeObject] | None = None,
    said: KubeSchedulerConfiguration | None = None,
) -> None:
    """Record a cluster in which a pod comes every second. `said` is the configuration that the recording claims."""

    recorders: list[RunRecorder] = []

    def begin(used: KubeSchedulerConfiguration, started_ns: int, ties: TieRule) -> RunRecorder:
        header = msgspec.structs.replace(scheduler_header(said or used, None, started_ns), tie_break="name")
        recorders.append(RunRecorder(directory, header, RecordingLimits(interval_s=5, drops=False)))
        return recorders[0]

    there = objects if objects is not None else [a_node("a", cpu="4"), a_node("b", cpu="4"), a_node("c", cpu="4")]
    cluster = SimulatedCluster(there, config, registry, record_to=begin)
    for pod in pods:
        cluster.driver.create(pod)
        cluster.driver.settle()
        cluster.driver.advance_second()
    recorders[0].close()


def some_pods(count: int = 3, **values: Any) -> list[Pod]:
    return [
        a_pod(f"p{i}", cpu="500m", schedulerName="default-scheduler", metadata={"uid": f"p{i}"}, **values)
        for i in range(count)
    ]


def check_schema(answer: ClusterAnswer) -> dict[str, Any]:
    written: dict[str, Any] = json.loads(json.dumps(answer.to_dict(), allow_nan=False))
    jsonschema.validate(written, SCHEMA)
    return written


# ---- planted differences


def test_what_was_recorded_comes_out_equal(tmp_path: Path) -> None:
    record(tmp_path, some_pods(), a_config("Preferring"), a_registry(Preferring))
    answer = replay(runs_in(tmp_path), a_registry(Preferring))
    assert answer.is_equal
    assert answer.summary()[0] == (
        f"1 run, {answer.total.steps} steps, 3 decisions (3 binds, 0 failures, 0 evictions): all came out equal"
    )
    assert answer.summary()[1].startswith(
        "Recorded from 2026-02-01T00:00:00Z to 2026-02-01T00:00:03Z (3.0s), replayed in "
    )
    written = check_schema(answer)
    assert (written["equal"], written["firstDifference"], written["binds"]) == (True, None, 3)


def test_a_plugin_that_changed_its_mind_is_found_and_explained(tmp_path: Path) -> None:
    record(tmp_path, some_pods(), a_config("Preferring"), a_registry(Preferring))
    (run,) = runs_in(tmp_path)
    answer = replay([run], a_registry(PreferringB))
    assert not answer.is_equal
    headline, _, _, *lines = answer.summary()
    assert headline.endswith("(3 binds, 0 failures, 0 evictions): 0 came out equal, 3 did not")
    first = answer.first
    assert first is not None
    assert lines[0] == (
        f"The first difference is step {first.step} of {run.name}, at 2026-02-01T00:00:00.001000Z: another node"
    )
    assert lines[1:3] == ["  then: default/p0 is bound to a", "  now:  default/p0 is bound to b"]
    assert lines[3] == "b is 100 ahead of a (563 to 463): Preferring +100"
    assert lines[4] == "3 of 3 nodes take the pod now"
    scores = answer.tables()[0]
    assert scores.title == "Scores now (after weights)"
    assert [row[:3] for row in scores.rows] == [("a", "then", 463), ("b", "now", 563), ("c", "-", 463)]
    assert scores.columns[-1] == "Preferring*1"
    assert [row[-1] for row in scores.rows] == [0, 100, 0]
    assert answer.tables()[1:3][1].rows == [("another node", "3")]
    written = check_schema(answer)
    assert written["firstDifference"]["decision"]["scores"][1]["plugins"]["Preferring"] == 100
    assert len(written["differences"]) == 3


def test_a_filter_that_rejects_the_recorded_node_is_named(tmp_path: Path) -> None:
    record(tmp_path, some_pods(1), a_config("Preferring"), a_registry(Preferring))
    answer = replay(runs_in(tmp_path), a_registry(ClosingA))
    assert answer.first is not None
    assert "a does not take the pod now: Preferring: node(s) are closed" in answer.summary()
    assert answer.first.decision is not None
    assert answer.first.decision.node == "b"
    assert check_schema(answer)["firstDifference"]["decision"]["recordedNodeRejected"].startswith("Preferring")


def test_a_pod_that_gets_no_node_now_is_explained(tmp_path: Path) -> None:
    record(tmp_path, some_pods(1), a_config("Preferring"), a_registry(Preferring))
    answer = replay(runs_in(tmp_path), a_registry(ClosingAll))
    assert answer.first is not None
    assert answer.first.kind == "no node instead of one"
    assert answer.first.ours[0].startswith("default/p0 gets no node: 0/3 nodes are available: 3 node(s) are closed.")
    why = answer.tables()[1]
    assert (why.title, why.rows) == ("Why not now", [("3", "Preferring", "node(s) are closed", "a, b, c")])
    check_schema(answer)


def test_a_changed_configuration_is_found(tmp_path: Path) -> None:
    """The recording claims another configuration than the one that decided."""
    packed = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}}
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    profile = {"pluginConfig": [{"name": "NodeResourcesFit", "args": packed}]}
    said = configuration.from_object({**header, "profiles": [profile]})
    record(tmp_path, some_pods(), configuration.default(), said=said)
    answer = replay(runs_in(tmp_path))
    assert answer.first is not None
    assert answer.first.pods == ["default/p1"], "the first pod has nothing to be packed with"
    assert "NodeResourcesFit +" in answer.summary()[6]
    check_schema(answer)


def test_a_tie_that_went_otherwise_is_said(tmp_path: Path) -> None:
    record(tmp_path, some_pods(6), configuration.default())
    (run,) = runs_in(tmp_path)
    for segment in run.segments:
        segment.header.tie_break = "seed"
    answer = replay([run])
    assert answer.first is not None
    assert any(" is tied with " in line and line.endswith("; the tie went otherwise") for line in answer.summary())


def test_a_bind_that_comes_later_than_its_decision_is_explained(tmp_path: Path) -> None:
    """The claim of the pod is bound first, so the step with the bind is not the attempt."""
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "claim"}}]
    nodes = [a_node("a", cpu="4"), a_node("b", cpu="4")]
    objects: list[KubeObject] = [*nodes, a_class("wait"), a_volume("pv"), a_claim("claim")]
    record(tmp_path, some_pods(1, volumes=volumes), a_config("Preferring"), a_registry(Preferring), objects)
    assert replay(runs_in(tmp_path), a_registry(Preferring)).is_equal
    answer = replay(runs_in(tmp_path), a_registry(PreferringB))
    first = answer.first
    assert first is not None and first.decision is not None
    assert (first.kind, first.decision.recorded_node, first.decision.node) == ("another nomination", "a", "b")
    assert any(line.endswith("Preferring +100") for line in answer.summary())
    check_schema(answer)


def test_a_pod_on_its_node_is_decided_again_as_if_it_had_none(tmp_path: Path) -> None:
    record(tmp_path, some_pods(2), a_config("Preferring"), a_registry(Preferring))
    replayer = Replayer(runs_in(tmp_path)[0], a_registry(Preferring))
    assert all(step.is_equal for step in replayer.steps())
    assert replayer.scheduler is not None
    found = explain_placed(replayer.scheduler, "default/p1", "b")
    assert found is not None
    assert (found.recorded_node, found.node, found.feasible_count) == ("b", "a", 3)
    assert found.sentences()[0] == (
        "a is 94 ahead of b (557 to 463): Preferring +100, NodeResourcesFit -7, NodeResourcesBalancedAllocation +1"
    )
    assert explain_placed(replayer.scheduler, "default/nobody", "b") is None
    assert replayer.scheduler.check() == []


def test_differences_before_the_part_are_noted(tmp_path: Path) -> None:
    record(tmp_path, some_pods(), a_config("Preferring"), a_registry(Preferring))
    span = RecordedSpan(START_NS + NS_PER_S * 3 // 2)
    answer = replay(runs_in(tmp_path), a_registry(PreferringB), span)
    assert answer.total.decisions == 1
    assert "2 steps before --from came out otherwise" in answer.notes[0]


def test_several_runs_are_one_answer(tmp_path: Path) -> None:
    record(tmp_path, some_pods(2), configuration.default())
    record(tmp_path, some_pods(3), configuration.default())
    answer = replay(runs_in(tmp_path))
    assert answer.summary()[0].startswith("2 runs, ")
    assert answer.total.binds == 5
    assert answer.is_equal


# ---- stories


def test_a_story_says_why_a_pod_went_there(tmp_path: Path) -> None:
    record(tmp_path, some_pods(2), a_config("Preferring"), a_registry(Preferring))
    story = follow_pod(runs_in(tmp_path), "p1", a_registry(Preferring))
    assert story.summary() == [
        "default/p1 arrived at 2026-02-01T00:00:01Z; went to a at 2026-02-01T00:00:01Z after 1ms",
        "",
        "The decision at 2026-02-01T00:00:01.002000Z:",
        "It went to a: the best of 3 nodes that take it, of 3",
        "It is 94 ahead of b (557 to 463): Preferring +100, NodeResourcesFit -7, NodeResourcesBalancedAllocation +1",
    ]
    assert [moment.text for moment in story.moments] == [
        "added to the active queue",
        "taken from the queue",
        "goes to a, the best of 3 feasible nodes (score 557)",
        "is bound to a",
    ]
    written = check_schema(story)
    assert (written["node"], written["equal"], written["left"]) == ("a", True, "")
    assert written["explanation"]["scores"][0]["node"] == "a"


def test_a_story_has_failures_preemption_and_eviction(tmp_path: Path) -> None:
    low, high = a_pod("low", cpu="1"), a_pod("high", cpu="1", priority=100)
    pods = [
        msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, scheduler_name="default-scheduler"))
        for pod in (low, high)
    ]
    record(tmp_path, pods, configuration.default(), objects=[a_node("only", cpu="1")])
    runs = runs_in(tmp_path)
    high_story, low_story = follow_pod(runs, "default/high"), follow_pod(runs, "default/low")
    assert "It went to only: it was nominated to this node" in high_story.summary()
    assert any(moment.text == "preempts default/low on only" for moment in high_story.moments)
    assert "was evicted for default/high; left at 2026-02-01T00:00:01Z" in low_story.summary()[0]
    assert low_story.moments[-1].text == "is gone from the cluster"
    check_schema(high_story)
    check_schema(low_story)


def test_a_pod_that_never_gets_a_node_is_explained_too(tmp_path: Path) -> None:
    pod = a_pod("big", cpu="64", schedulerName="default-scheduler")
    record(tmp_path, [pod], configuration.default())
    story = follow_pod(runs_in(tmp_path), "default/big")
    assert story.summary()[0] == "default/big arrived at 2026-02-01T00:00:00Z; got no node"
    assert [table.title for table in story.tables()] == ["Why not", "Story"]
    assert check_schema(story)["explanation"]["reasons"][0]["plugin"] == "NodeResourcesFit"


def test_a_pod_that_was_there_before_the_part_is_known(tmp_path: Path) -> None:
    record(tmp_path, some_pods(20), configuration.default())
    story = follow_pod(runs_in(tmp_path), "default/p0", span=RecordedSpan(START_NS + 15 * NS_PER_S))
    assert story.summary() == ["default/p0 was there before the recording; was on a"]


def test_a_story_shows_where_the_replay_differs(tmp_path: Path) -> None:
    record(tmp_path, some_pods(), a_config("Preferring"), a_registry(Preferring))
    story = follow_pod(runs_in(tmp_path), "default/p2", a_registry(PreferringB))
    assert not story.is_equal
    assert "  then: default/p2 is bound to a" in story.summary()
    assert "  now:  default/p2 is bound to b" in story.summary()
    check_schema(story)


def test_following_a_pod_changes_nothing(tmp_path: Path) -> None:
    record(tmp_path, some_pods(30, priority=0), configuration.default())
    assert follow_pod(runs_in(tmp_path), "default/p29").is_equal


def test_an_unknown_pod_comes_with_similar_names(tmp_path: Path) -> None:
    record(tmp_path, some_pods(2), configuration.default())
    with pytest.raises(NoSuchPod, match=r"no pod 'default/p9' in this part .*; did you mean default/p[01]"):
        follow_pod(runs_in(tmp_path), "p9")


# ---- what would have happened


def test_another_configuration_is_compared_with_the_recorded_one(tmp_path: Path) -> None:
    record(tmp_path, some_pods(), configuration.default())
    runs = runs_in(tmp_path)
    registry = a_registry(PreferringB)
    answer = would_have(runs, recorded_settings(runs), "b first", a_config("Preferring"), registry)
    assert [run.plan.name for run in answer.runs] == ["recorded", "b first"]
    assert [each.nodes for each in answer.differences] == [["a", "b"], ["c", "b"]]
    assert answer.notes == ["simulated under the recorded configuration, 3 of 3 pods end where they ended"]


def test_a_part_without_anything_is_refused(tmp_path: Path) -> None:
    record(tmp_path, some_pods(1), configuration.default())
    runs = runs_in(tmp_path)
    with pytest.raises(RecordingError, match="nothing was recorded in this time"):
        span = RecordedSpan(START_NS + 3600 * NS_PER_S)
        would_have(runs, recorded_settings(runs), "x", configuration.default(), all_plugins(), span)


# ---- spans


@pytest.mark.parametrize(
    ("begin", "end", "expected"),
    [
        pytest.param("soon", None, "--from soon: neither a time such as 2026-02-01T00:00:00Z", id="no time"),
        pytest.param("2026-02-01", None, "--from 2026-02-01: neither a time", id="no zone"),
        pytest.param(
            None, "2026-01-01T00:00:00Z", "the recording begins later, at 2026-02-01T00:00:00Z", id="too early"
        ),
        pytest.param("10m", "5m", "--until 5m: this is before --from 10m", id="turned around"),
    ],
)
def test_times_that_make_no_sense_are_refused(
    tmp_path: Path, begin: str | None, end: str | None, expected: str
) -> None:
    record(tmp_path, some_pods(1), configuration.default())
    with pytest.raises(UnusableSpan, match=expected):
        span_of(runs_in(tmp_path), begin, end)


def test_times_are_moments_or_durations(tmp_path: Path) -> None:
    record(tmp_path, some_pods(1), configuration.default())
    runs = runs_in(tmp_path)
    assert span_of(runs, "1m", "2026-02-01T01:00:00+00:00") == RecordedSpan(
        START_NS + 60 * NS_PER_S, START_NS + 3600 * NS_PER_S
    )
