"""Columns of answers that are kept from one attempt to the next, and refreshed only on rows that were touched since.

Answers are kept by what they depend on. A plugin declares with `@reads` which part of a pod's shape it looks at; its
answers for all rows are one `KeptColumn`, shared by all shapes that have this part.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.change_log import ChangeLog
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.context import SchedulingContext
from mooring.framework.points import Plugin, Reads, Rows
from mooring.model.shape import PodPart, ShapePart

Integers = NDArray[np.signedinteger[Any]]
"""Numbers in as few bytes as hold them."""
ColumnKey = tuple[Plugin, str, ShapePart]
"""A plugin, an extension point, and the part of a shape that the answers are for."""
Answer = Callable[[SchedulingContext, Rows], NDArray[np.int64] | None]


@dataclass(frozen=True, slots=True)
class KeptQuestion:
    """A filter or score whose answers are kept: its place in the profile's order, what they depend on, how to ask it."""

    index: int
    plugin: Plugin
    point: str
    reads: Reads
    part: PodPart
    ask: Answer


@dataclass(slots=True)
class ByteCount:
    """How many bytes the arrays of columns and memos take."""

    bytes: int = 0


def _news(log: ChangeLog[int], position: int, height: int) -> Rows | None:
    """The rows in a log since a position; None: none. A log that no longer reaches back, or many rows, mean all rows."""
    if position == log.end:
        return None
    touched = log.since(position, height)
    if touched is None or len(touched) * 4 > height:
        return slice(0, height)
    return np.array(touched if len(touched) == 1 else sorted(touched), np.intp)


class KeptColumn:
    """The answers of one plugin for all rows, for all pods that share what the plugin reads of them."""

    __slots__ = (
        "_byte_count",
        "_capacity",
        "_node_set_version",
        "_position",
        "ask",
        "follows_nodes",
        "users",
        "values",
    )

    def __init__(self, question: KeptQuestion, byte_count: ByteCount) -> None:
        self.ask = question.ask
        self.follows_nodes = question.reads <= Reads.NODE
        """Whether only changes of nodes can change an answer, and no pod that comes or goes."""
        self._byte_count = byte_count
        self.values: Integers | None = None
        """None: the plugin has answered None so far, which means 0 for every row.

        Bytes where all answers fit: most scores and codes do, and then a shape takes a quarter of the memory.
        """
        self.users = 0
        """The memos that read it."""
        self._capacity = 0
        self._node_set_version = -1
        self._position = 0

    def is_at(self, nodes: NodeTable, position: int) -> bool:
        """Whether the answers are up to date but for the rows that were touched since `position`."""
        is_same_table = self._node_set_version == nodes.node_set_version and self._capacity == nodes.capacity
        return self._position == position and is_same_table

    def take(self, nodes: NodeTable, rows: Rows, answer: NDArray[np.int64] | None) -> None:
        """The answer for the rows that were touched since the position of `is_at`."""
        self._put(rows, answer, nodes.capacity)
        self._position = nodes.touches.end

    def refresh(self, context: SchedulingContext) -> None:
        """Ask again where something was touched that the answers depend on."""
        nodes = context.nodes
        log = nodes.node_touches if self.follows_nodes else nodes.touches
        if self._node_set_version != nodes.node_set_version or self._capacity != nodes.capacity:
            self.clear()
            self._node_set_version = nodes.node_set_version
            rows: Rows | None = slice(0, nodes.height)
        elif self._position == log.end:
            return
        else:
            rows = _news(log, self._position, nodes.height)
        self._capacity = 0  # should asking raise, nothing passes for answered
        if rows is not None:
            self._put(rows, self.ask(context, rows), nodes.capacity)
        self._capacity, self._position = nodes.capacity, log.end

    def _put(self, rows: Rows, answer: NDArray[np.int64] | None, capacity: int) -> None:
        if answer is None:
            if self.values is not None:
                self.values[rows] = 0
            return
        values = self.values
        if values is not None and len(answer) == 1 and -128 <= answer[0] <= 127:
            values[rows] = answer  # Hot: as a rule one row was touched, and its answer is small
            return
        if values is None or values.dtype == np.int8:
            self._make_room(answer, capacity)
        assert self.values is not None
        self.values[rows] = answer

    def _make_room(self, answer: NDArray[np.int64], capacity: int) -> None:
        """Have an array that can hold the answer."""
        is_small = not len(answer) or bool(answer.min() >= -128 and answer.max() <= 127)
        if self.values is None:
            self.values = np.zeros(capacity, np.int8 if is_small else np.int64)
            self._byte_count.bytes += self.values.nbytes
        elif not is_small:
            self._byte_count.bytes += 7 * self.values.nbytes
            self.values = self.values.astype(np.int64)

    def clear(self) -> None:
        """Forget all answers: there are other nodes than those that they are about."""
        if self.values is not None:
            self._byte_count.bytes -= self.values.nbytes
            self.values = None

    def drop(self) -> None:
        """The column is no longer kept. An attempt that still reads it finds it as it was."""
        if self.values is not None:
            self._byte_count.bytes -= self.values.nbytes
        self._byte_count = ByteCount()


class ColumnSet:
    """Columns that are read together, and which of their rows may be new since they were last read together.

    Others refresh the columns too, at other times; so a set has a position of its own in the log of touched rows.
    """

    __slots__ = ("_capacity", "_node_position", "_node_set_version", "_position", "columns", "following_rows")

    def __init__(self, columns: list[tuple[int, KeptColumn]]) -> None:
        self.columns = columns
        """By index of the plugin."""
        self.following_rows = [column for _, column in columns if not column.follows_nodes]
        self._capacity, self._node_set_version, self._position, self._node_position = 0, -1, 0, 0

    def refresh(self, context: SchedulingContext) -> Rows | None:
        """Bring the columns up to date. Returns the rows whose answers may be new; None: there are none."""
        nodes = context.nodes
        if self._node_set_version != nodes.node_set_version or self._capacity != nodes.capacity:
            self._refresh_all(context)
            rows: Rows | None = slice(0, nodes.height)
        elif self._position == nodes.touches.end:
            return None
        else:
            rows = _news(nodes.touches, self._position, nodes.height)
            if self._node_position != nodes.node_touches.end:
                self._refresh_all(context)
            elif rows is not None:
                for column in self.following_rows:
                    # Hot: as a rule the column was up to date where this set was, so the rows are looked up once for all.
                    if column.is_at(nodes, self._position):
                        column.take(nodes, rows, column.ask(context, rows))
                    else:
                        column.refresh(context)
        self._capacity, self._node_set_version = nodes.capacity, nodes.node_set_version
        self._position, self._node_position = nodes.touches.end, nodes.node_touches.end
        return rows

    def _refresh_all(self, context: SchedulingContext) -> None:
        for _, column in self.columns:
            column.refresh(context)

    def values(self, index: int) -> NDArray[np.int64] | None:
        """The answers of one plugin for all rows, as of the last refresh; None: there are none, or all are 0."""
        found = next((column.values for each, column in self.columns if each == index), None)
        return None if found is None else found.astype(np.int64)
