"""Finds the best rows of a shape without reading every row: blocks of rows, each with its best total.

A pod that is placed changes one row, so one block is looked through and then the bests of the blocks. On 100,000 nodes that
is 256 rows and 391 blocks instead of 100,000 rows.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.table import NodeTable

PASSED = 127
"""In a column of first rejections: no filter rejects the row."""
DEAD = -1
"""... the row has no node."""
NARROWED_OUT = -2
"""... a PreFilter ruled the node out."""

BLOCK = 256
"""Rows in a block: on 5,000 to 100,000 nodes there are 20 to 391 blocks, so that both passes stay short."""
NO_BEST = np.iinfo(np.int64).min
"""The total of a row that is not feasible."""
_NO_RANK = np.iinfo(np.int64).max

First = NDArray[np.int8]
Totals = NDArray[np.signedinteger[Any]]


class RowRanking:
    """The best of each block: the highest total, how many rows have it, and the one of them with the lowest name.

    `first` and `totals` are the columns that it ranks, up to date: a row takes part if `first` says PASSED.
    """

    def __init__(self, nodes: NodeTable, first: First, totals: Totals) -> None:
        self._nodes, self._first, self._totals = nodes, first, totals
        self._build()

    def _build(self) -> None:
        """Look through all rows."""
        height = self._nodes.height
        self._ranked = self._totals[:height].astype(np.int64)
        """By row: its total, if it is feasible."""
        self._ranked[self._first[:height] != PASSED] = NO_BEST
        blocks = -(-height // BLOCK)
        self._best, self._count = np.full(blocks, NO_BEST, np.int64), np.zeros(blocks, np.int64)
        self._rank, self._row = np.full(blocks, _NO_RANK, np.int64), np.zeros(blocks, np.int64)
        for block in range(blocks):
            self._look_through(block)

    @property
    def nbytes(self) -> int:
        return self._ranked.nbytes + 4 * self._best.nbytes

    def update(self, rows: list[int]) -> None:
        """These rows have changed."""
        if self._nodes.height != len(self._ranked):
            self._build()
            return
        for row in rows:
            self._ranked[row] = self._totals[row] if self._first[row] == PASSED else NO_BEST
        for block in {row // BLOCK for row in rows}:
            self._look_through(block)

    def highest(self) -> int:
        """The best total of a feasible row; there must be one."""
        return int(self._best.max())

    def count(self) -> int:
        """How many rows have the best total."""
        return int(self._count[self._leading()].sum())

    def lowest_named(self) -> int:
        """Of the rows with the best total the one whose node has the lowest name."""
        leading = self._leading()
        return int(self._row[leading[self._rank[leading].argmin()]])

    def nth(self, number: int) -> int:
        """The row with this number among those with the best total, in ascending order, counted from 0."""
        leading = self._leading()
        ends = self._count[leading].cumsum()
        place = int(np.searchsorted(ends, number, side="right"))
        block = int(leading[place])
        within = number - (int(ends[place - 1]) if place else 0)
        start = block * BLOCK
        return start + int((self._ranked[start : start + BLOCK] == self._best[block]).nonzero()[0][within])

    def _leading(self) -> NDArray[np.intp]:
        """The blocks with a row that has the best total."""
        leading: NDArray[np.intp] = (self._best == self._best.max()).nonzero()[0]
        return leading

    def _look_through(self, block: int) -> None:
        start = block * BLOCK
        ranked = self._ranked[start : start + BLOCK]
        best = ranked.max()
        leading = (ranked == best).nonzero()[0]
        ranks = self._nodes.name_rank()[start : start + BLOCK][leading]
        lowest = int(ranks.argmin())
        self._best[block], self._count[block] = best, len(leading)
        self._rank[block], self._row[block] = ranks[lowest], start + leading[lowest]
