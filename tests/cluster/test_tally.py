"""A tally sums up the pods of each value of a label as a plain loop does."""

from collections import Counter
from unittest import mock

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
        tally.add(row, 1)
    with mock.patch.object(tally_module, "_SPARSE", sparse):
        found = tally.by_value(column)
    expected = Counter(values[row] for row in pods if values[row] is not None)
    assert {value: found[code] for code, value in enumerate(column.values) if found[code]} == expected
    assert tally.is_any_on(column) == bool(expected)
    tally.add(0, 1)
    assert tally.by_value(column).sum() == expected.total() + (values[0] is not None)
