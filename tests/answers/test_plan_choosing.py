"""Which of the nodes that searches find become the plan: what is searched for, what is judged, and what is preferred.

The searches find what a test tells them, and the scheduler leaves what the test says. A node costs 1, and no plan less
than 100.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from written import a_node, a_pod

from mooring.answers.plan import additions
from mooring.answers.plan.judge import Verdict
from mooring.answers.plan.plan import Plan, plan
from mooring.answers.plan.search import FoundNodes
from mooring.answers.plan.steps import MORE_STYLES, STYLES, StepStyle
from mooring.inputs.loaded_cluster import LoadedCluster, load
from mooring.model.pod import Pod

Steps = Sequence[int]


@dataclass
class Script:
    """What searches find and how the scheduler judges; and what both were asked."""

    at_once: int
    steps: Sequence[Sequence[Steps]] = ()
    """The steps that each search for steps finds, as the nodes of each step."""
    holding_at_once: int | None = None
    holding_steps: Steps | None = None
    """The nodes that hold in all orders; None if there are none."""
    at_once_leaves: int = 0
    """How many pods the first search leaves."""
    scheduler_leaves: dict[int, int] = field(default_factory=dict)
    """By number of nodes: how many pods stay pending."""
    more_steps: Steps = ()
    """Steps that are found where the scheduler leaves pods after the others."""
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

    def more(self, found: FoundNodes, left: Sequence[Pod], times: int) -> FoundNodes:
        self._script.asked.append(("more", len(left), times))
        return self._script.found([found.counts[0] + 10 * times], self._pods, 0, False)


class ScriptedStepSearch:
    """In the place of StepSearch."""

    def __init__(self, script: Script, pods: Sequence[Pod], bound: float, styles: Sequence[StepStyle] | None) -> None:
        self._script, self._pods = script, pods
        self._found: Sequence[Steps] = [script.more_steps]
        if styles is not None:
            number = sum(isinstance(each, tuple) and each[0] == "steps" for each in script.asked)
            self._found = script.steps[number]
            script.asked.append(("steps", bound, styles))

    def run(self) -> list[FoundNodes]:
        return [self._script.found(steps, self._pods, 0, True) for steps in self._found]


class ScriptedHolding:
    """In the place of HoldingSearch."""

    def __init__(self, script: Script, pods: Sequence[Pod], most_left: int, is_at_once: bool) -> None:
        self._script, self._pods, self._most_left, self._is_at_once = script, pods, most_left, is_at_once

    def run(self, found: Sequence[FoundNodes]) -> FoundNodes | None:
        begun = [[sum(step) for step in each.steps] or [each.counts[0]] for each in found]
        self._script.asked.append(("hold at once" if self._is_at_once else "hold", begun, self._most_left))
        nodes = self._script.holding_steps
        if self._is_at_once:
            nodes = None if self._script.holding_at_once is None else [self._script.holding_at_once]
        return None if nodes is None else self._script.found(nodes, self._pods, 0, len(nodes) > 1)


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

        def holding(orders: Any, pods: Any, bound: float, most_left: int, at_once: bool, tell: Any) -> ScriptedHolding:
            return ScriptedHolding(script, pods, most_left, at_once)

        def judge(loaded: LoadedCluster, named: Any) -> Verdict:
            numbers = [sum(len(names) for _, names in step) for step in named]
            left = script.scheduler_leaves.get(sum(numbers), 0)
            script.judged.append(numbers)
            pods = [item.key for item in loaded.objects if isinstance(item, Pod)]
            return Verdict(dict.fromkeys(pods[len(pods) - left :], "no room"), {}, loaded)

        monkeypatch.setattr(additions, "NodeSearch", search)
        monkeypatch.setattr(additions, "StepSearch", steps)
        monkeypatch.setattr(additions, "HoldingSearch", holding)
        monkeypatch.setattr(additions, "judge", judge)
        monkeypatch.setattr(additions, "lower_bound", lambda demand, counts, limits: float(50 * sum(counts)))
        return script

    return use


def planned(at_once: bool = False) -> Plan:
    """For two pods, so that the bound is 100."""
    offer = {"name": "m", "price": 1.0, "limit": 1000, "node": a_node("template", "2")}
    return plan(load([a_pod("p0"), a_pod("p1")]), [offer], at_once=at_once)


def nodes(answer: Plan) -> list[int]:
    """Of each step."""
    return [len(each.names) for each in answer.added]


AT_ONCE = ("at once", 100.0, 20_000)
FIRST, SECOND = ("steps", 100.0, STYLES), ("steps", 100.0, MORE_STYLES)


@pytest.mark.parametrize(
    ("script", "asked", "chosen"),
    [
        (Script(102, holding_at_once=102), [AT_ONCE, ("hold at once", [[102]], 0)], [102]),
        (
            Script(102, holding_at_once=103, holding_steps=(60, 40)),
            [AT_ONCE, ("hold at once", [[102]], 0), ("hold", [[103], [102]], 0)],
            [60, 40],
        ),
        (
            Script(102, holding_at_once=103, holding_steps=(60, 42)),
            [AT_ONCE, ("hold at once", [[102]], 0), ("hold", [[103], [102]], 0)],
            [103],
        ),
        (
            Script(102, holding_at_once=120, holding_steps=(80, 50)),
            [AT_ONCE, ("hold at once", [[102]], 0), ("hold", [[120], [102]], 0)],
            [120],
        ),
        (Script(102), [AT_ONCE, ("hold at once", [[102]], 0), ("hold", [[102]], 0)], [102]),
        (
            Script(102, at_once_leaves=1, steps=[[(60, 40)]], holding_steps=(60, 40)),
            [AT_ONCE, FIRST, ("hold at once", [], 0), ("hold", [[60, 40]], 0)],
            [60, 40],
        ),
    ],
    ids=[
        "nodes that hold at once and cost 2 % more than the bound are good enough",
        "where they cost 3 % more, steps are searched for",
        "steps that are cheaper by less than 2 % are not worth it",
        "nodes that come at once are taken where steps cost more",
        "nodes that do not hold in all orders are taken where none do",
        "steps are proposed where nodes at once leave a pod",
    ],
)
def test_the_cheapest_nodes_that_hold_are_taken_unless_steps_save_little(
    use: Callable[[Script], Script], script: Script, asked: list[object], chosen: list[int]
) -> None:
    script = use(Script(**{**vars(script), "asked": [], "judged": []}))
    answer = planned()
    assert (nodes(answer), script.asked) == (chosen, asked)
    assert (answer.lower_bound, answer.fits) == (100.0, True)


def test_with_many_pods_steps_are_proposed_and_nodes_at_once_are_not_searched_for_twice(
    use: Callable[[Script], Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(additions, "FEW_PODS", 1)
    script = use(Script(130, steps=[[(60, 51)], [(60, 40)]], holding_steps=(60, 41)))
    assert nodes(planned()) == [60, 41]
    assert script.asked == [AT_ONCE, FIRST, SECOND, ("hold", [[130], [60, 51], [60, 40]], 0)]
    monkeypatch.setattr(additions, "MANY_PODS", 1)
    many = use(Script(130, steps=[[(60, 50)]], holding_steps=(60, 50)))
    assert nodes(planned()) == [60, 50]
    assert many.asked[:2] == [("at once", 100.0, 6), FIRST], "each pod is tried three times"
    alone = use(Script(130, holding_at_once=130))
    assert nodes(planned(at_once=True)) == [130]
    assert alone.asked == [("at once", 100.0, 40_000), ("hold at once", [[130]], 0)]


def test_more_steps_are_added_for_pods_that_the_scheduler_leaves(use: Callable[[Script], Script]) -> None:
    script = use(Script(130, holding_steps=(60, 40), more_steps=(3, 2), scheduler_leaves={100: 1}))
    answer = planned()
    assert script.asked[-1] == ("more steps", ["p1"], 900), "of a limit of 1000"
    assert script.judged == [[60, 40], [60, 40, 3, 2], [105]]
    assert (nodes(answer), answer.cost, answer.fits, answer.lower_bound) == ([60, 40, 3, 2], 105.0, True, 100.0)


def test_the_nodes_are_kept_with_which_fewest_pods_are_left(use: Callable[[Script], Script]) -> None:
    """The scheduler leaves two pods, then one, then two, and then one again: the first of the best ones is taken."""
    leaves = {105: 2, 115: 1, 135: 2, 175: 1, 255: 1, 415: 1}
    script = use(Script(105, holding_at_once=105, scheduler_leaves=leaves))
    answer = planned(at_once=True)
    assert script.judged == [[105], [115], [135], [175], [255], [415]]
    assert script.asked[2:] == [("more", left, 2**at) for at, left in enumerate([2, 1, 2, 1, 1])]
    assert (nodes(answer), list(answer.pending), answer.lower_bound) == ([115], ["default/p1"], 50.0)


@pytest.mark.parametrize("left_at_once", [0, 1, 2])
def test_it_is_told_how_many_pods_are_left_if_steps_come_at_once(
    use: Callable[[Script], Script], left_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = use(Script(130, holding_steps=(60, 40)))
    inner: Callable[[LoadedCluster, Any], Verdict] = vars(additions)["judge"]

    def judge(loaded: LoadedCluster, named: Any) -> Verdict:
        script.scheduler_leaves = {100: left_at_once if len(named) == 1 else 0}
        return inner(loaded, named)

    monkeypatch.setattr(additions, "judge", judge)
    answer = planned()
    assert (answer.steps, answer.pending_at_once, script.judged) == (2, left_at_once, [[60, 40], [100]])
