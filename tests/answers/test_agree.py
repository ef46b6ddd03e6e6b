"""`mooring agree`: a scheduler agrees with its own bindings, and differences are explained by what makes them."""

import json
from pathlib import Path
from random import Random
from typing import Any

import jsonschema
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build import a_node, a_pod
from how_many import examples
from mooring.answers.recorded.agree import agree
from mooring.answers.recorded.agreement import Agreement
from mooring.answers.recorded.judging import BindingVerdict, sought_nodes
from mooring.drivers.simulated_driver import Driver
from mooring.framework import config as configuration
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.kit.clock import NS_PER_S
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.state.recording.run_files import RecordingLimits, segments_in
from random_clusters import nodes, pods
from recorded_clusters import an_observer, changes_while_scheduling, schedule_all, write_changes

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/schemas/agree.v1.json").read_text())
DEFAULT = "default-scheduler"
SAME, TIED = BindingVerdict.SAME, BindingVerdict.TIED
LOWER, REJECTED, UNDECIDED = BindingVerdict.LOWER, BindingVerdict.REJECTED, BindingVerdict.UNDECIDED


def a_configuration(**fields: Any) -> KubeSchedulerConfiguration:
    header = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    return configuration.from_object({**header, **fields})


MOST_ALLOCATED = a_configuration(
    profiles=[
        {
            "pluginConfig": [
                {"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}},
            ]
        }
    ]
)


def a_waiting_pod(name: str = "p", **fields: Any) -> Pod:
    return a_pod(name, metadata={"uid": f"uid-{name}"}, schedulerName=DEFAULT, **fields)


def bound(pod: Pod, node: str) -> Pod:
    spec = msgspec.structs.replace(pod.spec, node_name=node)
    return Pod(metadata=pod.metadata, spec=spec, status=pod.status)


def verdicts(answer: Agreement) -> list[tuple[str, BindingVerdict]]:
    return [(each.pod.removeprefix("default/"), each.verdict) for each in answer.bindings]


def a_load(pod_count: int = 30) -> list[KubeObject]:
    """Nodes of three sizes, and pods of two."""
    there = [a_node(f"n-{i}", cpu=str(4 + 2 * (i % 3)), memory="16Gi") for i in range(6)]
    waiting = [a_waiting_pod(f"p-{i}", cpu=f"{200 + 100 * (i % 2)}m", memory="300Mi") for i in range(pod_count)]
    return [*there, *waiting]


# ---- a scheduler agrees with itself


@pytest.mark.parametrize("is_observed", [True, False], ids=["an observer recorded it", "the scheduler recorded itself"])
def test_a_scheduler_agrees_with_all_of_its_own_bindings(tmp_path: Path, is_observed: bool) -> None:
    assert schedule_all(tmp_path, a_load(), is_observed=is_observed) == 30
    answer = agree(tmp_path)
    assert len(answer.bindings) == 30
    assert {each.verdict for each in answer.bindings} == {SAME, TIED}
    assert answer.agrees and answer.problems == [] and answer.contradictions == 0
    assert answer.sources == ["observer" if is_observed else "scheduler"]
    jsonschema.validate(answer.to_dict(), SCHEMA)


@given(there=nodes(), waiting=pods(), is_observed=st.booleans())
@settings(max_examples=examples(40), deadline=None)
def test_any_scheduler_agrees_with_itself(
    tmp_path_factory: pytest.TempPathFactory, there: list[KubeObject], waiting: list[Pod], is_observed: bool
) -> None:
    directory = tmp_path_factory.mktemp("recording")
    with_ids = [msgspec.structs.replace(pod, metadata=_with_uid(pod)) for pod in waiting]
    placed = schedule_all(directory, [*there, *with_ids], is_observed=is_observed)
    answer = agree(directory)
    evicted = len(answer.bindings) - placed
    assert evicted >= 0, "every pod that has a node in the end was judged"
    assert [each for each in answer.bindings if not each.agrees] == []


def _with_uid(pod: Pod) -> Any:
    return msgspec.structs.replace(pod.metadata, uid=f"uid-{pod.name}")


def test_a_preemptor_goes_where_it_was_nominated(tmp_path: Path) -> None:
    def arrives(driver: Driver) -> None:
        driver.create(a_waiting_pod("urgent", cpu="3", priority=100))
        for _ in range(40):
            driver.advance_second()
            driver.settle()

    full = [a_node(f"n-{i}", cpu="4") for i in range(3)]
    low = [a_waiting_pod(f"low-{i}", cpu="3", priority=0) for i in range(3)]
    schedule_all(tmp_path, [*full, *low], then=arrives)
    answer = agree(tmp_path)
    assert ("urgent", SAME) in verdicts(answer) and answer.agrees


# ---- differences


def test_another_configuration_differs_by_the_plugin_that_was_changed(tmp_path: Path) -> None:
    schedule_all(tmp_path, a_load(), MOST_ALLOCATED)
    assert agree(tmp_path).agrees, "the configuration is in the recording"
    answer = agree(tmp_path, configuration.default())
    different = answer.by_verdict[LOWER]
    assert len(different) > 15 and not answer.agrees
    assert {each.plugin for each in different} == {"NodeResourcesFit"}
    worst = different[0]
    assert worst.behind == max(each.behind for each in different) > 0
    assert sum(best - own for _, own, best in worst.differences) == worst.behind
    assert worst.plugin_behind == max(best - own for _, own, best in worst.differences)
    assert worst.better_count >= 1 and not worst.may_be_sampled
    jsonschema.validate(answer.to_dict(), SCHEMA)


def test_planted_bindings_are_found_with_the_plugin_that_speaks_against_them(tmp_path: Path) -> None:
    """The empty node is best, the small one too small, the tainted one not tolerated."""
    there: list[Node] = [
        a_node("empty", cpu="8"),
        a_node("busy", cpu="8"),
        a_node("small", cpu="1"),
        a_node("tainted", cpu="8", taints=["dedicated=db:NoSchedule"]),
    ]
    resident = bound(a_waiting_pod("resident", cpu="4"), "busy")
    observer = an_observer(tmp_path, [*there, resident])
    for name, node in (("a", "busy"), ("b", "small"), ("c", "tainted"), ("d", "empty")):
        pod = a_waiting_pod(name, cpu="2")
        observer.added(pod)
        observer.updated(pod, bound(pod, node))
        observer.removed(bound(pod, node))
    observer.close()
    answer = agree(tmp_path)
    assert verdicts(answer) == [("a", LOWER), ("b", REJECTED), ("c", REJECTED), ("d", SAME)]
    lower, small, tainted, same = answer.bindings
    assert (lower.best, lower.plugin, lower.better_count, lower.feasible_count) == ("empty", "NodeResourcesFit", 1, 2)
    assert (small.plugin, small.message, small.best) == ("NodeResourcesFit", "Insufficient cpu", "empty")
    assert tainted.plugin == "TaintToleration" and "untolerated taint" in tainted.message
    assert (same.best, same.behind) == ("empty", 0)
    assert answer.summary() == [
        "4 bindings: same node for 1 (25.0%), a tied node for 0 (0.0%), a lower score for 1 (25.0%), "
        "a node that a filter rejects for 2 (50.0%)",
        "Of the lower scores, 0 may come from percentageOfNodesToScore (kube-scheduler stops after some nodes that fit, "
        "and may not have seen the better ones), 1 cannot",
    ]
    jsonschema.validate(answer.to_dict(), SCHEMA)
    alone = answer.about("b").summary()
    assert alone == [
        "default/b was bound to small at 2026-02-01T00:00:00Z, which NodeResourcesFit rejects: Insufficient cpu"
    ]


def test_other_schedulers_static_pods_and_pods_created_with_a_node_are_not_judged(tmp_path: Path) -> None:
    observer = an_observer(tmp_path, [a_node("n", cpu="1")])
    theirs = a_pod("theirs", metadata={"uid": "1"}, schedulerName="volcano")
    observer.added(theirs)
    observer.updated(theirs, bound(theirs, "n"))
    observer.added(bound(a_waiting_pod("made-there", cpu="4"), "n"))
    true = {"conditions": [{"type": "PodScheduled", "status": "True"}]}
    owner = {"uid": "3", "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "4"}]}
    observer.added(a_pod("static", metadata=owner, schedulerName=DEFAULT, nodeName="n", status=true))
    observer.added(a_pod("missed", cpu="1", metadata={"uid": "5"}, schedulerName=DEFAULT, nodeName="n", status=true))
    observer.close()
    answer = agree(tmp_path)
    assert verdicts(answer) == [("missed", REJECTED)], "it was bound while the watch was broken; the node is full"
    assert answer.other_schedulers == {"volcano": 1}
    assert "1 binding of volcano: not judged, because no profile has this scheduler name" in answer.summary()


def test_a_node_that_is_not_in_the_recording_gives_no_verdict(tmp_path: Path) -> None:
    observer = an_observer(tmp_path, [a_node("n")])
    pod = a_waiting_pod()
    observer.added(pod)
    observer.updated(pod, bound(pod, "elsewhere"))
    observer.close()
    (only,) = agree(tmp_path).bindings
    assert (only.verdict, only.message) == (UNDECIDED, "the recording has no node elsewhere")


# ---- the order of decisions


def test_pods_are_decided_in_the_order_of_the_queue_even_if_their_bindings_are_seen_in_another(tmp_path: Path) -> None:
    """`first` was decided first and took the better node; the binding of `second` overtook it."""
    first, second = a_waiting_pod("first", cpu="2"), a_waiting_pod("second", cpu="2")
    observer = an_observer(tmp_path, [a_node("good", cpu="8"), a_node("less", cpu="7")])
    for pod in (first, second):
        observer.added(pod)
    observer.updated(second, bound(second, "less"))
    observer.updated(first, bound(first, "good"))
    observer.close()
    assert verdicts(agree(tmp_path)) == [("first", SAME), ("second", SAME)]


@given(random=st.randoms(use_true_random=False), pod_count=st.integers(2, 12), node_count=st.integers(2, 5))
@settings(max_examples=examples(30), deadline=None)
def test_bindings_may_be_seen_in_any_order(
    tmp_path_factory: pytest.TempPathFactory, random: Random, pod_count: int, node_count: int
) -> None:
    there = [a_node(f"n-{i}", cpu=str(random.randint(20, 40)), memory="64Gi") for i in range(node_count)]
    waiting = [a_waiting_pod(f"p-{i}", cpu=random.choice(["100m", "1"]), memory="1Gi") for i in range(pod_count)]
    changes = changes_while_scheduling([*there, *waiting])
    arrivals, bindings = changes[: node_count + pod_count], changes[node_count + pod_count :]
    assert len(bindings) == pod_count
    random.shuffle(bindings)
    directory = tmp_path_factory.mktemp("recording")
    write_changes(directory, [*arrivals, *bindings])
    answer = agree(directory)
    assert [each.pod for each in answer.bindings] == [pod.key for pod in waiting]
    assert answer.agrees


def test_a_pod_that_was_rejected_once_has_no_known_place_in_the_queue(tmp_path: Path) -> None:
    first, second = a_waiting_pod("first", cpu="2"), a_waiting_pod("second", cpu="2")
    rejected = a_waiting_pod("first", cpu="2", status={"conditions": [{"type": "PodScheduled", "status": "False"}]})
    observer = an_observer(tmp_path, [a_node("good", cpu="8"), a_node("less", cpu="7")])
    for pod in (first, second):
        observer.added(pod)
    observer.updated(second, bound(second, "good"))
    observer.updated(first, rejected)
    observer.updated(rejected, bound(rejected, "less"))
    observer.close()
    assert verdicts(agree(tmp_path)) == [("second", SAME), ("first", SAME)]


def test_a_higher_priority_comes_first_only_if_the_pod_was_there_first(tmp_path: Path) -> None:
    urgent, plain = a_waiting_pod("urgent", cpu="2", priority=5), a_waiting_pod("plain", cpu="2", priority=0)
    for order, expected in (((urgent, plain), ["urgent", "plain"]), ((plain, urgent), ["plain", "urgent"])):
        directory = tmp_path / expected[0]
        observer = an_observer(directory, [a_node("good", cpu="8"), a_node("less", cpu="7")])
        for pod in order:
            observer.added(pod)
        observer.updated(plain, bound(plain, "less"))
        observer.updated(urgent, bound(urgent, "good"))
        observer.close()
        assert [name for name, _ in verdicts(agree(directory))] == expected


def test_a_nomination_without_a_rejection_is_the_moment_of_the_decision(tmp_path: Path) -> None:
    """kube-scheduler says where it will bind before it binds volumes. Meanwhile the node gets another pod."""
    pod = a_waiting_pod("p", cpu="2")
    expected = a_waiting_pod("p", cpu="2", status={"nominatedNodeName": "good"})
    observer = an_observer(tmp_path, [a_node("good", cpu="8"), a_node("less", cpu="7")])
    observer.added(pod)
    observer.updated(pod, expected)
    observer.added(bound(a_waiting_pod("other", cpu="4"), "good"))
    observer.updated(expected, bound(expected, "good"))
    observer.close()
    assert verdicts(agree(tmp_path)) == [("p", SAME)]


# ---- percentageOfNodesToScore


@pytest.mark.parametrize(
    ("count", "percentage", "sought"),
    [
        (50, 0, 50),
        (99, 0, 99),
        (100, 0, 100),
        (500, 0, 230),
        (5000, 0, 500),
        (10_000, 0, 500),
        (500, 100, 500),
        (500, 30, 150),
    ],
)
def test_kube_scheduler_looks_for_so_many_nodes(count: int, percentage: int, sought: int) -> None:
    assert sought_nodes(count, percentage) == sought


@pytest.mark.parametrize(("percentage", "may_be"), [(0, True), (100, False)])
def test_a_lower_score_may_come_from_the_part_of_the_nodes_that_was_scored(
    tmp_path: Path, percentage: int, may_be: bool
) -> None:
    config = a_configuration(percentageOfNodesToScore=percentage)
    there = [a_node(f"n-{i:03}", cpu="8" if i else "16") for i in range(200)]
    observer = an_observer(tmp_path, there, config)
    pod = a_waiting_pod(cpu="2")
    observer.added(pod)
    observer.updated(pod, bound(pod, "n-100"))
    observer.close()
    answer = agree(tmp_path)
    (only,) = answer.bindings
    assert (only.verdict, only.better_count, only.may_be_sampled) == (LOWER, 1, may_be)
    assert answer.to_dict()["mayBeSampled"] == may_be


# ---- recordings that are not whole


def test_segments_that_follow_each_other_are_one_recording(tmp_path: Path) -> None:
    def go_on(driver: Driver) -> None:
        for i in range(200):
            driver.advance_second()
            driver.create(a_waiting_pod(f"later-{i}", cpu="10m"))
            driver.settle()

    limits = RecordingLimits(interval_s=30)
    schedule_all(tmp_path, a_load(), is_observed=False, then=go_on, limits=limits)
    paths = segments_in(tmp_path)
    assert len(paths) > 3
    whole = agree(tmp_path)
    assert len(whole.bindings) == 230 and whole.agrees
    paths[0].unlink()
    rest = agree(tmp_path)
    assert 100 < len(rest.bindings) < 230 and rest.agrees, "it goes on from the state in the second file"
    for left_out in (1, 50, 200, 400):
        written = paths[1].read_bytes()
        paths[1].write_bytes(written[:-left_out])
        cut = agree(tmp_path)
        assert cut.agrees and 100 < len(cut.bindings) <= len(rest.bindings), f"{left_out} bytes are missing"
        paths[1].write_bytes(written)


def test_a_damaged_file_is_named_and_the_next_one_goes_on(tmp_path: Path) -> None:
    def go_on(driver: Driver) -> None:
        for i in range(100):
            driver.advance_second()
            driver.create(a_waiting_pod(f"later-{i}", cpu="10m"))
            driver.settle()

    schedule_all(tmp_path, a_load(), is_observed=False, then=go_on, limits=RecordingLimits(interval_s=30))
    paths = segments_in(tmp_path)
    written = bytearray(paths[0].read_bytes())
    written[-40] ^= 0xFF
    paths[0].write_bytes(written)
    answer = agree(tmp_path)
    assert answer.agrees and len(answer.bindings) > 60
    (problem,) = answer.problems
    assert problem.startswith(f"{paths[0]}: ") and problem.endswith("; what follows in this file is not read")


def test_an_observer_begins_each_file_with_all_objects(tmp_path: Path) -> None:
    objects: dict[str, KubeObject] = {node.name: node for node in (a_node("good", cpu="8"), a_node("less", cpu="7"))}
    clock = _Steps()
    observer = an_observer(tmp_path, (), None, clock, RecordingLimits(interval_s=10))
    observer._known = objects.values
    for node in objects.values():
        observer.added(node)
    for i in range(4):
        pod = a_waiting_pod(f"p{i}", cpu="1")
        observer.added(pod)
        observer.updated(pod, bound(pod, "good" if i % 2 == 0 else "less"))
        objects[pod.name] = bound(pod, "good" if i % 2 == 0 else "less")
        clock.now += 11 * NS_PER_S
        observer.write_out()
    observer.close()
    paths = segments_in(tmp_path)
    assert len(paths) == 5
    assert verdicts(agree(tmp_path)) == [("p0", SAME), ("p1", SAME), ("p2", SAME), ("p3", SAME)]
    for path in paths[:2]:
        path.unlink()
    assert verdicts(agree(tmp_path)) == [("p2", SAME), ("p3", SAME)], (
        "known from the third file: p0 and p1 are on nodes"
    )


class _Steps:
    def __init__(self) -> None:
        self.now = 1_769_904_000 * NS_PER_S

    def now_ns(self) -> int:
        return self.now
