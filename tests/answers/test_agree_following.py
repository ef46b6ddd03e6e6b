"""How `agree` follows recordings: several in one directory, files that cannot be read, other schedulers; its judge."""

from pathlib import Path
from typing import Any

import pytest
from test_agree import LOWER, SAME, UNDECIDED, a_configuration, a_load, a_waiting_pod, bound, verdicts

from build import a_node
from mooring.answers.recorded.agree import agree
from mooring.answers.recorded.judging import BindingJudge, JudgeSettings
from mooring.drivers.simulated_driver import Driver
from mooring.framework import config as configuration
from mooring.framework.contract.plain import NodeView, PlainPlugin
from mooring.framework.profile.registry import Registry
from mooring.kit.clock import NS_PER_S
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.scheduler.inputs import ObjectAdded, ObjectUpdated
from mooring.state.recording.run_files import RecordingLimits, segments_in
from mooring.state.recording.run_reading import runs_in
from mooring.state.recording.segment_file import RecordingError
from mooring.state.scheduler_assembly import all_plugins
from recorded_clusters import an_observer, schedule_all

TWO = [a_node("good", cpu="8"), a_node("less", cpu="7")]


def test_two_recordings_of_the_same_time_are_judged_once(tmp_path: Path) -> None:
    for _ in range(2):
        schedule_all(tmp_path, a_load(5))
    answer = agree(tmp_path)
    assert (len(answer.bindings), answer.sources) == (5, ["observer", "observer"])
    assert answer.agrees


