"""DefaultPreemption: makes room for a pod that fits nowhere by evicting pods of lower priority.

The order is upstream's: is the pod eligible, a dry run on the nodes where eviction can help (search.py), extenders may
drop candidates, and the least harmful candidate wins. The answer is a nomination and its victims; scheduler/evict.py
evicts them.
"""

from collections import Counter
from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar
from weakref import ref

import numpy as np

from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.ranks import PodRanks
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.attempts.fit_errors import (
    UNSCHEDULABLE_GROUP,
    GroupFitError,
    GroupSearch,
    GroupVictims,
    MovedPods,
    PodGroupPostFilterPlugin,
    RejectedAttempt,
)
from mooring.framework.attempts.refiltering import RowArray
from mooring.framework.config.args import DefaultPreemptionArgs
from mooring.framework.contract.events import POD, Action, ClusterEvent, Registration
from mooring.framework.contract.intents import CallFault
from mooring.framework.contract.points import (
    Candidates,
    FitError,
    Handle,
    Nomination,
    NoRoom,
    PreEnqueuePlugin,
    Victims,
)
from mooring.framework.contract.status import PluginError, Rejection, curable, final
from mooring.framework.kept.asking import AttemptError
from mooring.framework.profile.metric_catalogue import PREEMPTION_ATTEMPTS
from mooring.kit.choice import choose
from mooring.model.pod import Pod
from mooring.model.shape import PodShape
from mooring.plugins.preemption.group_slots import GainsByShape, Slots, come_back, first_to_leave, slots_for, victims_on
from mooring.plugins.preemption.kept_dry_run import KeptDryRun
from mooring.plugins.preemption.kept_harm import KeptHarm
from mooring.plugins.preemption.least_harm import LeastHarm, is_small, sums_decide
from mooring.plugins.preemption.victim_order import GroupVictim, VictimOrder, split_by_budgets
from mooring.plugins.preemption.victim_search import Budget, Findings, KeptBudgets, NodeDryRun, PreemptionDryRun

# ---- Which pods have to leave so that a pod group fits: upstream's search over the whole cluster.
#
# All victims of lower priority leave. If the group fits then, they come back, the most important first, as long as it
# still fits; those that break a disruption budget come back before the others. Each question is a trial of the whole
# group, unless sums decide (group_slots.py).


NO_VICTIMS = final("No preemption victims found for incoming preemptor")
NEVER = curable("not eligible due to preemptionPolicy=Never.")
NOT_ENOUGH_ROOM = curable(UNSCHEDULABLE_GROUP)
"""Upstream's words, here and above."""
ONE_BY_ONE = 64
"""Up to so many victims are tried one after another. More of them come back in batches, each twice as large as the last
one that fitted: a trial takes about a millisecond, and a cluster may have 100,000 victims. Where pods only take room, the
outcome is the same. It may differ where members need a victim (affinity): upstream may then evict more."""


def search_victims(failure: GroupFitError, gains: GainsByShape, budgets: Sequence[Budget]) -> GroupSearch:
    """The victims for a group."""
    if any(pod.spec.preemption_policy == "Never" for pod in failure.members):
        return NEVER
    order, priority = gains.order, failure.group.priority
    order.refresh()
    if not order.has_below(priority):
        return NO_VICTIMS
    slots = slots_for(failure)
    enough = failure.enough or 0
    if slots is None or slots.total >= enough:  # by sums it fits now: then sums do not decide
        return (yield from search_by_trials(_in_order(order, priority, budgets)))
    if enough > len(failure.members):
        return NOT_ENOUGH_ROOM
    nominated = failure.cluster.nominated
    if any(nominated.node_of(pod.id) is not None for pod in failure.members):
        # The slots leave out what members are nominated to, though a member may take that itself. So there may be more of
        # them, and those that can stay by this count can stay.
        victims = _in_order(order, priority, budgets)
        return (yield from search_by_trials(victims, first_to_leave(slots, victims, enough) or 0))
    if budgets:
        return _search_by_sums(slots, _in_order(order, priority, budgets), enough)
    return _search_few(failure, gains, slots, enough)


def _search_few(failure: GroupFitError, gains: GainsByShape, slots: Slots, enough: int) -> GroupVictims | Rejection:
    """Search like `_search_by_sums`, but only on the nodes that gain slots first. The result is the same as on all nodes."""
    member, priority = failure.members[0], failure.group.priority
    kept = gains.of(member.shape, member.priority, priority)
    kept.refresh(slots)
    rows = kept.rows(enough - slots.total, slots.passing)
    slots.passing = np.zeros(len(slots.passing), np.bool_)
    slots.passing[rows] = True
    return _search_by_sums(slots, victims_on(gains.order, rows, priority), enough)


