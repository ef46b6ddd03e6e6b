"""Why nodes were rejected: the verdicts of an attempt, grouped by the first plugin that rejected and its words."""

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.table import NodeTable
from mooring.framework.attempts.attempt import Attempt, Verdicts, rejecting_filters
from mooring.framework.attempts.fit_errors import RejectedAttempt, rejecting_codes
from mooring.framework.contract.status import Code, Rejection
from mooring.framework.kept.feasible import NARROWED_OUT
from mooring.model.quantity import show_amount
from mooring.scheduler.decision import NoFit

RowArray = NDArray[np.intp]
EXAMPLES = 3
"""How many nodes a reason names."""


@dataclass(frozen=True, slots=True)
class Amount:
    """A resource that is missing: what the pod asks for, and the most that a node has left. Units of the node table."""

    resource: str
    wants: int
    largest_free: int
    node: str
    """The node with the largest free amount; empty if no node has the resource."""
    largest: int = 0
    """The most that one of these nodes has in all: with less than the pod asks for, no pod that leaves can help. Of all
    nodes, if none of them has as much."""
    fits_no_node: bool = False
    """Whether no node of the cluster has as much in all."""

    def words(self) -> str:
        """`wants 2, largest free 1500m on a-2`, or that no node is large enough."""
        wants, largest, free = (show_amount(self.resource, n) for n in (self.wants, self.largest, self.largest_free))
        if not self.node:
            return f"wants {wants}, and none of these nodes has any"
        if self.wants > self.largest:
            none = "no node" if self.fits_no_node else "none of these nodes"
            return f"wants {wants}, but {none} is large enough (largest {largest})"
        return f"wants {wants}, largest free {free} on {self.node}"

    def content(self) -> dict[str, Any]:
        return {
            "resource": self.resource,
            "wants": self.wants,
            "largestFree": self.largest_free,
            "node": self.node,
            "largest": self.largest,
            "fitsNoNode": self.fits_no_node,
            "text": self.words(),
        }


@dataclass(frozen=True, slots=True)
class Reason:
    """Nodes that were rejected for the same reason."""

    plugin: str
    message: str
    """Upstream's words."""
    rows: RowArray = field(repr=False)
    nodes: tuple[str, ...] = ()
    """Some of the nodes, by name."""
    can_evict: bool = False
    """Whether the verdict says that the pod could fit if other pods left."""
    amounts: tuple[Amount, ...] = ()
    details: tuple[str, ...] = ()
    """What exactly is in the way: taints, selector terms, other pods."""

    @property
    def count(self) -> int:
        return len(self.rows)

    def content(self) -> dict[str, Any]:
        return {
            "plugin": self.plugin,
            "message": self.message,
            "nodes": self.count,
            "examples": list(self.nodes),
            "evictionCanHelp": self.can_evict,
            "amounts": [amount.content() for amount in self.amounts],
            "details": list(self.details),
        }


def reasons_of(decision: NoFit) -> list[Reason]:
    """The reasons of all nodes, those of most nodes first; without amounts and details."""
    failure = decision.failure
    if failure is None:
        return []
    nodes = failure.attempt.context.nodes
    if failure.verdicts is None:
        absent = decision.diagnosis.absent
        alive = np.flatnonzero(nodes.alive[: nodes.height])
        return [_reason(nodes, absent, alive)] if absent is not None else []
    found = _by_filter(failure.attempt, failure.verdicts) + _others(failure, failure.verdicts)
    return sorted(found, key=lambda reason: -reason.count)


def _by_filter(attempt: Attempt, verdicts: Verdicts) -> list[Reason]:
    """One reason for each filter and text; a filter may have several codes with the same text."""
    nodes, grouped = attempt.context.nodes, dict[Rejection, list[RowArray]]()
    for index in rejecting_filters(verdicts):
        codes = attempt.codes(verdicts, index)[: len(verdicts.first)]
        here = verdicts.first == index
        for code, _ in rejecting_codes(attempt, verdicts, index):
            grouped.setdefault(attempt.rejection(index, code), []).append(np.flatnonzero(here & (codes == code)))
    return [_reason(nodes, rejection, np.concatenate(rows)) for rejection, rows in grouped.items()]


def _others(failure: RejectedAttempt, verdicts: Verdicts) -> list[Reason]:
    """The nodes that PreFilter left out, so that no filter looked at them."""
    nodes = failure.attempt.context.nodes
    left_out = np.flatnonzero((verdicts.first == NARROWED_OUT) & nodes.alive[: len(verdicts.first)])
    return [_reason(nodes, failure.absent, left_out)] if failure.absent is not None and len(left_out) else []


def _reason(nodes: NodeTable, rejection: Rejection, rows: RowArray) -> Reason:
    return Reason(
        rejection.plugin or "PreFilter",
        rejection.message,
        rows,
        first_names(nodes, rows),
        rejection.code is Code.Unschedulable,
    )


def first_names(nodes: NodeTable, rows: RowArray, limit: int = EXAMPLES) -> tuple[str, ...]:
    """The names of the first rows, in the order of names."""
    return tuple(sorted(nodes.names[row] for row in rows.tolist())[:limit])
