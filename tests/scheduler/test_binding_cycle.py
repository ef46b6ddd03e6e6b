"""From a chosen node to a bound pod, and back: what each point's no and each point's exception lead to."""

from collections.abc import Callable
from typing import Any

import pytest

from build import a_node, a_pod
from mooring.framework import config
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.intents import Bind, Evict, Intent, PatchStatus, Record
from mooring.framework.contract.points import (
    BindPlugin,
    Handle,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PreBindPlugin,
    ReservePlugin,
    Wait,
)
from mooring.framework.contract.status import SKIP, PluginError, curable, final
from mooring.framework.contract.waiting import WaitingPod
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.pod import Pod
from mooring.plugins import in_tree
from mooring.scheduler.inputs import (
    BindAnswered,
    EvictionAnswered,
    ObjectAdded,
    ObjectRemoved,
    ObjectUpdated,
    TimePassed,
)
from mooring.scheduler.observer import SchedulerListeners
from mooring.state.scheduler_assembly import build_scheduler

PATH = ("reserve", "permit", "preBind", "postBind")
BOTH = {"enabled": [{"name": "P"}, {"name": "Q"}]}
BINDERS = {"disabled": [{"name": "*"}], "enabled": [{"name": "Binder"}, {"name": "DefaultBinder"}]}
CONFIG = config.from_object(
    {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler", "plugins": {**dict.fromkeys(PATH, BOTH), "bind": BINDERS}}],
    }
)
ALL_BACK = ["unreserve Q", "unreserve P"]


class Says(Plugin):
    """Notes when it is asked, and answers as the test wants: `says["permit P"]` is what it says, or raises."""

    def __init__(self, says: dict[str, Any], log: list[str]) -> None:
        self.says, self.log = says, log

    def answer(self, point: str) -> Any:
        asked = f"{point} {self.name}"
        self.log.append(asked)
        answer = self.says.get(asked)
        if isinstance(answer, Exception):
            raise answer
        return answer


class P(Says, ReservePlugin, PermitPlugin, PreBindPlugin, PostBindPlugin):
    name = "P"

    def reserve(self, context: SchedulingContext, node_name: str) -> Any:
        return self.answer("reserve")

    def unreserve(self, context: SchedulingContext, node_name: str) -> None:
        self.answer("unreserve")

    def permit(self, context: SchedulingContext, node_name: str) -> Any:
        return self.answer("permit")

    def pre_bind(self, context: SchedulingContext, node_name: str) -> Any:
        return self.answer("preBind")

    def post_bind(self, context: SchedulingContext, node_name: str) -> None:
        self.answer("postBind")


class Q(P):
    name = "Q"


class Binder(Says, BindPlugin):
    name = "Binder"

    def bind(self, context: SchedulingContext, node_name: str) -> Any:
        return self.answer("bind")


