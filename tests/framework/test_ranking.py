"""A ranking of rows finds what a look at all rows finds, after any changes."""

from typing import Any
from unittest import mock

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from build import a_cluster, a_node, a_pod
from mooring.framework import ranking as ranking_module
from mooring.framework.ranking import DEAD, PASSED, RowRanking

ROWS = 11
CHANGE = st.tuples(st.integers(0, ROWS - 1), st.sampled_from((PASSED, PASSED, PASSED, 0, DEAD)), st.integers(-1, 2))


@given(st.lists(st.lists(CHANGE, min_size=1, max_size=4), max_size=8), st.integers(1, 5))
def test_the_best_rows_are_those_of_a_plain_loop(steps: list[list[tuple[int, int, int]]], block: int) -> None:
    nodes = a_cluster(*(a_node(f"n{number * 7 % ROWS:02}") for number in range(ROWS))).nodes
    first, totals = np.full(nodes.capacity, DEAD, np.int8), np.zeros(nodes.capacity, np.int32)
    first[:ROWS] = PASSED
    with mock.patch.object(ranking_module, "BLOCK", block):
        ranking = RowRanking(nodes, first, totals)
        for changes in [[], *steps]:
            for row, verdict, total in changes:
                first[row], totals[row] = verdict, total
            ranking.update([row for row, _, _ in changes])
            check(ranking, nodes, first, totals)


def check(ranking: RowRanking, nodes: Any, first: Any, totals: Any) -> None:
    feasible = [row for row in range(ROWS) if first[row] == PASSED]
    if not feasible:
        return
    highest = max(totals[row] for row in feasible)
    best = [row for row in feasible if totals[row] == highest]
    assert ranking.highest() == highest
    assert ranking.count() == len(best)
    assert [ranking.nth(number) for number in range(len(best))] == best
    assert ranking.lowest_named() == min(best, key=lambda row: nodes.names[row])


def test_rows_that_come_after_the_ranking_was_made_are_in_it() -> None:
    """A row without a node, because its pods came first, takes no part; but its block is there."""
    cluster = a_cluster(*(a_node(f"n{number}") for number in range(4)))
    nodes = cluster.nodes
    first, totals = np.full(nodes.capacity, DEAD, np.int8), np.zeros(nodes.capacity, np.int32)
    first[:4] = PASSED
    with mock.patch.object(ranking_module, "BLOCK", 2):
        ranking = RowRanking(nodes, first, totals)
        nodes.place(a_pod(), "unknown")
        ranking.update([4])
    assert (ranking.count(), ranking.highest()) == (4, 0)
