"""Pod groups with topology constraints: all members in one domain, the best of several, or none of them anywhere."""

from typing import Any

import pytest

from gangs import GROUP_GATES, a_member
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import ReservePlugin
from mooring.framework.contract.status import Rejection
from racks import RACK_GATES, RackWorld

NO_VICTIMS = "pod group preemption: No preemption victims found for incoming preemptor"
CONDITION = "PodGroupInitiallyScheduled"


def unavailable(count: int, status: str, preemption: str = NO_VICTIMS) -> list[tuple[str, str, str | None, str | None]]:
    text = f"pod group is unschedulable, 0/{count} placements are available, first placement status: {status}"
    return [(CONDITION, "False", "Unschedulable", f"{text}, {preemption}")]


def too_few(minimum: int, scheduled: int, remaining: int) -> str:
    return f"minCount ({minimum}) cannot be satisfied: {scheduled} scheduled, {remaining} remaining"


SCHEDULED = [(CONDITION, "True", "Scheduled", "")]


def test_a_gang_goes_to_the_only_rack_that_can_hold_it() -> None:
    world = RackWorld()
    world.racks(r1=3, r2=2)
    world.racks(r3=1, zone="z2")
    world.running("old", "r2-1", "2")
    world.rack_group(min_count=3)
    world.members("a", "b", "c")
    assert len(world.where()) == 4 and world.racks_of("a", "b", "c") == {"r1"}
    assert world.group_says() == SCHEDULED


def test_a_gang_that_no_rack_can_hold_waits_and_holds_nothing() -> None:
    world = RackWorld()
    world.racks(r1=2, r2=1, r3=1)
    before = world.held_milli()
    world.rack_group(min_count=3, priority=100)
    world.members("a", "b", "c", cpu="2", priority=100)
    assert world.where() == {}
    assert world.held_milli() == before
    assert world.core.cache.assumed_count == 0
    assert world.group_says() == unavailable(3, too_few(3, 2, 0))
    waits = f"pod group is unschedulable, {unavailable(3, too_few(3, 2, 0))[0][3]}"
    assert [world.said(name) for name in "ab"] == [waits, waits]
    # the first placement has two nodes, and only these are counted
    assert world.said("c") == "0/2 nodes are available: 2 Insufficient cpu."


def test_a_gang_that_waits_goes_once_its_rack_has_room() -> None:
    world = RackWorld()
    world.racks(r1=3)
    world.running("old-1", "r1-1", "2")
    world.running("old-3", "r1-3", "2")
    world.rack_group(min_count=3)
    world.members("a", "b", "c")
    assert world.racks_of("a", "b", "c") == set()
    world.delete("old-1")
    world.wait(15)
    assert world.racks_of("a", "b", "c") == {"r1"} and len(world.where()) == 4


def test_of_racks_that_hold_the_gang_the_fullest_wins() -> None:
    """In use with the gang: 3 of 4, 3 of 6; the third rack is too small."""
    world = RackWorld()
    world.racks(r2=3, r1=2, r3=1)
    world.rack_group(min_count=3)
    world.members("a", "b", "c")
    assert world.racks_of("a", "b", "c") == {"r1"}


def test_pods_that_run_count_for_how_full_a_rack_is() -> None:
    """In use with the gang: 3 of 4, 5 of 6, 4 of 6; the fourth rack is too small."""
    world = RackWorld()
    world.racks(r1=2, r2=3, r3=3, r4=1)
    world.running("old-2", "r2-1", "2")
    world.running("old-3", "r3-3", "1")
    world.rack_group(min_count=3)
    world.members("a", "b", "c")
    assert world.racks_of("a", "b", "c") == {"r2"}


def test_two_gangs_take_a_rack_each() -> None:
    world = RackWorld()
    world.racks(r1=3, r2=2)
    world.rack_group("first", min_count=3)
    world.members("a", "b", "c", group="first", cpu="2")
    world.rack_group("second", min_count=2)
    world.members("d", "e", group="second")
    assert (world.racks_of("a", "b", "c"), world.racks_of("d", "e")) == ({"r1"}, {"r2"})


