"""Small parts of the search for nodes, each with numbers that are worked out by hand."""

import os
import sys
from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import pytest
from test_plan_patterns import a_demand

from build import a_pod
from mooring.answers.plan.additions import AddedNodes
from mooring.answers.plan.demand import NodeDemand, PatternCut, SpreadLimit
from mooring.answers.plan.offers import NodeOffer
from mooring.answers.plan.patterns import Knapsack, PatternProgram, by_density, most_worth
from mooring.answers.plan.programs import Packing, linear_program, lower_bound, solve, sparse, whole_program
from mooring.answers.plan.walks import FoundNodes, by_preference, found_steps, sum_of
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


def test_amounts_of_a_knapsack_are_shares_of_what_a_node_has() -> None:
    demand, counts = a_demand([(1, 1, 9), (1, 1, 9)], [(1, 8, 3)])
    tiny = Knapsack.of(demand, counts, 0, 3.0, {0: 1.0, 1: 1e-9})
    assert (tiny.kinds, tiny.most, tiny.shares) == ((0,), (1,), ((1.0,), (0.125,), (0.25,)))
    demand.offers[0][0] = 0
    assert Knapsack.of(demand, counts, 0, 3.0, {0: 1.0}).shares[0] == (1.0,), "nothing is there: one is too many"
    demand.kinds[0].requests = {0: 1}
    assert len(Knapsack.of(demand, counts, 0, 3.0, {0: 1.0}).shares) == 1, "resources that no pod requests are left out"
    assert Knapsack.of(demand, [0, 0], 0, 3.0, {0: 1.0}).most == (0,)


def test_knapsacks_of_two_offers_are_equal_if_they_hold_the_same() -> None:
    one, other = Knapsack(0, 1.0, (0,), (1.0,), (2,), ((0.5,),)), Knapsack(1, 7.0, (0,), (1.0,), (2,), ((0.5,),))
    assert one == other and len({one, other}) == 1


@pytest.mark.parametrize(
    ("knapsack", "worth"),
    [
        (a_knapsack((3.0, 2.0), (9, 9), (0.5, 0.25), (0.1, 0.5)), 6.0),
        (a_knapsack((3.0, 2.9), (9, 9), (0.5, 0.1), (0.1, 0.5)), 6.0),
        (a_knapsack((1.0, 1.0), (3, 3), (0.3, 0.0), (0.0, 0.3)), 6.0),
        (a_knapsack((1.0,), (9,), (1 / 3,)), 3.0),
    ],
    ids=[
        "two of the worthier",
        "two resources",
        "one resource each",
        "three thirds",
    ],
)
def test_a_knapsack_is_filled_without_a_solver(knapsack: Knapsack, worth: float) -> None:
    assert sum(knapsack.worths[i] * number for i, number in by_density(knapsack).items()) == pytest.approx(worth)
    assert most_worth(knapsack)[1] == pytest.approx(worth, rel=1e-3)


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


def a_spread_demand(
    skew: int, held: dict[str, int], zones: str, room: dict[str, int] | None = None, requested: int = 2
) -> NodeDemand:
    """Pods of one kind, of which a node holds two. The offers are in these zones, and cost 1, 2, ..."""
    demand, _ = a_demand([(requested, 1, 1)], [(4, 8, price + 1) for price in range(len(zones))])
    constraint: Any = None
    limit = SpreadLimit(skew, held, {offer: zone.strip() for offer, zone in enumerate(zones)}, [], constraint)
    kinds = [replace(kind, spread=limit, room=room or {}) for kind in demand.kinds]
    return replace(demand, kinds=kinds)


NONE_HELD = {"a": 0, "b": 0, "c": 0}


