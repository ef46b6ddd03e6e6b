"""What upstream's integration tests of pod groups tell, as scenarios: scheduling (v1.37, 13) and queueing (v1.37, 5.4)."""

from collections.abc import Callable
from typing import Any

import pytest

from build import a_node, a_pod
from build_storage import a_claim, a_volume
from gangs import GROUP_GATES, GangWorld, a_group, a_member
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import PreBindPlugin
from mooring.framework.contract.status import PluginError
from racks import RACK_GATES, RackWorld

TOPOLOGY = pytest.mark.parametrize("gates", [GROUP_GATES, RACK_GATES], ids=["without topology", "with topology"])
POLICIES = pytest.mark.parametrize("minimum", [None, 2], ids=["basic", "gang"])


def a_world(gates: dict[str, bool], cpu: str = "4") -> GangWorld:
    world = GangWorld(gates)
    world.node("n1", cpu)
    return world


# ---- Scheduling


@TOPOLOGY
def test_v137_13_a_gang_waits_for_its_group_and_then_for_room(gates: dict[str, bool]) -> None:
    world = a_world(gates)
    world.pod("blocker", cpu="2", priority=100)
    world.members("a", "b", "c", priority=100)
    assert {world.place(name) for name in "abc"} == {"incomplete"}
    world.group(min_count=3, priority=100)
    assert sorted(world.where()) == ["blocker"]
    assert world.group_says()[0][1:3] == ("False", "Unschedulable")
    assert all(world.said(name) for name in "abc")
    world.delete("blocker")
    world.wait(10)
    assert sorted(world.where()) == ["a", "b", "c"]
    assert world.group_says()[0][1:3] == ("True", "Scheduled")


@TOPOLOGY
@pytest.mark.parametrize("minimum", [None, 3], ids=["basic", "gang"])
def test_v137_13_a_member_beyond_the_minimum_waits_for_room_alone(gates: dict[str, bool], minimum: int | None) -> None:
    world = a_world(gates)
    world.pod("blocker", cpu="1", priority=100)
    world.members("a", "b", "c", "d", priority=100)
    world.group(min_count=minimum, priority=100)
    assert len(world.where()) == 4
    world.delete("blocker")
    world.wait(10)
    assert sorted(world.where()) == ["a", "b", "c", "d"]


@TOPOLOGY
@pytest.mark.parametrize("first", ["red", "blue"])
def test_v137_13_of_two_gangs_the_one_whose_member_came_first_goes(gates: dict[str, bool], first: str) -> None:
    world = a_world(gates)
    second = "blue" if first == "red" else "red"
    for group in (first, second):
        world.group(group, 3)
    for number in "321":
        for group in (first, second):
            world.driver.create(a_member(f"{group}-{number}", group))
            world.clock.advance_ns(1)
    world.wait(20)
    assert sorted(world.where()) == [f"{first}-1", f"{first}-2", f"{first}-3"]
    assert all(world.said(f"{second}-{number}") for number in "123")


@TOPOLOGY
def test_v137_13_a_pod_that_came_before_a_gang_takes_its_room(gates: dict[str, bool]) -> None:
    world = a_world(gates)
    world.group(min_count=3)
    world.driver.create(a_pod("blocker", cpu="2", schedulerName="default-scheduler", metadata={"uid": "uid-blocker"}))
    world.clock.advance_ns(1)
    world.members("a", "b", "c")
    world.wait(20)
    assert sorted(world.where()) == ["blocker"]
    assert all(world.said(name) for name in "abc")


def test_v137_14_a_basic_group_preempts_for_the_members_that_stayed_behind() -> None:
    world = a_world(GROUP_GATES)
    world.pod("low", cpu="2", priority=10)
    world.group(priority=100)
    world.members("a", "b", "c", "d", priority=100)
    world.wait(10)
    assert sorted(world.where()) == ["a", "b", "c", "d"]


