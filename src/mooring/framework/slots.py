"""How many pods of one shape each node can take, where nothing but sums decides about it.

Then it does not matter in which order the pods of a group choose their nodes: as many of them fit into a set of nodes as
its nodes have slots.
"""

import numpy as np

from mooring.cluster.nodes.kernels import Ints
from mooring.cluster.nodes.resource_amounts import cells
from mooring.framework.attempt import Attempt, PodRejected
from mooring.framework.feasible import PASSED
from mooring.framework.points import Reads, ResourceDemand
from mooring.framework.what_if import active_filters, demand_of
from mooring.model.shape import PodShape


def count_slots(attempt: Attempt) -> Ints | None:
    """For each row how many pods like that of the attempt fit, one after the other; None: more than sums decides.

    The attempt must be new. Raises AttemptError.
    """
    context = attempt.context
    if context.cluster.nominated or not _takes_what_it_requests(context.shape):
        return None
    narrowing = attempt.pre_filter()
    if isinstance(narrowing, PodRejected):
        return None
    verdicts = attempt.filter(narrowing)
    demands = _demands(attempt)
    if demands is None:
        return None
    nodes = context.nodes
    slots = np.where(verdicts.first == PASSED, _room_for_pods(attempt), 0)
    for demand in demands:
        allocatable = cells(nodes.amounts.allocatable, demand.resources, slice(0, nodes.height))
        requested = cells(nodes.amounts.requested, demand.resources, slice(0, nodes.height))
        slots = np.minimum(slots, slots_by_demand(allocatable, requested, demand))
    return slots


def slots_by_demand(allocatable: Ints, requested: Ints, demand: ResourceDemand) -> Ints:
    """How often the demand can be met on each row. Amounts are resources x rows; there must be at least one row that passes.

    | allocatable | requested | amount | slots |
    | 4000        | 900       | 1000   | 3     |
    | 4000        | 4100      | 1000   | 0     |
    | 4000        | 900       | 0      | many  |
    """
    many = np.iinfo(np.int64).max
    amounts = np.maximum(demand.amounts, 1)
    fitting = np.maximum(allocatable - requested, 0) // amounts
    is_free = demand.amounts == 0
    if demand.waived is not None:
        is_free = is_free | (demand.waived & (allocatable == 0))
    found: Ints = np.where(is_free, many, fitting).min(axis=0, initial=many)
    return found


def _room_for_pods(attempt: Attempt) -> Ints:
    nodes = attempt.context.nodes
    left: Ints = nodes.allowed_pods[: nodes.height] - nodes.pod_count[: nodes.height]
    return np.maximum(left, 0)


def _demands(attempt: Attempt) -> list[ResourceDemand] | None:
    """What the filters compare that read sums; None: some filter reads more."""
    found = []
    for index, plugin in active_filters(attempt):
        reads = attempt.runner.filter_reads[index]
        if reads <= Reads.NODE:
            continue
        demand = demand_of(plugin, attempt.context) if reads is Reads.TOTALS else None
        if demand is None:
            return None
        found.append(demand)
    return found


def _takes_what_it_requests(shape: PodShape) -> bool:
    """Whether a node loses by the pod what the filters compare."""
    held = shape.held
    return all(held.get(name, (0, 0))[0] == amount for name, amount in shape.request.items())
