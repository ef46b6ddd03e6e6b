"""Dictionary-encoded columns of nodes: one for each label key that a pod asked about, one for taints, one for declared
features.

Selectors and tolerations are evaluated once for each distinct value and looked up by code, instead of once for each
node.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.kernels import Integers
from mooring.model.names import HOSTNAME, ZONE

# ---- Where the values of a label are: it turns an answer for each value into one for each row.
#
# Hot: to look the values of 100,000 rows up one by one (`take`) takes 70 to 240 µs. A comparison of as many bytes
# takes 3 µs, and there are few zones; of host names, each of which is on one row, few are different from the rest.


ABSENT = 0
"""The code of a row without the label, without a node, or not in use."""

Bytes = NDArray[np.int8]

_NARROW = 9
"""Up to so many codes (the absent value is one), a comparison for each is faster than a look-up for each row."""
_SPARSE = 8
"""If one row in so many is meant, or fewer, writing to a list of them is faster than a look-up for each row."""


class ValueRows:
    """The rows of each value of a label, as they were when it was made: a column makes it anew after a change."""

    def __init__(self, codes: NDArray[np.int32], width: int) -> None:
        """`codes` are those of the rows that are in use."""
        self.codes = codes
        self.counts: NDArray[np.intp] = np.bincount(codes, minlength=width)
        """How many rows have each value. Values that came up later are on no row."""
        self.narrow: Bytes | None = codes.astype(np.int8) if width <= _NARROW else None
        """The codes, where there are only few."""
        self.row_of: NDArray[np.intp] | None = None
        """By code the only row that has it, -1: none has. None: some value is on several rows, or there are few values."""
        if self.narrow is None and self.counts[1:].max(initial=0) <= 1:
            self.row_of = np.full(width, -1, np.intp)
            self.row_of[codes] = np.arange(len(codes))
            self.row_of[ABSENT] = -1

    def by_row(self, by_value: Bytes) -> Bytes | None:
        """The answer of each row, where most values have 0; None: 0 for all rows.

        | values of the rows | by value | by row |
        | a b a -            | a: 3     | 3 0 3 0 |
        """
        codes = (by_value[: len(self.counts)] != 0).nonzero()[0]  # Hot: of bytes, 200 µs instead of 10
        codes = codes[self.counts.take(codes) > 0]
        if not len(codes):
            return None
        if self.narrow is not None:
            return self.add_up(codes.tolist(), by_value.tolist())
        if self.row_of is None or by_value[ABSENT] or len(codes) * _SPARSE > len(self.codes):
            return by_value.take(self.codes)
        found = np.zeros(len(self.codes), np.int8)
        found[self.row_of.take(codes)] = by_value.take(codes)
        return found

    def add_up(self, codes: list[int], by_code: list[int]) -> Bytes:
        """By row the number for its code, where it is among these codes, else 0. There must be few values."""
        assert self.narrow is not None
        found = np.zeros(len(self.codes), np.int8)
        for code in codes:
            found += (self.narrow == code).view(np.int8) * np.int8(by_code[code])
        return found

    def spots(self, by_value: Integers) -> tuple[NDArray[np.intp], Integers] | None:
        """The rows whose number is not 0, with their numbers; None: too many, or more than one row has a value."""
        if self.row_of is None or by_value[ABSENT]:
            return None
        codes = (by_value[: len(self.row_of)] != 0).nonzero()[0]
        if len(codes) * _SPARSE > len(self.codes):
            return None
        rows = self.row_of.take(codes)
        is_there = rows >= 0
        if not is_there.all():
            codes, rows = codes[is_there], rows[is_there]
        return rows, by_value.take(codes)


_KEPT_FROM_THE_START = frozenset((HOSTNAME, ZONE))
"""Labels whose columns do not wait for a pod to ask: nearly all terms and constraints name them, and so do the default ones.

Hot: on 100,000 nodes the first pod with an affinity term waited 65 ms for the zones and 100 ms for the host names, because
each label had long left the processor's caches. Both take 1.3 µs as a node comes."""

_PAST_VALUES = 64
"""A column is dropped when it has more values than twice its rows plus this: then most values belong to no node any
more. Without the constant a small cluster would build its columns anew all the time."""


T = TypeVar("T")


