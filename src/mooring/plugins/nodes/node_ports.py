"""NodePorts: a host port can be given away once on a node."""

from collections.abc import Sequence

import numpy as np

from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import (
    ASSIGNED_POD_DELETE,
    NODE,
    Action,
    Change,
    ClusterEvent,
    Registration,
    has_place,
    pods_of,
)
from mooring.framework.contract.points import Codes, FilterPlugin, Need, PreFilterPlugin, Reads, Rows, reads
from mooring.framework.contract.status import SKIP, Rejection, Skip, curable
from mooring.model.pod import Pod
from mooring.model.shape import PodPart, collide


class NodePorts(PreFilterPlugin, FilterPlugin):
    """The table keeps the host ports in use by row, with upstream's rule that 0.0.0.0 collides with every address."""

    name = "NodePorts"
    skips_resizes = True
    needs = (Need("filter", "preFilter", 'reading "PreFilterNodePorts" from cycleState: not found'),)
    is_same_in_all_profiles = True
    reads_other_nodes = False

    def events(self) -> Sequence[Registration]:
        return (
            Registration(ASSIGNED_POD_DELETE, _port_came_free),
            Registration(ClusterEvent(NODE, Action.ADD)),
        )

    @reads(Reads.SHAPE, PodPart.PORTS)
    def pre_filter(self, context: SchedulingContext) -> Skip | None:
        """SKIP for pods without host ports. Reads.SHAPE is right: ports are part of the pod's spec."""
        return None if context.shape.host_ports else SKIP

    @reads(Reads.COUNTS, PodPart.PORTS)
    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        """Rows on which a wanted port is taken. A few rows are asked one by one; for all rows it goes through the users
        of each port.

        Reads.COUNTS is right: the ports in use are those of the pods on the node, and a pod that comes or goes touches the
        row. Sums would not do (Reads.TOTALS), so preemption tries such nodes one by one.
        """
        if not isinstance(rows, slice):
            return np.array([self.filter_row(context, row) for row in rows.tolist()], np.int64)
        codes = np.zeros(context.nodes.height, np.int64)
        for port in context.shape.host_ports:
            codes[list(context.nodes.ports.conflicts(port))] = 1
        return codes[rows]

    def filter_row(self, context: SchedulingContext, row: int) -> int:
        ports = context.nodes.ports
        return int(any(ports.is_taken(row, port) for port in context.shape.host_ports))

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        return curable("node(s) didn't have free ports for the requested pod ports")


def _port_came_free(pod: Pod, change: Change) -> bool:
    """Whether a pod left that had, or was about to have, a port that the waiting pod wants."""
    old, _ = pods_of(change)
    if old is None or not old.shape.host_ports or not has_place(old):
        return False
    return any(collide(wanted, used) for wanted in pod.shape.host_ports for used in old.shape.host_ports)


PLUGINS = (NodePorts,)
