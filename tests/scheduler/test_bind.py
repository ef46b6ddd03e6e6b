"""Between decision and binding: who hears when of the room that comes free, and plugins that wait for an event."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from build import a_node, a_pod
from mooring.framework import config
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import NODE, POD, Action, Change, ClusterEvent, Registration
from mooring.framework.contract.points import (
    Codes,
    FilterPlugin,
    PermitPlugin,
    PreBindPlugin,
    ReservePlugin,
    Rows,
    Wait,
)
from mooring.framework.contract.status import Code, Rejection, curable, final
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.pod import Pod
from mooring.plugins import in_tree
from mooring.scheduler.inputs import BindAnswered, ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.scheduler.observer import SchedulerListeners
from mooring.state.scheduler_assembly import build_scheduler

LATER = Rejection(("not yet",), Code.Pending)


class Listener(FilterPlugin, ReservePlugin, PermitPlugin, PreBindPlugin):
    """Rejects every node for pods that are called `other`, and listens to pods that go and nodes that come."""

    name = "Listener"

    def __init__(self) -> None:
        self.says: dict[str, Any] = {}
        self.where: Callable[[str], object] = lambda key: None
        self.heard: list[str] = []

    def events(self) -> Sequence[Registration]:
        gone, come = ClusterEvent(POD, Action.DELETE), ClusterEvent(NODE, Action.ADD)
        return [Registration(gone, self._gone), Registration(come)]

    def _gone(self, pod: Pod, change: Change) -> bool:
        assert change.old is not None
        self.heard.append(f"{pod.name} hears of {change.old.name}, which is {self.where(change.old.key)}")
        return False

    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        if context.pod.name != "other" and "filter" not in self.says:
            return None
        return np.ones(len(context.nodes.alive[rows]), np.int64)

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        meaning: Rejection = self.says.get("filter", final("no"))
        return meaning

    def reserve(self, context: SchedulingContext, node_name: str) -> Any:
        return self.says.get("reserve")

    def unreserve(self, context: SchedulingContext, node_name: str) -> None:
        pass

    def permit(self, context: SchedulingContext, node_name: str) -> Any:
        return self.says.get("permit")

    def pre_bind(self, context: SchedulingContext, node_name: str) -> Any:
        answer = self.says.get("pre_bind")
        if isinstance(answer, Exception):
            raise answer
        return answer


_ENABLED = {"enabled": [{"name": "Listener"}]}
HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
CONFIG = config.from_object(
    {
        **HEAD,
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": dict.fromkeys(("filter", "reserve", "permit", "preBind"), _ENABLED),
            }
        ],
    }
)


class World:
    """A scheduler with one node, and a pod called `other` that waits to hear of pods that go."""

    def __init__(self, **says: Any) -> None:
        self.listener = Listener()
        registry = in_tree()
        registry.register_factory("Listener", lambda args, handle: self.listener)
        self.clock = VirtualClock(1_000 * NS_PER_S)
        self.scheduler = build_scheduler(CONFIG, self.clock, registry)
        self.queue = self.scheduler.core.queue
        self.listener.where = self.queue.where
        self.scheduler.handle(ObjectAdded(a_node("n1")))
        self.attempt(a_pending("other"))
        self.listener.says = says

    def attempt(self, pod: Pod) -> None:
        self.scheduler.handle(ObjectAdded(pod))
        assert self.scheduler.attempt() is pod


def a_pending(name: str = "pod", version: int = 1, **more: Any) -> Pod:
    metadata = {"uid": f"uid-{name}", "resourceVersion": str(version), **more.pop("metadata", {})}
    return a_pod(name, metadata=metadata, schedulerName="default-scheduler", **more)


# ---- who hears when (cycle.md §10)


def bind_fails(world: World, pod: Pod) -> None:
    world.scheduler.handle(BindAnswered(pod, "no"))


def wait_fails(act: Callable[[Any], object]) -> Callable[[World, Pod], None]:
    def end(world: World, pod: Pod) -> None:
        act(world.scheduler.core.services.waiting.get(pod.id))
        world.scheduler.release_waiting()

    return end


def nothing_more(world: World, pod: Pod) -> None:
    pass


BEFORE = ["other hears of pod, which is None"]
HEARD: dict[str, tuple[dict[str, Any], Callable[[World, Pod], None], list[str]]] = {
    "the server does not bind it: before it is queued": ({}, bind_fails, BEFORE),
    "PreBind raises: before it is queued": ({"pre_bind": RuntimeError("boom")}, nothing_more, BEFORE),
    "it is preempted while it waits: before it is queued": (
        {"permit": Wait(10)},
        wait_fails(lambda waiting: waiting.preempt("DefaultPreemption", "preempted")),
        BEFORE,
    ),
    "it is rejected while it waits: after it is parked, and not by itself": (
        {"permit": Wait(10)},
        wait_fails(lambda waiting: waiting.reject("Listener", "no")),
        ["other hears of pod, which is unschedulable"],
    ),
    "PreBind rejects it: after it backs off": (
        {"pre_bind": curable("no")},
        nothing_more,
        ["other hears of pod, which is backoff"],
    ),
    "Reserve rejects it, in the attempt: nobody hears of it": ({"reserve": curable("no")}, nothing_more, []),
    "Permit rejects it, in the attempt: nobody hears of it": ({"permit": curable("no")}, nothing_more, []),
}


@pytest.mark.parametrize(("says", "end", "heard"), HEARD.values(), ids=HEARD.keys())
def test_when_others_hear_that_a_binding_failed(
    says: dict[str, Any], end: Callable[[World, Pod], None], heard: list[str]
) -> None:
    world, pod = World(**says), a_pending()
    world.attempt(pod)
    end(world, pod)
    assert world.listener.heard == heard
    assert world.scheduler.core.cache.get(pod.id) is None
    assert world.scheduler.check() == []


def test_others_hear_again_of_a_pod_that_was_forgotten_when_it_began_to_leave() -> None:
    """Parity: forgetting a pod that is forgotten already is no error (cache.md §2), so the failure is told."""
    world, pod = World(), a_pending()
    world.attempt(pod)
    leaving = a_pending(version=2, metadata={"deletionTimestamp": "2026-02-01T00:00:00Z"})
    world.scheduler.handle(ObjectUpdated(pod, leaving))
    assert world.listener.heard == BEFORE
    world.scheduler.handle(BindAnswered(pod, "pod pod is being deleted, cannot be assigned to a host"))
    assert world.listener.heard == BEFORE * 2


def test_a_pod_that_leaves_between_permission_and_binding_is_forgotten_at_once() -> None:
    world, pod = World(permit=Wait(10)), a_pending()
    world.attempt(pod)
    waiting = world.scheduler.core.services.waiting.get(pod.id)
    assert waiting is not None
    waiting.allow("Listener")
    world.scheduler.handle(ObjectRemoved(pod))
    assert world.scheduler.core.cache.get(pod.id) is None
    assert world.listener.heard == BEFORE
    world.scheduler.release_waiting()
    world.scheduler.handle(BindAnswered(pod, 'pods "pod" not found'))
    assert world.scheduler.check() == []


# ---- Pending (queue.md §11, example 12)


@pytest.mark.parametrize("point", ["filter", "reserve", "permit"])
def test_a_pod_whose_plugin_waits_for_an_event_is_tried_at_once_when_it_comes(point: str) -> None:
    world, pod = World(**{point: LATER}), a_pending()
    world.attempt(pod)
    entry = world.queue.get(pod.key)
    assert entry is not None
    assert (entry.unschedulable_plugins, entry.pending_plugins) == (("Listener",), ("Listener",))
    assert world.queue.where(pod.key) == "unschedulable"
    world.scheduler.handle(ObjectAdded(a_node("n2")))
    assert world.queue.where(pod.key) == "active", "without backoff"
    assert world.queue.where("default/other") == "backoff", "which others are not spared"


def test_a_pending_verdict_is_no_error_and_nobody_is_preempted_for_it() -> None:
    world, pod = World(filter=LATER), a_pending(priority=9)
    world.scheduler.handle(ObjectAdded(a_pending("low", nodeName="n1", priority=1)))
    world.scheduler.take_intents()
    world.attempt(pod)
    event, patch = world.scheduler.take_intents()
    assert getattr(event, "note", "") == (
        "0/1 nodes are available: 1 not yet. "
        "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
    )
    condition = getattr(patch, "condition", None)
    assert condition is not None
    assert condition.reason == "Unschedulable"


@pytest.mark.parametrize(
    ("nodes", "told"),
    [(["a"], "goes to a, the only choice"), (["a", "b"], "goes to a, the best of 2 feasible nodes (score 300)")],
)
def test_the_story_of_a_pod_says_whether_there_was_a_choice(nodes: list[str], told: str) -> None:
    """TaintToleration alone scores: 100 for a node without taints, times its weight of 3."""
    taints = {"enabled": [{"name": "TaintToleration", "weight": 3}], "disabled": [{"name": "*"}]}
    written = {**HEAD, "profiles": [{"plugins": {"score": taints, "preScore": taints}}]}
    stories: list[str] = []
    listeners = SchedulerListeners(tell=lambda pod, text: stories.append(text))
    scheduler = build_scheduler(config.from_object(written), VirtualClock(), in_tree(), listeners=listeners)
    for item in (*map(a_node, nodes), a_pod("p", schedulerName="default-scheduler")):
        scheduler.handle(ObjectAdded(item))
    scheduler.attempt()
    assert [text for text in stories if "goes to" in text] == [told]


def test_a_pod_is_being_bound_from_the_decision_to_the_answer_of_the_api_server() -> None:
    world = World()
    known = []
    for step in (lambda pod: None, world.attempt, lambda pod: world.scheduler.handle(BindAnswered(pod))):
        step(pod := a_pending())
        known.append((world.scheduler.is_being_bound(pod.id), world.scheduler.is_attempted(pod.id)))
    assert known == [(False, False), (True, False), (False, False)]


def test_the_check_finds_room_without_a_binding_and_a_binding_without_room() -> None:
    world = World()
    world.attempt(pod := a_pending())
    core = world.scheduler.core
    assert world.scheduler.check() == []
    assumed = core.cache.get(pod.id)
    assert assumed is not None
    core.cache.forget(assumed)
    assert "default/pod is being bound but holds no room" in world.scheduler.check()
    core.cache.assume(assumed, "n1")
    assert world.scheduler.check() == []
    del core.pods[pod.key]
    assert world.scheduler.check() == [], "its binding has yet to fail"
    core.bindings.clear()
    assert "default/pod is assumed but neither being bound nor in the cluster" in world.scheduler.check()
