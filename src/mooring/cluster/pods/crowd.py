"""Nominated pods as columns: what those of at least some priority will take on the rows that they are nominated to.

Few rows have nominated pods, so an answer has these rows alone. It is added up for each question: priorities may differ
from pod to pod, and sums that are kept for each of them would cost more than adding up.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.table import NodeTable
from mooring.cluster.tallies.tallies import PodTallies
from mooring.model.pod import Pod

Layout = tuple[int, int, int]
"""Changes when rows or resources get other places."""

_NO_ROW = -1
"""The row of a pod that is nominated to a node which the table does not know."""
_FIRST_CAPACITY = 16


class Crowd(NamedTuple):
    """What nominated pods will take. Do not write to it."""

    rows: NDArray[np.intp]
    """Each once, in any order."""
    requested: NDArray[np.int64]
    """Resources x rows, in the places of the table."""
    pod_count: NDArray[np.int64]

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
        """What the pods of at least this priority will take, without the pod with the id `but`."""
        count = len(self._ids)
        chosen = (self._priority[:count] >= priority) & (self._row[:count] != _NO_ROW)
        own = self._place_of.get(but) if but is not None else None
        if own is not None:
            chosen[own] = False
        places = np.flatnonzero(chosen)
        return _added_up(self._row[places], self._requested[:, places])

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