def test_two_gangs_share_a_rack_where_both_fit() -> None:
    world = RackWorld()
    world.racks(r1=3, r2=1)
    world.rack_group("first", min_count=2)
    world.members("a", group="first", cpu="2")
    world.members("b", group="first")
    world.rack_group("second", min_count=3)
    world.members("c", "d", "e", group="second")
    assert len(world.where()) == 5
    assert world.racks_of("a", "b", "c", "d", "e") == {"r1"}


def test_each_gang_has_the_level_that_it_names() -> None:
    world = RackWorld()
    world.racks(r1=2, r2=1, zone="z1")
    world.racks(r3=3, zone="z2")
    world.rack_group("first", min_count=3, key="rack")
    world.members("a", "b", "c", group="first", cpu="2")
    world.rack_group("second", min_count=3, key="zone")
    world.members("d", "e", "f", group="second", cpu="2")
    assert (world.racks_of("a", "b", "c"), world.racks_of("d", "e", "f")) == ({"r3"}, {"r1", "r2"})


def test_a_second_gang_that_does_not_fit_leaves_the_first_alone() -> None:
    world = RackWorld()
    world.racks(r1=2)
    world.rack_group("first", min_count=3)
    world.members("a", "b", "c", group="first")
    world.rack_group("second", min_count=2)
    world.members("d", "e", group="second")
    assert set(world.where()) == {"a", "b", "c"}
    assert world.group_says("second") == unavailable(1, too_few(2, 1, 0))


def test_members_beyond_the_minimum_go_to_the_same_rack_or_nowhere() -> None:
    world = RackWorld()
    world.racks(r1=3, r2=2, r3=1)
    world.rack_group(min_count=3)
    world.members("a", "b", "c")
    assert world.racks_of("a", "b", "c") == {"r2"}
    world.members("d")
    assert world.racks_of("a", "b", "c", "d") == {"r2"} and "d" in world.where()
    world.members("e")
    assert "e" not in world.where()
    assert world.said("e").startswith("0/2 nodes are available: 2 Insufficient cpu.")
    assert world.group_says() == SCHEDULED


@pytest.mark.parametrize("key", ["rack", None])
def test_v137_13_4_a_gang_may_evict_with_constraints_and_without(key: str | None) -> None:
    world = RackWorld()
    world.racks(r1=2)
    world.running("old", "r1-2", "2", priority=-10)
    world.rack_group(min_count=3, key=key, priority=100)
    world.members("a", "b", "c", priority=100)
    world.wait(15)
    assert set(world.where()) == {"a", "b", "c"}


def test_v137_13_4_a_gang_evicts_in_one_rack_alone() -> None:
    """Both racks are full, and either could be freed. Units come back in the order of their importance."""
    world = RackWorld()
    world.racks(r1=2, r2=2)
    for node, priority in (("r1-1", 5), ("r1-2", 5), ("r2-1", 1), ("r2-2", 1)):
        world.running(f"old-{node}", node, "2", priority=priority)
    world.rack_group(min_count=2, priority=100)
    world.members("a", "b", cpu="2", priority=100)
    world.wait(15)
    assert len(world.racks_of("a", "b")) == 1
    other = ({"r1", "r2"} - world.racks_of("a", "b")).pop()
    assert {name for name in world.where() if name.startswith("old")} == {f"old-{other}-1", f"old-{other}-2"}


def test_a_gang_without_constraints_has_one_placement() -> None:
    world = RackWorld()
    world.racks(r1=1, r2=1)
    world.rack_group(min_count=3, key=None)
    world.members("a", "b", "c", cpu="2")
    assert world.where() == {}
    assert world.group_says() == unavailable(1, too_few(3, 2, 0))


def test_a_basic_group_takes_one_rack_of_several() -> None:
    world = RackWorld()
    world.racks(r1=2, r2=2)
    world.racks(r3=2, zone="z2")
    world.rack_group()
    world.members("a", "b", "c")
    assert len(world.where()) == 3 and len(world.racks_of("a", "b", "c")) == 1


def test_of_a_basic_group_only_what_one_rack_holds_goes() -> None:
    world = RackWorld()
    world.racks(r1=1, r2=1)
    world.rack_group()
    world.members("a", "b", "c")
    assert set(world.where()) == {"a", "b"} and len(world.racks_of("a", "b")) == 1
    assert world.said("c").startswith("0/1 nodes are available: 1 Insufficient cpu.")
    world.wait(30)
    assert "c" not in world.where()