def _search_by_sums(slots: Slots, victims: Sequence[GroupVictim], enough: int) -> GroupVictims | Rejection:
    """The victims that cannot come back in the order given."""
    first = first_to_leave(slots, victims, enough)
    return NOT_ENOUGH_ROOM if first is None else _chosen(come_back(slots, victims[first:], enough))


def _in_order(order: VictimOrder, priority: int, budgets: Sequence[Budget]) -> list[GroupVictim]:
    """All victims in the order in which they come back."""
    breaking, others = split_by_budgets((entry[-1] for entry in order.below(priority)), budgets)
    return [*breaking, *others]


def search_by_trials(victims: Sequence[GroupVictim], first: int = 0) -> GroupSearch:
    """The victims, found by trials. The group is known to fit beside the victims before `first`."""
    refusal = yield MovedPods(leave=_pods_of(victims[first:]))
    if refusal is not None:
        return refusal
    return _chosen((yield from reprieve(victims[first:])))


def reprieve(victims: Sequence[GroupVictim]) -> Generator[MovedPods, Rejection | None, list[GroupVictim]]:
    """Let victims that have left come back, in this order, where the group still fits. Returns those that stay away."""
    staying_away: list[GroupVictim] = []
    refused: tuple[Pod, ...] = ()
    place, size = 0, 1
    while place < len(victims):
        batch = victims[place : place + size]
        back = _pods_of(batch)
        refusal = yield MovedPods(leave=refused, come_back=back)
        refused = () if refusal is None else back
        if refusal is None:
            place += len(batch)
            size = 2 * size if len(victims) > ONE_BY_ONE else 1
        elif len(batch) > 1:
            size = len(batch) // 2
        else:
            staying_away += batch
            place += 1
    return staying_away


def _chosen(victims: Sequence[GroupVictim]) -> GroupVictims:
    return GroupVictims(_pods_of(sorted(victims, key=lambda victim: victim.importance)))


def _pods_of(victims: Sequence[GroupVictim]) -> tuple[Pod, ...]:
    return tuple(pod for victim in victims for pod in victim.pods)


K = TypeVar("K", KeptDryRun, KeptHarm)
KeptKey = tuple["ref[PodShape]", int]
"""A shape and a priority."""

_PREFIX = "preemption: "
DRY_RUNS = 16
"""For how many shapes and priorities the outcome is kept: a dry run has arrays of pods x nodes, so there are few of them.
"""
_NOT_HELPFUL = "Preemption is not helpful for scheduling"


