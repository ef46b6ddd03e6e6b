"""The counts of a selector that excludes pods: those of a tally that such selectors share, minus the excluded pods."""

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.labels import LabelColumn
from mooring.cluster.tallies.tally import Counts, Tally


class TallyDifference:
    """The pods that one tally counts and the other does not (model/exclusions.py). Good until pods come or go."""

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

    def by_value(self, column: LabelColumn) -> Counts:
        """The count for each code of the label; rows without the label count nowhere. Do not write to it."""
        found = self.by_value_if_any(column)
        return np.zeros(column.width, np.int32) if found is None else found

    def by_value_if_any(self, column: LabelColumn) -> Counts | None:
        """The same; None: no pod is on a row with the label."""
        found = self._shared.by_value_if_any(column)
        excluded = None if found is None else self._excluded.by_value_if_any(column)
        if found is None or excluded is None:
            return found
        found = found - excluded
        return found if found.any() else None


PodCounts = Tally | TallyDifference
"""What answers how many pods meet a predicate: in all, by row, and by value of a label."""