def test_it_is_told_how_many_files_were_read(tmp_path: Path) -> None:
    """A file is read ahead of its bindings. Both recordings have as many files."""
    for name in ("a", "b"):

        def go_on(driver: Driver, name: str = name) -> None:
            for i in range(60):
                driver.advance_second()
                driver.create(a_waiting_pod(f"{name}-{i}", cpu="10m"))
                driver.settle()

        limits = RecordingLimits(interval_s=20)
        schedule_all(tmp_path, a_load(0), is_observed=False, then=go_on, limits=limits)
    files = len(segments_in(tmp_path))
    told: list[tuple[int, int]] = []
    answer = agree(tmp_path, on_progress=lambda done, total: told.append((done, total)))
    assert files > 4 and len(answer.bindings) == 120
    assert told == [(files // 2, files)] * 60 + [(files, files)] * 60


def test_a_recording_that_cannot_be_read_is_a_problem_beside_the_others(tmp_path: Path) -> None:
    schedule_all(tmp_path, a_load(3))
    for path in segments_in(tmp_path):
        path.write_bytes(b"nothing")
    (damaged,) = runs_in(tmp_path)
    schedule_all(tmp_path, a_load(3))
    answer = agree(tmp_path)
    assert (len(answer.bindings), answer.problems) == (3, damaged.problems)


def test_extenders_of_the_configuration_are_counted_and_not_called(tmp_path: Path) -> None:
    extenders = [{"urlPrefix": f"http://127.0.0.1:{port}", "filterVerb": "filter"} for port in (1, 2)]
    schedule_all(tmp_path, a_load(3))
    answer = agree(tmp_path, a_configuration(extenders=extenders))
    assert (answer.extender_count, answer.agrees, len(answer.bindings)) == (2, True, 3)
    assert agree(tmp_path).extender_count == 0


def test_a_plugin_that_is_not_here_is_named_unless_another_configuration_is_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    schedule_all(tmp_path, a_load(3))
    runs = runs_in(tmp_path)
    runs[0].segments[0].header.plugins[:] = ["Own", "Other"]
    monkeypatch.setattr("mooring.answers.recorded.agree.runs_in", lambda directory: runs)
    told = [
        f"{runs[0].name}: its plugin {name} is not installed; name its file with --plugin FILE"
        for name in ("Own", "Other")
    ]
    with pytest.raises(RecordingError) as refused:
        agree(tmp_path)
    assert str(refused.value) == "\n".join(told)
    assert len(agree(tmp_path, configuration.default()).bindings) == 3


def test_a_pod_that_is_gone_before_it_is_bound_comes_before_nobody(tmp_path: Path) -> None:
    """`first` is deleted, and its name comes again after `second` was bound."""
    first, second = a_waiting_pod("first", cpu="2"), a_waiting_pod("second", cpu="2")
    observer = an_observer(tmp_path, TWO)
    observer.added(first)
    observer.removed(first)
    observer.added(second)
    observer.updated(second, bound(second, "good"))
    observer.added(first)
    observer.updated(first, bound(first, "less"))
    observer.close()
    assert verdicts(agree(tmp_path)) == [("second", SAME), ("first", SAME)]


def test_a_pod_that_was_there_when_the_recording_began_has_no_place_in_the_queue(tmp_path: Path) -> None:
    """It is not known since when it waits: its binding is judged when it is seen."""
    known, second = a_waiting_pod("known", cpu="2"), a_waiting_pod("second", cpu="2")
    observer = an_observer(tmp_path, [*TWO, known])
    observer.added(second)
    observer.updated(second, bound(second, "less"))
    observer.updated(known, bound(known, "good"))
    observer.close()
    assert verdicts(agree(tmp_path)) == [("second", LOWER), ("known", SAME)]


def test_pods_of_other_schedulers_take_room_and_come_before_nobody(tmp_path: Path) -> None:
    """`theirs` came first and is bound last; it is counted, and its node has less room from then on."""
    theirs = a_waiting_pod("theirs", cpu="4")
    theirs.spec.scheduler_name = "volcano"
    first, second = a_waiting_pod("first", cpu="2"), a_waiting_pod("second", cpu="2")
    observer = an_observer(tmp_path, TWO)
    for pod in (theirs, first, second):
        observer.added(pod)
    observer.updated(first, bound(first, "good"))
    observer.updated(theirs, bound(theirs, "good"))
    observer.updated(second, bound(second, "less"))
    observer.close()
    answer = agree(tmp_path)
    assert (verdicts(answer), answer.other_schedulers) == ([("first", SAME), ("second", SAME)], {"volcano": 1})


def test_a_pod_that_is_nominated_again_is_decided_once(tmp_path: Path) -> None:
    """Only a nomination that is new, and that no rejection came with, tells of a decision."""
    pod = a_waiting_pod("p", cpu="2")
    rejected = {"conditions": [{"type": "PodScheduled", "status": "False"}]}
    nominated = a_waiting_pod("p", cpu="2", status={"nominatedNodeName": "less", **rejected})
    again = a_waiting_pod("p", cpu="2", status={"nominatedNodeName": "good"})
    other = bound(a_waiting_pod("other", cpu="6"), "good")
    observer = an_observer(tmp_path, TWO)
    observer.added(pod)
    observer.updated(pod, nominated)
    observer.added(other)
    observer.updated(nominated, again)
    observer.updated(again, bound(again, "less"))
    observer.close()
    (only,) = agree(tmp_path).bindings
    assert (only.pod, only.node, only.verdict) == ("default/p", "less", SAME)


# ---- the judge


def a_judge(*items: KubeObject, registry: Registry | None = None, **fields: Any) -> BindingJudge:
    judge = BindingJudge(JudgeSettings(a_configuration(**fields), registry=registry))
    for item in items:
        judge.take_in(ObjectAdded(item), NS_PER_S)
    return judge


@pytest.mark.parametrize(
    ("larger", "may_be"),
    [(99, True), (100, True), (101, False)],
    ids=["fewer than are not looked at", "as many", "one more"],
)
def test_a_lower_score_may_be_the_best_that_was_seen_if_all_better_nodes_were_not_looked_at(
    larger: int, may_be: bool
) -> None:
    """Of 200 nodes kube-scheduler looks at 100. All of them are scored here, whatever the configuration says."""
    nodes = [a_node(f"n-{i:03}", cpu="16" if i < larger else "8") for i in range(200)]
    profiles = [{"percentageOfNodesToScore": 1}]
    for fields in ({}, {"percentageOfNodesToScore": 1}, {"percentageOfNodesToScore": 1, "profiles": profiles}):
        found = a_judge(*nodes, **fields).judge(a_waiting_pod(cpu="2"), "n-199", 5)
        assert (found.verdict, found.better_count, found.feasible_count) == (LOWER, larger, 200)
        assert (found.may_be_sampled, found.tied_count, found.node_count) == (may_be, larger, 200)
        assert found.behind == found.best_score - found.score > 0


def test_what_speaks_most_for_the_best_node_comes_first() -> None:
    judge = a_judge(a_node("a", cpu="4"), a_node("b", cpu="16"), a_node("c", cpu="16", taints=["k=v:PreferNoSchedule"]))
    found = judge.judge(a_waiting_pod(cpu="2"), "c", 5)
    assert (found.best, found.plugin) == ("b", "TaintToleration")
    behind = [(own - best, plugin) for plugin, own, best in found.differences]
    assert behind == sorted(behind), "equal ones by name"
    assert [difference for difference, _ in behind][:2] == [found.score - found.best_score, 0]


class Failing(PlainPlugin):
    """Cannot say anything about a pod."""

    name = "Failing"

    def filter(self, pod: Pod, node: NodeView) -> str | None:
        raise ValueError("out of order")


def test_a_plugin_that_fails_gives_no_verdict() -> None:
    registry = all_plugins()
    registry.register(Failing)
    profiles = [{"plugins": {"multiPoint": {"enabled": [{"name": "Failing"}]}}}]
    found = a_judge(*TWO, registry=registry, profiles=profiles).judge(a_waiting_pod(), "good", 5)
    assert (found.verdict, found.agrees) == (UNDECIDED, False)
    assert "out of order" in found.message


def test_a_change_that_cannot_be_processed_is_counted_and_the_next_one_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    judge = a_judge(TWO[0])
    handle = judge.scheduler.handle

    def failing(change: Any) -> Any:
        if change.item is TWO[1]:
            raise KeyError("x")
        return handle(change)

    monkeypatch.setattr(judge.scheduler, "handle", failing)
    for item in (TWO[1], a_node("third")):
        judge.take_in(ObjectAdded(item), NS_PER_S)
    assert judge.contradictions == 1
    assert judge.judge(a_waiting_pod(), "third", 5).node_count == 2
    assert judge.judge(a_waiting_pod(), "less", 5).message == "the recording has no node less"


def test_a_pod_that_was_seen_on_its_node_stays_there_whatever_is_given_up() -> None:
    judge, pod = a_judge(*TWO), a_waiting_pod(cpu="2")
    judge.take_in(ObjectAdded(pod), NS_PER_S)
    judge.assume(pod, "good")
    assert not judge.scheduler.queued(pod.key), "nobody attempts it again"
    judge.take_in(ObjectUpdated(pod, bound(pod, "good")), NS_PER_S)
    judge.give_up(pod.id)
    assert not judge.is_assumed(pod)
    assert judge.judge(a_waiting_pod("q", cpu="7"), "good", 5).message == "Insufficient cpu", "it is bound, and stays"
