"""The dry run of preemption: on which nodes the pod would fit if pods of lower priority left, and which they are.

All of them leave; then, in the order of their importance, each comes back if the pod still fits with it. Where sums
alone decide, this is done for all nodes at once, one round for each pod of the fullest node; otherwise node by node.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.ranks import PodRanks, by_importance
from mooring.framework.failure import FitFailure
from mooring.framework.memo import PASSED
from mooring.framework.status import Rejection, final
from mooring.framework.what_if import Batch, OneNode, RowArray, is_batchable
from mooring.model.affinity import PodPredicate
from mooring.model.pod import Pod
from mooring.plugins.preemption_budgets import Budget, split_by_budget

NO_VICTIMS = final("No preemption victims found for incoming pod")


@dataclass(frozen=True, slots=True)
class Candidate:
    """A node on which the pod fits once these pods have left, the most important of them first."""

    row: int
    victims: tuple[Pod, ...]
    violations: int = 0
    """How many of the victims break a disruption budget."""


@dataclass(slots=True)
class Findings:
    """What a dry run found: candidates, and why other nodes are none."""

    candidates: list[Candidate] = field(default_factory=list)
    refusals: list[tuple[Rejection, int]] = field(default_factory=list)
    """Verdicts of nodes that cannot be made to fit, with the number of nodes."""


class DryRun:
    """Looks for candidates for one pod."""

    def __init__(self, failure: FitFailure, ranks: PodRanks, budgets: Sequence[Budget]) -> None:
        self._failure = failure
        self._attempt = failure.attempt
        self._pod = failure.attempt.cycle.pod
        self._ranks = ranks
        self._budgets = budgets
        self._sketch = failure.attempt.cycle.nodes.sketch()

    def search(self, rows: RowArray) -> Findings:
        """Try these rows."""
        findings = Findings()
        lower = self._ranks.priority[:, rows] < self._pod.priority
        has_victims = lower.any(0)
        if not has_victims.all():
            findings.refusals.append((NO_VICTIMS, int(np.count_nonzero(~has_victims))))
            rows, lower = rows[has_victims], lower[:, has_victims]
        together = np.zeros(len(rows), np.bool_)
        if is_batchable(self._attempt):
            together = ~self._is_budgeted(rows)
        if together.any():
            self._search_together(rows[together], lower[:, together], findings)
        for row in rows[~together].tolist():
            self._search_one(row, findings)
        return findings

    # ---- all nodes at once

    def _search_together(self, rows: RowArray, lower: NDArray[np.bool_], findings: Findings) -> None:
        nominated = self._failure.nominated
        batch = Batch(self._attempt, nominated.load_beside(self._pod) if nominated else None)
        leaving = lower.sum(0)
        batch.shift(rows, -self._requests_of(rows, lower), -leaving)
        fits = self._note_refusals(batch, rows, findings)
        rows, lower, leaving = rows[fits], lower[:, fits], leaving[fits]
        if not len(rows):
            return
        victims = self._reprieve(batch, rows, lower, leaving)
        for i, row in enumerate(rows.tolist()):
            pods = self._ranks.pods(row)
            findings.candidates.append(Candidate(row, tuple(pods[slot] for slot in np.flatnonzero(victims[:, i]))))

    def _reprieve(
        self, batch: Batch, rows: RowArray, lower: NDArray[np.bool_], leaving: NDArray[np.int64]
    ) -> NDArray[np.bool_]:
        """Let pods come back, the most important of each node first. Returns who must leave, by slot and row."""
        victims = np.zeros(lower.shape, np.bool_)
        first = lower.argmax(0)
        for turn in range(int(leaving.max())):
            active = np.flatnonzero(leaving > turn)
            here, slots = rows[active], first[active] + turn
            requests = self._ranks.request[:, slots, here]
            batch.shift(here, requests, np.ones(len(here), np.int64))
            stays_out = batch.ask(here).first != PASSED
            if stays_out.any():
                batch.shift(here[stays_out], -requests[:, stays_out], np.full(np.count_nonzero(stays_out), -1))
                victims[slots[stays_out], active[stays_out]] = True
        return victims

    def _requests_of(self, rows: RowArray, lower: NDArray[np.bool_]) -> NDArray[np.int64]:
        total = np.zeros((len(self._ranks.request), len(rows)), np.int64)
        for slot in np.flatnonzero(lower.any(1)):
            total += self._ranks.request[:, slot, rows] * lower[slot]
        return total

    def _note_refusals(self, batch: Batch, rows: RowArray, findings: Findings) -> NDArray[np.bool_]:
        """Which rows fit now; the verdicts of the others are noted."""
        found = batch.ask(rows)
        for index in np.unique(found.first[found.first != PASSED]):
            codes = found.codes[int(index)][found.first == index]
            for code, count in zip(*np.unique(codes, return_counts=True), strict=True):
                findings.refusals.append((self._attempt.rejection(int(index), int(code)), int(count)))
        fits: NDArray[np.bool_] = found.first == PASSED
        return fits

    def _is_budgeted(self, rows: RowArray) -> NDArray[np.bool_]:
        """Rows with pods that a disruption budget protects: their victims depend on more than sums."""
        budgeted = np.zeros(len(rows), np.bool_)
        for budget in self._budgets:
            predicate = PodPredicate(budget.selector, frozenset((budget.namespace,)))
            tally = self._attempt.cycle.nodes.tallies.matching((predicate,), with_terminating=True)
            budgeted |= tally.counts[rows] > 0
        return budgeted

    # ---- node by node

    def _search_one(self, row: int, findings: Findings) -> None:
        node = OneNode(self._attempt, self._sketch, row)
        leaving = [pod for pod in self._ranks.pods(row) if pod.priority < self._pod.priority]
        for pod in leaving:
            node.remove(pod)
        nominated = self._failure.nominated
        beside = nominated.beside(self._pod, self._sketch.names[row]) if nominated else []
        refusal = node.verdict(beside)
        if refusal is not None:
            findings.refusals.append((refusal, 1))
            return
        breaking, others = split_by_budget(leaving, self._budgets)
        victims, violations = [], 0
        for pod in (*breaking, *others):
            node.add(pod)
            if node.verdict(beside) is not None:
                node.remove(pod)
                victims.append(pod)
                violations += pod in breaking
        findings.candidates.append(Candidate(row, tuple(by_importance(victims)), violations))
