"""Nodes that come at once: the search finds the cheapest ones that hold all pods, as trying all of them does."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plan_trials import Case

from how_many import examples
from mooring.answers.plan import search as search_module
from mooring.answers.plan.programs import Solution, lower_bound, solve
from mooring.answers.plan.search import FoundNodes, NodeSearch
from mooring.answers.plan.trials import Additions


def a_search(case: Case, most_decisions: int = 40_000, bound: float | None = None) -> NodeSearch:
    lowest = lower_bound(case.demand, case.demand.counts(), case.demand.limits) if bound is None else bound
    return NodeSearch(case.trials, case.demand, case.pods, lowest, most_decisions, case.tell)


def run(case: Case, most_decisions: int = 40_000) -> FoundNodes:
    found = a_search(case, most_decisions).run()
    case.trials.add(tuple(0 for _ in found.counts))
    assert case.is_as_before
    return found


def cheapest(case: Case, most: int) -> tuple[int, float]:
    """The fewest pods that are left on up to so many nodes of each offer, and what the cheapest such nodes cost."""
    limits = [range(min(limit, most) + 1) for limit in case.demand.limits]
    return min(
        (
            len(case.trials.place(counts, case.pods).left),
            sum(map(float.__mul__, case.demand.prices, map(float, counts))),
        )
        for counts in product(*limits)
    )


LARGE_LAST = ["1"] * 8 + ["8"]
"""Small pods go to all nodes, and the large one needs a node of its own: there have to be 9 nodes of 8 cpu at once."""


@pytest.mark.parametrize(
    ("cpus", "offers", "most"),
    [
        (["1"] * 10, [(1.0, "4", 100), (0.6, "2", 100)], 5),
        (LARGE_LAST, [(1.0, "8", 100)], 10),
        (LARGE_LAST, [(1.0, "8", 100), (1.5, "12", 100)], 4),
        (["1"] * 4 + ["3"] * 3, [(1.0, "4", 100), (1.7, "8", 100)], 4),
        (["1"] * 6 + ["5"] * 2, [(1.0, "6", 100), (1.7, "10", 100), (0.5, "3", 100)], 3),
        (["2"] * 5 + ["3"] * 3 + ["1"] * 3, [(1.0, "5", 100), (1.7, "9", 100), (0.45, "2", 3)], 3),
        (["1", "2"] * 4 + ["4"] * 2, [(1.0, "4", 100), (1.3, "6", 100)], 6),
        (["1"] * 3 + ["4"], [(1.0, "4", 2)], 2),
        (["2", "2", "3"], [(1.0, "4", 1), (5.0, "3", 1)], 1),
    ],
    ids=[
        "two offers that are filled",
        "as many nodes as it takes until one stays empty",
        "dearer nodes with more room",
        "two large nodes",
        "three offers",
        "an offer with a limit",
        "one node of the smaller offer",
        "a pod that stays pending costs nothing",
        "all nodes that there are",
    ],
)
def test_no_nodes_that_place_as_much_cost_less(
    cpus: list[str], offers: list[tuple[float, str, int]], most: int
) -> None:
    case = Case(cpus, *offers)
    found = run(case)
    left, cost = cheapest(case, most)
    assert len(found.left) == left
    assert found.cost == pytest.approx(cost)


def test_what_is_missing_is_added_once_then_twice_then_four_times() -> None:
    """A program holds all in two nodes. The large pod is left, and gets one node more, then two, then four."""
    case = Case(LARGE_LAST, (1.0, "8", 100))
    run(case)
    assert case.trials.tried[:4] == [(2,), (3,), (5,), (9,)]


def test_a_beginning_is_given_up_when_eight_times_as_many_nodes_do_not_help() -> None:
    """Twenty small pods stand on any nodes that come: 4, then 1, 2, 4 and 8 more. The next beginning leaves half of each node
    free, and has 7 nodes, which are known, and 2 for the large pod."""
    case = Case(["1"] * 20 + ["8"], (1.0, "8", 100))
    run(case)
    assert case.trials.tried[:6] == [(4,), (5,), (7,), (11,), (19,), (9,)]


def test_a_solution_of_a_program_that_fits_and_costs_the_bound_is_the_only_trial() -> None:
    case = Case(["1"] * 10, (1.0, "4", 100), (0.6, "2", 100))
    assert run(case).counts == (2, 1)
    assert case.trials.tried == [(2, 1)]
    assert case.told == [(10, 40_000)]


@pytest.mark.parametrize(
    ("bound", "is_enough"), [(2.588, True), (2.586, False)], ids=["0.46 % above the bound", "0.54 % above it"]
)
def test_nodes_that_are_near_the_bound_are_not_improved(bound: float, is_enough: bool) -> None:
    case = Case(["1"] * 10, (1.0, "4", 100), (0.6, "2", 100))
    found = a_search(case, bound=bound).run()
    assert found.cost == pytest.approx(2.6)
    assert (case.trials.tried == [(2, 1)]) is is_enough


def test_the_search_ends_when_its_decisions_are_made() -> None:
    case = Case(LARGE_LAST, (1.0, "8", 100), (1.5, "12", 100))
    search = a_search(case, 9)
    found = search.run()
    assert (found.counts, len(found.left)) == ((2, 0), 1), "the first trial makes all nine decisions"
    assert (case.trials.tried, case.told) == ([(2, 0)], [(9, 9)])


def test_more_nodes_are_added_for_pods_that_the_scheduler_left() -> None:
    case = Case(["4"] * 4, (1.0, "4", 6))
    search = a_search(case)
    found = FoundNodes((3,), case.pods[3:], 3.0)
    more = search.more(found, case.pods[2:], 1)
    assert (more.counts, more.cost, more.left) == ((4,), 4.0, case.pods[3:]), "one, for the pod that was not known"
    assert search.more(found, case.pods[1:], 2).counts == (6,), "twice as many as two pods need, up to the limit"
    assert search.more(found, case.pods[3:], 1) is found
    full = FoundNodes((6,), [], 6.0)
    assert search.more(full, case.pods, 1) is full


# ---- no small change helps


def changed(counts: Additions, limits: Additions) -> Iterator[Additions]:
    """One node or all of an offer less; or one or two nodes exchanged for up to three of another offer."""
    for offer, count in enumerate(counts):
        for fewer in {1, count} if count else ():
            yield tuple(each - fewer if at == offer else each for at, each in enumerate(counts))
        for other, (taken, given_) in product(range(len(counts)), ((1, 1), (2, 1), (1, 2), (1, 3))):
            if other != offer and taken <= count and counts[other] + given_ <= limits[other]:
                less = tuple(each - taken if at == offer else each for at, each in enumerate(counts))
                yield tuple(each + given_ if at == other else each for at, each in enumerate(less))


cpu_amounts = st.sampled_from(["500m", "1", "2", "3", "5"])
offered = st.tuples(
    st.sampled_from([0.5, 0.8, 1.0, 1.3, 1.7, 2.2, 3.1]), st.sampled_from(["2", "3", "5", "8"]), st.integers(1, 6)
)


@settings(max_examples=examples(20), deadline=None)
@given(cpus=st.lists(cpu_amounts, min_size=3, max_size=14), offers=st.lists(offered, min_size=2, max_size=3))
def test_no_node_can_go_or_be_exchanged_for_cheaper_ones(cpus: list[str], offers: list[tuple[float, str, int]]) -> None:
    """Unless the nodes cost about what no plan can cost less than."""
    case = Case(cpus, *offers)
    bound = lower_bound(case.demand, case.demand.counts(), case.demand.limits)
    found = run(case)
    assert all(count <= limit for count, limit in zip(found.counts, case.demand.limits, strict=True))
    if found.left or found.cost > 1.005 * bound:
        for counts in changed(found.counts, tuple(case.demand.limits)):
            cost = sum(count * price for count, price in zip(counts, case.demand.prices, strict=True))
            left = len(case.trials.place(counts, case.pods).left)
            assert (left, cost) >= (len(found.left), found.cost - 1e-6)


def test_what_is_left_is_given_to_the_program_twenty_times_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that always proposes one node for 30 pods, which need one each."""
    monkeypatch.setattr(search_module, "solve", lambda *asked: Solution((1,), 0, 0.0))
    case = Case(["4"] * 30, (1.0, "4", 100))
    found = run(case)
    assert case.trials.tried == [*((number,) for number in range(1, 21)), (0,)], "and then without the only offer"
    assert (found.counts, len(found.left)) == ((20,), 10)


