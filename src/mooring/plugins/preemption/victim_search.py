"""The dry run of preemption: on which nodes the pod would fit if pods of lower priority left, and which pods those are.

The algorithm is upstream's SelectVictimsOnNode. On each node all pods of lower priority leave. If the pod does not fit
then, the node is no candidate. Otherwise they come back one by one, the most important first and those that would break
a disruption budget before all others; each one with which the pod does not fit any more is a victim. The result is not
the smallest possible set of victims, and is not meant to be: it keeps the most important pods.

Two ways with the same result. Where every filter reads only sums (Reads.TOTALS) and no budget has a say, all nodes are
tried at once (kept_dry_run.py). The others are tried one by one on a sketch of the table, with the filters asked after each
pod.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.ranks import NOT_STARTED_NS, PodRanks, by_importance, start_ns
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.attempts.fit_errors import RejectedAttempt, count_codes
from mooring.framework.attempts.refiltering import OneNode, RowArray, is_batchable
from mooring.framework.contract.points import Nomination, Victims
from mooring.framework.contract.status import Rejection, final
from mooring.framework.kept.asking import AttemptError
from mooring.framework.kept.feasible import PASSED
from mooring.model.affinity import PodPredicate
from mooring.model.meta import KubeObject, LabelSelector
from mooring.model.pod import Pod
from mooring.model.selectors import Selector, SelectorError, compile_selector
from mooring.model.workloads import PodDisruptionBudget
from mooring.plugins.preemption.kept_dry_run import NO_VICTIMS, PRIORITY_OFFSET, KeptDryRun

# ---- Disruption budgets: which of the pods that would leave a node break one.


class Budget(msgspec.Struct, frozen=True):
    """A disruption budget that can match pods: its selector is valid and not empty."""

    namespace: str
    selector: Selector
    allowed: int
    """status.disruptionsAllowed: how many of its pods may still be evicted now."""
    disrupted: frozenset[str]
    """Names of pods that are being evicted already: they do not count again."""

    def matches(self, pod: Pod) -> bool:
        """Whether the budget protects the pod. Parity: never a pod without labels."""
        return pod.namespace == self.namespace and bool(pod.labels) and self.selector.matches(pod.labels)


class KeptBudgets:
    """The budgets of a cluster, for as long as their objects are the same, and their selectors for longer.

    Hot: each attempt that comes to preemption needs all budgets, and to compile 80 selectors takes 1 ms. Counts of a budget
    change often, and its selector hardly ever.
    """

    def __init__(self) -> None:
        self._seen: list[KubeObject] = []
        self._budgets: list[Budget] = []
        self._compiled: dict[str, tuple[LabelSelector | None, Selector | None]] = {}

    def of(self, cluster: Cluster) -> list[Budget]:
        """All budgets that can match pods. The caller must not change the list."""
        known = cluster.objects[PodDisruptionBudget]
        present = [*known.values()]
        if present != self._seen:
            self._seen = present
            self._compiled = {key: held for key, held in self._compiled.items() if key in known}
            self._budgets = [budget for item in present for budget in self._read(cast(PodDisruptionBudget, item))]
        return self._budgets

    def _read(self, budget: PodDisruptionBudget) -> Iterator[Budget]:
        selector = self._selector(budget)
        if selector is not None:
            disrupted = frozenset(budget.status.disrupted_pods or ())
            yield Budget(budget.namespace, selector, budget.status.disruptions_allowed, disrupted)

    def _selector(self, budget: PodDisruptionBudget) -> Selector | None:
        """The selector, if it can match pods. Parity: a budget whose selector does not compile protects no pod."""
        held = self._compiled.get(budget.key)
        if held is None or held[0] is not budget.spec.selector:
            held = self._compiled[budget.key] = budget.spec.selector, _compiled(budget.spec.selector)
        return held[1]


def _compiled(written: LabelSelector | None) -> Selector | None:
    """An empty selector matches nothing here, as in upstream's preemption."""
    try:
        selector = compile_selector(written)
    except SelectorError:
        return None
    return None if selector.is_empty or selector.is_nothing else selector


def budgets_of(cluster: Cluster) -> list[Budget]:
    """All budgets that can match pods, for a caller that asks once."""
    return KeptBudgets().of(cluster)


