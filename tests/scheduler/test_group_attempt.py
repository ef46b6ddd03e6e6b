"""Attempts for whole pod groups: all or nothing, and nothing is held by a group that does not go."""

from collections import Counter
from random import Random
from typing import Any, ClassVar

import pytest

from build import a_pod
from gangs import BOTH_GATES, GangWorld, a_member
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.intents import PatchStatus
from mooring.framework.contract.points import PermitPlugin, ReservePlugin
from mooring.framework.contract.status import PluginError, Rejection, curable
from mooring.kit.clock import NS_PER_S
from mooring.plugins.builtin import in_tree
from mooring.scheduler.inputs import TimePassed

WAITS = 'pod group is unschedulable, one or more plugins asked to wait and no plugin rejected pod "{}"'
NO_ROOM = (
    "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, preemption: 0/1 nodes are available: "
    "1 No preemption victims found for incoming pod."
)


def test_a_gang_that_fits_goes_at_once() -> None:
    world = GangWorld()
    world.node("n1", "4")
    world.group(min_count=4)
    world.members("a", "b", "c", "d")
    assert world.where() == dict.fromkeys("abcd", "n1")
    assert world.core.queue.pending_counts() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 0}
    assert world.group_says() == [("PodGroupScheduled", "True", "Scheduled", "")]
    assert len(world.core.services.waiting) == 0


def test_one_attempt_takes_all_that_are_queued() -> None:
    world = GangWorld()
    world.node("n1", "4")
    world.group(min_count=2)
    for name in "abc":
        world.driver.create(a_member(name))
    assert world.driver.attempt_once() is not None
    assert world.where() == dict.fromkeys("abc", "n1")


def test_a_gang_without_room_for_all_holds_nothing() -> None:
    world = GangWorld()
    world.node("n1", "3")
    world.group(min_count=4)
    before = world.held_milli()
    world.members("a", "b", "c", "d")
    assert world.where() == {}
    assert world.held_milli() == before == {"n1": 0}
    assert world.core.cache.assumed_count == 0
    assert len(world.core.cluster.nominated.on("n1")) == 0
    assert [world.said(name) for name in "abc"] == [WAITS.format(name) for name in "abc"]
    assert world.said("d") == NO_ROOM
    assert world.group_says() == [("PodGroupScheduled", "False", "Unschedulable", "pod group is unschedulable")]
    world.pod("other", cpu="3")
    assert world.where() == {"other": "n1"}


def test_a_gang_that_waits_does_not_keep_an_idle_scheduler_busy() -> None:
    world = GangWorld()
    world.node("n1", "3")
    world.group(min_count=4)
    world.members("a", "b", "c", "d")
    assert {world.place(name) for name in "abcd"} == {"backoff"}
    assert not world.scheduler.has_work()
    attempts = world.core.queue.attempts
    world.wait(60)
    assert 4 <= (world.core.queue.attempts - attempts) // 4 <= 10


def test_a_gang_goes_as_one_when_room_appears() -> None:
    world = GangWorld()
    world.node("n1", "3")
    world.group(min_count=4)
    world.members("a", "b", "c", "d")
    world.node("n2", "1")
    counts = set()
    for _ in range(12):
        world.wait(1)
        counts.add(len(world.where()))
    assert counts == {0, 4}
    assert sorted(world.where().values()) == ["n1", "n1", "n1", "n2"]
    assert world.group_says() == [("PodGroupScheduled", "True", "Scheduled", "")]


def test_members_beyond_the_minimum_may_stay_behind() -> None:
    world = GangWorld()
    world.node("n1", "3")
    world.group(min_count=3)
    world.members("a", "b", "c", "d")
    assert sorted(world.where()) == ["a", "b", "c"]
    assert world.said("d") == NO_ROOM
    world.node("n2", "1")
    world.wait(3)
    assert world.where()["d"] == "n2"


def test_a_member_that_comes_later_joins_those_that_are_placed() -> None:
    world = GangWorld()
    world.node("n1", "4")
    world.group(min_count=3)
    world.members("a", "b", "c")
    world.members("d")
    assert sorted(world.where()) == ["a", "b", "c", "d"]


def test_a_member_deleted_while_the_gang_waits_gates_the_others() -> None:
    world = GangWorld()
    world.node("n1", "3")
    world.group(min_count=4)
    world.members("a", "b", "c", "d")
    world.delete("d")
    world.wait(3)
    assert world.where() == {}
    assert world.held_milli() == {"n1": 0}
    assert {world.place(name) for name in "abc"} == {"gated"}
    world.node("n2", "1")
    world.members("e")
    world.wait(3)
    assert sorted(world.where()) == ["a", "b", "c", "e"]


