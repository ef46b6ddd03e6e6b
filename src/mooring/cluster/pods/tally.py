"""A count by row of the pods that meet a predicate, or carry a list of terms, with its sums over node labels."""

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.labels import ABSENT, LabelColumn, grown


class Tally:
    """A count for each row, and its sums over the values of the node labels that somebody asked for."""

    LIMIT = 16
    """Labels whose sums are kept at once: as a rule one or two are asked for."""

    def __init__(self, capacity: int) -> None:
        self.counts: NDArray[np.int64] = np.zeros(capacity, np.int64)
        self.total = 0
        self._sums: dict[LabelColumn, tuple[int, NDArray[np.int64]]] = {}

    def add(self, row: int, change: int) -> None:
        self.counts[row] += change
        self.total += change
        for column, (version, sums) in self._sums.items():
            code = column.codes[row]
            if code != ABSENT and version == column.version and code < len(sums):
                sums[code] += change

    def by_value(self, column: LabelColumn) -> NDArray[np.int64]:
        """The count for each code of the label; rows without the label count nowhere. Do not write to it."""
        if column.is_nowhere:
            return np.zeros(column.width, np.int64)
        version, sums = self._sums.get(column, (-1, None))
        if sums is None or version != column.version:
            sums = sum_by_code(column.codes, self.counts, column.width)
        elif len(sums) < column.width:
            sums = grown(sums, column.width)
        else:
            return sums
        if column not in self._sums and len(self._sums) >= self.LIMIT:
            self._sums.clear()
        self._sums[column] = (column.version, sums)
        return sums

    def clear(self) -> None:
        self.counts[:] = 0
        self.total = 0
        self._sums.clear()

    def grow(self, capacity: int) -> None:
        self.counts = grown(self.counts, capacity)
        self._sums.clear()  # among them may be sums over columns that are kept no longer, which do not grow

    def fork(self) -> "Tally":
        other = Tally(0)
        other.counts = self.counts.copy()
        other.total = self.total
        other._sums = {column: (version, sums.copy()) for column, (version, sums) in self._sums.items()}
        return other


def sum_by_code(codes: NDArray[np.int32], counts: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Sums of counts over equal codes; code 0 (absent) sums to nothing.

    | codes  | counts  | width | sums    |
    | 1 2 1 0 | 3 1 2 9 | 4     | 0 5 1 0 |
    """
    sums = np.bincount(codes, counts, width).astype(np.int64)
    sums[ABSENT] = 0
    return sums
