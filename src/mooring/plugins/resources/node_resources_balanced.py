"""NodeResourcesBalancedAllocation: prefers nodes on which the pod makes the use of resources more even."""

from typing import Any

from mooring.cluster.columns.kernels import balance, balance_of_floats, balance_of_two
from mooring.cluster.columns.resource_amounts import cells
from mooring.framework.config.args import NodeResourcesBalancedAllocationArgs
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import Handle, PreScorePlugin, Reads, Rows, ScorePlugin, Scores, reads
from mooring.framework.contract.status import SKIP, Skip
from mooring.model.names import is_scalar_resource
from mooring.model.shape import PodPart
from mooring.plugins.resources.pod_amounts import PodAmounts, count_devices_in, served


class NodeResourcesBalancedAllocation(PreScorePlugin, ScorePlugin):
    """Compares how even the utilisation of the node's resources is with the pod and without it."""

    name = "NodeResourcesBalancedAllocation"
    is_same_in_all_profiles = True
    reads_other_nodes = False
    is_in_range = True

    def __init__(self, args: Any, handle: Handle) -> None:
        del handle
        args = args if isinstance(args, NodeResourcesBalancedAllocationArgs) else NodeResourcesBalancedAllocationArgs()
        self._resources = [resource.name for resource in args.resources or ()]
        self._has_scalars = any(map(is_scalar_resource, self._resources))

    @reads(Reads.SHAPE, PodPart.REQUESTS)
    def pre_score(self, context: SchedulingContext, rows: Rows) -> Skip | None:
        """SKIP for pods that request nothing of the resources. Reads.SHAPE is right: the requests are part of the
        shape."""
        return None if any(context.of_requests(self.name, self._find_amounts).plain) else SKIP

    @reads(Reads.TOTALS, PodPart.REQUESTS)
    def score(self, context: SchedulingContext, rows: Rows) -> Scores | None:
        """50 + half of (50 + gain): the gain is the score with the pod minus the score without it. 50 to 100 means more
        even.

        Reads.TOTALS is right: it reads allocatable and requested of the node, and the pod's own requests.
        """
        nodes = context.nodes
        asked = context.of_requests(self.name, self._find_amounts)
        if not any(asked.plain):  # Parity: only profiles without PreScore get here, and such a pod has no score
            return None
        resources = asked.resources
        floats = context.floats_of(resources) if len(asked.plain) == 2 else None
        if floats is not None and isinstance(resources, slice):
            shares = floats.sums(floats.held[resources], rows, asked.floats)
            shares /= floats.divisor_of(resources, rows)
            scores = balance_of_floats(shares, fits=floats.have_room(resources, asked.plain))
            imbalance = floats.imbalance(resources)
            scores += imbalance[rows] if isinstance(rows, slice) else imbalance.take(rows)
            scores >>= 1  # 50 + (50 + gain) // 2
            return scores
        allocatable = cells(nodes.amounts.allocatable, resources, rows)
        before = cells(nodes.amounts.requested, resources, rows)
        if asked.has_scalars:
            allocatable, before = count_devices_in(context, asked.names, rows, allocatable, before)
        counted = allocatable != 0
        gain = balance(before + asked.column, allocatable, counted) - balance(before, allocatable, counted)
        return 50 + (50 + gain) // 2

    def score_row(self, context: SchedulingContext, row: int) -> int:
        """Score one row with plain numbers for two resources, as usual; other cases use the columns. The score compares the
        balance of the node with and without the pod."""
        asked = context.of_requests(self.name, self._find_amounts)
        resources, added = asked.resources, asked.plain
        is_served = asked.has_scalars and served(context, asked.names)
        if len(added) != 2 or is_served or not (added[0] or added[1]):
            return super().score_row(context, row)
        matrices = context.nodes.amounts
        allocatable = matrices.allocatable[resources, row].tolist()
        one, other = matrices.requested[resources, row].tolist()
        with_it = balance_of_two((one + added[0], other + added[1]), allocatable)
        return 50 + (50 + with_it - balance_of_two((one, other), allocatable)) // 2

    def _find_amounts(self, context: SchedulingContext) -> PodAmounts:
        """The resources that count for the pod's shape, and how much of each it requests. Extended resources
        (scalars) count only if the pod requests them."""
        held = context.shape.held
        asked = {name: held[name][0] if name in held else 0 for name in self._resources}
        if self._has_scalars:
            asked = {name: amount for name, amount in asked.items() if amount or not is_scalar_resource(name)}
        return PodAmounts(context.nodes.amounts, asked)


PLUGINS = (NodeResourcesBalancedAllocation,)
