"""A binding that is no longer the one that is answered, plugins that answer nonsense, and who is told in which order."""

from typing import Any

import pytest
from test_binding_cycle import ALL_BACK, BACKS_OFF, World, a_big_pod

from build import a_node
from extending import Extended
from extending import a_pending as an_extended
from mooring.framework.contract.intents import Call, Record
from mooring.framework.contract.points import Wait
from mooring.framework.contract.status import SKIP, Code, curable
from mooring.framework.contract.waiting import Release
from mooring.queue.entry import new_entry
from mooring.scheduler import bind
from mooring.scheduler.failure import AttemptFailure
from mooring.scheduler.inputs import BindAnswered, CallAnswered, ObjectAdded, ObjectRemoved, TimePassed
from recording_caller import RecordingCaller
from volume_asking import a_context

# ---- answers to bindings that are over


def test_a_reply_to_a_binding_that_was_given_up_does_not_end_the_next_one() -> None:
    world = Extended({"bindVerb": "bind"}, nodes=("n1",))
    scheduler, pod = world.scheduler, an_extended()
    scheduler.handle(ObjectAdded(pod))
    scheduler.attempt()
    (first,) = scheduler.take_intents()
    scheduler.handle(BindAnswered(pod, "the server was slow"))
    world.clock.advance_ns(5_000_000_000)
    scheduler.handle(TimePassed())
    scheduler.attempt()
    binding = scheduler.core.bindings[pod.id]
    *_, second = scheduler.take_intents()
    assert isinstance(first, Call) and isinstance(second, Call) and first.token != second.token
    scheduler.handle(CallAnswered(first.token, b"{}"))
    assert scheduler.core.bindings == {pod.id: binding}, "it is not the one that was bound"
    assert scheduler.take_intents() == [] and scheduler.core.cache.is_assumed(pod.id)
    scheduler.handle(CallAnswered(second.token, b"{}"))
    assert scheduler.core.bindings == {}
    assert [intent.reason for intent in scheduler.take_intents() if isinstance(intent, Record)] == ["Scheduled"]


def test_a_wait_that_ends_for_nobody_changes_nothing() -> None:
    world = World({})
    bind.release(world.core, "uid-unknown", Release(is_allowed=True))
    assert world.intents == [] and world.reports == []


# ---- a pod that is elsewhere already


def test_a_pod_that_the_server_shows_elsewhere_is_counted_there_and_not_queued() -> None:
    world, pod, other = World({}), a_big_pod(), a_big_pod("other")
    world.scheduler.handle(ObjectAdded(a_node("n2", cpu="1")))
    world.attempt(pod)
    world.attempt(other)
    assert world.queue.where(other.key) == "unschedulable"
    world.scheduler.handle(BindAnswered(pod, "pod pod is already assigned to node n2", elsewhere="n2"))
    assert {p.name: p.spec.node_name for p in world.core.cluster.nodes.pods()} == {"pod": "n2"}
    assert world.core.cache.is_assumed(pod.id) and world.queue.where(pod.key) is None
    assert world.queue.where(other.key) in ("active", "backoff"), "there is room on n1"
    assert world.scheduler.check() == []


@pytest.mark.parametrize("successor", [None, a_big_pod(), a_big_pod(nodeName="n1")], ids=["gone", "waits", "placed"])
def test_a_pod_that_is_gone_is_not_counted_elsewhere(successor: Any) -> None:
    """Nor is another pod that has its name by now."""
    world, pod = World({}), a_big_pod()
    world.attempt(pod)
    world.scheduler.handle(ObjectRemoved(pod))
    if successor is not None:
        successor.metadata.uid = "uid-successor"
        world.scheduler.handle(ObjectAdded(successor))
    world.scheduler.handle(BindAnswered(pod, "pod pod is already assigned to node n2", elsewhere="n2"))
    assert not world.core.cache.is_assumed("uid-pod") and not world.core.cache.is_assumed("uid-successor")
    assert world.scheduler.check() == []


def test_a_pod_that_holds_room_already_gets_no_more() -> None:
    world, pod = World({}), a_big_pod()
    world.core.cache.assume(pod, "n1")
    runner, context = world.core.runners["default-scheduler"], a_context(world.core.cluster, pod)
    failure = bind.hold(world.core, new_entry(pod, 0), runner, context, "n1")
    assert isinstance(failure, AttemptFailure) and failure.code is Code.Error
    assert failure.message == "pod uid-pod(default/pod) is in the cache, so can't be assumed"
    assert world.on_node() == ["pod"] and world.log == []


# ---- nonsense

NONSENSE = {"reserve P": "Reserve", "permit P": "Permit", "bind Binder": "Bind"}


@pytest.mark.parametrize("asked", NONSENSE)
def test_an_answer_that_means_nothing_is_an_error_of_the_plugin(asked: str) -> None:
    world, pod = World({asked: 7}), a_big_pod()
    world.attempt(pod)
    point, plugin = NONSENSE[asked], asked.split()[1]
    message = f'running {point} plugin "{plugin}": unexpected answer 7'
    assert world.notes(pod) == [f"FailedScheduling: {message}"]
    assert world.patches(pod) == [("SchedulerError", message, None)]
    assert world.unreserved() == ALL_BACK and world.on_node() == []
    assert world.whereabouts(pod) == BACKS_OFF


# ---- what is told


def test_the_story_of_a_binding() -> None:
    world, pod = World({"permit P": Wait(10), "permit Q": Wait(5000)}), a_big_pod()
    world.attempt(pod)
    assert world.stories[-1] == "pod has room on n1 and waits for P (at most 10 s), Q (at most 900 s)"
    for plugin in ("P", "Q"):
        world.waiting(pod).allow(plugin)
    world.release()
    world.bound(pod)
    assert world.stories[-1] == "pod is bound to n1"
    (event,) = (intent for intent in world.intents if isinstance(intent, Record))
    assert (event.type, event.reason, event.action) == ("Normal", "Scheduled", "Binding")


