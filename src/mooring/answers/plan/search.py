"""Looks for the cheapest nodes on which everything fits: programs propose, trials by the core decide.

A program packs pods more tightly than a scheduler does, which spreads them. So what does not fit in a trial is given to the
program again, until everything fits or the offers are used up. Then nodes are taken away, or exchanged for cheaper ones, as
long as the core still places as much. The search is bounded by the number of decisions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

from mooring.answers.plan.demand import NodeDemand
from mooring.answers.plan.programs import Packing, solve
from mooring.answers.plan.trials import Additions, NodeTrialOutcome, NodeTrials
from mooring.kit.callbacks import Progress
from mooring.model.pod import Pod

IMPROVED = 3
"""How many of the beginnings are improved."""
TIGHT = Packing()
LOOSER = (Packing(slack=0.5), Packing(slack=1.0), Packing(fill=0.95), Packing(fill=0.9), Packing(fill=0.9, slack=0.5))
"""How tightly a program may pack nodes, after a first attempt with full ones."""
NEAR_ENOUGH = 1.005
"""A plan this near to the lower bound is not improved further."""
MAX_DECISIONS = 40_000
"""At 0.2 ms for a decision on 5,000 nodes, a search takes some 8 s at most."""
EXCHANGES = ((1, 1), (2, 1), (1, 2), (1, 3))
"""How many nodes of an offer are exchanged for how many of another one."""
FEW_LEFT = 0.05
"""The share of the pods for which nodes are added after an exchange that leaves them."""
MAX_REPAIRS = 20
"""How often what is left is given to the program again."""
MAX_TIMES = 8
"""How many times what a program says is added, before the search gives up."""


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


class NodeSearch:
    """One search over the offers of a trial cluster."""

    def __init__(
        self,
        trials: NodeTrials,
        demand: NodeDemand,
        pods: Sequence[Pod],
        bound: float,
        most_decisions: int = MAX_DECISIONS,
        tell: Progress | None = None,
    ) -> None:
        self._trials, self._demand, self._pods, self._bound = trials, demand, pods, bound
        self._plain = demand.plain()
        self._spread = demand.spread_keys()
        self._tried: dict[Additions, NodeTrialOutcome] = {}
        self._most_decisions = most_decisions
        self._tell = tell

    def run(self) -> FoundNodes:
        """The best nodes that were found: several beginnings, of which the best are improved."""
        limits = self._demand.limits
        first = self._repaired(TIGHT, limits)
        begun = [first]
        for packing in LOOSER:
            if not self._is_over(min(begun, key=FoundNodes.rank)):
                begun.append(self._repaired(packing, limits))
        for offer in self._by_cost(first.counts):
            if not self._is_over(min(begun, key=FoundNodes.rank)):
                begun.append(self._repaired(TIGHT, _changed(tuple(limits), {offer: -limits[offer]})))
        best = min(begun, key=FoundNodes.rank)
        for found in sorted(begun, key=FoundNodes.rank)[:IMPROVED]:
            best = min(best, self._trimmed(found), key=FoundNodes.rank)
        return best

    def more(self, found: FoundNodes, left: Sequence[Pod], times: int) -> FoundNodes:
        """More nodes for pods that a simulation did not place, though a trial did."""
        known = {pod.id for pod in found.left}
        unexpected = [pod for pod in left if pod.id not in known]
        added = self._added(found.counts, unexpected, TIGHT, self._demand.limits, times)
        return found if added is None else self._found(added, found.left)

    def _is_over(self, best: FoundNodes) -> bool:
        is_near = not best.left and best.cost <= NEAR_ENOUGH * self._bound
        return is_near or self._is_exhausted()

    def _is_exhausted(self) -> bool:
        return self._trials.decisions >= self._most_decisions

    def _repaired(self, packing: Packing, limits: Sequence[int]) -> FoundNodes:
        """Begin with a program's solution, and add what is missing.

        Nodes that are added for the last pods may be taken by others, because a scheduler spreads pods. Then the same is
        added twice, then four times, until that does not help either.
        """
        best = now = self._found(tuple(0 for _ in limits), self._pods)
        times = 1
        for _ in range(MAX_REPAIRS):
            added = self._added(now.counts, now.left, packing, limits, times)
            if added is None or (self._is_exhausted() and any(best.counts)):
                break
            now = self._found(added, self._left(added))
            times = 1 if len(now.left) < len(best.left) else 2 * times
            best = min(best, now, key=FoundNodes.rank)
            if not now.left or times > MAX_TIMES:
                break
        return best

    def _added(
        self, counts: Additions, left: Sequence[Pod], packing: Packing, limits: Sequence[int], times: int
    ) -> Additions | None:
        """The counts and so many times what a program adds for the pods that are left; None if it adds nothing."""
        rest = [max(limit - count, 0) for limit, count in zip(limits, counts, strict=True)]
        tried = self._tried.get(counts)
        demand = self._demand if tried is None else self._demand.after(tried.domains)
        solution = solve(demand, demand.counts(left), rest, packing)
        if solution is None or not any(solution.nodes):
            return None
        return tuple(
            count + min(times * more, most) for count, more, most in zip(counts, solution.nodes, rest, strict=True)
        )

    def _left(self, counts: Additions) -> Sequence[Pod]:
        """The pods that do not fit, as a trial finds it."""
        found = self._tried.get(counts)
        if found is None:
            found = self._tried[counts] = self._trials.place(counts, self._pods, self._plain, self._spread)
            if self._tell is not None:
                self._tell(min(self._trials.decisions, self._most_decisions), self._most_decisions)
        return found.left

    def _found(self, counts: Additions, left: Sequence[Pod]) -> FoundNodes:
        return FoundNodes(counts, left, self._demand.cost_of(counts))

    # ---- less

    def _trimmed(self, found: FoundNodes) -> FoundNodes:
        """Take nodes away and exchange them while no more pods are left than before."""
        is_improved = True
        while is_improved and not self._is_over(found):
            is_improved = False
            for counts in self._promising(found):
                fewer = self._completed(self._found(counts, self._left(counts)), found)
                if fewer.rank() < found.rank():
                    found, is_improved = fewer, True
                    break
                if self._is_exhausted():
                    break
        return found

    def _completed(self, fewer: FoundNodes, found: FoundNodes) -> FoundNodes:
        """The nodes with others for the few pods that do not fit on them, if that is still cheaper than what was found."""
        more = len(fewer.left) - len(found.left)
        if not 0 < more <= len(self._pods) * FEW_LEFT:
            return fewer
        added = self._added(fewer.counts, fewer.left, TIGHT, self._demand.limits, 1)
        if added is None or self._found(added, ()).cost >= found.cost - 1e-9:
            return fewer
        return self._found(added, self._left(added))

    def _promising(self, found: FoundNodes) -> list[Additions]:
        """Cheaper nodes, those first that give up the least room for what they save. Nodes below the bound are left out: not
        everything can fit on them."""
        least = 0.0 if found.left else self._bound * (1 - 1e-9)
        ranked = []
        for counts in {*self._smaller(found.counts), *self._exchanged(found.counts)}:
            cost = self._found(counts, ()).cost
            if least <= cost < found.cost - 1e-9 and counts not in self._tried:
                ranked.append((given_up(self._demand, found.counts, counts) / (found.cost - cost), counts))
        return [counts for _, counts in sorted(ranked)]

    def _smaller(self, counts: Additions) -> Iterator[Additions]:
        """Fewer nodes of one offer: half of them, a quarter, ..., one."""
        for offer, count in enumerate(counts):
            step = count
            while step:
                yield _changed(counts, {offer: -step})
                step //= 2

    def _exchanged(self, counts: Additions) -> Iterator[Additions]:
        """A few nodes of another offer instead of one or two."""
        used = [offer for offer, count in enumerate(counts) if count]
        for offer, other, (taken, given) in product(used, range(len(counts)), EXCHANGES):
            if other != offer and counts[offer] >= taken and counts[other] + given <= self._demand.limits[other]:
                yield _changed(counts, {offer: -taken, other: given})

    def _by_cost(self, counts: Additions) -> list[int]:
        """The offers in use, those that cost most in all first."""
        prices = self._demand.prices
        return sorted(
            (each for each, count in enumerate(counts) if count), key=lambda each: -counts[each] * prices[each]
        )


def given_up(demand: NodeDemand, before: Additions, after: Additions) -> float:
    """The largest share of a resource that the nodes have less; negative if they have more of all."""
    shares = []
    for resource in demand.offers[0]:
        had = sum(count * free[resource] for count, free in zip(before, demand.offers, strict=True))
        has = sum(count * free[resource] for count, free in zip(after, demand.offers, strict=True))
        if had > 0:
            shares.append((had - has) / had)
    return max(shares, default=0.0)


def _changed(counts: Additions, changes: dict[int, int]) -> Additions:
    return tuple(count + changes.get(offer, 0) for offer, count in enumerate(counts))


# ---- Makes fewer steps, and fewer nodes, of steps that were found.
#
# A search takes small steps, because a small one shows at once what it wastes. Many of them can be one step
# afterwards. For a user each step is a time to wait for, so they are joined wherever trials still place as many pods.
# Bounded by decisions.


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

    def __init__(self, trials: NodeTrials, demand: NodeDemand, pods: Sequence[Pod]) -> None:
        self._trials, self._pods = trials, pods
        self._plain, self._spread = demand.plain(), demand.spread_keys()
        self._none: Additions = tuple(0 for _ in demand.limits)
        self._made: list[tuple[Additions, NodeTrialOutcome]] = []
        """The nodes after each step, and what it placed."""

    @property
    def left(self) -> Sequence[Pod]:
        return self._made[-1][1].left if self._made else self._pods

    @property
    def counts(self) -> Additions:
        """The nodes after the last step."""
        return self._made[-1][0] if self._made else self._none

    def make(self, step: Additions) -> NodeTrialOutcome:
        counts = sum_of(self.counts, step)
        self._trials.add(counts)
        outcome = self._trials.attempt(self.left, self._plain, self._spread)
        self._made.append((counts, outcome))
        return outcome

    def left_after(self, steps: Sequence[Additions]) -> Sequence[Pod]:
        """The pods that are left after more steps, which are taken back."""
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
        self._trials.add(self.counts)

    def __len__(self) -> int:
        return len(self._made)


class StepTidier:
    """Tidies steps of one search."""

    def __init__(self, trials: NodeTrials, demand: NodeDemand, pods: Sequence[Pod], most_decisions: int) -> None:
        self._trials, self._demand, self._pods = trials, demand, pods
        self._last = trials.decisions + most_decisions

    def tidied(self, found: Sequence[FoundNodes], bound: float) -> list[FoundNodes]:
        """The steps that are worth it, the best first, with fewer nodes and in fewer steps."""
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
        """The ids of the pods that are left after each of the steps, as it was last tried."""

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
