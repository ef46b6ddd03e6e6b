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
from mooring.answers.plan.programs import Solution
from mooring.answers.plan.walks import FoundNodes
from mooring.inputs.loaded_cluster import LoadedCluster, load
from mooring.model.pod import Pod

Steps = Sequence[int]


@dataclass
class Script:
    """What searches find and how the scheduler judges; and what both were asked."""

    one: Steps
    """The nodes for the order of the cluster alone."""
    at_once: int = 0
    steps: Steps = ()
    """The nodes that hold in all orders, at once and in steps."""
    one_leaves: int = 0
    """How many pods the search for one order leaves."""
    scheduler_leaves: dict[int, int] = field(default_factory=dict)
    """By number of nodes: how many pods stay pending."""
    asked: list[object] = field(default_factory=list)
    judged: list[Steps] = field(default_factory=list)


class ScriptedHolding:
    """In the place of HoldingSearch."""

    def __init__(self, script: Script, orders: Any, pods: Sequence[Pod], most_left: int) -> None:
        self._script, self._pods, self._most_left = script, pods, most_left
        self._is_for_one = orders.number == 1

    def run(self, is_at_once: bool, begun: Sequence[FoundNodes] = ()) -> FoundNodes:
        script, left = self._script, self._most_left
        if self._is_for_one:
            nodes, left = script.one, script.one_leaves
        else:
            listed = [[sum(step) for step in each.steps] or [each.counts[0]] for each in begun]
            script.asked.append(("at once" if is_at_once else "steps", listed, left))
            nodes = [script.at_once] if is_at_once else script.steps
        steps = tuple((each,) for each in nodes) if len(nodes) > 1 else ()
        return FoundNodes((sum(nodes),), self._pods[len(self._pods) - left :], float(sum(nodes)), steps)


@pytest.fixture
def use(monkeypatch: pytest.MonkeyPatch) -> Callable[[Script], Script]:
    def use(script: Script) -> Script:
        def holding(orders: Any, patterns: Any, pods: Any, bound: float, most_left: int, tell: Any) -> ScriptedHolding:
            return ScriptedHolding(script, orders, pods, most_left)

        def judge(loaded: LoadedCluster, named: Any) -> Verdict:
            numbers = [sum(len(names) for _, names in step) for step in named]
            left = script.scheduler_leaves.get(sum(numbers), 0)
            script.judged.append(numbers)
            pods = [item.key for item in loaded.objects if isinstance(item, Pod)]
            return Verdict(dict.fromkeys(pods[len(pods) - left :], "no room"), {}, loaded)

        monkeypatch.setattr(additions, "HoldingSearch", holding)
        monkeypatch.setattr(additions, "judge", judge)
        monkeypatch.setattr(additions, "solve", lambda demand, counts, limits: Solution((10,), 0, 0.0))
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


@pytest.mark.parametrize(
    ("script", "asked", "chosen"),
    [
        (Script((101,), 102), [("at once", [[101]], 0)], [102]),
        (Script((60, 30), 103, (60, 40)), [("at once", [], 0), ("steps", [[60, 30], [103]], 0)], [60, 40]),
        (Script((60, 30), 103, (60, 42)), [("at once", [], 0), ("steps", [[60, 30], [103]], 0)], [103]),
        (Script((60, 30), 120, (80, 50)), [("at once", [], 0), ("steps", [[60, 30], [120]], 0)], [120]),
        (
            Script((60, 30), 105, (60, 40), one_leaves=1),
            [("at once", [], 1), ("steps", [[60, 30], [105]], 1)],
            [60, 40],
        ),
    ],
    ids=[
        "nodes that hold at once and cost 2 % more than the bound are good enough",
        "where they cost 3 % more, steps are searched for",
        "steps that are cheaper by less than 2 % are not worth it",
        "nodes that come at once are taken where steps cost more",
        "as many pods may be left in all orders as in the order of the cluster",
    ],
)
def test_the_cheapest_nodes_that_hold_are_taken_unless_steps_save_little(
    use: Callable[[Script], Script], script: Script, asked: list[object], chosen: list[int]
) -> None:
    script = use(Script(**{**vars(script), "asked": [], "judged": []}))
    answer = planned()
    assert (nodes(answer), script.asked) == (chosen, asked)
    assert (answer.lower_bound, answer.fits) == (100.0, True)


def test_with_many_pods_nodes_at_once_are_searched_for_only_if_asked(
    use: Callable[[Script], Script], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(additions, "FEW_PODS", 1)
    script = use(Script((130,), 130, (60, 41)))
    assert nodes(planned()) == [60, 41]
    assert script.asked == [("steps", [[130]], 0)]
    alone = use(Script((130,), 130))
    assert nodes(planned(at_once=True)) == [130]
    assert alone.asked == [("at once", [[130]], 0)]


def test_more_steps_are_added_for_pods_that_the_scheduler_leaves(use: Callable[[Script], Script]) -> None:
    script = use(Script((130,), 130, (60, 40), scheduler_leaves={100: 1}))
    answer = planned()
    assert script.judged == [[60, 40], [60, 40, 10], [110]]
    assert (nodes(answer), answer.cost, answer.fits, answer.lower_bound) == ([60, 40, 10], 110.0, True, 100.0)


def test_the_nodes_are_kept_with_which_fewest_pods_are_left(use: Callable[[Script], Script]) -> None:
    """The scheduler leaves two pods, then one, then two, and then one again: the first of the best ones is taken."""
    leaves = {105: 2, 115: 1, 135: 2, 175: 1, 255: 1, 415: 1}
    script = use(Script((105,), 105, scheduler_leaves=leaves))
    answer = planned(at_once=True)
    assert script.judged == [[105], [115], [135], [175], [255], [415]]
    assert (nodes(answer), list(answer.pending), answer.lower_bound) == ([115], ["default/p1"], 50.0)


@pytest.mark.parametrize("left_at_once", [0, 1, 2])
def test_it_is_told_how_many_pods_are_left_if_steps_come_at_once(
    use: Callable[[Script], Script], left_at_once: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = use(Script((130,), 130, (60, 40)))
    inner: Callable[[LoadedCluster, Any], Verdict] = vars(additions)["judge"]

    def judge(loaded: LoadedCluster, named: Any) -> Verdict:
        script.scheduler_leaves = {100: left_at_once if len(named) == 1 else 0}
        return inner(loaded, named)

    monkeypatch.setattr(additions, "judge", judge)
    answer = planned()
    assert (answer.steps, answer.pending_at_once, script.judged) == (2, left_at_once, [[60, 40], [100]])
