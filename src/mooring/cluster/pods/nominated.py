"""Pods that are nominated to a node but not on it yet: the room that they will take, as columns.

A pod must leave room for nominated pods of the same or a higher priority (upstream: addNominatedPods). Instead of
adding these pods to each node in turn, their sums by row are laid on top of the table.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.resource_amounts import MAX_SUM, Beyond, Resources, Rows, add_exactly, cells
from mooring.cluster.nodes.table import NodeTable
from mooring.cluster.tallies.tallies import PodTallies
from mooring.model.pod import Pod

# ---- Nominated pods as columns: what those of at least some priority will take on the rows that they are nominated
# to.
#
# Few rows have nominated pods, so an answer has these rows alone. It is added up for each question: priorities may
# differ from pod to pod, and sums that are kept for each of them would cost more than adding up.


Layout = tuple[int, int, int]
"""Changes when rows or resources get other places."""

_NO_ROW = -1
"""The row of a pod that is nominated to a node which the table does not know."""
_FIRST_CAPACITY = 16


class Crowd(NamedTuple):
    """Sum of the requests of nominated pods, and their number, by row. The caller must not write to it."""

    rows: NDArray[np.intp]
    """Each once, in any order."""
    requested: NDArray[np.int64]
    """Resources x rows, in the places of the table."""
    pod_count: NDArray[np.int64]
    load: "Load | None" = None
    """The sums on all rows, where these are kept."""

    def on(self, rows: Rows, resources: Resources, height: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The sums of these resources, and the number of pods, on these rows of a table with so many."""
        if self.load is not None:  # Hot: zeros for all rows take 15 µs more at 5,000 nodes
            return cells(self.load.requested, resources, rows), self.load.pod_count[rows]
        requested = self.requested[resources]
        promised = np.zeros((len(requested) + 1, height), np.int64)
        promised[:-1, self.rows], promised[-1, self.rows] = requested, self.pod_count
        promised = cells(promised, slice(None), rows)
        return promised[:-1], promised[-1]

    def among(self, chosen: NDArray[np.bool_]) -> "Crowd":
        """Some of the rows."""
        return self if chosen.all() else Crowd(self.rows[chosen], self.requested[:, chosen], self.pod_count[chosen])


class NominatedColumns:
    """Row, priority and requests of each nominated pod; a pod that goes makes place for the last one."""

    def __init__(self) -> None:
        self._layout: Layout | None = None
        self._ids: list[str] = []
        self._place_of: dict[str, int] = {}
        self._row: NDArray[np.intp] = np.zeros(0, np.intp)
        self._priority: NDArray[np.int64] = np.zeros(0, np.int64)
        self._requested: NDArray[np.int64] = np.zeros((0, 0), np.int64)

    def settle(self, layout: Layout, nodes: NodeTable, pods: Iterable[tuple[str, Pod]]) -> None:
        """Enter all pods, each with the name of its node, if rows or resources have other places now."""
        if layout == self._layout:
            return
        self._layout, self._ids, self._place_of = layout, [], {}
        self._requested = np.zeros((len(nodes.amounts.requested), len(self._row)), np.int64)
        for node_name, pod in pods:
            self.add(pod, node_name, nodes)

    def add(self, pod: Pod, node_name: str, nodes: NodeTable) -> None:
        """A pod is nominated. Nothing is entered before the first question: `settle` enters all."""
        if self._layout is None:
            return
        place = len(self._ids)
        if place == len(self._row):
            self._grow()
        self._row[place] = nodes.row_book.get(node_name, _NO_ROW)
        self._priority[place] = pod.priority
        self._requested[:, place] = 0
        book = nodes.amounts.resource_book
        for name, (amount, _) in pod.shape.held.items():
            index = book.get(name)
            if index is not None and index < len(self._requested):
                self._requested[index, place] = amount
        self._ids.append(pod.id)
        self._place_of[pod.id] = place

    def remove(self, pod_id: str) -> None:
        """A pod is nominated no longer; nothing happens if it is not entered."""
        place = self._place_of.pop(pod_id, None)
        if place is None:
            return
        last_id, last = self._ids.pop(), len(self._ids)
        if place != last:
            self._ids[place], self._place_of[last_id] = last_id, place
            self._row[place], self._priority[place] = self._row[last], self._priority[last]
            self._requested[:, place] = self._requested[:, last]

    def crowd(self, priority: int, but: str | None) -> Crowd:
        """Sum the requests of the nominated pods of at least this priority, without the pod with the id `but`."""
        count = len(self._ids)
        chosen = (self._priority[:count] >= priority) & (self._row[:count] != _NO_ROW)
        own = self._place_of.get(but) if but is not None else None
        if own is not None:
            chosen[own] = False
        places = np.flatnonzero(chosen)
        return _added_up(self._row[places], self._requested[:, places])

    def least_priority(self) -> int:
        """The lowest priority of all of them. There must be one."""
        return int(self._priority[: len(self._ids)].min())

    def _grow(self) -> None:
        capacity = max(2 * len(self._row), _FIRST_CAPACITY)
        more = capacity - len(self._row)
        self._row = np.append(self._row, np.zeros(more, np.intp))
        self._priority = np.append(self._priority, np.zeros(more, np.int64))
        self._requested = np.hstack((self._requested, np.zeros((len(self._requested), more), np.int64)))


