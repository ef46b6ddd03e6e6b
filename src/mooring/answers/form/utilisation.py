"""How full a cluster is: what pods request of what nodes have, in all, by zone and by pool.

Cordoned nodes are left out with their pods: a drain would make a cluster look emptier than it is for new pods.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.answers.form.published import Count, Form, Published
from mooring.cluster.nodes.table import NodeTable
from mooring.model.names import BETA_ZONE, ZONE
from mooring.model.node import Node
from mooring.model.quantity import show_percent
from mooring.sim.gauge import MAIN

# ---- Zones and pools of nodes: the groups by which answers add up what nodes have.


POOL_LABELS = (
    "karpenter.sh/nodepool",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "kubernetes.azure.com/agentpool",
    "agentpool",
    "doks.digitalocean.com/node-pool",
    "ibm-cloud.kubernetes.io/worker-pool-name",
    "k8s.scaleway.com/pool-name",
    "lke.linode.com/pool-id",
    "pool",
    "node.kubernetes.io/instance-type",
    "beta.kubernetes.io/instance-type",
)
"""The labels that name the pool of a node, the first that a node has. `pool` is what generated nodes have, and many that
people label themselves. The instance type is the last resort: a cluster without
pools has at least machines of some kinds."""


def zone_of(node: Node) -> str:
    """The zone of a node; empty if it has none."""
    return node.labels.get(ZONE) or node.labels.get(BETA_ZONE) or ""


def pool_of(node: Node) -> str:
    """The pool of a node; empty if no label names one."""
    labels = node.labels
    return next((labels[key] for key in POOL_LABELS if labels.get(key)), "")


FULLEST = 10
"""How many of the fullest nodes are shown."""
_SHOWN = 64
"""How many extended resources are counted: hostile input may have any number."""

Amounts = dict[str, tuple[int, int]]
"""By resource: (requested, allocatable), in the units of the node table: cpu in milli, memory in bytes."""
Floats = NDArray[np.float64]


class ResourceForm(Form, frozen=True):
    """An amount of one resource: cpu in milli-CPU, memory in bytes, other resources as counted."""

    requested: Count
    allocatable: Count


class UseForm(Form, frozen=True):
    """The use of a cluster."""

    nodes: Count
    """Nodes that are not cordoned."""
    cordoned: Count = msgspec.field(name="cordonedNodes")
    pods: Count
    resources: Mapping[str, ResourceForm]
    """By resource. Amounts are whole numbers: cpu in milli-CPU, memory in bytes, other resources as counted."""


class NamedUseForm(Form, frozen=True):
    """The use of a zone, a pool or a node."""

    name: str
    nodes: Count
    """Nodes that are not cordoned."""
    cordoned: Count = msgspec.field(name="cordonedNodes")
    pods: Count
    resources: Mapping[str, ResourceForm]


@dataclass(slots=True)
class GroupUse(Published):
    """A zone, a pool, a node, or the whole cluster."""

    form: ClassVar = UseForm
    nodes: int = 0
    cordoned: int = 0
    pods: int = 0
    amounts: Amounts = field(default_factory=dict)

    def share(self, resource: str) -> float | None:
        """The requested share; None where the group has nothing of the resource."""
        requested, allocatable = self.amounts.get(resource, (0, 0))
        return requested / allocatable if allocatable else None

    def told_share(self, resource: str) -> str:
        """The requested share for people: 31.2%; a dash for None."""
        return show_percent(self.share(resource))

    @property
    def resources(self) -> dict[str, ResourceForm]:
        """The amounts of each resource by name."""
        return {name: ResourceForm(*amounts) for name, amounts in self.amounts.items()}

    def named(self, name: str) -> NamedUseForm:
        """The published form of a group."""
        return NamedUseForm(name, self.nodes, self.cordoned, self.pods, self.resources)


@dataclass(slots=True)
class Utilisation:
    """The use of a cluster at one moment."""

    total: GroupUse
    zones: dict[str, GroupUse]
    pools: dict[str, GroupUse]
    fullest: dict[str, GroupUse]
    """The nodes with the largest share of cpu or memory, the fullest first."""


def utilisation_of(table: NodeTable) -> Utilisation:
    """The use of all nodes of the table that are there."""
    rows = [row for row in range(table.height) if table.alive[row] and table.nodes[row] is not None]
    sums = _RowSums(table, rows)
    nodes = [node for row in rows if (node := table.nodes[row]) is not None]
    zones = _grouped(sums, [zone_of(node) for node in nodes])
    pools = _grouped(sums, [pool_of(node) for node in nodes])
    total = _grouped(sums, ["all"] * len(nodes)).get("all", GroupUse())
    fullest = sums.fullest()
    by_name = _grouped(sums, [node.name if i in fullest else "" for i, node in enumerate(nodes)])
    return Utilisation(total, zones, pools, {nodes[i].name: by_name[nodes[i].name] for i in fullest})


class _RowSums:
    """The amounts that nodes have and that their pods request, as columns over the nodes that are there.

    Hot: sums of floats by group take 2 ms for 5,000 nodes, and a loop over nodes and resources 100 ms. Amounts up to 2^53
    are exact, which is eight pebibytes of memory.
    """

    def __init__(self, table: NodeTable, rows: Sequence[int]) -> None:
        table.amounts.places(table.amounts.supplied()[:_SHOWN])  # from now on the table counts them
        amounts = table.amounts
        self.names = [*amounts.resource_book]
        places = [amounts.resource_book[name] for name in self.names]
        self.requested: Floats = amounts.requested[np.ix_(places, rows)].astype(np.float64)
        self.allocatable: Floats = amounts.allocatable[np.ix_(places, rows)].astype(np.float64)
        self.cordoned = table.unschedulable[rows].astype(bool)
        self.pods = np.array([len(table.pods_on[row]) for row in rows], np.float64)

    def fullest(self) -> list[int]:
        """The nodes with the largest share of cpu or memory."""
        places = [place for place, name in enumerate(self.names) if name in MAIN]
        room = np.maximum(self.allocatable[places], 1)
        shares = (self.requested[places] / room).max(0) if places else np.zeros(len(self.pods))
        order = np.argsort(np.where(self.cordoned, 1.0, -shares), kind="stable")
        return [i for i in order[:FULLEST].tolist() if not self.cordoned[i]]


def _grouped(sums: _RowSums, names: Sequence[str]) -> dict[str, GroupUse]:
    """The sums of each group. Cordoned nodes are counted, and nothing else of them."""
    resources, is_open = len(sums.names), ~sums.cordoned
    counted = (np.where(is_open, column, 0) for column in (sums.pods, *sums.requested, *sums.allocatable))
    found = {}
    for name, (nodes, cordoned, pods, *amounts) in sums_by_group(names, (is_open, sums.cordoned, *counted)).items():
        pairs = zip(sums.names, amounts[:resources], amounts[resources:], strict=True)
        used = {resource: (round(held), round(room)) for resource, held, room in pairs if round(held) or round(room)}
        found[name] = GroupUse(round(nodes), round(cordoned), round(pods), used)
    return found


def sums_by_group(groups: Sequence[str], columns: Iterable[NDArray[Any]]) -> dict[str, list[float]]:
    """By the name of a group, in their order: the sum of each column over its rows. Rows without a name are in none."""
    names = sorted({*groups} - {""})
    number_of = {name: i for i, name in enumerate(names)}
    numbers = np.array([number_of.get(group, len(names)) for group in groups], np.int64)
    sums = [np.bincount(numbers, column, len(names) + 1).tolist() for column in columns]
    return {name: [each[i] for each in sums] for i, name in enumerate(names)}
