"""An attempt that waits for an extender: nothing else begins, and it sees the cluster as it was when it began."""

import json
from typing import Any
from unittest.mock import Mock

import msgspec
import pytest

from build import a_node
from extending import Extended, a_config, a_pending, a_running, as_json
from mooring.framework.contract.intents import Bind, Call, CallFault, Intent
from mooring.model.pod import Pod
from mooring.model.pod_spec import Container, ResourceRequirements
from mooring.scheduler.extender_asking import interested_in
from mooring.scheduler.inputs import (
    BindAnswered,
    CallAnswered,
    HalfMinutePassed,
    ObjectAdded,
    ObjectRemoved,
    ObjectUpdated,
    TimePassed,
)
from mooring.state.scheduler_assembly import configuration_change

ONE = {"filterVerb": "filter", "prioritizeVerb": "prioritize", "nodeCacheCapable": True}


class Suspended(Extended):
    """An attempt at a pod that waits for the filter of its extender."""

    def __init__(self, *extenders: dict[str, Any], pod: Pod | None = None, nodes: Any = ("n1", "n2")) -> None:
        super().__init__(*(extenders or (ONE,)), nodes=nodes)
        self.subject = pod or a_pending()
        self.scheduler.handle(ObjectAdded(self.subject))
        assert self.scheduler.attempt() is self.subject
        self.call = self.next_call()

    def next_call(self) -> Call:
        (call,) = self.scheduler.take_intents()
        assert isinstance(call, Call)
        return call

    def reply(self, call: Call, answer: Any) -> list[Intent]:
        """What the reply leads to."""
        reply = answer if isinstance(answer, CallFault) else json.dumps(answer).encode()
        self.scheduler.handle(CallAnswered(call.token, reply))
        return self.scheduler.take_intents()


def test_while_it_waits_nothing_else_begins() -> None:
    world = Suspended()
    world.scheduler.handle(ObjectAdded(a_pending("other")))
    assert not world.scheduler.has_work()
    assert world.scheduler.attempt() is None
    assert world.scheduler.take_intents() == []
    (bind,) = world.reply(world.call, {"NodeNames": ["n2"]})
    assert isinstance(bind, Bind) and (bind.pod.name, bind.node_name) == ("pod", "n2")
    assert world.scheduler.has_work(), "the other pod's turn has come"


def test_another_configuration_waits_for_the_end_of_the_attempt() -> None:
    world = Suspended()
    core, other = world.scheduler.core, a_config(profiles=[{"schedulerName": "other"}])
    world.scheduler.handle(configuration_change(world.scheduler, other))
    assert ([*core.runners], len(core.options.extenders)) == (["default-scheduler"], 1)
    (bind,) = world.reply(world.call, {"NodeNames": ["n2"]})
    assert isinstance(bind, Bind) and bind.node_name == "n2"
    assert ([*core.runners], core.options.extenders) == (["other"], ())
    assert world.scheduler.check() == []


def test_it_goes_on_from_call_to_call() -> None:
    world = Suspended()
    (second,) = world.reply(world.call, {"NodeNames": ["n1", "n2"]})
    assert isinstance(second, Call) and second.verb == "prioritize" and second.token != world.call.token
    (bind,) = world.reply(second, [{"Host": "n2", "Score": 5}])
    assert isinstance(bind, Bind) and bind.node_name == "n2"


def test_replies_that_nobody_waits_for_change_nothing() -> None:
    world = Suspended()
    assert world.reply(Call(world.call.extender, "filter", {}, token=999), {"NodeNames": []}) == []
    (second,) = world.reply(world.call, {"NodeNames": ["n1", "n2"]})
    assert isinstance(second, Call)
    assert world.reply(world.call, {"NodeNames": []}) == [], "the first call is answered already"
    assert len(world.reply(second, [])) == 1
    assert world.reply(second, []) == []


def test_it_goes_on_when_all_replies_are_there() -> None:
    scores = {"prioritizeVerb": "one", "nodeCacheCapable": True}
    world = Extended(scores, {**scores, "prioritizeVerb": "two"}, nodes=("n1", "n2"))
    world.scheduler.handle(ObjectAdded(a_pending()))
    world.scheduler.attempt()
    one, two = world.scheduler.take_intents()
    assert isinstance(one, Call) and isinstance(two, Call)
    world.scheduler.handle(CallAnswered(two.token, b'[{"Host": "n2", "Score": 1}]'))
    world.scheduler.handle(CallAnswered(two.token, b"[]"))
    assert world.scheduler.take_intents() == []
    world.scheduler.handle(CallAnswered(one.token, b'[{"Host": "n1", "Score": 0}]'))
    (bind,) = world.scheduler.take_intents()
    assert isinstance(bind, Bind) and bind.node_name == "n2"