class LabelColumn:
    """The values of one label: `codes[row]` is a position in `values`; code 0 means that the label is absent."""

    def __init__(self, key: str, capacity: int) -> None:
        self.key = key
        self.codes: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.values: list[str | None] = [None]
        self.value_book: dict[str, int] = {}
        self.version = 0
        """Grows when a row that may hold pods changes its value: sums over values are then void."""
        self.is_nowhere = False
        """Whether no node had the label when the column was made. Such a column is not kept up to date."""
        self._places: tuple[int, ValueRows] | None = None
        """Cache of `places`: the version of the column and the answer for this version."""

    @property
    def width(self) -> int:
        """The number of codes: what an array indexed by code needs for its length."""
        return len(self.values)

    def encode(self, value: str | None) -> int:
        """The code of a value; a new value gets the next one. Codes are never reused within a column."""
        if value is None:
            return ABSENT
        code = self.value_book.get(value)
        if code is None:
            code = self.value_book[value] = len(self.values)
            self.values.append(value)
        return code

    def fill(self, values: Mapping[int, str]) -> None:
        """Set the values of many rows of a column that has none yet. Hot: 100,000 nodes take 25 ms, and 80 one by one."""
        self.values += dict.fromkeys(values.values())
        self.value_book = {value: code for code, value in enumerate(self.values) if value is not None}
        rows = np.fromiter(values, np.intp, len(values))
        self.codes[rows] = np.fromiter(map(self.value_book.__getitem__, values.values()), np.int32, len(values))

    def put(self, row: int, value: str | None) -> None:
        """Set the value of a row; None: the label is absent."""
        code = self.encode(value)
        if self.codes[row] != code:
            self.codes[row] = code
            self.version += 1

    def places(self, height: int) -> ValueRows:
        """Where the values are among the first rows, which are in use."""
        known = self._places
        if known is None or known[0] != self.version or len(known[1].codes) != height:
            known = self._places = self.version, ValueRows(self.codes[:height].copy(), self.width)
        return known[1]

    def grow(self, capacity: int) -> None:
        self.codes = grown(self.codes, capacity)


class LabelValues:
    """A list of values of one label, with their codes in the column of that label.

    Hot: codes never change, so they are looked up once for a column and not for each question.
    """

    def __init__(self) -> None:
        self._values: list[str] = []
        self._column: LabelColumn | None = None
        self._codes: NDArray[np.int64] = np.zeros(0, np.int64)

    def add(self, values: Sequence[str]) -> None:
        self._values += values
        self._column = None

    def codes(self, column: LabelColumn) -> NDArray[np.int64]:
        """One for each value, also for values that no node has."""
        if self._column is not column:
            self._column = column
            self._codes = np.fromiter(map(column.encode, self._values), np.int64, len(self._values))
        return self._codes


