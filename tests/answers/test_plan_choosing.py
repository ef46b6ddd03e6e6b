"""Which of the nodes that searches find become the plan: what is searched for, what is judged, and what is preferred.

The searches find what a test tells them, and the scheduler leaves what the test says. A node costs 1, and no plan less
than 100.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from written import a_node, a_pod

from mooring.answers.loaded_cluster import LoadedCluster, load
from mooring.answers.plan import additions
from mooring.answers.plan.judge import Verdict
from mooring.answers.plan.plan import Plan, plan
from mooring.answers.plan.search import FoundNodes
from mooring.answers.plan.steps import MORE_STYLES, STYLES, StepStyle
from mooring.model.pod import Pod

Steps = Sequence[int]


@dataclass
class Script:
    """What searches find and how the scheduler judges; and what both were asked."""

    at_once: int
    longer: int | None = None
    """What a longer search for nodes that come at once finds."""
    steps: Sequence[Sequence[Steps]] = ()
    """The steps that each search for steps finds, as the nodes of each step."""
    at_once_leaves: int = 0
    steps_leave: int = 0
    """How many pods the searches leave."""
    scheduler_leaves: dict[int, int] = field(default_factory=dict)
    """By number of nodes: how many pods stay pending."""
    more_steps: Steps = ()
    """What is found where the scheduler leaves pods after the steps."""
    at_once_scheduler_leaves: int = 0
    """How many stay pending if nodes of steps come at once."""
    asked: list[object] = field(default_factory=list)
    judged: list[Steps] = field(default_factory=list)

    def found(self, nodes: Sequence[int], pods: Sequence[Pod], left: int, is_stepwise: bool) -> FoundNodes:
        steps = tuple((each,) for each in nodes) if is_stepwise else ()
        return FoundNodes((sum(nodes),), pods[len(pods) - left :], float(sum(nodes)), steps)


class ScriptedSearch:
    """In the place of NodeSearch."""

    def __init__(self, script: Script, pods: Sequence[Pod], bound: float, most: int) -> None:
        self._script, self._pods = script, pods
        script.asked.append(("at once", bound, most))

    def run(self) -> FoundNodes:
        return self._script.found([self._script.at_once], self._pods, self._script.at_once_leaves, False)

    def run_longer(self, most: int) -> FoundNodes:
        self._script.asked.append(("longer", most))
        assert self._script.longer is not None
        return self._script.found([self._script.longer], self._pods, 0, False)

    def more(self, found: FoundNodes, left: Sequence[Pod], times: int) -> FoundNodes:
        self._script.asked.append(("more", len(left), times))
        return self._script.found([found.counts[0] + 10 * times], self._pods, 0, False)


class ScriptedStepSearch:
    """In the place of StepSearch."""

    def __init__(self, script: Script, pods: Sequence[Pod], bound: float, styles: Sequence[StepStyle] | None) -> None:
        self._script, self._pods = script, pods
        self._found: Sequence[Steps] = [script.more_steps]
        self._leaves = 0
        if styles is not None:
            number = sum(isinstance(each, tuple) and each[0] == "steps" for each in script.asked)
            self._found, self._leaves = script.steps[number], script.steps_leave
            script.asked.append(("steps", bound, styles))

    def run(self) -> list[FoundNodes]:
        return [self._script.found(steps, self._pods, self._leaves, True) for steps in self._found]


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[Script], Script]:
    def use(script: Script) -> Script:
        def search(trials: Any, demand: Any, pods: Any, bound: float, most: int, tell: Any) -> ScriptedSearch:
            return ScriptedSearch(script, pods, bound, most)

        def steps(
            trials: Any, demand: Any, pods: Any, bound: float, patterns: Any, tell: Any = None, styles: Any = None
        ) -> ScriptedStepSearch:
            if styles is None:
                script.asked.append(("more steps", [pod.name for pod in pods], *demand.limits))
            return ScriptedStepSearch(script, pods, bound, styles)

        def judge(loaded: LoadedCluster, named: Any) -> Verdict:
            numbers = [sum(len(names) for _, names in step) for step in named]
            left = script.scheduler_leaves.get(sum(numbers), 0)
            if len(numbers) == 1 and any(sum(before) == numbers[0] for before in script.judged if len(before) > 1):
                left = max(left, script.at_once_scheduler_leaves)
            script.judged.append(numbers)
            pods = [item.key for item in loaded.objects if isinstance(item, Pod)]
            return Verdict(dict.fromkeys(pods[len(pods) - left :], "no room"), {}, loaded)

        monkeypatch.setattr(additions, "NodeSearch", search)
        monkeypatch.setattr(additions, "StepSearch", steps)
        monkeypatch.setattr(additions, "judge", judge)
        monkeypatch.setattr(additions, "lower_bound", lambda demand, counts, limits: float(50 * sum(counts)))
        return script

    return use


def planned(at_once: bool = False) -> Plan:
    """For two pods, so that the bound is 100."""
    offer = {"name": "m", "price": 1.0, "limit": 1000, "node": a_node("template", "2")}
    return plan(load([a_pod("p0", "2"), a_pod("p1", "2")]), [offer], at_once=at_once)


def nodes(answer: Plan) -> list[int]:
    """Of each step."""
    return [len(each.names) for each in answer.added]


AT_ONCE, LONGER = ("at once", 100.0, 5_000), ("longer", 20_000)
FIRST, SECOND = ("steps", 100.0, STYLES), ("steps", 100.0, MORE_STYLES)

# ---- what is searched for


@pytest.mark.parametrize(
    ("script", "asked", "chosen"),
    [
        (Script(102), [AT_ONCE], [102]),
        (Script(103, longer=102), [AT_ONCE, LONGER], [102]),
        (Script(110, longer=102), [AT_ONCE, LONGER], [102]),
        (Script(110, longer=103, steps=[[(60, 40)]]), [AT_ONCE, LONGER, FIRST], [60, 40]),
        (Script(111, steps=[[(60, 40)]]), [AT_ONCE, FIRST], [60, 40]),
        (Script(102, at_once_leaves=1, steps=[[(60, 40)]]), [AT_ONCE, FIRST], [60, 40]),
        (Script(130, steps=[[(60, 50)]]), [AT_ONCE, FIRST], [60, 50]),
        (Script(130, steps=[[(60, 51)], [(60, 40)]]), [AT_ONCE, FIRST, SECOND], [60, 40]),
        (Script(130, steps=[[(60, 51)], [(60, 55)]]), [AT_ONCE, FIRST, SECOND], [60, 51]),
        (Script(130, steps=[[(80, 51)], [(80, 55)]]), [AT_ONCE, FIRST, SECOND], [130]),
    ],
    ids=[
        "nodes at once that cost 2 % more than the bound are good enough",
        "those that cost 3 % more are searched for longer",
        "and so are those that cost 10 % more",
        "if the longer search finds none within 2 %, steps are searched for",
        "nodes at once that cost 11 % more are not searched for longer",
        "nodes that leave a pod are not good, however cheap they are",
        "steps that cost 10 % more are good enough",
        "steps that cost more are searched for in other ways",
        "the first steps are kept if the second search finds dearer ones",
        "nodes at once are kept if all steps are dearer",
    ],
)
def test_searches_go_on_until_nodes_are_cheap_enough(
    use: Callable[[Script], Script], script: Script, asked: list[object], chosen: list[int]
) -> None:
    script = use(Script(**{**vars(script), "asked": [], "judged": [], "at_once_scheduler_leaves": 1}))
    answer = planned()
    assert (nodes(answer), script.asked) == (chosen, asked)
    assert (answer.lower_bound, answer.fits) == (100.0, True)


def test_nodes_that_have_to_come_at_once_are_searched_for_long_and_in_one_way(use: Callable[[Script], Script]) -> None:
    script = use(Script(105))
    assert (nodes(planned(at_once=True)), script.asked) == ([105], [("at once", 100.0, 40_000)])
    dear = use(Script(130, at_once_leaves=1))
    assert (nodes(planned(at_once=True)), dear.asked) == ([130], [("at once", 100.0, 40_000)])


def test_with_many_pods_each_is_tried_three_times_and_no_longer(
    use: Callable[[Script], Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(additions, "AT_ONCE_DECISIONS", 5)
    monkeypatch.setattr(additions, "MANY_PODS", 2)
    few = use(Script(105, longer=102))
    planned()
    assert few.asked == [("at once", 100.0, 6), LONGER]
    monkeypatch.setattr(additions, "MANY_PODS", 1)
    many = use(Script(105, steps=[[(100,)]]))
    assert (nodes(planned()), many.asked) == ([100], [("at once", 100.0, 6), FIRST])


# ---- what is judged


def test_one_step_is_no_step(use: Callable[[Script], Script]) -> None:
    """If it were one, the scheduler would judge it twice: as a step, and at once."""
    script = use(Script(130, steps=[[(104,)]]))
    assert (nodes(planned()), script.judged) == ([104], [[104]])


@pytest.mark.parametrize(
    ("left_at_once", "steps", "pending_at_once"),
    [(0, 1, 0), (1, 2, 1), (2, 2, 2)],
    ids=["all fit at once as well", "one pod is left at once", "two pods are left at once"],
)
def test_steps_stay_only_if_more_pods_are_left_without_them(
    use: Callable[[Script], Script], left_at_once: int, steps: int, pending_at_once: int
) -> None:
    script = use(Script(130, steps=[[(60, 40)]], at_once_scheduler_leaves=left_at_once))
    answer = planned()
    assert (answer.steps, answer.pending_at_once, script.judged) == (steps, pending_at_once, [[60, 40], [100]])
    assert (answer.cost, answer.fits) == (100.0, True)


def test_steps_that_leave_as_many_pods_at_once_are_no_steps(use: Callable[[Script], Script]) -> None:
    script = use(Script(130, at_once_leaves=1, steps=[[(60, 40)]], steps_leave=1, scheduler_leaves={100: 1}))
    answer = planned()
    assert (answer.steps, answer.pending_at_once, list(answer.pending)) == (1, 1, ["default/p1"])
    assert (answer.cost, answer.lower_bound) == (100.0, 50.0), "the bound is of the pod that is placed"
    assert script.judged == [[60, 40], [100]]


def test_more_steps_are_added_for_pods_that_the_scheduler_leaves(use: Callable[[Script], Script]) -> None:
    script = use(Script(130, steps=[[(60, 40)]], more_steps=(3, 2), scheduler_leaves={100: 1}))
    script.at_once_scheduler_leaves = 1
    answer = planned()
    assert script.asked == [AT_ONCE, FIRST, ("more steps", ["p1"], 900)], "of a limit of 1000"
    assert script.judged == [[60, 40], [60, 40, 3, 2], [105]]
    assert (nodes(answer), answer.cost, answer.fits, answer.lower_bound) == ([60, 40, 3, 2], 105.0, True, 100.0)


def test_the_nodes_are_kept_with_which_fewest_pods_are_left(use: Callable[[Script], Script]) -> None:
    """The scheduler leaves two pods, then one, then two, and then one again: the first of the best ones is taken."""
    leaves = {105: 2, 115: 1, 135: 2, 175: 1, 255: 1, 415: 1}
    script = use(Script(105, scheduler_leaves=leaves))
    answer = planned(at_once=True)
    assert script.judged == [[105], [115], [135], [175], [255], [415]]
    assert script.asked[1:] == [("more", left, 2**at) for at, left in enumerate([2, 1, 2, 1, 1])]
    assert (nodes(answer), list(answer.pending), answer.lower_bound) == ([115], ["default/p1"], 50.0)


FOUR = [(60, 40), (50, 51), (40, 30, 31), (30, 30, 20, 21)]
"""About as cheap, in two steps, two, three and four."""


def test_the_next_best_are_judged_where_the_scheduler_needs_more_nodes_but_three_at_most(
    use: Callable[[Script], Script],
) -> None:
    script = use(Script(130, steps=[FOUR], more_steps=(5,), scheduler_leaves={100: 1, 101: 1}))
    script.at_once_scheduler_leaves = 1
    answer = planned()
    first, second, third = [60, 40], [50, 51], [40, 30, 31]
    assert script.judged[:-1] == [first, [*first, 5], second, [*second, 5], third, [*third, 5]]
    assert (script.judged[-1], answer.cost) == ([105], 105.0), "two steps and one more are fewest"


def test_the_next_best_are_not_judged_where_the_scheduler_needs_no_more_nodes(
    use: Callable[[Script], Script],
) -> None:
    script = use(Script(130, steps=[FOUR], more_steps=(20,), scheduler_leaves={100: 1}))
    script.at_once_scheduler_leaves = 1
    answer = planned()
    assert script.judged == [[60, 40], [60, 40, 20], [50, 51], [101]]
    assert (nodes(answer), answer.cost) == ([50, 51], 101.0)


@pytest.mark.parametrize(
    ("left_at_once", "judged", "chosen"),
    [
        (0, [[60, 40], [130]], [130]),
        (1, [[60, 40], [130], [140]], [140]),
    ],
    ids=["they hold all pods", "they need more nodes"],
)
def test_nodes_at_once_are_judged_where_the_scheduler_leaves_pods_with_steps(
    use: Callable[[Script], Script], left_at_once: int, judged: list[Steps], chosen: list[int]
) -> None:
    script = use(Script(130, steps=[[(60, 40)]], scheduler_leaves={100: 1, 130: left_at_once}))
    assert (nodes(planned()), script.judged) == (chosen, judged)


def test_of_the_plans_that_are_judged_the_one_that_leaves_fewest_pods_is_taken(use: Callable[[Script], Script]) -> None:
    """With the first steps one pod is left, whatever is added; with the next best ones none is."""
    leaves = {100: 1, 105: 1, 101: 0}
    script = use(Script(130, steps=[FOUR], more_steps=(5,), scheduler_leaves=leaves))
    script.at_once_scheduler_leaves = 2
    answer = planned()
    assert (nodes(answer), answer.fits, answer.pending_at_once) == ([50, 51], True, 2)
    assert [50, 51] in script.judged
