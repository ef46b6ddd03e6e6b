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
"""Rows in a block. Measured on 5,000 and 100,000 nodes: 128 and 512 take as long within noise."""
NO_BEST = np.iinfo(np.int64).min
"""The best total of a block without a feasible row."""
_NO_RANK = np.iinfo(np.int64).max

First = NDArray[np.int8]
Totals = NDArray[np.signedinteger[Any]]


class RowRanking:
    """The bests of each block: the highest total, how many rows have it, and the lowest rank of their names.

    `first` and `totals` are the columns that it ranks: a row takes part if `first` says PASSED.
    """

    def __init__(self) -> None:
        self._nodes: NodeTable | None = None
        self._first: First = np.zeros(0, np.int8)
        self._totals: Totals = np.zeros(0, np.int64)
        self._best = self._count = self._rank = np.zeros(0, np.int64)

    @property
    def nbytes(self) -> int:
        return 3 * self._best.nbytes

    def rebuild(self, nodes: NodeTable, first: First, totals: Totals) -> None:
        """Look through all rows. The ranking keeps reading the two columns, which their owner keeps up to date."""
        self._nodes, self._first, self._totals = nodes, first, totals
        blocks = -(-nodes.height // BLOCK)
        self._best = np.full(blocks, NO_BEST, np.int64)
        self._count, self._rank = np.zeros(blocks, np.int64), np.full(blocks, _NO_RANK, np.int64)
        for block in range(blocks):
            self._look_through(block)

    def update(self, rows: list[int]) -> None:
        """These rows have changed."""
        assert self._nodes is not None
        if self._nodes.height > len(self._best) * BLOCK:
            self.rebuild(self._nodes, self._first, self._totals)
            return
        for block in {row // BLOCK for row in rows}:
            self._look_through(block)

    def highest(self) -> int:
        """The best total of a feasible row; there must be one."""
        return int(self._best.max())

    def count(self) -> int:
        """How many rows have the best total."""
        return int(self._count[self._best == self._best.max()].sum())

    def lowest_named(self) -> int:
        """Of the rows with the best total the one whose node has the lowest name."""
        assert self._nodes is not None
        leading = np.flatnonzero(self._best == self._best.max())
        block = int(leading[self._rank[leading].argmin()])
        start = block * BLOCK
        ranks = self._nodes.name_rank()[start : min(start + BLOCK, self._nodes.height)]
        return start + int(np.flatnonzero(ranks == self._rank[block])[0])

    def nth(self, number: int) -> int:
        """The row with this number among those with the best total, in ascending order, counted from 0."""
        leading = np.flatnonzero(self._best == self._best.max())
        ends = self._count[leading].cumsum()
        place = int(np.searchsorted(ends, number, side="right"))
        block = int(leading[place])
        within = number - (int(ends[place - 1]) if place else 0)
        return block * BLOCK + int(self._best_of(block)[within])

    def _look_through(self, block: int) -> None:
        start = block * BLOCK
        passed = np.flatnonzero(self._first[start : start + BLOCK] == PASSED)
        if not len(passed):
            self._best[block], self._count[block], self._rank[block] = NO_BEST, 0, _NO_RANK
            return
        assert self._nodes is not None
        totals = self._totals[start : start + BLOCK][passed]
        best = totals.max()
        leading = passed[totals == best]
        self._best[block], self._count[block] = best, len(leading)
        self._rank[block] = self._nodes.name_rank()[start : start + BLOCK][leading].min()

    def _best_of(self, block: int) -> NDArray[np.intp]:
        """The rows of a block that have the best total, counted from its start."""
        start = block * BLOCK
        passed = self._first[start : start + BLOCK] == PASSED
        return np.flatnonzero(passed & (self._totals[start : start + len(passed)] == self._best[block]))
