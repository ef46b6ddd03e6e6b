"""Node labels as dictionary-encoded columns, one for each label key that somebody asked about."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

ABSENT = 0
"""The code of a row without the label, without a node, or not in use."""

HOSTNAME = "kubernetes.io/hostname"


class LabelColumn:
    """The values of one label: `codes[row]` is a position in `values`; code 0 means that the label is absent."""

    def __init__(self, key: str, capacity: int) -> None:
        self.key = key
        self.codes: NDArray[np.int32] = np.zeros(capacity, np.int32)
        self.values: list[str | None] = [None]
        self.value_book: dict[str, int] = {}
        self.version = 0
        """Grows when a row that may hold pods changes its value: sums over values are then void."""

    @property
    def width(self) -> int:
        """The number of codes: what an array indexed by code needs for its length."""
        return len(self.values)

    def encode(self, value: str | None) -> int:
        if value is None:
            return ABSENT
        code = self.value_book.get(value)
        if code is None:
            code = self.value_book[value] = len(self.values)
            self.values.append(value)
        return code

    def put(self, row: int, value: str | None) -> None:
        code = self.encode(value)
        if self.codes[row] != code:
            self.codes[row] = code
            self.version += 1

    def grow(self, capacity: int) -> None:
        self.codes = grown(self.codes, capacity)


class LabelColumns:
    """Columns by label key, built when first asked for and kept up to date from then on."""

    def __init__(self) -> None:
        self._columns: dict[str, LabelColumn] = {}
        self._labels: dict[int, Mapping[str, str]] = {}
        self._capacity = 0

    def column(self, key: str) -> LabelColumn:
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = LabelColumn(key, self._capacity)
            for row, labels in self._labels.items():
                column.codes[row] = column.encode(labels.get(key))
        return column

    def put(self, row: int, labels: Mapping[str, str]) -> None:
        """The labels of a row; none: it has no node any more, or one without labels."""
        if labels:
            self._labels[row] = labels
        else:
            self._labels.pop(row, None)
        for key, column in self._columns.items():
            column.put(row, labels.get(key))

    def grow(self, capacity: int) -> None:
        self._capacity = capacity
        for column in self._columns.values():
            column.grow(capacity)


def grown(column: NDArray[Any], capacity: int) -> NDArray[Any]:
    """A longer copy of a column, or of a matrix whose last axis is the rows; what is new is zero."""
    longer = np.zeros((*column.shape[:-1], capacity), column.dtype)
    longer[..., : column.shape[-1]] = column
    return longer
