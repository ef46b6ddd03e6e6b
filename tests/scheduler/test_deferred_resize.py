"""v1.37, 16: pods on nodes whose resize the kubelet deferred (gate InPlacePodVerticalScalingSchedulerPreemption)."""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from build import FreshValues, a_cluster, a_node, a_pod
from gangs import a_group
from mooring.framework.contract.context import ResizeContext, SchedulingContext
from mooring.framework.contract.intents import Evict
from mooring.framework.contract.points import Handle
from mooring.framework.contract.status import SKIP, final
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.plugins.nodes.deferred_pod_scheduling import DeferredPodScheduling
from mooring.queue.entry import QueuedPod
from mooring.scheduler.inputs import ObjectUpdated
from mooring.state.scheduler_state import SchedulerState, restore, state_of
from self_checking import CheckedCluster

GATE = "InPlacePodVerticalScalingSchedulerPreemption"
DEFERRED = {"type": "PodResizePending", "status": "True", "reason": "Deferred"}
SCHEDULED = {"type": "PodScheduled", "status": "True"}
DISABLED: dict[str, Any] = {"podPreemptionPolicy": {"disableResizePreemption": ["test-operator"]}}


def in_force(cpu: str, memory: str) -> list[dict[str, Any]]:
    held = {"cpu": cpu, "memory": memory}
    return [{"name": "main", "allocatedResources": held, "resources": {"requests": held}}]


def resized(
    name: str = "resized",
    cpu: str = "300m",
    conditions: Any = (SCHEDULED, DEFERRED),
    held: str = "100m",
    memory: str = "100",
    **more: Any,
) -> Pod:
    """A pod on node n that runs with `held` and requests `cpu`."""
    status = {"phase": "Running", "conditions": list(conditions), "containerStatuses": in_force(held, memory)}
    spec = {"nodeName": "n", "priority": 100, "schedulerName": "default-scheduler", **more}
    return a_pod(name, cpu=cpu, memory=memory, metadata={"uid": f"uid-{name}"}, status=status, **spec)


def running(name: str, cpu: str, node: str = "n", priority: int = 0, **more: Any) -> Pod:
    status = {"phase": "Running", "conditions": [SCHEDULED]}
    spec = {"nodeName": node, "priority": priority, "schedulerName": "default-scheduler", **more}
    return a_pod(name, cpu=cpu, metadata={"uid": f"uid-{name}"}, status=status, **spec)


def the_node(name: str = "n", cpu: str = "300m", **more: Any) -> Node:
    return a_node(name, cpu=cpu, **more)


class ResizeCluster(CheckedCluster):
    """A simulated cluster with the gate on, at rest after each change."""

    def __init__(self, *items: Any, is_on: bool = True, **gates: bool) -> None:
        super().__init__(**{GATE: is_on, **gates})
        self.evicted: list[str] = []
        self.driver.on_evicted = lambda victim, preemptor: self.evicted.append(victim.name)
        self.put(*items)

    def becomes(self, item: Any) -> list[str]:
        """An object changes, a pod with its status. Returns the pods that are tried."""
        self.driver._replace(self.driver.objects[type(item).__name__, item.key], item)
        return self.driver.settle()

    def entry(self, name: str = "resized") -> QueuedPod:
        entry = self.scheduler.queued(f"default/{name}")
        assert entry is not None
        return entry

    def place(self, name: str = "resized") -> str | None:
        return self.scheduler.place_in_queue(f"default/{name}")

    def is_told_nothing(self) -> bool:
        """Whether no one has written about the resized pod."""
        pod = self.find("resized")
        events = [event for event in self.driver.events if event.pod.name == "resized"]
        conditions = {condition.type: condition.status for condition in pod.status.conditions or ()}
        return not events and not pod.status.nominated_node_name and conditions["PodScheduled"] == "True"


