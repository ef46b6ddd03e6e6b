"""Counts of the pods that a selector selects which excludes some: those of a tally that is shared, less those excluded."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.labels import LabelColumn
from mooring.cluster.pods.tally import Counts, Tally


class TallyDifference:
    """What tallies count together, some added and some subtracted (model/exclusions.py). Good until pods come or go."""

    __slots__ = ("_first", "_others")

    def __init__(self, first: Tally, others: Sequence[tuple[int, Tally]]) -> None:
        """The others count no pod that the first does not count."""
        self._first = first
        self._others = [(sign, tally) for sign, tally in others if tally.total]

    @property
    def total(self) -> int:
        return self._first.total + sum(sign * tally.total for sign, tally in self._others)

    @property
    def counts(self) -> NDArray[np.int32]:
        """By row."""
        counts = self._first.counts.astype(np.int32)
        for sign, tally in self._others:
            rows, pods = tally.rows_and_counts
            counts[rows] += sign * pods.astype(np.int32)
        return counts

    def by_value(self, column: LabelColumn) -> Counts:
        """The count for each code of the label; rows without the label count nowhere. Do not write to it."""
        found = self.by_value_if_any(column)
        return np.zeros(column.width, np.int32) if found is None else found

    def by_value_if_any(self, column: LabelColumn) -> Counts | None:
        """The same; None: no pod is on a row with the label."""
        found = self._first.by_value_if_any(column)
        if found is None or not self._others:
            return found
        for sign, tally in self._others:
            part = tally.by_value_if_any(column)
            if part is not None:
                found = found + part if sign > 0 else found - part
        return found if found.any() else None
