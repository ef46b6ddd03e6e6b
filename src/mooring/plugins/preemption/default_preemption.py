"""DefaultPreemption: makes room for a pod that fits nowhere by evicting pods of lower priority.

The order is upstream's: is the pod eligible, a dry run on the nodes where eviction can help (`victim_search.py`),
extenders may drop candidates, and the least harmful candidate wins. The answer is a nomination and its victims;
scheduler/evict.py evicts them.

On nodes with members of pod groups victims leave in units. A unit that is a whole group leaves on all nodes. On the
candidate itself its pods leave the table; about those elsewhere only the plugins are told that count pods over the
whole cluster (PreFilterExtensions). Metrics of searches came with pod groups (v1.37, 20.4); preemptors that are pods
count as well.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.ranks import PodRanks
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.attempts.fit_errors import RejectedAttempt
from mooring.framework.attempts.refiltering import OneNode, RowArray
from mooring.framework.config.args import DefaultPreemptionArgs
from mooring.framework.contract.context import FitError
from mooring.framework.contract.events import ASSIGNED_POD_DELETE, EventKeys, Registration
from mooring.framework.contract.group_points import GroupFitError, GroupRoom, GroupSearch, PodGroupPostFilterPlugin
from mooring.framework.contract.intents import CallFault
from mooring.framework.contract.points import (
    Candidates,
    Handle,
    Nomination,
    NoRoom,
    PostFilterPlugin,
    PreEnqueuePlugin,
    Victims,
)
from mooring.framework.contract.status import Code, PluginError, Rejection, curable, final
from mooring.framework.kept.asking import AttemptError
from mooring.framework.profile.metric_catalogue import POD_GROUPS, PREEMPTION_ATTEMPTS
from mooring.kit.choice import choose
from mooring.model.pod import Pod
from mooring.model.selectors import aggregated
from mooring.model.shape import PodShape
from mooring.plugins.preemption.group_preemption import (
    VictimOrder,
    VictimUnit,
    answer_at_once,
    search_victims,
    split_by_budgets,
)
from mooring.plugins.preemption.kept_dry_run import KeptDryRun
from mooring.plugins.preemption.kept_harm import KeptHarm
from mooring.plugins.preemption.least_harm import LeastHarm, is_small, sums_decide
from mooring.plugins.preemption.victim_search import (
    NO_VICTIMS_FOUND,
    PREFIX,
    Budget,
    Findings,
    KeptBudgets,
    NodeDryRun,
    PreemptionDryRun,
    is_being_preempted,
    nominate,
)


class UnitDryRun:
    """Tries nodes alone, with the filters asked after each unit that leaves or comes back."""

    def __init__(self, failure: RejectedAttempt, order: VictimOrder, budgets: Sequence[Budget]) -> None:
        self._failure = failure
        self._pod = failure.attempt.context.pod
        self._order = order
        self._budgets = budgets
        self._sketch: NodeTable | None = None

    def search(self, rows: Sequence[int], findings: Findings) -> None:
        """Search for victims on each of the rows."""
        without_node = self._order.groups_without_node()
        for row in rows:
            fault = self._order.fault_on((row,), without_node)
            if fault is None:
                findings.try_alone(row, self._search_row)
            else:
                findings.faults.append(fault)

    def _search_row(self, row: int) -> Rejection | tuple[tuple[Pod, ...], int]:
        """(victims, number of them that break budgets) on one node, or why the node cannot be made to fit."""
        if self._sketch is None:
            self._sketch = self._failure.context.nodes.sketch()
        units = [unit for unit in self._order.on_row(row) if unit.priority < self._pod.priority]
        if not units:
            return NO_VICTIMS_FOUND
        node = OneNode(self._failure.attempt, self._sketch, row)
        for unit in units:
            self._move(node, unit, row, is_leaving=True)
        beside = self._failure.nominated.beside(self._pod, self._order.nodes.names[row])
        refusal = node.verdict(beside)
        if refusal is not None:
            return refusal
        breaking, others = split_by_budgets(units, self._budgets)
        victims: list[tuple[VictimUnit, int]] = []
        for unit, violations in (*breaking, *((unit, 0) for unit in others)):
            self._move(node, unit, row, is_leaving=False)
            if not node.fits(beside):
                self._move(node, unit, row, is_leaving=True)
                victims.append((unit, violations))
        victims.sort(key=lambda each: each[0].importance)
        pods = tuple(pod for unit, _ in victims for pod in unit.pods)
        return pods, sum(violations for _, violations in victims)

    def _move(self, node: OneNode, unit: VictimUnit, row: int, *, is_leaving: bool) -> None:
        """Take the pods of a unit off the node, or put them back; those on other nodes are only told about."""
        for pod in unit.pods:
            where = self._order.nodes.row_of_pod(pod.id)
            if where == row:
                (node.remove if is_leaving else node.add)(pod)
            elif where is not None:
                node.tell_elsewhere(pod, where, is_leaving)


class PreemptionMetrics:
    """Without the feature gate GenericWorkload nothing is counted."""

    def __init__(self, handle: Handle) -> None:
        self._are_kept = handle.feature_gates.get("GenericWorkload", False)
        self._now_ns = handle.services.now_ns
        self._registry = handle.metrics
        for metric in POD_GROUPS if self._are_kept else ():
            handle.metrics.declare(metric)

    def began(self) -> int:
        """A search begins. Returns the time for the end of it."""
        return self._now_ns() if self._are_kept else 0

    def pod_searched(self, found: Nomination | NoRoom | None, began_ns: int) -> None:
        """The search for one pod is over; None: it failed.

        Parity: groups that are disrupted by a pod are not counted.
        """
        if not self._are_kept:
            return
        code = Code.Error if found is None else Code.Success
        self._evaluated("pod", found.rejection.code if isinstance(found, NoRoom) else code, began_ns)
        if isinstance(found, Nomination):
            self._violated("pod", found.violations)

    def group_searched(self, preemptor: str, found: GroupRoom | Rejection, began_ns: int) -> None:
        """The search for a group of this kind is over. Parity: its time counts for a PodGroup, whatever kind it is."""
        if not self._are_kept:
            return
        self._evaluated("podgroup", Code.Success if isinstance(found, GroupRoom) else found.code, began_ns)
        if isinstance(found, Rejection):
            return
        self._registry.histogram("scheduler_workload_preemption_victims").series().observe(len(found.victims))
        if found.disrupted_groups:
            disruptions = self._registry.histogram("scheduler_preemption_workload_disruptions")
            disruptions.series(preemptor).observe(found.disrupted_groups)
        self._violated(preemptor, found.violations)

    def group_answered(self, code: Code) -> None:
        """PodGroupPostFilter ended with this status, with a search or without."""
        if self._are_kept:
            self._registry.counter("scheduler_workload_preemption_attempts_total").series(code.name).add()

    def _evaluated(self, preemptor: str, code: Code, began_ns: int) -> None:
        durations = self._registry.histogram("scheduler_preemption_evaluation_duration_seconds")
        durations.series(preemptor, code.name).observe_ns(self._now_ns() - began_ns)

    def _violated(self, preemptor: str, violations: int) -> None:
        if violations:
            self._registry.counter("scheduler_preemption_pdb_violations_total").series(preemptor).add(violations)


K = TypeVar("K", KeptDryRun, KeptHarm)
A = TypeVar("A", Nomination | NoRoom, Nomination | NoRoom | Candidates)
KeptKey = tuple["ref[PodShape]", int]
"""A shape and a priority."""

DRY_RUNS = 16
"""For how many shapes and priorities the outcome is kept: a dry run has arrays of pods x nodes, so there are few of them.
"""
_POD_WAITS = final("waiting for the preemption for this pod to be finished")
_GROUP_WAITS = final("waiting for the preemption for this pod group to be finished")
_NOT_HELPFUL = "Preemption is not helpful for scheduling"
_NO_PODS = EventKeys(lambda pod: (), lambda change: (), by_group=True)
"""Hot: without it the hint was asked about each member of a gated group for each victim that left."""


class DefaultPreemption(PreEnqueuePlugin, PostFilterPlugin, PodGroupPostFilterPlugin):
    """PostFilter searches; PreEnqueue keeps the preemptor out of the queue while its victims are being evicted. Pod groups
    preempt as one, at PodGroupPostFilter (`search_victims`)."""

    name = "DefaultPreemption"
    is_asked_by_group = True  # members are held back for their group, never alone

    def __init__(self, args: Any, handle: Handle) -> None:
        args = args if isinstance(args, DefaultPreemptionArgs) else DefaultPreemptionArgs()
        self._min_percentage: int = args.min_candidate_nodes_percentage
        self._min_absolute: int = args.min_candidate_nodes_absolute
        self._ranks: PodRanks | None = None
        self.dry_runs: dict[KeptKey, KeptDryRun] = {}
        self.harms: dict[KeptKey, KeptHarm] = {}
        """Kept outcomes and kept harm by shape and priority, the least recently used first."""
        self._budgets = KeptBudgets()
        handle.metrics.declare(PREEMPTION_ATTEMPTS)
        self._attempts = handle.metrics.counter(PREEMPTION_ATTEMPTS.name).series()
        self._cluster = handle.services.cluster
        self._heeds_groups = handle.feature_gates.get("GenericWorkload", False)
        self._metrics = PreemptionMetrics(handle)
        self._goes_by_group = handle.feature_gates.get("PodGroupPreemptionPolicy", False)
        """Whether the preemption policy of a group counts, and not that of its pods."""
        self._order: VictimOrder | None = None
        self._evicting: dict[str, str] = {}
        """Preemptors whose victims are being evicted right now, by the id of the pod, with what stays out of the queue until
        that is done: the pod, or its group."""

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        """Hold back a pod, or all pods of its group, until the evictions for it are answered."""
        if not self._evicting:
            return None
        if not self._preempts_as_group(pod):
            is_evicting = pod.id in self._evicting
            return _POD_WAITS if is_evicting else None
        group = self._group_id(pod)
        if group is not None and group in self._evicting.values():
            return _GROUP_WAITS
        return None

    def _preempts_as_group(self, pod: Pod) -> bool:
        return self._heeds_groups and pod.spec.scheduling_group is not None

    def _group_id(self, pod: Pod) -> str | None:
        """The uid of the pod's root group, or its name where it has none; None: the group cannot be found."""
        tree = self._cluster.group_tree
        root = tree.root_of_pod(pod)
        group = None if root is None else tree.find(root)
        return None if group is None else group.uid or group.key

    def eviction_began(self, pod: Pod) -> None:
        """The evictions for this pod are on their way to the API server: upstream evicts asynchronously as well."""
        self._evicting[pod.id] = (self._group_id(pod) if self._preempts_as_group(pod) else None) or pod.id

    def eviction_ended(self, pod: Pod) -> None:
        """All evictions were answered, so the pod may be queued again."""
        self._evicting.pop(pod.id, None)

    def events(self) -> list[Registration]:
        """The hint always says no, so the event names no pod: whether a pod that left made room is for the plugins to say
        that rejected the preemptor."""
        return [Registration(ASSIGNED_POD_DELETE, lambda pod, change: False, _NO_PODS)]

    def post_filter(self, failure: FitError) -> Nomination | NoRoom | Candidates:
        """A nomination; or why there is no room; or, where extenders review preemption, all candidates for them to thin
        out."""
        self._attempts.add()
        began_ns = self._metrics.began()
        found = self._counted(partial(self._evaluate, failure), began_ns)
        if not isinstance(found, Candidates):
            return found
        # What extenders leave is chosen from later, and the search lasts until then.
        return Candidates(found.victims, lambda left: self._counted(partial(found.choose, left), began_ns))

    def _counted(self, search: Callable[[], A], began_ns: int) -> A:
        """Run a search, or the last step of it, and count what it finds."""
        try:
            found = search()
        except PluginError:
            self._metrics.pod_searched(None, began_ns)
            raise
        if isinstance(found, Nomination | NoRoom):
            self._metrics.pod_searched(found, began_ns)
        return found

    def _evaluate(self, failure: FitError) -> Nomination | NoRoom | Candidates:
        refusal = self._ineligible(failure)
        if refusal is not None:
            return NoRoom(curable(PREFIX + refusal))
        try:
            return self._find_least_harm(failure) or self._find_any(failure)
        except AttemptError as fault:  # a filter failed about many nodes at once
            raise PluginError(f"{PREFIX}{fault}") from fault

    def _find_any(self, failure: FitError) -> Nomination | NoRoom | Candidates:
        """The outcome of the dry run on all nodes where eviction can help."""
        nodes, findings = failure.context.nodes, self.search(failure)
        if not len(findings):
            faults = [*findings.faults, *_no_victims(findings, nodes)]
            if faults:
                raise PluginError(PREFIX + aggregated(faults))
            text = PREFIX + _message(findings, nodes.alive_count)
            return NoRoom(curable(text), clear_nomination=True)
        if not failure.is_reviewed:
            return self._best(findings, nodes)
        victims = {nodes.names[row]: findings.on(row) for row in findings.rows.tolist()}
        return Candidates(victims, partial(self._choose, findings, nodes))

    def pod_group_post_filter(self, failure: GroupFitError) -> GroupSearch:
        found = answer_at_once(failure, self._goes_by_group)
        if found is None:
            order, budgets = self._victims(failure.cluster), self._budgets.of(failure.cluster)
            began_ns = self._metrics.began()
            found = yield from search_victims(failure, order, budgets)
            self._metrics.group_searched(type(failure.group).__name__.lower(), found, began_ns)
        self._metrics.group_answered(found.code if isinstance(found, Rejection) else Code.Success)
        return found

    def _victims(self, cluster: Cluster) -> VictimOrder:
        """All pods on nodes in the units in which they leave; made again for another table (a fork)."""
        if self._order is None or self._order.nodes is not cluster.nodes:
            self._order = VictimOrder(cluster)
        self._order.refresh()
        return self._order

    def _choose(
        self, findings: Findings, nodes: NodeTable, left: Mapping[str, Victims] | CallFault
    ) -> Nomination | NoRoom:
        """The best of the candidates that extenders have left, possibly with other victims."""
        if isinstance(left, CallFault):
            raise PluginError(PREFIX + left.message)
        if not left:
            return NoRoom(curable(f"{PREFIX}no candidate node for preemption"))
        return self._best(findings.replaced({nodes.row_book[name]: on for name, on in left.items()}), nodes)

    def _best(self, findings: Findings, nodes: NodeTable) -> Nomination:
        """The least harmful candidate. Where several are equal, node names decide, so that a run can be repeated."""
        best = findings.least_harmful()
        best = best[nodes.name_rank()[best].argsort()].tolist()
        # Parity: a victim that has not started counts as started when it is looked at, and later is better. So among
        # nodes that differ in nothing else the last one wins; where victims have started, the first.
        chosen = best[-1] if findings.is_unstarted(best[-1]) else best[0]
        return nominate(nodes.names[chosen], findings.victims(chosen), findings.violations(chosen))

    def _find_least_harm(self, failure: FitError) -> Nomination | None:
        """The least harmful candidate, where sums decide; None: they do not, or there is no candidate."""
        assert isinstance(failure, RejectedAttempt), "only the framework makes these"
        nodes = failure.context.nodes
        if failure.is_reviewed or not failure.examine_all:
            return None
        curable_rows = failure.curable()
        if not curable_rows.any():  # filters may have no state to answer with: PreFilter may have ended early
            return None
        if self._heeds_groups and self._apart(failure)[: len(curable_rows)][curable_rows].any():
            return None
        filters = sums_decide(failure.attempt, failure.nominated)
        ranks = self._ranked(nodes)
        if filters is None or not is_small(ranks):
            return None
        alone = NodeDryRun(failure, ranks, self._budgets.of(failure.context.cluster))
        search = LeastHarm(failure, ranks, filters, alone)
        pod = failure.context.pod
        return search.nominate(curable_rows, _kept_for(self.harms, pod, lambda: KeptHarm(ranks, pod.priority)))

    def search(self, failure: FitError) -> Findings:
        """Every candidate, or as many as the arguments ask for. `examine_all` is for explanations and comparisons."""
        assert isinstance(failure, RejectedAttempt), "only the framework makes these"
        nodes = failure.context.nodes
        potential = failure.curable_rows()
        ranks = self._ranked(nodes)
        kept = _kept_for(self.dry_runs, failure.context.pod, lambda: KeptDryRun(ranks))
        dry_run = PreemptionDryRun(failure, ranks, kept, self._budgets.of(failure.context.cluster))
        if not len(potential):
            return dry_run.nothing()
        budgets = self._budgets.of(failure.context.cluster)
        apart, units = self._apart(failure), None
        if apart[potential].any():
            units = UnitDryRun(failure, self._victims(failure.context.cluster), budgets)

        def search(rows: RowArray) -> Findings:
            """Try rows: those with members of groups in units, all others pod by pod."""
            if units is None:
                return dry_run.search(rows)
            findings = dry_run.search(rows[~apart[rows]])
            units.search(rows[apart[rows]].tolist(), findings)
            return findings

        if failure.examine_all:
            return search(potential)
        return self._search_enough(search, dry_run.nothing(), potential, failure.context.seed)

    def _apart(self, failure: RejectedAttempt) -> NDArray[np.bool_]:
        """Mask over the rows: True where members of groups are, which leave in units."""
        found = np.zeros(failure.context.nodes.height, np.bool_)
        if self._heeds_groups:
            found[[*self._victims(failure.context.cluster).member_rows]] = True
        return found

    def _search_enough(
        self, search: Callable[[RowArray], Findings], findings: Findings, potential: RowArray, seed: int
    ) -> Findings:
        """Dry runs in batches until there are enough candidates and one of them breaks no budget.

        The start depends on the attempt's seed, where upstream draws a random offset: otherwise the first nodes of the
        table would bear all preemptions. minCandidateNodesPercentage and minCandidateNodesAbsolute say how many are
        enough.
        """
        count = len(potential)
        wanted = min(max(count * self._min_percentage // 100, self._min_absolute), count)
        walk = np.roll(potential, -choose(seed, count))
        for start in range(0, count, max(wanted, 1)):
            findings.take(search(walk[start : start + wanted]))
            if len(findings) >= wanted and findings.has_harmless():
                break
        return findings

    def _ranked(self, nodes: NodeTable) -> PodRanks:
        """The pods of all nodes by importance; made again for another table (a fork), along with all dry runs."""
        if self._ranks is None or self._ranks.nodes is not nodes:
            self._ranks = PodRanks(nodes)
            self.dry_runs.clear()
            self.harms.clear()
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


def _no_victims(findings: Findings, nodes: NodeTable) -> list[str]:
    """Parity: a node that fits without evictions, and that an extender rejected, is an error of the dry run."""
    names = sorted(nodes.names[row] for row in findings.without_victims)
    return [f'expected at least one victim pod on node "{name}"' for name in names]


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
