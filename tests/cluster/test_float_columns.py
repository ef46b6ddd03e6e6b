"""Kernels over floats give what kernels over integers give, and their columns follow the table."""

from random import Random

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from build import a_node, a_pod
from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.kernels import (
    balance,
    balance_of_floats,
    even_mean,
    least_allocated,
    least_allocated_of_floats,
    weighted_mean,
)
from mooring.cluster.nodes.float_columns import EXACT, FIRST_RESOURCE, MAX_LINES, PODS, FloatColumns

LARGEST = EXACT - 1
AMOUNT = st.one_of(st.integers(0, LARGEST), st.integers(0, 300), st.sampled_from((LARGEST, LARGEST - 1, EXACT // 3)))
PAIRS = st.lists(st.tuples(AMOUNT.filter(bool), AMOUNT), min_size=1, max_size=30)


@given(PAIRS)
@example([(LARGEST, 0), (LARGEST, 1), (LARGEST, LARGEST), (LARGEST - 1, 1), (3, 2), (7, 7), (100, 1)])
@example([(amount, free) for amount in range(1, 120) for free in range(amount + 1)])
def test_least_allocated_is_the_same(pairs: list[tuple[int, int]]) -> None:
    allocatable, wanted = (np.array(column, np.int64) for column in zip(*pairs, strict=True))
    free = (allocatable - wanted).astype(np.float64) * 100
    found = least_allocated_of_floats(free, allocatable.astype(np.float64))
    assert found.tolist() == least_allocated(allocatable, wanted).tolist()


@given(PAIRS)
def test_least_allocated_of_pods_that_fit_is_the_same(pairs: list[tuple[int, int]]) -> None:
    allocatable, wanted = (
        np.array(column, np.int64) for column in zip(*((max(p), min(p)) for p in pairs), strict=True)
    )
    free = (allocatable - wanted).astype(np.float64) * 100
    found = least_allocated_of_floats(free, allocatable.astype(np.float64), fits=True)
    assert found.tolist() == least_allocated(allocatable, wanted).tolist()


@given(st.lists(st.tuples(AMOUNT, AMOUNT, AMOUNT.filter(bool), AMOUNT.filter(bool)), min_size=1, max_size=30))
def test_balance_is_the_same(rows: list[tuple[int, int, int, int]]) -> None:
    numbers = np.array(rows, np.int64).T
    amounts, allocatable = numbers[:2], numbers[2:]
    found = balance_of_floats(amounts.astype(np.float64) / allocatable.astype(np.float64))
    assert found.tolist() == balance(amounts, allocatable, allocatable != 0).tolist()
    amounts = np.minimum(amounts, allocatable)
    found = balance_of_floats(amounts.astype(np.float64) / allocatable.astype(np.float64), fits=True)
    assert found.tolist() == balance(amounts, allocatable, allocatable != 0).tolist()


@given(
    st.lists(st.lists(st.integers(0, 100), min_size=3, max_size=3), min_size=1, max_size=4),
    st.lists(st.integers(1, 9), min_size=4, max_size=4),
)
def test_the_mean_is_the_same_where_all_count(scores: list[list[int]], weights: list[int]) -> None:
    numbers, chosen = np.array(scores, np.int16), np.array(weights[: len(scores)], np.int64)
    expected = weighted_mean(numbers.astype(np.int64), np.ones(numbers.shape, np.bool_), chosen).tolist()
    assert even_mean(numbers, chosen.tolist()).tolist() == expected


def state(floats: FloatColumns) -> list[object]:
    both = slice(0, 2)
    return [
        *(matrix.tolist() for matrix in (floats.divisor, floats.held, floats.free, floats.free_percent)),
        floats.is_exact,
        floats.imbalance(both).tolist(),
    ]


@given(st.integers(0, 10_000))
def test_columns_follow_the_table(seed: int) -> None:
    """After any changes they are what a new set of columns is; only `lacks` may be more careful."""
    random, cluster = Random(seed), Cluster()
    for number in range(12):
        cluster.put(a_node(f"n{number}"))
    cluster.float_columns().imbalance(slice(0, 2))
    for step in range(20):
        name = f"n{random.randrange(14)}"
        choice = random.random()
        if choice < 0.6:
            cluster.nodes.place(a_pod(f"p{step}", cpu=random.choice(("1", "0", "70368744178")), memory="1Gi"), name)
        elif choice < 0.8:
            cluster.put(a_node(name, cpu=random.choice(("0", "8", "64")), allocatable={"example.com/gpu": 2}))
        elif pods := cluster.nodes.pods():
            cluster.nodes.displace(random.choice(pods).id)
        if random.random() < 0.5:
            followed, fresh = cluster.float_columns(), FloatColumns(cluster.nodes)
            fresh.refresh()
            assert followed.is_exact <= fresh.is_exact
            followed.is_exact = fresh.is_exact
            assert state(followed) == state(fresh)
            assert (fresh.lacks <= followed.lacks).all()
            assert_have_room_only_where_there_is(followed)


def assert_have_room_only_where_there_is(floats: FloatColumns) -> None:
    """They may say no where there is room, but not yes where there is none."""
    for resources in (slice(0, 1), slice(0, 2), slice(1, 3)):
        least_free = floats.free[FIRST_RESOURCE:][resources].min(1)
        least_scored = floats.free_percent[resources].min(1) / 100
        for place in range(len(least_free)):
            wanted, more = least_free.copy(), least_scored.copy()
            wanted[place] += 1
            more[place] += 1
            assert not floats.have_room(resources, wanted.tolist())
            assert not floats.have_scored_room(resources, more.tolist())
    assert not floats.take_a_pod() or floats.free[PODS].min() >= 1


def test_columns_find_room_again_after_many_changes() -> None:
    cluster = Cluster()
    cluster.put(a_node("n", cpu="4"))
    cluster.nodes.place(a_pod("p", cpu="3"), "n")
    assert not cluster.float_columns().have_room(slice(0, 1), [2000])
    cluster.nodes.displace(cluster.nodes.pods()[0].id)
    assert cluster.float_columns().have_room(slice(0, 1), [4000])


def test_sums_are_those_of_the_rows_that_are_meant() -> None:
    cluster = Cluster()
    for number in range(5):
        cluster.put(a_node(f"n{number}", cpu=str(number + 1)))
    floats, amounts = cluster.float_columns(), np.array([[500.0], [1.0]])
    expected = floats.free_percent[:2] + amounts
    assert floats.sums(floats.free_percent[:2], slice(0, 5), amounts).tolist() == expected.tolist()
    for rows in (np.array([3, 1, 3]), np.array([2])):
        assert floats.sums(floats.free_percent[:2], rows, amounts).tolist() == expected[:, rows].tolist()
        assert floats.divisor_of(slice(0, 2), rows).tolist() == floats.divisor[:2, rows].tolist()
        assert floats.divisor_of(slice(1, 2), rows).tolist() == floats.divisor[1:2, rows].tolist()
    cluster.put(a_node("n2", cpu="9"))
    assert cluster.float_columns().divisor_of(slice(0, 1), rows).tolist() == [[9000]]


def test_columns_follow_a_resource_that_gets_a_place_without_a_change_of_nodes() -> None:
    cluster = Cluster()
    cluster.put(a_node("n", allocatable={f"example.com/r{number}": 2 for number in range(9)}))
    assert cluster.float_columns().divisor.shape[0] == len(cluster.nodes.amounts.allocatable)
    for number in range(9):
        cluster.nodes.amounts.resource(f"example.com/r{number}")
    floats = cluster.float_columns()
    assert floats.divisor.shape[0] == len(cluster.nodes.amounts.allocatable)
    assert floats.divisor[cluster.nodes.amounts.resource("example.com/r8"), 0] == 2


def test_columns_have_the_resources_of_the_first_places_only() -> None:
    cluster = Cluster()
    rare = {f"example.com/r{number}": 1 << 47 for number in range(2 * MAX_LINES)}
    cluster.put(a_node("n", allocatable=rare))
    cluster.put(a_node("other"))
    places = cluster.nodes.amounts.places(rare)
    assert min(places) < MAX_LINES < max(places)
    floats = cluster.float_columns()
    assert floats.divisor.shape == (MAX_LINES, 2) and floats.free.shape == (MAX_LINES + FIRST_RESOURCE, 2)
    cluster.put(a_node("n", cpu="7"))
    assert cluster.float_columns().divisor[0].tolist() == [7000, 4000]