@TOPOLOGY
def test_v137_14_a_gang_evicts_all_pods_for_all_its_members(gates: dict[str, bool]) -> None:
    """The minimum is three: the algorithm is run without victims, so it finds room for the fourth too."""
    world = a_world(gates)
    for number in range(4):
        world.pod(f"low-{number}", cpu="1", priority=10)
    world.group(min_count=3, priority=100)
    world.members("a", "b", "c", "d", priority=100)
    world.wait(10)
    assert sorted(world.where()) == ["a", "b", "c", "d"]
    assert world.group_says()[0][1:3] == ("True", "Scheduled")


@pytest.mark.parametrize("key", [None, "zone"], ids=["no constraint", "constraint"])
def test_v137_14_a_gang_evicts_the_least_important_pods(key: str | None) -> None:
    world = RackWorld()
    world.racks(cpu="4", n=1)
    for number, priority in enumerate((5, 5, 10, 10)):
        world.pod(f"low-{number}", cpu="1", priority=priority)
    world.rack_group("mid", 2, key, priority=50)
    world.members("a", "b", group="mid", priority=50)
    world.wait(10)
    assert sorted(world.where()) == ["a", "b", "low-2", "low-3"]


@TOPOLOGY
def test_v137_13_3_a_minimum_that_is_lowered_opens_the_gate(gates: dict[str, bool]) -> None:
    world = a_world(gates)
    world.group(min_count=5)
    world.members("a", "b", "c", "d")
    assert {world.place(name) for name in "abcd"} == {"gated"}
    world.driver.update(a_group(min_count=4))
    world.wait(1)
    assert sorted(world.where()) == ["a", "b", "c", "d"]


@TOPOLOGY
def test_v137_13_3_a_minimum_that_is_lowered_lets_a_gang_go_without_its_last_member(gates: dict[str, bool]) -> None:
    world = a_world(gates)
    world.group(min_count=5)
    for name in "abcde":
        world.driver.create(a_member(name))
        world.clock.advance_ns(1)
    world.wait(1)
    assert world.where() == {}
    world.driver.update(a_group(min_count=4))
    world.wait(10)
    assert sorted(world.where()) == ["a", "b", "c", "d"]
    assert world.said("e")


@TOPOLOGY
def test_v137_13_3_a_minimum_that_is_raised_wakes_nobody(gates: dict[str, bool]) -> None:
    world = a_world(gates)
    world.group(min_count=5)
    world.members("a", "b", "c", "d")
    world.driver.update(a_group(min_count=6))
    world.wait(10)
    assert world.core.queue.attempts == 0
    assert {world.place(name) for name in "abcd"} == {"gated"}


@pytest.mark.parametrize(("second", "placed"), [("one", []), ("two", ["a", "b"])], ids=["shared", "distinct"])
def test_v137_6_3_members_see_the_exclusive_claims_of_those_before_them(second: str, placed: list[str]) -> None:
    world = a_world(GROUP_GATES, "2")
    for name in ("one", "two"):
        mode = ["ReadWriteOncePod"]
        claim = {"namespace": "default", "name": name, "uid": f"uid-{name}"}
        world.driver.create(a_volume(f"pv-{name}", modes=mode, claim=claim, phase="Bound"))
        world.driver.create(a_claim(name, modes=mode, volume=f"pv-{name}", phase="Bound"))
    world.group(min_count=2, priority=200)
    for name, claim_name in (("a", "one"), ("b", second)):
        volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": claim_name}}]
        world.driver.create(a_member(name, priority=200, volumes=volumes))
        world.clock.advance_ns(1)
    world.wait(5)
    assert sorted(world.where()) == placed
    assert world.group_says()[0][1:3] == (("True", "Scheduled") if placed else ("False", "Unschedulable"))
    if not placed:
        in_use = "PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
        assert world.said("b") == f"0/1 nodes are available: 1 node(s) unavailable due to {in_use}."


# ---- Queueing. Members need two CPUs, and so many there are at first.


