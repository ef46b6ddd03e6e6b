"""The kernels that hand out volumes, against plain loops."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mooring.cluster.columns.shelf import NONE, lowest_of_groups, lowest_untaken

PAIRS = st.lists(st.tuples(st.integers(0, 4), st.integers(0, 20)), max_size=12, unique=True)
RANKS = st.integers(0, 4) | st.just(NONE)


@given(PAIRS, st.integers(1, 3))
def test_lowest_of_groups(pairs: list[tuple[int, int]], depth: int) -> None:
    groups, ranks = (np.array([pair[i] for pair in pairs], np.int64) for i in (0, 1))
    expected = []
    for group in range(5):
        own = sorted(rank for other, rank in pairs if other == group)[:depth]
        expected.append(own + [NONE] * (depth - len(own)))
    assert lowest_of_groups(groups, ranks, 5, depth).T.tolist() == expected


@given(st.lists(st.tuples(st.tuples(RANKS, RANKS, RANKS), st.tuples(RANKS, RANKS)), max_size=6))
def test_lowest_untaken(rows: list[tuple[tuple[int, ...], tuple[int, ...]]]) -> None:
    offers = [np.array([row[0][i] for row in rows], np.int64) for i in range(3)]
    taken = [np.array([row[1][i] for row in rows], np.int64) for i in range(2)]
    expected = [min((rank for rank in offered if rank not in used), default=NONE) for offered, used in rows]
    assert lowest_untaken(offers, taken, len(rows)).tolist() == expected
    assert lowest_untaken([], taken, len(rows)).tolist() == [NONE] * len(rows)
