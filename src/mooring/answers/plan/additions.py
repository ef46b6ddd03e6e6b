"""Which nodes to add: from the pods that do not fit on the present nodes to nodes that the scheduler has judged."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from mooring.answers.capacity.filling import CopyPlacer
from mooring.answers.form.answer import Progress
from mooring.answers.form.published import Count, Form, Number, Positive
from mooring.answers.plan.demand import NodeDemand, PodKind, demand_of
from mooring.answers.plan.judge import Verdict, can_be_scheduled, judge, pending_in, with_daemons
from mooring.answers.plan.offers import NodeOffer
from mooring.answers.plan.patterns import PatternProgram
from mooring.answers.plan.programs import lower_bound
from mooring.answers.plan.search import (
    CHEAP_ENOUGH,
    MAX_DECISIONS,
    WORTH_STEPS,
    FoundNodes,
    NodeSearch,
    by_preference,
)
from mooring.answers.plan.steps import MANY_PODS, MORE_STYLES, STYLES, StepSearch
from mooring.answers.plan.trials import NodeTrials, OfferedNodes
from mooring.answers.trial.changing_cluster import ChangingCluster, objects_of, why_pending
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.model.pod import Pod

MAX_JUDGED = 6
"""How often the scheduler judges: after the first time, each time with more nodes for what it left pending."""
MAX_REPAIRED = 3
"""How many plans are judged, if the scheduler needs more nodes than the trials say."""
AT_ONCE_DECISIONS, AT_ONCE_TRIALS = 5_000, 3
"""How long nodes that come at once are searched for, if steps may be found too: decisions, or trials of all pods."""
LONGER_DECISIONS = 20_000
"""The number of decisions where such nodes are not dear: a plan without steps may be found that is about as cheap as one with
steps."""


class AddedNodesForm(Form, frozen=True):
    """Nodes of one offer that come together."""

    step: Positive
    """They come after the scheduler has placed what it can on those of the steps before."""
    offer: str
    count: Positive
    price: Number
    """The price of one node."""
    cost: Number
    """The price of all these nodes."""
    pods: Count
    """How many of the pending pods go to them."""
    nodes: Sequence[str]
    """The names that they have in the plan."""


@dataclass(frozen=True, slots=True)
class AddedNodes:
    """Nodes of one offer that come together."""

    offer: NodeOffer
    names: Sequence[str]
    pods: int
    step: int = 1

    @property
    def count(self) -> int:
        return len(self.names)

    @property
    def cost(self) -> float:
        return self.count * self.offer.price

    def published(self) -> AddedNodesForm:
        offer = self.offer
        return AddedNodesForm(self.step, offer.name, self.count, offer.price, self.cost, self.pods, self.names)


@dataclass(frozen=True, slots=True)
class PlannedAdditions:
    """The nodes of a plan, and what it does not place."""

    added: Sequence[AddedNodes]
    pending: dict[str, str]
    """The pods that stay pending, by key, and why."""
    bound: float
    """No nodes that place the same pods cost less."""
    at_first: int
    """How many pods were pending at first."""
    placed_now: int
    """How many of them fit on the present nodes."""
    pending_at_once: int
    """How many pods stay pending if all steps come at once."""
    loaded: LoadedCluster
    """The cluster with the new nodes, after the pods that fit have been placed."""


def nodes_to_add(
    loaded: LoadedCluster, offers: Sequence[NodeOffer], tell: Progress | None = None, at_once: bool = False
) -> PlannedAdditions:
    """The cheapest nodes that were found; with `at_once`, of those that come all at once. `loaded` has patient pods.

    Raises SolverMissing, ConfigError, InputError.
    """
    cluster = ChangingCluster(loaded)
    at_first = len(pending_in(cluster))
    cluster.settle()
    left, now = pending_in(cluster), objects_of(cluster)
    reasons = {pod.key: why_pending(cluster, pod.key) for pod in left}
    schedulable = [pod for pod in left if can_be_scheduled(cluster, pod)]
    if not offers or not schedulable:
        return PlannedAdditions((), reasons, 0.0, at_first, at_first - len(left), len(left), now)
    offered = with_daemons(cluster, offers)
    trials = NodeTrials(CopyPlacer(now), offered)
    demand = demand_of(trials, in_queue_order(trials, schedulable))
    hopeless = _hopeless(trials, demand, schedulable)
    planner = _NodePlanner(now, trials, demand, tell, at_once)
    judged = planner.run([pod for pod in schedulable if pod.key not in hopeless])
    pending = {key: hopeless.get(key, reason) for key, reason in judged.verdict.pending.items()}
    return PlannedAdditions(
        planner.added(judged),
        pending,
        judged.bound,
        at_first,
        at_first - len(left),
        judged.pending_at_once,
        judged.verdict.loaded,
    )


def in_queue_order(trials: NodeTrials, pods: Sequence[Pod]) -> list[Pod]:
    """The pods in the order in which the queue gives them, if all came at once in the order given."""

    def place(numbered: tuple[int, Pod]) -> Any:
        number, pod = numbered
        runner = trials.runner(pod)
        assert runner is not None, "pods without a profile are not asked about"
        return runner.profile.queue_sorts[0].sort_key(pod, number)

    return [pod for _, pod in sorted(enumerate(pods), key=place)]


def _hopeless(trials: NodeTrials, demand: NodeDemand, pods: Sequence[Pod]) -> dict[str, str]:
    """Pods that no offer can take, and those of gangs that they keep from being complete: by key, and why."""
    alone = {
        pod.key: _why_none(kind)
        for kind in demand.kinds
        for pod in kind.pods
        if not kind.takers and not (kind.room and trials.gangs.gang_of(pod) is not None)
    }
    return alone | trials.gangs.unfit(pods, alone)


def _why_none(kind: PodKind) -> str:
    """Why no offer can take pods of a kind."""
    reasons = (
        f"{number} of them: {reason}" if len(kind.refusals) > 1 else reason
        for reason, number in kind.refusals.most_common()
    )
    return f"no offer can take it: {'; '.join(reasons)}"


@dataclass(frozen=True, slots=True)
class _Judged:
    """Nodes that were found, with the verdict of the scheduler."""

    found: FoundNodes
    verdict: Verdict
    bound: float = 0.0
    pending_at_once: int = 0
    """How many pods stay pending if all nodes come at once."""


def _preferred(judged: Sequence[_Judged], bound: float) -> _Judged:
    best = by_preference([each.found for each in judged], bound)[0]
    return next(each for each in judged if each.found is best)


def _is_within(found: FoundNodes, cost: float) -> bool:
    return not found.left and found.cost <= cost


def _without_one(found: FoundNodes) -> FoundNodes:
    """One step is no step."""
    return found if len(found.steps) > 1 else replace(found, steps=())


class _NodePlanner:
    """Searches, judges, and adds nodes where the judge still finds pods pending."""

    def __init__(
        self, now: LoadedCluster, trials: NodeTrials, demand: NodeDemand, tell: Progress | None, at_once: bool
    ) -> None:
        self._now, self._trials, self._demand, self._tell = now, trials, demand, tell
        self._at_once = at_once

    def run(self, pods: Sequence[Pod]) -> _Judged:
        ordered = in_queue_order(self._trials, pods)
        patterns = PatternProgram(self._demand, self._demand.counts(ordered))
        patterns.generate()
        self._demand = replace(self._demand, cuts=patterns.cuts)
        bound = self._bound(ordered)
        judged = self._checked_at_once(self._best(ordered, patterns, bound))
        left = {pod.key for pod in judged.verdict.left(ordered)}
        placed = [pod for pod in ordered if pod.key not in left]
        return replace(judged, bound=bound if not left else self._bound(placed))

    def _checked_at_once(self, judged: _Judged) -> _Judged:
        """Judge the nodes of all steps as if they came at once. If everything fits even so, no steps are needed."""
        pending = len(judged.verdict.pending)
        if not judged.found.steps:
            return replace(judged, pending_at_once=pending)
        together = self._judge(replace(judged.found, steps=()))
        pending_at_once = len(together.verdict.pending)
        return replace(together if pending_at_once <= pending else judged, pending_at_once=pending_at_once)

    def _best(self, pods: Sequence[Pod], patterns: PatternProgram, bound: float) -> _Judged:
        """The cheapest nodes, unless others that cost little more come in fewer steps, or at once."""
        most = MAX_DECISIONS if self._at_once else max(AT_ONCE_DECISIONS, AT_ONCE_TRIALS * len(pods))
        search = NodeSearch(self._trials, self._demand, pods, bound, most, self._tell)
        at_once = search.run()
        if not self._at_once and len(pods) <= MANY_PODS and _is_within(at_once, CHEAP_ENOUGH * bound):
            is_good = _is_within(at_once, WORTH_STEPS * bound)
            at_once = at_once if is_good else search.run_longer(LONGER_DECISIONS)
        if self._at_once or _is_within(at_once, WORTH_STEPS * bound):
            return self._judged(search, at_once, pods)
        judged: list[_Judged] = []
        for styles in (STYLES, MORE_STYLES):
            found = StepSearch(self._trials, self._demand, pods, bound, patterns, self._tell, styles).run()
            judged += self._judged_in_turn(search, [at_once, *map(_without_one, found)], pods, bound)
            best = _preferred(judged, bound)
            if best.found.cost <= CHEAP_ENOUGH * bound:
                break
        if len(best.found.left) > len(at_once.left):
            best = _preferred([*judged, self._judged(search, at_once, pods)], bound)
        return best

    def _judged_in_turn(
        self, search: NodeSearch, found: Sequence[FoundNodes], pods: Sequence[Pod], bound: float
    ) -> list[_Judged]:
        """The best of these nodes, and the next best ones as long as the scheduler needs more nodes than a trial."""
        judged: list[_Judged] = []
        for each in by_preference(found, bound)[:MAX_REPAIRED]:
            judged.append(self._judged(search, each, pods))
            if judged[-1].found.counts == each.counts:
                break
        return judged

    def _judged(self, search: NodeSearch, found: FoundNodes, pods: Sequence[Pod]) -> _Judged:
        """The nodes with which the scheduler leaves the fewest pods pending, and what it says. More nodes are added where it
        leaves pods that fit in a trial."""
        best = now = self._judge(found)
        for number in range(MAX_JUDGED - 1):
            if not now.verdict.left(pods):
                break
            if now.found.steps:
                more = self._with_more_steps(now, pods)
            else:
                more = search.more(now.found, now.verdict.left(pods), 2**number)
            if more.counts == now.found.counts:
                break
            now = self._judge(more)
            if len(now.verdict.pending) < len(best.verdict.pending):
                best = now
        return replace(best, found=replace(best.found, left=best.verdict.left(pods)))

    def _with_more_steps(self, judged: _Judged, pods: Sequence[Pod]) -> FoundNodes:
        """The steps, and more for pods that the scheduler left: searched for in the cluster as it was left."""
        found, loaded = judged.found, judged.verdict.loaded
        left = {pod.key for pod in judged.verdict.left(pods)}
        offers = [OfferedNodes(each.offer, each.daemons) for each in self._trials.offers]
        trials = NodeTrials(CopyPlacer(loaded), offers)
        waiting = [item for item in loaded.objects if isinstance(item, Pod) and item.key in left]
        demand = demand_of(trials, in_queue_order(trials, waiting))
        limits = [limit - count for limit, count in zip(self._demand.limits, found.counts, strict=True)]
        demand = replace(demand, limits=limits)
        patterns = PatternProgram(demand, demand.counts())
        patterns.generate()
        more = StepSearch(trials, demand, in_queue_order(trials, waiting), 0.0, patterns).run()[0]
        counts = tuple(before + after for before, after in zip(found.counts, more.counts, strict=True))
        return FoundNodes(counts, found.left, found.cost + more.cost, (*found.steps, *more.steps))

    def _bound(self, pods: Sequence[Pod]) -> float:
        return lower_bound(self._demand, self._demand.counts(pods), self._demand.limits)

    def _judge(self, found: FoundNodes) -> _Judged:
        return _Judged(found, judge(self._now, self.named(found)))

    def named(self, found: FoundNodes) -> list[list[tuple[OfferedNodes, list[str]]]]:
        """The new nodes by step and offer."""
        offers = zip(self._trials.offers, found.counts, strict=True)
        names = [iter(self._trials.names(offered.offer, count)) for offered, count in offers]
        return [
            [
                (offered, [*islice(names[at], number)])
                for at, (offered, number) in enumerate(zip(self._trials.offers, step, strict=True))
            ]
            for step in found.steps or (found.counts,)
        ]

    def added(self, judged: _Judged) -> list[AddedNodes]:
        found = []
        for step, named in enumerate(self.named(judged.found), 1):
            for offered, names in named:
                pods = sum(judged.verdict.pods_on.get(name, 0) for name in names)
                found += [AddedNodes(offered.offer, names, pods, step)] if names else []
        return found