@POLICIES
def test_v137_5_4_a_group_grows_while_it_waits_and_after(minimum: int | None) -> None:
    world = a_world(GROUP_GATES, "2")
    world.group(min_count=minimum)
    world.members("a", "b", cpu="2")
    assert sorted(world.where()) == ([] if minimum else ["a"])
    world.members("c", cpu="2")
    world.wait(3)
    assert world.said("b") and world.said("c")
    world.node("n2", "6")
    world.wait(10)
    assert sorted(world.where()) == ["a", "b", "c"]
    world.members("d", cpu="2")
    assert sorted(world.where()) == ["a", "b", "c", "d"]


class ArrivingWorld(GangWorld):
    """While the first attempt asks an extender, a member comes."""

    def __init__(self, arrives: Callable[["ArrivingWorld"], None]) -> None:
        extender = {"urlPrefix": "http://127.0.0.1:9999", "filterVerb": "filter", "weight": 1}
        super().__init__(extenders=[extender])
        self.is_first = True

        def answer(call: Any) -> Any:
            if self.is_first:
                self.is_first = False
                arrives(self)
            return {"Nodes": {"items": call.body["Nodes"]["items"]}}

        self.driver.extender = answer


@POLICIES
@pytest.mark.parametrize("has_room", [True, False])
def test_v137_5_4_a_member_that_comes_during_the_attempt_is_tried_after_it(minimum: int | None, has_room: bool) -> None:
    world = ArrivingWorld(lambda world: world.driver.create(a_member("c", cpu="2")))
    world.node("n1", "2")
    if has_room:
        world.node("n2", "6")
    world.group(min_count=minimum)
    world.members("a", "b", cpu="2")
    if not has_room:
        assert "c" not in world.where()
        world.node("n2", "6")
        world.wait(10)
    assert sorted(world.where()) == ["a", "b", "c"]


@POLICIES
@pytest.mark.parametrize("room_is_late", [True, False])
def test_v137_5_4_one_gated_member_gates_its_group(minimum: int | None, room_is_late: bool) -> None:
    world = a_world(GROUP_GATES, "2")
    gate = [{"name": "foo"}]
    if room_is_late:
        # The members were tried before the gated one joined them.
        world.pod("blocker", cpu="2")
        world.group(min_count=minimum)
        world.members("a", "b", cpu="2")
        assert {world.place(name) for name in "ab"} == {"backoff"}
        world.members("c", cpu="2", schedulingGates=gate)
    else:
        world.group(min_count=minimum)
        world.members("c", cpu="2", schedulingGates=gate)
        world.members("a", "b", cpu="2")
    world.node("n2", "6")
    world.wait(20)
    assert {world.place(name) for name in "abc"} == {"gated"}
    world.driver.update(a_member("c", cpu="2"))
    world.wait(1)
    assert set("abc") <= set(world.where())


class FailsOnce(PreBindPlugin):
    """PreBind of the pod `a` fails once."""

    name = "FailsOnce"

    def __init__(self) -> None:
        self.failed = False

    def pre_bind(self, context: SchedulingContext, node_name: str) -> None:
        if context.pod.name == "a" and not self.failed:
            self.failed = True
            raise PluginError("mock binding failure")


def a_failing_world(cpu: str) -> GangWorld:
    world = GangWorld(GROUP_GATES)
    world.core.runners["default-scheduler"].profile.pre_binds += (FailsOnce(),)
    world.node("n1", cpu)
    return world


@pytest.mark.parametrize(("minimum", "names"), [(2, "ab"), (None, "ab"), (1, "a"), (None, "a")])
def test_v137_5_4_a_member_whose_binding_fails_is_tried_again(minimum: int | None, names: str) -> None:
    world = a_failing_world("8")
    world.group(min_count=minimum)
    world.members(*names, cpu="2")
    world.wait(5)
    assert sorted(world.where()) == list(names)
    assert world.core.queue.attempts == 2


