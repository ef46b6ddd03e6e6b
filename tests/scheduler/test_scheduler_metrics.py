"""What the scheduler records: each metric at the moment at which upstream records it, with upstream's labels."""

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from build import a_node, a_pod
from mooring.framework import config
from mooring.framework.attempts.observing_callers import is_sampled
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.intents import Bind, Evict
from mooring.framework.contract.points import PermitPlugin, PreBindPlugin, ReservePlugin, Wait
from mooring.framework.contract.status import Rejection, curable
from mooring.framework.profile.registry import Registry
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.kit.metrics import Histogram
from mooring.model.pod import Pod
from mooring.plugins import in_tree
from mooring.queue.entry import QueuedPod
from mooring.scheduler.inputs import BindAnswered, EvictionAnswered, ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.scheduler.observer import SchedulerListeners
from mooring.scheduler.scheduler import Scheduler
from mooring.scheduler.scheduler_metrics import SchedulerMetrics
from mooring.state.scheduler_assembly import build_scheduler
from self_checking import with_version

PROFILE = "default-scheduler"
MS = NS_PER_S // 1000


class Doorman(ReservePlugin, PermitPlugin, PreBindPlugin):
    """Takes two milliseconds at each point and answers what it is told to, or raises it."""

    name = "Doorman"
    clock: VirtualClock
    answers: dict[str, Any]

    def _answer(self, point: str) -> Any:
        self.clock.advance_ns(2 * MS)
        answer = self.answers.get(point)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def reserve(self, context: SchedulingContext, node_name: str) -> Rejection | None:
        return self._answer("Reserve")  # type: ignore[no-any-return]

    def unreserve(self, context: SchedulingContext, node_name: str) -> None:
        self._answer("Unreserve")

    def permit(self, context: SchedulingContext, node_name: str) -> Rejection | Wait | None:
        return self._answer("Permit")  # type: ignore[no-any-return]

    def pre_bind(self, context: SchedulingContext, node_name: str) -> Any:
        return self._answer("PreBind")


class World:
    """A measured scheduler on a virtual clock, and what it has recorded."""

    def __init__(self, *plugins: type[Doorman], **answers: Any) -> None:
        self.clock = VirtualClock(1_000 * NS_PER_S)
        self.metrics = SchedulerMetrics(self.clock)
        registry: Registry = in_tree()
        for plugin in plugins:
            registry.register(plugin)
            plugin.clock, plugin.answers = self.clock, answers
        enabled = [{"name": plugin.name} for plugin in plugins]
        profile = {"schedulerName": PROFILE, "plugins": {"multiPoint": {"enabled": enabled}}}
        head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
        self.scheduler: Scheduler = build_scheduler(
            config.from_object({**head, "profiles": [profile]}),
            self.clock,
            registry,
            listeners=SchedulerListeners(observer=self.metrics),
        )

    def attempt(self, seconds: float = 0) -> list[Any]:
        """Attempt a pod; so much time passes before anything it wants is done."""
        self.scheduler.attempt()
        self.clock.advance_ns(round(seconds * NS_PER_S))
        return self.scheduler.take_intents()

    def bind(self, intents: Iterable[Any], fault: str | None = None) -> None:
        for intent in intents:
            if isinstance(intent, Bind):
                self.scheduler.handle(BindAnswered(intent.pod, fault))

    def shown(self, name: str) -> dict[tuple[str, ...], float]:
        """The series of a metric; of a histogram how many values were observed."""
        family = next(family for family in self.metrics.registry if family.description.name == f"scheduler_{name}")
        return {
            labels: series.count if isinstance(series, Histogram) else series.value
            for labels, series in family.items()
            if not series.is_blank
        }

    def total_s(self, name: str, *labels: str) -> float:
        return self.metrics.registry.histogram(f"scheduler_{name}").series(*labels).total

    def points(self) -> dict[str, str]:
        """The extension points that were measured, each with its status."""
        shown = self.shown("framework_extension_point_duration_seconds")
        return {point: status for point, status, profile in shown if profile == PROFILE}


