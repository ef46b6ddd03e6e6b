"""Scores that follow from a label add up to the same totals as scores of single rows."""

from types import SimpleNamespace
from typing import Any, cast
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.columns import labels
from mooring.cluster.columns.kernels import Integers
from mooring.cluster.columns.labels import LabelColumn
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.plugin_caller import unwrapped
from mooring.framework.contract.points import Rows, Scores
from mooring.framework.kept.feasible import PASSED, FeasibleRows
from mooring.framework.kept.score_by_value import ScoreByValue, ask_score_by_value

VALUES = (None, "a", "b", "c", "d", "e")


class FromLowestToHighest(ScoreByValue):
    name = "FromLowestToHighest"

    def __init__(self, column: LabelColumn, by_value: Integers) -> None:
        self.column, self.by_value = column, by_value

    def score(self, context: SchedulingContext, rows: Rows) -> Scores | None:
        return self.by_value.take(self.column.codes[rows])

    def score_by_value(self, context: SchedulingContext) -> tuple[LabelColumn, Integers]:
        return self.column, self.by_value

    def normalize(self, context: SchedulingContext, scores: Scores, rows: Rows) -> Scores:
        lowest, highest = int(scores.min()), int(scores.max())
        return (scores - lowest) * 100 // max(highest - lowest, 1)


ROWS = st.lists(
    st.tuples(st.sampled_from(VALUES), st.sampled_from((PASSED, PASSED, 3)), st.integers(0, 50)),
    min_size=2,
    max_size=14,
)
SCORES = st.lists(st.sampled_from((0, 0, 0, -7, 5, 9)), min_size=len(VALUES), max_size=len(VALUES))


@given(ROWS, st.booleans(), SCORES, st.sampled_from((-2, 1, 2, 300)), st.sampled_from((1, 9)), st.sampled_from((1, 9)))
def test_totals_are_those_of_single_rows(
    rows: list[Any], is_host: bool, scores: list[int], weight: int, narrow: int, sparse: int
) -> None:
    column = LabelColumn("label", len(rows) + 3)
    for code, value in enumerate(VALUES[1:], 1):
        assert column.encode(value) == code
    for row, (value, _, _) in enumerate(rows):
        column.put(row, f"host-{row}" if is_host else value)
    by_value = np.array([0, *scores[1:], *(scores[code % len(scores)] for code in range(len(VALUES), column.width))])
    feasible = FeasibleRows(np.array([first for _, first, _ in rows], np.int8))
    plugin, nodes = FromLowestToHighest(column, by_value), SimpleNamespace(height=len(rows))
    context = cast("SchedulingContext", SimpleNamespace(wrap=unwrapped, nodes=nodes))
    if not feasible.count:
        return
    with mock.patch.multiple(labels, _NARROW=narrow, _SPARSE=sparse):
        found = ask_score_by_value(plugin, context, feasible, weight)
    if found is None:
        return
    kept = np.array([total for _, _, total in rows], np.int16)
    totals = (found.add_to(kept, np.int32) + found.base)[feasible.rows].tolist()
    raw = np.asarray(plugin.score(context, feasible.rows))
    added = plugin.normalize(context, raw, feasible.rows) * weight
    assert totals == (kept[feasible.rows] + added).tolist()
    assert kept.tolist() == [total for _, _, total in rows], "the column is shared"