class DefaultPreemption(PreEnqueuePlugin, PodGroupPostFilterPlugin):
    """PostFilter searches; PreEnqueue keeps the preemptor out of the queue while its victims are being evicted. With the
    gate WorkloadAwarePreemption groups preempt as one (`search_victims`), and their members do not preempt alone."""

    name = "DefaultPreemption"

    def __init__(self, args: Any, handle: Handle) -> None:
        args = args if isinstance(args, DefaultPreemptionArgs) else DefaultPreemptionArgs()
        self._min_percentage: int = args.min_candidate_nodes_percentage
        self._min_absolute: int = args.min_candidate_nodes_absolute
        self._ranks: PodRanks | None = None
        self._dry_runs: dict[KeptKey, KeptDryRun] = {}
        self._harms: dict[KeptKey, KeptHarm] = {}
        self._budgets = KeptBudgets()
        handle.metrics.declare(PREEMPTION_ATTEMPTS)
        self._attempts = handle.metrics.counter(PREEMPTION_ATTEMPTS.name).series()
        self._tries_placements = handle.feature_gates.get("TopologyAwareWorkloadScheduling", False)
        self._cluster = handle.services.cluster
        self._groups_preempt = handle.feature_gates.get("WorkloadAwarePreemption", False)
        self._gains: GainsByShape | None = None
        self._evicting: dict[str, str] = {}
        """Preemptors whose victims are being evicted right now, by the id of the pod, with what stays out of the queue until
        that is done: the pod, or its group."""

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        """Hold back a pod, or all pods of its group, until the evictions for it are answered."""
        if not self._evicting:
            return None
        if not self._preempts_as_group(pod):
            is_evicting = pod.id in self._evicting
            return final("waiting for the preemption for this pod to be finished") if is_evicting else None
        group = self._group_id(pod)
        if group is not None and group in self._evicting.values():
            return final("waiting for the preemption for this pod group to be finished")
        return None

    def _preempts_as_group(self, pod: Pod) -> bool:
        return self._groups_preempt and pod.spec.scheduling_group is not None

    def _group_id(self, pod: Pod) -> str | None:
        """The uid of the pod's group, or its name where it has none; None: the group does not exist."""
        group = self._cluster.pod_group(pod.group_key or "")
        return None if group is None else group.uid or group.key

    def eviction_began(self, pod: Pod) -> None:
        """The evictions for this pod are on their way to the API server: upstream evicts asynchronously as well."""
        self._evicting[pod.id] = (self._group_id(pod) if self._preempts_as_group(pod) else None) or pod.id

    def eviction_ended(self, pod: Pod) -> None:
        """All evictions were answered, so the pod may be queued again."""
        self._evicting.pop(pod.id, None)

    def events(self) -> list[Registration]:
        """The hint always says no: whether a pod that left made room is for the plugins to say that rejected the
        preemptor."""
        return [Registration(ClusterEvent(POD, Action.DELETE), lambda pod, change: False)]

    def post_filter(self, failure: FitError) -> Nomination | NoRoom | Candidates:
        """A nomination; or why there is no room; or, where extenders review preemption, all candidates for them to thin
        out."""
        self._attempts.add()
        refusal = self._excluded(failure.context.pod, failure.context.cluster) or self._ineligible(failure)
        if refusal is not None:
            return NoRoom(curable(_PREFIX + refusal))
        try:
            return self._find_least_harm(failure) or self._find_any(failure)
        except AttemptError as fault:  # a filter failed in the dry run
            raise PluginError(f"{_PREFIX}{fault}") from fault

    def _find_any(self, failure: FitError) -> Nomination | NoRoom | Candidates:
        """The outcome of the dry run on all nodes where eviction can help."""
        nodes, findings = failure.context.nodes, self.search(failure)
        if not len(findings):
            if findings.without_victims:
                raise PluginError(_PREFIX + _no_victims(findings, nodes))
            text = _PREFIX + _message(findings, nodes.alive_count)
            return NoRoom(curable(text), clear_nomination=True)
        if not failure.is_reviewed:
            return self._best(findings, nodes)
        victims = {nodes.names[row]: findings.on(row) for row in findings.rows.tolist()}
        return Candidates(victims, partial(self._choose, findings, nodes))

    def pod_group_post_filter(self, failure: GroupFitError) -> GroupSearch:
        if self._gains is None or self._gains.order.nodes is not failure.cluster.nodes:
            self._gains = GainsByShape(VictimOrder(failure.cluster))
        return search_victims(failure, self._gains, self._budgets.of(failure.cluster))

    def may_help(self, pod: Pod, cluster: Cluster) -> bool:
        return self._excluded(pod, cluster) is None

    def _excluded(self, pod: Pod, cluster: Cluster) -> str | None:
        """Why pods of this pod's group may not preempt, whatever the nodes. Parity: a group with constraints would preempt
        anew for each placement."""
        if pod.group_key is None:
            return None
        group = cluster.pod_group(pod.group_key)
        if self._tries_placements and group is None:
            return "pod group for pod not found"
        if self._tries_placements and group is not None and group.spec.scheduling_constraints is not None:
            return "not eligible due to placement-based pod group scheduling limitation"
        return "not eligible due to workload aware preemption enabled" if self._groups_preempt else None

    def _choose(
        self, findings: Findings, nodes: NodeTable, left: Mapping[str, Victims] | CallFault
    ) -> Nomination | NoRoom:
        """The best of the candidates that extenders have left, possibly with other victims."""
        if isinstance(left, CallFault):
            raise PluginError(_PREFIX + left.message)
        if not left:
            return NoRoom(curable(f"{_PREFIX}no candidate node for preemption"))
        return self._best(findings.replaced({nodes.row_book[name]: on for name, on in left.items()}), nodes)

    def _best(self, findings: Findings, nodes: NodeTable) -> Nomination:
        """The least harmful candidate. Where several are equal, node names decide, so that a run can be repeated."""
        best = findings.least_harmful()
        best = best[nodes.name_rank()[best].argsort()].tolist()
        # Parity: a victim that has not started counts as started when it is looked at, and later is better. So among
        # nodes that differ in nothing else the last one wins; where victims have started, the first.
        chosen = best[-1] if findings.is_unstarted(best[-1]) else best[0]
        return Nomination(nodes.names[chosen], findings.victims(chosen))

    def _find_least_harm(self, failure: FitError) -> Nomination | None:
        """The least harmful candidate, where sums decide; None: they do not, or there is no candidate."""
        assert isinstance(failure, RejectedAttempt), "only the framework makes these"
        nodes = failure.context.nodes
        if failure.is_reviewed or not failure.examine_all:
            return None
        curable_rows = failure.curable()
        if not curable_rows.any():  # filters may have no state to answer with: PreFilter may have ended early
            return None
        filters = sums_decide(failure.attempt, failure.nominated)
        ranks = self._ranked(nodes)
        if filters is None or not is_small(ranks):
            return None
        alone = NodeDryRun(failure, ranks, self._budgets.of(failure.context.cluster))
        search = LeastHarm(failure, ranks, filters, alone)
        pod = failure.context.pod
        return search.nominate(curable_rows, _kept_for(self._harms, pod, lambda: KeptHarm(ranks, pod.priority)))

    def search(self, failure: FitError) -> Findings:
        """Every candidate, or as many as the arguments ask for. `examine_all` is for explanations and comparisons."""
        assert isinstance(failure, RejectedAttempt), "only the framework makes these"
        nodes = failure.context.nodes
        potential = failure.curable_rows()
        ranks = self._ranked(nodes)
        kept = _kept_for(self._dry_runs, failure.context.pod, lambda: KeptDryRun(ranks))
        dry_run = PreemptionDryRun(failure, ranks, kept, self._budgets.of(failure.context.cluster))
        if not len(potential):
            return dry_run.nothing()
        if failure.examine_all:
            return dry_run.search(potential)
        return self._search_enough(dry_run, potential, failure.context.seed)

    def _search_enough(self, dry_run: PreemptionDryRun, potential: RowArray, seed: int) -> Findings:
        """Dry runs in batches until there are enough candidates and one of them breaks no budget.

        The start depends on the attempt's seed, where upstream draws a random offset: otherwise the first nodes of the
        table would bear all preemptions. minCandidateNodesPercentage and minCandidateNodesAbsolute say how many are
        enough.
        """
        count = len(potential)
        wanted = min(max(count * self._min_percentage // 100, self._min_absolute), count)
        walk = np.roll(potential, -choose(seed, count))
        findings = dry_run.nothing()
        for start in range(0, count, max(wanted, 1)):
            findings.take(dry_run.search(walk[start : start + wanted]))
            if len(findings) >= wanted and findings.has_harmless():
                break
        return findings

    def _ranked(self, nodes: NodeTable) -> PodRanks:
        """The pods of all nodes by importance; made again for another table (a fork), along with all dry runs."""
        if self._ranks is None or self._ranks.nodes is not nodes:
            self._ranks = PodRanks(nodes)
            self._dry_runs.clear()
            self._harms.clear()
        self._ranks.refresh()
        return self._ranks

    def _ineligible(self, failure: FitError) -> str | None:
        """Why the pod may not preempt (again) now."""
        context = failure.context
        if context.pod.spec.preemption_policy == "Never":
            return "not eligible due to preemptionPolicy=Never."
        row = context.nodes.row_book.get(context.pod.status.nominated_node_name)
        if row is None or failure.is_final(row):
            return None
        if any(is_being_preempted(pod) and pod.priority < context.pod.priority for pod in context.nodes.pods_on[row]):
            return "not eligible due to a terminating pod on the nominated node."
        return None


def _kept_for(kept: dict[KeptKey, K], pod: Pod, make: Callable[[], K]) -> K:
    """Return the kept object for pods of this shape and priority, or make it. If there are more than DRY_RUNS objects, the
    least recently used one is dropped."""
    key = (ref(pod.shape), pod.priority)  # a pod that is gone is not kept alive
    found = kept.pop(key, None) or make()
    kept[key] = found  # last in the order of use
    if len(kept) > DRY_RUNS:
        del kept[next(iter(kept))]
    return found


def is_being_preempted(pod: Pod) -> bool:
    """Whether the pod is being deleted because the scheduler preempted it."""
    targeted = next((c for c in pod.status.conditions or () if c.type == "DisruptionTarget"), None)
    return (
        pod.is_terminating
        and targeted is not None
        and targeted.status == "True"
        and targeted.reason == "PreemptionByScheduler"
    )


def _no_victims(findings: Findings, nodes: NodeTable) -> str:
    """Parity: a node that fits without evictions, and that an extender rejected, is an error of the dry run."""
    names = sorted(nodes.names[row] for row in findings.without_victims)
    texts = [f'expected at least one victim pod on node "{name}"' for name in names]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _message(findings: Findings, node_count: int) -> str:
    """A fit error over all nodes: what the dry run said, and that it would not help on the nodes that it did not try."""
    histogram: Counter[str] = Counter()
    tried = 0
    for rejection, count in findings.refusals:
        tried += count
        for reason in rejection.reasons:
            histogram[reason] += count
    if tried < node_count:
        histogram[_NOT_HELPFUL] += node_count - tried
    reasons = ", ".join(sorted(f"{count} {reason}" for reason, count in histogram.items()))
    return f"0/{node_count} nodes are available: {reasons}."


PLUGINS = (DefaultPreemption,)
