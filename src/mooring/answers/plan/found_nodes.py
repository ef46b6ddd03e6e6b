"""Nodes that a search found: how many of each offer, in which steps, and which of several are preferred."""

from collections.abc import Sequence
from dataclasses import dataclass

from mooring.answers.plan.demand import NodeDemand
from mooring.answers.plan.trials import Additions
from mooring.model.pod import Pod

CHEAP_ENOUGH = 1.1
"""A plan within this share of the bound is not given up for one with fewer steps that is not."""
WORTH_STEPS = 1.02
"""A plan with fewer steps is preferred, unless the other one is cheaper by this share."""
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