def test_each_offer_is_left_out_once_and_first_the_one_that_costs_most_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three nodes of 1.0 cost more than one of 2.6, and a node that is not used is not left out."""
    monkeypatch.setattr(search_module, "LOOSER", ())
    monkeypatch.setattr(search_module, "IMPROVED", 0)
    case = Case(["9"] + ["4"] * 3, (2.6, "9", 1), (1.0, "4", 3), (30.0, "9", 9))
    a_search(case, bound=0.0).run()
    assert case.trials.tried[0] == (1, 3, 0)
    assert case.trials.tried[1] == (1, 0, 2), "without the second offer"
    assert (0, 3, 1) in case.trials.tried, "without the first one"


def test_nodes_that_cost_as_little_as_the_bound_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A program that begins with too many nodes. One node less is the least that any plan can cost."""
    monkeypatch.setattr(search_module, "solve", lambda *asked: Solution((3, 0), 0, 0.0))
    case = Case(["4"] * 2, (1.0, "4", 9), (3.0, "4", 9))
    assert a_search(case, bound=2.0).run().counts == (2, 0)
    assert (1, 0) not in case.trials.tried, "that is less than the bound"
    assert a_search(Case(["4"] * 2, (1.0, "4", 9), (3.0, "4", 9)), bound=2.1).run().counts == (3, 0)