def our_pod(name: str = "pod", **more: Any) -> Pod:
    return a_pod(name, metadata={"uid": f"uid-{name}"}, schedulerName=PROFILE, **more)


def with_node(*plugins: type[Doorman], **answers: Any) -> World:
    world = World(*plugins, **answers)
    world.scheduler.handle(ObjectAdded(a_node("n1")))
    world.scheduler.handle(ObjectAdded(a_node("n2")))
    return world


# ---- how attempts end


def test_a_pod_that_is_bound() -> None:
    world = with_node()
    world.scheduler.handle(ObjectAdded(our_pod()))
    world.clock.advance_ns(3 * NS_PER_S)
    world.bind(world.attempt(seconds=0.25))
    assert world.shown("schedule_attempts_total") == {("scheduled", PROFILE): 1}
    assert world.total_s("scheduling_attempt_duration_seconds", "scheduled", PROFILE) == 0.25
    assert world.total_s("pod_scheduling_sli_duration_seconds", "1") == 3.25
    assert world.total_s("pod_scheduling_attempts") == 1
    assert world.shown("scheduling_algorithm_duration_seconds") == {(): 1}
    assert world.shown("pod_scheduled_after_flush_total") == {}


def test_nothing_counts_before_the_bind_is_answered() -> None:
    world = with_node()
    world.scheduler.handle(ObjectAdded(our_pod()))
    world.attempt()
    assert world.shown("schedule_attempts_total") == {}
    assert world.shown("goroutines") == {("binding",): 1}


def test_a_pod_that_fits_nowhere() -> None:
    world = with_node()
    world.scheduler.handle(ObjectAdded(our_pod(cpu="100")))
    world.attempt()
    assert world.shown("schedule_attempts_total") == {("unschedulable", PROFILE): 1}
    assert world.shown("scheduling_algorithm_duration_seconds") == {(): 1}
    assert world.shown("unschedulable_pods") == {("NodeResourcesFit", PROFILE): 1}
    assert world.points()["Filter"] == "Success"
    assert world.points()["PostFilter"] == "Unschedulable"


def test_a_bind_that_fails() -> None:
    world = with_node()
    world.scheduler.handle(ObjectAdded(our_pod()))
    world.bind(world.attempt(seconds=1), "the server is on fire")
    assert world.shown("schedule_attempts_total") == {("error", PROFILE): 1}
    assert world.total_s("scheduling_attempt_duration_seconds", "error", PROFILE) == 1
    assert world.total_s("framework_extension_point_duration_seconds", "Bind", "Error", PROFILE) == 1
    assert world.points()["Unreserve"] == "Success"


ATTEMPTS = {"one": (1, "1"), "fourteen": (14, "14"), "fifteen": (15, "15+"), "many": (40, "15+")}


@pytest.mark.parametrize(("count", "label"), ATTEMPTS.values(), ids=ATTEMPTS.keys())
def test_the_label_for_attempts(count: int, label: str) -> None:
    world = with_node()
    world.scheduler.handle(ObjectAdded(our_pod()))
    entry = world.scheduler.core.queue.pop()
    assert isinstance(entry, QueuedPod)
    entry.attempts = count
    world.metrics.pod_bound(entry)
    assert world.shown("pod_scheduling_sli_duration_seconds") == {(label,): 1}


def test_a_pod_that_only_the_flush_woke() -> None:
    world = with_node()
    world.scheduler.handle(ObjectAdded(our_pod()))
    entry = world.scheduler.core.queue.pop()
    assert isinstance(entry, QueuedPod)
    entry.was_flushed = True
    world.metrics.pod_bound(entry)
    assert world.shown("pod_scheduled_after_flush_total") == {(): 1}


# ---- extension points


def test_the_points_of_a_pod_that_is_bound() -> None:
    world = with_node()
    world.scheduler.handle(ObjectAdded(our_pod()))
    world.bind(world.attempt())
    points = ("PreEnqueue", "PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit", "PreBind", "Bind")
    assert world.points() == dict.fromkeys((*points, "PostBind"), "Success")