@pytest.mark.parametrize(
    ("demand", "pods", "nodes", "parts"),
    [
        (a_spread_demand(1, NONE_HELD, "abc"), 6, (1, 1, 1), (7 / 6, 7 / 6, 4 / 6)),
        (a_spread_demand(1, NONE_HELD, "abc"), 3, (1, 1, 1), (4 / 6, 4 / 6, 1 / 6)),
        (a_spread_demand(2, NONE_HELD, "abc"), 4, (1, 1, 0), (1, 1, 0)),
        (a_spread_demand(1, NONE_HELD, "abc"), 4, (1, 1, 1), (5 / 6, 5 / 6, 2 / 6)),
        (a_spread_demand(9, NONE_HELD, "abc"), 4, (2, 0, 0), (2, 0, 0)),
        (a_spread_demand(1, {"a": 1, "b": 0}, "ab"), 2, (0, 1), (1 / 2, 1 / 2)),
        (a_spread_demand(1, {"a": 3, "b": 0}, "ab"), 3, (1, 1), (3 / 4, 3 / 4)),
        (a_spread_demand(1, {"a": 3, "b": 2}, "ab"), 2, (0, 1), (1 / 2, 1 / 2)),
        (a_spread_demand(1, {}, "ab"), 2, (1, 0), (1, 0)),
        (a_spread_demand(1, {"b": 1}, "ab"), 2, (1, 0), (1, 0)),
        (a_spread_demand(1, NONE_HELD, "abc", {"a": 1}), 3, (0, 1, 1), (4 / 6, 4 / 6, 1 / 6)),
        (a_spread_demand(1, NONE_HELD, "abc", {"c": 2}), 6, (1, 1, 0), (7 / 6, 7 / 6, 4 / 6)),
        (a_spread_demand(1, NONE_HELD, "abc", {"": 2}), 4, (1, 1, 0), (5 / 6, 5 / 6, 2 / 6)),
    ],
    ids=[
        "two in each zone",
        "one in each zone",
        "two zones, within the skew",
        "one more in the cheapest zone",
        "the cheapest zone alone",
        "the zone that has fewer",
        "a zone that has too many gets as many as the other one at most",
        "a zone that has one more",
        "zones that have no nodes yet",
        "a zone without nodes need not have as many as others",
        "room for one on a present node",
        "room for two",
        "room outside of all zones",
    ],
)
def test_programs_keep_spreads(demand: NodeDemand, pods: int, nodes: tuple[int, ...], parts: tuple[float, ...]) -> None:
    """Patterns do not use present nodes, and may have parts of nodes and pods: the dearest zone has one pod less."""
    solution = solve(demand, [pods], demand.limits)
    cost = sum(number * price for number, price in zip(nodes, demand.prices, strict=True))
    assert solution is not None
    assert (solution.nodes, solution.unplaced, solution.bound) == (nodes, 0, cost)
    program = PatternProgram(demand, [pods])
    program.generate()
    cheapest = program.cheapest([pods], demand.limits, demand)
    assert cheapest.nodes == pytest.approx(parts)
    assert cheapest.cost == pytest.approx(
        sum(number * price for number, price in zip(parts, demand.prices, strict=True))
    )


def test_kinds_that_no_offer_takes_and_kinds_without_pods_are_no_part_of_a_program() -> None:
    demand, _ = a_demand([(9, 9, 2), (2, 2, 0), (2, 2, 2)], [(4, 8, 3)])
    solution = solve(demand, [2, 0, 2], [9])
    assert solution is not None and (solution.nodes, solution.unplaced, solution.bound) == ((1,), 0, 3.0)
    program = PatternProgram(demand, [2, 0, 2])
    program.generate()
    assert program.cheapest([2, 0, 2], [9], demand).nodes == pytest.approx([1.0])
    nothing = PatternProgram(demand, [2, 0, 0])
    nothing.generate()
    assert nothing.cuts == []


def test_present_nodes_have_room_for_pods_that_are_not_spread() -> None:
    demand, _ = a_demand([(2, 1, 6)], [(4, 8, 3)])
    demand.kinds[0].room = {"": 3}
    solution = solve(demand, [6], [9])
    assert solution is not None and (solution.nodes, solution.bound) == ((2,), 6.0), "three of six, two on each node"


def test_pods_are_left_out_only_where_limits_leave_no_room() -> None:
    demand, _ = a_demand([(2, 1, 5), (1, 1, 1)], [(4, 8, 3), (4, 8, 7)])
    solution = solve(demand, [5, 1], [1, 1])
    assert solution is not None and (solution.nodes, solution.unplaced) == ((1, 1), 2), "11 cpu, and room for 8"
    all_of_them = solve(demand, [5, 1], [2, 1])
    assert all_of_them is not None
    assert (all_of_them.nodes, all_of_them.unplaced, all_of_them.bound) == ((2, 1), 0, 13.0)