def split_by_budget(pods: Iterable[Pod], budgets: Sequence[Budget]) -> tuple[list[Pod], list[Pod]]:
    """(pods that break a budget if all of them leave in this order, the others)."""
    leaving = [*pods]
    namespaces = {pod.namespace for pod in leaving}
    budgets = [budget for budget in budgets if budget.namespace in namespaces]
    left = [budget.allowed for budget in budgets]
    breaking: list[Pod] = []
    others: list[Pod] = []
    for pod in leaving:
        protecting = [i for i, budget in enumerate(budgets) if budget.matches(pod)]
        (breaking if breaks_budget(pod, budgets, left, protecting) else others).append(pod)
    return breaking, others


def is_being_preempted(pod: Pod) -> bool:
    """Whether the pod is being deleted because the scheduler preempted it."""
    targeted = next((c for c in pod.status.conditions or () if c.type == "DisruptionTarget"), None)
    return (
        pod.is_terminating
        and targeted is not None
        and targeted.status == "True"
        and targeted.reason == "PreemptionByScheduler"
    )


def breaks_budget(pod: Pod, budgets: Sequence[Budget], left: list[int], protecting: Iterable[int]) -> bool:
    """Whether the eviction of the pod breaks one of the disruption budgets that protect it, which `protecting` has the places
    of. `left` holds the evictions that each budget still allows, and is counted down here. Parity: the pod takes nothing from
    the budgets behind the first one that it breaks."""
    for i in protecting:
        if pod.name not in budgets[i].disrupted:
            left[i] -= 1
            if left[i] < 0:
                return True
    return False


# ---- The text of a preemption


PREFIX = "preemption: "


def nominate(node_name: str, victims: tuple[Pod, ...], violations: int = 0) -> Nomination:
    """The nomination to a node, in upstream's words."""
    text = f"{PREFIX}found a potential placement for pod on node {node_name}, preempting {len(victims)} victims"
    return Nomination(node_name, victims, text, violations)


# Upstream's words for a node without pods of lower priority.
NO_VICTIMS_FOUND = final("No preemption victims found for incoming pod")


class Findings:
    """Result of a dry run of preemption: the candidates with the harm that each would do, and the reasons why other nodes are
    no candidates."""

    def __init__(self, kept: KeptDryRun) -> None:
        self.rows: RowArray = np.zeros(0, np.intp)
        self.refusals: list[tuple[Rejection, int]] = []
        """Verdicts of nodes that cannot be made to fit, with the number of nodes."""
        self.without_victims: list[int] = []
        """Rows that take the pod as they are: only an extender can have refused them."""
        self.faults: list[str] = []
        """Why nodes could not be tried: errors of the attempt, unless there is a candidate."""
        self._dry_run = kept
        self.single: dict[int, tuple[Pod, ...]] = {}
        """The victims on nodes that were tried alone, by row."""
        self._single_harm: dict[int, tuple[int, ...]] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def victims(self, row: int) -> tuple[Pod, ...]:
        """The pods that would have to leave, the most important first."""
        found = self.single.get(row)
        return self._dry_run.victims_on(row) if found is None else found

    def harm(self, row: int) -> tuple[int, ...]:
        """How bad that would be, by the measures of kept_dry_run.HARMS, in this order: the less the better."""
        return self._single_harm.get(row) or tuple(self._dry_run.harm[:, row].tolist())

    def on(self, row: int) -> Victims:
        """The victims on a candidate, and how many of them violate a disruption budget, as extenders get them."""
        return Victims(self.victims(row), self.violations(row))

    def replaced(self, victims: Mapping[int, Victims]) -> "Findings":
        """These findings with other candidates."""
        other = Findings(self._dry_run)
        for row, on in victims.items():
            other._add_single(row, on.pods, on.violations)
        return other

    def violations(self, row: int) -> int:
        """How many of the victims break a disruption budget."""
        return self.harm(row)[0]

    def is_unstarted(self, row: int) -> bool:
        """Whether the most important victims on the node have not started yet."""
        return self.harm(row)[-1] == -NOT_STARTED_NS

    def has_harmless(self) -> bool:
        """Whether a candidate breaks no budget. Nodes that are tried together have no pods with budgets."""
        return len(self.rows) > len(self.single) or any(harm[0] == 0 for harm in self._single_harm.values())

    def least_harmful(self) -> RowArray:
        """The candidates that are equal by all measures, after each measure in turn has kept its best.

        Upstream's pickOneNodeForPreemption: fewest budgets broken, lowest highest priority, lowest sum of priorities,
        fewest victims, latest start of the most important victims.
        """
        harm = self._dry_run.harm
        if self._single_harm:
            harm = harm.copy()
            for row, measures in self._single_harm.items():
                harm[:, row] = measures
        left = self.rows
        for measure in harm:
            harms = measure[left]
            left = left[harms == harms.min()]
        return left

    def add_tried(self, rows: RowArray) -> None:
        """Candidates that were tried together."""
        self.rows = np.concatenate((self.rows, rows))

    def try_alone(self, row: int, search: Callable[[int], Rejection | tuple[tuple[Pod, ...], int]]) -> None:
        """Note the answer of `search` about a row: why it cannot be made to fit, or its victims and how many of them break
        budgets. Parity: a filter that fails there is a fault of this node alone."""
        try:
            answer = search(row)
        except AttemptError as fault:
            self.faults.append(str(fault))
            return
        if isinstance(answer, Rejection):
            self.refusals.append((answer, 1))
        elif not answer[0]:
            self.without_victims.append(row)
        else:
            self._add_single(row, *answer)

    def _add_single(self, row: int, victims: tuple[Pod, ...], violations: int) -> None:
        self.rows = np.append(self.rows, row)
        self.single[row] = victims
        self._single_harm[row] = _harm_of(victims, violations)

    def take(self, other: "Findings") -> None:
        """All that another search for the same pod found."""
        self.rows = np.concatenate((self.rows, other.rows))
        self.single |= other.single
        self._single_harm |= other._single_harm
        self.refusals += other.refusals
        self.without_victims += other.without_victims
        self.faults += other.faults


