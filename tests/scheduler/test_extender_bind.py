"""Binding by an extender, in the place of the Bind plugins (extender.md §7)."""

from typing import Any

import pytest

from extending import URL, Extended, a_pending
from mooring.framework.contract.intents import Call, CallFault
from mooring.scheduler.inputs import CallAnswered, ObjectAdded, ObjectRemoved

BINDER = {"bindVerb": "bind"}


def a_binding(world: Extended) -> Any:
    """The extender creates the Binding, as it must, and says so."""

    def bind(call: Call) -> dict[str, str]:
        pod = world.pod(call.body["PodName"])
        world.driver._replace(pod, pod.with_node(call.body["Node"]))
        return {"Error": ""}

    return bind


def events(world: Extended) -> list[tuple[str, str]]:
    return [(event.reason, event.note) for event in world.driver.events]


def test_the_extender_binds_and_the_scheduler_tells_so() -> None:
    world = Extended(BINDER, nodes=("n1",))
    world.answers["bind"] = a_binding(world)
    bound: list[str] = []
    world.driver.on_bound = lambda pod: bound.append(pod.name)
    assert world.place(a_pending()) == "n1"
    assert events(world) == [("Scheduled", "Successfully assigned default/pod to n1")]
    assert bound == [], "no Bind of our own"
    assert world.scheduler.core.bindings == {} and world.scheduler.core.extender_calls.binders == {}
    assert world.scheduler.check() == [] and world.reports == []


FAULTS: dict[str, tuple[Any, str]] = {
    "it says why": ({"Error": "no licence"}, "no licence"),
    "it is not there": (CallFault(f'Post "{URL}/bind": EOF'), f'Post "{URL}/bind": EOF'),
    "it answers nonsense": ([1], "json: cannot unmarshal array into Go value of type v1.ExtenderBindingResult"),
}


@pytest.mark.parametrize("case", FAULTS)
def test_a_failure_sends_the_pod_back(case: str) -> None:
    answer, text = FAULTS[case]
    world = Extended(BINDER, nodes=("n1",))
    world.answers["bind"] = answer
    assert world.place(a_pending()) == ""
    assert world.why() == ("SchedulerError", text)
    assert events(world) == [("FailedScheduling", text)]
    assert world.scheduler.core.queue.where("default/pod") == "backoff"
    assert world.scheduler.core.cache.assumed_count == 0, "and gives back the room"
    assert world.scheduler.check() == []


@pytest.mark.parametrize("case", FAULTS)
def test_after_one_that_may_fail_the_plugins_bind(case: str) -> None:
    answer, text = FAULTS[case]
    world = Extended({**BINDER, "ignorable": True}, nodes=("n1",))
    world.answers["bind"] = answer
    assert world.place(a_pending()) == "n1"
    skipped = "Skipping extender in bind as it returned error and has ignorable flag set"
    assert world.reports == [f"{skipped}: extender {URL}: {text}"]
    assert events(world) == [("Scheduled", "Successfully assigned default/pod to n1")]


def test_a_pod_that_was_bound_though_the_answer_came_late_is_not_queued_again() -> None:
    world = Extended(BINDER, nodes=("n1",))
    bind = a_binding(world)

    def late(call: Call) -> CallFault:
        bind(call)
        return CallFault(f'Post "{URL}/bind": context deadline exceeded')

    world.answers["bind"] = late
    assert world.place(a_pending()) == "n1"
    assert world.scheduler.core.queue.where("default/pod") is None
    assert world.scheduler.core.cache.get("uid-pod") is not None, "it holds its room"


def test_the_scheduler_goes_on_while_an_extender_binds() -> None:
    world = Extended(BINDER, nodes=("n1",))
    scheduler = world.scheduler
    for name in ("a", "b"):
        scheduler.handle(ObjectAdded(a_pending(name)))
    scheduler.attempt()
    (first,) = scheduler.take_intents()
    assert scheduler.has_work(), "a bind suspends nothing"
    scheduler.attempt()
    (second,) = scheduler.take_intents()
    assert isinstance(first, Call) and isinstance(second, Call) and first.token != second.token
    assert [call.body["PodName"] for call in (first, second)] == ["a", "b"]
    scheduler.handle(CallAnswered(second.token, b"{}"))
    scheduler.handle(CallAnswered(first.token, b"{}"))
    scheduler.handle(CallAnswered(first.token, b'{"Error": "twice"}'))
    assert [intent.note for intent in scheduler.take_intents()] == [  # type: ignore[union-attr]
        "Successfully assigned default/b to n1",
        "Successfully assigned default/a to n1",
    ]


def test_a_pod_that_is_deleted_meanwhile_is_let_go() -> None:
    world = Extended(BINDER, nodes=("n1",))
    pod = a_pending()
    world.scheduler.handle(ObjectAdded(pod))
    world.scheduler.attempt()
    (call,) = world.scheduler.take_intents()
    assert isinstance(call, Call)
    world.scheduler.handle(ObjectRemoved(pod))
    world.scheduler.handle(CallAnswered(call.token, b'{"Error": "pods \\"pod\\" not found"}'))
    assert world.scheduler.core.bindings == {} and world.scheduler.core.cache.assumed_count == 0
    assert world.scheduler.check() == []
