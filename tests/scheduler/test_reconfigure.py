"""Another configuration in a scheduler at work: it then decides as one that was started with it, and loses no pod."""

import tempfile
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from build import a_node, a_pod
from gangs import a_group, a_member
from how_many import examples
from mooring.drivers.simulated_driver import START_NS
from mooring.framework import config as configuration
from mooring.framework.config import ConfigError, KubeSchedulerConfiguration
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import (
    Handle,
    PermitPlugin,
    QueueSortPlugin,
    Reads,
    Rows,
    ScorePlugin,
    Scores,
    Wait,
    reads,
)
from mooring.framework.contract.status import Rejection
from mooring.framework.profile.registry import Registry
from mooring.kit.clock import VirtualClock
from mooring.model.pod import Pod
from mooring.plugin import PlainPlugin
from mooring.plugins import in_tree
from mooring.scheduler.inputs import BindAnswered, ObjectAdded
from mooring.scheduler.scheduler import Scheduler
from mooring.state.recording.recorder import RunRecorder, scheduler_header
from mooring.state.recording.run_files import RecordingLimits
from mooring.state.recording.run_reading import runs_in
from mooring.state.replay.differences import step_in_words
from mooring.state.replay.replayer import Replayer
from mooring.state.scheduler_assembly import Recorder, build_scheduler, configuration_change
from mooring.state.scheduler_state import is_quiet
from self_checking import GATES, CheckedCluster


class Hold(PermitPlugin):
    """Every pod waits ten seconds on Permit."""

    name = "Hold"

    def permit(self, context: SchedulingContext, node_name: str) -> Rejection | Wait | None:
        return Wait(10)


class Counting(PlainPlugin):
    """Hears of every pod, and fails if its arguments say so."""

    name = "Counting"
    made: ClassVar["list[Counting]"] = []

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self.heard = 0
        handle.services.pod_listeners.append(self._hear)
        if args:
            raise ValueError("it fails")
        self.made.append(self)

    def _hear(self, old: Pod | None, new: Pod | None) -> None:
        self.heard += 1

    def filter(self, pod: Pod, node: Any) -> str | None:
        return None


class LowestFirst(QueueSortPlugin):
    """The pod with the lowest priority comes first."""

    name = "LowestFirst"

    def sort_key(self, pod: Pod, queued_s: float) -> Any:
        return pod.priority


class Quiet(ScorePlugin):
    """Prefers nodes with many quiet pods. Its answers are kept by node."""

    name = "Quiet"

    @reads(Reads.ROW)
    def score(self, context: SchedulingContext, rows: Rows) -> Scores:
        on = [context.nodes.pods_on[row] for row in np.arange(context.nodes.height)[rows]]
        return np.array([sum(pod.labels.get("noise") != "loud" for pod in pods) for pods in on], np.int64)


def a_registry() -> Registry:
    registry = in_tree()
    for plugin in (Hold, Counting, LowestFirst, Quiet):
        registry.register(plugin)
    return registry


RESIZE_GATES = {**GATES, "InPlacePodVerticalScalingSchedulerPreemption": True}
DEFERRED = {"phase": "Running", "conditions": [{"type": "PodResizePending", "status": "True", "reason": "Deferred"}]}
"""The status of a pod whose resize waits for room on its node."""


def a_profile(name: str = "default-scheduler", **more: Any) -> dict[str, Any]:
    return {"schedulerName": name, **more}


def a_config(*profiles: dict[str, Any], **more: Any) -> KubeSchedulerConfiguration:
    return configuration.from_object(
        {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "profiles": [*profiles] or [a_profile()],
            **more,
        },
        feature_gates=GATES,
    )


def fit(strategy: str) -> dict[str, Any]:
    """A profile that scores only how full nodes are."""
    args = {"scoringStrategy": {"type": strategy, "resources": [{"name": "cpu", "weight": 1}]}}
    enabled = {"disabled": [{"name": "*"}], "enabled": [{"name": "NodeResourcesFit"}]}
    return {
        "plugins": {"score": enabled, "preScore": enabled},
        "pluginConfig": [{"name": "NodeResourcesFit", "args": args}],
    }


