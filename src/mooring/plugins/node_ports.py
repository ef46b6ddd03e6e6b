"""NodePorts: a host port can be given away once on a node."""

import numpy as np

from mooring.framework.cycle import Cycle
from mooring.framework.points import Codes, FilterPlugin, PreFilterPlugin, Reads, Rows, reads
from mooring.framework.status import SKIP, Rejection, Skip, curable


class NodePorts(PreFilterPlugin, FilterPlugin):
    name = "NodePorts"

    @reads(Reads.SHAPE)
    def pre_filter(self, cycle: Cycle) -> Skip | None:
        return None if cycle.shape.host_ports else SKIP

    @reads(Reads.ROW)
    def filter(self, cycle: Cycle, rows: Rows) -> Codes | None:
        ports, wanted = cycle.nodes.ports, cycle.shape.host_ports
        if not isinstance(rows, slice):
            taken = [any(ports.is_taken(row, port) for port in wanted) for row in rows.tolist()]
            return np.array(taken, np.int64)
        codes = np.zeros(cycle.nodes.height, np.int64)
        for port in wanted:
            codes[list(ports.conflicts(port))] = 1
        return codes[rows]

    def rejection(self, cycle: Cycle, code: int) -> Rejection:
        return curable("node(s) didn't have free ports for the requested pod ports")
