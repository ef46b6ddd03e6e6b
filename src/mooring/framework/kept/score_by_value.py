"""Scores that follow from the value of one label: normalised by value, and added without a look-up for each row.

Hot: on 100,000 nodes, of which a few are not feasible, a decision with preferred affinity took 600 µs, most of it for the
scores of single rows.
"""

from abc import abstractmethod
from typing import Any

import msgspec
import numpy as np

from mooring.cluster.columns.kernels import Integers
from mooring.cluster.columns.labels import LabelColumn, ValueRows
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import ScorePlugin
from mooring.framework.contract.status import describe
from mooring.framework.kept.asking import AttemptError, normalize, scoring
from mooring.framework.kept.feasible import FeasibleRows


class ScoreByValue(ScorePlugin):
    """A score that is the same for all nodes with the same value of a label.

    Its `normalize` must depend on which scores there are among the feasible nodes, not on how many nodes have them, nor on
    the rows.
    """

    @abstractmethod
    def score_by_value(self, context: SchedulingContext) -> tuple[LabelColumn, Integers] | None:
        """A label, and the raw score for each code of it; None: it cannot be said so for this pod, and `score` is asked."""


class ValueScores(msgspec.Struct):
    """Contribution of a ScoreByValue plugin to the totals: `base` for all nodes, and a difference from the base for some of
    them."""

    base: int
    places: ValueRows
    rows: Any
    """The rows with more or less than the base; None: `by_code` says how much for each value."""
    more: Integers
    by_code: list[int]
    weight: int

    def add_to(self, totals: Integers, dtype: type[np.signedinteger[Any]]) -> Integers:
        """The totals of all rows with this score, less the base. Does not write to `totals`."""
        if self.rows is None:
            codes = [code for code, more in enumerate(self.by_code) if more]
            if not codes:
                return totals
            added = self.places.add_up(codes, self.by_code)
            return np.add(
                totals, added if self.weight == 1 else np.multiply(added, self.weight, dtype=dtype), dtype=dtype
            )
        changed = totals.astype(dtype)
        changed[self.rows] += np.multiply(self.more, self.weight, dtype=dtype)
        return changed


def ask_score_by_value(
    plugin: ScoreByValue, context: SchedulingContext, feasible: FeasibleRows, weight: int
) -> ValueScores | None:
    """Compute the normalized and weighted contribution of the plugin to the totals of feasible nodes; None: the caller must
    ask `score`."""
    try:
        found = context.wrap("Score", plugin.name, plugin.score_by_value)(context)
    except Exception as fault:
        raise AttemptError(f"{scoring(plugin)}: {describe(fault)}") from fault
    if found is None:
        return None
    column, by_value = found
    places = column.places(context.nodes.height)
    if places.narrow is not None:
        return _of_few_values(plugin, context, feasible, places, by_value, weight)
    return _of_spots(plugin, context, feasible, places, by_value, weight)


def _of_few_values(
    plugin: ScoreByValue,
    context: SchedulingContext,
    feasible: FeasibleRows,
    places: ValueRows,
    by_value: Integers,
    weight: int,
) -> ValueScores:
    """Normalize the scores of a label with few values, once for each value that a feasible row has. The base is the score of
    the first of these values."""
    counts, others = places.counts, feasible.others
    if len(others):
        counts = counts - np.bincount(places.codes.take(others), minlength=len(counts))
    present = counts.nonzero()[0]
    scores = normalize(plugin, context, by_value.take(present), slice(0, context.nodes.height)).tolist()
    by_code = [0] * len(counts)
    for code, score in zip(present.tolist(), scores, strict=True):
        by_code[code] = score - scores[0]
    return ValueScores(scores[0] * weight, places, None, by_value, by_code, weight)


def _of_spots(
    plugin: ScoreByValue,
    context: SchedulingContext,
    feasible: FeasibleRows,
    places: ValueRows,
    by_value: Integers,
    weight: int,
) -> ValueScores | None:
    """Normalize the scores of a label with many values, if most rows have the raw score 0. The base is the normalized score
    of 0; only the other rows are listed. None if this form does not apply."""
    spots = places.spots(by_value)
    if spots is None:
        return None
    rows, raw = feasible.among(*spots)
    if len(rows) == feasible.count:
        return None  # no feasible row has 0
    zero_first = np.concatenate((np.zeros(1, raw.dtype), raw))
    scores = normalize(plugin, context, zero_first, slice(0, context.nodes.height))
    base = int(scores[0])
    return ValueScores(base * weight, places, rows, scores[1:] - base, [], weight)