PREEMPTION: dict[str, tuple[list[Pod], dict[str, Any], dict[str, Any], list[str], str]] = {
    "one pod of lower priority leaves": ([running("v1", "200m")], {}, {}, ["v1"], "backoff"),
    "several pods of lower priority leave": (
        [running("v1", "100m"), running("v2", "100m")],
        {},
        {},
        ["v1", "v2"],
        "backoff",
    ),
    "only those leave that must": (
        [running("v1", "50m"), running("v2", "200m")],
        {},
        {"cpu": "350m"},
        ["v2"],
        "backoff",
    ),
    "pods of the same priority stay": ([running("v1", "200m", priority=100)], {}, {}, [], "unschedulable"),
    "a pod that never preempts": (
        [running("v1", "200m")],
        {"preemptionPolicy": "Never"},
        {},
        [],
        "unschedulable",
    ),
    "the resize fits": ([], {}, {}, [], "backoff"),
    "the node forbids it": ([running("v1", "200m")], {}, DISABLED, [], "unschedulable"),
    "a policy that nobody set forbids nothing": (
        [running("v1", "200m")],
        {},
        {"podPreemptionPolicy": {"disableResizePreemption": []}},
        ["v1"],
        "backoff",
    ),
    "the node is cordoned and tainted, and selectors exclude it": (
        [running("v1", "200m")],
        {"nodeSelector": {"disk": "ssd"}},
        {"unschedulable": True, "taints": ["a=b:NoSchedule"]},
        ["v1"],
        "backoff",
    ),
}


@pytest.mark.parametrize(("others", "spec", "node", "evicted", "place"), PREEMPTION.values(), ids=PREEMPTION.keys())
def test_v137_16_room_is_made_on_the_node(
    others: list[Pod], spec: dict[str, Any], node: dict[str, Any], evicted: list[str], place: str
) -> None:
    """Upstream's TestDeferredResizePodPreemption. Nothing is written about the pod, and it stays in cache and queue."""
    cluster = ResizeCluster(the_node(**node), the_node("other", "8"), *others, resized(**spec))
    assert (cluster.evicted, cluster.place()) == (evicted, place)
    assert cluster.is_told_nothing()
    assert cluster.scheduler.placed("uid-resized") is not None
    assert (cluster.scheduler.check(), cluster.check()) == ([], [])


def test_v137_16_a_resize_that_fits_is_an_error_because_the_pod_is_in_the_cache() -> None:
    """Parity: Permit would park the pod, but it is not asked: upstream's AssumePod refuses pods that the cache has. So the
    pod backs off as after any error."""
    cluster = ResizeCluster(the_node(), resized())
    assert (cluster.place(), cluster.entry().rejectors, cluster.entry().consecutive_errors) == ("backoff", (), 1)
    cluster.driver.jump(cluster.driver.next_ns() or 0)
    assert cluster.driver.settle() == ["default/resized"]
    assert cluster.entry().consecutive_errors == 2
    assert cluster.reports == []


def test_v137_16_a_pod_without_a_node_that_claims_a_resize_is_never_bound() -> None:
    """Whatever a server accepts may come. Parity: plugins with state of a skipped PreFilter fail in Reserve."""
    cluster = ResizeCluster(the_node(), resized(nodeName=""))
    assert (cluster.place(), cluster.entry().consecutive_errors) == ("backoff", 1)
    assert (list(cluster.driver.events), cluster.check()) == ([], [])


@pytest.mark.parametrize("is_on", [True, False])
def test_v137_16_permit_parks_a_resize_that_fits(is_on: bool) -> None:
    plugin = DeferredPodScheduling(None, Handle(feature_gates={GATE: is_on}))
    make = ResizeContext if is_on else SchedulingContext
    context = make(resized(), a_cluster(the_node()), 0, FreshValues())
    said = final("pod resize fits, waiting for Kubelet actuation") if is_on else None
    assert plugin.permit(context, "n") == said
    assert plugin.pre_filter(context) is (None if is_on else SKIP)


REASONS: dict[str, tuple[dict[str, Any], list[Pod], dict[str, Any], tuple[str, ...]]] = {
    "a node that is full of pods": (
        {"pods": 2},
        [running("v1", "1m", priority=200)],
        {},
        ("NodeName", "NodeResourcesFit"),
    ),
    "a policy of the node": (DISABLED, [], {}, ("DeferredPodScheduling", "NodeName")),
    "more than the node has": ({}, [], {"cpu": "400m"}, ("NodeName", "NodeResourcesFit")),
}


@pytest.mark.parametrize(("node", "others", "spec", "plugins"), REASONS.values(), ids=REASONS.keys())
def test_v137_16_who_rejects(
    node: dict[str, Any], others: list[Pod], spec: dict[str, Any], plugins: tuple[str, ...]
) -> None:
    """NodeName is among them, because its PreFilter left the other nodes out."""
    cluster = ResizeCluster(the_node(**node), *others, resized(**spec))
    assert (cluster.entry().unschedulable_plugins, cluster.evicted) == (plugins, [])


