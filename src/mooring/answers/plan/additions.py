"""Which nodes to add: from the pods that do not fit on the present nodes to nodes that the scheduler has judged."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mooring.answers.capacity.one_by_one import CopyPlacer
from mooring.answers.loaded_cluster import LoadedCluster
from mooring.answers.plan.demand import NodeDemand, PodKind, demand_of
from mooring.answers.plan.judge import Verdict, can_be_scheduled, judge, objects_of, pending_in, with_daemons
from mooring.answers.plan.offers import NodeOffer
from mooring.answers.plan.programs import lower_bound
from mooring.answers.plan.search import FoundNodes, NodeSearch, Tell
from mooring.answers.plan.trials import Additions, OfferedNodes, TrialCluster
from mooring.answers.what_if.changing_cluster import ChangingCluster
from mooring.answers.what_if.moments import why_pending
from mooring.model.pod import Pod

MAX_JUDGED = 6
"""How often the scheduler judges: after the first time, each time with more nodes for what it left pending."""


@dataclass(frozen=True, slots=True)
class AddedNodes:
    """Nodes of one offer."""

    offer: NodeOffer
    names: Sequence[str]
    pods: int
    """How many of the pending pods go to them."""

    @property
    def cost(self) -> float:
        return len(self.names) * self.offer.price


@dataclass(frozen=True, slots=True)
class PlannedAdditions:
    """The nodes of a plan, and what it does not place."""

    added: Sequence[AddedNodes]
    pending: dict[str, str]
    """The pods that stay pending, by key, and why."""
    bound: float
    """No nodes that place the same pods cost less."""
    at_first: int
    """How many pods were pending at first ..."""
    placed_now: int
    """... and how many of them fit on the present nodes."""
    loaded: LoadedCluster
    """The cluster with the new nodes, after the pods that fit have been placed."""


def nodes_to_add(loaded: LoadedCluster, offers: Sequence[NodeOffer], tell: Tell | None = None) -> PlannedAdditions:
    """The cheapest nodes that were found. `loaded` has patient pods. Raises SolverMissing, ConfigError, InputError."""
    cluster = ChangingCluster(loaded)
    at_first = len(pending_in(cluster))
    cluster.settle()
    left, now = pending_in(cluster), objects_of(cluster)
    reasons = {pod.key: why_pending(cluster, pod.key) for pod in left}
    schedulable = [pod for pod in left if can_be_scheduled(cluster, pod)]
    if not offers or not schedulable:
        return PlannedAdditions((), reasons, 0.0, at_first, at_first - len(left), now)
    offered = with_daemons(cluster, offers)
    trials = TrialCluster(CopyPlacer(now), offered)
    demand = demand_of(trials, in_queue_order(trials, schedulable))
    hopeless = {pod.key: _why_none(kind) for kind in demand.kinds if not kind.takers for pod in kind.pods}
    planned = _NodePlanner(now, trials, demand, tell).run([pod for pod in schedulable if pod.key not in hopeless])
    pending = {key: hopeless.get(key, reason) for key, reason in planned.verdict.pending.items()}
    return PlannedAdditions(
        planned.added, pending, planned.bound, at_first, at_first - len(left), planned.verdict.loaded
    )


def in_queue_order(trials: TrialCluster, pods: Sequence[Pod]) -> list[Pod]:
    """The pods in the order in which the queue gives them, if all came at once in the order given."""

    def place(numbered: tuple[int, Pod]) -> Any:
        number, pod = numbered
        runner = trials.runner(pod)
        return runner.profile.queue_sorts[0].sort_key(pod, number) if runner is not None else (0, number)

    return [pod for _, pod in sorted(enumerate(pods), key=place)]


def _why_none(kind: PodKind) -> str:
    """Why no offer can take pods of a kind."""
    reasons = (
        f"{number} of them: {reason}" if len(kind.refusals) > 1 else reason
        for reason, number in kind.refusals.most_common()
    )
    return f"no offer can take it: {'; '.join(reasons)}"


@dataclass(frozen=True, slots=True)
class _Judged:
    """What the scheduler says about the nodes that were found."""

    added: Sequence[AddedNodes]
    verdict: Verdict
    bound: float


class _NodePlanner:
    """Searches, judges, and adds nodes where the judge still finds pods pending."""

    def __init__(self, now: LoadedCluster, trials: TrialCluster, demand: NodeDemand, tell: Tell | None) -> None:
        self._now, self._trials, self._demand, self._tell = now, trials, demand, tell

    def run(self, pods: Sequence[Pod]) -> _Judged:
        ordered = in_queue_order(self._trials, pods)
        bound = self._bound(ordered)
        search = NodeSearch(self._trials, self._demand, ordered, bound, tell=self._tell)
        found, verdict = self._judged(search, search.run(), ordered)
        left = {pod.key for pod in verdict.left(ordered)}
        placed = [pod for pod in ordered if pod.key not in left]
        return _Judged(self._added(found, verdict), verdict, bound if not left else self._bound(placed))

    def _judged(self, search: NodeSearch, found: FoundNodes, pods: Sequence[Pod]) -> tuple[FoundNodes, Verdict]:
        """The nodes with which the scheduler leaves the fewest pods pending, and what it says. More nodes are added where it
        leaves pods that fit in a trial."""
        now, said = found, self._judge(found.counts)
        best, verdict = now, said
        for number in range(MAX_JUDGED - 1):
            more = search.more(now, said.left(pods), 2**number)
            if more.counts == now.counts:
                break
            now, said = more, self._judge(more.counts)
            if len(said.pending) < len(verdict.pending):
                best, verdict = now, said
        return best, verdict

    def _bound(self, pods: Sequence[Pod]) -> float:
        return lower_bound(self._demand, self._demand.counts(pods), self._demand.limits)

    def _judge(self, counts: Additions) -> Verdict:
        return judge(self._now, self._named(counts))

    def _named(self, counts: Additions) -> list[tuple[OfferedNodes, list[str]]]:
        return [
            (offered, self._trials.names(offered.offer, count))
            for offered, count in zip(self._trials.offers, counts, strict=True)
        ]

    def _added(self, found: FoundNodes, verdict: Verdict) -> list[AddedNodes]:
        named = self._named(found.counts)
        return [
            AddedNodes(offered.offer, names, sum(verdict.pods_on.get(name, 0) for name in names))
            for offered, names in named
            if names
        ]
