"""How full a cluster is: what pods request of what nodes have, in all, by zone and by pool.

Cordoned nodes are left out with their pods: a drain would make a cluster look emptier than it is for new pods.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from mooring.answers.pools import pool_of, zone_of
from mooring.cluster.nodes.table import NodeTable
from mooring.model.node import Node

_SHOWN = 64
"""How many extended resources are counted: hostile input may have any number."""

Amounts = dict[str, tuple[int, int]]
"""By resource: (requested, allocatable), in the units of the node table: cpu in milli, memory in bytes."""


@dataclass(slots=True)
class GroupUse:
    """A zone, a pool, or the whole cluster."""

    nodes: int = 0
    """Without those that are cordoned."""
    cordoned: int = 0
    pods: int = 0
    amounts: Amounts = field(default_factory=dict)

    def add(self, names: Iterable[str], pods: int, requested: Iterable[int], allocatable: Iterable[int]) -> None:
        self.nodes += 1
        self.pods += pods
        for name, used, room in zip(names, requested, allocatable, strict=True):
            if used or room:
                held_used, held_room = self.amounts.get(name, (0, 0))
                self.amounts[name] = held_used + used, held_room + room

    def content(self) -> dict[str, Any]:
        amounts = {name: {"requested": used, "allocatable": room} for name, (used, room) in self.amounts.items()}
        return {"nodes": self.nodes, "cordonedNodes": self.cordoned, "pods": self.pods, "resources": amounts}


@dataclass(slots=True)
class Utilisation:
    """The use of a cluster at one moment."""

    total: GroupUse
    zones: dict[str, GroupUse]
    pools: dict[str, GroupUse]
    nodes: dict[str, GroupUse]
    """Each node alone."""


def utilisation_of(table: NodeTable) -> Utilisation:
    """The use of all nodes of the table that are there."""
    for name in table.amounts.supplied()[:_SHOWN]:
        table.amounts.resource(name)  # from now on the table counts it
    names = [*table.amounts.resource_book]
    places = [table.amounts.resource_book[name] for name in names]
    requested, allocatable = (
        matrix[places].T.tolist() for matrix in (table.amounts.requested, table.amounts.allocatable)
    )
    found = Utilisation(GroupUse(), {}, {}, {})
    for row in range(table.height):
        node = table.nodes[row]
        if node is None or not table.alive[row]:
            continue
        for group in (found.total, *_groups(found, node)):
            if table.unschedulable[row]:
                group.cordoned += 1
                continue
            group.add(names, len(table.pods_on[row]), requested[row], allocatable[row])
    return found


def _groups(found: Utilisation, node: Node) -> list[GroupUse]:
    """The groups of a node; they are made where they are missing."""
    keyed: list[tuple[dict[str, GroupUse], Callable[[Node], str]]] = [(found.zones, zone_of), (found.pools, pool_of)]
    chosen = [(groups, name) for groups, name_of in keyed if (name := name_of(node))]
    return [groups.setdefault(name, GroupUse()) for groups, name in (*chosen, (found.nodes, node.name))]