def test_v137_16_a_node_full_of_pods_makes_room_for_one_more() -> None:
    """Parity: the number of pods counts the pod twice, so a pod leaves though the resize has room."""
    cluster = ResizeCluster(the_node(cpu="4", pods=2), running("v1", "1m"), resized())
    assert cluster.evicted == ["v1"]


def test_v137_16_pods_of_one_shape_on_two_nodes_are_decided_apart() -> None:
    """Nothing that is kept for a shape may serve another node."""
    cluster = ResizeCluster(
        the_node(), the_node("free", "4"), running("v1", "200m"), resized("a", nodeName="free"), resized("b")
    )
    assert (cluster.evicted, cluster.place("a"), cluster.check()) == (["v1"], "backoff", [])


# ---- handlers


def test_v137_16_handlers() -> None:
    """Upstream's TestEventHandlers_DeferredResize and TestDeferredResizeQueueingHandlers."""
    plain, deferred = resized(conditions=[SCHEDULED]), resized()
    cluster = ResizeCluster(the_node(), running("v1", "200m", priority=200), plain)
    assert cluster.place() is None
    cluster.becomes(deferred)
    assert cluster.place() == "unschedulable"
    cluster.becomes(resized(cpu="310m"))
    assert cluster.entry().pod.shape.request["cpu"] == 310
    cluster.becomes(plain)
    assert (cluster.place(), cluster.scheduler.placed("uid-resized") is not None) == (None, True)
    cluster.becomes(deferred)
    cluster.driver.delete("Pod", "default/resized")
    assert (cluster.place(), cluster.scheduler.placed("uid-resized"), cluster.check()) == (None, None, [])


CONDITIONS: dict[str, tuple[list[dict[str, str]], bool]] = {
    "deferred": ([SCHEDULED, DEFERRED], True),
    "infeasible": ([SCHEDULED, {**DEFERRED, "reason": "Infeasible"}], False),
    "the first of two counts": ([SCHEDULED, {**DEFERRED, "reason": "Infeasible"}, DEFERRED], False),
    "whatever its status": ([SCHEDULED, {**DEFERRED, "status": "False"}], True),
    "in progress": ([SCHEDULED, {**DEFERRED, "type": "PodResizeInProgress"}], False),
}


@pytest.mark.parametrize(("conditions", "queued"), CONDITIONS.values(), ids=CONDITIONS.keys())
def test_v137_16_which_condition(conditions: list[dict[str, str]], queued: bool) -> None:
    cluster = ResizeCluster(the_node(), resized(conditions=conditions))
    assert (cluster.place() is not None) is queued


def test_v137_16_without_the_gate_or_for_another_scheduler_nothing_is_queued() -> None:
    off = ResizeCluster(the_node(), running("v1", "200m"), resized(), is_on=False)
    foreign = ResizeCluster(the_node(), running("v1", "200m"), resized(schedulerName="someone-else"))
    for cluster in (off, foreign):
        assert (cluster.place(), cluster.evicted, cluster.check()) == (None, [], [])


def test_v137_16_members_of_groups_are_queued_singly() -> None:
    group: dict[str, Any] = {"schedulingGroup": {"podGroupName": "gang"}}
    cluster = ResizeCluster(the_node(), a_group(), resized(**group), GenericWorkload=True)
    assert cluster.place() == "backoff"
    assert cluster.entry().consecutive_errors == 1
    groups = cluster.driver.scheduler.core.queue.groups
    assert groups is not None and groups.get("default/resized") is None, "an attempt that failed brings it back alone"


# ---- hints: what makes a parked pod be tried again

Act = Callable[["ResizeCluster"], list[str]]


def leaves(name: str) -> Act:
    def act(cluster: ResizeCluster) -> list[str]:
        cluster.driver.delete("Pod", f"default/{name}")
        return cluster.driver.settle()

    return act


def turns(item: Any) -> Act:
    return lambda cluster: cluster.becomes(item)