@pytest.mark.parametrize("minimum", [1, None])
def test_v137_5_4_a_member_whose_binding_fails_joins_those_that_did_not_fit(minimum: int | None) -> None:
    world = a_failing_world("2")
    world.members("a", cpu="2")
    world.members("b", cpu="4")
    assert {world.place(name) for name in "ab"} == {"incomplete"}
    world.group(min_count=minimum)
    world.wait(10)
    assert sorted(world.where()) == ["a"] and world.said("b")
    world.node("n2", "6")
    world.wait(20)
    assert sorted(world.where()) == ["a", "b"]


@pytest.mark.parametrize(
    ("minimum", "placed", "incomplete"),
    [
        pytest.param(2, "ab", "", id="a gang that was scheduled"),
        pytest.param(None, "ab", "", id="a basic group that was scheduled"),
        pytest.param(2, "ab", "c", id="a gang that was scheduled in part"),
        pytest.param(None, "ab", "c", id="a basic group that was scheduled in part"),
        pytest.param(3, "", "abc", id="a gang that waits"),
    ],
)
def test_v137_5_4_members_of_a_deleted_group_are_incomplete(minimum: int | None, placed: str, incomplete: str) -> None:
    world = a_world(GROUP_GATES, "2")
    world.group(min_count=minimum)
    for name in "abc" if incomplete else "ab":
        world.driver.create(a_member(name, cpu="2" if name == "c" else "1"))
        world.clock.advance_ns(1)
    world.wait(2)
    assert sorted(world.where()) == list(placed)
    world.driver.delete("PodGroup", "default/gang")
    world.members("late", cpu="2")
    assert {world.place(name) for name in (*incomplete, "late")} == {"incomplete"}


def test_v137_5_4_the_rest_of_a_group_gives_way_to_a_more_important_pod() -> None:
    world = a_world(GROUP_GATES)
    world.group()
    for name in "abc":
        world.driver.create(a_member(name, cpu="2"))
        world.clock.advance_ns(1)
    assert world.driver.attempt_once() is not None
    assert (sorted(world.where()), world.place("c")) == (["a", "b"], "active")
    world.driver.create(a_pod("high", cpu="4", priority=1000, schedulerName="default-scheduler"))
    world.driver.create(a_node("n2", cpu="4"))
    assert world.driver.attempt_once() is not None
    assert (world.where()["high"], world.place("c")) == ("n2", "active")


def test_v137_5_4_the_rest_of_a_group_is_tried_before_pods_that_came_after_it() -> None:
    world = a_world(GROUP_GATES)
    world.group()
    for name in "abc":
        world.driver.create(a_member(name, cpu="2"))
        world.clock.advance_ns(1)
    world.driver.create(a_pod("plain", cpu="2", schedulerName="default-scheduler"))
    world.clock.advance_ns(1)
    assert world.driver.attempt_once() is not None
    assert (sorted(world.where()), world.place("c")) == (["a", "b"], "active")
    world.driver.create(a_node("n3", cpu="2"))
    assert world.driver.attempt_once() is not None
    assert world.where()["c"] == "n3"
    assert world.driver.attempt_once() is not None
    assert "plain" not in world.where() and world.said("plain")


def test_v137_5_4_members_that_came_during_the_attempt_go_after_pods_that_came_before_it() -> None:
    def arrive(world: ArrivingWorld) -> None:
        world.clock.advance_ns(1)
        world.driver.create(a_member("c", cpu="2"))

    world = ArrivingWorld(arrive)
    world.node("n1", "4")
    world.group()
    for name in "ab":
        world.driver.create(a_member(name, cpu="2"))
        world.clock.advance_ns(1)
    world.driver.create(a_pod("plain", cpu="2", schedulerName="default-scheduler"))
    world.clock.advance_ns(1)
    while len(world.where()) < 2:
        assert world.driver.attempt_once() is not None
    assert (sorted(world.where()), world.place("c")) == (["a", "b"], "active")
    world.driver.create(a_node("n3", cpu="2"))
    assert world.driver.attempt_once() is not None
    assert world.where()["plain"] == "n3"
