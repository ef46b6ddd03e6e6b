"""Abilities that few plugins have: the last word about the totals of nodes (TotalsPlugin), numbers for each node and
its pods in a matrix beside the node table (NodeMatrix), and devices of nodes that pods share (DeviceSharing).

Amounts of resources are sums over a node: two devices that are half free look like a whole one. A plugin that shares
devices declares what pods ask of a single device. Bounds of studies read the declaration, so that they do not promise
what no device has.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.table import NodeTable
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import Registration
from mooring.framework.contract.points import Plugin, Rows, ScorePlugin, Scores
from mooring.model.node import Node
from mooring.model.pod import Pod


class TotalsPlugin(ScorePlugin):
    """Has the last word about totals: a score plugin that sees what the others gave. A profile has at most one. It is for
    policies that choose a node, or weights, for each pod, such as trained agents."""

    def score(self, context: SchedulingContext, rows: Rows) -> Scores | None:
        """It adds nothing to the sum of the others."""
        return None

    def events(self) -> Sequence[Registration]:
        """It rejects no pod, so no event helps one."""
        return ()

    @abstractmethod
    def totals(
        self, context: SchedulingContext, rows: Rows, scores: Callable[[], Mapping[str, Scores]]
    ) -> Scores | None:
        """An integer for each feasible row: the highest one wins. None: the weighted sum of the scores stands.

        `scores()` asks the score plugins of the profile: the normalized scores (0..100, without weights) of each by name.
        """


@dataclass(frozen=True, slots=True)
class DeviceShares:
    """A request for devices: a pod asks for as much of each of `count` devices, which are different ones."""

    share: int
    """At most the size of a device."""
    count: int


class DeviceSharing(Plugin):
    """A plugin whose filter lets a pod use a node only if single devices have room for it."""

    device_resource: str
    """The resource that counts the shares of all devices of a node together."""
    device_size: int
    """How much of that resource a whole device has."""

    @abstractmethod
    def device_request(self, pod: Pod) -> DeviceShares:
        """Returns the request of a pod; a count of 0 if it asks for no device."""

    @abstractmethod
    def device_count(self, node: Node) -> int:
        """How many devices a node has."""


class NodeMatrix:
    """Whole numbers of a plugin by node: each row of the node table has a row here.

    `work_out(nodes, row)` returns the numbers of one row. It may read the node, the pods on it, and what the plugin
    itself knows of these pods; a row without a node has numbers too. Rows may have different lengths: the matrix is as
    wide as the longest, and has 0 beyond the end of a row.

    The matrix follows the node table: it works out a row again after a node changed, or a pod came to it or left it. In a
    what-if, which has a table of its own, it works out the rows whose pods differ and keeps nothing. So a filter or score
    that reads the matrix declares `Reads.ROW`, and what is kept of its answers, and preemption, are right.
    """

    def __init__(self, work_out: Callable[[NodeTable, int], Sequence[int]]) -> None:
        self._work_out = work_out
        self._table = NodeTable()
        """The table that the matrix follows: that of the cluster."""
        self._position = 0
        """How far the matrix has followed the log of touched rows."""
        self._void: list[int] = []
        self._rows: list[Sequence[int]] = []
        self._values: NDArray[np.int64] = np.zeros((0, 0), np.int64)

    def rows(self, nodes: NodeTable, rows: Rows) -> NDArray[np.int64]:
        """The numbers of these rows: rows x width. Do not write to it.

        | work_out of rows 0, 1, 2 | rows(nodes, np.array([2, 0])) |
        | (5,), (), (7, 8)         | [[7 8] [5 0]]                 |
        """
        self._follow(nodes)
        if nodes is self._table:
            return self._values[rows] if isinstance(rows, slice) else self._values.take(rows, axis=0)
        asked = range(nodes.height)[rows] if isinstance(rows, slice) else rows.tolist()
        found = [self._supposed(nodes, row) for row in asked]
        width = max([self._values.shape[1], *map(len, found)])
        return np.array([[*numbers, *[0] * (width - len(numbers))] for numbers in found], np.int64).reshape(-1, width)

    def row(self, nodes: NodeTable, row: int) -> Sequence[int]:
        """The numbers of one row as `work_out` returned them."""
        self._follow(nodes)
        return self._rows[row] if nodes is self._table else self._supposed(nodes, row)

    def void(self, row: int) -> None:
        """Work out a row again before the next answer: the plugin knows more of a pod on it. Kept answers about the row are
        asked for again only after the table touches it, which the placing of a pod does: `reserve` may call this."""
        self._void.append(row)

    def _supposed(self, nodes: NodeTable, row: int) -> Sequence[int]:
        """The numbers of a row in a what-if. Those of a row with the same pods are known."""
        is_same = row < len(self._rows) and nodes.pods_on[row] == self._table.pods_on[row]
        return self._rows[row] if is_same else self._work_out(nodes, row)

    def _follow(self, nodes: NodeTable) -> None:
        """Bring the matrix up to date with the table of the cluster. Another table that is no what-if takes its place."""
        if nodes is not self._table and not nodes.is_fork:
            self._table, self._rows, self._position = nodes, [], 0
        table = self._table
        if self._position == table.touches.end and not self._void:  # Hot: asked three times in a decision
            return
        touched = table.touches.since(self._position)
        void, self._void, self._position = self._void, [], table.touches.end
        if touched is None or len(self._rows) != table.height:
            self._rows = [self._work_out(table, row) for row in range(table.height)]
            self._write_all()
            return
        for row in {*touched, *void}:
            numbers = self._rows[row] = self._work_out(table, row)
            if len(numbers) > self._values.shape[1]:
                self._write_all()
            else:
                self._values[row, : len(numbers)] = numbers
                self._values[row, len(numbers) :] = 0

    def _write_all(self) -> None:
        self._values = np.zeros((len(self._rows), max(map(len, self._rows), default=0)), np.int64)
        for row, numbers in enumerate(self._rows):
            self._values[row, : len(numbers)] = numbers