HINTS: dict[str, tuple[Act, bool]] = {
    "a pod on another node shrinks": (turns(running("far", "100m", "other", 200)), False),
    "a pod on the node shrinks": (turns(running("near", "100m", priority=200)), True),
    "a pod on the node shrinks in what was not resized": (
        turns(running("near", "200m", priority=200, labels={"a": "b"})),
        False,
    ),
    "a pod on another node leaves": (leaves("far"), False),
    "a pod on the node leaves": (leaves("near"), True),
    "a pod on another node grows": (turns(running("far", "250m", "other", 200)), False),
    "a pod on the node grows": (turns(running("near", "250m", priority=200)), True),
    "the pod shrinks": (turns(resized(cpu="80m", held="50m")), True),
    "the pod grows": (turns(resized(cpu="120m", held="50m")), True),
    "the node grows": (turns(the_node(cpu="1")), True),
    "another node grows": (turns(the_node("other", "16")), False),
    "the policy of the node forbids it now": (turns(the_node(cpu="200m", **DISABLED)), False),
    "the policy of another node changes": (turns(the_node("other", "8", **DISABLED)), False),
    "the node is uncordoned or loses taints": (turns(the_node(cpu="200m", labels={"a": "b"})), False),
}


@pytest.mark.parametrize(("act", "is_tried"), HINTS.values(), ids=HINTS.keys())
def test_v137_16_hints(act: Act, is_tried: bool) -> None:
    """Upstream's TestDeferredResizeQueueingHints and TestDeferredResizeNodePreemptionPolicy."""
    cluster = ResizeCluster(
        the_node(cpu="200m"),
        the_node("other", "8"),
        running("near", "200m", priority=200),
        running("far", "200m", "other", 200),
        resized(cpu="100m", held="50m"),
    )
    assert cluster.place() == "unschedulable"
    before = cluster.entry().attempts
    act(cluster)
    if cluster.place() == "backoff" and cluster.entry().attempts == before:
        cluster.driver.jump(cluster.driver.next_ns() or 0)
        cluster.driver.settle()
    assert (cluster.entry().attempts > before) is is_tried
    assert (cluster.is_told_nothing(), cluster.check()) == (True, [])


def test_v137_16_a_policy_that_is_lifted_lets_the_pod_be_tried() -> None:
    cluster = ResizeCluster(the_node(**DISABLED), running("v1", "200m"), resized())
    assert cluster.place() == "unschedulable"
    cluster.becomes(the_node())
    cluster.driver.settle()
    assert cluster.evicted == ["v1"]


def test_v137_16_the_node_comes_later() -> None:
    """A pod may be seen before its node."""
    cluster = ResizeCluster(the_node("other", "8"), running("v1", "200m"), resized())
    assert cluster.place() == "unschedulable"
    cluster.put(the_node())
    assert cluster.evicted == ["v1"]


# ---- state


def test_v137_16_a_saved_state_goes_on_where_it_was() -> None:
    cluster = ResizeCluster(the_node(**DISABLED), running("v1", "200m"), resized())
    state = msgspec.json.decode(msgspec.json.encode(state_of(cluster.scheduler)), type=SchedulerState)
    other = cluster.a_scheduler()
    restore(other, state)
    entry = other.queued("default/resized")
    assert entry is not None
    assert (entry.attempts, other.place_in_queue(entry.key), other.check()) == (1, "unschedulable", [])
    assert other.placed("uid-resized") is not None
    other.handle(ObjectUpdated(cluster.driver.objects["Node", "n"], the_node()))
    assert other.attempt() is not None
    assert [intent.victim.name for intent in other.take_intents() if isinstance(intent, Evict)] == ["v1"]


def test_v137_16_the_self_check_finds_and_queues_a_pod_that_was_lost() -> None:
    cluster = ResizeCluster(the_node(), running("near", "200m", priority=200), resized())
    cluster.core.queue.delete(cluster.find("resized"))
    (found,) = cluster.check(repairs=True)
    assert (found.what, found.name) == ("places", "default/resized")
    assert cluster.place() == "active"


def test_v137_16_the_self_check_finds_and_drops_a_pod_that_no_longer_waits() -> None:
    cluster = ResizeCluster(the_node(), running("near", "200m", priority=200), resized(conditions=[SCHEDULED]))
    cluster.core.queue.add(cluster.find("resized"))
    (found,) = cluster.check(repairs=True)
    assert (found.what, found.name, cluster.place()) == ("pod", "default/resized", None)
