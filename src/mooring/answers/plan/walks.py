"""Steps of nodes in several orders side by side: which pods are left after each step, in each order.

A search extends one sequence of steps in many ways, so a walk is a value: it can be extended again and again. There are two
kinds of walks. `OrderWalks` asks the core for each decision; `contents.py` has walks over a table of the core's answers.

A search ends with `FoundNodes`: how many nodes of each offer, in which steps. Rules say which of several are preferred.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from mooring.answers.plan.demand import NodeDemand
from mooring.answers.plan.trials import Additions, NodeTrialOutcome, NodeTrials
from mooring.model.pod import Pod

CHEAP_ENOUGH = 1.1
"""A plan within this share of the bound is not given up for one with fewer steps that is not."""
WORTH_STEPS = 1.02
"""A plan with fewer steps is preferred, unless the other one is cheaper by this share."""
TOGETHER, SETTLED = 0, 1 << 20
"""Paces at which the nodes of a step come: all at once, and each after the scheduler has attempted every pod that waits."""
Steps = tuple[Additions, ...]


@dataclass(frozen=True, slots=True)
class FoundNodes:
    """How many nodes of each offer, and the pods that do not fit even so."""

    counts: Additions
    left: Sequence[Pod]
    cost: float
    steps: Sequence[Additions] = ()
    """The nodes of each step, if they do not all come at once."""

    def rank(self) -> tuple[int, float]:
        """The fewer pods are left the better, and then the cheaper."""
        return len(self.left), self.cost


def given_up(demand: NodeDemand, before: Additions, after: Additions) -> float:
    """The largest share of a resource that the nodes have less; negative if they have more of all."""
    shares = []
    for resource in demand.offers[0]:
        had = sum(count * free[resource] for count, free in zip(before, demand.offers, strict=True))
        has = sum(count * free[resource] for count, free in zip(after, demand.offers, strict=True))
        if had > 0:
            shares.append((had - has) / had)
    return max(shares, default=0.0)


def by_preference(found: Sequence[FoundNodes], bound: float) -> list[FoundNodes]:
    """The nodes that cost little more than the cheapest, the fewest steps first. Nodes that come at once have no steps."""
    best = min(found, key=FoundNodes.rank)
    most = max(best.cost, min(WORTH_STEPS * best.cost, CHEAP_ENOUGH * bound))
    near = [each for each in found if len(each.left) <= len(best.left) and each.cost <= most]
    return sorted(near, key=lambda each: (len(each.steps), each.cost))


def found_steps(demand: NodeDemand, steps: Sequence[Additions], left: Sequence[Pod]) -> FoundNodes:
    counts = sum_of(tuple(0 for _ in demand.limits), *steps)
    return FoundNodes(counts, left, demand.cost_of(counts), tuple(steps))


def sum_of(*steps: Additions) -> Additions:
    return tuple(sum(numbers) for numbers in zip(*steps, strict=True))


def steps_of(found: FoundNodes) -> Steps:
    """The steps; nodes that come at once are one step."""
    return tuple(found.steps) or (found.counts,)


Numbers = NDArray[np.int64]
Walked = TypeVar("Walked")


@dataclass(frozen=True, slots=True)
class ArrivalOrder:
    """One order of the pods and nodes."""

    pods: Sequence[Pod]
    """As the queue gives them."""
    seed: int | None
    """Breaks ties between nodes, and shuffles the nodes of a step. None: the first of them is taken, and nodes are shuffled
    as by 0."""
    pace: int = TOGETHER
    """The nodes of a step come one after the other, the next one after so many pods have been attempted. TOGETHER: all nodes
    of a step come at once."""

    def arrivals(self, steps: Sequence[Additions]) -> Iterator[tuple[Additions, int]]:
        """The nodes that come together, in their order, and how many pods are attempted before the next ones come."""
        for step in steps:
            if self.pace == TOGETHER:
                yield step, SETTLED
                continue
            nodes = [offer for offer, number in enumerate(step) for _ in range(number)]
            Random(self.seed or 0).shuffle(nodes)
            for at, node in enumerate(nodes, 1):
                yield tuple(int(offer == node) for offer in range(len(step))), self.pace if at < len(nodes) else SETTLED


class Walks(Protocol[Walked]):
    """Makes steps in all orders of a list."""

    def begin(self) -> Walked:
        """No step, after the present nodes have got what fits there."""

    def extended(self, walked: Walked, step: Additions) -> Walked:
        """One step more."""

    def left(self, walked: Walked) -> Numbers:
        """By order and kind of pod: how many pods are left."""

    def domains(self, walked: Walked, order: int) -> Mapping[str, str]:
        """By id of each pod that is spread and was placed in an order: the value of its label."""


class StepWalk:
    """Steps that were made in the trial cluster for one order, one after the other."""

    def __init__(self, trials: NodeTrials, demand: NodeDemand, pods: Sequence[Pod]) -> None:
        self._trials, self._pods = trials, pods
        self._plain, self._spread = demand.plain(), demand.spread_keys()
        self._none: Additions = tuple(0 for _ in demand.limits)
        self._made: list[tuple[Additions, NodeTrialOutcome]] = []
        """The nodes after each step, and what it placed."""

    @property
    def made(self) -> tuple[tuple[Additions, NodeTrialOutcome], ...]:
        return tuple(self._made)

    @property
    def left(self) -> Sequence[Pod]:
        return self._made[-1][1].left if self._made else self._pods

    @property
    def counts(self) -> Additions:
        """The nodes after the last step."""
        return self._made[-1][0] if self._made else self._none

    @property
    def domains(self) -> dict[str, str]:
        return {pod: domain for _, outcome in self._made for pod, domain in outcome.domains.items()}

    def make(self, step: Additions, most: int = SETTLED) -> None:
        """A step, after which so many pods are attempted. Those that are refused come after the others from then on."""
        counts, left = sum_of(self.counts, step), self.left
        self._trials.add(counts)
        outcome = self._trials.attempt(left[:most], self._plain, self._spread)
        self._made.append((counts, replace(outcome, left=[*left[most:], *outcome.left])))

    def repeat(self, made: Sequence[tuple[Additions, NodeTrialOutcome]]) -> None:
        """Make steps again as they were made before, without decisions."""
        for counts, outcome in made:
            self._trials.add(counts)
            self._trials.put_back(outcome)
            self._made.append((counts, outcome))

    def undo(self) -> None:
        """Take all steps back."""
        while self._made:
            self._trials.take_back(self._made.pop()[1])
        self._trials.add(self._none)


@dataclass(frozen=True, slots=True)
class CoreWalked:
    """By order: the steps that were made, and the pods that are left."""

    made: Sequence[Sequence[tuple[Additions, NodeTrialOutcome]]]
    left: Sequence[Sequence[Pod]]


class OrderWalks:
    """Walks by decisions of the core, one order after the other."""

    def __init__(self, trials: NodeTrials, demand: NodeDemand, orders: Sequence[ArrivalOrder], fits_now: bool) -> None:
        """`fits_now`: some of the pods may fit on the present nodes."""
        self._trials, self._demand, self._orders, self._fits_now = trials, demand, orders, fits_now
        self._kinds = {pod.id: at for at, kind in enumerate(demand.kinds) for pod in kind.pods}

    def begin(self) -> CoreWalked:
        nothing = CoreWalked([()] * len(self._orders), [order.pods for order in self._orders])
        return self.extended(nothing, tuple(0 for _ in self._demand.limits)) if self._fits_now else nothing

    def extended(self, walked: CoreWalked, step: Additions) -> CoreWalked:
        made, left = [], []
        for order, before, waiting in zip(self._orders, walked.made, walked.left, strict=True):
            walk = StepWalk(self._trials, self._demand, order.pods)
            if waiting:
                self._trials.use_seed(order.seed)
                walk.repeat(before)
                for arrival, most in order.arrivals([step]) if any(step) else [(step, SETTLED)]:
                    walk.make(arrival, most)
            made.append(walk.made)
            left.append(walk.left if waiting else ())
            walk.undo()
        self._trials.use_seed(None)
        return CoreWalked(made, left)

    def left(self, walked: CoreWalked) -> Numbers:
        found = np.zeros((len(self._orders), len(self._demand.kinds)), np.int64)
        for at, pods in enumerate(walked.left):
            for pod in pods:
                found[at, self._kinds[pod.id]] += 1
        return found

    def domains(self, walked: CoreWalked, order: int) -> Mapping[str, str]:
        return {pod: domain for _, outcome in walked.made[order] for pod, domain in outcome.domains.items()}
