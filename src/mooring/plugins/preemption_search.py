"""The dry run of preemption: on which nodes the pod would fit if pods of lower priority left, and which they are.

Nodes on which sums alone decide are tried all at once (preemption_trial.py), the others node by node.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.ranks import NOT_STARTED_NS, PodRanks, by_importance, start_ns
from mooring.framework.attempt import count_codes
from mooring.framework.failure import FitFailure
from mooring.framework.memo import PASSED
from mooring.framework.status import Rejection, final
from mooring.framework.what_if import OneNode, RowArray, is_batchable
from mooring.model.affinity import PodPredicate
from mooring.model.pod import Pod
from mooring.plugins.preemption_budgets import Budget, split_by_budget
from mooring.plugins.preemption_trial import NO_VICTIMS, PRIORITY_OFFSET, Trial

NOBODY = final("No preemption victims found for incoming pod")


class Findings:
    """What a dry run found: candidates with the harm that each would do, and why other nodes are none."""

    def __init__(self, harm: NDArray[np.int64]) -> None:
        self.rows: RowArray = np.zeros(0, np.intp)
        self.harm = harm
        """By measure (preemption_trial.HARMS) and row; it means something only for candidates."""
        self.refusals: list[tuple[Rejection, int]] = []
        """Verdicts of nodes that cannot be made to fit, with the number of nodes."""
        self._single: dict[int, tuple[Pod, ...]] = {}
        self._trial: Trial | None = None

    def __len__(self) -> int:
        return len(self.rows)

    def victims(self, row: int) -> tuple[Pod, ...]:
        """Who would have to leave, the most important first."""
        found = self._single.get(row)
        if found is not None:
            return found
        assert self._trial is not None, "a candidate was tried alone or together with others"
        return self._trial.victims_on(row)

    def violations(self, row: int) -> int:
        """How many of them break a disruption budget."""
        return int(self.harm[0, row])

    def is_unstarted(self, row: int) -> bool:
        """Whether the most important victims on the node have not started yet."""
        return bool(self.harm[-1, row] == -NOT_STARTED_NS)

    def has_harmless(self) -> bool:
        """Whether there is a candidate that breaks no budget."""
        return bool((self.harm[0, self.rows] == 0).any())

    def least_harmful(self) -> RowArray:
        """The candidates among which only chance decides: the best by each measure in turn."""
        left = self.rows
        for measure in self.harm:
            harms = measure[left]
            left = left[harms == harms.min()]
        return left

    def add_tried(self, rows: RowArray, trial: Trial) -> None:
        """Candidates that were tried together."""
        self.rows = np.concatenate((self.rows, rows))
        self._trial = trial

    def add_single(self, row: int, victims: tuple[Pod, ...], violations: int) -> None:
        """A candidate that was tried alone."""
        if not self._single:
            self.harm = self.harm.copy()
        self.rows = np.append(self.rows, row)
        self.harm[:, row] = _harm_of(victims, violations)
        self._single[row] = victims

    def take(self, other: "Findings") -> None:
        """All that another search for the same pod found."""
        for row, victims in other._single.items():
            self.add_single(row, victims, other.violations(row))
        tried = np.array([row not in other._single for row in other.rows.tolist()], np.bool_)
        self.rows = np.concatenate((self.rows, other.rows[tried]))
        self._trial = other._trial or self._trial
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

    def nothing(self) -> Findings:
        """Nothing found so far."""
        self._trial.settle()
        return Findings(self._trial.harm)

    def search(self, rows: RowArray) -> Findings:
        """Try these rows."""
        findings = self.nothing()
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
                findings.add_tried(here, trial)
            elif index == NO_VICTIMS:
                findings.refusals.append((NOBODY, len(here)))
            else:
                for code, count in count_codes(trial.code[here]):
                    findings.refusals.append((self._attempt.rejection(int(index), code), count))

    def _search_singly(self, rows: RowArray, findings: Findings) -> None:
        sketch = self._attempt.cycle.nodes.sketch()
        for row in rows.tolist():
            answer = self._search_one(OneNode(self._attempt, sketch, row), row)
            if isinstance(answer, Rejection):
                findings.refusals.append((answer, 1))
            else:
                findings.add_single(row, *answer)

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