# ---- nodes for the few pods that are left


def first_five(demand: Any, counts: Sequence[int], limits: Sequence[int], packing: Any) -> Solution | None:
    """A program that begins with five nodes of the first offer, and gives up without it. It is right about few pods."""
    if sum(counts) < 20:
        return solve(demand, counts, limits, packing)
    return Solution((5, 0), 0, 0.0) if limits[0] else None


@pytest.mark.parametrize(
    ("pods", "price", "limit", "third"),
    [
        (80, 0.5, 9, (4, 4)),
        (79, 0.5, 9, (4, 3)),
        (81, 0.5, 9, (4, 1)),
        (80, 1.24, 9, (4, 4)),
        (80, 1.25, 9, (4, 1)),
        (80, 0.5, 2, (4, 1)),
        (76, 0.5, 9, ()),
    ],
    ids=[
        "four of 80 pods are few",
        "three of 79",
        "five of 81 are too many",
        "others that are a little cheaper in all",
        "others that cost as much",
        "too few of the others are there",
        "nothing is left",
    ],
)
def test_other_nodes_are_added_for_few_pods_that_fewer_nodes_leave(
    monkeypatch: pytest.MonkeyPatch, pods: int, price: float, limit: int, third: Additions
) -> None:
    """A node of the first offer holds 19 pods, and one of the second a single pod: four and some others are cheaper."""
    monkeypatch.setattr(search_module, "solve", first_five)
    monkeypatch.setattr(search_module, "LOOSER", ())
    case = Case(["1"] * pods, (5.0, "19", 9), (price, "1", limit))
    a_search(case, bound=19.9).run()
    assert case.trials.tried[:3] == [(5, 0), (4, 0), *([third] if third else [])]