ANSWERS: dict[str, tuple[str, Any, str, str]] = {
    "Reserve rejects": ("Reserve", curable("full"), "Unschedulable", "unschedulable"),
    "Reserve rejects for good": ("Reserve", Rejection(("full",)), "UnschedulableAndUnresolvable", "unschedulable"),
    "Reserve fails": ("Reserve", RuntimeError("ouch"), "Error", "error"),
    "Permit rejects": ("Permit", curable("not you"), "Unschedulable", "unschedulable"),
    "Permit fails": ("Permit", RuntimeError("ouch"), "Error", "error"),
    "PreBind rejects": ("PreBind", curable("not ready"), "Unschedulable", "unschedulable"),
    "PreBind fails": ("PreBind", RuntimeError("ouch"), "Error", "error"),
}


@pytest.mark.parametrize(("point", "answer", "status", "result"), ANSWERS.values(), ids=ANSWERS.keys())
def test_the_status_of_a_point(point: str, answer: Any, status: str, result: str) -> None:
    world = with_node(Doorman, **{point: answer})
    world.scheduler.handle(ObjectAdded(our_pod()))
    world.attempt()
    assert world.points()[point] == status
    assert world.points()["Unreserve"] == "Success"
    assert world.total_s("framework_extension_point_duration_seconds", point, status, PROFILE) == 0.002
    assert world.shown("schedule_attempts_total") == {(result, PROFILE): 1}


RELEASES: dict[str, tuple[Callable[[Any], object], str]] = {
    "allowed": (lambda waiting: waiting.allow("Doorman"), "Success"),
    "refused": (lambda waiting: waiting.reject("Doorman", "no"), "Unschedulable"),
    "preempted": (lambda waiting: waiting.preempt("DefaultPreemption", "preempted"), "Error"),
}


@pytest.mark.parametrize(("release", "status"), RELEASES.values(), ids=RELEASES.keys())
def test_the_wait_on_permit(release: Callable[[Any], object], status: str) -> None:
    world = with_node(Doorman, Permit=Wait(60))
    world.scheduler.handle(ObjectAdded(our_pod()))
    world.attempt(seconds=5)
    assert world.points()["Permit"] == "Wait"
    assert world.shown("inflight_events") == {("PodPopped",): 1}
    (waiting,) = world.scheduler.core.services.waiting
    release(waiting)
    world.scheduler.release_waiting()
    assert world.shown("permit_wait_duration_seconds") == {(status,): 1}
    assert world.total_s("permit_wait_duration_seconds", status) == 5


def test_a_pod_that_is_gated_counts_as_success_at_pre_enqueue() -> None:
    world = with_node()
    world.scheduler.handle(ObjectAdded(our_pod(schedulingGates=[{"name": "wait"}])))
    assert world.points() == {"PreEnqueue": "Success"}
    assert world.shown("pending_pods") == {("active",): 0, ("backoff",): 0, ("unschedulable",): 0, ("gated",): 1}
    assert world.shown("unschedulable_pods") == {("SchedulingGates", PROFILE): 1}


# ---- plugins


def test_calls_of_plugins_are_measured_in_a_tenth_of_all_attempts() -> None:
    world = with_node(Doorman)
    for number in range(40):
        world.scheduler.handle(ObjectAdded(our_pod(f"pod-{number}")))
    for _ in range(40):
        world.bind(world.attempt())
    sampled = sum(is_sampled(number) for number in range(1, 41))
    shown = world.shown("plugin_execution_duration_seconds")
    assert 2 <= sampled <= 6
    assert shown["Doorman", "Reserve", "Success"] == sampled
    assert shown["DefaultBinder", "Bind", "Success"] == sampled
    assert shown["Doorman", "PreBind", "Success"] == sampled
    assert world.total_s("plugin_execution_duration_seconds", "Doorman", "Permit", "Success") == pytest.approx(
        sampled * 0.002
    )


def test_a_tenth_of_attempts_is_sampled() -> None:
    assert 990 <= sum(is_sampled(seed) for seed in range(10_000)) <= 1010


def evaluations(world: World, point: str) -> dict[str, float]:
    shown = world.shown("plugin_evaluation_total")
    return {plugin: count for (plugin, where, _), count in shown.items() if where == point}


