"""The lower bound of a plan is as high as all patterns together say, with limits, spreads and room on nodes."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from test_plan_patterns import a_demand, patterns_of

from how_many import examples
from mooring.answers.plan import patterns as patterns_module
from mooring.answers.plan import programs as programs_module
from mooring.answers.plan.demand import NodeDemand, SpreadLimit
from mooring.answers.plan.patterns import Knapsack, PatternProgram, most_worth
from mooring.answers.plan.programs import linear_program, lower_bound, solve

ZONES = ("a", "b")


class FullProgram:
    """The program over every pattern, row by row: nodes of patterns, then pods on present nodes, then lowest counts."""

    def __init__(self, demand: NodeDemand, counts: list[int]) -> None:
        self.demand, self.counts = demand, counts
        self.patterns = [(o, pods) for o in range(len(demand.offers)) for pods in patterns_of(demand, counts, o)]
        self.rooms = [(i, domain) for i, kind in enumerate(demand.kinds) for domain in kind.room]
        self.spreads = [i for i, kind in enumerate(demand.kinds) if kind.spread is not None]
        self.size = len(self.patterns) + len(self.rooms) + len(self.spreads)

    def cost(self) -> float | None:
        """None if not all pods can be placed."""
        rows, most = [], []
        for i, count in enumerate(self.counts):
            rows.append([-float(each) for each in self.pods(i)])
            most.append(-float(count))
        for offer, limit in enumerate(self.demand.limits):
            rows.append([float(each == offer) for each, _ in self.patterns] + self.zeros())
            most.append(float(limit))
        for i in self.spreads:
            for row, highest in self.spread_rows(i):
                rows.append(row)
                most.append(highest)
        prices = [self.demand.prices[offer] for offer, _ in self.patterns] + self.zeros()
        room = [float(self.demand.kinds[i].room[domain]) for i, domain in self.rooms]
        high = [np.inf] * len(self.patterns) + room + [np.inf] * len(self.spreads)
        found = linear_program(np.array(prices), np.array(rows), np.array(most), np.array(high))
        return float(found.fun) if found.status == 0 else None

    def zeros(self) -> list[float]:
        return [0.0] * (self.size - len(self.patterns))

    def pods(self, i: int, domain: str | None = None) -> list[float]:
        """How many pods of a kind each column stands for; in one domain."""
        spread = self.demand.kinds[i].spread
        on_nodes = [
            float(pods[i]) if domain is None or (spread is not None and spread.offers[offer] == domain) else 0.0
            for offer, pods in self.patterns
        ]
        on_present = [float(kind == i and domain in (None, its)) for kind, its in self.rooms]
        return [*on_nodes, *on_present, *(0.0 for _ in self.spreads)]

    def spread_rows(self, i: int) -> list[tuple[list[float], float]]:
        """In each domain at most the skew above the lowest count, and no fewer than it where there are nodes."""
        spread = self.demand.kinds[i].spread
        assert spread is not None
        found = []
        for domain in {*spread.held, *spread.offers.values()}:
            row = self.pods(i, domain)
            row[len(self.patterns) + len(self.rooms) + self.spreads.index(i)] = -1.0
            found.append((row, float(spread.most_above_lowest(domain))))
            if domain in spread.held:
                found.append(([-each for each in row], float(spread.held[domain])))
        return found


@st.composite
def demands(draw: st.DrawFn) -> tuple[NodeDemand, list[int]]:
    kinds = draw(st.lists(st.tuples(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4)), min_size=1, max_size=3))
    offers = draw(st.lists(st.tuples(st.integers(4, 9), st.integers(4, 9), st.integers(1, 9)), min_size=1, max_size=3))
    demand, counts = a_demand(kinds, offers)
    demand.limits = [draw(st.integers(1, 6)) for _ in offers]
    unit = draw(st.sampled_from([0.01, 1.0, 100.0]))
    demand.prices = [unit * price for price in demand.prices]
    zones = {offer: draw(st.sampled_from(ZONES)) for offer in range(len(offers))}
    for i, kind in enumerate(demand.kinds):
        room = draw(st.integers(0, 3))
        if draw(st.integers(0, 2)) == 0:
            held = {zone: draw(st.integers(0, 2)) for zone in ZONES if draw(st.booleans())}
            constraint: Any = None
            limit = SpreadLimit(draw(st.integers(1, 2)), held, zones, [], constraint)
            demand.kinds = [replace(each, spread=limit) if at == i else each for at, each in enumerate(demand.kinds)]
            demand.kinds[i].room = {zone: room for zone in held if room}
        elif room:
            kind.room = {"": room}
    return demand, counts


@settings(max_examples=examples(80), deadline=None)
@given(demands())
def test_the_bound_is_as_high_as_the_program_over_all_patterns(found: tuple[NodeDemand, list[int]]) -> None:
    demand, counts = found
    best = FullProgram(demand, counts).cost()
    assume(best is not None)
    assert best is not None
    program = PatternProgram(demand, counts)
    program.generate()
    solution = solve(replace(demand, cuts=program.cuts), counts, demand.limits)
    assert solution is not None and all(cut.weights for cut in program.cuts)
    assume(not solution.unplaced)
    assert solution.bound >= 0.99 * best - 1e-9
    assert solution.bound <= sum(n * price for n, price in zip(solution.nodes, demand.prices, strict=True)) + 1e-9


def test_pods_for_which_present_nodes_have_room_are_worth_nothing() -> None:
    """So no cut counts them: all their nodes would be for nothing."""
    demand, counts = a_demand([(2, 1, 3), (1, 2, 3), (2, 2, 3)], [(4, 8, 3), (9, 9, 6)])
    demand.kinds[0].room, demand.kinds[2].room = {"": 3}, {"": 2}
    program = PatternProgram(demand, counts)
    program.generate()
    assert {i for cut in program.cuts for i in cut.weights} == {1, 2}


def test_an_offer_that_takes_no_pod_has_no_cut() -> None:
    demand, counts = a_demand([(5, 5, 3)], [(4, 4, 1), (9, 9, 3)])
    program = PatternProgram(demand, counts)
    program.generate()
    assert {cut.offer for cut in program.cuts} == {1}


MANY = a_demand([(7, 5, 2), (5, 1, 3), (8, 7, 2), (3, 6, 2), (6, 8, 2)], [(15, 20, 7), (20, 18, 5), (15, 20, 8)])
"""The first and the last offer have the same knapsacks, at another price. Five rounds of them are solved."""


def solved(monkeypatch: pytest.MonkeyPatch, **most: int) -> tuple[list[Knapsack], PatternProgram]:
    """The knapsacks that the solver got."""
    asked: list[Knapsack] = []

    def watched(knapsack: Knapsack) -> tuple[dict[int, int], float]:
        asked.append(knapsack)
        return most_worth(knapsack)

    monkeypatch.setattr(patterns_module, "most_worth", watched)
    for name, number in most.items():
        monkeypatch.setattr(patterns_module, name, number)
    program = PatternProgram(*MANY)
    program.generate()
    return asked, program


def test_equal_knapsacks_are_solved_once_in_a_round(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, program = solved(monkeypatch)
    assert (len(asked), len(program.cuts)) == (5 * 2, 5 * 3)
    assert [cut.offer for cut in program.cuts] == [0, 1, 2] * 5


@pytest.mark.parametrize(("most", "rounds"), [(0, 1), (1, 2), (2, 2), (3, 3), (4, 3), (99, 5)])
def test_generation_ends_a_round_after_so_many_knapsacks(
    monkeypatch: pytest.MonkeyPatch, most: int, rounds: int
) -> None:
    asked, _ = solved(monkeypatch, MAX_KNAPSACKS=most)
    assert len(asked) == 2 * rounds


def test_cuts_are_made_even_where_all_rounds_are_over(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, program = solved(monkeypatch, MAX_ROUNDS=1)
    assert (len(asked), len(program.cuts)) == (2, 3)


# ---- a solver that does not end


@pytest.mark.parametrize(
    ("dual", "most"),
    [(None, 2 * 4 + 3 * 2), (-np.inf, 2 * 4 + 3 * 2), (np.inf, 2 * 4 + 3 * 2), (-9.5, 9.5), (-99.0, 2 * 4 + 3 * 2)],
    ids=["no bound", "an infinite bound", "nothing is possible", "a bound", "a bound above all pods together"],
)
def test_a_knapsack_that_is_not_solved_has_the_bound_that_is_known(
    monkeypatch: pytest.MonkeyPatch, dual: float | None, most: float
) -> None:
    knapsack = Knapsack(0, 1.0, (0, 1), (2.0, 3.0), (4, 2), ((0.5, 0.5),))
    for x in (None, np.array([1.0000001, 0.0])):
        found = SimpleNamespace(x=x, mip_dual_bound=dual)
        monkeypatch.setattr(patterns_module, "whole_program", lambda *asked, found=found: found)
        assert most_worth(knapsack) == ({} if x is None else {0: 1}, most)


def test_a_program_that_is_not_solved_has_no_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    demand, counts = a_demand([(2, 1, 4)], [(4, 8, 3)])

    def solved_as(x: Any, dual: float | None) -> Any:
        found = SimpleNamespace(x=x, mip_dual_bound=dual)
        monkeypatch.setattr(programs_module, "whole_program", lambda *asked: found)
        return solve(demand, counts, [9])

    assert solved_as(None, 5.0) is None
    assert lower_bound(demand, counts, [9]) == 0.0
    two_nodes = np.array([2.0, 4.0, 0.0])
    assert [solved_as(two_nodes, dual).bound for dual in (None, -np.inf, -1.0, 5.5, 99.0)] == [0.0, 0.0, 0.0, 5.5, 6.0]
    one_left = solved_as(np.array([2.0, 3.0, 1.0]), 304.5)
    assert (one_left.nodes, one_left.unplaced, one_left.bound) == ((2,), 1, 4.5), "without the price of a pod left out"
    assert lower_bound(demand, counts, [9]) == 0.0