def test_a_basic_group_of_which_nothing_fits_waits() -> None:
    world = RackWorld()
    world.racks(r1=1, r2=1)
    world.rack_group()
    world.members("a", "b", cpu="3")
    assert world.where() == {}
    assert world.group_says() == unavailable(2, too_few(1, 0, 0))


def test_members_that_fit_no_node_do_not_stop_the_others_of_a_basic_group() -> None:
    world = RackWorld()
    world.racks(r1=1, r2=1)
    world.rack_group()
    world.driver.create(a_member("a", cpu="3"))
    world.members("b")
    assert set(world.where()) == {"b"}


def test_the_rack_that_holds_more_members_wins_over_the_fuller_one() -> None:
    """Two of four members fit into r1, which is full then; r2 holds three."""
    world = RackWorld()
    world.racks(r1=1, cpu="2")
    world.racks(r2=3, cpu="1")
    world.rack_group(min_count=2)
    world.members("a", "b", "c", "d")
    assert len(world.where()) == 3 and world.racks_of("a", "b", "c", "d") == {"r2"}


def test_a_label_that_no_node_has_is_no_placement() -> None:
    world = RackWorld()
    world.racks(r1=2)
    world.rack_group(min_count=2, key="row")
    world.members("a", "b")
    assert world.where() == {}
    assert [world.said(name) for name in "ab"] == ["no feasible placements found"] * 2
    assert world.group_says() == [(CONDITION, "False", "Unschedulable", f"no feasible placements found, {NO_VICTIMS}")]


def test_members_in_two_racks_are_an_error_of_the_group() -> None:
    world = RackWorld()
    world.racks(r1=1, r2=1)
    world.rack_group(min_count=2)
    world.running("a", "r1-1", schedulingGroup={"podGroupName": "gang"})
    world.running("b", "r2-1", schedulingGroup={"podGroupName": "gang"})
    world.members("c")
    text = "cannot determine domain for already scheduled pods: more than 1 domain found for pod group: r1, r2"
    assert world.said("c") == text
    assert world.group_says() == [(CONDITION, "False", "SchedulerError", text)]


def test_without_the_gate_constraints_are_ignored() -> None:
    world = RackWorld(GROUP_GATES)
    world.racks(r1=1, r2=1)
    world.rack_group(min_count=2)
    world.members("a", "b", cpu="2")
    assert set(world.where().values()) == {"r1-1", "r2-1"}


def test_plugin_calls_are_counted_by_extension_point() -> None:
    world = RackWorld()
    world.racks(r1=2, r2=2)
    world.rack_group(min_count=2)
    world.members("a", "b")
    calls = world.metrics.registry.histogram("scheduler_plugin_execution_duration_seconds")
    counted = {labels[:2] for labels, series in calls.items() if labels[1].startswith("Placement")}
    assert counted == {
        ("GangScheduling", "PlacementFeasible"),
        ("TopologyPlacementGenerator", "PlacementGenerate"),
        ("NodeResourcesFit", "PlacementScore"),
        ("PodGroupPodsCount", "PlacementScore"),
        ("PodGroupPodsCount", "PlacementScoreExtensionNormalize"),
    }
    points = world.metrics.registry.histogram("scheduler_framework_extension_point_duration_seconds")
    assert {labels[0] for labels, _ in points.items()} >= {"PlacementGenerate", "PlacementScore"}


def test_the_gate_adds_the_plugins_to_profiles() -> None:
    described = RackWorld(RACK_GATES).core.runners["default-scheduler"].profile.describe()
    assert described["placementGenerate"] == ["TopologyPlacementGenerator"]
    assert described["placementScore"] == ["NodeResourcesFit*1", "PodGroupPodsCount*1"]
    without = RackWorld(GROUP_GATES).core.runners["default-scheduler"].profile.describe()
    assert not {"placementGenerate", "placementScore"} & without.keys()


# ---- what a trial in each placement leaves behind


