"""Rows of two node tables that stand for the same node. Nodes come in another order, so they have other rows."""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.labels import LabelColumn, ValueColumn
from mooring.cluster.nodes.table import NodeTable

EncodedColumn = LabelColumn | ValueColumn[Any]


class RowPairs:
    """The rows that both tables have, pair by pair. Good until one of the tables changes."""

    def __init__(self, running: NodeTable, fresh: NodeTable) -> None:
        self.names = [name for name in running.row_book if name in fresh.row_book]
        count = len(self.names)
        self.running: NDArray[np.intp] = np.fromiter(map(running.row_book.__getitem__, self.names), np.intp, count)
        self.fresh: NDArray[np.intp] = np.fromiter(map(fresh.row_book.__getitem__, self.names), np.intp, count)

    def unequal(self, running: NDArray[Any], fresh: NDArray[Any]) -> Iterator[tuple[str, Any, Any]]:
        """The nodes for which two columns differ, with both values."""
        ours, theirs = running.take(self.running), fresh.take(self.fresh)
        for place in (ours != theirs).nonzero()[0].tolist():
            yield self.names[place], ours[place].item(), theirs[place].item()


class RowPairing:
    """Keeps the pairs until one of the tables changes."""

    def __init__(self, running: NodeTable, fresh: NodeTable) -> None:
        self._tables = running, fresh
        self._stamp: tuple[int, ...] = ()
        self._pairs: RowPairs | None = None

    def now(self) -> RowPairs:
        stamp = tuple(end for table in self._tables for end in (table.touches.end, table.node_set_version))
        if self._pairs is None or stamp != self._stamp:
            self._stamp, self._pairs = stamp, RowPairs(*self._tables)
        return self._pairs


def in_codes_of(fresh: EncodedColumn, running: EncodedColumn) -> NDArray[np.int64]:
    """The codes of the running column as codes of the fresh one, -1 for values that it does not have."""
    book = {value: code for code, value in enumerate(fresh.values)}
    codes = np.array([book.get(value, -1) for value in running.values], np.int64)
    return codes.take(running.codes)
