"""CompositePodGroups with topology constraints, and in the queue (v1.37, 15 and 5.4): upstream's integration tests as
scenarios."""

from dataclasses import dataclass, field

import pytest
from test_composite_groups import TreeWorld

from build import a_node
from gangs import a_group, a_member

Group = tuple[str, int | None, str | None, str | None]
"""Name, minimum, parent and topology key."""


@dataclass
class Case:
    """Nodes are named `zone/block/rack/number` and have two CPUs; pods of groups ask for one."""

    nodes: list[str]
    composites: list[Group]
    leaves: list[Group]
    pods: dict[str, int]
    others: dict[str, int] = field(default_factory=dict)
    """Node -> CPUs in use there."""
    running: dict[str, str] = field(default_factory=dict)
    """Group -> the node of a pod of it."""
    zone: str | None = None
    """The zone that all pods go to, if there is only one that will do; empty: none does."""


PAIR: list[Group] = [("pg1", 2, "root", None), ("pg2", 2, "root", None)]
RACKED: list[Group] = [("pg1", 2, "root", "rack"), ("pg2", 2, "root", "rack")]
FOUR = {"pg1": 2, "pg2": 2}
EIGHT = {f"pg{i}": 2 for i in range(1, 5)}


def four_leaves(key: str | None) -> list[Group]:
    return [(f"pg{i}", 2, f"sub{(i + 1) // 2}", key) for i in range(1, 5)]


def two_subs(minimum: int | None, key: str | None) -> list[Group]:
    return [(f"sub{i}", minimum, "root", key) for i in (1, 2)]


RACKS = ["z1/b/r1/1", "z1/b/r1/2", "z2/b/r2/1", "z2/b/r2/2"]
CASES = {
    "the root has a rack, its leaves any node in it": Case(
        RACKS, [("root", 2, None, "rack")], PAIR, FOUR, {"z2/b/r2/2": 2}, zone="z1"
    ),
    "a pod that runs decides on the rack of the root": Case(
        RACKS, [("root", 2, None, "rack")], PAIR, {"pg1": 1, "pg2": 2}, running={"pg1": "z2/b/r2/2"}, zone="z2"
    ),
    "no rack holds all leaves": Case(
        ["z1/b/r1/1", "z1/b/r2/1"],
        [("root", 2, None, "rack")],
        [("pg1", None, "root", None), ("pg2", None, "root", None)],
        {"pg1": 1, "pg2": 1},
        {"z1/b/r1/1": 1, "z1/b/r2/1": 1},
        {},
        "",
    ),
    "a zone for the root and racks for its leaves": Case(
        ["z1/b/r1/1", "z1/b/r2/1", "z2/b/r1/1", "z2/b/r1/2"],
        [("root", 2, None, "zone")],
        RACKED,
        FOUR,
        {"z2/b/r1/1": 1},
        {},
        "z1",
    ),
    "pods that run decide on zone and rack": Case(
        ["z1/b/r1/1", "z1/b/r2/1", "z1/b/r2/2", "z2/b/r1/1", "z2/b/r1/2"],
        [("root", 2, None, "zone")],
        RACKED,
        {"pg1": 1, "pg2": 2},
        {},
        {"pg1": "z1/b/r1/1"},
        "z1",
    ),
    "pods that run in two zones contradict the root": Case(
        ["z1/b/r1/1", "z1/b/r1/2", "z2/b/r1/1", "z2/b/r1/2"],
        [("root", 2, None, "zone")],
        RACKED,
        {"pg1": 1, "pg2": 1},
        {},
        {"pg1": "z1/b/r1/1", "pg2": "z2/b/r1/1"},
        "",
    ),
    "zone, block and rack": Case(
        ["z1/b1/r1/1", "z1/b1/r2/1", "z1/b2/r1/1", "z1/b2/r2/1", "z2/b1/r1/1", "z2/b1/r1/2"],
        [("root", 2, None, "zone"), *two_subs(2, "block")],
        four_leaves("rack"),
        EIGHT,
        zone="z1",
    ),
    "zone, nothing and rack": Case(
        ["z1/b/r1/1", "z1/b/r2/1", "z2/b/r1/1"],
        [("root", 2, None, "zone"), *two_subs(None, None)],
        [("pg1", 2, "sub1", "rack"), ("pg2", 2, "sub2", "rack")],
        FOUR,
        zone="z1",
    ),
    "nothing, zone and rack": Case(
        ["z1/b/r1/1", "z1/b/r2/1", "z2/b/r3/1", "z2/b/r4/1", "z2/b/r5/1"],
        [("root", None, None, None), *two_subs(2, "zone")],
        four_leaves("rack"),
        EIGHT,
    ),
    "zone, rack and nothing": Case(
        ["z1/b/r1/1", "z1/b/r1/2", "z1/b/r2/1", "z1/b/r2/2", "z2/b/r3/1", "z2/b/r3/2"],
        [("root", 2, None, "zone"), *two_subs(2, "rack")],
        four_leaves(None),
        EIGHT,
        zone="z1",
    ),
    "a pod of a leaf decides for the groups above it": Case(
        [f"{zone}/b/{rack}/{number}" for zone in ("z1", "z2") for rack in ("r1", "r2") for number in "12"],
        [("root", 2, None, "zone"), *two_subs(2, "rack")],
        four_leaves(None),
        {**EIGHT, "pg1": 1},
        {},
        {"pg1": "z2/b/r1/1"},
        "z2",
    ),
}