MayLeave = Callable[[Sequence[Pod]], list[Pod]]
"""The pods of a node, the most important first -> those of them that may be victims, in the same order."""


class NodeDryRun:
    """Tries nodes alone, with the filters asked after each pod that leaves or comes back."""

    def __init__(
        self,
        failure: RejectedAttempt,
        ranks: PodRanks,
        budgets: Sequence[Budget],
        may_leave: MayLeave | None = None,
    ) -> None:
        """`may_leave` says which pods of a node may be victims; without it, those of lower priority."""
        self._attempt = failure.attempt
        self._nominated = failure.nominated
        self._may_leave = may_leave or self._of_lower_priority
        self._pod = failure.attempt.context.pod
        self._ranks = ranks
        self._budgets = budgets
        self._sketch: NodeTable | None = None

    def harm_on(self, row: int) -> tuple[tuple[Pod, ...], tuple[int, ...]] | None:
        """The victims on a node, and the harm by the measures of kept_dry_run.HARMS; None: it is no candidate."""
        try:
            answer = self.search(row)
        except AttemptError:  # told by `Findings.try_alone`, if there is no candidate
            return None
        if isinstance(answer, Rejection) or not answer[0]:
            return None
        return answer[0], _harm_of(*answer)

    def search(self, row: int) -> Rejection | tuple[tuple[Pod, ...], int]:
        """(victims, number of them that break budgets) on one node, or why the node cannot be made to fit.

        One sketch of the table serves all rows: each what-if changes its own row only.
        """
        if self._sketch is None:
            self._sketch = self._attempt.context.nodes.sketch()
        leaving = self._may_leave(self._ranks.pods(row))
        if not leaving:
            return NO_VICTIMS_FOUND
        node = OneNode(self._attempt, self._sketch, row)
        for pod in leaving:
            node.remove(pod)
        # Pods nominated to the node with the same or higher priority keep their room: the pod has to fit beside them.
        beside = self._nominated.beside(self._pod, self._ranks.nodes.names[row])
        refusal = node.verdict(beside)
        if refusal is not None:
            return refusal
        breaking, others = split_by_budget(leaving, self._budgets)
        victims: list[Pod] = []
        for pod in (*breaking, *others):
            node.add(pod)
            if not node.fits(beside):
                node.remove(pod)
                victims.append(pod)
        # They came back in two groups; victims are listed by importance.
        if breaking and others:
            victims = by_importance(victims)
        return tuple(victims), sum(pod in breaking for pod in victims)

    def _of_lower_priority(self, pods: Sequence[Pod]) -> list[Pod]:
        return [pod for pod in pods if pod.priority < self._pod.priority]

    def have_lower(self, rows: RowArray) -> NDArray[np.bool_]:
        """Which of the rows have pods of lower priority. Hot: in a full cluster most have none, and a row takes 30 µs."""
        lower = self._ranks.priority[:, rows] < self._pod.priority
        return np.asarray(lower.any(0), np.bool_)

    @property
    def has_budgets(self) -> bool:
        return bool(self._budgets)

    def budgeted_rows(self) -> NDArray[np.bool_] | None:
        """Rows with more pods of a disruption budget than it lets go: their victims depend on more than sums. None: no
        budgets."""
        if not self._budgets:
            return None
        height = self._ranks.nodes.height
        budgeted = np.zeros(height, np.bool_)
        for budget in self._budgets:
            predicate = PodPredicate(budget.selector, frozenset((budget.namespace,)))
            tally = self._attempt.context.nodes.tallies.matching((predicate,), with_terminating=True)
            budgeted |= tally.counts[:height] > max(budget.allowed, 0)
        return budgeted


