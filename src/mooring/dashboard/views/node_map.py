"""The map of nodes: which there are, and how full each is, as columns that fit in a few bytes a node; and how much of
the nodes is idle by real use, with the part of it that typical pods cannot get.
"""

from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import islice

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.answers.trial.node_prices import NO_PRICES, cost_of_nodes, node_price
from mooring.cluster.columns.labels import LabelColumns
from mooring.cluster.nodes.table import NodeTable
from mooring.dashboard.slices import Sliced
from mooring.inputs.offers.price_list import PriceList
from mooring.model.names import HOSTNAME, ZONE
from mooring.model.node import HARD_EFFECTS, Node
from mooring.model.pod import Pod
from mooring.rules.conditions import typed_condition
from mooring.sim.fragmentation import Floats, TypicalRequests, WeighedShape, idle_amounts, weighed_shapes
from mooring.sim.gauge import MAIN

NodesInUse = Mapping[str, tuple[int, int]]
"""By node: milli-cpu and bytes of memory that its pods really use."""
REQUESTS = 32
"""The most frequent requests of pods stand for all: each is compared with all nodes."""
NOWHERE = 1 << 60
"""The row of a node that the table does not have."""
"""Pods or nodes that are read in one step of a slice: some 0.5 ms."""


class IdleShare(msgspec.Struct, frozen=True, rename="camel"):
    """Shares of one resource, on the nodes whose use is known."""

    idle: float
    """Of what is allocatable, what is not in use."""
    out_of_reach: float | None
    """Of what is idle, what typical pods cannot get (`fragmentation_by_use`); null if no pod says what people run."""


def idle_shares(table: NodeTable, pods: Sequence[Pod], in_use: NodesInUse) -> Sliced[dict[str, IdleShare]]:
    """By resource; without those of which nothing is allocatable. The amounts of requests alone say where a pod fits."""
    shapes: list[WeighedShape] = []
    for start in range(0, len(pods), _STEP):
        shapes += weighed_shapes((pod, 1) for pod in pods[start : start + _STEP])
        yield
    rows: list[int] = []
    for name in (names := list(in_use)):
        rows.append(table.row_book.get(name, NOWHERE))
        if len(rows) % _STEP == 0:
            yield
    typical = TypicalRequests(shapes, MAIN, REQUESTS)
    yield
    used = _used_by_row(table, np.array(rows, np.intp), np.array([in_use[name] for name in names], np.float64))
    out_of_reach = typical.fragmentation_by_use(table, used)
    found: dict[str, IdleShare] = {}
    for name, amounts in used.items():
        total = table.amounts.allocatable[table.amounts.resource(name), : table.height][~np.isnan(amounts)].sum()
        if total:
            found[name] = IdleShare(float(idle_amounts(table, name, amounts).sum() / total), out_of_reach[name])
    return found


def _used_by_row(table: NodeTable, rows: NDArray[np.intp], amounts: Floats) -> dict[str, Floats]:
    """Use of each row, by resource; NaN where that is not known. Rows that the table no longer has are left out."""
    used = np.full((len(MAIN), table.height), np.nan)
    there = rows < table.height
    used[:, rows[there]] = amounts.reshape(-1, len(MAIN))[there].T
    return dict(zip(MAIN, used, strict=True))


# ---- Facts about a node that several views show.


def is_ready(node: Node) -> bool:
    """A node without the condition counts as ready: manifests have none."""
    condition = typed_condition(node.status.conditions, "Ready")
    return condition is None or condition.status == "True"


FIRST_LABELS = (
    ZONE,
    "node.kubernetes.io/instance-type",
    "cloud.google.com/gke-nodepool",
    "eks.amazonaws.com/nodegroup",
    "kubernetes.azure.com/agentpool",
    "karpenter.sh/nodepool",
    "pool",
)
"""Labels that people group nodes by; they come before others."""
MAX_LABELS, FEWEST_LABELS = 12, 3
MAX_LABEL_CELLS = 240_000
"""Nodes times labels: on 100,000 nodes only the first labels are shown, because the whole map is encoded at once."""
MAX_VALUES = 64
"""A label with more values makes no groups that one can look at."""
_TRIED_LABELS, _SAMPLED_NODES, _SAMPLED_LABELS = 48, 50, 200
"""How many labels are looked at for those with few values, and where: each node may have thousands of its own."""
_STEP = 500
"""Nodes that are read in one step of a slice: some 0.1 ms."""

