"""A count for each row, of the pods that meet a predicate or carry a list of affinity terms, with sums over node labels."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.labels import ABSENT, LabelColumn, grown

Counts = NDArray[np.int32]
"""Numbers of pods by value of a label."""
RowCounts = NDArray[np.signedinteger[Any]]
"""Numbers of pods by row, in bytes until one does not fit: there may be a thousand tallies of every node, and as a rule a
node has no more than 110 pods. Compare them or sum them up; what is added to them or multiplied wants wider ones."""
_MOST_IN_BYTES = int(np.iinfo(np.int8).max)


_SPARSE = 8
"""Hot: with fewer pods than one on so many rows, only rows that have one are summed up: 8 µs for 5,000 rows instead of 40."""


class _Sums(msgspec.Struct):
    """The pods of a tally by value of a label."""

    version: int
    """Version of the column that the sums are for. In another version rows may have other values."""
    counts: Counts
    total: int
    """How many are on rows with the label."""


RowChange = tuple[int, int]
"""A row, and how many pods came to it; below 0: left it."""

FEW_ROWS = 64
_FEW_VALUES = 64
"""Limits for a small tally: the number of rows with pods, and the number of values of a label."""


class CountsByValue(ABC):
    """Counts of pods that can be summed up by the values of a node label."""

    __slots__ = ()

    @abstractmethod
    def by_value_if_any(self, column: LabelColumn) -> Counts | None:
        """The count for each code of the label; None: no pod is on a row with the label."""

    def by_value(self, column: LabelColumn) -> Counts:
        """The count for each code of the label; rows without the label count nowhere. Do not write to it."""
        found = self.by_value_if_any(column)
        return np.zeros(column.width, np.int32) if found is None else found


class Tally(CountsByValue):
    """A count for each row, and its sums over the values of the node labels that were asked for.

    The sums are kept up to date pod by pod, because a decision about spreading needs them for every topology key.

    While few rows have pods, only these are kept, and no sums over labels with many values: there may be thousands of
    tallies, and numbers for 100,000 rows and as many host names take half a megabyte.
    """

    LIMIT = 16
    """Labels whose sums are kept at once. As a rule pods ask for one or two (zone, host name); beyond the limit all
    are dropped, since a workload with that many keys would hardly use one twice."""

    def __init__(self, capacity: int) -> None:
        self._capacity = capacity
        self._sparse: dict[int, int] | None = {}
        """By row that has pods, up to FEW_ROWS of them. None: there were more, and `_dense` has every row."""
        self._dense: RowCounts = np.zeros(0, np.int8)
        self._most = _MOST_IN_BYTES
        """The largest number that a count in it may be."""
        self.total = 0
        self._sums: dict[LabelColumn, _Sums] = {}

    @property
    def counts(self) -> RowCounts:
        """By row. Do not write to it."""
        return self._dense if self._sparse is None else _as_dense(self._sparse, self._capacity)

    def count(self, row: int) -> int:
        """How many pods a row has."""
        return self._dense.item(row) if self._sparse is None else self._sparse.get(row, 0)

    @property
    def rows_and_counts(self) -> tuple[NDArray[np.intp], RowCounts]:
        """The rows that have pods, and their counts."""
        if self._sparse is None:
            rows = self._dense.nonzero()[0]
            return rows, self._dense.take(rows)
        return np.fromiter(self._sparse, np.intp, len(self._sparse)), np.array(list(self._sparse.values()), np.int64)

    @property
    def sparse_counts(self) -> Mapping[int, int] | None:
        """The count of each row that has pods. None: more than FEW_ROWS rows had some."""
        return self._sparse

    @property
    def sums(self) -> Mapping[LabelColumn, _Sums]:
        """The kept sums by value of a label, for checks."""
        return self._sums

    def add(self, change: RowChange) -> None:
        """Pods come to a row, or leave it. Sums of an older version of a column are left alone: `by_value` makes them
        anew."""
        row, number = change
        self.total += number
        self._put(row, number)
        for column, sums in self._sums.items():
            code = column.codes.item(row)
            if code != ABSENT and sums.version == column.version:
                sums.counts[code] += number
                sums.total += number

    def _put(self, row: int, change: int) -> None:
        """Change the count of a row. When more than FEW_ROWS rows have pods, the counts move from a dict to an array with one
        place for each row."""
        if self._sparse is None:
            count = self._dense.item(row) + change
            if count > self._most:
                self._widen(count)
            self._dense[row] = count
        elif count := self._sparse.get(row, 0) + change:
            self._sparse[row] = count
            if len(self._sparse) > FEW_ROWS:
                self._dense, self._sparse = _as_dense(self._sparse, self._capacity), None
                self._most = int(np.iinfo(self._dense.dtype).max)
        else:
            self._sparse.pop(row, None)

    def _widen(self, count: int) -> None:
        """Make room for a count that is too large for the present type."""
        integers = _integers_for(count)
        self._dense, self._most = self._dense.astype(integers), int(np.iinfo(integers).max)

    def by_value_if_any(self, column: LabelColumn) -> Counts | None:
        if column.is_nowhere or not self.total:
            return None
        if self._sparse is not None and column.width > _FEW_VALUES:
            return sum_sparse(self._sparse, column, np.int32)
        sums = self._sums_over(column)
        return sums.counts if sums.total else None

    def _sums_over(self, column: LabelColumn) -> "_Sums":
        """Return the sums by value of a label. They are computed again if the column has changed its values, and extended if
        it got new values."""
        sums = self._sums.get(column)
        if sums is not None and sums.version == column.version:
            if len(sums.counts) < column.width:
                sums.counts = grown(sums.counts, column.width)
            return sums
        if sums is None and len(self._sums) >= self.LIMIT:
            self._sums.clear()
        counts = self._sum_up(column)
        sums = self._sums[column] = _Sums(column.version, counts, int(counts.sum()))
        return sums

    def _sum_up(self, column: LabelColumn) -> Counts:
        """Compute the number of pods by value of a label. If few rows of the array have pods, only these rows are added. Rows
        without the label do not count."""
        if self._sparse is not None:
            found = sum_sparse(self._sparse, column, np.int32)
            return np.zeros(column.width, np.int32) if found is None else found
        if self.total * _SPARSE > len(self._dense):
            return sum_by_code(column.codes, self._dense, column.width).astype(np.int32)
        sums = np.zeros(column.width, np.int32)
        rows = self._dense.nonzero()[0]
        np.add.at(sums, column.codes.take(rows), self._dense.take(rows).astype(np.int32))
        sums[ABSENT] = 0
        return sums

    def check(self) -> list[str]:
        """The sums by value of a label that differ from a recount."""
        faults = []
        for column, sums in self._sums.items():
            if sums.version != column.version:
                continue
            fresh = np.bincount(column.codes, self.counts, column.width)[1 : len(sums.counts)]
            if not np.array_equal(sums.counts[1:], fresh) or sums.total != fresh.sum():
                faults.append(f"sums over {column.key} differ from a recount")
        return faults

    def clear(self) -> None:
        """Count nothing, before a recount."""
        self._sparse = {}
        self._dense = np.zeros(0, np.int8)
        self.total = 0
        self._sums.clear()

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        if self._sparse is None:
            self._dense = grown(self._dense, capacity)
        self._sums.clear()  # among them may be sums over columns that are kept no longer, which do not grow

    def fork(self) -> "Tally":
        """A copy for a what-if."""
        other = Tally(self._capacity)
        other._sparse = None if self._sparse is None else dict(self._sparse)
        other._dense, other._most, other.total = self._dense.copy(), self._most, self.total
        other._sums = {
            column: _Sums(sums.version, sums.counts.copy(), sums.total) for column, sums in self._sums.items()
        }
        return other


_Integer = TypeVar("_Integer", bound=np.signedinteger[Any])


def sum_sparse(sparse: Mapping[int, int], column: LabelColumn, integers: type[_Integer]) -> NDArray[_Integer] | None:
    """Sums of the numbers of some rows by value of a label. None: no such row has the label."""
    codes = {row: column.codes.item(row) for row in sparse}
    if not any(codes.values()):
        return None
    sums = np.zeros(column.width, integers)
    for row, code in codes.items():
        sums[code] += sparse[row]
    sums[ABSENT] = 0
    return sums


def _as_dense(sparse: Mapping[int, int], capacity: int) -> RowCounts:
    """A number for every row."""
    counts = np.zeros(capacity, _integers_for(max(sparse.values(), default=0)))
    counts[list(sparse)] = list(sparse.values())
    return counts


def _integers_for(count: int) -> type[np.signedinteger[Any]]:
    return np.int8 if count <= _MOST_IN_BYTES else np.int16 if count <= np.iinfo(np.int16).max else np.int32


def sum_by_code(codes: NDArray[np.int32], counts: NDArray[np.signedinteger[Any]], width: int) -> NDArray[np.int64]:
    """Sums of counts over equal codes; code 0 (absent) sums to nothing.

    | codes  | counts  | width | sums    |
    | 1 2 1 0 | 3 1 2 9 | 4     | 0 5 1 0 |
    """
    sums = np.bincount(codes, counts, width).astype(np.int64)
    sums[ABSENT] = 0
    return sums


# ---- The counts of a selector that excludes pods: those of a tally that such selectors share, minus the excluded
# pods.


class TallyDifference(CountsByValue):
    """The pods that one tally counts and the other does not (model/selectors.py). Good until pods come or go."""

    __slots__ = ("_excluded", "_shared")

    def __init__(self, shared: Tally, excluded: Tally) -> None:
        """The second counts no pod that the first does not count."""
        self._shared = shared
        self._excluded = excluded

    @property
    def total(self) -> int:
        return self._shared.total - self._excluded.total

    @property
    def counts(self) -> NDArray[np.int32]:
        """By row."""
        counts = self._shared.counts.astype(np.int32)
        rows, excluded = self._excluded.rows_and_counts
        counts[rows] -= excluded.astype(np.int32)
        return counts

    def by_value_if_any(self, column: LabelColumn) -> Counts | None:
        found = self._shared.by_value_if_any(column)
        excluded = None if found is None else self._excluded.by_value_if_any(column)
        if found is None or excluded is None:
            return found
        found = found - excluded
        return found if found.any() else None


PodCounts = Tally | TallyDifference
"""Source of the number of pods that meet a predicate: in total, by row, and by value of a label."""
