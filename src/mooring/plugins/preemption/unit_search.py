"""The dry run of preemption for a single pod on nodes with members of pod groups: victims leave in units.

A unit that is a whole group leaves on all nodes. On the candidate itself its pods leave the table; about those elsewhere only
the plugins are told that count pods over the whole cluster (PreFilterExtensions).
"""

from collections.abc import Sequence

from mooring.cluster.nodes.table import NodeTable
from mooring.framework.attempts.fit_errors import RejectedAttempt
from mooring.framework.attempts.refiltering import OneNode
from mooring.framework.contract.status import Rejection
from mooring.model.pod import Pod
from mooring.plugins.preemption.victim_order import VictimOrder, VictimUnit, split_by_budgets
from mooring.plugins.preemption.victim_search import NO_VICTIMS_FOUND, Budget, Findings


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
        for row in rows:
            findings.add_answer(row, self._search_row(row))

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
            if node.verdict(beside) is not None:
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
