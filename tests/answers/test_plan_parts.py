"""Small parts of the search for nodes, each with numbers that are worked out by hand."""

from typing import Any

import pytest
from test_plan_patterns import a_demand

from build import a_pod
from mooring.answers.plan.additions import AddedNodes
from mooring.answers.plan.demand import SpreadLimit
from mooring.answers.plan.knapsacks import Knapsack, by_density, most_worth
from mooring.answers.plan.offers import NodeOffer
from mooring.answers.plan.programs import Packing, lower_bound, solve
from mooring.answers.plan.search import FoundNodes
from mooring.answers.plan.tidying import by_preference, found_steps, sum_of
from mooring.model.node import Node


def found(cost: float, steps: int = 0, left: int = 0) -> FoundNodes:
    return FoundNodes((1,), [a_pod(f"p{i}") for i in range(left)], cost, tuple((1,) for _ in range(steps)))


# ---- preference


@pytest.mark.parametrize(
    ("others", "bound", "preferred"),
    [
        ([found(100, 3), found(102, 1)], 100.0, 102),
        ([found(100, 3), found(102.1, 1)], 100.0, 100),
        ([found(100, 3), found(102, 1)], 92.0, 100),
        ([found(100, 3), found(100, 2)], 50.0, 100),
        ([found(90, 1, left=1), found(100, 3)], 100.0, 100),
        ([found(101, 2), found(100, 2)], 100.0, 100),
    ],
    ids=[
        "fewer steps for 2 % more",
        "not for more than 2 %",
        "not beyond a tenth above the bound",
        "the same cost",
        "one that leaves a pod is not preferred",
        "of as many steps the cheaper",
    ],
)
def test_a_plan_of_fewer_steps_is_preferred_where_it_costs_little_more(
    others: list[FoundNodes], bound: float, preferred: float
) -> None:
    first = by_preference(others, bound)[0]
    assert first.cost == preferred
    assert len(first.steps) == min(len(each.steps) for each in others if each.cost == preferred and not each.left)


def test_nodes_of_steps_are_added_up() -> None:
    demand, _ = a_demand([(1, 1, 1)], [(4, 4, 3), (8, 8, 5)])
    assert sum_of((1, 2), (3, 0)) == (4, 2)
    assert found_steps(demand, [(1, 0), (1, 2)], []) == FoundNodes((2, 2), [], 16.0, ((1, 0), (1, 2)))
    assert found_steps(demand, [], []).counts == (0, 0)
    assert found(5.0, left=2).rank() == (2, 5.0)


def test_the_cost_of_added_nodes() -> None:
    assert AddedNodes(NodeOffer("x", 2.5, 9, Node()), ["a", "b"], 3).cost == 5.0


# ---- knapsacks


def a_knapsack(worths: tuple[float, ...], most: tuple[int, ...], *shares: tuple[float, ...]) -> Knapsack:
    return Knapsack(0, 1.0, tuple(range(len(worths))), worths, most, shares)


@pytest.mark.parametrize(
    ("knapsack", "pods", "worth"),
    [
        (a_knapsack((1.0,), (9,), (0.25,)), {0: 4}, 4.0),
        (a_knapsack((1.0,), (3,), (0.25,)), {0: 3}, 3.0),
        (a_knapsack((1.0, 5.0), (9, 9), (0.25, 0.5)), {1: 2}, 10.0),
        (a_knapsack((1.0, 5.0), (9, 1), (0.25, 0.5)), {0: 2, 1: 1}, 7.0),
        (a_knapsack((1.0, 1.0), (9, 9), (0.5, 0.1), (0.1, 0.5)), {0: 1, 1: 1}, 2.0),
        (a_knapsack((), ()), {}, 0.0),
    ],
    ids=["four quarters", "no more than there are", "the worthier", "and the rest", "two resources", "nothing"],
)
def test_the_pods_of_most_worth(knapsack: Knapsack, pods: dict[int, int], worth: float) -> None:
    solved, bound = most_worth(knapsack)
    assert sum(knapsack.worths[i] * number for i, number in solved.items()) == pytest.approx(worth)
    assert bound == pytest.approx(worth, abs=1e-3)
    assert sum(knapsack.worths[i] * number for i, number in by_density(knapsack).items()) == pytest.approx(worth)
    if len(knapsack.shares) < 2:
        assert solved == by_density(knapsack) == pods


def test_a_knapsack_has_the_kinds_that_are_worth_something() -> None:
    demand, counts = a_demand([(1, 2, 3), (2, 1, 1), (9, 9, 1)], [(4, 8, 3)])
    knapsack = Knapsack.of(demand, counts, 0, 3.0, {0: 1.5, 1: 0.0, 2: 1.0})
    assert (knapsack.kinds, knapsack.worths, knapsack.most) == ((0,), (1.5,), (3,))
    assert knapsack.shares == ((0.25,), (0.25,), (0.25,)), "1 of 4 cpu, 2 of 8 memory, 1 of 4 pods"


# ---- programs


def test_the_cheapest_nodes_of_a_program() -> None:
    demand, counts = a_demand([(2, 1, 4)], [(4, 8, 3), (8, 8, 5)])
    solution = solve(demand, counts, [9, 9])
    assert solution is not None and (solution.nodes, solution.unplaced, solution.bound) == ((0, 1), 0, 5.0)
    limited = solve(demand, counts, [1, 0])
    assert limited is not None and (limited.nodes, limited.unplaced) == ((1, 0), 2)
    assert (lower_bound(demand, counts, [9, 9]), lower_bound(demand, counts, [1, 0])) == (5.0, 0.0)
    nothing = solve(demand, [0], [9, 9])
    assert nothing is not None and (nothing.nodes, nothing.unplaced, nothing.bound) == ((0, 0), 0, 0.0)


@pytest.mark.parametrize(
    ("packing", "nodes"),
    [(Packing(), 2), (Packing(fill=0.5), 4), (Packing(slack=1.0), 4)],
    ids=["full", "half of each", "the room of a pod stays free"],
)
def test_looser_packing_takes_more_nodes(packing: Packing, nodes: int) -> None:
    demand, counts = a_demand([(2, 1, 4)], [(4, 8, 3)])
    solution = solve(demand, counts, [9], packing)
    assert solution is not None and solution.nodes == (nodes,)


# ---- spreads


@pytest.mark.parametrize(
    ("held", "most"),
    [({}, 2), ({"a": 1, "b": 0}, 1), ({"a": 5, "b": 1}, -1), ({"a": 2, "b": 2}, 0)],
    ids=["nothing there", "one there", "more than the skew allows", "as many as the skew"],
)
def test_how_many_pods_a_domain_may_get(held: dict[str, int], most: int) -> None:
    constraint: Any = None
    assert SpreadLimit(2, held, {}, [], constraint).most_above_lowest("a") == most