def test_evaluations_count_nodes_at_filter_and_score_and_pods_before_them() -> None:
    world = with_node()
    world.scheduler.handle(ObjectAdded(our_pod(cpu="1")))
    world.attempt()
    asked = ("NodeName", "NodeUnschedulable", "TaintToleration", "NodeResourcesFit")  # v1.37, 3.2: the first three too
    assert evaluations(world, "PreFilter") == dict.fromkeys(asked, 1)
    filters = evaluations(world, "Filter")
    assert set(filters.values()) == {2}
    assert "NodePorts" not in filters, "its PreFilter skipped"
    assert evaluations(world, "Score")["NodeResourcesFit"] == 2


def test_a_filter_has_no_say_about_nodes_that_one_before_it_rejected() -> None:
    world = World()
    world.scheduler.handle(ObjectAdded(a_node("n1", taints=["k=v:NoSchedule"])))
    world.scheduler.handle(ObjectAdded(a_node("n2")))
    world.scheduler.handle(ObjectAdded(a_node("n3")))
    world.scheduler.handle(ObjectAdded(our_pod(cpu="1")))
    world.attempt()
    filters = evaluations(world, "Filter")
    assert (filters["TaintToleration"], filters["NodeResourcesFit"]) == (3, 2)


@pytest.mark.parametrize(("cpu", "evaluated"), [("1", 1), ("4", 3)], ids=["fits there", "does not fit there"])
def test_a_promised_node_is_evaluated_alone_and_all_nodes_only_if_it_rejects(cpu: str, evaluated: int) -> None:
    world = with_node()
    world.scheduler.handle(ObjectAdded(a_pod("used", cpu="1", nodeName="n1")))
    world.scheduler.handle(ObjectAdded(our_pod(cpu=cpu, status={"nominatedNodeName": "n1"})))
    world.attempt()
    assert set(evaluations(world, "Filter").values()) == {evaluated}


def test_plugins_without_a_say_are_shown_too() -> None:
    world = with_node()
    line = f'plugin="NodePorts",extension_point="Filter",profile="{PROFILE}"'
    assert f"scheduler_plugin_evaluation_total{{{line}}} 0\n" in world.metrics.registry.text()


def test_hints_are_measured() -> None:
    world = with_node()
    world.scheduler.handle(ObjectAdded(our_pod(cpu="100")))
    world.attempt()
    world.scheduler.handle(ObjectAdded(a_node("n3")))
    assert world.shown("queueing_hint_execution_duration_seconds") == {("NodeResourcesFit", "NodeAdd", "QueueSkip"): 1}


# ---- preemption


@pytest.mark.parametrize("result", ["success", "error"])
def test_preemption(result: str) -> None:
    """v1.37, 20.2: how the evictions ended is recorded when they have."""
    world = World()
    world.scheduler.handle(ObjectAdded(a_node("n1")))
    world.scheduler.handle(ObjectAdded(our_pod("low", cpu="3", nodeName="n1")))
    world.scheduler.handle(ObjectAdded(our_pod("high", cpu="3", priority=10)))
    (eviction,) = (intent for intent in world.attempt() if isinstance(intent, Evict))
    assert world.shown("preemption_attempts_total") == {(): 1}
    assert world.shown("preemption_victims") == {(): 1}
    assert world.points()["PostFilter"] == "Success"
    assert world.shown("preemption_goroutines_execution_total") == {}
    world.clock.advance_ns(2 * NS_PER_S)
    fault = None if result == "success" else "forbidden"
    world.scheduler.handle(EvictionAnswered(eviction.victim, eviction.preemptor, fault))
    assert world.shown("preemption_goroutines_execution_total") == {(result,): 1}
    assert world.total_s("preemption_goroutines_duration_seconds", result) == 2