def test_a_binding_that_failed_without_a_wait_takes_back_no_nomination() -> None:
    world, pod = World({"preBind P": RuntimeError("boom")}), a_big_pod()
    world.attempt(pod)
    ((reason, message, nominated),) = world.patches(pod)
    assert (reason, nominated) == ("SchedulerError", None)
    assert message is not None and message.startswith('running PreBind plugin "P": RuntimeError: boom (')


FIRST_OTHERS, FIRST_ITSELF = ["other", "pod"], ["pod", "other"]
ORDERS: dict[str, tuple[Any, list[str]]] = {
    "Bind raises": (RuntimeError("boom"), FIRST_OTHERS),
    "Bind answers nonsense": (7, FIRST_OTHERS),
    "Bind rejects the pod": (curable("no"), FIRST_ITSELF),
    "no plugin binds": (SKIP, FIRST_OTHERS),
}


@pytest.mark.parametrize("case", ORDERS)
def test_after_an_error_others_hear_of_the_room_before_the_pod_is_queued(case: str) -> None:
    answer, order = ORDERS[case]
    says = {"permit P": Wait(10), "bind Binder": answer}
    world, pod, other = World(says), a_big_pod(), a_big_pod("other")
    if case == "no plugin binds":
        profile = world.core.runners["default-scheduler"].profile
        profile.binds = tuple(plugin for plugin in profile.binds if plugin.name == "Binder")
    world.attempt(pod)
    world.attempt(other)
    del world.stories[:]
    world.waiting(pod).allow("P")
    world.release()
    assert list(dict.fromkeys(story.split()[0] for story in world.stories)) == order


def test_after_an_extender_failed_to_bind_others_hear_first() -> None:
    world = Extended({"bindVerb": "bind"}, nodes=(a_node("n1", cpu="4"),))
    scheduler = world.scheduler
    for name in ("pod", "other"):
        scheduler.handle(ObjectAdded(an_extended(name, cpu="3")))
    scheduler.attempt()
    (call,) = scheduler.take_intents()
    scheduler.attempt()
    assert isinstance(call, Call) and scheduler.core.queue.where("default/other") == "unschedulable"
    del world.stories[:]
    scheduler.handle(CallAnswered(call.token, b'{"Error": "no licence"}'))
    assert list(dict.fromkeys(story.split()[0] for story in world.stories)) == FIRST_OTHERS


# ---- what is measured


@pytest.mark.parametrize(
    ("answer", "status"),
    [(RuntimeError("boom"), Code.Error), (curable("no"), Code.Unschedulable)],
    ids=["raises", "no"],
)
def test_the_end_of_a_bind_that_fails_is_measured(answer: Any, status: Code) -> None:
    world, pod = World({"permit P": Wait(10), "bind Binder": answer}), a_big_pod()
    world.attempt(pod)
    caller = world.core.bindings[pod.id].context.caller = RecordingCaller()
    world.waiting(pod).allow("P")
    world.release()
    assert caller.ends()[:2] == [("PreBind", "Success"), ("Bind", status.name)]


def test_a_bind_that_succeeds_is_measured_once_it_is_answered() -> None:
    world, pod = World({"permit P": Wait(10)}), a_big_pod()
    world.attempt(pod)
    caller = world.core.bindings[pod.id].context.caller = RecordingCaller()
    world.waiting(pod).allow("P")
    world.release()
    assert caller.ends() == [("PreBind", "Success")]
    world.scheduler.handle(BindAnswered(pod))
    assert caller.ends()[1:] == [("Bind", "Success"), ("PostBind", "Success")]


def test_a_bind_that_an_extender_fails_at_is_measured() -> None:
    world = Extended({"bindVerb": "bind"}, nodes=("n1",))
    pod = an_extended()
    world.scheduler.handle(ObjectAdded(pod))
    world.scheduler.attempt()
    (call,) = world.scheduler.take_intents()
    assert isinstance(call, Call)
    caller = world.scheduler.core.bindings[pod.id].context.caller = RecordingCaller()
    world.scheduler.handle(CallAnswered(call.token, b'{"Error": "no licence"}'))
    assert caller.ends()[0] == ("Bind", "Error")


def test_each_point_is_measured_under_its_name() -> None:
    world, pod = World({"permit P": Wait(10), "bind Binder": None}), a_big_pod()
    world.attempt(pod)
    caller = RecordingCaller(plugins=("P", "Q", "Binder"))
    world.core.bindings[pod.id].context.wrap = caller.wrap
    world.waiting(pod).allow("P")
    world.release()
    assert caller.seen == ["PreBind P", "PreBind Q", "Bind Binder", "PostBind P", "PostBind Q"]


def test_giving_back_is_measured_under_its_name() -> None:
    world, pod = World({"permit P": Wait(10)}), a_big_pod()
    world.attempt(pod)
    caller = RecordingCaller(plugins=("P", "Q", "Binder"))
    world.core.bindings[pod.id].context.wrap = caller.wrap
    world.waiting(pod).reject("P", "no")
    world.release()
    assert caller.seen == ["Unreserve Q", "Unreserve P"]


def test_asking_the_permits_of_a_group_is_measured_as_permit() -> None:
    world, pod = World({"permit P": Wait(10)}), a_big_pod()
    world.attempt(pod)
    binding = world.core.bindings[pod.id]
    caller = binding.context.caller = RecordingCaller()
    assert bind.ask_permits(binding) == {"P": 10}
    assert caller.ends() == [("Permit", "Wait")]