class World:
    """A scheduler with one node of four cores, and plugins that say what the test wants. Binder skips by default."""

    def __init__(self, says: dict[str, Any]) -> None:
        says = {"bind Binder": SKIP, **says}
        self.log: list[str] = []
        self.reports: list[str] = []
        self.stories: list[str] = []
        self.intents: list[Intent] = []
        registry = in_tree()
        for kind in (P, Q, Binder):
            registry.register_factory(kind.name, self._factory(kind, says))
        self.clock = VirtualClock(1_000 * NS_PER_S)
        self.scheduler = build_scheduler(
            CONFIG,
            self.clock,
            registry,
            listeners=SchedulerListeners(
                report=lambda text, error: self.reports.append(f"{text}: {error}"),
                tell=lambda pod, text: self.stories.append(f"{pod.name} {text}"),
            ),
        )
        self.core = self.scheduler.core
        self.queue = self.core.queue
        self.scheduler.handle(ObjectAdded(a_node("n1", cpu="4")))

    def _factory(self, kind: type[Says], says: dict[str, Any]) -> Callable[[Any, Handle], Plugin]:
        return lambda args, handle: kind(says, self.log)

    def attempt(self, pod: Pod | None = None) -> None:
        if pod is not None:
            self.scheduler.handle(ObjectAdded(pod))
        assert self.scheduler.attempt() is not None
        self.intents += self.scheduler.take_intents()

    def release(self) -> None:
        self.scheduler.release_waiting()
        self.intents += self.scheduler.take_intents()

    def bound(self, pod: Pod, fault: str | None = None) -> None:
        self.scheduler.handle(BindAnswered(pod, fault))
        self.intents += self.scheduler.take_intents()

    def waiting(self, pod: Pod) -> WaitingPod:
        waiting = self.core.services.waiting.get(pod.id)
        assert waiting is not None
        return waiting

    def notes(self, pod: Pod) -> list[str]:
        return [f"{i.reason}: {i.note}" for i in self.intents if isinstance(i, Record) and i.pod.id == pod.id]

    def patches(self, pod: Pod) -> list[tuple[str | None, str | None, str | None]]:
        """Reason and message of the condition, and the nominated node."""
        return [
            (
                i.condition.reason if i.condition else None,
                i.condition.message if i.condition else None,
                i.nominated_node_name,
            )
            for i in self.intents
            if isinstance(i, PatchStatus) and i.pod.id == pod.id
        ]

    def binds(self) -> list[tuple[str, str]]:
        return [(i.pod.key, i.node_name) for i in self.intents if isinstance(i, Bind)]

    def on_node(self) -> list[str]:
        return [pod.name for pod in self.core.cluster.nodes.pods()]

    def unreserved(self) -> list[str]:
        return [line for line in self.log if line.startswith("unreserve")]

    def whereabouts(self, pod: Pod) -> tuple[str | None, tuple[str, ...]]:
        entry = self.queue.get(pod.key)
        return self.queue.where(pod.key), () if entry is None else entry.rejectors


def a_big_pod(name: str = "pod", **more: Any) -> Pod:
    return a_pod(name, cpu="3", metadata={"uid": f"uid-{name}"}, schedulerName="default-scheduler", **more)


PARKED: tuple[str, tuple[str, ...]] = ("unschedulable", ("P",))
BACKS_OFF: tuple[str, tuple[str, ...]] = ("backoff", ())


# ---- the way that goes well


def test_the_points_are_met_in_order_and_the_pod_is_bound() -> None:
    world, pod = World({}), a_big_pod()
    world.attempt(pod)
    assert world.log == ["reserve P", "reserve Q", "permit P", "permit Q", "preBind P", "preBind Q", "bind Binder"]
    assert world.binds() == [("default/pod", "n1")]
    assert world.core.cache.is_assumed(pod.id)
    assert not world.queue.is_in_flight(pod.id)
    assert world.notes(pod) == []
    world.bound(pod)
    assert world.log[7:] == ["postBind P", "postBind Q"]
    assert world.notes(pod) == ["Scheduled: Successfully assigned default/pod to n1"]
    assert world.core.bindings == {}
    assert world.scheduler.check() == []


def test_a_pod_that_has_its_room_is_nominated_no_more() -> None:
    world, pod = World({}), a_big_pod(status={"nominatedNodeName": "n1"})
    world.scheduler.handle(ObjectAdded(pod))
    assert world.queue.nominations.node_of(pod.id) == "n1"
    world.attempt()
    assert world.binds() == [("default/pod", "n1")]
    assert world.queue.nominations.node_of(pod.id) is None


def test_a_plugin_that_binds_by_itself_leaves_nothing_to_others() -> None:
    world, pod = World({"bind Binder": None}), a_big_pod()
    world.attempt(pod)
    assert world.binds() == []
    assert world.notes(pod) == ["Scheduled: Successfully assigned default/pod to n1"]
    assert world.core.bindings == {}


