"""A tally sums up the pods of each value of a label as a plain loop does."""

from collections import Counter
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.nodes.labels import LabelColumn
from mooring.cluster.pods import tally as tally_module
from mooring.cluster.pods.tally import Tally

ROWS = 10
VALUES = st.lists(st.sampled_from((None, "a", "b", "c")), min_size=ROWS, max_size=ROWS)


@given(VALUES, st.lists(st.integers(0, ROWS - 1)), st.sampled_from((1, 8)))
def test_sums_by_value_are_those_of_a_plain_loop(values: list[str | None], pods: list[int], sparse: int) -> None:
    column, tally = LabelColumn("zone", ROWS), Tally(ROWS)
    for row, value in enumerate(values):
        column.put(row, value)
    for row in pods:
        tally.add((row, 1))
    with mock.patch.object(tally_module, "_SPARSE", sparse):
        found = tally.by_value(column)
    expected = Counter(values[row] for row in pods if values[row] is not None)
    assert {value: found[code] for code, value in enumerate(column.values) if found[code]} == expected
    assert tally.is_any_on(column) == bool(expected)
    tally.add((0, 1))
    assert tally.by_value(column).sum() == expected.total() + (values[0] is not None)


CHANGES = st.lists(st.tuples(st.integers(0, ROWS - 1), st.sampled_from((1, 120, 130, 33_000))), max_size=12)


@given(CHANGES)
def test_counts_of_any_size_are_those_of_a_plain_loop(changes: list[tuple[int, int]]) -> None:
    column, tally = LabelColumn("host", ROWS), Tally(ROWS)
    for row in range(ROWS):
        column.put(row, f"n{row}")
    tally.by_value(column)
    expected: Counter[int] = Counter()
    for row, change in [*changes, *((row, -change) for row, change in changes[::2])]:
        tally.add((row, change))
        expected[row] += change
        assert {row: count for row, count in enumerate(tally.counts.tolist()) if count} == +expected
    fresh, copy = LabelColumn("host", ROWS), tally.fork()
    for row in range(ROWS):
        fresh.put(row, f"n{row}")
    assert tally.by_value(column).tolist() == tally.by_value(fresh).tolist() == copy.by_value(column).tolist()
    copy.add((0, 40_000))
    copy.grow(ROWS + 1)
    assert copy.counts.tolist() == [expected[0] + 40_000, *tally.counts.tolist()[1:], 0]


def test_few_pods_take_a_byte_a_row() -> None:
    tally = Tally(ROWS)
    tally.add((0, 127))
    assert tally.counts.dtype == np.int8