def test_v137_12_5_victims_count_though_all_of_them_are_leaving_already() -> None:
    world = World()
    world.scheduler.handle(ObjectAdded(a_node("n1")))
    leaving = {"uid": "uid-low", "deletionTimestamp": "2026-02-01T00:00:00Z"}
    world.scheduler.handle(ObjectAdded(a_pod("low", cpu="3", nodeName="n1", priority=0, metadata=leaving)))
    world.scheduler.handle(ObjectAdded(our_pod("high", cpu="3", priority=10)))
    intents = world.attempt()
    assert not any(isinstance(intent, Evict) for intent in intents)
    assert world.shown("preemption_victims") == {(): 1}


def test_preemption_counts_as_tried_though_the_pod_may_not_preempt() -> None:
    world = with_node()
    world.scheduler.handle(ObjectAdded(our_pod(cpu="100", preemptionPolicy="Never")))
    world.attempt()
    assert world.shown("preemption_attempts_total") == {(): 1}
    assert world.shown("preemption_victims") == {}


# ---- state and changes


def test_state_is_read_when_someone_looks() -> None:
    world = with_node()
    world.scheduler.handle(ObjectAdded(our_pod("there", nodeName="n1")))
    world.scheduler.handle(ObjectAdded(our_pod("a")))
    world.scheduler.handle(ObjectAdded(our_pod("b")))
    world.attempt()
    assert world.shown("cache_size") == {("nodes",): 2, ("pods",): 2, ("assumed_pods",): 1}
    assert world.shown("pending_pods")["active",] == 1
    assert world.shown("queue_incoming_pods_total") == {("active", "UnscheduledPodAdd"): 2}
    assert world.shown("queue_incoming_entities_total") == {("active", "UnscheduledPodAdd", "pod"): 2}
    assert world.shown("queued_entities")["active", "pod"] == 1


def test_events_by_label() -> None:
    """v1.37, 4.1: an update of a waiting pod is counted as one of an unscheduled pod. Each update of a pod on a node is one
    of an assigned pod, beside what it changes; if that is nothing in particular, it is counted twice."""
    world = with_node()
    old = our_pod("there", nodeName="n1")
    world.scheduler.handle(ObjectAdded(old))
    world.scheduler.handle(ObjectUpdated(old, our_pod("there", nodeName="n1", labels={"a": "b"})))
    world.scheduler.handle(ObjectUpdated(old, our_pod("there", nodeName="n1")))
    world.scheduler.handle(ObjectRemoved(old))
    waiting = our_pod("waits")
    world.scheduler.handle(ObjectAdded(waiting))
    newer, same = (with_version(our_pod("waits"), "2") for _ in range(2))
    labelled = with_version(our_pod("waits", labels={"a": "b"}), "3")
    world.scheduler.handle(ObjectUpdated(waiting, newer))
    world.scheduler.handle(ObjectUpdated(newer, same))
    world.scheduler.handle(ObjectUpdated(newer, labelled))
    world.scheduler.handle(ObjectRemoved(labelled))
    world.scheduler.handle(ObjectUpdated(a_node("n1"), a_node("n1", cpu="8")))
    world.scheduler.handle(ObjectRemoved(a_node("n2")))
    assert world.shown("event_handling_duration_seconds") == {
        ("NodeAdd",): 2,
        ("AssignedPodAdd",): 1,
        ("AssignedPodUpdate",): 3,
        ("AssignedPodUpdatePodLabel",): 1,
        ("AssignedPodDelete",): 1,
        ("UnscheduledPodAdd",): 1,
        ("UnscheduledPodUpdate",): 2,
        ("UnscheduledPodUpdatePodLabel",): 1,
        ("UnscheduledPodDelete",): 1,
        ("NodeUpdateNodeAllocatable",): 1,
        ("NodeDelete",): 1,
    }


def test_a_reset_forgets_what_was_counted_and_keeps_what_is() -> None:
    world = with_node()
    world.scheduler.handle(ObjectAdded(our_pod("low", cpu="100")))
    world.attempt()
    world.metrics.registry.clear()
    for name in ("schedule_attempts_total", "queue_incoming_pods_total", "preemption_attempts_total"):
        assert world.shown(name) == {}, name
    assert set(world.shown("plugin_evaluation_total").values()) <= {0}
    assert world.shown("pending_pods")["unschedulable",] == 1
