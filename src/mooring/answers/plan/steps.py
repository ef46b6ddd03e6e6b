"""Looks for nodes that come in steps: the scheduler places what it can on those of one step before the next ones come.

A scheduler that spreads pods uses nodes badly if all come at once: small pods stand on every node, and large ones find none
with enough room. Nodes that come while more pods wait than they can hold become full. What is left then decides about the
next step: the program of patterns proposes nodes for it, a trial by the core finds what goes there, and the program says
what the rest costs. A step that makes nodes and rest together dearer than before has wasted room; the search takes the step
that wastes least. It is bounded by decisions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import ceil

from mooring.answers.plan.demand import NodeDemand
from mooring.answers.plan.patterns import PatternProgram, PatternSolution
from mooring.answers.plan.search import FoundNodes, StepTidier, StepWalk, found_steps
from mooring.answers.plan.trials import Additions, NodeTrialOutcome, NodeTrials
from mooring.kit.callbacks import Progress
from mooring.model.pod import Pod

MAX_DECISIONS, TIDY_DECISIONS = 40_000, 20_000
"""For finding steps, and for making them fewer. A decision takes 0.3 ms on 5,000 nodes."""
NEAR_ENOUGH = 1.05
"""Steps this near to the lower bound are not searched for again."""
GOOD_DECISIONS, GOOD = 12_000, 1.08
"""After so many decisions, steps that are this near are not searched for again either."""
MANY_PODS = 1000
"""With more pods than these, the search makes no more than GOOD_DECISIONS, and ends with the first good steps: each trial
takes long."""
FEW_NODES = 6
"""With so few nodes to go, the program's nodes are tried rounded up."""
LAST_NODES = 3
"""With so few nodes to go, every offer is tried."""
TRIED_OFFERS = 5
"""How many offers are tried alone, those first on which the program spends most."""
_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True)
class StepStyle:
    """How one search goes about it."""

    waste: float
    """A step that wastes at most this share of its price is taken at once; otherwise the best that was tried."""
    shares: Sequence[float]
    """How much of what the program proposes a step may have, the largest share first."""


COARSE = 3
"""The first styles make few steps, and are fast: all of them are tried, unless there are many pods."""
STYLES = (
    StepStyle(0.1, (0.7, 0.4)),
    StepStyle(0.1, (0.9, 0.7, 0.5)),
    StepStyle(0.05, (0.8, 0.6)),
    StepStyle(0.02, (0.7, 0.4)),
    StepStyle(0.005, (0.5, 0.25)),
    StepStyle(0.01, (0.3, 0.15)),
    StepStyle(0.0, (0.2,)),
    StepStyle(0.03, (0.9,)),
)
MORE_STYLES = (
    StepStyle(0.15, (0.5,)),
    StepStyle(0.2, (0.9, 0.7, 0.5)),
    StepStyle(0.02, (0.6, 0.3)),
    StepStyle(0.04, (0.5,)),
)
"""For a second search, where the first one has found nothing cheap."""


@dataclass(slots=True)
class _StepState:
    """A search after some steps, which were made in the trial cluster."""

    walk: StepWalk
    rest: PatternSolution
    """The program's solution for the pods that are left."""
    domains: dict[str, str] = field(default_factory=dict)
    """By id of the pod that is spread: its domain."""
    most: int = 1 << 30
    """How many nodes the next step may have: twice as many as the last one; larger ones have wasted room."""
    steps: list[Additions] = field(default_factory=list)


