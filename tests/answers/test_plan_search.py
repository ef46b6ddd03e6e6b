"""Searches for nodes: against all nodes and all sequences of nodes that could be added instead, each tried by the core."""

from collections.abc import Sequence
from itertools import product

import pytest
from plan_trials import Case

from mooring.answers.plan.holding import MANY_BY_CORE, HoldingSearch
from mooring.answers.plan.orders import OrderTrials
from mooring.answers.plan.programs import lower_bound
from mooring.answers.plan.steps import LEVELS, SHARES_EVERY, StepEffort, StepSearch
from mooring.answers.plan.trials import Additions
from mooring.answers.plan.walks import CoreWalked, OrderWalks, Steps, steps_of, sum_of

LARGE_LAST = ["1"] * 8 + ["8"]
"""Small pods go to all nodes, and the large one needs a node of its own: there have to be 9 nodes of 8 cpu at once."""
ALL = StepEffort(1000, 4, 1_000_000, 60)
"""Four orders, and all sequences of nodes."""


def trials_of(case: Case, has_table: bool = True) -> OrderTrials:
    trials = OrderTrials(case.trials, case.demand, case.pods)
    assert trials.has_table
    if not has_table:
        trials.drop_table()
    return trials


def bound_of(case: Case) -> float:
    return lower_bound(case.demand, case.demand.counts(), case.demand.limits)


def cheapest_at_once(case: Case, most: int) -> tuple[int, float]:
    """The fewest pods that are left on up to so many nodes of each offer, and what the cheapest such nodes cost."""
    limits = [range(min(limit, most) + 1) for limit in case.demand.limits]
    return min(
        (len(case.trials.place(counts, case.pods).left), case.demand.cost_of(counts)) for counts in product(*limits)
    )


@pytest.mark.parametrize(
    ("cpus", "offers", "most"),
    [
        (["1"] * 10, [(1.0, "4", 100), (0.6, "2", 100)], 5),
        (LARGE_LAST, [(1.0, "8", 100)], 10),
        (["1"] * 4 + ["3"] * 3, [(1.0, "4", 100), (1.7, "8", 100)], 4),
        (["1"] * 3 + ["4"], [(1.0, "4", 2)], 2),
        (["2", "2", "3"], [(1.0, "4", 1), (5.0, "3", 1)], 1),
    ],
    ids=[
        "two offers that are filled",
        "as many nodes as it takes until one stays empty",
        "two large nodes",
        "a pod that stays pending costs nothing",
        "all nodes that there are",
    ],
)
def test_no_nodes_at_once_that_place_as_much_cost_less(
    cpus: list[str], offers: list[tuple[float, str, int]], most: int
) -> None:
    case = Case(cpus, *offers)
    first = trials_of(case).first_only()
    left, cost = cheapest_at_once(case, most)
    fewest = HoldingSearch(first, case.patterns, case.pods, bound_of(case), tell=case.tell).run(is_at_once=True)
    assert (len(fewest.left), fewest.steps) == (left, ())
    found = HoldingSearch(first, case.patterns, case.pods, bound_of(case), left, case.tell).run(is_at_once=True)
    assert found.cost == pytest.approx(cost)
    case.trials.add(tuple(0 for _ in offers))
    assert case.is_as_before
    assert all(made <= most for made, most in case.told)


def holds(trials: OrderTrials, orders: int, steps: Steps) -> bool:
    return all(not trials.left_in(order, steps).pods for order in trials.orders[:orders])


SEQUENCES: Sequence[tuple[list[str], list[tuple[float, str, int]], int]] = [
    (["1"] * 4 + ["4"] * 2, [(1.0, "4", 10), (1.7, "8", 10)], 4),
    (["1", "3"] * 3, [(1.0, "4", 10), (0.5, "2", 10)], 5),
    (["2"] * 3 + ["5"] * 2, [(1.0, "6", 2), (1.5, "10", 2)], 3),
]


