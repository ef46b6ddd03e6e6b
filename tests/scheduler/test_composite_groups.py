"""CompositePodGroups (v1.37, 15): a tree of groups waits, is scheduled and preempted as one.

The first table has the trees of upstream's integration test, in our words.
"""

from typing import Any

import pytest

from build import a_node
from gangs import GangWorld, a_composite, a_group, a_member
from mooring.cluster.pods.pod_groups import GroupName
from mooring.framework.contract.points import Plugin
from mooring.plugins import in_tree

GATES = {"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True, "CompositePodGroup": True}
CONDITION = "PodGroupInitiallyScheduled"


class TreeWorld(GangWorld):
    """Groups are told by name, minimum and parent; pods by their group."""

    def __init__(self, gates: dict[str, bool] | None = None, *plugins: type[Plugin]) -> None:
        registry = in_tree()
        for plugin in plugins:
            registry.register(plugin)
        super().__init__(GATES if gates is None else gates, registry, enabled=[plugin.name for plugin in plugins])
        self.evicted: list[str] = []
        self.driver.on_evicted = lambda victim, preemptor: self.evicted.append(victim.name)

    def composite(self, name: str, min_count: int | None = None, parent: str | None = None, **spec: Any) -> None:
        self.driver.create(a_composite(name, min_count, parent, **spec))
        self.settle()

    def leaf(self, name: str, min_count: int | None = None, parent: str | None = None, **spec: Any) -> None:
        more = {} if parent is None else {"parentCompositePodGroupName": parent}
        self.driver.create(a_group(name, min_count, uid=f"uid-{name}", **more, **spec))
        self.settle()

    def pods_of(self, sizes: dict[str, list[str]], **more: Any) -> None:
        """All pods come before any of them is tried."""
        for group, cpus in sizes.items():
            for number, cpu in enumerate(cpus):
                self.driver.create(a_member(f"{group}-{number}", group, cpu=cpu, **more))
        self.settle()

    def groups_on_nodes(self) -> set[str]:
        """The groups of which all pods have a node, or some."""
        return {name.rpartition("-")[0] for name in self.where()}


FITS, FAILS = ["1", "1", "1"], ["100", "1", "1"]
Tree = list[tuple[str, int | None, str | None]]
TREES: dict[str, tuple[Tree, Tree, dict[str, list[str]], set[str]]] = {
    "three levels": (
        [("root", 2, None), ("sub1", 2, "root"), ("sub2", None, "root"), ("sub3", 2, "root")],
        [
            *(("pg1", 3, "sub1"), ("pg2", 3, "sub1"), ("pg3", 3, "sub1"), ("pg4", None, "sub2"), ("pg5", 3, "sub2")),
            *(("pg6", 3, "sub3"), ("pg7", 3, "sub3")),
        ],
        {f"pg{i}": FAILS if i in (3, 7) else FITS for i in range(1, 8)},
        {"pg1", "pg2", "pg4", "pg5"},
    ),
    "as many groups as the minimum": (
        [("root", 2, None)],
        [("pg1", 3, "root"), ("pg2", 3, "root"), ("pg3", 3, "root")],
        {"pg1": FITS, "pg2": FITS, "pg3": FAILS},
        {"pg1", "pg2"},
    ),
    "fewer groups than the minimum": (
        [("root", 2, None)],
        [("pg1", 3, "root"), ("pg2", 3, "root"), ("pg3", 3, "root")],
        {"pg1": FITS, "pg2": FAILS, "pg3": FAILS},
        set(),
    ),
    "a basic group of gangs": (
        [("root", None, None)],
        [("pg1", 3, "root"), ("pg2", 3, "root")],
        {"pg1": FITS, "pg2": FAILS},
        {"pg1"},
    ),
    "a basic group of basic groups, one of which fits in part": (
        [("root", None, None)],
        [("pg1", None, "root"), ("pg2", None, "root")],
        {"pg1": ["1"], "pg2": ["100", "1"]},
        {"pg1", "pg2"},
    ),
    "a gang of basic groups, one of which does not fit": (
        [("root", 2, None)],
        [("pg1", None, "root"), ("pg2", None, "root")],
        {"pg1": ["1"], "pg2": ["100"]},
        set(),
    ),
}


@pytest.mark.parametrize(("composites", "leaves", "pods", "placed"), TREES.values(), ids=TREES.keys())
def test_v137_15_which_groups_of_a_tree_go(
    composites: Tree, leaves: Tree, pods: dict[str, list[str]], placed: set[str]
) -> None:
    world = TreeWorld()
    world.node("n1", "20")
    for name, minimum, parent in composites:
        world.composite(name, minimum, parent)
    for name, minimum, parent in leaves:
        world.leaf(name, minimum, parent)
    world.pods_of(pods)
    assert world.groups_on_nodes() == placed
    world.wait(30)
    assert world.groups_on_nodes() == placed
    assert world.core.cache.assumed_count == 0


def test_v137_15_what_the_leaves_of_a_tree_say() -> None:
    world = TreeWorld()
    world.node("n1", "20")
    world.composite("root", 2)
    for name in ("pg1", "pg2"):
        world.leaf(name, 3, "root")
    world.pods_of({"pg1": FITS, "pg2": FAILS})
    preemption = "pod group preemption: No preemption victims found for incoming preemptor"
    status = "minCount (2) cannot be satisfied: 1 scheduled, 0 remaining"
    root = f"pod group is unschedulable, 0/1 placements are available, first placement status: {status}"
    own = "minCount (3) cannot be satisfied: 0 scheduled, 2 remaining"
    leaf = f"pod group is unschedulable, 0/1 placements are available, first placement status: {own}"
    # Parity: pg1, which fits, has the status of the root itself, so the reason of preemption is added to it twice.
    assert world.group_says("pg1") == [(CONDITION, "False", "Unschedulable", f"{root}, {preemption}, {preemption}")]
    assert world.group_says("pg2") == [(CONDITION, "False", "Unschedulable", f"{leaf}, {preemption}")]
    assert {world.said(f"pg1-{i}") for i in range(3)} == {root}
    assert world.said("pg2-0") == "0/1 nodes are available: 1 Insufficient cpu."


def test_v137_15_a_tree_waits_for_its_quorum_and_for_its_groups() -> None:
    world = TreeWorld()
    world.node("n1", "20")
    world.leaf("pg1", 2, "root")
    world.pods_of({"pg1": ["1", "1"]})
    assert world.place("pg1-0") == "incomplete", "the root does not exist"
    world.composite("root", 2)
    assert (world.place("pg1-0"), world.gate("pg1-0")) == (
        "gated",
        'waiting for composite pod group "root" tree to meet quorum',
    )
    world.leaf("pg2", 1, "root")
    assert world.place("pg1-0") == "gated"
    world.pods_of({"pg2": ["1"]})
    assert world.groups_on_nodes() == {"pg1", "pg2"}


def test_v137_15_a_composite_group_that_is_deleted_leaves_its_tree_incomplete() -> None:
    world = TreeWorld()
    world.composite("root", 1)
    world.leaf("pg1", 1, "root")
    world.leaf("pg2", 1, "root")
    world.pods_of({"pg1": ["1"], "pg2": ["1"]})
    assert world.place("pg1-0") == world.place("pg2-0") == "backoff"
    world.driver.delete("CompositePodGroup", "default/root")
    world.driver.settle()
    assert (world.place("pg1-0"), world.place("pg2-0")) == ("incomplete", "incomplete")
    assert world.scheduler.check() == []
    world.composite("root", 1)
    world.node("n1", "4")
    world.wait(5)
    assert world.groups_on_nodes() == {"pg1", "pg2"}


def test_v137_15_a_leaf_that_is_deleted_goes_alone() -> None:
    world = TreeWorld()
    world.composite("root", 1)
    world.leaf("pg1", 1, "root")
    world.leaf("pg2", 1, "root")
    world.pods_of({"pg1": ["1"], "pg2": ["1"]})
    world.driver.delete("PodGroup", "default/pg2")
    world.driver.settle()
    assert (world.place("pg1-0"), world.place("pg2-0")) == ("backoff", "incomplete")
    assert world.scheduler.check() == []


def test_v137_15_groups_in_a_cycle_have_no_root() -> None:
    world = TreeWorld()
    world.composite("a", 1, "b")
    world.composite("b", 1, "a")
    world.leaf("pg", 1, "a")
    world.pods_of({"pg": ["1"]})
    assert world.place("pg-0") == "incomplete"
    assert world.core.cluster.group_tree.root_of(GroupName("default/pg")) is None


def test_v137_15_the_groups_of_a_tree_go_to_one_domain_and_each_to_one_within_it() -> None:
    world = TreeWorld()
    for zone in ("z1", "z2"):
        for rack in ("r1", "r2"):
            size = "4" if zone == "z2" else "2"
            labels = {"zone": zone, "rack": f"{zone}-{rack}"}
            world.driver.create(a_node(f"{zone}-{rack}", cpu=size, labels=labels))
    world.composite("root", 2, schedulingConstraints={"topology": [{"key": "zone"}]})
    for name in ("pg1", "pg2"):
        world.leaf(name, 3, "root", schedulingConstraints={"topology": [{"key": "rack"}]})
    world.pods_of({"pg1": FITS, "pg2": FITS})
    where = world.where()
    assert {node.partition("-")[0] for node in where.values()} == {"z2"}
    racks = [{where[f"{group}-{i}"] for i in range(3)} for group in ("pg1", "pg2")]
    assert all(len(rack) == 1 for rack in racks) and racks[0] != racks[1]


def test_v137_15_siblings_do_without_the_room_of_those_before_them() -> None:
    world = TreeWorld()
    world.node("n1", "4")
    world.composite("root", 2)
    for name in ("pg1", "pg2"):
        world.leaf(name, 3, "root")
    world.pods_of({"pg1": FITS, "pg2": FITS})
    assert world.where() == {}
    assert world.held_milli() == {"n1": 0}
    world.node("n2", "4")
    world.wait(5)
    assert world.groups_on_nodes() == {"pg1", "pg2"}


@pytest.mark.parametrize(
    ("root_mode", "leaf_mode", "evicted"),
    [
        ("all", "single", {"low1-0", "low2-0"}),
        ("single", "all", {"low2-0"}),
        ("single", "single", {"low2-0"}),
    ],
)
def test_v137_15_the_highest_group_with_mode_all_leaves_as_one(
    root_mode: str, leaf_mode: str, evicted: set[str]
) -> None:
    world = TreeWorld()
    world.node("n1", "1")
    world.node("n2", "1")
    world.composite("low", 2, disruptionMode={root_mode: {}}, priority=10)
    for name in ("low1", "low2"):
        world.leaf(name, 1, "low", disruptionMode={leaf_mode: {}}, priority=10)
    world.pods_of({"low1": ["1"], "low2": ["1"]}, priority=10)
    assert len(world.where()) == 2
    world.composite("high", 1, priority=100)
    world.leaf("pg", 1, "high", priority=100)
    world.pods_of({"pg": ["1"]}, priority=100)
    world.wait(5)
    assert "pg-0" in world.where()
    assert len(world.evicted) == len(evicted)
    notes = {event.note for event in world.driver.events if event.reason == "Preempted"}
    assert notes == {"Preempted by compositepodgroup uid-high on node cluster"}


def test_v137_15_without_the_gate_parents_do_not_count() -> None:
    world = TreeWorld({"GenericWorkload": True, "TopologyAwareWorkloadScheduling": True})
    world.node("n1", "4")
    world.leaf("pg", 1, "missing")
    world.pods_of({"pg": ["1"]})
    assert world.groups_on_nodes() == {"pg"}


def test_v137_13_1_the_priority_of_the_root_counts() -> None:
    world = TreeWorld()
    world.node("n1", "4")
    world.composite("root", 1, priority=7)
    world.leaf("pg", 1, "root", priority=3)
    world.pods_of({"pg": ["1"]}, priority=3)
    rule = "all pods in a single pod group should have the same priority as the pod group's priority"
    assert world.group_says("pg") == [(CONDITION, "False", "SchedulerError", f"{rule}, got 3 and 7")]
