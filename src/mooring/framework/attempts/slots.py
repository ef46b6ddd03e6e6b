"""How many pods of one shape each node can take, where nothing but sums decides about it.

Then it does not matter in which order the pods of a group choose their nodes: as many of them fit into a set of nodes as
its nodes have slots.
"""

from collections.abc import Sequence

import msgspec
import numpy as np

from mooring.cluster.columns.kernels import Ints, Mask
from mooring.cluster.columns.resource_amounts import cells
from mooring.cluster.nodes.table import NodeTable
from mooring.cluster.pods.nominated import Crowd
from mooring.framework.attempts.attempt import Attempt, PodRejected
from mooring.framework.attempts.leave_room import leave_room
from mooring.framework.attempts.refiltering import active_filters, crowd_beside, demand_of
from mooring.framework.contract.points import Reads, ResourceDemand
from mooring.framework.kept.feasible import PASSED
from mooring.model.shape import PodShape


class CountedSlots(msgspec.Struct, frozen=True):
    """How many pods fit, and by what."""

    counts: Ints
    """For each row how many pods like that of the attempt fit, one after the other."""
    demands: list[ResourceDemand]


def count_slots(attempt: Attempt) -> CountedSlots | None:
    """None: more than sums decides. Nominated pods keep their room.

    The attempt must be new. Raises AttemptError.
    """
    context, crowd = attempt.context, None
    if not _takes_what_it_requests(context.shape):
        return None
    narrowing = attempt.pre_filter()
    demands = demands_of(attempt) if not isinstance(narrowing, PodRejected) else None
    if isinstance(narrowing, PodRejected) or demands is None:
        return None
    verdicts = attempt.filter(narrowing)
    if context.cluster.nominated:
        leave_room(attempt, verdicts, context.cluster.nominated)
        crowd = crowd_beside(attempt)
    return CountedSlots(_slots_on_rows(verdicts.first == PASSED, demands, context.nodes, crowd), demands)


def _slots_on_rows(
    passing: Mask, demands: Sequence[ResourceDemand], nodes: NodeTable, crowd: Crowd | None = None
) -> Ints:
    """For each row how often all demands can be met, beside a crowd of nominated pods; none on rows that do not pass.

    | free cpu | free memory | free pods | amounts | passing | slots |
    | 5        | 9           | 110       | 2, 2    | yes     | 2     |
    | 5        | 9           | 1         | 2, 2    | yes     | 1     |
    | 5        | 9           | 110       | 2, 2    | no      | 0     |
    """
    slots: Ints = np.where(passing, np.maximum(pods_left(nodes, crowd), 0), 0)
    for demand in demands:
        allocatable = cells(nodes.amounts.allocatable, demand.resources, slice(0, nodes.height))
        slots = np.minimum(slots, slots_by_demand(allocatable, requested_beside(demand, nodes, crowd), demand))
    return slots


def slots_by_demand(allocatable: Ints, requested: Ints, demand: ResourceDemand) -> Ints:
    """How often the demand can be met on each row. Amounts are resources x rows; there must be at least one row that passes.

    | allocatable | requested | amount | slots |
    | 4000        | 900       | 1000   | 3     |
    | 4000        | 4100      | 1000   | 0     |
    | 4000        | 900       | 0      | many  |
    """
    is_free = demand.waived & (allocatable == 0) if demand.waived is not None else None
    return times_in(allocatable - requested, demand.amounts, is_free)


def times_in(free: Ints, amounts: Ints, is_free: Mask | None = None) -> Ints:
    """How often all amounts (resources x 1) are in what is free (resources x rows). Amounts of 0 are in it without end, and
    so are those that are free of charge on a row."""
    many = np.iinfo(np.int64).max
    fitting = np.maximum(free, 0) // np.maximum(amounts, 1)
    has_none = amounts == 0 if is_free is None else is_free | (amounts == 0)
    found: Ints = np.where(has_none, many, fitting).min(axis=0, initial=many)
    return found


def requested_beside(demand: ResourceDemand, nodes: NodeTable, crowd: Crowd | None = None) -> Ints:
    """Sum of the requests of pods on nodes, for the resources of a demand, with the requests of a crowd: resources x rows.
    The caller must not write to it."""
    requested = cells(nodes.amounts.requested, demand.resources, slice(0, nodes.height))
    if crowd is not None:
        requested = requested.copy()
        requested[:, crowd.rows] += crowd.requested[demand.resources]
    return requested


def pods_left(nodes: NodeTable, crowd: Crowd | None = None) -> Ints:
    """How many more pods each row may have beside a crowd; negative where there are too many."""
    left: Ints = nodes.allowed_pods[: nodes.height] - nodes.pod_count[: nodes.height]
    if crowd is not None:
        left[crowd.rows] -= crowd.pod_count
    return left


def demands_of(attempt: Attempt, left_out: Reads | None = None) -> list[ResourceDemand] | None:
    """Collect the ResourceDemand of each active filter that reads the pods on nodes; None if a filter reads more than sums.
    Filters that read `left_out` do not count. Raises AttemptError."""
    found = []
    for index, plugin in active_filters(attempt):
        reads = attempt.runner.filter_reads[index]
        if reads <= Reads.NODE or reads is left_out:
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