# ---- the cluster changes meanwhile


def test_a_node_that_comes_is_not_seen() -> None:
    world = Suspended()
    world.scheduler.handle(ObjectAdded(a_node("n3", cpu="100")))
    assert "n3" not in world.scheduler.core.cluster.nodes.row_book
    (second,) = world.reply(world.call, {"NodeNames": ["n1", "n2"]})
    assert isinstance(second, Call)
    assert as_json(second)["NodeNames"] == ["n1", "n2"]
    world.reply(second, [])
    assert "n3" in world.scheduler.core.cluster.nodes.row_book, "it is taken in when the attempt is over"


def test_changes_are_taken_in_in_order() -> None:
    world = Suspended()
    told = [a_running(f"r{i}", "n1", cpu="100m") for i in range(3)]
    for pod in told:
        world.scheduler.handle(ObjectAdded(pod))
    moved = a_running("r0", "n1", cpu="100m", labels={"seen": "twice"}, metadata={"resourceVersion": "2"})
    world.scheduler.handle(ObjectUpdated(told[0], moved))
    world.scheduler.handle(ObjectRemoved(told[1]))
    assert world.scheduler.core.cluster.nodes.pods() == []
    world.reply(world.call, {"NodeNames": ["n2"]})
    held = {pod.name: pod.labels for pod in world.scheduler.core.cluster.nodes.pods()}
    assert held == {"r0": {"seen": "twice"}, "r2": {}, "pod": {}}
    assert world.scheduler.check() == []


def test_a_node_that_goes_is_gone_only_afterwards() -> None:
    world = Suspended()
    world.scheduler.handle(ObjectRemoved(a_node("n2")))
    (bind,) = world.reply(world.call, {"NodeNames": ["n2"]})
    assert isinstance(bind, Bind) and bind.node_name == "n2", "the server will have the last word"
    assert not world.scheduler.core.cluster.nodes.alive[world.scheduler.core.cluster.nodes.row_book["n2"]]


def test_the_end_of_another_bind_waits_too() -> None:
    """Room that a failed bind gives back would be another cluster than the one that was filtered."""
    world = Extended(ONE, nodes=("n1",))
    managed = world.scheduler
    managed.handle(ObjectAdded(a_pending("first", cpu="3")))
    managed.attempt()
    (call,) = managed.take_intents()
    assert isinstance(call, Call)
    managed.handle(CallAnswered(call.token, b'{"NodeNames": ["n1"]}'))
    (bind,) = managed.take_intents()
    assert isinstance(bind, Bind)
    managed.handle(ObjectAdded(a_pending("second", cpu="1")))
    managed.attempt()
    (call,) = managed.take_intents()
    assert isinstance(call, Call)
    managed.handle(BindAnswered(bind.pod, "no"))
    assert managed.core.cache.get("uid-first") is not None
    managed.handle(CallAnswered(call.token, b'{"NodeNames": ["n1"]}'))
    assert managed.core.cache.get("uid-first") is None
    assert managed.core.queue.where("default/first") == "backoff"
    assert managed.check() == []


def test_time_that_passes_is_made_up_for() -> None:
    world = Suspended()
    world.scheduler.handle(TimePassed())
    world.scheduler.handle(HalfMinutePassed())
    world.scheduler.release_waiting()
    assert (
        world.scheduler.core.extender_calls.suspension is not None
        and len(world.scheduler.core.extender_calls.suspension.held) == 2
    )
    world.reply(world.call, {"NodeNames": ["n2"]})
    assert world.scheduler.core.extender_calls.suspension is None


# ---- the pod itself goes, or changes


def test_a_pod_that_is_deleted_meanwhile_holds_no_room() -> None:
    world = Suspended()
    world.scheduler.handle(ObjectRemoved(world.subject))
    (bind,) = world.reply(world.call, {"NodeNames": ["n2"]})
    assert isinstance(bind, Bind), "as upstream: the cycle goes on, and the server refuses"
    assert world.scheduler.core.cache.assumed_count == 0
    world.scheduler.handle(BindAnswered(bind.pod, 'pods "pod" not found'))
    assert world.scheduler.core.queue.where("default/pod") is None
    assert world.scheduler.core.bindings == {} and world.scheduler.check() == []


@pytest.mark.parametrize("answer", [{"NodeNames": []}, {"Error": "no"}, CallFault("dead")])
def test_a_pod_that_is_deleted_meanwhile_is_not_queued_again(answer: Any) -> None:
    world = Suspended()
    world.scheduler.handle(ObjectRemoved(world.subject))
    world.reply(world.call, answer)
    assert world.scheduler.core.queue.where("default/pod") is None
    assert world.scheduler.check() == []


