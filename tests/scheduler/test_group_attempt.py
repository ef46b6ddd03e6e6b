"""Attempts for whole pod groups: all or nothing, and nothing is held by a group that does not go."""

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any, ClassVar

import pytest

from build import a_node, a_pod
from gangs import GROUP_GATES, GangWorld, a_member
from mooring.framework import config
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import PermitPlugin, ReservePlugin
from mooring.framework.contract.status import PluginError, Rejection, curable
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.plugins import in_tree
from mooring.scheduler.inputs import TimePassed
from mooring.scheduler.observer import SchedulerListeners
from mooring.state.scheduler_assembly import build_scheduler

NO_VICTIMS = "pod group preemption: No preemption victims found for incoming preemptor"
NO_ROOM = "0/1 nodes are available: 1 Insufficient cpu."
"""v1.37, 8.2: PostFilter is not asked about a member."""


DEVICES = "deallocation and deletion of ResourceClaims completed"


def too_few(minimum: int, scheduled: int, remaining: int, more: str = NO_VICTIMS) -> str:
    """The message of a gang that stopped because the members that remained were too few."""
    return f"minCount ({minimum}) cannot be satisfied: {scheduled} scheduled, {remaining} remaining, {more}"


def test_a_gang_that_fits_goes_at_once() -> None:
    world = GangWorld()
    world.node("n1", "4")
    world.group(min_count=4)
    world.members("a", "b", "c", "d")
    assert world.where() == dict.fromkeys("abcd", "n1")
    assert world.core.queue.pending_counts() == {
        "active": 0,
        "backoff": 0,
        "unschedulable": 0,
        "gated": 0,
        "incomplete": 0,
        "pending": 0,
    }
    assert world.group_says() == [("PodGroupInitiallyScheduled", "True", "Scheduled", "")]
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
    assert {world.said(name) for name in "abc"} == {f"pod group is unschedulable, {too_few(4, 3, 0)}"}
    assert world.said("d") == NO_ROOM
    assert world.group_says() == [("PodGroupInitiallyScheduled", "False", "Unschedulable", too_few(4, 3, 0))]
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
    # v1.37, 5.3: the longest backoff of four pods is twice that of one, 20 s. So the attempts are 1, 2, 4, 8, 16 and 20 s
    # apart, and each of them waits for the end of its second.
    assert world.core.queue.attempts - attempts == 6


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
    assert world.group_says() == [("PodGroupInitiallyScheduled", "True", "Scheduled", "")]


def test_a_group_that_is_scheduled_stays_so_while_the_watch_lags(monkeypatch: pytest.MonkeyPatch) -> None:
    """The member that stays behind is tried again before the watch shows the condition that the first attempt wrote."""
    world = GangWorld()
    world.node("n1", "3")
    world.group(min_count=3)
    cluster, key = world.core.cluster, "default/gang"
    old = cluster.pod_group(key)
    assert old is not None
    monkeypatch.setattr(type(cluster), "pod_group", lambda self, asked: old if asked == key else None)
    world.members("a", "b", "c", "d")
    world.wait(30)
    assert sorted(world.where()) == ["a", "b", "c"]
    assert world.group_says() == [("PodGroupInitiallyScheduled", "True", "Scheduled", "")]


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


def test_the_oldest_members_are_tried_first() -> None:
    world = GangWorld()
    world.node("n1", "2")
    world.group(min_count=2)
    for name in ("b", "a", "late"):
        world.driver.create(a_member(name))
        world.clock.advance_ns(name != "b")
    world.driver.settle()
    assert sorted(world.where()) == ["a", "b"]


def test_a_basic_group_places_whom_it_can() -> None:
    world = GangWorld()
    world.node("n1", "2")
    world.group()
    world.members("a", "b", "c")
    assert sorted(world.where()) == ["a", "b"]
    assert world.said("c") == NO_ROOM
    assert world.group_says() == [("PodGroupInitiallyScheduled", "True", "Scheduled", "")]


@pytest.mark.parametrize("gates", [{}, {"GenericWorkload": False}], ids=["by default", "chosen"])
def test_with_the_gates_off_members_are_ordinary_pods(gates: dict[str, bool]) -> None:
    world = GangWorld(gates)
    world.node("n1", "2")
    world.members("a", "b", "c")
    assert sorted(world.where()) == ["a", "b"]
    assert world.place("c") == "unschedulable"


