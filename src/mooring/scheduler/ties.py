"""Ties: nodes with the same total as the node that was chosen.

kube-scheduler takes one of them at random, so that a decision for one is as good as a decision for another.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.kernels import Integers
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.contract.points import Rows
from mooring.scheduler.decide import TieBreak

_NONE = np.zeros(0, np.intp)


def tied_with(totals: Mapping[str, int], chosen: str) -> list[str]:
    """The other nodes with the total of the chosen one, by name; none where nodes were not scored."""
    total = totals.get(chosen)
    return sorted(node for node, own in totals.items() if own == total and node != chosen)


def is_tied(totals: Mapping[str, int], chosen: str, node: str) -> bool:
    """Whether the node is not the chosen one, but has its total."""
    return node != chosen and chosen in totals and totals.get(node) == totals[chosen]


class KeptTies:
    """Breaks ties as another rule does, and keeps which rows had the highest total in the last decision.

    A decision without scores, for the only feasible node or for a nominated one, has no ties: `take` forgets them.
    """

    def __init__(self, inner: TieBreak) -> None:
        self._inner = inner
        self._rows = _NONE

    def take(self) -> NDArray[np.intp]:
        """The rows of the last decision, once; none if it had no scores."""
        rows, self._rows = self._rows, _NONE
        return rows

    def pick(self, nodes: NodeTable, tied: NDArray[np.intp], seed: int) -> int:
        self._rows = tied
        return self._inner.pick(nodes, tied, seed)

    def pick_best(self, nodes: NodeTable, rows: Rows, totals: Integers, seed: int) -> int:
        tied = np.flatnonzero(totals == totals.max())
        return self.pick(nodes, tied if isinstance(rows, slice) else rows[tied], seed)

    def rank_place(self, place: int, seed: int) -> int:
        return self._inner.rank_place(place, seed)
