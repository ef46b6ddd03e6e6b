"""NodeUnschedulable: cordoned nodes take only pods that tolerate it.
TaintToleration: keeps pods off nodes whose taints they do not tolerate, and prefers nodes with fewer soft taints."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from mooring.cluster.columns.kernels import scale_to_max
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import (
    NODE,
    TARGET_POD,
    Action,
    Change,
    ClusterEvent,
    Registration,
    new_node_of,
    nodes_of,
    pods_of,
)
from mooring.framework.contract.points import (
    Codes,
    FilterPlugin,
    Handle,
    Need,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    Rows,
    ScorePlugin,
    Scores,
    reads,
)
from mooring.framework.contract.status import Rejection, Skip, final
from mooring.model.node import COMPARISON_GATE, NO_SCHEDULE, PREFER_NO_SCHEDULE, Taint
from mooring.model.pod import Pod
from mooring.model.shape import PodPart

CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
"""The taint that the node controller adds to cordoned nodes. Upstream checks the field and a toleration of this taint,
so that pods of DaemonSets go to cordoned nodes."""


class _TolerationPlugin(PreFilterPlugin, FilterPlugin):
    """A filter that goes by tolerations and facts of a node, so it has nothing to prepare."""

    skips_resizes = True
    is_same_in_all_profiles = True
    reads_other_nodes = False

    @reads(Reads.SHAPE, PodPart.TOLERATIONS)
    def pre_filter(self, context: SchedulingContext) -> None:
        """Nothing to prepare: upstream's PreFilter skips only pods whose resize is deferred."""


class NodeUnschedulable(_TolerationPlugin):
    """Looks at spec.unschedulable, which is set before the controller adds the taint."""

    name = "NodeUnschedulable"

    def events(self) -> Sequence[Registration]:
        return (
            Registration(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_TAINT), _node_opened),
            Registration(ClusterEvent(TARGET_POD, Action.UPDATE_POD_TOLERATION), _tolerates_now),
        )

    @reads(Reads.NODE, PodPart.TOLERATIONS)
    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        """Reads.NODE is right: the flag belongs to the node and the tolerations to the shape."""
        cordoned = context.nodes.unschedulable[rows]
        if not cordoned.any() or context.shape.tolerance.covers(CORDONED):
            return None
        return cordoned.astype(np.int64)

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        return final("node(s) were unschedulable")


def _node_opened(pod: Pod, change: Change) -> bool:
    """Whether a node came that is not cordoned, or was uncordoned."""
    (old, _), new = nodes_of(change), new_node_of(change)
    return not new.spec.unschedulable and (old is None or old.spec.unschedulable)


def _tolerates_now(pod: Pod, change: Change) -> bool:
    """Whether the pod, as it is now, tolerates cordoned nodes."""
    _, new = pods_of(change)
    return new is not None and new.shape.tolerance.covers(CORDONED)


class TaintToleration(_TolerationPlugin, PreScorePlugin, ScorePlugin):
    """Filter for NoSchedule and NoExecute, Score for PreferNoSchedule. Lists of taints are interned by the table."""

    name = "TaintToleration"
    needs = (Need("score", "preScore", 'failed to read "PreScoreTaintToleration" from cycleState: not found'),)

    def __init__(self, args: Any, handle: Handle) -> None:
        del args
        self._compares = handle.feature_gates.get(COMPARISON_GATE, False)

    def events(self) -> Sequence[Registration]:
        return (
            Registration(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_TAINT), self._node_tolerable),
            Registration(ClusterEvent(TARGET_POD, Action.UPDATE_POD_TOLERATION)),
        )

    @reads(Reads.NODE, PodPart.TOLERATIONS)
    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        """Reads.NODE is right: taints belong to the node and tolerations to the shape."""
        tolerance, compares = context.shape.tolerance, self._compares
        return _for_each_set(context, rows, lambda taints: not tolerance.covers_hard(taints, compares))

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        return final("node(s) had untolerated taint(s)")

    @reads(Reads.SHAPE, PodPart.TOLERATIONS)
    def pre_score(self, context: SchedulingContext, rows: Rows) -> Skip | None:
        """Upstream collects the tolerations here; the shape has them. Reads.SHAPE is right: it always says the same."""
        return None

    @reads(Reads.NODE, PodPart.TOLERATIONS)
    def score(self, context: SchedulingContext, rows: Rows) -> Scores | None:
        """The number of soft taints that the pod does not tolerate; `normalize` turns it around. Reads.NODE as for
        `filter`."""
        tolerance, compares = context.shape.tolerance, self._compares
        return _for_each_set(
            context,
            rows,
            lambda taints: sum(t.effect == PREFER_NO_SCHEDULE and not tolerance.covers(t, compares) for t in taints),
        )

    def normalize(self, context: SchedulingContext, scores: Scores, rows: Rows) -> Scores:
        return scale_to_max(scores, reverse=True)

    def _node_tolerable(self, pod: Pod, change: Change) -> bool:
        """Whether the pod tolerates the node as it is now, and did not before."""
        (old, _), new = nodes_of(change), new_node_of(change)
        tolerance, compares = pod.shape.tolerance, self._compares
        return tolerance.covers_hard(new.taints, compares) and (
            old is None or not tolerance.covers_hard(old.taints, compares)
        )


def _for_each_set(context: SchedulingContext, rows: Rows, answer: Callable[[tuple[Taint, ...]], int]) -> Codes | None:
    """Ask once for each distinct list of taints among the rows, then look the answer up for every row."""
    nodes = context.nodes
    codes = nodes.taints.codes[rows]
    answers = np.zeros(len(nodes.taints.values), np.int64)
    for code in np.flatnonzero(np.bincount(codes)):
        answers[code] = answer(nodes.taints.values[code])
    return answers[codes] if answers.any() else None


PLUGINS = (NodeUnschedulable, TaintToleration)