class LabelColumns:
    """Columns by label key, built when first asked for, or with the first node, and kept up to date from then on.

    Only labels that some node has are kept: a pod may ask about thousands of others, and each would cost as much memory
    as the zones do. For these a column is made that says so, and forgotten.
    """

    LIMIT = 1024
    """Columns kept at once, far more than pods ask about as a rule; with 5,000 nodes they take 32 MiB."""

    def __init__(self) -> None:
        self._columns: dict[str, LabelColumn] = {}
        self._labels: dict[int, Mapping[str, str]] = {}
        self._rows: dict[str, set[int]] = {}
        """By key: the rows whose node has the label."""
        self._nowhere: NDArray[np.int32] = np.zeros(0, np.int32)
        self._hosts: LabelColumn | None = None
        """Cache of `hosts`, kept up to date once it was asked for."""
        self._capacity = 0
        self.keys_version = 0
        """Grows when the first node gets a label, or the last one loses it."""

    def has(self, key: str) -> bool:
        """Whether any node has the label."""
        return key in self._rows

    def kept_keys(self) -> list[str]:
        """The labels that have a column now."""
        return list(self._columns)

    def on_row(self, row: int) -> Mapping[str, str]:
        """The labels of the node of a row."""
        return self._labels.get(row, {})

    def rows_by_key(self) -> Mapping[str, set[int]]:
        """The rows whose node has a label, as they are filed under its key."""
        return self._rows

    def column(self, key: str) -> LabelColumn:
        """The column of a label. Do not keep it across changes of nodes: it may be dropped and built anew."""
        column = self._columns.get(key)
        return self._build(key) if column is None else column

    def hosts(self) -> LabelColumn:
        """A column in which each node that has a host name is a value of its own, also if others have the same host name."""
        if self._hosts is None:
            self._hosts = LabelColumn(HOSTNAME, self._capacity)
            self._hosts.fill({row: str(row) for row in sorted(self._rows.get(HOSTNAME, ()))})
        return self._hosts

    def put(self, row: int, labels: Mapping[str, str]) -> None:
        """The labels of a row; none: it has no node any more, or one without labels."""
        before = self._labels.pop(row, {})
        if labels:
            self._labels[row] = labels
        for key in before.keys() - labels.keys():
            self._take_away(row, key)
        for key, value in labels.items():
            if before.get(key) != value:
                self._give(row, key, value)
        if self._hosts is not None:
            self._hosts.put(row, str(row) if HOSTNAME in labels else None)

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        self._nowhere = np.zeros(capacity, np.int32)
        self._nowhere.flags.writeable = False
        for column in self._columns.values():
            column.grow(capacity)
        if self._hosts is not None:
            self._hosts.grow(capacity)

    def _build(self, key: str) -> LabelColumn:
        """Build a column from the labels of all rows that have the key.

        A label that no node has gets a column of zeros that is not kept; all such columns share one read-only array.
        """
        rows = self._rows.get(key)
        if rows is None:
            column = LabelColumn(key, 0)
            column.codes, column.is_nowhere = self._nowhere, True
            return column
        column = self._make(key)
        column.fill({row: self._labels[row][key] for row in sorted(rows)})
        return column

    def _make(self, key: str) -> LabelColumn:
        """An empty column that is kept."""
        if len(self._columns) >= self.LIMIT:
            del self._columns[next(iter(self._columns))]  # the oldest: if it is in use it will be built again
        column = self._columns[key] = LabelColumn(key, self._capacity)
        return column

    def _give(self, row: int, key: str, value: str) -> None:
        """The node of a row has this value of a label now."""
        rows = self._rows.get(key)
        if rows is None:
            rows = self._rows[key] = set()
            self.keys_version += 1
            if key in _KEPT_FROM_THE_START:
                self._make(key)
        rows.add(row)
        column = self._columns.get(key)
        if column is not None:
            column.put(row, value)
            self._forget_if_mostly_past(column, len(rows))

    def _take_away(self, row: int, key: str) -> None:
        """The node of a row has the label no longer."""
        rows = self._rows[key]
        rows.discard(row)
        column = self._columns.get(key)
        if column is not None:
            column.put(row, None)
            self._forget_if_mostly_past(column, len(rows))
        if not rows:
            del self._rows[key]
            self._columns.pop(key, None)
            self.keys_version += 1

    def _forget_if_mostly_past(self, column: LabelColumn, rows: int) -> None:
        """Values stay in a column when the last node that had them is gone; a fresh column has none of these."""
        if column.width > 2 * rows + _PAST_VALUES:
            del self._columns[column.key]

    def check(self, labels: Sequence[Mapping[str, str] | None]) -> list[str]:
        """The columns that do not hold what nodes have, in words; `labels` by row, None where there is no node."""
        faults = []
        for key, rows in self._rows.items():
            if rows != {row for row, found in enumerate(labels) if found is not None and key in found}:
                faults.append(f"label {key} is not where nodes have it")
        for key, column in self._columns.items():
            for row, found in enumerate(labels):
                if column.values[column.codes[row]] != (found.get(key) if found is not None else None):
                    faults.append(f"row {row}: label {key} is encoded as {column.values[column.codes[row]]!r}")
        if self._hosts is not None:
            encoded = [self._hosts.values[code] for code in self._hosts.codes[: len(labels)]]
            if encoded != [str(row) if found and HOSTNAME in found else None for row, found in enumerate(labels)]:
                faults.append("the hosts are not the nodes with a host name")
        return faults


class ValueColumn(Generic[T]):
    """A fact of nodes that many nodes have in common, such as the list of taints, dictionary-encoded: `codes[row]` is a
    position in `values`. Code 0 is the empty value: of rows without a node too.

    Plugins judge each distinct value once and look the answer up by code.
    """

    def __init__(self, empty: T) -> None:
        self.codes: NDArray[np.int32] = np.zeros(0, np.int32)
        self.values: list[T] = [empty]
        self._book: dict[T, int] = {empty: 0}

    def put(self, row: int, value: T, height: int) -> None:
        """Set the value of a row. In a table of this height, values that no row has any more are dropped once they are
        in the majority: a controller may give each node another taint every minute."""
        code = self._book.get(value)
        if code is None:
            code = self._book[value] = len(self.values)
            self.values.append(value)
        self.codes[row] = code
        if len(self.values) > 2 * height + _PAST_VALUES:
            self._renumber()

    def grow(self, capacity: int) -> None:
        self.codes = grown(self.codes, capacity)

    def _renumber(self) -> None:
        """Drop the values that no row has. The first one, which stands for nothing, stays the first."""
        used = np.union1d(self.codes, [0])
        self.values = [self.values[code] for code in used]
        self._book = {value: code for code, value in enumerate(self.values)}
        self.codes = np.searchsorted(used, self.codes).astype(np.int32)


def grown(column: NDArray[Any], capacity: int) -> NDArray[Any]:
    """A longer copy of a column, or of a matrix whose last axis is the rows; what is new is zero."""
    longer = np.zeros((*column.shape[:-1], capacity), column.dtype)
    longer[..., : column.shape[-1]] = column
    return longer
