"""The record of a decision: where a pod goes and by which margin, or why it goes nowhere."""

from collections import Counter

import msgspec
import numpy as np
from msgspec.structs import astuple

from mooring.cluster.columns.kernels import Mask
from mooring.framework.attempts.attempt import Attempt, Narrowing, PodRejected, Verdicts, rejecting_filters
from mooring.framework.attempts.fit_errors import RejectedAttempt, found_rejections
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.status import Code, Rejection

NO_NODES = "no nodes available to schedule pods"
"""Upstream's ErrNoNodesAvailable, word for word."""
EXTENDER = "Extender"
"""The name that stands for extenders among the plugins that rejected a pod. The queue has any event wake such a pod
(scheduler.py): an extender does not say what could help."""


class Diagnosis(msgspec.Struct):
    """Why nodes were rejected: upstream's Diagnosis, with equal verdicts counted instead of listed.

    Thousands of nodes have a handful of distinct verdicts, so the size does not grow with the cluster.
    """

    node_count: int
    verdicts: list[tuple[Rejection, int]] = msgspec.field(default_factory=list)
    """Distinct verdicts of the nodes that were looked at, with the number of nodes."""
    absent: Rejection | None = None
    """The verdict of all nodes that were not looked at."""
    pod_rejected: bool = False
    """PreFilter refused the pod: `absent` is its verdict for every node."""
    plugins: frozenset[str] = frozenset()
    """The plugins that rejected something."""

    @property
    def pending(self) -> frozenset[str]:
        """The plugins that wait for an event of their own: when it comes, the pod is tried without backoff."""
        return frozenset(rejection.plugin for rejection, _ in self.verdicts if rejection.code is Code.Pending)

    def all_verdicts(self) -> list[tuple[Rejection, int]]:
        """The verdicts of all nodes, also of those that were not looked at."""
        others = self.node_count - sum(count for _, count in self.verdicts)
        return [*self.verdicts, (self.absent, others)] if self.absent is not None and others > 0 else self.verdicts

    def message(self) -> str:
        """The fit error, word for word as upstream writes it into events and conditions. The caller adds what
        PostFilter says.

        Parity: reasons are sorted as text, with their count in front: "10 x" comes before "2 y".
        """
        if not self.node_count:
            return NO_NODES
        head = f"0/{self.node_count} nodes are available:"
        if self.pod_rejected and self.absent is not None:
            return f"{head} {self.absent.message}."
        histogram: Counter[str] = Counter()
        for rejection, count in self.all_verdicts():
            for reason in rejection.reasons:
                histogram[reason] += count
        reasons = sorted(f"{count} {reason}" for reason, count in histogram.items())
        return f"{head} {', '.join(reasons)}." if reasons else head


class DecisionDetails(msgspec.Struct):
    """Everything about an attempt, node by node. Made only if the options ask for it (`explain`): it costs a pass in
    Python over all nodes."""

    feasible: list[str] = msgspec.field(default_factory=list)
    rejected: dict[str, Rejection] = msgspec.field(default_factory=dict)
    scores: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    """Node -> plugin -> score after normalising, times its weight; empty when fewer than two nodes were feasible."""
    totals: dict[str, int] = msgspec.field(default_factory=dict)


class _Decided(msgspec.Struct, eq=False):
    """Decisions are equal if they say the same. Their last field is the attempt behind them, which does not count."""

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return astuple(self)[:-1] == astuple(other)[:-1]

    def __ne__(self, other: object) -> bool:
        """Structs have one of their own, which would not ask `__eq__`."""
        return not self == other


class Placement(_Decided, eq=False):
    """The pod goes to `node`."""

    node: str
    row: int
    score: int = 0
    """Total score of the node; 0 if it was the only feasible node, because then nodes are not scored."""
    feasible_count: int = 1
    best: list[tuple[str, int]] = msgspec.field(default_factory=list)
    """The three best nodes with their totals, when more than one was feasible and records are asked for."""
    diagnosis: Diagnosis | None = None
    details: DecisionDetails | None = None
    context: SchedulingContext | None = None
    """The context of the attempt, which the plugins of the binding cycle get as their argument."""


class NoFit(_Decided, eq=False):
    """The pod fits nowhere."""

    diagnosis: Diagnosis
    details: DecisionDetails | None = None
    failure: RejectedAttempt | None = None
    """For PostFilter; good until the cluster changes. None when there are no nodes at all."""

    @property
    def message(self) -> str:
        return self.diagnosis.message()


class DecisionError(msgspec.Struct):
    """The attempt ended in an error: a plugin could not do its work."""

    error: str


Decision = Placement | NoFit | DecisionError


def diagnose(attempt: Attempt, verdicts: Verdicts, narrowing: Narrowing) -> Diagnosis:
    """Gather the distinct verdicts. Costs a few passes over the columns, whatever the number of nodes."""
    found = [(rejection, count) for _, _, count, rejection in found_rejections(attempt, verdicts)]
    # Parity: a plugin that named the only nodes counts as one that rejected something.
    plugins = [*(rejection.plugin for rejection, _ in found), *narrowing.plugins]
    if verdicts.is_thinned:
        plugins.append(EXTENDER)
    found += [(objection, 1) for objection in verdicts.objections.values()]
    count = count_nodes(attempt, narrowing.within)
    return Diagnosis(count, found, narrowing.rejection_of_others(), plugins=frozenset(plugins))


def count_nodes(attempt: Attempt, within: Mask | None) -> int:
    """How many nodes there are to look at: all, or those of a placement."""
    return attempt.context.nodes.alive_count if within is None else int(np.count_nonzero(within))


def diagnose_rejected_pod(attempt: Attempt, refused: PodRejected, within: Mask | None = None) -> Diagnosis:
    """PreFilter rejected the pod itself: its verdict stands for every node, and no node was looked at."""
    count = count_nodes(attempt, within)
    return Diagnosis(count, [], refused.rejection, pod_rejected=True, plugins=refused.plugins)


def rejections_by_node(attempt: Attempt, verdicts: Verdicts) -> dict[str, Rejection]:
    """The verdict of each node that a filter or an extender rejected. An extender's word replaces a filter's."""
    nodes = attempt.context.nodes
    rejected = {}
    for index in rejecting_filters(verdicts):
        codes = attempt.codes(verdicts, index)
        for row in np.flatnonzero(verdicts.first == index):
            rejected[nodes.names[row]] = attempt.rejection(index, int(codes[row]))
    return rejected | verdicts.objections
