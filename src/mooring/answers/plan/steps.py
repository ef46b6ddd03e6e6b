"""Looks for nodes that come in steps: the scheduler places what it can on those of one step before the next ones come.

A scheduler that spreads pods uses nodes badly if all come at once: small pods stand on every node, and large ones find none
with enough room. Nodes that come one by one while more pods wait than they can hold become full. So the search adds nodes one
by one, or a share of what a program proposes where many are to come, in several orders of the pods at the same time. The
program of patterns says what each pod that is left is worth. Nodes and rest together cost the more, the more room was wasted;
of the beginnings that have placed about as much, those that waste least are continued. The search is bounded by work.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from mooring.answers.plan.demand import NodeDemand
from mooring.answers.plan.orders import OrderTrials
from mooring.answers.plan.patterns import PatternProgram
from mooring.answers.plan.programs import Amounts, solve
from mooring.answers.plan.trials import Additions
from mooring.answers.plan.walks import Steps, sum_of
from mooring.kit.callbacks import Progress

LEVELS = 60
"""Beginnings are compared with others that have placed the same share of the pods, in 60ths of their worth."""
SAME_NODES = 2
"""How many beginnings of a level have the same nodes, in other sequences."""
KEPT = 8
"""How many times the width a level may have before the worse half is dropped."""
SIZE = 0.02
"""How much each pod counts for a level beside its worth, as a share of the largest worth."""
SINGLE = 60
"""With no more nodes to come than these, each offer is tried with one node."""
SHARES = (0.8, 0.5, 0.25)
"""How much of what the program proposes a step may have, where many nodes are to come."""
SHARES_EVERY = 6
"""The number of levels between beginnings from which such steps are tried: each asks the core about most pods, and beginnings
that are near each other lead to the same. For 300 pods on 5,000 nodes this was nine tenths of the work of a search."""
TRIED_OFFERS = 4
"""How many offers are tried alone then, those first on which the program spends most."""
TIMES = (1, 2, 4, 8)
"""How many times what a program adds is tried where no single node helps."""
_ROUNDING = 1e-6
NEAR = 1e-9


@dataclass(frozen=True, slots=True)
class StepEffort:
    """How much a search tries."""

    width: int
    """How many beginnings of each level are continued."""
    orders: int
    """In how many orders."""
    work: int
    """After so many decisions, one beginning of each level is continued."""
    rounds: int
    """How often beginnings of a level are continued: small steps may stay in it. Fewer rounds favour larger steps."""


@dataclass(order=True, slots=True)
class _Beginning:
    """Some steps, and what came of them in each order."""

    waste: float
    """The cost of the nodes, and what the pods that are left are worth."""
    number: int
    steps: Steps = field(compare=False)
    counts: Additions = field(compare=False)
    walked: Any = field(compare=False, repr=False)
    left: Any = field(compare=False, repr=False)
    """By order and kind: how many pods are left."""
    rests: Amounts = field(compare=False, repr=False)
    """By order: what the pods that are left are worth."""


class StepSearch:
    """One search over the offers of a trial cluster."""

    def __init__(
        self, orders: OrderTrials, patterns: PatternProgram, effort: StepEffort, tell: Progress | None = None
    ) -> None:
        self._orders, self._demand, self._patterns, self._tell = orders, orders.demand, patterns, tell
        self._walks = orders.walks(effort.orders)
        self._worths, self._saved = patterns.worths()
        self._sizes = self._worths + max(SIZE * float(self._worths.max(initial=0.0)), NEAR)
        """By kind: how much a pod counts for the level of a beginning. Those that others pay for count a little."""
        self._effort, self._begun = effort, orders.work
        self._made = self._most_left = 0
        self._tries_shares = True
        """Whether the beginnings that are continued now are continued with shares of what the program proposes as well."""
        self._below = float("inf")
        self._best: Steps | None = None
        self.fewest: tuple[int, float, Steps] | None = None
        """The fewest pods that steps leave in an order, their cost, and the steps."""

    def run(self, most_left: int, below: float) -> Steps | None:
        """The cheapest steps that were found to leave no more than so many pods in each order; None if none cost less than
        `below`."""
        self._most_left, self._below, self._best = most_left, below, None
        nothing = tuple(0 for _ in self._demand.limits)
        first = self._beginning((), nothing, self._walks.begin())
        self._search_wide(first)
        return self._best

    def _search_wide(self, first: _Beginning) -> None:
        """Continue the best beginnings of each level."""
        total = max(_blend(first.left @ self._sizes), NEAR)
        levels: list[list[_Beginning]] = [[] for _ in range(LEVELS + 1)]
        levels[0].append(first)
        due = 0
        for at, level in enumerate(levels):
            for _ in range(self._effort.rounds):
                chosen = self._chosen(level)
                level.clear()
                self._tries_shares = bool(chosen) and at >= due
                if self._tries_shares:
                    due = at + SHARES_EVERY
                for child in (child for begun in chosen for child in self._opened(begun)):
                    placed = 1 - _blend(child.left @ self._sizes) / total
                    self._keep(levels[min(max(int(LEVELS * placed), at), LEVELS)], child)
            if at < LEVELS and not levels[at + 1]:  # small steps alone would end here
                levels[at + 1] += level

    def _opened(self, begun: _Beginning) -> Iterator[_Beginning]:
        """The steps with one more, as far as they leave pods and may become cheaper. Those that leave none are noted."""
        for child in self._continued(begun, self._below):
            number, cost = int(child.left.sum(axis=1).max()), self._demand.cost_of(child.counts)
            if self.fewest is None or (number, cost) < self.fewest[:2]:
                self.fewest = number, cost, child.steps
            if number > self._most_left:
                if self._may_be_cheaper(child):
                    yield child
            elif cost < self._below - NEAR:
                self._best, self._below = child.steps, cost

    def _may_be_cheaper(self, begun: _Beginning) -> bool:
        cost = self._demand.cost_of(begun.counts)
        return bool(self._most_left or cost + begun.rests.max() < self._below - NEAR)

    def _keep(self, level: list[_Beginning], child: _Beginning) -> None:
        """Add a beginning to a level. Walks take memory, so that the worse ones are dropped."""
        level.append(child)
        if len(level) > KEPT * self._effort.width:
            level.sort()
            del level[len(level) // 2 :]

    def _chosen(self, level: Sequence[_Beginning]) -> list[_Beginning]:
        """The beginnings of a level that are continued."""
        same: Counter[Additions] = Counter()
        found = []
        for begun in sorted(level):
            same[begun.counts] += 1
            if same[begun.counts] <= SAME_NODES:
                found.append(begun)
        return found[: 1 if self._is_exhausted() else self._effort.width]

    def _is_exhausted(self) -> bool:
        done = self._orders.work - self._begun
        if self._tell is not None:
            self._tell(min(done, self._effort.work), self._effort.work)
        return done >= self._effort.work

    def _continued(self, begun: _Beginning, below: float) -> Iterator[_Beginning]:
        """The steps with one more that places something in some order, and costs less than `below`."""
        before = begun.left.sum()
        is_stuck = True
        for step in self._proposed(begun):
            counts = sum_of(begun.counts, step)
            if self._demand.cost_of(counts) < below - NEAR:
                child = self._beginning((*begun.steps, step), counts, self._walks.extended(begun.walked, step))
                if child.left.sum() < before:
                    is_stuck = False
                    yield child
        for step in self._more(begun) if is_stuck else ():
            child = self._beginning(
                (*begun.steps, step), sum_of(begun.counts, step), self._walks.extended(begun.walked, step)
            )
            if child.left.sum() < before:
                yield child
                return

    def _beginning(self, steps: Steps, counts: Additions, walked: Any) -> _Beginning:
        left = self._walks.left(walked)
        spare = np.array([limit - count for limit, count in zip(self._demand.limits, counts, strict=True)])
        saved = float(self._saved[self._saved > NEAR] @ spare[self._saved > NEAR])
        rests = np.maximum(left @ self._worths - saved, NEAR * left.sum(axis=1))
        self._made += 1
        return _Beginning(self._demand.cost_of(counts) + _blend(rests), self._made, steps, counts, walked, left, rests)

    # ---- steps to try

    def _proposed(self, begun: _Beginning) -> Iterator[Additions]:
        limits = self._limits(begun)
        takers = self._takers(begun)
        price = sum(self._demand.prices[offer] for offer in takers) / max(len(takers), 1)
        if SINGLE * price >= float(begun.rests.max()):
            yield from (self._one(offer) for offer in takers if limits[offer] > 0)
            return
        demand, numbers = self._rest(begun)
        nodes = self._patterns.cheapest(numbers, limits, demand).nodes
        by_cost = sorted(takers, key=lambda offer: -nodes[offer] * self._demand.prices[offer])[:TRIED_OFFERS]
        found: list[Additions] = []
        if self._tries_shares:
            found += [tuple(int(share * each + _ROUNDING) for each in nodes) for share in SHARES]
            found += [self._one(offer, int(share * nodes[offer])) for offer in by_cost for share in SHARES[1:]]
        found += [self._one(offer) for offer in by_cost if limits[offer] > 0]
        yield from dict.fromkeys(step for step in found if any(step))

    def _takers(self, begun: _Beginning) -> list[int]:
        """The offers that take pods of a kind that is left."""
        kinds = np.flatnonzero(begun.left.sum(axis=0)).tolist()
        return sorted({offer for kind in kinds for offer in self._demand.kinds[kind].takers})

    def _limits(self, begun: _Beginning) -> list[int]:
        return [limit - count for limit, count in zip(self._demand.limits, begun.counts, strict=True)]

    def _rest(self, begun: _Beginning) -> tuple[NodeDemand, Sequence[int]]:
        """The demand in the order in which most is left, and how many pods of each kind."""
        order = int(begun.rests.argmax())
        return self._demand.after(self._walks.domains(begun.walked, order)), begun.left[order].tolist()

    def _one(self, offer: int, number: int = 1) -> Additions:
        return tuple(number if each == offer else 0 for each in range(len(self._demand.prices)))

    def _more(self, begun: _Beginning) -> Iterator[Additions]:
        """All nodes that a program adds for what is left, where no single node helps; then twice as many, and so on: a gang
        needs all of its nodes, and others may take some."""
        demand, numbers = self._rest(begun)
        limits = self._limits(begun)
        solution = solve(demand, numbers, limits)
        if solution is not None and any(solution.nodes):
            for times in TIMES:
                yield tuple(min(times * number, limit) for number, limit in zip(solution.nodes, limits, strict=True))


def _blend(rests: Amounts) -> float:
    """Half of the worst order, and half of the mean: the worst decides whether a plan holds, but it is often the same."""
    return float(rests.max() + rests.mean()) / 2
