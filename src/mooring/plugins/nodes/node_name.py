"""NodeName: a pod that names its node goes there and nowhere else."""

from collections.abc import Sequence

import numpy as np

from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import NODE, Action, ClusterEvent, Registration
from mooring.framework.contract.points import Codes, FilterPlugin, NodeNames, PreFilterPlugin, Reads, Rows, reads
from mooring.framework.contract.status import Rejection, final
from mooring.model.pod import Pod
from mooring.model.shape import PodPart


class NodeName(PreFilterPlugin, FilterPlugin):
    """Only for pods that already have spec.nodeName when they are scheduled, as in dry runs: the scheduler sees others
    as assigned."""

    name = "NodeName"
    is_asked_if_concerned = True

    def events(self) -> Sequence[Registration]:
        return (Registration(ClusterEvent(NODE, Action.ADD)),)

    @classmethod
    def concerns(cls, pod: Pod) -> bool:
        """Pods without a node name are not asked about at all, which is nearly all of them."""
        return bool(pod.spec.node_name)

    @reads(Reads.CLUSTER, PodPart.NODE_SELECTION)
    def pre_filter(self, context: SchedulingContext) -> NodeNames:
        """Keep all other nodes out of the attempt, so that preemption looks at none of them. Nothing is kept, as for
        `filter`. Hot: it never skips, so any part may be named for that, and without one each new shape would have a memo for
        the whole of it: 5 µs."""
        return NodeNames(frozenset((context.pod.spec.node_name,)))

    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        """Rejects all rows but one. Without `@reads`, because spec.nodeName is not part of the shape: nothing may be
        kept under it."""
        wanted = context.pod.spec.node_name
        others = np.ones(context.nodes.height, np.int64)
        row = context.nodes.row_book.get(wanted)
        if row is not None:
            others[row] = 0
        return others[rows]

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        return final("node(s) didn't match the requested node name")


PLUGINS = (NodeName,)