def test_what_post_bind_raises_is_reported_and_the_others_are_still_told() -> None:
    world, pod = World({"postBind P": PluginError("boom")}), a_big_pod()
    world.attempt(pod)
    world.bound(pod)
    assert world.log[-2:] == ["postBind P", "postBind Q"]
    assert world.reports == ["PostBind of plugin P failed on pod default/pod: boom"]
    assert world.notes(pod) == ["Scheduled: Successfully assigned default/pod to n1"]


# ---- Reserve and Permit, in the attempt itself

REFUSALS: dict[str, tuple[str, Any, str, str, tuple[str, tuple[str, ...]]]] = {
    "Reserve rejects the node": (
        "reserve P", curable("no disk"), "Unschedulable", "0/1 nodes are available: 1 no disk.", PARKED,
    ),
    "Reserve rejects it for good": (
        "reserve P", final("no disk"), "Unschedulable", "0/1 nodes are available: 1 no disk.", PARKED,
    ),
    "reasons are sorted, each with its count": (
        "reserve P", curable("z", "a"), "Unschedulable", "0/1 nodes are available: 1 a, 1 z.", PARKED,
    ),
    "Reserve raises": (
        "reserve P", PluginError("boom"), "SchedulerError", 'running Reserve plugin "P": boom', BACKS_OFF,
    ),
    "the second Reserve plugin rejects the node": (
        "reserve Q", curable("no disk"), "Unschedulable", "0/1 nodes are available: 1 no disk.",
        ("unschedulable", ("Q",)),
    ),
    "Permit rejects the pod": (
        "permit P", curable("not today"), "Unschedulable", "0/1 nodes are available: 1 not today.", PARKED,
    ),
    "Permit raises": (
        "permit P", PluginError("boom"), "SchedulerError", 'running Permit plugin "P": boom', BACKS_OFF,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("point", "answer", "reason", "message", "where"), REFUSALS.values(), ids=REFUSALS.keys())
def test_a_no_before_the_binding(
    point: str, answer: Any, reason: str, message: str, where: tuple[str, tuple[str, ...]]
) -> None:
    world, pod = World({point: answer}), a_big_pod()
    world.attempt(pod)
    assert world.notes(pod) == [f"FailedScheduling: {message}"]
    assert world.patches(pod) == [(reason, message, None)]
    assert world.log[world.log.index(point) + 1 :] == ALL_BACK
    assert world.on_node() == []
    assert world.whereabouts(pod) == where
    assert world.binds() == []
    assert world.scheduler.check() == []


def test_a_plugin_that_rejects_wins_over_one_that_wants_to_wait() -> None:
    world, pod = World({"permit P": Wait(10), "permit Q": curable("not today")}), a_big_pod()
    world.attempt(pod)
    assert len(world.core.services.waiting) == 0
    assert world.patches(pod) == [("Unschedulable", "0/1 nodes are available: 1 not today.", None)]


def test_what_unreserve_raises_is_reported_and_the_others_still_give_back() -> None:
    world, pod = World({"permit P": curable("no"), "unreserve Q": PluginError("boom")}), a_big_pod()
    world.attempt(pod)
    assert world.unreserved() == ALL_BACK
    assert world.reports == ["Unreserve of plugin Q failed on pod default/pod: boom"]
    assert world.on_node() == []


# ---- the wait on Permit, and what can go wrong after it


def allow(world: World, pod: Pod) -> None:
    world.waiting(pod).allow("P")
    world.release()


def reject(world: World, pod: Pod) -> None:
    world.waiting(pod).reject("P", "not today")
    world.release()


def time_out(world: World, pod: Pod) -> None:
    world.clock.advance_ns(10 * NS_PER_S)
    world.scheduler.handle(TimePassed())
    world.release()


def preempt(world: World, pod: Pod) -> None:
    assert world.waiting(pod).preempt("DefaultPreemption", "preempted")
    world.release()


def fail_to_bind(world: World, pod: Pod) -> None:
    allow(world, pod)
    world.bound(pod, "the server is on fire")


LATE: dict[str, tuple[dict[str, Any], Callable[[World, Pod], None], str, str, tuple[str, tuple[str, ...]]]] = {
    "a plugin rejects the pod that waits": (
        {}, reject, "Unschedulable", "0/1 nodes are available: 1 not today.", PARKED,
    ),
    "its time is up": (
        {}, time_out, "Unschedulable",
        "0/1 nodes are available: 1 rejected due to timeout after waiting 10s at plugin P.", PARKED,
    ),
    "it is preempted": (
        {}, preempt, "SchedulerError", "waiting on permit for pod: preempted", BACKS_OFF,
    ),
    "PreBind rejects it": (
        {"preBind P": curable("no disk", "no net")}, allow, "Unschedulable", "no disk, no net", BACKS_OFF,
    ),
    "PreBind rejects it and gives no reason": (
        {"preBind P": curable()}, allow, "Unschedulable", "", BACKS_OFF,
    ),
    "PreBind raises": (
        {"preBind Q": PluginError("boom")}, allow, "SchedulerError", 'running PreBind plugin "Q": boom', BACKS_OFF,
    ),
    "Bind rejects it": (
        {"bind Binder": curable("no binding today")}, allow, "Unschedulable", "no binding today", BACKS_OFF,
    ),
    "Bind rejects it and gives no reason": (
        {"bind Binder": curable()}, allow, "Unschedulable", "", BACKS_OFF,
    ),
    "Bind raises": (
        {"bind Binder": PluginError("boom")}, allow, "SchedulerError", 'running Bind plugin "Binder": boom', BACKS_OFF,
    ),
    "the API server does not bind it": (
        {}, fail_to_bind, "SchedulerError", 'running Bind plugin "DefaultBinder": the server is on fire', BACKS_OFF,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("says", "end", "reason", "message", "where"), LATE.values(), ids=LATE.keys())
def test_a_binding_that_fails_gives_everything_back_and_wakes_others(
    says: dict[str, Any],
    end: Callable[[World, Pod], None],
    reason: str,
    message: str,
    where: tuple[str, tuple[str, ...]],
) -> None:
    says = {"permit P": Wait(10), **says}
    world, pod, other = World(says), a_big_pod(), a_big_pod("other")
    world.attempt(pod)
    assert world.patches(pod) == [(None, None, "n1")]
    world.attempt(other)
    assert world.whereabouts(other) == ("unschedulable", ("NodeResourcesFit",))
    assert world.unreserved() == []
    end(world, pod)
    assert world.notes(pod) == [f"FailedScheduling: {message}"]
    # The status was asked to name the node during the wait: that is taken back, though nobody has seen it yet.
    assert world.patches(pod)[1:] == [(reason, message, "")]
    assert world.unreserved() == ALL_BACK
    assert world.on_node() == []
    assert world.whereabouts(pod) == where
    assert world.queue.where(other.key) in ("active", "backoff")
    assert world.core.bindings == {}
    assert world.scheduler.check() == []


def test_a_pod_that_waits_holds_its_room_and_is_in_flight_until_it_may_go() -> None:
    world, pod = World({"permit P": Wait(10), "permit Q": Wait(20)}), a_big_pod()
    world.attempt(pod)
    assert world.on_node() == ["pod"]
    assert world.queue.is_in_flight(pod.id)
    world.waiting(pod).allow("Q")
    world.release()
    assert (world.binds(), world.queue.is_in_flight(pod.id)) == ([], True)
    world.waiting(pod).allow("P")
    world.release()
    assert (world.binds(), world.queue.is_in_flight(pod.id)) == ([("default/pod", "n1")], False)


def test_when_nobody_wants_to_bind_the_pod_backs_off_and_nothing_is_said() -> None:
    class Shy(BindPlugin):
        name = "Shy"

        def bind(self, context: SchedulingContext, node_name: str) -> Any:
            return SKIP

    world, pod = World({}), a_big_pod()
    world.core.runners["default-scheduler"].profile.binds = (Shy(None, Handle()),)
    world.attempt(pod)
    assert world.intents == []
    assert world.whereabouts(pod) == BACKS_OFF
    assert world.on_node() == []


def test_a_pod_that_is_deleted_while_it_waits_gives_back_its_room_and_does_not_return() -> None:
    world, pod, other = World({"permit P": Wait(10)}), a_big_pod(), a_big_pod("other")
    world.attempt(pod)
    world.attempt(other)
    world.scheduler.handle(ObjectRemoved(pod))
    world.release()
    assert world.notes(pod) == ["FailedScheduling: 0/1 nodes are available: 1 removed."]
    assert world.unreserved() == ALL_BACK
    assert world.on_node() == []
    assert world.queue.where(pod.key) is None
    assert not world.queue.is_in_flight(pod.id)
    assert world.queue.where(other.key) in ("active", "backoff")
    assert world.scheduler.check() == []


def test_a_pod_that_waits_is_preempted_in_memory() -> None:
    world, low, high = World({"permit P": Wait(10)}), a_big_pod("low", priority=1), a_big_pod("high", priority=9)
    world.attempt(low)
    world.attempt(high)
    assert [intent for intent in world.intents if isinstance(intent, Evict)] == []
    events = [intent for intent in world.intents if isinstance(intent, Record) and intent.reason == "Preempted"]
    assert [(event.type, event.action) for event in events] == [("Normal", "Preempting")]
    assert world.notes(low) == [
        "Preempted: Preempted by pod uid-high on node n1 (in kube-scheduler memory).",
        "FailedScheduling: waiting on permit for pod: preempted",
    ]
    assert world.whereabouts(low) == BACKS_OFF
    assert world.queue.nominations.node_of(high.id) == "n1"
    assert world.queue.where(high.key) == "active", "v1.37, 12.5: the room is free, nobody else will tell the pod so"


@pytest.mark.parametrize("is_last_in_memory", [True, False], ids=["the last is in memory", "another is"])
def test_v137_12_5_a_last_victim_in_memory_activates_the_preemptor(is_last_in_memory: bool) -> None:
    """Upstream watches only the last victim: if that one is deleted, the deletion wakes the preemptor."""
    world = World({"permit P": Wait(10)})
    placed = a_pod(
        "placed", cpu="2", priority=2 if is_last_in_memory else 0, metadata={"uid": "uid-placed"}, nodeName="n1"
    )
    waits = a_pod("waits", cpu="2", priority=1, metadata={"uid": "uid-waits"}, schedulerName="default-scheduler")
    high = a_pod("high", cpu="4", priority=9, metadata={"uid": "uid-high"}, schedulerName="default-scheduler")
    world.scheduler.handle(ObjectAdded(placed))
    world.attempt(waits)
    world.attempt(high)
    assert [intent.victim.name for intent in world.intents if isinstance(intent, Evict)] == ["placed"]
    assert world.queue.where(high.key) == "gated"
    world.scheduler.handle(EvictionAnswered(placed, high))
    assert (world.queue.where(high.key) == "active") is is_last_in_memory
    assert world.scheduler.check() == []


def test_an_answer_about_an_unknown_binding_changes_nothing() -> None:
    world, pod = World({}), a_big_pod()
    world.attempt(pod)
    world.bound(pod)
    said = len(world.intents)
    world.bound(pod, "too late")
    assert len(world.intents) == said
    assert world.on_node() == ["pod"]


def test_a_pod_that_is_on_its_node_after_all_keeps_its_room() -> None:
    world, pod, other = World({}), a_big_pod(), a_big_pod("other")
    world.attempt(pod)
    world.scheduler.handle(ObjectUpdated(pod, a_big_pod(nodeName="n1")))
    world.attempt(other)
    world.bound(pod, "timed out")
    assert world.whereabouts(other) == ("unschedulable", ("NodeResourcesFit",)), "no room, so nobody is woken"
    assert world.on_node() == ["pod"]
    assert world.reports == [
        "a pod could not be forgotten: pod uid-pod(default/pod) is not assumed, so it cannot be removed or forgotten"
    ]
    assert world.whereabouts(pod) == (None, ())