def _added_up(rows: NDArray[np.intp], requested: NDArray[np.int64]) -> Crowd:
    """The sums by row.

    | rows    | requested  | rows | requested | pod_count |
    | 4, 7, 4 | 10, 20, 30 | 4, 7 | 40, 20    | 2, 1      |
    """
    counts = np.bincount(rows)
    if not len(counts) or counts.max() == 1:  # Hot: as a rule one pod is nominated to a node
        return Crowd(rows, requested, np.ones(len(rows), np.int64))
    distinct = np.flatnonzero(counts)
    place = np.zeros(len(counts), np.intp)
    place[distinct] = np.arange(len(distinct))
    sums = np.zeros((len(requested), len(distinct)), np.int64)
    for total, amounts in zip(sums, requested, strict=True):
        np.add.at(total, place[rows], amounts)
    return Crowd(distinct, sums, counts[distinct])


class NominatedTallies:
    """Nominated pods as rules about other pods count them. The node table has the same for pods on nodes."""

    def __init__(self, capacity: int, layout: Layout) -> None:
        self.layout = layout
        self.tallies = PodTallies()
        self.tallies.grow(capacity)
        self._row_of: dict[str, int] = {}
        """By pod id."""

    def add(self, pod: Pod, row: int | None) -> None:
        """A pod is nominated; without a row the table does not know its node."""
        if row is not None:
            self._row_of[pod.id] = row
            self.tallies.add(pod, row, 1)

    def remove(self, pod: Pod) -> None:
        """A pod is nominated no longer; nothing happens if it is not counted."""
        row = self._row_of.pop(pod.id, None)
        if row is not None:
            self.tallies.add(pod, row, -1)


_LEAST_PRIORITY = -(1 << 31)
_MAX_LOADS = 8
"""Sums for so many priorities are kept: each takes as much memory as the columns of the table, and each nomination changes
all of them. Clusters have a handful of priority classes."""
_MOST_UNASKED = 64
"""After so many nominations without a question for the sums, the sums are dropped: they may not be asked for again."""
_MAX_ADDED_UP = 128
"""Up to so many pods on a row a plain sum is far from MAX_SUM, as an amount is 2^53 at most."""


