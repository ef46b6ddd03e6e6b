"""Pod groups with topology constraints that come one after another or grow (v1.37, 13.4 and 15): upstream's integration
tests as rows. A row is a list of steps; nodes have two CPUs."""

from dataclasses import dataclass, field

import pytest
from test_composite_groups import TreeWorld

from build import a_node
from gangs import a_member
from racks import RACK_GATES, RackWorld

TREE_GATES = {**RACK_GATES, "CompositePodGroup": True}


@dataclass
class Step:
    """A group comes if it is new, then its pods; then they are where the step says."""

    group: str
    key: str
    pods: dict[str, str]
    """Name -> CPUs."""
    racks: set[str]
    """The racks in which the pods of the group are, all of them together."""
    waiting: set[str] = field(default_factory=set)
    """The pods of the group that have no node."""


ROWS: dict[str, tuple[dict[str, int], list[Step]]] = {
    "the first takes the rack that it fills, the second another": (
        {"r1": 3, "r2": 1},
        [Step("a", "rack", {"a1": "1", "a2": "1"}, {"r2"}), Step("b", "rack", {"b1": "1", "b2": "1"}, {"r1"})],
    ),
    "both take the only rack": (
        {"r1": 3},
        [
            Step("a", "rack", {"a1": "1", "a2": "1"}, {"r1"}),
            Step("b", "rack", {"b1": "1", "b2": "1", "b3": "1"}, {"r1"}),
        ],
    ),
    "one has a rack, the other a zone": (
        {"r1": 1, "z2r2": 2, "z2r3": 2},
        [
            Step("a", "rack", {"a1": "1", "a2": "1"}, {"r1"}),
            Step("b", "zone", {"b1": "2", "b2": "2", "b3": "2"}, {"z2r2", "z2r3"}),
        ],
    ),
    "the first stays in the rack that became too small, the second has its choice": (
        {"r1": 2, "r2": 1},
        [
            Step("a", "rack", {"a1": "1"}, {"r2"}),
            Step("a", "rack", {"a2": "1", "a3": "1"}, {"r2"}, {"a3"}),
            Step("b", "rack", {"b1": "1", "b2": "1", "b3": "1"}, {"r1"}),
        ],
    ),
}


@pytest.mark.parametrize("gates", [RACK_GATES, TREE_GATES], ids=["without composite groups", "with composite groups"])
@pytest.mark.parametrize(("racks", "steps"), ROWS.values(), ids=ROWS)
def test_v137_13_4_basic_groups_one_after_another(
    racks: dict[str, int], steps: list[Step], gates: dict[str, bool]
) -> None:
    world = RackWorld(gates)
    for rack, count in racks.items():
        world.racks("2", "z2" if rack.startswith("z2") else "z1", **{rack: count})
    pods: dict[str, set[str]] = {}
    for step in steps:
        if step.group not in pods:
            world.rack_group(step.group, None, step.key)
        for name, cpu in step.pods.items():
            world.driver.create(a_member(name, step.group, cpu=cpu))
            world.clock.advance_ns(1)
        world.wait(5)
        known = pods.setdefault(step.group, set()) | set(step.pods)
        pods[step.group] = known
        assert known - set(world.where()) == step.waiting
        assert world.racks_of(*known) <= step.racks
        assert all(world.said(name) for name in step.waiting)


@pytest.mark.parametrize("gates", [RACK_GATES, TREE_GATES], ids=["without composite groups", "with composite groups"])
def test_v137_13_4_a_basic_group_grows_in_its_rack_when_there_is_room(gates: dict[str, bool]) -> None:
    world = RackWorld(gates)
    world.racks(r1=1, r2=1)
    world.running("other", "r1-1")
    world.rack_group("a", None, "rack")
    world.members("a1", group="a")
    assert world.racks_of("a1") == {"r1"}, "the rack that it fills"
    world.members("a2", group="a")
    world.wait(5)
    assert "a2" not in world.where()
    world.delete("other")
    world.wait(10)
    assert world.racks_of("a1", "a2") == {"r1"} and len(world.where()) == 2


def a_tree_world(*nodes: str, tainted: str = "") -> TreeWorld:
    """Nodes are written `zone/rack`; a root with two leaves, of which the first has a rack of its own."""
    world = TreeWorld()
    for name in nodes:
        zone, rack = name.split("/")
        taints = ["only:NoSchedule"] if name == tainted else []
        world.driver.create(a_node(name, cpu="2", labels={"zone": zone, "rack": rack}, taints=taints))
    world.composite("root", 2, priority=100, schedulingConstraints={"topology": [{"key": "zone"}]})
    return world


def in_the_way(world: TreeWorld, name: str, node: str, cpu: str, priority: int = 100) -> None:
    world.pod(name, cpu=cpu, nodeName=node, priority=priority)


@pytest.mark.parametrize("is_crowded", [False, True])
def test_v137_15_a_leaf_without_a_constraint_follows_the_zone_of_its_sibling(is_crowded: bool) -> None:
    """Two members fit only on the tainted node of z1; the others would rather be in z2."""
    world = a_tree_world("z1/r1", "z1/r2", "z1/r3", "z2/r1", "z2/r2", tainted="z1/r1")
    for name, node in (("x", "z2/r2"), ("y", "z1/r2"), ("z", "z1/r3")):
        in_the_way(world, name, node, "1")
    if is_crowded:
        in_the_way(world, "low", "z1/r1", "2", 10)
    world.leaf("pg1", 2, "root", priority=100, schedulingConstraints={"topology": [{"key": "rack"}]})
    world.leaf("pg2", 2, "root", priority=100)
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["z2/r1"]}]}
    wish = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 100, "preference": term}]}}
    for name in ("p1", "p2"):
        world.driver.create(a_member(name, "pg1", priority=100, tolerations=[{"key": "only", "operator": "Exists"}]))
    for name in ("p3", "p4"):
        world.driver.create(a_member(name, "pg2", priority=100, affinity=wish))
    world.wait(10)
    where = world.where()
    assert {where[name] for name in ("p1", "p2")} == {"z1/r1"}
    assert {where[name] for name in ("p3", "p4")} == {"z1/r2", "z1/r3"}
    assert world.evicted == (["low"] if is_crowded else [])


def test_v137_15_a_leaf_that_comes_later_evicts_in_the_zone_of_its_tree_alone() -> None:
    world = a_tree_world("z1/r1", "z1/r2", "z1/r3", "z2/r1", "z2/r4")
    in_the_way(world, "low-z1", "z1/r3", "2", 10)
    in_the_way(world, "low-z2", "z2/r4", "2", 10)
    rack = {"topology": [{"key": "rack"}]}
    for names in (("pg1", "pg2"), ("pg3",), ("pg4",)):
        for name in names:
            world.leaf(name, 2, "root", priority=100, schedulingConstraints=rack)
        world.pods_of({name: ["1", "1"] for name in names}, priority=100)
        world.wait(10)
        if names == ("pg1", "pg2"):
            assert (world.evicted, world.groups_on_nodes() >= {"pg1", "pg2"}) == ([], True)
    assert world.evicted == ["low-z1"]
    assert world.groups_on_nodes() >= {"pg1", "pg2", "pg3"}
    assert not {"pg4-0", "pg4-1"} & set(world.where())
    assert all(world.said(f"pg4-{number}") for number in range(2))
