"""How many nodes to look at, and from where: percentageOfNodesToScore with its rotating start."""

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.table import NodeTable
from mooring.framework.memo import NARROWED_OUT, PASSED
from mooring.framework.prepared import SearchCursor

MIN_FEASIBLE = 100


def nodes_to_find(count: int, percentage: int | None) -> int:
    """How many feasible nodes are enough. Unlike upstream, 0 or unset means all of them: we can afford it."""
    if count < MIN_FEASIBLE or not percentage or percentage >= 100:
        return count
    return max(count * percentage // 100, MIN_FEASIBLE)


def cut_short(
    nodes: NodeTable, first: NDArray[np.int8], wanted: int, cursor: SearchCursor
) -> tuple[NDArray[np.intp], NDArray[np.int8]]:
    """Stop after `wanted` feasible nodes, as a walk over the nodes from `cursor.start` would.

    Returns the feasible rows in the order of the walk, and the verdicts with those of nodes never reached taken out.
    """
    walk = np.array([nodes.row_book[name] for name in nodes.order.round_robin()], np.intp)
    candidates = walk[first[walk] != NARROWED_OUT]
    count = len(candidates)
    if not count:
        return candidates, first
    walk = np.roll(candidates, -(cursor.start % count))
    passed = np.flatnonzero(first[walk] == PASSED)
    reached = count if len(passed) <= wanted else int(passed[wanted])
    cursor.start = (cursor.start + reached) % nodes.alive_count
    seen = np.full(len(first), NARROWED_OUT, np.int8)
    seen[walk[:reached]] = first[walk[:reached]]
    return walk[passed[:wanted]], seen
