"""NodeUnschedulable: cordoned nodes take only pods that tolerate it."""

from collections.abc import Sequence

import numpy as np

from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import NODE, POD, Action, Change, ClusterEvent, Registration
from mooring.framework.contract.points import Codes, FilterPlugin, Reads, Rows, reads
from mooring.framework.contract.status import Rejection, final
from mooring.model.node import NO_SCHEDULE, Taint
from mooring.model.pod import Pod
from mooring.model.shape import PodPart
from mooring.plugins.hints import ITSELF, is_itself, new_node_of, nodes_of, pods_of

CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)
"""The taint that the node controller adds to cordoned nodes. Upstream checks the field and a toleration of this taint,
so that pods of DaemonSets go to cordoned nodes."""


class NodeUnschedulable(FilterPlugin):
    """Looks at spec.unschedulable, which is set before the controller adds the taint."""

    name = "NodeUnschedulable"
    is_same_in_all_profiles = True

    def events(self) -> Sequence[Registration]:
        return (
            Registration(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_TAINT), _node_opened),
            Registration(ClusterEvent(POD, Action.UPDATE_POD_TOLERATION), _tolerates_now, ITSELF),
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
    """Whether the waiting pod itself changed and tolerates cordoned nodes now."""
    _, new = pods_of(change)
    return new is not None and is_itself(pod, change) and new.shape.tolerance.covers(CORDONED)


PLUGINS = (NodeUnschedulable,)
