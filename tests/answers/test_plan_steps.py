"""Steps that a search tries: which part of the program's nodes, when one is taken, and when the search ends."""

from collections.abc import Iterator, Sequence

import pytest
from plan_trials import Case

from mooring.answers.plan import steps as steps_module
from mooring.answers.plan.search import FoundNodes
from mooring.answers.plan.steps import MORE_STYLES, STYLES, StepSearch, StepStyle
from mooring.answers.plan.trials import Additions


def run(case: Case, *styles: StepStyle, bound: float = 0.0) -> list[FoundNodes]:
    search = StepSearch(case.trials, case.demand, case.pods, bound, case.patterns, case.tell, styles or STYLES)
    found = search.run()
    assert case.is_as_before
    return found


@pytest.fixture
def untidied(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps are not made fewer, which would take most of the time."""
    monkeypatch.setattr(steps_module, "TIDY_DECISIONS", 0)


SPREAD = ["2"] * 16 + ["8"] * 16
"""Small pods that fill 4 nodes of 8 cpu, and 16 pods that need a node each: with more nodes at first, room is wasted."""


@pytest.mark.usefixtures("untidied")
@pytest.mark.parametrize(
    ("style", "tried"),
    [
        (STYLES[0], [14, 8, 1]),
        (STYLES[1], [18, 14, 10, 1]),
        (STYLES[2], [16, 12, 1]),
        (STYLES[3], [14, 8, 1]),
        (STYLES[4], [10, 5, 1]),
        (STYLES[5], [6, 3, 8]),
        (STYLES[6], [4, 7]),
        (STYLES[7], [18, 1]),
        (MORE_STYLES[0], [10, 1]),
        (MORE_STYLES[1], [18, 14, 10, 1]),
        (MORE_STYLES[2], [12, 6, 1]),
        (MORE_STYLES[3], [10, 1]),
    ],
    ids=[f"style {number}" for number in range(12)],
)
def test_a_step_is_a_share_of_the_twenty_nodes_of_the_program_or_one_node(style: StepStyle, tried: list[int]) -> None:
    """The small pods spread over more than 4 nodes, which leaves fewer for large pods. Then a smaller share is tried."""
    case = Case(SPREAD, (1.0, "8", 100))
    (found, *_) = run(case, style)
    assert [count for (count,) in case.trials.tried[: len(tried)]] == tried
    assert found.counts == (20,)
    assert not found.left


@pytest.mark.usefixtures("untidied")
def test_a_step_that_wastes_little_is_taken_before_all_others() -> None:
    """Of 10 nodes, 7 are filled. Steps that come after have no more than twice as many nodes."""
    case = Case(["1"] * 20, (1.0, "2", 100))
    run(case, StepStyle(0.0, (0.7, 0.4)))
    assert case.trials.tried[:2] == [(7,), (10,)]


@pytest.mark.usefixtures("untidied")
@pytest.mark.parametrize(
    ("waste", "tried"),
    [(0.71, [14, 8, 19]), (0.72, [14, 25])],
    ids=["a step of more waste is not taken", "one of as much is"],
)
def test_waste_is_a_share_of_the_price_of_a_step(waste: float, tried: list[int]) -> None:
    """14 nodes for small pods and 16 for the rest, instead of 20: 10 of the 14 are wasted, which is 0.714."""
    case = Case(SPREAD, (3.0, "8", 100))
    run(case, StepStyle(waste, (0.7, 0.4)))
    assert [count for (count,) in case.trials.tried[: len(tried)]] == tried


@pytest.mark.usefixtures("untidied")
def test_the_step_that_wastes_least_is_taken_where_all_waste_too_much() -> None:
    """One node, which the small pods fill, is the best of the three; it is tried again, and stays. The next step has at most
    two nodes more, and two that are filled are better than one that is."""
    case = Case(SPREAD, (1.0, "8", 100))
    run(case, StepStyle(-1.0, (0.7, 0.4)))
    assert [count for (count,) in case.trials.tried[:6]] == [14, 8, 1, 1, 3, 2]


def one_of_seven(offer: int) -> Additions:
    return tuple(int(each == offer) for each in range(7))


NOTHING_IS_GOOD_ENOUGH = StepStyle(-9.0, (0.7, 0.4))
"""No step is taken before all were tried."""


@pytest.mark.usefixtures("untidied")
@pytest.mark.parametrize(
    ("pods", "offers", "proposed"),
    [
        (14, [(1.0, "2", 100)], [(4,), (2,), (1,)]),
        (12, [(1.0, "2", 100)], [(6,), (4,), (2,), (1,)]),
        (11, [(1.0, "2", 100)], [(6,), (3,), (2,), (1,)]),
        (8, [(1.0, "2", 100), (9.0, "2", 100)], [(4, 0), (2, 0), (1, 0)]),
        (6, [(1.0, "2", 100), (9.0, "2", 100)], [(3, 0), (2, 0), (1, 0), (0, 1)]),
        (14, [(1.0 + i, "1", 2) for i in range(7)], [(1,) * 7, *(one_of_seven(at) for at in (6, 5, 4, 3, 2))]),
        (40, [(1.0, "2", 10), (9.0, "2", 100)], [(7, 7), (4, 4), (0, 7), (0, 4), (0, 1), (7, 0), (4, 0), (1, 0)]),
    ],
    ids=[
        "shares of seven nodes, rounded down",
        "six nodes are few: all of them first",
        "parts of nodes are rounded up if there are few",
        "of four nodes, offers that the program does not choose are not tried",
        "of three nodes, every offer is tried",
        "the five offers that cost most in all are tried alone",
        "shares of each offer, and of each alone",
    ],
)
def test_the_steps_that_are_proposed(
    pods: int, offers: list[tuple[float, str, int]], proposed: list[Additions]
) -> None:
    case = Case(["1"] * pods, *offers)
    run(case, NOTHING_IS_GOOD_ENOUGH)
    assert case.trials.tried[: len(proposed)] == proposed
    assert case.trials.tried[len(proposed)] in proposed, "the best of them again"


def test_limits_of_offers_are_kept_by_all_steps_together() -> None:
    case = Case(["1"] * 6, (1.0, "2", 1), (1.5, "2", 1), (9.0, "1", 1))
    (found,) = run(case)
    assert (found.counts, found.cost, len(found.left)) == ((1, 1, 1), 11.5, 1)
    assert all(max(counts) <= 1 for counts in case.trials.tried)


def test_steps_end_when_no_offer_helps() -> None:
    (found,) = run(Case(["1", "9", "1"], (1.0, "2", 5)))
    assert (found.counts, [each.name for each in found.left]) == ((1,), ["p0001"])


def test_equal_steps_of_several_styles_are_one_result() -> None:
    style = StepStyle(0.1, (0.7, 0.4))
    assert len(run(Case(SPREAD, (1.0, "8", 100)), style, style)) == 1


# ---- when the search ends


class Counted(list[StepStyle]):
    """Styles that count how many of them a search has begun with."""

    begun = 0

    def __iter__(self) -> Iterator[StepStyle]:
        for style in super().__iter__():
            self.begun += 1
            yield style


FIVE_NODES = ["4", "4", "8", "8", "8", "8"]
"""The two small pods share a node of 8 cpu, if it comes before the others."""


def styles_used(bound: float, pods: Sequence[str] = FIVE_NODES) -> int:
    """How many of nine styles are tried for steps that cost 20."""
    styles = Counted([*STYLES, MORE_STYLES[0]])
    case = Case(pods, (4.0, "8", 100))
    StepSearch(case.trials, case.demand, case.pods, bound, case.patterns, None, styles).run()
    return styles.begun - 1 if styles.begun < 9 else 9


def test_the_search_ends_after_three_styles_if_steps_are_near_the_bound() -> None:
    assert styles_used(19.1) == 3, "4.7 % above it"
    assert styles_used(19.0) == 9, "5.3 % above it"


def test_after_many_decisions_steps_that_are_farther_from_the_bound_are_good(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps_module, "GOOD_DECISIONS", 10)
    assert styles_used(18.6) == 3, "7.5 % above it"
    assert styles_used(18.5) == 9, "8.1 % above it"


def test_with_many_pods_the_first_good_steps_are_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps_module, "MANY_PODS", len(FIVE_NODES))
    assert styles_used(19.1) == 3
    monkeypatch.setattr(steps_module, "MANY_PODS", len(FIVE_NODES) - 1)
    assert styles_used(19.1) == 1


def test_steps_that_leave_pods_are_not_near_the_bound() -> None:
    assert styles_used(30.0, [*FIVE_NODES, "9"]) == 9


@pytest.mark.usefixtures("untidied")
def test_the_first_steps_that_were_tried_are_taken_when_all_decisions_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """14 nodes for the small pods, and 16 for the others: no smaller step is tried."""
    monkeypatch.setattr(steps_module, "MAX_DECISIONS", 10)
    case = Case(SPREAD, (1.0, "8", 100))
    (found,) = run(case)
    assert (found.counts, len(found.left)) == ((30,), 0)
    assert case.trials.tried[:3] == [(14,), (14,), (25,)]
    assert set(case.told) == {(10, 10)}


def test_it_is_told_how_far_the_search_is(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(FIVE_NODES, (1.0, "8", 100))
    case.trials.decisions = 1000
    run(case)
    assert {most for _, most in case.told} == {41_000}
    assert [made for made, _ in case.told] == sorted(made for made, _ in case.told)
    assert case.told[0][0] == 1006, "after the first trial, of six pods"
    monkeypatch.setattr(steps_module, "MANY_PODS", 1)
    many = Case(FIVE_NODES, (1.0, "8", 100))
    run(many)
    assert {most for _, most in many.told} == {12_000}