FIRST_RESOURCES = ("cpu", "memory", "pods")
IN_USE = {"cpu in use": "cpu", "memory in use": "memory"}
"""Columns of real use beside requests, where a source of it is named."""
MAX_EXTENDED = 5
"""Extended resources that are shown, those that most nodes have."""
NONE_HERE = 255
"""In a column of use: the node has none of the resource."""
FULL = 200

Bytes = NDArray[np.uint8]


class LabelGroups(msgspec.Struct, frozen=True):
    """The values of a label, and for each node the position of its own. Nodes without the label have the empty value."""

    values: Sequence[str]
    of: Sequence[int]


class NodeMap(msgspec.Struct, frozen=True, rename="camel"):
    """The event `nodes`: what changes seldom."""

    version: int
    names: Sequence[str]
    resources: Sequence[str]
    labels: Mapping[str, LabelGroups]
    unschedulable: Sequence[int]
    not_ready: Sequence[int]
    tainted: Sequence[int]
    prices: Sequence[float | None] = ()
    """By node, the price of an hour; empty if none is known."""
    price_unit: str = ""


class ShownCost(msgspec.Struct, frozen=True):
    """The price of an hour of the nodes whose price is known."""

    total: float
    idle: float
    """The part of it that nothing is requested for (`cost_of_nodes`)."""
    nodes: int
    """How many nodes have a price."""


class NodeUseSample(msgspec.Struct, frozen=True):
    """The event `use`: how full each node is, in the order of `names`."""

    version: int
    time: str
    use: Mapping[str, str]
    """By resource, base64 of one byte a node: 0 to 200 in half percents, 255 where the node has none."""
    pods: str
    """base64 of 16-bit integers, little endian: the pods on each node."""
    cost: ShownCost | None = None
    """None: no price is known."""
    idle: Mapping[str, IdleShare] = {}
    """By resource, how much is idle by real use; empty where no source of it is named, or nothing is read yet."""


@dataclass(frozen=True, slots=True)
class MappedNodes:
    """A map, and the rows of the node table that it was made from."""

    map: NodeMap
    rows: NDArray[np.intp]
    prices: NDArray[np.float64]
    """NaN where none is known; empty if none is known at all."""


def map_nodes(
    table: NodeTable, version: int, *, shows_use: bool = False, prices: PriceList = NO_PRICES
) -> Sliced[MappedNodes]:
    """The map of the nodes that there are now; nodes that come or go meanwhile are in the next one. With `shows_use` it has
    columns of real use. `prices` come before those that nodes tell themselves."""
    rows = np.flatnonzero(table.alive[: table.height])
    held = list(table.nodes)
    resources = [*FIRST_RESOURCES, *(IN_USE if shows_use else ()), *_extended(table)]
    nodes: list[Node] = []
    names: list[str] = []
    unschedulable: list[int] = []
    not_ready: list[int] = []
    tainted: list[int] = []
    costs: list[float | None] = []
    for i, row in enumerate(rows.tolist()):
        node = held[row]
        assert node is not None, "a row that is alive has a node"
        nodes.append(node)
        names.append(node.name)
        if node.spec.unschedulable:
            unschedulable.append(i)
        if not is_ready(node):
            not_ready.append(i)
        if any(taint.effect in HARD_EFFECTS for taint in node.taints):
            tainted.append(i)
        costs.append(node_price(node, prices))
        if i % _STEP == 0:
            yield
    labels = yield from _label_groups(nodes, _candidates(nodes, table.labels))
    if not any(price is not None for price in costs):
        costs.clear()
    shown = NodeMap(version, names, resources, labels, unschedulable, not_ready, tainted, costs, prices.unit)
    return MappedNodes(shown, rows, np.array(costs, np.float64))


def _extended(table: NodeTable) -> list[str]:
    """The extended resources of most nodes. Asking for their places has the table count them from now on."""
    suppliers = table.amounts.suppliers()
    return nsmallest(MAX_EXTENDED, suppliers, lambda name: (-suppliers[name], name))