def test_a_gang_preempts_only_if_that_makes_room_for_all() -> None:
    world = GangWorld()
    world.node("n1", "4")
    world.pod("victim", cpu="2", priority=1)
    world.pod("important", cpu="2", priority=100)
    world.group(min_count=3, priority=10)
    world.members("a", "b", "c", priority=10)
    assert sorted(world.where()) == ["important", "victim"]
    assert world.held_milli() == {"n1": 4000}
    preemption = "pod group preemption: minCount (3) cannot be satisfied: 2 scheduled, 0 remaining"
    tried = f"minCount (3) cannot be satisfied: 0 scheduled, 2 remaining, {DEVICES}, {preemption}"
    assert world.group_says() == [("PodGroupInitiallyScheduled", "False", "Unschedulable", tried)]
    # The first member was tried; the others were not reached, and say what the group said before PodGroupPostFilter.
    assert world.said("a") == NO_ROOM
    assert {world.said(name) for name in "bc"} == {"minCount (3) cannot be satisfied: 0 scheduled, 2 remaining"}
    assert [pod.name for pod in world.core.cluster.nominated.on("n1")] == []


def a_gang_that_preempts() -> GangWorld:
    """Four members after their first attempt: two fit beside the victim, two wait for it to leave."""
    world = GangWorld()
    world.node("n1", "4")
    world.pod("victim", cpu="2", priority=1)
    world.group(min_count=4, priority=10)
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
    found = "pod group preemption: found a placement for podgroup, preempting 1 victims"
    waits = too_few(4, 2, 1, found)
    world.driver.settle()
    assert [world.said(name) for name in "ab"] == [waits, waits]
    assert (world.said("c"), world.said("d")) == (NO_ROOM, "minCount (4) cannot be satisfied: 2 scheduled, 1 remaining")
    assert world.group_says() == [("PodGroupInitiallyScheduled", "False", "Unschedulable", waits)]
    world.wait(3)
    assert world.where() == dict.fromkeys("abcd", "n1")
    assert not world.core.cluster.nominated


def test_v137_12_5_a_group_is_gated_while_its_victims_are_evicted() -> None:
    world = a_gang_that_preempts()
    assert {world.place(name) for name in "abcd"} == {"gated"}
    assert {world.core.queue.gate_of(entry) for entry in world.core.queue.entries()} == {
        "waiting for the preemption for this pod group to be finished"
    }
    attempts = world.core.queue.attempts
    world.clock.advance_ns(3 * NS_PER_S)
    world.scheduler.handle(TimePassed())
    assert (world.scheduler.attempt(), world.core.queue.attempts) == (None, attempts)


_RULE = "all pods in a single pod group should have the same "


@pytest.mark.parametrize(
    ("members", "group", "gates", "text"),
    [
        pytest.param(
            ({"schedulerName": "other"}, {}),
            {},
            {},
            f'{_RULE}.spec.schedulerName set, got: "default-scheduler" and "other"',
            id="scheduler names",
        ),
        pytest.param(
            ({"priority": 10}, {"priority": 10}),
            {},
            {},
            f"{_RULE}priority as the pod group's priority, got 10 and 0",
            id="another priority than the group, which has none",
        ),
        pytest.param(
            ({}, {"preemptionPolicy": "Never"}),
            {},
            {},
            f"{_RULE}preemption policy, got Never and PreemptLowerPriority",
            id="preemption policies",
        ),
        pytest.param(
            ({}, {}),
            {"preemptionPolicy": "Never"},
            {"PodGroupPreemptionPolicy": True},
            f"{_RULE}preemption policy as the pod group's preemption policy, got PreemptLowerPriority and Never",
            id="another policy than the group",
        ),
    ],
)
def test_v137_13_1_members_that_contradict_each_other_fail_with_their_group(
    members: tuple[dict[str, Any], ...], group: dict[str, Any], gates: dict[str, bool], text: str
) -> None:
    world = GangWorld({**GROUP_GATES, **gates})
    world.core.runners["other"] = world.core.runners["default-scheduler"]
    world.node("n1", "4")
    world.group(**group)
    for name, more in zip("ab", members, strict=True):
        world.driver.create(a_member(name, **more))
    world.driver.settle()
    assert world.where() == {}
    assert {world.said(name) for name in "ab"} == {text}
    assert world.group_says() == [("PodGroupInitiallyScheduled", "False", "SchedulerError", text)]
    assert {world.place(name) for name in "ab"} == {"backoff"}


