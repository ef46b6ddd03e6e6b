"""Bounds of what pods can get: exact ones agree with brute force, and relaxations are never below."""

from dataclasses import replace
from fractions import Fraction
from itertools import combinations, product
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import examples
from mooring.answers.study import study_bound
from mooring.answers.study.study_bound import (
    AllocationBound,
    PodsAndNodes,
    SharedDevices,
    cut_weights,
    most_allocated,
)


def a_problem(
    pods: list[tuple[int, list[int]]], nodes: list[list[int]], allowed: list[list[int]] | None = None
) -> PodsAndNodes:
    """Pods as (how many, requests), and nodes as what they have free."""
    counts, requests = zip(*pods, strict=True)
    everywhere = [[1] * len(nodes)] * len(pods)
    return PodsAndNodes(
        np.array(requests, np.int64),
        np.array(counts, np.int64),
        np.array(nodes, np.int64),
        np.array(allowed or everywhere, np.bool_),
    )


@pytest.fixture
def relaxing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(study_bound, "EXACT_PODS", -1)


def brute_force(problem: PodsAndNodes, resource: int) -> int:
    """Every pod on every node or nowhere."""
    pods = [template for template, count in enumerate(problem.counts.tolist()) for _ in range(count)]
    best = 0
    for places in product(range(-1, len(problem.free)), repeat=len(pods)):
        left, total, fits = problem.free.tolist(), 0, True
        for template, node in zip(pods, places, strict=True):
            if node < 0:
                continue
            request = problem.requests[template].tolist()
            fits &= bool(problem.allowed[template, node])
            left[node] = [room - each for room, each in zip(left[node], request, strict=True)]
            fits &= all(room >= 0 or not each for room, each in zip(left[node], request, strict=True))
            total += request[resource]
        best = max(best, total if fits else 0)
    return best


@st.composite
def problems(draw: st.DrawFn) -> PodsAndNodes:
    templates, nodes = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    amount = st.sampled_from([0, 2, 3, 4, 5, 6, 8])
    pods = [(draw(st.integers(0, 2)), [draw(amount), draw(amount) * 1024, 1]) for _ in range(templates)]
    free = st.tuples(st.integers(-2, 11), st.integers(0, 11 * 1024), st.integers(0, 3))
    rooms = [[*draw(free)] for _ in range(nodes)]
    return a_problem(pods, rooms, [[draw(st.integers(0, 3)) for _ in range(nodes)] for _ in range(templates)])


