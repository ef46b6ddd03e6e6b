"""Questions about recordings: progress, how many differences are listed, notes, and what each moment decides."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from test_replay_answers import Preferring, PreferringB, a_config, a_registry, record, some_pods

from build import a_node, a_pod
from mooring.answers.recorded import replaying
from mooring.answers.recorded.decision_difference import ExplainedDecision, explain_placed
from mooring.answers.recorded.pod_story import view_between_steps
from mooring.answers.recorded.replaying import recorded_settings, replay, would_have
from mooring.drivers.simulated_driver import START_NS
from mooring.framework import config as configuration
from mooring.inputs.arrivals import PlannedChange
from mooring.inputs.recorded_load import RecordedLoad, recorded_load
from mooring.kit.clock import NS_PER_S
from mooring.model.meta import KubeObject
from mooring.scheduler.decision import DecisionError, NoFit, Placement
from mooring.state.recording.run_files import segments_in
from mooring.state.recording.run_reading import RecordedRun, runs_in
from mooring.state.recording.segment_file import RecordingError
from mooring.state.replay.replayer import Replayer
from mooring.state.replay.run_reader import RecordedSpan
from mooring.state.scheduler_assembly import all_plugins

MS = NS_PER_S // 1000
CHANGED = "nodes changed while it was recorded; utilisation is a share of the nodes at the end"

# ---- replay


def test_it_is_told_how_many_files_of_all_runs_are_done(tmp_path: Path) -> None:
    for count in (12, 7):
        record(tmp_path, some_pods(count), configuration.default())
    runs = runs_in(tmp_path)
    sizes = [len(run.segments) for run in runs]
    told: list[tuple[int, int]] = []
    answer = replay(runs, on_progress=lambda done, total: told.append((done, total)))
    assert min(sizes) > 1
    assert {total for _, total in told} == {sum(sizes)}
    done = [number for number, _ in told]
    assert done == sorted(done) and len(told) == answer.total.steps
    assert set(done) == set(range(done[0], done[-1] + 1)), "one file after the other"
    assert (done[0], done[-1]) == (0, sum(sizes) - 1), "the last file is not done before its last step is"


def test_a_hundred_differences_are_listed_and_all_are_counted(tmp_path: Path) -> None:
    pods = [a_pod(f"p{i}", cpu="10m", schedulerName="default-scheduler", metadata={"uid": f"p{i}"}) for i in range(103)]
    record(tmp_path, pods, a_config("Preferring"), a_registry(Preferring))
    answer = replay(runs_in(tmp_path), a_registry(PreferringB))
    assert (len(answer.differences), answer.total.decisions) == (100, 103)
    assert answer.first is not None and answer.first.pods == answer.differences[0].pods == ["default/p0"]
    assert answer.first.decision is not None and answer.differences[0].decision is None, "the first one is explained"


@pytest.mark.parametrize(
    ("from_ns", "until_ns", "early", "decisions"),
    [
        (1001 * MS, None, 1, 2),
        (1002 * MS, None, 1, 2),
        (1003 * MS, None, 2, 1),
        (0, 1500 * MS, 0, 2),
        (1500 * MS, 1600 * MS, 2, 0),
    ],
    ids=[
        "before the second decision",
        "at the second decision",
        "after the second decision",
        "until the third",
        "between two decisions",
    ],
)
def test_differences_before_the_part_are_counted_and_those_in_it_are_listed(
    tmp_path: Path, from_ns: int, until_ns: int | None, early: int, decisions: int
) -> None:
    record(tmp_path, some_pods(), a_config("Preferring"), a_registry(Preferring))
    (run,) = runs_in(tmp_path)
    span = RecordedSpan(START_NS + from_ns, None if until_ns is None else START_NS + until_ns)
    answer = replay([run], a_registry(PreferringB), span)
    assert (answer.total.decisions, len(answer.differences)) == (decisions, decisions)
    told = f"{run.name}: {early:,} steps before --from came out otherwise; later ones may follow from it"
    assert answer.notes == ([told] if early else [])


def test_steps_that_ended_in_an_error_are_noted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing(Replayer):
        def __init__(self, *args: Any, **rest: Any) -> None:
            super().__init__(*args, **rest)
            self.fault_count, self.faults = 1234, {"KeyError: 'x'": None, "a fault": None}

    record(tmp_path, some_pods(1), configuration.default())
    (run,) = runs_in(tmp_path)
    assert replay([run]).notes == []
    monkeypatch.setattr(replaying, "Replayer", Failing)
    assert replay([run]).notes == [f"{run.name}: 1,234 steps ended in an error: KeyError: 'x'; a fault"]


def test_a_run_without_files_that_can_be_read_is_a_problem(tmp_path: Path) -> None:
    for name in ("damaged", "whole"):
        record(tmp_path / name, some_pods(1), configuration.default())
    for path in segments_in(tmp_path / "damaged"):
        path.write_bytes(b"nothing")
    (damaged,), (whole,) = runs_in(tmp_path / "damaged"), runs_in(tmp_path / "whole")
    whole.header.version = "1.2.3"
    answer = replay([damaged, whole])
    assert [(run.name, run.version, run.tally.steps > 0) for run in answer.runs] == [
        (damaged.name, "", False),
        (whole.name, "1.2.3", True),
    ]
    assert damaged.problems[0] in answer.problems


# ---- what would have happened


def compared(runs: list[RecordedRun], name: str = "other", span: RecordedSpan | None = None) -> Any:
    return would_have(runs, recorded_settings(runs), name, configuration.default(), all_plugins(), span)


def test_a_configuration_of_the_name_of_the_recorded_one_gets_a_number(tmp_path: Path) -> None:
    record(tmp_path, some_pods(), configuration.default())
    told: list[tuple[float, int]] = []
    runs = runs_in(tmp_path)
    answer = would_have(
        runs,
        recorded_settings(runs),
        "recorded",
        configuration.default(),
        all_plugins(),
        on_progress=lambda done, total: told.append((done, total)),
    )
    assert [run.plan.name for run in answer.runs] == ["recorded", "recorded (2)"]
    assert told[-1] == (2, 2)
    assert answer.differences == []


def test_a_recording_of_a_plugin_that_is_not_here_is_not_compared(tmp_path: Path) -> None:
    record(tmp_path, some_pods(1), a_config("Preferring"), a_registry(Preferring))
    runs = runs_in(tmp_path)
    told = f"{runs[0].name}: its plugin Preferring is not installed; name its file with --plugin FILE"
    runs[0].segments[0].header.plugins[:] = ["Preferring"]
    with pytest.raises(RecordingError) as refused:
        would_have(
            [*runs, *runs], recorded_settings(runs), "other", configuration.default(), all_plugins(), RecordedSpan()
        )
    assert str(refused.value) == f"{told}\n{told}"


def test_the_settings_are_those_of_the_first_run_that_can_be_read(tmp_path: Path) -> None:
    record(tmp_path, some_pods(1), a_config("Preferring"), a_registry(Preferring))
    runs = runs_in(tmp_path)
    damaged = [RecordedRun("x", problems=["x is damaged", "twice"]), RecordedRun("y", problems=["y is damaged"])]
    found = recorded_settings([*damaged, *runs])
    assert found.config == recorded_settings(runs).config
    with pytest.raises(RecordingError) as refused:
        recorded_settings(damaged)
    assert refused.value.args == ("x is damaged", "y is damaged")


def test_pods_that_end_elsewhere_are_counted_with_the_reason(tmp_path: Path) -> None:
    """The recording was made by another configuration than it says, which packs pods."""
    packed = {"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}}
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    used = configuration.from_object(
        {**header, "profiles": [{"pluginConfig": [{"name": "NodeResourcesFit", "args": packed}]}]}
    )
    record(tmp_path, some_pods(), used, said=configuration.default())
    assert compared(runs_in(tmp_path)).notes == [
        "simulated under the recorded configuration, 1 of 3 pods end where they ended: nodes with the same score are "
        "chosen by name here, and attempts take other times"
    ]


@pytest.mark.parametrize(
    ("changed", "notes"),
    [
        ([a_node("a", cpu="5")], [CHANGED]),
        ([a_pod("gone")], []),
        ([a_pod("gone"), a_node("a", cpu="5")], [CHANGED]),
        ([], []),
    ],
    ids=["a node", "a pod", "both", "nothing"],
)
def test_nodes_that_changed_are_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: list[KubeObject], notes: list[str]
) -> None:
    record(tmp_path, some_pods(), configuration.default())

    def with_changes(*asked: Any) -> RecordedLoad:
        return replace(recorded_load(*asked), changes=[PlannedChange(0, item) for item in changed])

    monkeypatch.setattr(replaying, "recorded_load", with_changes)
    same = "simulated under the recorded configuration, 3 of 3 pods end where they ended"
    assert compared(runs_in(tmp_path)).notes == [same, *notes]


@pytest.mark.parametrize(
    ("placements", "evicted", "same"),
    [
        ({"default/p0": "a", "default/p1": "b", "default/p2": "c"}, [], "3 of 3"),
        ({"default/p0": "c", "default/p1": "b", "default/p2": "c"}, [], "2 of 3"),
        ({"default/p0": "a", "default/p1": "b", "default/p2": "c"}, ["default/p0"], "2 of 3"),
    ],
    ids=["all as they ended", "one elsewhere", "one that was evicted, and is not now"],
)
def test_pods_are_counted_that_end_where_they_ended(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    placements: dict[str, str],
    evicted: list[str],
    same: str,
) -> None:
    record(tmp_path, some_pods(), configuration.default())

    def with_placements(*asked: Any) -> RecordedLoad:
        return replace(recorded_load(*asked), placements=placements, evicted=frozenset(evicted))

    monkeypatch.setattr(replaying, "recorded_load", with_placements)
    (note,) = compared(runs_in(tmp_path)).notes
    assert note.startswith(f"simulated under the recorded configuration, {same} pods end where they ended")
    assert note.endswith("other times") is (same != "3 of 3")


def test_what_cannot_be_read_is_told_instead_of_a_comparison(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record(tmp_path, some_pods(1), configuration.default())
    empty = RecordedLoad([], [], [], {}, frozenset(), 0, ["one is damaged", "two is damaged"])
    monkeypatch.setattr(replaying, "recorded_load", lambda *asked: empty)
    with pytest.raises(RecordingError, match=r"^one is damaged\ntwo is damaged$"):
        compared(runs_in(tmp_path))


# ---- moments of a replay


def a_moment(tmp_path: Path) -> Replayer:
    record(tmp_path, some_pods(2), a_config("Preferring"), a_registry(Preferring))
    replayer = Replayer(runs_in(tmp_path)[0], a_registry(Preferring))
    assert all(step.is_equal for step in replayer.steps())
    return replayer


def test_a_moment_decides_as_the_scheduler_would_and_changes_nothing(tmp_path: Path) -> None:
    scheduler = a_moment(tmp_path).scheduler
    assert scheduler is not None
    view = view_between_steps(scheduler)
    pod = a_pod("next", cpu="500m", schedulerName="default-scheduler")
    runner = scheduler.core.runners["default-scheduler"]
    runner.cursor.start = 2
    plain, explained = view.decide(pod), view.decide(pod, explain=True)
    assert isinstance(plain, Placement) and isinstance(explained, Placement)
    assert (plain.node, plain.details, explained.node) == ("a", None, "a")
    assert explained.details is not None and set(explained.details.totals) == {"a", "b", "c"}
    assert (view.decisions, runner.cursor.start) == (2, 2)
    assert (view.events, view.queue, view.priority_classes) == ((), None, [])
    row = view.cluster.nodes.row_book["b"]
    within = np.arange(view.cluster.nodes.height) == row
    only = view.decide(pod, within=within)
    assert isinstance(only, Placement) and only.node == "b"
    assert view.cluster is not scheduler.core.cluster
    assert scheduler.check() == []


def test_a_moment_of_another_cluster_may_be_asked_about(tmp_path: Path) -> None:
    scheduler = a_moment(tmp_path).scheduler
    assert scheduler is not None
    view = view_between_steps(scheduler)
    pod = a_pod("next", cpu="3", schedulerName="default-scheduler")
    other = view.cluster.fork()
    for node in ("a", "b", "c"):
        other.nodes.place(a_pod(f"on-{node}", cpu="2", nodeName=node), node)
    assert isinstance(view.decide(pod), Placement)
    assert isinstance(view.decide(pod, cluster=other), NoFit)


def test_a_pod_of_another_scheduler_cannot_be_decided_about(tmp_path: Path) -> None:
    scheduler = a_moment(tmp_path).scheduler
    assert scheduler is not None
    view = view_between_steps(scheduler)
    found = view.decide(a_pod("next", schedulerName="other"))
    assert isinstance(found, DecisionError)
    assert (found.error, view.decisions) == ('no profile has the scheduler name "other"', 0)


# ---- decisions that are made again


def placed_again(tmp_path: Path, then: str, **changed: Any) -> ExplainedDecision:
    """The last of two pods on twelve nodes, of which `a` is preferred. Nodes have 4 cpu, or what is said."""
    names = [*"abcdefghijkl"]
    nodes: list[KubeObject] = [a_node(name, cpu=changed.get(name, "4")) for name in names]
    record(tmp_path, some_pods(2), a_config("Preferring"), a_registry(Preferring), nodes)
    replayer = Replayer(runs_in(tmp_path)[0], a_registry(Preferring))
    assert all(step.is_equal for step in replayer.steps())
    assert replayer.scheduler is not None
    found = explain_placed(replayer.scheduler, "default/p1", then)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("then", "obstacle"),
    [
        ("", ""),
        ("b", ""),
        ("nowhere", "there is no such node"),
        ("c", "NodeResourcesFit: Insufficient cpu"),
    ],
    ids=["no node was recorded", "a node that takes it", "a node that is gone", "a node that is full"],
)
def test_why_the_recorded_node_does_not_take_the_pod_now(tmp_path: Path, then: str, obstacle: str) -> None:
    found = placed_again(tmp_path, then, c="100m")
    assert (found.recorded_node, found.obstacle, found.node, found.message) == (then, obstacle, "a", "")
    assert (found.node_count, found.feasible_count, found.reasons) == (12, 11, ())


def test_the_scores_of_both_nodes_come_first_and_then_the_best_others(tmp_path: Path) -> None:
    found = placed_again(tmp_path, "k", d="8", j="8", l="16")
    assert [each.name for each in found.scores] == ["k", "a", "l", "d", "j"], "then, now, and the three best others"
    totals = [each.total for each in found.scores[2:]]
    assert totals == sorted(totals, reverse=True)
    assert all(each.total == sum(each.by_plugin.values()) for each in found.scores)
