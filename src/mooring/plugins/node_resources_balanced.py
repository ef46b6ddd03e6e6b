"""NodeResourcesBalancedAllocation: prefers nodes on which the pod makes the use of resources more even."""

from typing import Any

from mooring.cluster.kernels import balance
from mooring.framework.config.args import NodeResourcesBalancedAllocationArgs
from mooring.framework.cycle import Cycle
from mooring.framework.points import Handle, PreScorePlugin, Reads, Rows, ScorePlugin, Scores, reads
from mooring.framework.status import SKIP, Skip
from mooring.model.names import is_scalar_resource


class NodeResourcesBalancedAllocation(PreScorePlugin, ScorePlugin):
    name = "NodeResourcesBalancedAllocation"

    def __init__(self, args: Any, handle: Handle) -> None:
        del handle
        args = args if isinstance(args, NodeResourcesBalancedAllocationArgs) else NodeResourcesBalancedAllocationArgs()
        self._resources = [resource.name for resource in args.resources or ()]

    @reads(Reads.SHAPE)
    def pre_score(self, cycle: Cycle, rows: Rows) -> Skip | None:
        return None if any(cycle.shape.held.get(name) for name in self._resources) else SKIP

    @reads(Reads.ROW)
    def score(self, cycle: Cycle, rows: Rows) -> Scores | None:
        nodes = cycle.nodes
        allocatable, before, after = [], [], []
        for name in self._resources:
            amount = cycle.shape.held.get(name, 0)
            if amount == 0 and is_scalar_resource(name):
                continue
            index = nodes.resource(name)
            allocatable.append(nodes.allocatable[index, rows])
            before.append(nodes.requested[index, rows])
            after.append(before[-1] + amount)
        counted = [room != 0 for room in allocatable]
        gain = balance(after, allocatable, counted) - balance(before, allocatable, counted)
        return 50 + (50 + gain) // 2
