"""The arithmetic of rolling updates: tables of upstream's cases, and bounds that hold for any numbers."""

import pytest
from hypothesis import given
from hypothesis import strategies as some

from mooring.controllers.workloads.deployment_sets import (
    Bounds,
    Part,
    Size,
    grown,
    proportional,
    rolling_bounds,
    shrunk,
)
from mooring.rules.evictions import share_of


@pytest.mark.parametrize(
    ("total", "value", "rounds_up", "expected"),
    [
        (10, 3, False, 3),
        (10, "25%", False, 2),
        (10, "25%", True, 3),
        (4, "25%", True, 1),
        (0, "100%", True, 0),
        (7, "100%", False, 7),
        (10, None, True, 0),
    ],
)
def test_shares(total: int, value: int | str | None, rounds_up: bool, expected: int) -> None:
    assert share_of(total, value, rounds_up) == expected


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "most", "fewest"),
    [
        pytest.param(10, "25%", "25%", 13, 8, id="the defaults"),
        pytest.param(1, "25%", "25%", 2, 1, id="a single pod is replaced before it goes"),
        pytest.param(10, 0, 0, 10, 9, id="nothing could move"),
        pytest.param(3, "0%", "10%", 3, 2, id="nothing could move after rounding"),
        pytest.param(2, 0, 5, 2, 0, id="more unavailable than there are"),
    ],
)
def test_bounds(replicas: int, surge: int | str, unavailable: int | str, most: int, fewest: int) -> None:
    bounds = rolling_bounds(replicas, surge, unavailable)
    assert (bounds.most, bounds.fewest_available) == (most, fewest)


@pytest.mark.parametrize(
    ("bounds", "new", "old", "expected"),
    [
        pytest.param(Bounds(10, 0, 2), Size(0, 0), [Size(10, 10)], [8], id="as many as may be missing"),
        pytest.param(Bounds(10, 0, 2), Size(0, 0), [Size(10, 8)], [8], id="the sick ones first"),
        pytest.param(
            Bounds(10, 3, 0), Size(3, 0), [Size(10, 10)], [10], id="new ones that do not work replace nothing"
        ),
        pytest.param(Bounds(10, 3, 0), Size(3, 3), [Size(10, 10)], [7], id="new ones that work replace as many"),
        pytest.param(Bounds(4, 0, 1), Size(0, 0), [Size(2, 2), Size(2, 2)], [1, 2], id="the oldest first"),
        pytest.param(Bounds(4, 1, 1), Size(2, 2), [Size(0, 0), Size(3, 0)], [0, 1], id="what never worked goes"),
    ],
)
def test_how_old_sets_shrink(bounds: Bounds, new: Size, old: list[Size], expected: list[int]) -> None:
    assert shrunk(bounds, new, old) == expected


@pytest.mark.parametrize(
    ("bounds", "parts", "expected"),
    [
        pytest.param(Bounds(15, 3, 2), [Part(8, 13), Part(5, 13)], [11, 7], id="growing in the middle of an update"),
        pytest.param(Bounds(5, 3, 2), [Part(8, 13), Part(5, 13)], [5, 3], id="shrinking in the middle of an update"),
        pytest.param(Bounds(0, 0, 0), [Part(8, 13), Part(5, 13)], [0, 0], id="to nothing"),
        pytest.param(Bounds(10, 3, 2), [Part(8, 13), Part(5, 13)], [8, 5], id="nothing to add"),
        pytest.param(Bounds(10, 2, 0), [Part(3, 6), Part(3, 6)], [6, 6], id="twice as many"),
    ],
)
def test_shares_of_a_change_of_size(bounds: Bounds, parts: list[Part], expected: list[int]) -> None:
    assert proportional(bounds, parts) == expected


counts = some.integers(0, 50)


@some.composite
def some_sizes(draw: some.DrawFn) -> Size:
    replicas = draw(counts)
    return Size(replicas, draw(some.integers(0, replicas)))


@some.composite
def some_bounds(draw: some.DrawFn) -> Bounds:
    return rolling_bounds(draw(some.integers(1, 50)), draw(counts), draw(counts))


@given(some_bounds(), some_sizes(), some.lists(some_sizes(), max_size=4))
def test_no_step_leaves_the_bounds(bounds: Bounds, new: Size, old: list[Size]) -> None:
    total = new.replicas + sum(size.replicas for size in old)
    size = grown(bounds, new.replicas, total)
    assert size <= max(bounds.replicas, 0)
    if size > new.replicas:
        assert total + size - new.replicas <= bounds.most
    sizes = shrunk(bounds, new, old)
    assert all(0 <= after <= before.replicas for after, before in zip(sizes, old, strict=True))
    available = new.available + sum(item.available for item in old)
    left = new.available + sum(min(after, item.available) for after, item in zip(sizes, old, strict=True))
    assert left >= min(available, bounds.fewest_available)


@given(some_bounds(), some.lists(some.builds(Part, some.integers(1, 50), counts), min_size=1, max_size=4))
def test_the_shares_add_up(bounds: Bounds, parts: list[Part]) -> None:
    sizes = proportional(bounds, parts)
    assert min(sizes) >= 0
    assert sum(sizes) >= bounds.most
    if sizes[0] > 0:
        assert sum(sizes) == bounds.most