class NominatedLoad:
    """Nominated pods by node, and what they will request there."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._on: dict[str, dict[str, Pod]] = {}
        self._node_of: dict[str, str] = {}
        self._loads: dict[int, Load] = {}
        """By priority: the sum over nominated pods of at least this priority."""
        self._unasked = 0
        """How many nominations came or went since these were last asked for."""
        self._stamp: Layout = (0, 0, 0)
        """The layout of the table that `_loads` fits."""
        self._columns = NominatedColumns()
        self._tallies: NominatedTallies | None = None
        """None: nothing has asked for them yet."""

    def __bool__(self) -> bool:
        """Whether any pod is nominated. Hot: as a rule none is, and then attempts skip all of this."""
        return bool(self._node_of)

    def promise(self, pod: Pod, node_name: str) -> None:
        """The pod is nominated to the node, and to no other."""
        _ = pod.shape.held  # if it cannot be worked out, nothing has changed yet
        before = self.get(pod.id)
        if before is not None and self._node_of[pod.id] == node_name and _counts_the_same(before, pod):
            there = self._on[node_name]  # Hot: the watch shows the nomination that was made here
            del there[pod.id]  # it is the last one, as if it were nominated anew
            there[pod.id] = pod
            return
        self.withdraw(pod.id)
        self._on.setdefault(node_name, {})[pod.id] = pod
        self._node_of[pod.id] = node_name
        self._columns.add(pod, node_name, self._nodes)
        if self._tallies is not None:
            self._tallies.add(pod, self._nodes.row_book.get(node_name))
        self._change_loads(pod, node_name, 1)

    def withdraw(self, pod_id: str) -> None:
        """The pod is nominated no longer; nothing happens if it was not."""
        node_name = self._node_of.pop(pod_id, None)
        if node_name is not None:
            pod = self._on[node_name].pop(pod_id)
            if not self._on[node_name]:
                del self._on[node_name]
            self._columns.remove(pod_id)
            if self._tallies is not None:
                self._tallies.remove(pod)
            self._change_loads(pod, node_name, -1)

    def count_anew(self) -> None:
        """Add up again what the nominated pods will take: a fault was found."""
        for pod_id, node_name in list(self._node_of.items()):
            pod = self._on[node_name][pod_id]
            self.withdraw(pod_id)
            self.promise(pod, node_name)
        self._loads.clear()

    def pod_ids(self) -> set[str]:
        return set(self._node_of)

    def least_priority(self) -> int:
        """The lowest priority of a nominated pod. There must be one."""
        self._settle_columns()
        return self._columns.least_priority()

    def get(self, pod_id: str) -> Pod | None:
        """A nominated pod, as it was when it was nominated."""
        return self._on.get(self._node_of.get(pod_id, ""), {}).get(pod_id)

    def node_of(self, pod_id: str) -> str | None:
        """The node that the pod is nominated to."""
        return self._node_of.get(pod_id)

    def on(self, node_name: str) -> list[Pod]:
        return list(self._on.get(node_name, {}).values())

    def beside(self, pod: Pod, node_name: str) -> list[Pod]:
        """The pods nominated to the node that `pod` must leave room for: others of the same or a higher priority."""
        there = self._on.get(node_name, {}).values()
        return [other for other in there if other.priority >= pod.priority and other.id != pod.id]

    def tallies(self) -> PodTallies:
        """The nominated pods as rules about other pods count them, by the row that they are nominated to."""
        if self._tallies is None or self._tallies.layout != self._table_stamp():
            self._tallies = NominatedTallies(self._nodes.capacity, self._table_stamp())
            for node_name, pods in self._on.items():
                for pod in pods.values():
                    self._tallies.add(pod, self._nodes.row_book.get(node_name))
        return self._tallies.tallies

    def crowd_beside(self, pod: Pod) -> Crowd:
        """Sum the requests of the nominated pods that `pod` must leave room for, on the rows that have such pods."""
        return self.crowd_from(pod.priority, pod.id)

    def crowd_from(self, priority: int, but: str | None = None) -> Crowd:
        """Sum the requests of the nominated pods of at least this priority, without the pod with the id `but`.

        Hot: pods are tried in the order of their priorities, so as a rule all nominated pods count, and their sum is kept.
        """
        self._settle_columns()
        if but not in self._node_of and self._node_of and self._columns.least_priority() >= priority:
            return self._load_from(_LEAST_PRIORITY).crowd()
        return self._crowd_of_columns(priority, but)

    def kept_sums(self, priority: int) -> Iterator[Crowd]:
        """Yield the sum of `crowd_from` in each form in which it is kept. A check compares all of them with the right one."""
        self._settle_columns()
        yield self._crowd_of_columns(priority)
        loads = self._loads if self._table_stamp() == self._stamp else {}
        all_count = self._columns.least_priority() >= priority
        for least in {priority, _LEAST_PRIORITY} & loads.keys():
            if least == priority or all_count:
                yield loads[least].crowd()

    def _crowd_of_columns(self, priority: int, but: str | None = None) -> Crowd:
        crowd = self._columns.crowd(priority, but)
        if len(crowd.rows) and crowd.pod_count.max() > _MAX_ADDED_UP:
            load = self._add_up(priority, but)
            return Crowd(crowd.rows, load.requested[:, crowd.rows], crowd.pod_count)
        return crowd

    def _settle_columns(self) -> None:
        there = ((name, pod) for name, pods in self._on.items() for pod in pods.values())
        self._columns.settle(self._table_stamp(), self._nodes, there)

    def crowd_on(self, rows: Sequence[int], priority: int, but: str | None = None) -> Crowd | None:
        """`crowd_from` for a few rows; None: there are no such pods on them."""
        found = [(row, sums) for row in rows if (sums := self.sums_on(row, priority, but)) is not None]
        if not found:
            return None
        requested = np.zeros((len(self._nodes.amounts.requested), len(found)), np.int64)
        for place, (_, (amounts, _)) in enumerate(found):
            for index, amount in amounts.items():
                requested[index, place] = amount
        counts = np.array([count for _, (_, count) in found], np.int64)
        return Crowd(np.array([row for row, _ in found], np.intp), requested, counts)

    def sums_on(self, row: int, priority: int, but: str | None = None) -> tuple[dict[int, int], int] | None:
        """Sum the requests of the nominated pods on one row, in plain numbers: amounts by place of the resource, and the
        number of pods. None if the row has no such pods."""
        there = self._on.get(self._nodes.names[row])
        if there is None:
            return None
        book = self._nodes.amounts.resource_book
        amounts: dict[int, int] = {}
        count = 0
        for pod in there.values():
            if pod.priority < priority or pod.id == but:
                continue
            count += 1
            for name, (amount, _) in pod.shape.held.items():
                index = book.get(name)
                if index is not None:
                    total = amounts.get(index, 0) + amount
                    amounts[index] = total if total < MAX_SUM else MAX_SUM
        return (amounts, count) if count else None

    def load_beside(self, pod: Pod) -> "Load":
        """`crowd_beside`, on all rows. Do not write to it."""
        load = self._load_from(pod.priority)
        node_name = self._node_of.get(pod.id)
        row = self._nodes.row_book.get(node_name) if node_name is not None else None
        if node_name is None or row is None:
            return load
        own = self._on[node_name][pod.id]
        return load.without(own, row, self._nodes) if own.priority >= pod.priority else load

    def _load_from(self, priority: int) -> "Load":
        """The sum over all that have at least this priority; kept up to date until the set of nodes changes."""
        stamp, self._unasked = self._table_stamp(), 0
        if stamp != self._stamp or len(self._loads) > _MAX_LOADS:
            self._stamp = stamp
            self._loads.clear()
        load = self._loads.get(priority)
        if load is None:
            load = self._loads[priority] = self._add_up(priority)
        return load

    def _table_stamp(self) -> Layout:
        """Changes when rows or resources get other places."""
        return self._nodes.node_set_version, self._nodes.capacity, self._nodes.amounts.resources_version

    def _add_up(self, priority: int, but: str | None = None) -> "Load":
        """The sum from scratch, without the pod with the id `but`. Nodes that the table does not know have no row, so pods
        nominated to them take no room."""
        load = Load(self._nodes)
        for node_name, pods in self._on.items():
            row = self._nodes.row_book.get(node_name)
            for pod in pods.values() if row is not None else ():
                if pod.priority >= priority and row is not None and pod.id != but:
                    load.add(pod, row, 1, self._nodes)
        return load

    def _change_loads(self, pod: Pod, node_name: str, change: int) -> None:
        """Bring the kept sums in line with one pod more or less on a node; drop them where that is not possible."""
        row = self._nodes.row_book.get(node_name)
        if row is not None:
            self._nodes.touches.note(row)  # kept answers about the row do not consider this pod
        self._unasked += 1
        if row is None or self._unasked > _MOST_UNASKED or self._table_stamp()[1:] != self._stamp[1:]:
            self._loads.clear()
            return
        try:
            for priority, load in self._loads.items():
                if pod.priority >= priority:
                    load.add(pod, row, change, self._nodes)
        except BaseException:
            self._loads.clear()  # they are added up anew at the next question
            raise


def _counts_the_same(before: Pod, now: Pod) -> bool:
    """Whether all that is kept of a nominated pod holds for a later version of it."""
    is_same = before.shape is now.shape and before.priority == now.priority and before.labels == now.labels
    return is_same and before.is_terminating == now.is_terminating


class Load:
    """Requests (resources x rows) and pod counts by row, to be added to those of a table."""

    __slots__ = ("_beyond", "pod_count", "requested")

    def __init__(self, nodes: NodeTable | None) -> None:
        self.requested: NDArray[np.int64]
        self.pod_count: NDArray[np.int64]
        self._beyond: Beyond = {}
        if nodes is not None:
            self.requested = np.zeros_like(nodes.amounts.requested)
            self.pod_count = np.zeros_like(nodes.pod_count)

    def add(self, pod: Pod, row: int, change: int, nodes: NodeTable) -> None:
        """Add a pod (+1) or subtract it (-1). Resources without a place in the table are left out: no plugin
        compares them."""
        for name, (amount, _) in pod.shape.held.items():
            index = nodes.amounts.resource_book.get(name)
            if index is not None:  # or else no node has it, or nothing has asked about it
                add_exactly(self.requested, self._beyond, index, row, change * amount)
        self.pod_count[row] += change

    def crowd(self) -> Crowd:
        """The load on the rows that have nominated pods."""
        rows = (self.pod_count > 0).nonzero()[0]  # Hot: of integers, `nonzero` takes three times as long
        return Crowd(rows, self.requested.take(rows, 1), self.pod_count[rows], self)

    def without(self, pod: Pod, row: int, nodes: NodeTable) -> "Load":
        """A copy without one pod: the pod that asks must not leave room for itself."""
        other = Load(None)
        other.requested, other.pod_count = self.requested.copy(), self.pod_count.copy()
        other._beyond = dict(self._beyond)
        other.add(pod, row, -1, nodes)
        return other