def at(point: str, name: str) -> dict[str, Any]:
    return {"plugins": {point: {"enabled": [{"name": name}]}}}


def without(*names: str) -> dict[str, Any]:
    return {"plugins": {"multiPoint": {"disabled": [{"name": name} for name in names]}}}


class Swapped(CheckedCluster):
    """A cluster whose scheduler gets other configurations. A self-check builds a fresh one with the present configuration."""

    def __init__(self, config: KubeSchedulerConfiguration | None = None, recorder: Recorder | None = None) -> None:
        self.config, self.recorder = config or a_config(), recorder
        super().__init__(**GATES)
        self.recorder = None

    def a_scheduler(self) -> Scheduler:
        return build_scheduler(self.config, self.clock, a_registry(), gates=GATES, recorder=self.recorder)

    def swap(self, config: KubeSchedulerConfiguration) -> None:
        change = configuration_change(self.scheduler, config, a_registry(), GATES)
        self.config = config
        self.scheduler.handle(change)
        assert self.scheduler.check() == []
        self.driver.carry_out()

    def pass_seconds(self, seconds: int) -> None:
        for _ in range(seconds):
            self.driver.advance_second()
            self.driver.settle()

    def nodes_of(self) -> dict[str, str]:
        found = (item for item in self.driver.objects.values() if isinstance(item, Pod))
        return {pod.name: pod.spec.node_name for pod in found}


def a_waiting(name: str, scheduler: str = "default-scheduler", **more: Any) -> Pod:
    return a_pod(name, metadata={"uid": f"uid-{name}"}, schedulerName=scheduler, **more)


def test_the_next_attempt_is_that_of_the_new_profile() -> None:
    cluster = Swapped(a_config(a_profile(**fit("LeastAllocated"))))
    cluster.put(a_node("n1", cpu="4"), a_node("n2", cpu="4"), a_waiting("a", cpu="1"), a_waiting("b", cpu="1"))
    cluster.swap(a_config(a_profile(**fit("MostAllocated"))))
    cluster.put(a_waiting("c", cpu="1"), a_waiting("d", cpu="1"))
    assert cluster.nodes_of() == {"a": "n1", "b": "n2", "c": "n1", "d": "n1"}
    assert cluster.check() == []


def test_pods_that_the_former_plugins_rejected_are_tried_again() -> None:
    cluster = Swapped()
    cluster.put(a_node("n", taints=["dedicated=db:NoSchedule"]), a_waiting("p"))
    entry = cluster.scheduler.queued("default/p")
    assert entry is not None
    assert (cluster.nodes_of(), entry.attempts) == ({"p": ""}, 1)
    cluster.swap(a_config(a_profile(**without("TaintToleration"))))
    assert cluster.scheduler.queued("default/p") is entry, "it keeps its times and its attempts"
    cluster.driver.settle()
    assert cluster.nodes_of() == {"p": "n"}


def test_the_new_gates_hold_back_pods_that_passed_the_old_ones_and_let_go_of_others() -> None:
    cluster = Swapped(a_config(a_profile(**without("SchedulingGates"))))
    gated = a_waiting("p", schedulingGates=[{"name": "later"}])
    cluster.driver.create(gated)
    assert cluster.scheduler.place_in_queue("default/p") == "active"
    cluster.swap(a_config())
    assert cluster.scheduler.place_in_queue("default/p") == "gated"
    cluster.swap(a_config(a_profile(**without("SchedulingGates"))))
    assert cluster.scheduler.place_in_queue("default/p") == "active"


def test_pods_of_a_removed_profile_leave_the_queue_and_those_of_a_new_one_come() -> None:
    cluster = Swapped(a_config(a_profile("one")))
    cluster.driver.create(a_waiting("a", "one"))
    cluster.driver.create(a_waiting("b", "two"))
    assert [entry.key for entry in cluster.scheduler.queued_pods()] == ["default/a"]
    cluster.swap(a_config(a_profile("two"), a_profile("three")))
    assert [entry.key for entry in cluster.scheduler.queued_pods()] == ["default/b"]
    cluster.put(a_node("n"))
    assert cluster.nodes_of() == {"a": "", "b": "n"}
    assert cluster.check() == []
    cluster.swap(a_config(a_profile("one")))
    cluster.driver.settle()
    assert cluster.nodes_of() == {"a": "n", "b": "n"}


