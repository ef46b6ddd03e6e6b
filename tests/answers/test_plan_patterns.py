"""Patterns of nodes: a cut never forbids pods that one node can hold, and the program costs no more than any packing."""

from collections import Counter
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from how_many import examples
from mooring.answers.plan import patterns as patterns_module
from mooring.answers.plan.demand import PODS, NodeDemand, PodKind
from mooring.answers.plan.patterns import Knapsack, PatternProgram, by_density, most_worth
from mooring.answers.plan.programs import linear_program, lower_bound

CPU, MEMORY = 0, 1
small = st.integers(1, 5)
kinds_of_pods = st.lists(st.tuples(small, small, st.integers(1, 3)), min_size=1, max_size=3)
machines = st.lists(st.tuples(st.integers(4, 9), st.integers(4, 9), st.integers(1, 9)), min_size=1, max_size=2)


def a_demand(kinds: list[tuple[int, int, int]], offers: list[tuple[int, int, int]]) -> tuple[NodeDemand, list[int]]:
    """Kinds are (cpu, memory, pods), offers (cpu, memory, price). Returns the demand, and how many pods of each kind."""
    free = [{CPU: cpu, MEMORY: memory, PODS: 4} for cpu, memory, _ in offers]
    found = []
    for cpu, memory, _ in kinds:
        most = [min(has[CPU] // cpu, has[MEMORY] // memory, has[PODS]) for has in free]
        takers = {offer: number for offer, number in enumerate(most) if number}
        found.append(PodKind([], {CPU: cpu, MEMORY: memory, PODS: 1}, takers, Counter(), True))
    prices = [float(price) for _, _, price in offers]
    return NodeDemand(found, free, prices, [9] * len(offers)), [number for _, _, number in kinds]


def patterns_of(demand: NodeDemand, counts: list[int], offer: int) -> list[tuple[int, ...]]:
    """Every number of pods of each kind that one node can hold, by trying all."""
    found = []
    for pods in product(*(range(count + 1) for count in counts)):
        held = {r: sum(n * kind.requests[r] for n, kind in zip(pods, demand.kinds, strict=True)) for r in (0, 1, PODS)}
        if all(held[resource] <= free for resource, free in demand.offers[offer].items()):
            found.append(pods)
    return found


def cheapest_packing(demand: NodeDemand, counts: tuple[int, ...], known: dict[tuple[int, ...], float]) -> float:
    """What the cheapest nodes cost that hold all pods, by trying all patterns."""
    if not any(counts):
        return 0.0
    if counts not in known:
        known[counts] = float("inf")
        for offer, price in enumerate(demand.prices):
            for pods in patterns_of(demand, list(counts), offer):
                if any(pods):
                    rest = tuple(count - number for count, number in zip(counts, pods, strict=True))
                    known[counts] = min(known[counts], price + cheapest_packing(demand, rest, known))
    return known[counts]


@settings(max_examples=examples(60), deadline=None)
@given(kinds=kinds_of_pods, offers=machines)
def test_the_bound_is_no_higher_than_the_cheapest_packing(
    kinds: list[tuple[int, int, int]], offers: list[tuple[int, int, int]]
) -> None:
    kinds = [(cpu, memory, n) for cpu, memory, n in kinds if any(cpu <= c and memory <= m for c, m, _ in offers)]
    demand, counts = a_demand(kinds, offers)
    program = PatternProgram(demand, counts)
    program.generate()
    best = cheapest_packing(demand, tuple(counts), {})
    if kinds:
        assert program.cheapest(counts, demand.limits, demand).cost <= best + 1e-6
    without = lower_bound(demand, counts, demand.limits)
    demand.cuts = program.cuts
    assert without - 0.01 * best <= lower_bound(demand, counts, demand.limits) <= best + 1e-6
    for cut in program.cuts:
        for pods in patterns_of(demand, counts, cut.offer):
            weights = (cut.weights.get(i, 0.0) * number for i, number in enumerate(pods))
            assert sum(weights) <= 1 + 1e-6


@settings(max_examples=examples(60), deadline=None)
@given(kinds=kinds_of_pods, offers=machines)
def test_generated_patterns_are_as_good_as_all_patterns(
    kinds: list[tuple[int, int, int]], offers: list[tuple[int, int, int]]
) -> None:
    """Generation ends within half a percent of the cheapest solution that may use every pattern."""
    kinds = [(cpu, memory, n) for cpu, memory, n in kinds if any(cpu <= c and memory <= m for c, m, _ in offers)]
    if not kinds:
        return
    demand, counts = a_demand(kinds, offers)
    program = PatternProgram(demand, counts)
    program.generate()
    found = program.cheapest(counts, demand.limits, demand)
    pairs = [(offer, pods) for offer in range(len(offers)) for pods in patterns_of(demand, counts, offer)]
    rows = [[-pods[kind] for _, pods in pairs] for kind in range(len(kinds))]
    prices = np.array([demand.prices[offer] for offer, _ in pairs])
    best = linear_program(prices, rows, -np.array(counts, np.float64), np.full(len(pairs), np.inf)).fun
    assert best - 1e-6 <= found.cost <= 1.005 * best + 1e-6
    assert sum(n * price for n, price in zip(found.nodes, demand.prices, strict=True)) == pytest.approx(found.cost)


def test_patterns_keep_the_limits_of_offers() -> None:
    """Two nodes of the cheaper offer hold 4 of 6 pods, and one of the dearer offer the rest."""
    demand, _ = a_demand([(2, 1, 6)], [(4, 4, 1), (4, 4, 3)])
    demand.limits = [2, 9]
    program = PatternProgram(demand, [6])
    program.generate()
    found = program.cheapest([6], demand.limits, demand)
    assert found.nodes == pytest.approx([2.0, 1.0])
    assert found.cost == pytest.approx(5.0)
    fewer = program.cheapest([3], [1, 9], demand)
    assert fewer.nodes == pytest.approx([1.0, 0.5])
    assert fewer.cost == pytest.approx(2.5)


def test_a_pod_for_which_no_node_is_left_costs_more_than_any_node() -> None:
    demand, _ = a_demand([(2, 1, 6)], [(4, 4, 1), (4, 4, 3)])
    program = PatternProgram(demand, [6])
    program.generate()
    found = program.cheapest([6], [1, 1], demand)
    assert found.nodes == pytest.approx([1.0, 1.0])
    assert found.cost == pytest.approx(4.0 + 2 * 300.0)


def test_the_last_sixty_cuts_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    demand, counts = a_demand([(1, 2, 3), (2, 1, 3)], [(5, 7, 3), (8, 5, 4), (9, 9, 6)])
    every = PatternProgram(demand, counts)
    every.generate()
    assert {cut.offer for cut in every.cuts} <= {0, 1, 2} and len(every.cuts) <= 60
    monkeypatch.setattr(patterns_module, "MAX_CUTS", 2)
    few = PatternProgram(demand, counts)
    few.generate()
    assert few.cuts == every.cuts[-2:]


def test_patterns_see_that_pods_of_more_than_half_a_node_do_not_share_one() -> None:
    """By volume, five such pods need three nodes and small ones fit beside them."""
    demand, counts = a_demand([(5, 1, 5)], [(9, 9, 2)])
    demand.kinds[0].takers[0] = 2  # as if nothing but volumes were known
    assert lower_bound(demand, counts, demand.limits) == 6.0
    program = PatternProgram(demand, counts)
    program.generate()
    demand.cuts = program.cuts
    assert lower_bound(demand, counts, demand.limits) == pytest.approx(10.0)


@settings(max_examples=examples(60), deadline=None)
@given(kinds=kinds_of_pods, offers=machines, worths=st.lists(st.integers(1, 9), min_size=3, max_size=3))
def test_knapsacks_hold_what_a_node_can_hold(
    kinds: list[tuple[int, int, int]], offers: list[tuple[int, int, int]], worths: list[int]
) -> None:
    demand, counts = a_demand(kinds, offers)
    by_kind = {i: float(worths[i]) for i in range(len(kinds))}
    knapsack = Knapsack.of(demand, counts, 0, 1.0, by_kind)
    possible = patterns_of(demand, counts, 0)
    best = max(sum(by_kind[i] * number for i, number in enumerate(pods)) for pods in possible)
    pods, most = most_worth(knapsack)
    for found in (pods, by_density(knapsack)):
        assert tuple(found.get(i, 0) for i in range(len(kinds))) in possible
    assert sum(by_kind[i] * number for i, number in pods.items()) == pytest.approx(best)
    assert best - 1e-6 <= most <= best * 1.001 + 1e-6