class StepSearch:
    """One search over the offers of a trial cluster."""

    def __init__(
        self,
        trials: NodeTrials,
        demand: NodeDemand,
        pods: Sequence[Pod],
        bound: float,
        patterns: PatternProgram,
        tell: Progress | None = None,
        styles: Sequence[StepStyle] = STYLES,
    ) -> None:
        self._trials, self._demand, self._pods, self._bound = trials, demand, pods, bound
        self._patterns, self._tell, self._styles = patterns, tell, styles
        self._begun = trials.decisions
        few = len(pods) <= MANY_PODS
        self._last = trials.decisions + (MAX_DECISIONS if few else GOOD_DECISIONS)
        self._least_styles = COARSE if few else 1

    def run(self) -> list[FoundNodes]:
        """The best steps that were found: about as cheap, the fewest steps first."""
        built: list[FoundNodes] = []
        for style in self._styles:
            if built and (self._is_exhausted() or (len(built) >= self._least_styles and self._is_near(built))):
                break
            built.append(self._built(style))
        different = {each.steps: each for each in built}
        tidier = StepTidier(self._trials, self._demand, self._pods, TIDY_DECISIONS)
        return tidier.tidied([*different.values()], self._bound)

    def _is_near(self, built: Sequence[FoundNodes]) -> bool:
        found = min(built, key=FoundNodes.rank)
        has_tried = self._trials.decisions - self._begun >= GOOD_DECISIONS
        return not found.left and found.cost <= (GOOD if has_tried else NEAR_ENOUGH) * self._bound

    def _is_exhausted(self) -> bool:
        if self._tell is not None:
            self._tell(min(self._trials.decisions, self._last), self._last)
        return self._trials.decisions >= self._last

    # ---- building

    def _built(self, style: StepStyle) -> FoundNodes:
        """Steps until nothing is left, or until no step helps."""
        walk = StepWalk(self._trials, self._demand, self._pods)
        now = _StepState(walk, self._rest(walk, {}))
        try:
            while walk.left and self._step(now, style):
                pass
            return found_steps(self._demand, now.steps, walk.left)
        finally:
            walk.undo(0)

    def _step(self, now: _StepState, style: StepStyle) -> bool:
        """Make the step that wastes least, or the first that wastes little. Returns whether one places anything."""
        best: tuple[float, Additions] | None = None
        for step in dict.fromkeys(step for step in self._proposed(now, style) if any(step)):
            outcome, rest = self._made(now, step)
            price = self._demand.cost_of(step)
            waste = (price + rest.cost - now.rest.cost) / price
            if outcome.placed and waste <= style.waste:
                _keep(now, step, outcome, rest)
                return True
            if outcome.placed and (best is None or waste < best[0] - _ROUNDING):
                best = waste, step
            now.walk.undo(len(now.steps))
            if best is not None and self._is_exhausted():
                break
        if best is not None:
            _keep(now, best[1], *self._made(now, best[1]))
        return best is not None

    def _made(self, now: _StepState, step: Additions) -> tuple[NodeTrialOutcome, PatternSolution]:
        """Make a step. Returns what it places, and what the rest costs then."""
        outcome = now.walk.make(step)
        return outcome, self._rest(now.walk, {**now.domains, **outcome.domains})

    def _rest(self, walk: StepWalk, domains: dict[str, str]) -> PatternSolution:
        if not walk.left:
            return PatternSolution(0.0, [0.0] * len(self._demand.limits))
        limits = [limit - count for limit, count in zip(self._demand.limits, walk.counts, strict=True)]
        demand = self._demand.after(domains)
        return self._patterns.cheapest(demand.counts(walk.left), limits, demand)

    def _proposed(self, now: _StepState, style: StepStyle) -> Iterator[Additions]:
        """Steps to try: a part of all that the program proposes, and then a part of one offer."""
        nodes = now.rest.nodes
        if 0 < sum(nodes) <= FEW_NODES:
            yield self._limited(now, [ceil(each - _ROUNDING) for each in nodes])
        for share in style.shares:
            step = tuple(int(share * each + _ROUNDING) for each in nodes)
            if 1 < sum(step) <= now.most:
                yield step
        by_cost = sorted(range(len(nodes)), key=lambda offer: -nodes[offer] * self._demand.prices[offer])
        for offer in [each for each in by_cost if nodes[each] > _ROUNDING][:TRIED_OFFERS]:
            for number in (*(int(share * nodes[offer] + _ROUNDING) for share in style.shares), 1):
                if number:
                    fewer = min(number, now.most)
                    yield self._limited(now, [fewer if each == offer else 0 for each in range(len(nodes))])
        if sum(nodes) <= LAST_NODES:
            for offer in range(len(nodes)):
                yield self._limited(now, [int(each == offer) for each in range(len(nodes))])

    def _limited(self, now: _StepState, step: Sequence[int]) -> Additions:
        """The step as far as limits of offers allow it."""
        limits = zip(step, self._demand.limits, now.walk.counts, strict=True)
        return tuple(min(number, limit - count) for number, limit, count in limits)


def _keep(now: _StepState, step: Additions, outcome: NodeTrialOutcome, rest: PatternSolution) -> None:
    """Note that a step which was made stays."""
    now.rest = rest
    now.domains.update(outcome.domains)
    now.steps.append(step)
    now.most = 2 * sum(step)