def _candidates(nodes: Sequence[Node], labels: LabelColumns) -> Iterator[str]:
    """Labels that may group the nodes: the well-known ones, then those that most nodes of a sample have."""
    yield from (key for key in FIRST_LABELS if labels.has(key))
    counts: Counter[str] = Counter()
    for node in nodes[:: max(len(nodes) // _SAMPLED_NODES, 1)]:
        counts.update(islice(node.labels, _SAMPLED_LABELS))
    for key in (HOSTNAME, *FIRST_LABELS):
        del counts[key]
    yield from nsmallest(_TRIED_LABELS, counts, lambda key: (-counts[key], key))


def _label_groups(nodes: Sequence[Node], keys: Iterator[str]) -> Sliced[dict[str, LabelGroups]]:
    """Group nodes by the values of labels, label by label, until the limit for the size of the map is reached. A label with
    too many values is left out."""
    found: dict[str, LabelGroups] = {}
    most = max(min(MAX_LABELS, MAX_LABEL_CELLS // max(len(nodes), 1)), FEWEST_LABELS)
    for key in keys:
        groups = yield from _groups_by(nodes, key)
        if groups is not None:
            found[key] = groups
        if len(found) == most:
            break
    return found


def _groups_by(nodes: Sequence[Node], key: str) -> Sliced[LabelGroups | None]:
    """The nodes by the value of a label; None if it has too many values."""
    codes: dict[str, int] = {}
    of: list[int] = []
    for start in range(0, len(nodes), _STEP):
        of += [codes.setdefault(node.labels.get(key, ""), len(codes)) for node in nodes[start : start + _STEP]]
        if len(codes) > MAX_VALUES:
            return None
        yield
    return LabelGroups(list(codes), of)


# ---- how full nodes are


def use_of(
    table: NodeTable,
    mapped: MappedNodes,
    time: str,
    in_use: Mapping[str, str] | None = None,
    idle: Mapping[str, IdleShare] | None = None,
) -> NodeUseSample:
    """How full the nodes of a map are now. `in_use` has the columns of real use."""
    resources, rows = mapped.map.resources, mapped.rows
    columns = {name: encoded(_use_column(table, name, rows)) for name in resources if name not in IN_USE}
    columns |= in_use or {}
    pods = np.minimum(table.pod_count[rows], 0xFFFF).astype("<u2")
    counts = b64encode(pods.tobytes()).decode()
    return NodeUseSample(mapped.map.version, time, columns, counts, _cost(table, mapped), idle or {})


def _cost(table: NodeTable, mapped: MappedNodes) -> ShownCost | None:
    if not len(mapped.prices):
        return None
    cost = cost_of_nodes(table, mapped.rows, mapped.prices)
    return ShownCost(round(cost.total, 6), round(cost.idle, 6), int(np.isfinite(mapped.prices).sum()))


def in_use_columns(table: NodeTable, mapped: MappedNodes, in_use: NodesInUse) -> dict[str, str]:
    """The columns of real use. A node that the source does not know has none."""
    known = np.array([name in in_use for name in mapped.map.names], bool)
    used = np.array([in_use.get(name, (0, 0)) for name in mapped.map.names], np.int64).reshape(-1, 2)
    columns = {}
    for i, (column, resource) in enumerate(IN_USE.items()):
        room = table.amounts.allocatable[table.amounts.resource(resource), mapped.rows]
        columns[column] = encoded(shares(used[:, i], np.where(known, room, 0)))
    return columns


def encoded(column: Bytes) -> str:
    return b64encode(column.tobytes()).decode()


def _use_column(table: NodeTable, resource: str, rows: NDArray[np.intp]) -> Bytes:
    if resource == "pods":
        return shares(table.pod_count[rows], table.allowed_pods[rows])
    place = table.amounts.resource(resource)
    return shares(table.amounts.requested[place, rows], table.amounts.allocatable[place, rows])


def shares(requested: NDArray[np.int64], allocatable: NDArray[np.int64]) -> Bytes:
    """Half percents of what is allocatable, rounded down; more than all of it counts as all.

    | requested   | 0 | 1   | 3   | 9   | 0   |
    | allocatable | 4 | 400 | 4   | 4   | 0   |
    | share       | 0 | 0   | 150 | 200 | 255 |
    """
    parts = np.minimum(requested / np.maximum(allocatable, 1), 1.0) * FULL
    return np.where(allocatable > 0, parts.astype(np.uint8), np.uint8(NONE_HERE)).astype(np.uint8)