class Noting(ReservePlugin):
    """Notes who holds room where."""

    name = "Noting"

    def __init__(self) -> None:
        self.held: dict[str, str] = {}
        self.calls: list[str] = []

    def reserve(self, context: SchedulingContext, node_name: str) -> Rejection | None:
        assert context.pod.name not in self.held
        self.held[context.pod.name] = node_name
        self.calls.append(node_name)
        return None

    def unreserve(self, context: SchedulingContext, node_name: str) -> None:
        assert self.held.pop(context.pod.name) == node_name


def test_reserve_is_undone_in_all_placements_but_the_chosen_one() -> None:
    world = RackWorld()
    profile = world.core.runners["default-scheduler"].profile
    noting = Noting()
    profile.reserves += (noting,)
    world.core.runners["default-scheduler"].binding_plugins += (noting,)
    world.racks(r1=2, r2=3, r3=1)
    world.rack_group(min_count=3)
    world.driver.create(a_member("a", cpu="2"))
    world.members("b", "c")
    assert world.racks_of("a", "b", "c") == {"r1"}
    assert noting.held == world.where()
    # two fit into r3, which is not enough
    assert {node.partition("-")[0] for node in noting.calls} == {"r1", "r2", "r3"}
    world.rack_group("late", min_count=3, priority=100)
    before = dict(noting.held)
    world.members("d", "e", "f", group="late", cpu="2", priority=100)
    assert world.racks_of("d", "e", "f") == {"r2"}
    world.rack_group("lost", min_count=2)
    world.members("g", "h", group="lost", cpu="2")
    assert noting.held == world.where() == {**before, **{name: world.where()[name] for name in "def"}}


def test_a_member_that_was_promised_a_node_elsewhere_follows_its_group() -> None:
    world = RackWorld()
    world.racks(r1=1, r2=2)
    world.rack_group(min_count=3)
    world.driver.create(a_member("a", status={"nominatedNodeName": "r1-1"}))
    world.members("b", "c")
    assert len(world.where()) == 3 and world.racks_of("a", "b", "c") == {"r2"}


@pytest.mark.parametrize(
    ("racks", "running", "low", "rack"),
    [
        pytest.param(
            *({"r1": 2, "r2": 3, "r3": 1}, {}, {"r1-1": 2, "r2-1": 2, "r2-2": 2}, "r1"),
            id="in use with the gang: 3 of 4, 3 of 6",
        ),
        pytest.param(
            *({"r1": 2, "r2": 3, "r3": 3, "r4": 1}, {"r2-1": 2, "r3-3": 1}),
            *({"r1-1": 2, "r2-2": 2, "r3-1": 2, "r3-3": 1}, "r2"),
            id="in use with the gang: 3 of 4, 5 of 6, 4 of 6",
        ),
    ],
)
def test_v137_13_4_a_gang_evicts_in_the_fullest_rack(
    racks: dict[str, int], running: dict[str, int], low: dict[str, int], rack: str
) -> None:
    world = RackWorld()
    for name, count in racks.items():
        more: dict[str, Any] = {name: count}
        world.racks(**more)
    for node, cpu in running.items():
        world.running(f"old-{node}", node, str(cpu), priority=200)
    for node, cpu in low.items():
        world.running(f"low-{node}", node, str(cpu), priority=10)
    world.rack_group(min_count=3, priority=200)
    world.members("a", "b", "c", priority=200)
    world.wait(5)
    assert world.racks_of("a", "b", "c") == {rack} and set("abc") <= set(world.where())
    left = {f"low-{node}" for node in low} - set(world.where())
    assert left == {f"low-{node}" for node in low if node.startswith(rack)}


def test_v137_13_4_a_member_that_comes_later_evicts_in_the_rack_of_its_gang() -> None:
    world = RackWorld()
    world.racks(r1=3, r2=2, r3=1)
    world.running("low", "r2-2", priority=10)
    world.rack_group(min_count=3, priority=200)
    world.members("a", "b", "c", priority=200)
    assert world.racks_of("a", "b", "c") == {"r2"} and "low" in world.where()
    world.members("d", priority=200)
    world.wait(5)
    assert world.racks_of("a", "b", "c", "d") == {"r2"} and sorted(world.where()) == ["a", "b", "c", "d"]
    world.members("e", priority=200)
    world.wait(20)
    assert sorted(world.where()) == ["a", "b", "c", "d"] and world.said("e")
