"""The dry run of preemption: on which nodes the pod would fit if pods of lower priority left, and which they are.

Nodes on which sums alone decide are tried all at once (preemption_trial.py), the others node by node.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.ranks import NOT_STARTED_NS, PodRanks, by_importance, start_ns
from mooring.framework.failure import FitFailure
from mooring.framework.memo import PASSED
from mooring.framework.status import Rejection, final
from mooring.framework.what_if import OneNode, RowArray, is_batchable
from mooring.model.affinity import PodPredicate
from mooring.model.pod import Pod
from mooring.plugins.preemption_budgets import Budget, split_by_budget
from mooring.plugins.preemption_trial import HARMS, NO_VICTIMS, PRIORITY_OFFSET, Trial

NOBODY = final("No preemption victims found for incoming pod")


class Findings:
    """What a dry run found: candidates with the harm that each would do, and why other nodes are none."""

    def __init__(self) -> None:
        self.rows: RowArray = np.zeros(0, np.intp)
        self.harm: NDArray[np.int64] = np.zeros((HARMS, 0), np.int64)
        """By measure and candidate: see preemption_trial.HARMS."""
        self.refusals: list[tuple[Rejection, int]] = []
        """Verdicts of nodes that cannot be made to fit, with the number of nodes."""
        self._source: NDArray[np.intp] = np.zeros(0, np.intp)
        self._victims: list[Callable[[int], tuple[Pod, ...]]] = []

    def __len__(self) -> int:
        return len(self.rows)

    def victims(self, row: int) -> tuple[Pod, ...]:
        """Who would have to leave, the most important first."""
        tell = self._victims[int(self._source[self.rows == row][0])]
        return tell(row)

    def violations(self, row: int) -> int:
        """How many of them break a disruption budget."""
        return int(self.harm[0, self.rows == row][0])

    def is_unstarted(self, row: int) -> bool:
        """Whether the most important victims on the node have not started yet."""
        return bool(self.harm[-1, self.rows == row][0] == -NOT_STARTED_NS)

    def has_harmless(self) -> bool:
        """Whether there is a candidate that breaks no budget."""
        return bool((self.harm[0] == 0).any())

    def least_harmful(self) -> RowArray:
        """The candidates among which only chance decides: the best by each measure in turn."""
        left = np.arange(len(self.rows))
        for measure in self.harm:
            left = left[measure[left] == measure[left].min()]
        return self.rows[left]

    def add(self, rows: RowArray, harm: NDArray[np.int64], victims: Callable[[int], tuple[Pod, ...]]) -> None:
        """More candidates, and who tells their victims."""
        self.rows = np.concatenate((self.rows, rows))
        self.harm = np.concatenate((self.harm, harm), axis=1)
        self._source = np.concatenate((self._source, np.full(len(rows), len(self._victims))))
        self._victims.append(victims)

    def take(self, other: "Findings") -> None:
        self.add(other.rows, other.harm, other.victims)
        self.refusals += other.refusals


class DryRun:
    """Looks for candidates for one pod."""

    def __init__(self, failure: FitFailure, ranks: PodRanks, trial: Trial, budgets: Sequence[Budget]) -> None:
        self._failure = failure
        self._attempt = failure.attempt
        self._pod = failure.attempt.cycle.pod
        self._ranks = ranks
        self._trial = trial
        self._budgets = budgets

    def search(self, rows: RowArray) -> Findings:
        """Try these rows."""
        findings = Findings()
        together = np.zeros(len(rows), np.bool_)
        if is_batchable(self._attempt):
            together = ~self._is_budgeted(rows)
        if together.any():
            self._search_together(rows[together], findings)
        if not together.all():
            self._search_singly(rows[~together], findings)
        return findings

    def _search_together(self, rows: RowArray, findings: Findings) -> None:
        trial = self._trial
        trial.refresh(self._attempt, rows, self._failure.nominated)
        outcome = trial.outcome[rows].astype(np.int16)
        for index in np.flatnonzero(np.bincount(outcome - NO_VICTIMS)) + NO_VICTIMS:
            here = rows[outcome == index]
            if index == PASSED:
                findings.add(here, trial.harm[:, here], trial.victims_on)
            elif index == NO_VICTIMS:
                findings.refusals.append((NOBODY, len(here)))
            else:
                for code, count in zip(*np.unique(trial.code[here], return_counts=True), strict=True):
                    findings.refusals.append((self._attempt.rejection(int(index), int(code)), int(count)))

    def _search_singly(self, rows: RowArray, findings: Findings) -> None:
        found: dict[int, tuple[Pod, ...]] = {}
        harms = []
        sketch = self._attempt.cycle.nodes.sketch()
        for row in rows.tolist():
            answer = self._search_one(OneNode(self._attempt, sketch, row), row)
            if isinstance(answer, Rejection):
                findings.refusals.append((answer, 1))
            else:
                found[row] = answer[0]
                harms.append(_harm_of(*answer))
        if found:
            findings.add(np.array(list(found), np.intp), np.array(harms, np.int64).T, found.__getitem__)

    def _search_one(self, node: OneNode, row: int) -> Rejection | tuple[tuple[Pod, ...], int]:
        """(victims, budgets broken) on one node, or why it cannot be made to fit."""
        leaving = [pod for pod in self._ranks.pods(row) if pod.priority < self._pod.priority]
        if not leaving:
            return NOBODY
        for pod in leaving:
            node.remove(pod)
        nominated = self._failure.nominated
        beside = nominated.beside(self._pod, self._ranks.nodes.names[row]) if nominated else []
        refusal = node.verdict(beside)
        if refusal is not None:
            return refusal
        breaking, others = split_by_budget(leaving, self._budgets)
        victims: list[Pod] = []
        for pod in (*breaking, *others):
            node.add(pod)
            if node.verdict(beside) is not None:
                node.remove(pod)
                victims.append(pod)
        return tuple(by_importance(victims)), sum(pod in breaking for pod in victims)

    def _is_budgeted(self, rows: RowArray) -> NDArray[np.bool_]:
        """Rows with pods that a disruption budget protects: their victims depend on more than sums."""
        budgeted = np.zeros(len(rows), np.bool_)
        for budget in self._budgets:
            predicate = PodPredicate(budget.selector, frozenset((budget.namespace,)))
            tally = self._attempt.cycle.nodes.tallies.matching((predicate,), with_terminating=True)
            budgeted |= tally.counts[rows] > 0
        return budgeted


def _harm_of(victims: tuple[Pod, ...], violations: int) -> tuple[int, ...]:
    highest = victims[0].priority
    total = sum(pod.priority + PRIORITY_OFFSET for pod in victims)
    started = min(start_ns(pod) for pod in victims if pod.priority == highest)
    return violations, highest, total, len(victims), -started
