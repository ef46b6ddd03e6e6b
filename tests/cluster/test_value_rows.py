"""Answers by value of a label become answers by row as a plain loop makes them."""

from typing import Any
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.columns import labels
from mooring.cluster.columns.labels import ABSENT, LabelColumn, ValueRows

MOST = 12
CODES = st.one_of(
    st.lists(st.integers(0, MOST - 1), min_size=1, max_size=20),
    st.lists(st.integers(1, MOST - 1), min_size=1, unique=True).map(lambda codes: [*codes, ABSENT]),
)
"""Of rows: any values, or each value on one row at most."""
BY_VALUE = st.lists(st.sampled_from((0, 0, 0, 1, 2, 3)), min_size=MOST, max_size=MOST + 3)


@given(CODES, BY_VALUE, st.sampled_from((1, MOST)), st.integers(1, 9))
def test_each_row_has_the_answer_of_its_value(codes: list[int], by_value: list[int], narrow: int, sparse: int) -> None:
    with mock.patch.multiple(labels, _NARROW=narrow, _SPARSE=sparse):
        found = ValueRows(np.array(codes, np.int32), MOST).by_row(np.array(by_value, np.int8))
    expected = [by_value[code] for code in codes]
    assert (found.tolist() if found is not None else [0] * len(codes)) == expected
    assert found is None or any(expected)


@given(CODES, BY_VALUE, st.integers(1, 9))
def test_spots_are_the_rows_with_a_number(codes: list[int], by_value: list[int], sparse: int) -> None:
    with mock.patch.multiple(labels, _NARROW=1, _SPARSE=sparse):
        places = ValueRows(np.array(codes, np.int32), MOST)
        spots = places.spots(np.array(by_value, np.int32))
    named = [code for code in codes if code != ABSENT]
    meant = [code for code in range(MOST) if by_value[code]]
    if len(set(named)) < len(named) or by_value[ABSENT] or len(meant) * sparse > len(codes):
        assert spots is None
    else:
        expected: dict[int, Any] = {row: by_value[code] for row, code in enumerate(codes) if by_value[code]}
        assert spots is not None
        assert dict(zip(spots[0].tolist(), spots[1].tolist(), strict=True)) == expected


def test_a_column_knows_where_its_values_are_after_a_change() -> None:
    column = LabelColumn("zone", 4)
    column.put(0, "a")
    assert column.places(2).counts.tolist() == [1, 1]
    assert column.places(2) is column.places(2)
    column.put(1, "a")
    assert column.places(2).counts.tolist() == [0, 2]
    assert column.places(3).counts.tolist() == [1, 2]