def test_a_cut_limits_what_the_nodes_of_its_offer_hold() -> None:
    demand, counts = a_demand([(1, 1, 6), (2, 1, 2)], [(4, 8, 3), (4, 8, 4)])
    assert lower_bound(demand, counts, [9, 9]) == 9.0
    halves = replace(demand, cuts=[PatternCut(0, {0: 0.5, 1: 1.0})])
    assert lower_bound(halves, counts, [9, 9]) == 11.0, (
        "two small pods on the cheaper one, and the rest on two dearer ones"
    )
    other = replace(demand, cuts=[PatternCut(1, {0: 0.5})])
    assert lower_bound(other, counts, [9, 9]) == 9.0


def test_the_packing_leaves_room_for_no_pod_but_the_largest() -> None:
    """Of 8 cpu, half of the largest request stays free: 6 are used, by three pods of 2 or by one of 4 and one of 2."""
    demand, _ = a_demand([(4, 1, 1), (2, 1, 7)], [(8, 8, 3)])
    half, whole = solve(demand, [1, 7], [9], Packing(slack=0.5)), solve(demand, [1, 7], [9])
    assert half is not None and half.nodes == (3,)
    assert whole is not None and whole.nodes == (3,)
    assert (half.bound, whole.bound) == (9.0, 9.0)


# ---- the solver


def test_the_solver_is_bounded_by_branches_so_that_every_machine_finds_as_much(monkeypatch: pytest.MonkeyPatch) -> None:
    optimize = import_module("scipy.optimize")
    original, asked = optimize.milp, []

    def watched(*args: Any, **rest: Any) -> Any:
        asked.append(dict(rest["options"]))
        return original(*args, **rest)

    monkeypatch.setattr(optimize, "milp", watched)
    found = whole_program(
        np.array([2.0, 3.0]), np.array([1, 0]), np.array([9.0, 0.5]), np.array([[1.0, 1.0]]), ([2.6], [9.0]), 0.01
    )
    assert asked == [{"time_limit": 20.0, "mip_rel_gap": 0.01, "node_limit": 400}]
    assert found.x.tolist() == [3.0, 0.0], "three whole ones cost 6; with 0.5 of the other, two would not be enough"


def test_a_linear_program_has_bounds_and_duals() -> None:
    rows = sparse([-1.0, -1.0], ([0, 0], [0, 1]), (1, 2))
    found = linear_program(np.array([2.0, 3.0]), rows, np.array([-4.0]), np.array([3.0, np.inf]))
    assert (found.x.tolist(), found.fun) == ([3.0, 1.0], 9.0)
    assert found.ineqlin.marginals.tolist() == [-3.0], "one more would cost 3"


def test_messages_of_the_solver_do_not_reach_standard_output(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    optimize = import_module("scipy.optimize")

    def noisy(*args: Any, **rest: Any) -> str:
        os.write(1, b"a message")
        os.write(2, b"an error")
        return "solved"

    monkeypatch.setattr(optimize, "milp", noisy)
    monkeypatch.setattr(optimize, "linprog", noisy)
    one = np.array([1.0])
    before = len(os.listdir("/proc/self/fd"))
    assert whole_program(one, one, one, np.array([[1.0]]), ([0.0], [1.0]), 0.1) == "solved"
    assert linear_program(one, [[1.0]], one, one) == "solved"
    assert len(os.listdir("/proc/self/fd")) == before
    os.write(1, b"an answer")
    sys.stdout.flush()
    assert capfd.readouterr() == ("an answer", "an error" * 2)


def test_a_process_without_standard_output_can_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    def closed(number: int) -> int:
        raise OSError(9, f"{number} is closed")

    monkeypatch.setattr(os, "dup", closed)
    found = linear_program(np.array([1.0]), [[-1.0]], np.array([-2.0]), np.array([9.0]))
    assert found.x.tolist() == [2.0]
