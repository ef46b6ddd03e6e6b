"""How many pods have to leave at least: never more than the smallest set that helps."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.plugins.preemption.kept_harm import Room, fewest_leaving


def a_room(requests: list[int], limit: int, most_pods: int = 9) -> Room:
    """One row with one resource."""
    column = np.array(requests, np.int64)[:, None]
    count = np.array([len(requests)])
    return Room(column.cumsum(0)[None], np.array([[limit]]), np.array([most_pods]), np.zeros_like(column), count)


@pytest.mark.parametrize(
    ("requests", "limit", "most_pods", "fewest"),
    [
        pytest.param([2, 1, 1, 1], 4, 9, 1, id="one request is enough"),
        pytest.param([2, 1, 1, 1], 2, 9, 2, id="the largest is not enough"),
        pytest.param([2, 1], 9, 9, 1, id="at least one"),
        pytest.param([1, 1, 1], 1, 9, 2, id="as many as are missing"),
        pytest.param([0, 0, 0], 9, 1, 2, id="so that the number of pods is right"),
    ],
)
def test_the_fewest_that_leave(requests: list[int], limit: int, most_pods: int, fewest: int) -> None:
    room = a_room(requests, limit, most_pods)
    assert fewest_leaving(room, np.ones((len(requests), 1), np.bool_)).tolist() == [fewest]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=6), st.integers(0, 12), st.integers(0, 6), st.data())
def test_no_smaller_set_of_pods_makes_room(
    requests: list[int], limit: int, most_pods: int, data: st.DataObject
) -> None:
    lower = data.draw(st.lists(st.booleans(), min_size=len(requests), max_size=len(requests)))
    found = int(fewest_leaving(a_room(requests, limit, most_pods), np.array(lower)[:, None])[0])
    leaving = [place for place, is_lower in enumerate(lower) if is_lower]
    for number in range(1, len(leaving) + 1):
        for gone in combinations(leaving, number):
            held = sum(request for place, request in enumerate(requests) if place not in gone)
            if held <= limit and len(requests) - number <= most_pods:
                assert found <= number
                return
