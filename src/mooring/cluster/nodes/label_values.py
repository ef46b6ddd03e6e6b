"""A list of values of one label, with their codes in the column of that label."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.labels import LabelColumn


class LabelValues:
    """Hot: codes never change, so they are looked up once for a column and not for each question."""

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