def test_only_pods_that_need_a_node_come_back_with_their_profile() -> None:
    """A pod on a node, and one that waits on Permit for its room, are not tried a second time."""
    one, two = a_profile("one", **at("permit", "Hold")), a_profile("two")
    cluster = Swapped(a_config(one, two))
    cluster.put(a_node("n", cpu="4"), a_waiting("bound", "one", nodeName="n"), a_waiting("held", "one"))
    for name in ("big", "bigger", "large"):
        cluster.put(a_waiting(name, "one", cpu="9"))
    assert list(cluster.scheduler.waiting.by_id) == ["uid-held"]
    cluster.swap(a_config(two))
    assert cluster.scheduler.queued_pods() == []
    cluster.swap(a_config(one, two))
    assert [entry.key for entry in cluster.scheduler.queued_pods()] == [
        "default/big",
        "default/bigger",
        "default/large",
    ]
    cluster.pass_seconds(11)
    assert cluster.nodes_of()["bound"] == "n" and cluster.check() == []


def test_a_pod_whose_resize_waits_for_room_comes_with_its_profile() -> None:
    scheduler = build_scheduler(a_config(a_profile("two")), VirtualClock(START_NS), gates=RESIZE_GATES)
    scheduler.handle(ObjectAdded(a_node("n", cpu="1")))
    for name, status in (("runs", {"phase": "Running"}), ("resized", DEFERRED)):
        scheduler.handle(ObjectAdded(a_waiting(name, "one", cpu="500m", nodeName="n", status=status)))
    scheduler.handle(configuration_change(scheduler, a_config(a_profile("one")), gates=RESIZE_GATES))
    assert [entry.key for entry in scheduler.queued_pods()] == ["default/resized"]


def test_pods_of_a_removed_profile_are_members_of_their_group_only_on_nodes() -> None:
    scheduler = build_scheduler(a_config(a_profile("one")), VirtualClock(START_NS), gates=RESIZE_GATES)
    members = [
        a_member("waits", schedulerName="one"),
        a_member("resized", schedulerName="one", nodeName="n", status=DEFERRED),
    ]
    for item in (a_node("n", cpu="2"), a_group(min_count=3), *members):
        scheduler.handle(ObjectAdded(item))
    groups = scheduler.core.cluster.groups
    assert groups is not None and (groups.named("default/gang").member_count, len(scheduler.queued_pods())) == (2, 2)
    scheduler.handle(configuration_change(scheduler, a_config(a_profile("two")), gates=RESIZE_GATES))
    assert (groups.named("default/gang").member_count, groups.scheduled("default/gang")) == (1, ["uid-resized"])
    assert (scheduler.queued_pods(), scheduler.check()) == ([], [])


def test_pods_of_a_removed_profile_leave_the_queue_of_a_scheduler_that_does_not_heed_groups() -> None:
    scheduler = build_scheduler(a_config(a_profile("one")), VirtualClock(START_NS))
    scheduler.handle(ObjectAdded(a_waiting("p", "one")))
    scheduler.handle(configuration_change(scheduler, a_config(a_profile("two"))))
    assert (scheduler.queued_pods(), scheduler.check()) == ([], [])


def test_a_new_plugin_that_looks_at_pods_sees_labels_that_change() -> None:
    """With few nodes all are asked about anew, and no answer that is kept could be wrong."""
    cluster = Swapped()
    cluster.put(*(a_node(f"n{i}") for i in range(1, 40)))
    for name in ("a", "b", "c"):
        cluster.put(a_waiting(name, nodeName="n1", labels={"noise": "loud"}))
    cluster.put(a_waiting("d", nodeName="n2"))
    cluster.swap(a_config(a_profile(plugins={"score": {"disabled": [{"name": "*"}], "enabled": [{"name": "Quiet"}]}})))
    cluster.put(a_waiting("first"))
    for name in ("a", "b", "c"):
        cluster.driver.update(a_waiting(name, nodeName="n1"))
    cluster.put(a_waiting("second"))
    assert (cluster.nodes_of()["first"], cluster.nodes_of()["second"]) == ("n2", "n1"), "1 against 0, then 2 against 3"


