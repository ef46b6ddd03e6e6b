"""Who leaves for a pod group or a composite group: plays the rows of `preemption_rows.py`."""

from collections.abc import Mapping

import numpy as np
import pytest
from preemption_rows import GROUPS, HOST, TREES, Row
from test_composite_groups import GATES, TreeWorld
from test_group_preemption import a_budget

from build import a_node, a_pod
from gangs import a_member
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.plain import NodeView, PlacementView, PlainPlugin, lift
from mooring.framework.contract.points import Codes, FilterPlugin, Plugin, ReservePlugin, Rows
from mooring.framework.contract.status import Rejection, curable
from mooring.model.pod import Pod
from mooring.model.workloads import AnyPodGroup


class Preferring(PlainPlugin):
    """Scores nodes, and placements by the mean of their nodes."""

    name = "Preferring"
    scores: Mapping[str, int]

    def score(self, pod: Pod, node: NodeView) -> int:
        return self.scores.get(node.name, 0)

    def score_placement(self, group: AnyPodGroup, placement: PlacementView) -> int:
        taken = [self.scores.get(node, 0) for node in placement.node_of.values()]
        return sum(taken) // len(taken) if taken else 0


class Slots(FilterPlugin, ReservePlugin):
    """Members hold one of a few slots from Reserve on; a pod with the label `slot` on a node holds one too."""

    name = "Slots"
    total: int

    def __init__(self, args: object, handle: object) -> None:
        self.held = 0

    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        if context.pod.spec.scheduling_group is None or "high" not in context.pod.name:
            return None
        asked = np.arange(context.nodes.height)[rows].tolist()
        taken = [sum("slot" in pod.labels for pod in context.nodes.pods_on[row]) for row in asked]
        return np.array([int(self.held + count >= self.total) for count in taken], np.int64)

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        return curable("already reserved")

    def reserve(self, context: SchedulingContext, node_name: str) -> None:
        self.held += "high" in context.pod.name

    def unreserve(self, context: SchedulingContext, node_name: str) -> None:
        self.held -= "high" in context.pod.name


def plugins_of(row: Row) -> list[type[Plugin]]:
    found: list[type[Plugin]] = []
    if row.prefer:
        found.append(lift(type("Preferring", (Preferring,), {"scores": row.prefer})))
    if row.slots is not None:
        found.append(type("Slots", (Slots,), {"total": row.slots}))
    return found


def a_written_pod(text: str, row: Row, when: str) -> Pod:
    words = text.split()
    name, cpu, priority, group, node = words + ["-", ""][len(words) - 3 :]
    about = {"cpu": cpu, "priority": int(priority), **row.more.get(when, {}), **row.more.get(name, {})}
    if node:
        about["nodeName"] = node
    if group != "-":
        return a_member(name, group, **about)
    return a_pod(name, schedulerName="default-scheduler", metadata={"uid": f"uid-{name}"}, **about)


def staged(row: Row) -> TreeWorld:
    world = TreeWorld({**GATES, **row.gates}, *plugins_of(row))
    for name, cpu in row.nodes.items():
        world.driver.create(a_node(name, cpu=cpu, labels={HOST: name, "rack": name.partition("-")[0]}))
    world.driver.create(a_budget())
    for name, (minimum, parent, priority, more) in row.trees.items():
        world.composite(name, minimum, parent, priority=priority, **more)
    for name, (minimum, parent, priority, more) in row.groups.items():
        world.leaf(name, minimum, parent, priority=priority, **more)
    for text in row.run:
        world.driver.create(a_written_pod(text, row, "run"))
        world.clock.advance_ns(1)
    world.wait(1)
    assert len(world.where()) == len(row.run)
    return world


@pytest.mark.parametrize("at_once", [True, False], ids=["at once", "one by one"])
@pytest.mark.parametrize("row", [*TREES.values(), *GROUPS.values()], ids=[*TREES, *GROUPS])
def test_v137_14_who_leaves_for_a_group(row: Row, at_once: bool) -> None:
    world = staged(row)
    if row.lost:
        world.driver.delete("CompositePodGroup", f"default/{row.lost}")
    for text in row.come:
        world.driver.create(a_written_pod(text, row, "come"))
        world.clock.advance_ns(1)
        if not at_once:
            world.wait(1)
    world.wait(40)
    running = {text.split()[0] for text in row.run}
    assert set(world.evicted) == row.leave
    assert set(world.where()) == row.placed | (running - row.leave)
    waiting = [pod for pod in world.driver.pods() if not pod.spec.node_name]
    assert {c.reason for pod in waiting for c in pod.status.conditions or ()} <= {"Unschedulable"}
    assert {bool(pod.status.conditions) for pod in waiting} <= {True}
