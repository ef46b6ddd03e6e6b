"""Which rows are feasible, and which of them is the best: columns over all rows of the node table.

Hot: on 100,000 nodes a pass over a column of bytes takes 3 µs and one over 16-bit integers 5 µs, but a list of the rows that
passed takes 50 µs to make, and 100 µs to index a column with. So nothing here makes such a list unless a plugin needs it.
"""

from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.kernels import Integers, Mask
from mooring.framework.contract.points import Rows

PASSED = 127
"""In a column of first rejections: no filter rejects the row."""
DEAD = -1
"""In a column of first rejections: the row has no node."""
NARROWED_OUT = -2
"""In a column of first rejections: a PreFilter ruled the node out."""

First = NDArray[np.int8]
"""By row: the index of the first filter that rejects it, or one of these."""

N = TypeVar("N", bound=np.signedinteger[Any])

_NO_ROWS: NDArray[np.intp] = np.zeros(0, np.intp)

_SPARSE = 8
"""If one row in so many is meant, or fewer, writing to a list of them is faster than going over all of them."""
_MANY = 1 << 18
"""From so many rows on `few_of` looks at eight of them at a time. On 100,000 rows, of which 1,000 are meant, this would take
twice as long."""
_EIGHT = np.arange(8)
_CHUNK = 2048
"""So many rows or fewer are listed to find the n-th of many that are equal; of more, halves are counted. Hot: this takes
3.7 µs for 5,000 rows and 12 for 100,000; with 512 it takes 4.8 and 13, and to count 4,096 at a time took 4.3 and 14."""


def few_of(meant: Mask) -> NDArray[np.intp]:
    """The rows that are meant, of which there should be few.

    Hot: eight rows are looked at together, as one number: a quarter of the time for 1,000,000 rows, of which 1,000 are meant.
    """
    whole = len(meant) & ~7
    if whole < _MANY or not meant.flags.c_contiguous:
        return meant.nonzero()[0]
    words = (meant[:whole].view(np.uint64) != 0).nonzero()[0]
    if len(words) * _SPARSE > whole >> 3:
        return meant.nonzero()[0]
    rows = (words[:, None] * 8 + _EIGHT).ravel()
    return np.concatenate((rows[meant.take(rows)], meant[whole:].nonzero()[0] + whole))


def with_value(column: NDArray[N], meant: Mask, value: int) -> NDArray[N]:
    """A copy of a column with this value in the rows that are meant; the column itself, if no row is meant."""
    count = np.count_nonzero(meant)
    if not count:
        return column
    changed = column.copy()
    if count * _SPARSE < len(meant):
        changed[few_of(meant)] = value
    else:
        np.putmask(changed, meant, value)
    return changed


@lru_cache(maxsize=4)
def _all_true(height: int) -> Mask:
    """Where every row passed. Do not write to it."""
    mask = np.ones(height, np.bool_)
    mask.flags.writeable = False
    return mask


class FeasibleRows:
    """The rows that passed every filter: how many is known at once, and which of them when a plugin asks."""

    __slots__ = ("_first", "_mask", "_others", "_rows", "count")

    def __init__(self, first: First, count: int | None = None) -> None:
        """`first` has PASSED for these rows, and something else for the others. `count` is how many these are, if that is
        known already: then nothing reads the column unless a plugin asks for the rows."""
        self._first: First | None = first
        self._mask: Mask | None = None
        if count is None:
            self._mask = first == PASSED
            count = int(np.count_nonzero(self._mask))
        self.count = count
        self._rows: Rows | None = slice(0, len(first)) if self.count == len(first) else None
        self._others: NDArray[np.intp] | None = None

    @classmethod
    def all(cls, height: int) -> "FeasibleRows":
        """All rows. Hot: as a rule no filter rejects a node, and no column has to be read to count those that passed."""
        self = object.__new__(cls)
        self._first, self._mask, self._rows = None, _all_true(height), slice(0, height)
        self._others, self.count = None, height
        return self

    @classmethod
    def of(cls, rows: Rows, count: int) -> "FeasibleRows":
        """These rows, of which there are so many."""
        self = object.__new__(cls)
        self._first = self._mask = self._others = None
        self._rows, self.count = rows, count
        return self

    @property
    def _passed(self) -> Mask | None:
        """By row whether it passed; None where only the rows that passed are known."""
        if self._mask is None and self._first is not None:
            self._mask = self._first == PASSED
        return self._mask

    @property
    def rows(self) -> Rows:
        if self._rows is None:
            assert self._passed is not None
            self._rows = self._passed.nonzero()[0]
        return self._rows

    @property
    def are_most(self) -> bool:
        """Whether at least half of all rows passed: then columns of all rows are cheaper than a list of these."""
        column = self._mask if self._mask is not None else self._first
        return column is not None and 2 * self.count >= len(column)

    @property
    def others(self) -> NDArray[np.intp]:
        """The rows that did not pass."""
        if self._others is None:
            assert self._passed is not None
            self._others = few_of(~self._passed) if self.count < len(self._passed) else _NO_ROWS
        return self._others

    def among(self, rows: NDArray[np.intp], numbers: Integers) -> tuple[NDArray[np.intp], Integers]:
        """Select the feasible ones of these rows, with their numbers."""
        assert self._passed is not None
        if self.count == len(self._passed):
            return rows, numbers
        passed = self._passed.take(rows)
        return rows[passed], numbers[passed]

    def mask(self, totals: Integers, is_own: bool = False) -> Integers:
        """The totals of all rows, with the lowest number where a row did not pass. Do not write to it.

        Totals that are the caller's own are written to instead of a copy.
        """
        assert self._passed is not None
        if self.count == len(totals):
            return totals
        masked, lowest = totals if is_own else totals.copy(), np.iinfo(totals.dtype).min
        if self._others is not None or (len(totals) - self.count) * _SPARSE < len(totals):
            masked[self.others] = lowest
        else:
            np.putmask(masked, ~self._passed, lowest)
        return masked


def nth(meant: Mask, number: int) -> int:
    """The row with this number among those that are meant, counted from 0. There must be more of them than that."""
    start, stop = 0, len(meant)
    while stop - start > _CHUNK:
        middle = (start + stop) // 2
        count = int(np.count_nonzero(meant[start:middle]))
        if number < count:
            stop = middle
        else:
            start, number = middle, number - count
    return start + int(meant[start:stop].nonzero()[0][number])


def first_of(meant: Mask, order: NDArray[np.intp]) -> int:
    """The first row in this order that is meant. There must be one.

    Hot: as a rule many are meant, and one of the first rows is. To list 400,000 rows that are meant takes 1 ms.
    """
    start, size = 0, _CHUNK
    while True:
        part = order[start : start + size]
        found = meant[part]
        place = int(found.argmax())
        if found[place]:
            return int(part[place])
        start, size = start + size, 2 * size
