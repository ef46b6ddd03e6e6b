"""Makes fewer steps, and fewer nodes, of steps that were found.

A search takes small steps, because a small one shows at once what it wastes. Many of them can be one step afterwards. For a
user each step is a time to wait for, so they are joined wherever trials still place as many pods. Bounded by decisions.
"""

from collections.abc import Sequence
from itertools import product

from mooring.answers.plan.demand import NodeDemand
from mooring.answers.plan.search import FoundNodes
from mooring.answers.plan.trials import Additions, TrialCluster, TrialOutcome
from mooring.model.pod import Pod

LAST_STEPS = 2
"""How many steps are tried with fewer nodes: those before are full."""
MERGED = 3
"""How many of the plans that are about as cheap are tried in fewer steps."""
CHEAP_ENOUGH = 1.1
"""A plan within this share of the bound is not given up for one with fewer steps that is not."""
WORTH_STEPS = 1.02
"""A plan with fewer steps is preferred, unless the other one is cheaper by this share."""


class StepWalk:
    """Steps that were made in the trial cluster, one after the other."""

    def __init__(self, trials: TrialCluster, demand: NodeDemand, pods: Sequence[Pod]) -> None:
        self._trials, self._pods = trials, pods
        self._plain, self._spread = demand.plain(), demand.spread_keys()
        self._none: Additions = tuple(0 for _ in demand.limits)
        self._made: list[tuple[Additions, TrialOutcome]] = []
        """The nodes after each step, and what it placed."""

    @property
    def left(self) -> Sequence[Pod]:
        return self._made[-1][1].left if self._made else self._pods

    @property
    def _counts(self) -> Additions:
        return self._made[-1][0] if self._made else self._none

    def make(self, step: Additions) -> None:
        counts = sum_of(self._counts, step)
        self._trials.add(counts)
        self._made.append((counts, self._trials.attempt(self.left, self._plain, self._spread)))

    def left_after(self, steps: Sequence[Additions]) -> Sequence[Pod]:
        """What is left after more steps, which are taken back."""
        begun = len(self._made)
        for step in steps:
            self.make(step)
        left = self.left
        self.undo(begun)
        return left

    def undo(self, down_to: int) -> None:
        """Take the last steps back until so many are there."""
        while len(self._made) > down_to:
            self._trials.take_back(self._made.pop()[1])
        self._trials.add(self._counts)

    def __len__(self) -> int:
        return len(self._made)


class StepTidier:
    """Tidies steps of one search."""

    def __init__(self, trials: TrialCluster, demand: NodeDemand, pods: Sequence[Pod], most_decisions: int) -> None:
        self._trials, self._demand, self._pods = trials, demand, pods
        self._last = trials.decisions + most_decisions

    def tidied(self, found: Sequence[FoundNodes], bound: float) -> list[FoundNodes]:
        """Those of the steps that are worth it, the best first, with fewer nodes and in fewer steps."""
        trimmed = by_preference([self.trimmed(each) for each in found], bound)
        return by_preference([self.merged(each) for each in trimmed[:MERGED]], bound)

    def _is_exhausted(self) -> bool:
        return self._trials.decisions >= self._last

    def trimmed(self, found: FoundNodes) -> FoundNodes:
        """Take nodes of the last steps away while no more pods are left, the dearest first."""
        steps = list(found.steps)
        first = max(len(steps) - LAST_STEPS, 0)
        walk = StepWalk(self._trials, self._demand, self._pods)
        for step in steps[:first]:
            walk.make(step)
        dearest = sorted(range(len(found.counts)), key=lambda offer: -self._demand.prices[offer])
        for at, offer in product(reversed(range(first, len(steps))), dearest):
            while steps[at][offer] and not self._is_exhausted():
                fewer = tuple(number - (each == offer) for each, number in enumerate(steps[at]))
                tried = [*steps[:at], fewer, *steps[at + 1 :]]
                left = walk.left_after(tried[first:])
                if len(left) > len(found.left):
                    break
                steps, found = tried, found_steps(self._demand, tried, left)
        walk.undo(0)
        return found_steps(self._demand, [step for step in steps if any(step)], found.left)

    def merged(self, found: FoundNodes) -> FoundNodes:
        """Join neighbouring steps while no more pods are left."""
        walk = StepWalk(self._trials, self._demand, self._pods)
        rest = _RestOfSteps(walk, found.steps, len(found.left))
        steps: list[Additions] = []
        while rest.steps:
            together = 1
            while together < len(rest.steps) and not self._is_exhausted():
                wider = min(2 * together, len(rest.steps))
                if not rest.can_join(wider):
                    break
                together = wider
            steps.append(rest.join(together))
        left = walk.left
        walk.undo(0)
        return found_steps(self._demand, steps, left) if len(left) <= len(found.left) else found


class _RestOfSteps:
    """The steps that come after those of a walk."""

    def __init__(self, walk: StepWalk, steps: Sequence[Additions], most_left: int) -> None:
        self._walk, self._most_left = walk, most_left
        self.steps = list(steps)
        self._lefts = self._walked(steps)
        """What is left after each of the steps, as it was last tried."""

    def _walked(self, steps: Sequence[Additions]) -> list[list[str]]:
        begun, lefts = len(self._walk), []
        for step in steps:
            self._walk.make(step)
            lefts.append([pod.id for pod in self._walk.left])
        self._walk.undo(begun)
        return lefts

    def can_join(self, number: int) -> bool:
        """Whether everything fits if the next steps are one. If the same pods are left after one of the steps that follow,
        those after it are taken to place the same as before."""
        begun, lefts = len(self._walk), self._lefts[: number - 1]
        self._walk.make(sum_of(*self.steps[:number]))
        for at in range(number - 1, len(self.steps)):
            if at >= number:
                self._walk.make(self.steps[at])
            lefts.append([pod.id for pod in self._walk.left])
            if lefts[-1] == self._lefts[at]:
                lefts += self._lefts[at + 1 :]
                break
        self._walk.undo(begun)
        is_enough = len(lefts[-1]) <= self._most_left
        self._lefts = lefts if is_enough else self._lefts
        return is_enough

    def join(self, number: int) -> Additions:
        """Make one step of the next ones, and go past it."""
        joined = sum_of(*self.steps[:number])
        self._walk.make(joined)
        del self.steps[:number], self._lefts[:number]
        return joined


def by_preference(found: Sequence[FoundNodes], bound: float) -> list[FoundNodes]:
    """Those that cost little more than the cheapest, the fewest steps first. Nodes that come at once have no steps."""
    best = min(found, key=FoundNodes.rank)
    most = max(best.cost, min(WORTH_STEPS * best.cost, CHEAP_ENOUGH * bound))
    near = [each for each in found if len(each.left) <= len(best.left) and each.cost <= most]
    return sorted(near, key=lambda each: (len(each.steps), each.cost))


def found_steps(demand: NodeDemand, steps: Sequence[Additions], left: Sequence[Pod]) -> FoundNodes:
    counts = sum_of(tuple(0 for _ in demand.limits), *steps)
    cost = sum(number * price for number, price in zip(counts, demand.prices, strict=True))
    return FoundNodes(counts, left, cost, tuple(steps))


def sum_of(*steps: Additions) -> Additions:
    return tuple(sum(numbers) for numbers in zip(*steps, strict=True))