def test_v137_13_1_members_on_nodes_must_agree_too() -> None:
    world = GangWorld()
    world.node("n1", "4")
    world.group(priority=5)
    world.driver.create(a_member("old", nodeName="n1", priority=7))
    world.members("a", priority=5)
    assert world.said("a") == f"{_RULE}priority as the pod group's priority, got 7 and 5"


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
    world = GangWorld(GROUP_GATES, registry)
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


def test_v137_13_6_an_error_of_permit_is_the_member_s_own() -> None:
    world, reserved = a_fussy_world("permit", PluginError("boom"))
    world.node("n1", "4")
    world.group(min_count=2)
    world.members("a", "b", "c")
    assert sorted(world.where()) == sorted(reserved) == ["a", "c"]
    assert world.said("b") == 'running Permit plugin "Fussy": boom'
    # Unlike upstream, a group of which no member goes backs off: it would be tried again at once, for ever.
    assert world.place("b") == "backoff"
    assert world.group_says() == [("PodGroupInitiallyScheduled", "True", "Scheduled", "")]


def test_an_error_ends_the_attempt_of_all() -> None:
    world, reserved = a_fussy_world("reserve", PluginError("boom"))
    world.node("n1", "4")
    world.group(min_count=2)
    world.members("a", "b", "c")
    text = 'running Reserve plugin "Fussy": boom'
    assert (world.where(), reserved, world.held_milli()) == ({}, [], {"n1": 0})
    assert world.said("b") == text
    assert {world.said(name) for name in "ac"} == {f"failed to schedule other pod from a pod group: {text}"}
    assert world.group_says() == [
        (
            "PodGroupInitiallyScheduled",
            "False",
            "SchedulerError",
            f"failed to schedule other pod from a pod group: {text}",
        )
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


@pytest.mark.parametrize(("decides_on_all", "asked"), [(False, "ab"), (True, "abcd")])
def test_members_that_are_decided_on_only_to_be_seen_change_nothing(decides_on_all: bool, asked: str) -> None:
    """The trial ends at the second of four members, since two more would be too few."""
    world = GangWorld()
    world.core.options = replace(world.core.options, decides_on_all_members=decides_on_all)
    world.node("n1", "1500m")
    world.group(min_count=4)
    decided: list[str] = []
    deciding = world.core.deciding

    def note(runner: Any, pod: Any, *more: Any) -> Any:
        decided.append(pod.name)
        return deciding(runner, pod, *more)

    world.core.deciding = note
    for name, cpu in zip("abcd", ("1", "1", "500m", "1"), strict=True):
        world.driver.create(a_member(name, cpu=cpu))
    world.driver.attempt_once()
    world.core.deciding = deciding
    world.settle()
    ended = "minCount (4) cannot be satisfied: 1 scheduled, 2 remaining"
    assert (decided, world.where(), world.held_milli()) == ([*asked], {}, {"n1": 0})
    assert [world.said(name) for name in "abcd"] == [
        f"pod group is unschedulable, {too_few(4, 1, 2)}",
        NO_ROOM,
        *[ended] * 2,
    ]


def test_a_group_that_was_scheduled_once_says_so_for_ever() -> None:
    world = GangWorld()
    world.node("n1", "2")
    world.group(min_count=2)
    world.members("a", "b")
    for name in "ab":
        world.delete(name)
    world.members("c", "d", cpu="2")
    assert world.where() == {}
    assert world.group_says() == [("PodGroupInitiallyScheduled", "True", "Scheduled", "")]


def test_attempts_are_counted_by_what_came_of_them() -> None:
    world = GangWorld()
    world.node("n1", "3")
    world.group(min_count=2)
    world.members("a", "b")
    world.group("large", 4)
    world.members("c", "d", "e", "f", group="large")
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
    assert world.place("d") == "backoff"  # v1.37, 5.4: it joins its group where that waits
    world.wait(2)
    assert sorted(world.where()) == ["a", "c", "d"]
    # The first attempt stops at b, since c alone is too few. The second leaves b over, which is tried again at once.
    assert asked == ["a", "b", "a", "b", "c", "d", "b"]


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
            world.members(f"{group}-{step}", group=group, cpu=str(chance.randint(1, 2)))
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


HOST = "kubernetes.io/hostname"


@pytest.mark.parametrize(("nodes", "placed"), [(("n1", "n2"), {"anti": "n1", "plain": "n2"}), (("n1",), {})])
def test_v137_6_3_members_see_the_anti_affinity_of_those_before_them(
    nodes: tuple[str, ...], placed: dict[str, str]
) -> None:
    world = GangWorld()
    for name in nodes:
        world.driver.create(a_node(name, cpu="2", labels={HOST: name}))
    world.group(min_count=2)
    term = {"labelSelector": {"matchLabels": {"app": "foo"}}, "topologyKey": HOST}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    labels = {"app": "foo"}
    world.driver.create(a_member("anti", labels=labels, affinity=affinity, nodeSelector={HOST: "n1"}))
    world.clock.advance_ns(1)
    world.members("plain", labels=labels)
    assert world.where() == placed
    assert world.held_milli() == dict.fromkeys(nodes, 1000 if placed else 0)


def test_v137_3_6_a_profile_without_gang_scheduling_is_reported() -> None:
    reported: list[str] = []
    written = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "GangScheduling"}]}}}],
    }
    read = config.from_object(written, feature_gates=GROUP_GATES)
    listeners = SchedulerListeners(report=lambda text, _: reported.append(text))
    build_scheduler(read, VirtualClock(0), listeners=listeners, gates=GROUP_GATES)
    assert reported == [
        "GenericWorkload is enabled, but GangScheduling plugin is not set. "
        "Gang scheduling using PodGroups may not work as expected."
    ]