def test_the_new_queue_sort_orders_the_pods_that_wait() -> None:
    cluster = Swapped()
    for name, priority in (("low", 1), ("high", 5)):
        cluster.driver.create(a_waiting(name, priority=priority))
    sort = {"queueSort": {"enabled": [{"name": "LowestFirst"}], "disabled": [{"name": "*"}]}}
    next_pod = cluster.scheduler.next_pod()
    assert next_pod is not None
    assert next_pod.name == "high"
    cluster.swap(a_config(a_profile(plugins=sort)))
    next_pod = cluster.scheduler.next_pod()
    assert next_pod is not None
    assert next_pod.name == "low"


def test_a_pod_that_waits_on_permit_is_bound_by_the_profile_that_chose_its_node() -> None:
    cluster = Swapped(a_config(a_profile("one", **at("permit", "Hold")), a_profile("two")))
    cluster.put(a_node("n"), a_waiting("p", "one"))
    assert cluster.scheduler.waiting.by_id
    cluster.swap(a_config(a_profile("two")))
    assert not is_quiet(cluster.scheduler), "no state can be taken: its profile is not in the configuration"
    cluster.scheduler.waiting.by_id["uid-p"].allow("Hold")
    cluster.scheduler.release_waiting()
    cluster.driver.carry_out()
    assert cluster.nodes_of() == {"p": "n"}
    assert cluster.scheduler.check() == []


@pytest.mark.parametrize("is_gone", [False, True], ids=["its wait ends", "it is deleted"])
def test_a_pod_that_waited_on_permit_for_a_removed_profile_gives_its_room_back(is_gone: bool) -> None:
    cluster = Swapped(a_config(a_profile("one", **at("permit", "Hold")), a_profile("two")))
    cluster.put(a_node("n", cpu="1"), a_waiting("p", "one", cpu="1"))
    cluster.swap(a_config(a_profile("two")))
    if is_gone:
        cluster.driver.delete("Pod", "default/p")
    else:
        cluster.pass_seconds(11)
    cluster.put(a_waiting("q", "two", cpu="1"))
    assert cluster.nodes_of() == {**({} if is_gone else {"p": ""}), "q": "n"}
    assert cluster.scheduler.check() == []
    assert not cluster.scheduler.queued("default/p")


def test_a_bind_that_fails_after_its_profile_went_does_not_bring_the_pod_back() -> None:
    clock = VirtualClock(START_NS)
    scheduler = build_scheduler(a_config(a_profile("one"), a_profile("two")), clock, gates=GATES)
    pod = a_waiting("p", "one")
    for item in (a_node("n"), pod):
        scheduler.handle(ObjectAdded(item))
    scheduler.attempt()
    scheduler.handle(configuration_change(scheduler, a_config(a_profile("two")), gates=GATES))
    scheduler.handle(BindAnswered(pod, "no"))
    assert (scheduler.queued_pods(), scheduler.is_attempted("uid-p"), scheduler.check()) == ([], False, [])


def test_listeners_of_the_former_plugins_are_called_no_more_and_those_of_others_are() -> None:
    Counting.made.clear()
    counted = a_config(a_profile(**at("filter", "Counting")))
    cluster = Swapped(counted)
    heard = []
    cluster.core.services.pod_listeners.append(lambda old, new: heard.append(new))
    cluster.swap(counted)
    cluster.driver.create(a_waiting("p"))
    assert ([plugin.heard for plugin in Counting.made], len(heard)) == ([0, 1], 1)
    cluster.swap(a_config())
    cluster.driver.create(a_waiting("q"))
    assert ([plugin.heard for plugin in Counting.made], len(heard)) == ([0, 1], 2)


