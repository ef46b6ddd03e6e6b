"""NodeResourcesFit at PlacementScore: how much of a placement is in use, with the members of the group added.

Parity: upstream scores placements by MostAllocated whatever strategy the arguments name for nodes, so that groups fill up
domains; resources and weights are those of the arguments.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from mooring.cluster.nodes.kernels import Ints, most_allocated, weighted_mean
from mooring.cluster.nodes.resource_amounts import ResourceAmounts, cells
from mooring.framework.group_context import PodGroupAssignments, RowsByPlacement
from mooring.model.names import is_scalar_resource
from mooring.model.pod import Pod

_BITS = 55
"""Sums below 2^55 can be multiplied with 100 in an int64. Larger ones lose low bits: upstream's overflow there."""


def score_by_use(
    amounts: ResourceAmounts, weights: Mapping[str, int], candidates: Sequence[PodGroupAssignments]
) -> Ints:
    """The weighted mean over resources of the share in use, in percent.

    | nodes of the placement | in use | the group's pods | score |
    | 3 of 2 CPUs            | 2      | 3 of 1 CPU       | 83    |
    """
    names = tuple(weights)
    wanted = _requests(names, candidates)
    # Parity: an extended resource counts only where the group requests it, and nodes that have none of a resource count
    # for nothing, whatever their pods request of it.
    counted = np.array([not is_scalar_resource(name) for name in names])[:, None] | (wanted != 0)
    rows = RowsByPlacement([candidate.placement for candidate in candidates])
    resources = amounts.resources(names)
    there, held = (cells(matrix, resources, rows.rows) for matrix in (amounts.allocatable, amounts.scored))
    allocatable, used = _sum_up(rows, there, np.where(there != 0, held, 0), wanted)
    counted &= allocatable != 0
    return weighted_mean(most_allocated(allocatable, used), counted, np.array(list(weights.values()), np.int64))


def _sum_up(rows: RowsByPlacement, there: Ints, held: Ints, wanted: Ints) -> tuple[Ints, Ints]:
    """What each placement has, and what is in use of it with the group: resources x placements."""
    largest = max(float(there.sum(dtype=np.float64)), float(held.sum(dtype=np.float64)) + float(wanted.max(initial=0)))
    if largest < 1 << _BITS:
        return rows.sum(there), rows.sum(held) + wanted
    allocatable = rows.sum(there.astype(object))
    used = rows.sum(held.astype(object)) + wanted.astype(object)
    shift = max(int(max(allocatable.max(), used.max())).bit_length() - _BITS, 0)
    return (allocatable >> shift).astype(np.int64), (used >> shift).astype(np.int64)


def _requests(names: Sequence[str], candidates: Sequence[PodGroupAssignments]) -> Ints:
    """What the members with a node request in each placement, with upstream's minimum for pods without requests:
    resources x placements. Amounts of a pod are below 2^53, so that a thousand members fit an int64."""
    # Hot: many candidates have the same tuple of members, and of one shape.
    known: dict[int, list[int]] = {}
    found = [
        known.get(id(each.pods)) or known.setdefault(id(each.pods), _total(names, each.pods)) for each in candidates
    ]
    return np.array(found, np.int64).T


def _total(names: Sequence[str], pods: Sequence[Pod]) -> list[int]:
    return [min(sum(pod.shape.score_request.get(name, 0) for pod in pods), 1 << 61) for name in names]