@pytest.mark.parametrize("has_table", [True, False], ids=["by a table", "by the core"])
@pytest.mark.parametrize(("cpus", "offers", "most"), SEQUENCES)
def test_no_sequence_of_single_nodes_that_holds_in_the_same_orders_costs_less(
    cpus: list[str], offers: list[tuple[float, str, int]], most: int, has_table: bool
) -> None:
    case = Case(cpus, *offers)
    trials = trials_of(case, has_table)
    found = StepSearch(trials, case.patterns, ALL).run(0, 1e9)
    assert found is not None and holds(trials, 4, found)
    single = [tuple(int(each == offer) for each in range(len(offers))) for offer in range(len(offers))]
    sequences = (steps for number in range(1, most + 1) for steps in product(single, repeat=number))
    costs = [sum(map(case.demand.cost_of, steps)) for steps in sequences if holds(trials, 4, steps)]
    assert sum(map(case.demand.cost_of, found)) == pytest.approx(min(costs))


def test_steps_of_many_nodes_are_tried_from_every_sixth_level_on_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of 130 nodes takes a pod. A beginning tries three shares of all nodes, and two of those of the one offer."""
    case = Case(["4"] * 130, (1.0, "4", 1000))
    trials = trials_of(case, has_table=False)
    tried: list[int] = []
    extended = OrderWalks.extended

    def noted(walks: OrderWalks, walked: CoreWalked, step: Additions) -> CoreWalked:
        tried.append(sum(step))
        return extended(walks, walked, step)

    monkeypatch.setattr(OrderWalks, "extended", noted)
    found = StepSearch(trials, case.patterns, MANY_BY_CORE).run(0, 1e9)
    assert found is not None and sum_of(*found) == (130,)
    large = sum(number > 1 for number in tried)
    assert 3 <= large <= 5 * MANY_BY_CORE.width * (LEVELS // SHARES_EVERY)
    assert large < tried.count(1)


def test_nodes_that_come_last_repair_steps_that_fail_and_cheaper_ones_replace_them() -> None:
    """The small pods fill the first node, and the large one gets the second, or the other way round."""
    case = Case(LARGE_LAST, (1.0, "8", 100), (0.9, "4", 100))
    trials = trials_of(case)
    found = HoldingSearch(trials, case.patterns, case.pods, bound_of(case)).run(is_at_once=False)
    assert (found.counts, found.cost, found.left) == ((2, 0), 2.0, ())
    assert trials.held(steps_of(found), 0) == trials.number > 1000


def test_limits_of_offers_are_kept_and_the_fewest_pods_are_left() -> None:
    case = Case(["4"] * 5, (1.0, "4", 2), (1.5, "4", 1))
    found = HoldingSearch(trials_of(case), case.patterns, case.pods, 0.0).run(is_at_once=False)
    assert (found.counts, len(found.left)) == ((2, 1), 2)
    enough = HoldingSearch(trials_of(case), case.patterns, case.pods, 0.0, most_left=3).run(is_at_once=False)
    assert (enough.counts, enough.cost) == ((2, 0), 2.0)


@pytest.mark.parametrize("has_table", [True, False], ids=["by a table", "by the core"])
def test_steps_are_joined_until_no_two_neighbours_hold_together(has_table: bool) -> None:
    case = Case(["1"] * 8 + ["8"] * 2, (1.0, "8", 100))
    trials = trials_of(case, has_table)
    found = HoldingSearch(trials, case.patterns, case.pods, bound_of(case)).run(is_at_once=False)
    steps = steps_of(found)
    assert (found.cost, trials.held(steps, 0)) == (3.0, trials.number)
    assert len(steps) > 1
    for at in range(len(steps) - 1):
        joined = (*steps[:at], sum_of(*steps[at : at + 2]), *steps[at + 2 :])
        assert trials.held(joined, 0) < trials.number