def test_v137_13_1_members_that_are_all_assumed_or_leaving_end_the_cycle() -> None:
    """Members that come meanwhile are tried at once."""
    world = GangWorld()
    world.node("n1", "4")
    world.group()
    world.driver.create(a_member("gone", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}))
    assert world.scheduler.attempt() is not None
    assert world.core.queue.groups is not None and world.core.queue.groups.in_cycle == ""
    world.members("a")
    assert world.where() == {"a": "n1"}


def test_v137_20_4_preemption_of_groups_is_counted() -> None:
    world = GangWorld()
    world.node("n1", "2")
    world.group("low", priority=1, uid="uid-low")
    world.members("low", group="low", priority=1, cpu="2")
    world.group(min_count=1, priority=10)
    world.members("a", priority=10)
    world.wait(5)
    assert world.where() == {"a": "n1"}
    assert world.counted("workload_preemption_attempts_total")[("Success",)] == 1
    registry = world.metrics.registry
    assert registry.histogram("scheduler_workload_preemption_victims").series().count == 1
    assert registry.histogram("scheduler_preemption_workload_disruptions").series("podgroup").count == 1
    assert registry.histogram("scheduler_preemption_evaluation_duration_seconds").series("podgroup", "Success").count
    assert registry.histogram("scheduler_preemption_execution_duration_seconds").series("podgroup", "success").count
    assert registry.histogram("scheduler_preemption_victims").series().count == 0


@pytest.mark.parametrize(
    ("policy", "priority", "searches"),
    [("Never", 10, {}), (None, 0, {("podgroup", "UnschedulableAndUnresolvable"): 1})],
    ids=["not eligible", "no victims"],
)
def test_v137_20_4_searches_of_groups_count_from_where_they_look_for_victims(
    policy: str | None, priority: int, searches: dict[tuple[str, str], int]
) -> None:
    world = GangWorld()
    world.node("n1", "1")
    world.pod("low", cpu="1")
    world.group(min_count=1, priority=priority)
    world.members("a", priority=priority, **({} if policy is None else {"preemptionPolicy": policy}))
    registry = world.metrics.registry
    found = registry.histogram("scheduler_preemption_evaluation_duration_seconds")
    assert {labels: series.count for labels, series in found.items()} == searches
    assert registry.histogram("scheduler_workload_preemption_victims").series().count == 0
    assert sum(world.counted("workload_preemption_attempts_total").values()) == 1