def test_a_configuration_that_cannot_be_built_changes_nothing() -> None:
    Counting.made.clear()
    cluster = Swapped()
    before = cluster.core.runners, list(cluster.core.services.pod_listeners)
    faulty = a_profile("two", **at("filter", "Counting"), pluginConfig=[{"name": "Counting", "args": {"fail": True}}])
    with pytest.raises(ConfigError, match="it fails"):
        configuration_change(cluster.scheduler, a_config(a_profile(), faulty), a_registry(), GATES)
    assert (cluster.core.runners, cluster.core.services.pod_listeners) == before


# ---- any sequence of changes and configurations

CONFIGS = [
    a_config(),
    a_config(a_profile(**fit("MostAllocated")), a_profile("two")),
    a_config(a_profile("two", **without("TaintToleration"))),
    a_config(a_profile(**at("permit", "Hold")), podInitialBackoffSeconds=3),
    a_config(a_profile(**without("SchedulingGates")), a_profile("two", **fit("LeastAllocated"))),
]
STEPS = st.one_of(
    st.tuples(st.just("pod"), st.sampled_from(["default-scheduler", "two"]), st.integers(1, 4), st.integers(0, 2)),
    st.tuples(st.just("member"), st.sampled_from(["default-scheduler", "two"]), st.integers(1, 2)),
    st.tuples(st.just("group"), st.sampled_from(["default-scheduler", "two"]), st.integers(1, 3)),
    st.tuples(st.just("node"), st.sampled_from([None, "dedicated=db:NoSchedule"])),
    st.tuples(st.just("swap"), st.integers(0, len(CONFIGS) - 1)),
    st.tuples(st.just("time"), st.integers(1, 20)),
    st.tuples(st.just("delete")),
)


def take(cluster: Swapped, number: int, step: tuple[Any, ...]) -> None:
    match step:
        case "pod", scheduler, cpu, kind:
            more: dict[str, Any] = {"schedulingGates": [{"name": "g"}]} if kind == 2 else {"priority": kind}
            cluster.driver.create(a_waiting(f"p{number}", scheduler, cpu=str(cpu), **more))
        case "member", scheduler, cpu:
            cluster.driver.create(a_member(f"m{number}", f"gang-{scheduler}", schedulerName=scheduler, cpu=str(cpu)))
        case "group", scheduler, least:
            if ("PodGroup", f"default/gang-{scheduler}") not in cluster.driver.objects:
                cluster.driver.create(a_group(f"gang-{scheduler}", least))
        case "node", taint:
            cluster.driver.create(a_node(f"n{number}", cpu="4", taints=[taint] if taint else []))
        case "swap", which:
            cluster.swap(CONFIGS[which])
        case "time", seconds:
            cluster.driver.settle()
            cluster.pass_seconds(seconds)
        case _:
            pods = [item for item in cluster.driver.objects.values() if isinstance(item, Pod)]
            if pods:
                cluster.driver.delete("Pod", pods[number % len(pods)].key)


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(STEPS, min_size=4, max_size=25))
def test_a_scheduler_that_was_reconfigured_decides_as_a_fresh_one_and_replays_equal(steps: list[Any]) -> None:
    """The self-check compares all that the scheduler knows, and its answers about every pod that waits, with a scheduler
    that is built now with the present configuration."""
    with tempfile.TemporaryDirectory() as directory:
        header = scheduler_header(CONFIGS[0], GATES, START_NS)
        header.tie_break = "name"
        recorder = RunRecorder(Path(directory), header, RecordingLimits(interval_s=5, drops=False))
        cluster = Swapped(CONFIGS[0], recorder)
        for number, step in enumerate(steps):
            take(cluster, number, step)
            assert cluster.scheduler.check() == []
            if step[0] == "swap" and not cluster.scheduler.waiting.by_id:
                assert [str(each) for each in cluster.check()] == []
        recorder.close()
        (run,) = runs_in(Path(directory))
        for from_ns in (None, *(segment.header.started_ns for segment in run.segments)):
            replayer = Replayer(run, a_registry())
            differing = [step_in_words(each.step) for each in replayer.steps(from_ns) if not each.is_equal]
            assert (differing, replayer.problems, replayer.faults) == ([], [], {})