def test_a_member_deleted_while_it_is_bound_leaves_the_others_alone() -> None:
    world = GangWorld()
    world.node("n1", "4")
    world.group(min_count=2)
    for name in "ab":
        world.driver.create(a_member(name))
    world.scheduler.attempt()  # both are on their way; nothing was carried out yet
    world.delete("a")
    assert world.where() == {"b": "n1"}
    assert world.held_milli() == {"n1": 1000}


def test_a_terminating_member_is_not_tried() -> None:
    world = GangWorld()
    world.node("n1", "4")
    world.group(min_count=2)
    world.driver.create(a_member("gone", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    world.members("a", "b")
    assert sorted(world.where()) == ["a", "b"]


def test_of_two_gangs_one_goes_and_the_other_waits_without_holding() -> None:
    world = GangWorld()
    world.node("n1", "4")
    world.group("red", 3)
    world.group("blue", 3)
    for name, group in (("r1", "red"), ("b1", "blue"), ("r2", "red"), ("b2", "blue"), ("r3", "red"), ("b3", "blue")):
        world.driver.create(a_member(name, group))
    world.wait(30)
    assert sorted(world.where()) == ["r1", "r2", "r3"]
    assert world.held_milli() == {"n1": 3000}
    for name in ("r1", "r2", "r3"):
        world.delete(name)
    world.wait(12)
    assert sorted(world.where()) == ["b1", "b2", "b3"]


def test_the_most_important_members_are_tried_first() -> None:
    world = GangWorld()
    world.node("n1", "2")
    world.group(min_count=2)
    for name, priority in (("low", 1), ("high", 9), ("later", 9)):
        world.driver.create(a_member(name, priority=priority, preemptionPolicy="Never"))
        world.clock.advance_ns(1)
    world.driver.settle()
    assert sorted(world.where()) == ["high", "later"]


def test_a_basic_group_places_whom_it_can() -> None:
    world = GangWorld()
    world.node("n1", "2")
    world.group()
    world.members("a", "b", "c")
    assert sorted(world.where()) == ["a", "b"]
    assert world.said("c") == NO_ROOM
    assert world.group_says() == [("PodGroupScheduled", "True", "Scheduled", "")]


@pytest.mark.parametrize("gates", [{}, {"GenericWorkload": False}], ids=["by default", "chosen"])
def test_with_the_gates_off_members_are_ordinary_pods(gates: dict[str, bool]) -> None:
    world = GangWorld(gates)
    world.node("n1", "2")
    world.members("a", "b", "c")
    assert sorted(world.where()) == ["a", "b"]
    assert world.place("c") == "unschedulable"


def test_without_gang_scheduling_a_group_goes_together_but_needs_no_minimum() -> None:
    world = GangWorld({"GenericWorkload": True})
    world.node("n1", "2")
    world.group(min_count=3)
    world.members("a", "b", "c")
    assert sorted(world.where()) == ["a", "b"]
    assert world.place("c") == "backoff"


def test_a_gang_preempts_only_if_that_makes_room_for_all() -> None:
    world = GangWorld()
    world.node("n1", "4")
    world.pod("victim", cpu="2", priority=1)
    world.pod("important", cpu="2", priority=100)
    world.group(min_count=3)
    world.members("a", "b", "c", priority=10)
    assert sorted(world.where()) == ["important", "victim"]
    assert world.held_milli() == {"n1": 4000}
    assert {world.said(name) for name in "ab"} == {WAITS.format("a"), WAITS.format("b")}
    assert [pod.name for pod in world.core.cluster.nominated.on("n1")] == []


def a_gang_that_preempts() -> GangWorld:
    """Four members after their first attempt: two fit beside the victim, two wait for it to leave."""
    world = GangWorld()
    world.node("n1", "4")
    world.pod("victim", cpu="2", priority=1)
    world.group(min_count=4)
    for name in "abcd":
        world.driver.create(a_member(name, priority=10))
    world.scheduler.attempt()
    return world


def test_a_gang_waits_for_the_victims_that_it_preempts() -> None:
    world = a_gang_that_preempts()
    evicted = [intent for intent in world.core.outbox.intents if type(intent).__name__ == "Evict"]
    assert {intent.victim.name for intent in evicted} == {"victim"}  # type: ignore[union-attr]
    assert sorted(pod.name for pod in world.core.cluster.nominated.on("n1")) == ["a", "b", "c", "d"]
    assert world.held_milli() == {"n1": 2000}
    waits = "pod group is unschedulable, pod group is waiting for preemption to complete"
    world.driver.settle()
    assert [world.said(name) for name in "ab"] == [waits, waits]
    assert world.said("c") == "0/1 nodes are available: 1 Insufficient cpu."
    assert world.group_says() == [("PodGroupScheduled", "False", "Unschedulable", waits)]
    world.wait(3)
    assert world.where() == dict.fromkeys("abcd", "n1")
    assert not world.core.cluster.nominated


def test_a_promise_that_the_status_does_not_show_yet_is_taken_back_as_well() -> None:
    world = a_gang_that_preempts()  # a and b are promised room beside c and d, which wait for the victim to go
    world.clock.advance_ns(3 * NS_PER_S)
    world.scheduler.handle(TimePassed())
    world.scheduler.attempt()  # c and d are held back still, and without them a and b are too few
    patches = [intent for intent in world.core.outbox.intents if isinstance(intent, PatchStatus)]
    assert [patch.nominated_node_name for patch in patches if patch.pod.name == "a"] == ["n1", ""]


def test_members_must_name_the_same_scheduler() -> None:
    world = GangWorld()
    world.core.runners["other"] = world.core.runners["default-scheduler"]
    world.node("n1", "4")
    world.group()
    world.members("a", "b", schedulerName="other")
    world.delete("b")
    world.driver.create(a_member("c"))
    world.driver.create(a_member("d", schedulerName="other"))
    world.driver.settle()
    text = "all pods in a single pod group should have the same .spec.schedulerName set, got: "
    assert {world.said(name) for name in "cd"} == {text + '"default-scheduler" and "other"'}


class Fussy(ReservePlugin, PermitPlugin):
    """Refuses or fails on the pod that is called `b`, and keeps count of what is reserved."""

    name = "Fussy"
    at: ClassVar[str]
    answer: ClassVar[Any]
    reserved: ClassVar[list[str]]

    def reserve(self, context: SchedulingContext, node_name: str) -> Rejection | None:
        self.reserved.append(context.pod.name)
        return self._say(context, "reserve")

    def unreserve(self, context: SchedulingContext, node_name: str) -> None:
        self.reserved.remove(context.pod.name)

    def permit(self, context: SchedulingContext, node_name: str) -> Rejection | None:
        return self._say(context, "permit")

    def _say(self, context: SchedulingContext, point: str) -> Rejection | None:
        if context.pod.name != "b" or point != self.at:
            return None
        if isinstance(self.answer, Exception):
            raise self.answer
        rejection: Rejection | None = self.answer
        return rejection


def a_fussy_world(at: str, answer: object) -> tuple[GangWorld, list[str]]:
    reserved: list[str] = []
    plugin = type("Fussy", (Fussy,), {"at": at, "answer": answer, "reserved": reserved})
    registry = in_tree()
    registry.register(plugin)
    world = GangWorld(BOTH_GATES, registry)
    profile = world.core.runners["default-scheduler"].profile
    made = plugin(None, None)
    profile.reserves += (made,)
    profile.permits = (made, *profile.permits)
    return world, reserved


@pytest.mark.parametrize("at", ["reserve", "permit"])
def test_a_member_that_is_refused_is_passed_over(at: str) -> None:
    world, reserved = a_fussy_world(at, curable("not b"))
    world.node("n1", "4")
    world.group(min_count=2)
    world.members("a", "b", "c")
    assert sorted(world.where()) == sorted(reserved) == ["a", "c"]
    assert world.said("b") == "0/1 nodes are available: 1 not b."


@pytest.mark.parametrize("at", ["reserve", "permit"])
def test_an_error_ends_the_attempt_of_all(at: str) -> None:
    world, reserved = a_fussy_world(at, PluginError("boom"))
    world.node("n1", "4")
    world.group(min_count=2)
    world.members("a", "b", "c")
    text = f'running {at.capitalize()} plugin "Fussy": boom'
    assert (world.where(), reserved, world.held_milli()) == ({}, [], {"n1": 0})
    assert world.said("b") == text
    assert {world.said(name) for name in "ac"} == {f"failed to schedule other pod from a pod group: {text}"}
    assert world.group_says() == [
        ("PodGroupScheduled", "False", "SchedulerError", f"failed to schedule other pod from a pod group: {text}")
    ]


def test_a_bug_leaves_no_room_held() -> None:
    world = GangWorld()
    world.node("n1", "4")
    world.group(min_count=2)
    for name in "ab":
        world.driver.create(a_member(name))
    deciding = world.core.deciding

    def break_down(runner: Any, pod: Any, *more: Any) -> Any:
        if pod.name == "b":
            raise RuntimeError("a bug")
        return deciding(runner, pod, *more)

    world.core.deciding = break_down
    with pytest.raises(RuntimeError):
        world.scheduler.attempt()
    assert (world.held_milli(), world.core.cache.assumed_count) == ({"n1": 0}, 0)


def test_a_group_that_was_scheduled_once_says_so_for_ever() -> None:
    world = GangWorld()
    world.node("n1", "2")
    world.group(min_count=2)
    world.members("a", "b")
    for name in "ab":
        world.delete(name)
    world.members("c", "d", cpu="2")
    assert world.where() == {}
    assert world.group_says() == [("PodGroupScheduled", "True", "Scheduled", "")]


def test_attempts_are_counted_by_what_came_of_them() -> None:
    world = GangWorld()
    world.node("n1", "3")
    world.group(min_count=2)
    world.members("a", "b")
    world.group("large", 4)
    world.members("c", "d", "e", "f", group="large", priority=-1)
    counted = world.counted("podgroup_schedule_attempts_total")
    assert counted == {("scheduled", "default-scheduler"): 1, ("unschedulable", "default-scheduler"): 1}
    assert (
        world.metrics.registry.histogram("scheduler_podgroup_scheduling_algorithm_duration_seconds").series().count == 2
    )


def test_without_groups_there_are_no_metrics_of_them() -> None:
    assert "podgroup" not in GangWorld({}).metrics.registry.text()


def test_extenders_have_their_say_about_each_member() -> None:
    world = GangWorld(extenders=[{"urlPrefix": "http://127.0.0.1:9999", "filterVerb": "filter", "weight": 1}])
    asked: list[str] = []

    def answer(call: Any) -> Any:
        pod = call.body["Pod"]
        asked.append(pod.name)
        return {"NodeNames": None, "Nodes": {"items": [] if pod.name == "b" else call.body["Nodes"]["items"]}}

    world.driver.extender = answer
    world.node("n1", "4")
    world.group(min_count=3)
    world.members("a", "b", "c")
    assert (world.where(), world.held_milli()) == ({}, {"n1": 0})
    world.members("d")
    assert sorted(world.where()) == ["a", "c", "d"]
    assert asked == ["a", "b", "c", "a", "b", "c", "d"]


@pytest.mark.parametrize("seed", range(20))
def test_no_gang_is_ever_placed_in_part(seed: int) -> None:
    """Whatever comes and goes: when the first members of a gang have nodes, enough of them have."""
    chance, world = Random(seed), GangWorld()
    minimum = {f"g{number}": chance.randint(1, 4) for number in range(4)}
    for name, count in minimum.items():
        world.group(name, count)
    bound: Counter[str] = Counter()
    world.driver.on_bound = lambda pod: bound.update([(pod.group_key or "").removeprefix("default/")])
    for step in range(60):
        _let_something_happen(world, chance, step, list(minimum))
        assert [name for name in minimum if 0 < bound[name] < minimum[name]] == []
        assert world.core.cache.assumed_count == 0
    assert any(bound[name] for name in minimum)


def _let_something_happen(world: GangWorld, chance: Random, step: int, groups: list[str]) -> None:
    match chance.choice(("node", "member", "member", "member", "pod", "delete", "wait", "wait")):
        case "node":
            world.node(f"n{step}", str(chance.randint(1, 3)))
        case "member":
            group = chance.choice(groups)
            world.members(f"{group}-{step}", group=group, cpu=str(chance.randint(1, 2)), priority=chance.randint(0, 2))
        case "pod":
            world.pod(f"pod-{step}", cpu="1", priority=chance.randint(0, 1))
        case "delete":
            pods = [pod.name for pod in world.driver.pods() if not (pod.spec.node_name and pod.group_key)]
            if pods:
                world.delete(chance.choice(pods))
        case _:
            world.wait(chance.randint(1, 12))


def test_ordinary_pods_are_not_touched_by_groups() -> None:
    world = GangWorld()
    world.node("n1", "1")
    world.driver.create(a_pod("plain", cpu="2", schedulerName="default-scheduler"))
    world.driver.settle()
    assert world.place("plain") == "unschedulable"
