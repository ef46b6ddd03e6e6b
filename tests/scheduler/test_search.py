"""How many nodes are looked at, and from where: the worked examples, and a plain walk over the nodes."""

from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from build import a_node
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.kept.feasible import DEAD, NARROWED_OUT, PASSED
from mooring.framework.kept.prepared import SearchCursor
from mooring.scheduler.decide import cut_short, nodes_to_find

REJECTED = 3
"""Some filter's index."""

ENOUGH: dict[str, tuple[int, int | None, int]] = {
    "unset means all": (5000, None, 5000),
    "0 means all": (5000, 0, 5000),
    "100 means all": (5000, 100, 5000),
    "more than 100 means all": (5000, 130, 5000),
    "a tenth": (5000, 10, 500),
    "rounded down": (1234, 50, 617),
    "rounded down once more": (999, 33, 329),
    "never less than a hundred": (5000, 1, 100),
    "49 of 200 is raised to a hundred": (200, 49, 100),
    "a hundred nodes are all looked at": (100, 5, 100),
    "fewer than a hundred are all looked at": (99, 5, 99),
    "no nodes": (0, 5, 0),
}


@pytest.mark.parametrize(("count", "percentage", "enough"), ENOUGH.values(), ids=ENOUGH.keys())
def test_how_many_feasible_nodes_are_enough(count: int, percentage: int | None, enough: int) -> None:
    assert nodes_to_find(count, percentage) == enough


def a_table(count: int) -> NodeTable:
    table = NodeTable()
    for i in range(count):
        table.put_node(a_node(f"n{i:03}"))
    return table


def verdicts(count: int, *rejected: int) -> Any:
    first = np.full(count, PASSED, np.int8)
    first[list(rejected)] = REJECTED
    return first


TWO_HUNDRED = a_table(200)


def look(first: Any, wanted: int, cursor: SearchCursor) -> tuple[list[int], list[int]]:
    """The rows found, and those whose verdict is kept."""
    found, seen = cut_short(TWO_HUNDRED, first, wanted, cursor)
    return found.tolist(), np.flatnonzero(seen != NARROWED_OUT).tolist()


def test_five_nodes_bring_the_start_back_to_where_it_was() -> None:
    cursor = SearchCursor()
    found, _ = cut_short(a_table(5), verdicts(5), 5, cursor)
    assert (found.tolist(), cursor.start) == ([0, 1, 2, 3, 4], 0)


def test_the_second_pod_looks_at_the_other_half() -> None:
    cursor = SearchCursor()
    assert look(verdicts(200), 100, cursor) == (list(range(100)), list(range(100)))
    assert cursor.start == 100
    assert look(verdicts(200), 100, cursor) == (list(range(100, 200)), list(range(100, 200)))
    assert cursor.start == 0


def test_a_rejected_node_is_passed_over_and_recorded() -> None:
    cursor = SearchCursor()
    found, seen = look(verdicts(200, 50), 100, cursor)
    assert found == [*range(50), *range(51, 101)]
    assert seen == list(range(101))
    assert cursor.start == 101


def test_rejections_after_the_last_node_that_was_wanted_are_recorded_too() -> None:
    cursor = SearchCursor()
    found, seen = look(verdicts(200, 50, 101), 100, cursor)
    assert found == [*range(50), *range(51, 101)]
    assert seen == list(range(102))
    assert cursor.start == 102


def test_only_the_nodes_that_a_pre_filter_named_move_the_start() -> None:
    first = np.full(200, NARROWED_OUT, np.int8)
    first[[7, 9]] = PASSED
    cursor = SearchCursor(start=199)
    found, seen = look(first, 2, cursor)
    assert (sorted(found), seen, cursor.start) == ([7, 9], [7, 9], 1)


def test_when_no_named_node_is_there_the_start_stays() -> None:
    cursor = SearchCursor(start=5)
    assert look(np.full(200, NARROWED_OUT, np.int8), 100, cursor) == ([], [])
    assert cursor.start == 5


def test_the_walk_goes_round_the_zones() -> None:
    table = NodeTable()
    for name, zone in (("a", "x"), ("b", "x"), ("c", "y"), ("d", "z"), ("e", "z")):
        table.put_node(a_node(name, labels={"topology.kubernetes.io/zone": zone}))
    cursor = SearchCursor()
    found, _ = cut_short(table, verdicts(5), 4, cursor)
    assert [table.names[row] for row in found] == ["a", "c", "d", "b"]
    assert cursor.start == 4


# ---- the twin: upstream's scan with one worker


def walk(first: list[int], wanted: int, start: int, alive: int) -> tuple[list[int], dict[int, int], int]:
    """Keep the first `wanted` feasible rows, record rejections until one more is met, and tell where to start next."""
    candidates = [row for row, verdict in enumerate(first) if verdict not in (NARROWED_OUT, DEAD)]
    found: list[int] = []
    recorded: dict[int, int] = {}
    for i in range(len(candidates)):
        row = candidates[(start + i) % len(candidates)]
        if first[row] != PASSED:
            recorded[row] = first[row]
        elif len(found) == wanted:
            break
        else:
            found.append(row)
    return found, recorded, (start + len(found) + len(recorded)) % alive


@given(
    st.lists(st.sampled_from((PASSED, PASSED, 0, REJECTED, NARROWED_OUT)), min_size=1, max_size=12),
    st.integers(1, 12),
    st.integers(0, 30),
)
@example([PASSED] * 12, 3, 11)
def test_a_search_that_is_cut_short_is_the_plain_walk(first: list[int], wanted: int, start: int) -> None:
    table, cursor = a_table(len(first)), SearchCursor(start)
    found, seen = cut_short(table, np.array(first, np.int8), wanted, cursor)
    expected, recorded, following = walk(first, wanted, start, len(first))
    assert found.tolist() == expected
    assert {
        row: verdict for row, verdict in enumerate(seen.tolist()) if verdict not in (PASSED, NARROWED_OUT)
    } == recorded
    assert {row for row, verdict in enumerate(seen.tolist()) if verdict == PASSED} == set(expected)
    assert cursor.start == (following if any(verdict != NARROWED_OUT for verdict in first) else start)


def test_rows_without_a_node_are_no_part_of_the_walk() -> None:
    table = a_table(4)
    table.remove_node("n001")
    first = verdicts(4)
    first[1] = DEAD
    cursor = SearchCursor()
    found, _ = cut_short(table, first, 2, cursor)
    assert ([table.names[row] for row in found], cursor.start) == (["n000", "n002"], 2)