@settings(max_examples=examples(100))
@given(problems(), st.integers(0, 1))
def test_small_problems_are_solved_and_relaxations_are_not_below(problem: PodsAndNodes, resource: int) -> None:
    best = brute_force(problem, resource)
    assert most_allocated(problem, resource) == AllocationBound(best, True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(study_bound, "EXACT_PODS", -1)
        relaxed = most_allocated(problem, resource)
        assert relaxed.amount >= best and (not relaxed.is_exact or relaxed.amount == best == 0)


@pytest.mark.usefixtures("relaxing")
@pytest.mark.parametrize(
    ("pods", "nodes", "bound"),
    [
        ([(5, [6, 1])], [[10, 9]] * 3, 18),  # one on each node: without whole pods it would be 30
        ([(4, [6, 1]), (4, [7, 1])], [[10, 9]] * 3, 21),  # two templates share the rule that a node has one large pod
        ([(9, [4, 1])], [[10, 9]] * 3, 24),  # two on each node
        ([(9, [5, 1])], [[10, 1], [10, 9]], 15),  # a node with one slot for pods
        ([(2, [5, 1])], [[10, 9]] * 3, 10),  # no more than there are
        ([(2, [11, 1])], [[10, 9]] * 3, 0),  # they fit nowhere
    ],
)
def test_whole_pods_on_single_nodes_keep_a_relaxation_low(
    pods: list[tuple[int, list[int]]], nodes: list[list[int]], bound: int
) -> None:
    assert most_allocated(a_problem(pods, nodes), 0).amount == bound


@given(st.lists(st.integers(1, 30), min_size=1, max_size=6), st.integers(0, 9), st.sampled_from(study_bound.CUTS))
@settings(max_examples=examples(200))
def test_pods_that_fit_on_a_node_weigh_at_most_one(requests: list[int], left: int, k: int) -> None:
    room = sum(requests) + left
    weights = cut_weights(np.array(requests, np.int64), room, k)
    assert sum(Fraction(float(weight)).limit_denominator(1000) for weight in weights) <= 1


def test_a_search_that_ends_early_still_has_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = a_problem([(3, [4, 1]), (3, [5, 1])], [[11, 9], [11, 9]])
    assert most_allocated(problem, 0) == AllocationBound(19, True)  # 5 + 5 and 5 + 4
    with monkeypatch.context() as patch:
        patch.setattr(study_bound, "EXACT_PODS", -1)
        relaxed = most_allocated(problem, 0)
    assert relaxed.amount >= 19 and not relaxed.is_exact
    for x, dual, told in (
        (None, None, relaxed),
        (None, float("-inf"), relaxed),
        (None, -99.0, relaxed),
        (None, -19.0, AllocationBound(19, False)),
        ([1, 0, 1, 2], -19.0, AllocationBound(19, True)),
        ([1, 1, 1, 1], -19.0, AllocationBound(19, False)),
    ):
        found = SimpleNamespace(x=None if x is None else np.array(x), status=1, mip_dual_bound=dual)
        monkeypatch.setattr(study_bound, "whole_program", lambda *asked, found=found: found)
        assert most_allocated(problem, 0) == told


# ---- pods that share devices


def on_devices(pods: list[tuple[int, int, int]], devices: list[int]) -> PodsAndNodes:
    """Pods as (how many, share of each device in tenths, number of devices), and nodes as numbers of devices."""
    _, shares, taken = zip(*pods, strict=True)
    problem = a_problem([(many, [share * number]) for many, share, number in pods], [[10 * each] for each in devices])
    shared = SharedDevices(10, *(np.array(each, np.int64) for each in (shares, taken, devices)))
    return replace(problem, devices=shared)


def most_on_devices(problem: PodsAndNodes) -> int:
    """Every pod on every set of devices of every node, or nowhere."""
    devices = problem.devices
    assert devices is not None
    pods = [template for template, count in enumerate(problem.counts.tolist()) for _ in range(count)]
    choices = [
        [
            None,
            *((n, some) for n, d in enumerate(devices.devices) for some in combinations(range(d), devices.counts[t])),
        ]
        for t in pods
    ]
    best = 0
    for places in product(*choices):
        used: dict[tuple[int, int], int] = {}
        for template, place in zip(pods, places, strict=True):
            node, some = place if place is not None else (0, ())
            for device in some:
                used[node, device] = used.get((node, device), 0) + int(devices.shares[template])
        if all(each <= devices.size for each in used.values()):
            best = max(best, sum(used.values()))
    return best


@pytest.mark.parametrize(
    ("pods", "devices", "bound"),
    [
        ([(3, 6, 1)], [2], 12),
        ([(5, 4, 1)], [2], 16),
        ([(2, 6, 1), (1, 10, 1)], [2], 16),
        ([(1, 6, 1), (1, 10, 2)], [2], 20),
        ([(4, 10, 1)], [2, 1], 30),
    ],
    ids=["one on each", "two on each", "a whole one beside a share", "both or one", "whole ones"],
)
def test_shares_of_devices_that_do_not_fit_together_bound_what_pods_get(
    pods: list[tuple[int, int, int]], devices: list[int], bound: int
) -> None:
    problem = on_devices(pods, devices)
    assert most_allocated(problem, 0).amount == most_on_devices(problem) == bound
    assert most_allocated(problem, 0).is_exact == all(share == 10 for _, share, _ in pods)
    assert most_allocated(replace(problem, devices=None), 0).amount >= bound


@given(st.data())
@settings(max_examples=examples(60))
def test_bounds_over_devices_are_never_below_brute_force(data: st.DataObject) -> None:
    share = st.integers(1, 10).map(lambda each: (each, 1)) | st.integers(1, 2).map(lambda number: (10, number))
    pods = [(data.draw(st.integers(1, 2)), *data.draw(share)) for _ in range(data.draw(st.integers(1, 2)))]
    problem = on_devices(pods, data.draw(st.lists(st.integers(1, 2), min_size=1, max_size=2)))
    best, plain = most_on_devices(problem), most_allocated(replace(problem, devices=None), 0).amount
    assert best <= most_allocated(problem, 0).amount <= plain
