"""NodeUnschedulable: cordoned nodes take only pods that tolerate it."""

import numpy as np

from mooring.framework.cycle import Cycle
from mooring.framework.points import Codes, FilterPlugin, Reads, Rows, reads
from mooring.framework.status import Rejection, final
from mooring.model.node import NO_SCHEDULE, Taint
from mooring.model.tolerations import tolerates

CORDONED = Taint(key="node.kubernetes.io/unschedulable", effect=NO_SCHEDULE)


class NodeUnschedulable(FilterPlugin):
    name = "NodeUnschedulable"

    @reads(Reads.NODE)
    def filter(self, cycle: Cycle, rows: Rows) -> Codes | None:
        cordoned = cycle.nodes.unschedulable[rows]
        if not cordoned.any() or tolerates(cycle.shape.tolerations, CORDONED):
            return None
        return cordoned.astype(np.int64)

    def rejection(self, cycle: Cycle, code: int) -> Rejection:
        return final("node(s) were unschedulable")
