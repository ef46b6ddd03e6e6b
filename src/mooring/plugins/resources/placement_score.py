"""NodeResourcesFit at PlacementScore: how much of a placement is in use, with the members of the group added.

Parity: upstream scores placements by MostAllocated whatever strategy the arguments name for nodes, so that groups fill up
domains; resources and weights are those of the arguments.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.kernels import Ints, most_allocated, weighted_mean
from mooring.cluster.columns.resource_amounts import cells
from mooring.framework.contract.group_points import PodGroupAssignments, PodGroupContext, RowsByPlacement
from mooring.model.names import is_scalar_resource
from mooring.model.pod import Pod

_BITS = 55
"""Sums below 2^55 can be multiplied with 100 in an int64. Larger ones lose low bits: upstream's overflow there."""

Amounts = NDArray[np.object_]
"""Whole numbers of any size: there is no limit to how many members a group has."""


def score_by_use(group: PodGroupContext, weights: Mapping[str, int], candidates: Sequence[PodGroupAssignments]) -> Ints:
    """The weighted mean over resources of the share in use, in percent.

    | nodes of the placement | in use | the group's pods | score |
    | 3 of 2 CPUs            | 2      | 3 of 1 CPU       | 83    |
    """
    names = tuple(weights)
    wanted = _requests(names, candidates)
    # Parity: an extended resource counts only where the group requests it, and nodes that have none of a resource count
    # for nothing, whatever their pods request of it.
    counted = np.array([not is_scalar_resource(name) for name in names])[:, None] | (wanted != 0)
    rows = group.rows_of([candidate.placement for candidate in candidates])
    amounts = group.nodes.amounts
    resources = amounts.resources(names)
    there, held = (cells(matrix, resources, rows.rows) for matrix in (amounts.allocatable, amounts.scored))
    allocatable, used = _sum_up(rows, there, np.where(there != 0, held, 0), wanted)
    counted &= allocatable != 0
    return weighted_mean(most_allocated(allocatable, used), counted, np.array(list(weights.values()), np.int64))


def use_grows(weights: Iterable[str], pods: Sequence[Pod]) -> bool:
    """Whether the score is never lower with more of these pods. An extended resource that only some of them request counts
    only where they are, and may be the least used."""
    extended = [name for name in weights if is_scalar_resource(name)]
    return all(len({bool(pod.shape.score_request.get(name)) for pod in pods}) <= 1 for name in extended)


def _sum_up(rows: RowsByPlacement, there: Ints, held: Ints, wanted: Amounts) -> tuple[Ints, Ints]:
    """Sum the allocatable amounts of the nodes of each placement, and the amounts that are in use there with the group: two
    matrices of resources x placements."""
    largest = max(float(column.sum(dtype=np.float64)) for column in (there, held)) + float(wanted.max(initial=0))
    if largest < 1 << _BITS:
        return rows.sum(there), rows.sum(held) + wanted.astype(np.int64)
    allocatable, used = rows.sum(there.astype(object)), rows.sum(held.astype(object)) + wanted
    most = np.maximum(allocatable, used).max(axis=1).tolist()
    shifts = np.array([max(int(amount).bit_length() - _BITS, 0) for amount in most], object)[:, None]
    return (allocatable >> shifts).astype(np.int64), (used >> shifts).astype(np.int64)


def _requests(names: Sequence[str], candidates: Sequence[PodGroupAssignments]) -> Amounts:
    """Sum the requests of the members that have a node in each placement: resources x placements. Pods without requests count
    with upstream's minimum."""
    # Hot: many candidates have the same tuple of members.
    known: dict[int, list[int]] = {}
    for candidate in candidates:
        if id(candidate.pods) not in known:
            requests = [pod.shape.score_request for pod in candidate.pods]
            known[id(candidate.pods)] = [sum(request.get(name, 0) for request in requests) for name in names]
    return np.array([known[id(candidate.pods)] for candidate in candidates], object).T
