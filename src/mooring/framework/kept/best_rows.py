"""The highest total of each block of rows: on a large table, the best row is found without a pass over all rows.

Columns of kept totals and of kept first rejections change on few rows between two attempts. So the number of feasible rows of
a block, the highest of their totals, and how many rows have it, are worked out again for the blocks of these rows only. An
attempt then reads one number for each block, and the rows of one block.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.kernels import Integers
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.contract.points import Rows
from mooring.framework.kept.feasible import PASSED, First
from mooring.framework.kept.part_memo import Bookmark

BLOCK = 1024
"""Rows of a block: 1,000,000 nodes have as many blocks as a block has rows, so both are read equally fast."""
LEAST_ROWS = 16 * BLOCK
"""Up to so many rows a pass over all of them takes less time (2 µs) than to follow what changed (4 µs)."""
LEAST_ROWS_BY_NAME = 256 * BLOCK
"""As above where all rows passed, are in the order of their names, and the lowest name wins: then the pass only looks for the
first of the highest 16-bit totals, which takes 1.7 µs for 100,000 rows, and 4 for 260,000."""

_UNKNOWN = -1


class PassedCount:
    """How many rows of a column of first rejections passed, by blocks."""

    __slots__ = ("_at", "_by_block", "_first", "count")

    def __init__(self) -> None:
        self._at = Bookmark()
        self._first: First = np.zeros(0, np.int8)
        self._by_block: NDArray[np.int64] = np.zeros(0, np.int64)
        self.count = 0
        """How many passed."""

    def refresh(self, nodes: NodeTable, first: First, by_row: bool) -> None:
        """Follow a column of kept first rejections, which changes only on rows that the table notes as touched. `by_row`:
        also where a node comes or goes."""
        if first is not self._first:
            self._at.forget()
            self._first = first
        blocks = _blocks_of(self._at.take_news(nodes, nodes.touches, by_row), len(self._by_block))
        if blocks is None:
            starts = np.arange(0, len(first), BLOCK)
            self._by_block = np.add.reduceat(first == PASSED, starts, dtype=np.int64)
        for block in blocks or ():
            self._by_block[block] = np.count_nonzero(first[block * BLOCK : (block + 1) * BLOCK] == PASSED)
        if blocks is None or blocks:
            self.count = int(self._by_block.sum())
        self._at.move(nodes, nodes.touches)


def _blocks_of(rows: Rows | None, count: int) -> "set[int] | None":
    """The blocks of these rows, of which there may be none; None: all, of which there are so many, are to be read."""
    if rows is None:
        return set()
    blocks = None if isinstance(rows, slice) else {row // BLOCK for row in rows.tolist()}
    return None if blocks is None or len(blocks) * 8 > count else blocks


class BestRows:
    """The blocks of one column of totals. Rows that did not pass have the lowest number in it."""

    __slots__ = ("_at", "_counts", "_first", "_highest", "_kept", "_ranks", "totals")

    def __init__(self) -> None:
        self._at = Bookmark()
        self._kept: Integers = np.zeros(0, np.int16)
        self._first: First | None = None
        """None: all rows passed."""
        self.totals: Integers = self._kept
        """The kept totals, or where rows did not pass a copy of them. Do not write to it."""
        self._highest: NDArray[Any] = self._kept
        """By block: the highest total."""
        self._counts: NDArray[np.int64] = np.zeros(0, np.int64)
        """By block: how many rows have the highest total."""
        self._ranks: NDArray[np.int64] = np.zeros(0, np.int64)
        """By block: the lowest rank by name of the rows with the highest total; _UNKNOWN until it is asked for."""

    @property
    def nbytes(self) -> int:
        """Size of the copy of the totals, if there is one."""
        return 0 if self.totals is self._kept else self.totals.nbytes

    def refresh(self, nodes: NodeTable, kept: Integers, first: First | None = None) -> None:
        """Follow a column of kept totals, and the first rejections unless all rows passed. Both change only on rows that the
        table notes as touched."""
        if kept is not self._kept or first is not self._first:
            self._at.forget()
            self._kept, self._first = kept, first
        blocks = _blocks_of(self._at.take_news(nodes, nodes.touches), len(self._counts))
        if blocks is None:
            self._work_out_all()
        for block in blocks or ():
            self._work_out(block)
        self._at.move(nodes, nodes.touches)

    def _work_out_all(self) -> None:
        self.totals = self._kept
        if self._first is not None:
            self.totals = self._kept.copy()
            np.putmask(self.totals, self._first != PASSED, np.iinfo(self._kept.dtype).min)
        starts = np.arange(0, len(self.totals), BLOCK)
        self._highest = np.maximum.reduceat(self.totals, starts)
        is_highest = self.totals == np.repeat(self._highest, BLOCK)[: len(self.totals)]
        self._counts = np.add.reduceat(is_highest, starts, dtype=np.int64)
        self._ranks = np.full(len(starts), _UNKNOWN, np.int64)

    def _work_out(self, block: int) -> None:
        part = self._rows_of(block)
        if self._first is not None:
            rows = slice(block * BLOCK, block * BLOCK + len(part))
            part[:] = self._kept[rows]
            np.putmask(part, self._first[rows] != PASSED, np.iinfo(part.dtype).min)
        highest = part[part.argmax()]
        self._highest[block] = highest
        self._counts[block] = np.count_nonzero(part == highest)
        self._ranks[block] = _UNKNOWN

    def _rows_of(self, block: int) -> Integers:
        return self.totals[block * BLOCK : (block + 1) * BLOCK]

    def _tied(self) -> tuple[int, NDArray[np.intp]]:
        """The highest total, and the blocks that have it."""
        highest = self._highest[self._highest.argmax()]
        return highest, (self._highest == highest).nonzero()[0]

    def first(self) -> int:
        """The first of the rows with the highest total."""
        block = int(self._highest.argmax())
        return block * BLOCK + int(self._rows_of(block).argmax())

    def nth(self, choose: Callable[[int], int]) -> int:
        """A row with the highest total: `choose` is given how many there are, and says which one, counted from 0."""
        highest, blocks = self._tied()
        ends = self._counts[blocks].cumsum()
        number = choose(int(ends[-1]))
        place = int(ends.searchsorted(number, "right"))
        if place:
            number -= int(ends[place - 1])
        block = int(blocks[place])
        return block * BLOCK + int((self._rows_of(block) == highest).nonzero()[0][number])

    def first_by_name(self, rank: NDArray[np.int64], by_name: NDArray[np.intp]) -> int:
        """The row with the highest total and the lowest name. `rank` has the rank of each row, `by_name` the row of each
        rank."""
        highest, blocks = self._tied()
        for block in blocks[self._ranks[blocks] == _UNKNOWN].tolist():
            part = self._rows_of(block)
            self._ranks[block] = rank[block * BLOCK : block * BLOCK + len(part)][part == highest].min()
        return int(by_name[self._ranks[blocks].min()])


class MaskedTotals(msgspec.Struct, eq=False):
    """The outcome of scoring where only kept scores tell nodes apart. Do not write to it."""

    totals: Integers
    """For all rows; what did not pass has the lowest number."""
    added: int
    """Sum of the other scores, which are the same for all rows. It is to be added to each total."""
    count: int
    """The number of feasible rows."""
    best: BestRows | None = None
    """Finds the best row, where the table is large and kept filters alone decide which rows are feasible."""
