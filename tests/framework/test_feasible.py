"""The best row is found in columns as a plain loop finds it."""

from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_cluster, a_node
from mooring.framework.kept import feasible as feasible_module
from mooring.framework.kept.feasible import DEAD, PASSED, FeasibleRows, few_of, nth, with_value
from mooring.kit.choice import choose
from mooring.scheduler.ties import by_seed, lowest_name

ROWS = 11
ROW = st.tuples(st.sampled_from((PASSED, PASSED, PASSED, 0, DEAD)), st.integers(-1, 2))


@given(
    st.lists(ROW, min_size=ROWS, max_size=ROWS).filter(lambda rows: any(first == PASSED for first, _ in rows)),
    st.sampled_from((1, 7)),
    st.sampled_from((np.int16, np.int32, np.int64)),
    st.integers(0, 1000),
)
def test_the_best_row_is_that_of_a_plain_loop(rows: Any, step: int, dtype: Any, seed: int) -> None:
    nodes = a_cluster(*(a_node(f"n{number * step % ROWS:02}") for number in range(ROWS))).nodes
    assert nodes.is_named_by_row() == (step == 1)
    first, totals = (np.array(column) for column in zip(*rows, strict=True))
    found = FeasibleRows(first.astype(np.int8))
    passed = [row for row in range(ROWS) if first[row] == PASSED]
    assert found.count == len(passed)
    assert np.arange(ROWS)[found.rows].tolist() == passed
    before = totals.astype(dtype)
    masked = found.mask(before)
    assert before.tolist() == totals.tolist(), "the column is shared"
    assert found.mask(totals.astype(dtype), is_own=True).tolist() == masked.tolist()
    best = [row for row in passed if totals[row] == max(totals[passed])]
    listed = np.array(passed, np.intp)
    for rows, numbers in ((slice(0, ROWS), masked), (listed, before[listed])):
        assert lowest_name.pick_best(nodes, rows, numbers, seed) == min(best, key=lambda row: nodes.names[row])
        assert by_seed.pick_best(nodes, rows, numbers, seed) == best[choose(seed, len(best))]


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(1, 7), st.integers(1, 9))
def test_rows_are_counted_and_written_as_in_a_plain_loop(meant: list[bool], chunk: int, sparse: int) -> None:
    mask = np.array(meant)
    rows = [row for row, is_meant in enumerate(meant) if is_meant]
    with mock.patch.multiple(feasible_module, _CHUNK=chunk, _SPARSE=sparse):
        assert [nth(mask, number) for number in range(len(rows))] == rows
        with pytest.raises(IndexError):
            nth(mask, len(rows))
        column = np.arange(len(meant), dtype=np.int8)
        changed = with_value(column, mask, -5)
    assert changed.tolist() == [-5 if is_meant else row for row, is_meant in enumerate(meant)]
    assert column.tolist() == list(range(len(meant)))
    assert (changed is column) == (not rows)


@given(st.lists(st.sampled_from((False,) * 9 + (True,)), max_size=70), st.integers(1, 9), st.integers(1, 2))
def test_a_few_rows_are_those_of_a_plain_loop(meant: list[bool], sparse: int, step: int) -> None:
    rows = [row for row, is_meant in enumerate(meant[::step]) if is_meant]
    with mock.patch.multiple(feasible_module, _MANY=8, _SPARSE=sparse):
        assert few_of(np.array(meant, np.bool_)[::step]).tolist() == rows


def test_all_rows_are_those_of_a_column_in_which_all_passed() -> None:
    found, known = FeasibleRows(np.full(ROWS, PASSED, np.int8)), FeasibleRows.all(ROWS)
    totals, rows = np.arange(ROWS, dtype=np.int16), np.array([3, 1])
    assert (known.count, known.rows, known.are_most) == (found.count, found.rows, found.are_most)
    assert known.others.tolist() == found.others.tolist() == []
    assert known.mask(totals).tolist() == found.mask(totals).tolist() == totals.tolist()
    assert [part.tolist() for part in known.among(rows, totals[rows])] == [[3, 1], [3, 1]]