def domain(node: str, key: str | None) -> str:
    """The value of a label of a node; without a key all nodes are one domain."""
    return "" if key is None else node.split("/")[("zone", "block", "rack").index(key)]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("is_crowded", [False, True], ids=["free", "after preemption"])
def test_v137_15_where_the_groups_of_a_tree_go(case: Case, is_crowded: bool) -> None:
    """With and without pods of lower priority that take what is free: they leave."""
    world = TreeWorld()
    used = dict.fromkeys(case.nodes, 0)
    for node in case.nodes:
        labels = {key: domain(node, key) for key in ("zone", "block", "rack")}
        world.driver.create(a_node(node, cpu="2", labels=labels))
    for name, minimum, parent, key in case.composites:
        world.composite(name, minimum, parent, priority=100, **constraint(key))
    for name, minimum, parent, key in case.leaves:
        world.leaf(name, minimum, parent, priority=100, **constraint(key))
    for node, cpu in case.others.items():
        used[node] += cpu
        world.pod(f"other-{node}", cpu=str(cpu), priority=100, nodeName=node)
    for group, node in case.running.items():
        used[node] += 1
        world.driver.create(a_member(f"{group}-old", group, priority=100, nodeName=node))
    for node in case.nodes if is_crowded else ():
        world.pod(f"low-{node}", cpu=str(2 - used[node]), priority=1, nodeName=node)
    world.pods_of({group: ["1"] * count for group, count in case.pods.items()}, priority=100)
    world.wait(5)
    names = {group: [f"{group}-{number}" for number in range(count)] for group, count in case.pods.items()}
    where = {name: node for name, node in world.where().items() if name in {n for all_ in names.values() for n in all_}}
    if case.zone == "":
        assert where == {} and world.evicted == []
        return
    assert len(where) == sum(case.pods.values())
    assert case.zone is None or {domain(node, "zone") for node in where.values()} == {case.zone}
    below = {name: names[name] for name, *_ in case.leaves}
    for name, _, parent, key in (*case.leaves, *reversed(case.composites)):
        assert len({domain(where[pod], key) for pod in below[name]}) == 1
        below[parent or ""] = [*below.get(parent or "", []), *below[name]]


def constraint(key: str | None) -> dict[str, object]:
    return {} if key is None else {"schedulingConstraints": {"topology": [{"key": key}]}}


# ---- Trees in the queue


def test_v137_5_4_a_tree_waits_for_its_root_and_then_for_a_node() -> None:
    world = TreeWorld()
    world.leaf("pg1", 2, "mid")
    world.composite("mid", 1, "root")
    world.pods_of({"pg1": ["2", "2"]})
    assert {world.place(f"pg1-{number}") for number in range(2)} == {"incomplete"}
    world.composite("root", 1)
    assert world.where() == {} and world.said("pg1-0")
    world.node("n1", "10")
    world.wait(3)
    assert sorted(world.where()) == ["pg1-0", "pg1-1"]


@pytest.mark.parametrize("missing", ["group", "pod"])
def test_v137_5_4_the_last_group_or_pod_of_a_tree_wakes_it(missing: str) -> None:
    world = TreeWorld()
    world.node("n1", "10")
    world.composite("root", 2)
    world.leaf("pg1", 2, "root")
    if missing == "pod":
        world.leaf("pg2", 2, "root")
    world.pods_of({"pg1": ["2", "2"], "pg2": ["2"] if missing == "pod" else ["2", "2"]})
    assert {world.place(f"pg1-{number}") for number in range(2)} == {"gated"}
    assert world.place("pg2-0") == ("gated" if missing == "pod" else "incomplete")
    if missing == "pod":
        world.members("pg2-1", group="pg2", cpu="2")
    else:
        world.leaf("pg2", 2, "root")
    world.wait(2)
    assert sorted(world.where()) == ["pg1-0", "pg1-1", "pg2-0", "pg2-1"]


def test_v137_5_4_a_lower_minimum_of_a_leaf_wakes_its_tree() -> None:
    world = TreeWorld()
    world.node("n1", "10")
    world.composite("root", 1)
    world.composite("mid", 1, "root")
    world.leaf("pg1", 2, "mid")
    world.pods_of({"pg1": ["2"]})
    assert world.place("pg1-0") == "gated"
    world.driver.update(a_group("pg1", 1, uid="uid-pg1", parentCompositePodGroupName="mid"))
    world.wait(2)
    assert sorted(world.where()) == ["pg1-0"]
