"""A tally sums up the pods of each value of a label as a plain loop does."""

from collections import Counter
from typing import Any
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.columns.labels import LabelColumn
from mooring.cluster.tallies import tally as tally_module
from mooring.cluster.tallies.tally import Tally

ROWS = 10
VALUES = st.lists(st.sampled_from((None, "a", "b", "c")), min_size=ROWS, max_size=ROWS)


SIZES = st.fixed_dictionaries(
    {
        "FEW_ROWS": st.sampled_from((0, 2, 64)),
        "_FEW_VALUES": st.sampled_from((2, 64)),
        "_SPARSE": st.sampled_from((1, 8)),
    }
)
"""What decides how a tally keeps its numbers."""


@given(VALUES, st.lists(st.integers(0, ROWS - 1)), SIZES)
def test_sums_by_value_are_those_of_a_plain_loop(
    values: list[str | None], pods: list[int], sizes: dict[str, Any]
) -> None:
    column = LabelColumn("zone", ROWS)
    for row, value in enumerate(values):
        column.put(row, value)
    with mock.patch.multiple(tally_module, **sizes):
        tally = Tally(ROWS)
        for row in pods[::2]:
            tally.add((row, 1))
        tally.by_value(column)  # from here on sums are kept up to date
        for row in pods[1::2]:
            tally.add((row, 1))
        found = tally.by_value(column)
        expected = Counter(values[row] for row in pods if values[row] is not None)
        assert {value: found[code] for code, value in enumerate(column.values) if found[code]} == expected
        assert (tally.by_value_if_any(column) is not None) == bool(expected)
        rows, counts = tally.rows_and_counts
        assert dict(zip(rows.tolist(), counts.tolist(), strict=True)) == Counter(pods)
        tally.add((0, 1))
        assert tally.by_value(column).sum() == expected.total() + (values[0] is not None)


CHANGES = st.lists(st.tuples(st.integers(0, ROWS - 1), st.sampled_from((1, 120, 130, 33_000))), max_size=12)


@given(CHANGES, st.sampled_from((1, 5)), SIZES)
def test_counts_of_any_size_are_those_of_a_plain_loop(
    changes: list[tuple[int, int]], often: int, sizes: dict[str, Any]
) -> None:
    column = LabelColumn("host", ROWS)
    for row in range(ROWS):
        column.put(row, f"n{row}")
    expected: Counter[int] = Counter()
    with mock.patch.multiple(tally_module, **sizes):
        tally = Tally(ROWS)
        tally.by_value(column)
        for number, (row, change) in enumerate([*changes, *((row, -change) for row, change in changes[::2])]):
            tally.add((row, change))
            expected[row] += change
            if number % often == 0:
                assert {row: count for row, count in enumerate(tally.counts.tolist()) if count} == +expected
        fresh, copy = LabelColumn("host", ROWS), tally.fork()
        for row in range(ROWS):
            fresh.put(row, f"n{row}")
        assert tally.by_value(column).tolist() == tally.by_value(fresh).tolist() == copy.by_value(column).tolist()
        copy.add((0, 40_000))
        copy.grow(ROWS + 1)
        assert copy.counts.tolist() == [expected[0] + 40_000, *tally.counts.tolist()[1:], 0]


def test_few_pods_take_a_byte_a_row() -> None:
    """And none at all where no pod is."""
    tally = Tally(100_000)
    tally.add((0, 127))
    assert tally.counts.dtype == np.int8
    assert tally._dense.nbytes == 0
    for row in range(100):
        tally.add((row, 1))
    assert tally.counts.dtype == np.int16
    assert tally._dense.nbytes == 200_000


def test_pods_that_come_and_go_unasked_take_no_room() -> None:
    """There may be a thousand tallies that nobody asks: pods of the past must not be remembered in them."""
    few, many = Tally(ROWS), Tally(1000)
    for row in range(100):
        many.add((row, 1))
    assert many.counts.sum() == 100
    for number in range(1000):
        few.add((number % ROWS, 1))
        few.add((number % ROWS, -1))
        many.add((number, 1))
    assert few.sparse_counts == {}
    assert many.counts.tolist() == [2] * 100 + [1] * 900


def test_pods_that_come_to_a_new_value_of_a_label_are_counted_there() -> None:
    """Many at once: the sums are of another version of the column then."""
    column, tally = LabelColumn("zone", ROWS), Tally(ROWS)
    column.put(0, "a")
    tally.add((0, 1))
    assert tally.by_value(column).tolist() == [0, 1]
    column.put(1, "b")
    for _ in range(20):
        tally.add((1, 1))
    assert tally.by_value(column).tolist() == [0, 1, 20]
