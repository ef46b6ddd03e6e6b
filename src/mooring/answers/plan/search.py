"""Looks for the cheapest nodes on which everything fits: programs propose, trials by the core decide.

A program packs pods more tightly than a scheduler does, which spreads them. So what does not fit in a trial is given to the
program again, until everything fits or the offers are used up. Then nodes are taken away, or exchanged for cheaper ones, as
long as the core still places as much. The search is bounded by the number of decisions.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from mooring.answers.plan.demand import Demand
from mooring.answers.plan.programs import solve
from mooring.answers.plan.trials import Additions, TrialCluster
from mooring.model.pod import Pod

FILLS = (0.95, 0.9, 0.8)
"""How full a program may plan nodes, after a first attempt with full ones."""
NEAR_ENOUGH = 1.005
"""A plan this near to the lower bound is not improved further."""
MAX_DECISIONS = 60_000
"""At 0.2 ms for a decision on 5,000 nodes, a search takes some 12 s at most."""
MAX_REPAIRS = 20
"""How often what is left is given to the program again."""

Tell = Callable[[int, int], None]
"""Called with the decisions made so far, and the most that will be made."""


@dataclass(frozen=True, slots=True)
class FoundNodes:
    """How many nodes of each offer, and the pods that do not fit even so."""

    counts: Additions
    left: Sequence[Pod]
    cost: float

    def is_better_than(self, other: "FoundNodes | None") -> bool:
        """Fewer pods left, or else cheaper."""
        return other is None or (len(self.left), self.cost) < (len(other.left), other.cost)


class NodeSearch:
    """One search over the offers of a trial cluster."""

    def __init__(
        self,
        trials: TrialCluster,
        demand: Demand,
        pods: Sequence[Pod],
        bound: float,
        most_decisions: int = MAX_DECISIONS,
        tell: Tell | None = None,
    ) -> None:
        self._trials, self._demand, self._pods, self._bound = trials, demand, pods, bound
        self._plain = demand.plain()
        self._tried: dict[Additions, list[Pod]] = {}
        self._most_decisions = most_decisions
        self._tell = tell

    def run(self) -> FoundNodes:
        """The best nodes that were found."""
        best = self._attempt(1.0, self._demand.limits)
        for fill in FILLS:
            if not self._is_over(best):
                best = self._better(best, self._attempt(fill, self._demand.limits))
        for offer in self._by_cost(best.counts):
            if not self._is_over(best):
                without = _changed(tuple(self._demand.limits), {offer: -self._demand.limits[offer]})
                best = self._better(best, self._attempt(1.0, without))
        return best

    def more(self, found: FoundNodes, left: Sequence[Pod]) -> FoundNodes:
        """More nodes for pods that a simulation did not place, though a trial did."""
        known = {pod.id for pod in found.left}
        added = self._added(found.counts, [pod for pod in left if pod.id not in known], 1.0, self._demand.limits)
        return found if added is None else self._found(added, found.left)

    def _attempt(self, fill: float, limits: Sequence[int]) -> FoundNodes:
        """One way from a program's solution to nodes that hold as much as can be held."""
        return self._trimmed(self._repaired(fill, limits))

    def _better(self, best: FoundNodes, other: FoundNodes) -> FoundNodes:
        return other if other.is_better_than(best) else best

    def _is_over(self, best: FoundNodes) -> bool:
        is_near = not best.left and best.cost <= NEAR_ENOUGH * self._bound
        return is_near or self._is_exhausted()

    def _is_exhausted(self) -> bool:
        return self._trials.decisions >= self._most_decisions

    def _repaired(self, fill: float, limits: Sequence[int]) -> FoundNodes:
        """Begin with a program's solution, and add what is missing as long as that helps."""
        found = self._found(tuple(0 for _ in limits), self._pods)
        for _ in range(MAX_REPAIRS):
            added = self._added(found.counts, found.left, fill, limits)
            if added is None or (added not in self._tried and self._is_exhausted() and any(found.counts)):
                break
            more = self._found(added, self._left(added))
            if len(more.left) >= len(found.left):
                break
            found = more
            if not found.left:
                break
        return found

    def _added(self, counts: Additions, left: Sequence[Pod], fill: float, limits: Sequence[int]) -> Additions | None:
        """The counts and what a program adds for the pods that are left; None if it adds nothing."""
        rest = [max(limit - count, 0) for limit, count in zip(limits, counts, strict=True)]
        solution = solve(self._demand, self._demand.counts(left), rest, fill)
        if solution is None or not any(solution.nodes):
            return None
        return tuple(count + more for count, more in zip(counts, solution.nodes, strict=True))

    def _left(self, counts: Additions) -> list[Pod]:
        """The pods that do not fit, as a trial finds it."""
        found = self._tried.get(counts)
        if found is None:
            found = self._tried[counts] = self._trials.unplaced(counts, self._pods, self._plain)
            if self._tell is not None:
                self._tell(min(self._trials.decisions, self._most_decisions), self._most_decisions)
        return found

    def _found(self, counts: Additions, left: Sequence[Pod]) -> FoundNodes:
        cost = sum(count * price for count, price in zip(counts, self._demand.prices, strict=True))
        return FoundNodes(counts, left, cost)

    # ---- less

    def _trimmed(self, found: FoundNodes) -> FoundNodes:
        """Take nodes away and exchange them while no more pods are left than before."""
        is_improved = True
        while is_improved and not self._is_over(found):
            is_improved = False
            for counts in (*self._smaller(found.counts), *self._cheaper(found.counts)):
                if self._is_over(found):
                    break
                fewer = self._found(counts, self._left(counts))
                if fewer.is_better_than(found) and len(fewer.left) <= len(found.left):
                    found, is_improved = fewer, True
                    break
        return found

    def _smaller(self, counts: Additions) -> Iterator[Additions]:
        """Fewer nodes of one offer: half of them, a quarter, ..., one; the dearest offers first."""
        for offer in self._by_price(counts):
            step = counts[offer]
            while step:
                yield _changed(counts, {offer: -step})
                step //= 2

    def _cheaper(self, counts: Additions) -> Iterator[Additions]:
        """One node of a cheaper offer instead of one, or of two, that are dearer."""
        prices, limits = self._demand.prices, self._demand.limits
        for offer in self._by_price(counts):
            for other in sorted(range(len(prices)), key=lambda each: prices[each]):
                if counts[other] < limits[other] and other != offer:
                    if prices[other] < prices[offer]:
                        yield _changed(counts, {offer: -1, other: 1})
                    elif counts[offer] > 1 and prices[other] < 2 * prices[offer]:
                        yield _changed(counts, {offer: -2, other: 1})

    def _by_cost(self, counts: Additions) -> list[int]:
        """The offers in use, those that cost most in all first."""
        prices = self._demand.prices
        return sorted(
            (each for each, count in enumerate(counts) if count), key=lambda each: -counts[each] * prices[each]
        )

    def _by_price(self, counts: Additions) -> list[int]:
        used = [offer for offer, count in enumerate(counts) if count]
        return sorted(used, key=lambda offer: -self._demand.prices[offer])


def _changed(counts: Additions, changes: dict[int, int]) -> Additions:
    return tuple(count + changes.get(offer, 0) for offer, count in enumerate(counts))