class PreemptionDryRun:
    """Finds all candidates for one pod."""

    def __init__(self, failure: RejectedAttempt, ranks: PodRanks, kept: KeptDryRun, budgets: Sequence[Budget]) -> None:
        self._failure = failure
        self._attempt = failure.attempt
        self._dry_run = kept
        self._alone = NodeDryRun(failure, ranks, budgets)

    def nothing(self) -> Findings:
        """Findings without any candidate yet. Settles the dry run first, so that its arrays have room for all rows."""
        self._dry_run.settle()
        return Findings(self._dry_run)

    def search(self, rows: RowArray) -> Findings:
        """Try these rows, together where sums alone decide."""
        findings = self.nothing()
        if is_batchable(self._attempt):
            self._search_together(rows, findings)
        else:
            self.search_singly(rows, findings)
        return findings

    def _search_together(self, rows: RowArray, findings: Findings) -> None:
        """Read the outcome of each row from the dry run: a candidate, no victims, or the filter that still rejects.

        Budgets say which pods have to leave, not whether it helps that all of them do. So only candidates are tried alone,
        if they have more pods of a budget than it lets go.
        """
        kept = self._dry_run
        kept.refresh(self._attempt, rows, self._failure.nominated)
        outcome = kept.outcome[rows].astype(np.int16)
        for index in np.flatnonzero(np.bincount(outcome - NO_VICTIMS)) + NO_VICTIMS:
            here = rows[outcome == index]
            if index == PASSED:
                budgeted = self._alone.budgeted_rows()
                if budgeted is not None:
                    self.search_singly(here[budgeted[here]], findings)
                    here = here[~budgeted[here]]
                findings.add_tried(self._with_victims(here, findings))
            elif index == NO_VICTIMS:
                findings.refusals.append((NO_VICTIMS_FOUND, len(here)))
            else:
                for code, count in count_codes(kept.code[here]):
                    findings.refusals.append((self._attempt.rejection(int(index), code), count))

    def _with_victims(self, rows: RowArray, findings: Findings) -> RowArray:
        """Rows that have victims. Hot: a node that filters rejected has victims if it fits after evictions, so only the
        objections of extenders make a look necessary."""
        verdicts = self._failure.verdicts
        if verdicts is None or not verdicts.objections:
            return rows
        has_victims = self._dry_run.victims[:, rows].any(0)
        findings.without_victims += rows[~has_victims].tolist()
        return rows[has_victims]

    def search_singly(self, rows: RowArray, findings: Findings) -> None:
        """Search for victims on each of the rows alone, not in one batch. Writes candidates, rejections and rows that need no
        victims to `findings`."""
        has_lower = self._alone.have_lower(rows)
        if not has_lower.all():
            findings.refusals.append((NO_VICTIMS_FOUND, int(np.count_nonzero(~has_lower))))
        for row in rows[has_lower].tolist():
            findings.try_alone(row, self._alone.search)


def _harm_of(victims: tuple[Pod, ...], violations: int) -> tuple[int, ...]:
    """The five measures for victims that are known pod by pod; KeptDryRun._harm_of has the same for columns."""
    highest = victims[0].priority
    total = sum(pod.priority + PRIORITY_OFFSET for pod in victims)
    top = max(pod.priority for pod in victims)  # an extender may give them in any order
    started = min(start_ns(pod) for pod in victims if pod.priority == top)
    return violations, highest, total, len(victims), -started