def test_an_event_that_came_meanwhile_wakes_the_pod_that_failed() -> None:
    world = Suspended()
    world.scheduler.handle(ObjectAdded(a_running("other", "n1")))
    world.reply(world.call, {"NodeNames": []})
    assert world.scheduler.core.queue.where("default/pod") in ("backoff", "active")


# ---- faults


def test_it_dies_between_filter_and_prioritize() -> None:
    world = Suspended()
    (second,) = world.reply(world.call, {"NodeNames": ["n1", "n2"]})
    assert isinstance(second, Call)
    (bind,) = world.reply(second, CallFault("EOF"))
    assert isinstance(bind, Bind) and bind.node_name == "n1"


def test_a_change_that_cannot_be_taken_in_does_not_keep_the_others_out(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Suspended()
    outcomes = [ZeroDivisionError("division by zero"), None]
    monkeypatch.setattr(world.scheduler.core.queue, "wake", Mock(side_effect=outcomes))
    world.scheduler.handle(ObjectRemoved(a_node("n1")))
    world.scheduler.handle(ObjectAdded(a_node("n3")))
    world.reply(world.call, {"NodeNames": ["n2"]})
    assert "n3" in world.scheduler.core.cluster.nodes.row_book
    assert world.reports == [
        "an input that had to wait for an extender could not be taken in: division by zero",
    ]


def test_a_bug_does_not_leave_the_scheduler_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    world = Suspended()
    world.scheduler.handle(ObjectAdded(a_node("n3")))
    monkeypatch.setattr("mooring.scheduler.extender_asking.read_filter", lambda reply: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        world.scheduler.handle(CallAnswered(world.call.token, b"{}"))
    assert world.scheduler.core.extender_calls.suspension is None
    assert "n3" in world.scheduler.core.cluster.nodes.row_book


def test_a_simulation_without_a_stand_in_says_that_it_asks_nobody() -> None:
    world = Extended(ONE)
    world.driver.extender = None
    assert world.place(a_pending()) == ""
    reason, message = world.why()
    assert reason == "SchedulerError"
    assert message == 'Post "http://127.0.0.1:9999/sched/filter": a simulation asks no extenders'


def test_pods_that_plugins_activate_meanwhile_are_tried_again_when_it_is_over() -> None:
    world, large = Suspended(), a_pending("large", cpu="1000")
    world.reply(world.call, {"NodeNames": []})
    world.scheduler.handle(ObjectAdded(large))
    assert world.scheduler.attempt() is large
    world.scheduler.take_intents()
    assert world.scheduler.place_in_queue(large.key) == "unschedulable"
    world.scheduler.handle(ObjectAdded(a_pending("next")))
    world.scheduler.attempt()
    call = world.next_call()
    world.scheduler.core.services.activate((large,))
    assert world.scheduler.place_in_queue(large.key) == "unschedulable"
    world.reply(call, {"NodeNames": []})
    assert world.scheduler.place_in_queue(large.key) == "active"


@pytest.mark.parametrize(
    ("resources", "is_asked"),
    [
        ([None, None], False),
        ([{"requests": {"example.com/x": "1"}, "limits": {"example.com/x": "1"}}, None], True),
        ([None, {"limits": {"example.com/y": "1"}}], True),
        ([{"requests": {"cpu": "1"}}, {"requests": {}}], False),
    ],
    ids=["containers without resources", "a request of the first", "a limit of the second", "other resources"],
)
@pytest.mark.parametrize("kind", ["containers", "init_containers"])
def test_an_extender_of_resources_takes_part_for_pods_that_name_one(
    kind: str, resources: list[Any], is_asked: bool
) -> None:
    managed = [{"name": "example.com/x"}, {"name": "example.com/y"}]
    config = a_config({**ONE, "managedResources": managed})
    written = [
        Container(name=f"c{i}", resources=msgspec.convert(each, ResourceRequirements | None))
        for i, each in enumerate(resources)
    ]
    pod = a_pending()
    spec = msgspec.structs.replace(pod.spec, **{"containers": [], kind: written})
    asked = interested_in(config.extenders, Pod(metadata=pod.metadata, spec=spec))
    assert len(asked) == is_asked
    assert len(interested_in(a_config(ONE).extenders, pod)) == 1, "an extender of no resources always does"


def test_the_check_finds_an_attempt_that_waits_for_no_call() -> None:
    world = Suspended()
    suspension = world.scheduler.core.extender_calls.suspension
    assert suspension is not None and world.scheduler.check() == []
    suspension.calls = ()
    assert world.scheduler.check() == ["an attempt waits for extenders, but none was called"]
