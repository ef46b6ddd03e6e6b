"""Ties: which of several nodes with the same, highest total is taken, and which nodes are tied.

`lowest_name` and `by_seed` are rules of Mooring. `as_kube_scheduler` is the rule of kube-scheduler v1.37: nodes are found in
the order of a walk (`decide.cut_short`), their totals go into a binary heap in that order, and the top of the heap is taken.
kube-scheduler follows it only where its goroutines do not race; docs/parity.md says when.
"""

from collections.abc import Mapping
from functools import partial
from typing import Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.kernels import Integers, Mask
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.contract.points import Rows
from mooring.framework.kept.best_rows import MaskedTotals
from mooring.framework.kept.feasible import first_of, nth
from mooring.kit.choice import choose, mix

Places = NDArray[np.intp]
"""The places of the tied rows among the feasible rows, in the order in which these were found."""
_ALL = slice(0, None)


class TieBreak(Protocol):
    """Which of several rows with the highest total is taken; the same from a list of them and from the totals."""

    @property
    def goes_by_walk(self) -> bool:
        """Whether the rule depends on the order in which feasible nodes are found. Then only `pick` is called."""

    @property
    def words(self) -> str:
        """The rule in a few words, for explanations."""

    def pick(self, nodes: NodeTable, tied: NDArray[np.intp], seed: int, places: Places) -> int: ...

    def pick_best(self, nodes: NodeTable, rows: Rows, totals: Integers, seed: int) -> int:
        """`rows` are ascending, and `totals` are theirs."""

    def pick_kept(self, nodes: NodeTable, card: MaskedTotals, seed: int) -> int:
        """`pick_best` for totals of all rows, which may come with a quicker way to find the best (best_rows.py)."""

    def rank_place(self, place: int, seed: int) -> int:
        """Rank a placement of a pod group: of those that have the same score, the one with the highest rank is taken."""


class LowestName:
    """The row whose node has the lowest name: the same every time."""

    goes_by_walk = False
    words = "ties go to the lowest name here"

    def pick(self, nodes: NodeTable, tied: NDArray[np.intp], seed: int, places: Places) -> int:
        return int(tied[nodes.name_rank()[tied].argmin()])

    def pick_best(self, nodes: NodeTable, rows: Rows, totals: Integers, seed: int) -> int:
        if nodes.is_named_by_row():  # Hot: as a rule, because nodes are listed in the order of their names
            return _row_at(rows, int(totals.argmax()))
        if isinstance(rows, slice):
            return first_of(_highest(totals), nodes.rows_by_name())
        tied, places = _tied(rows, totals)
        return self.pick(nodes, tied, seed, places)

    def pick_kept(self, nodes: NodeTable, card: MaskedTotals, seed: int) -> int:
        if card.best is None:
            return self.pick_best(nodes, _ALL, card.totals, seed)
        if nodes.is_named_by_row():
            return card.best.first()
        return card.best.first_by_name(nodes.name_rank(), nodes.rows_by_name())

    def rank_place(self, place: int, seed: int) -> int:
        """The first: generators give placements in the order of their names."""
        return -place


class BySeed:
    """Any of the rows, uniformly, as the seed of the attempt decides."""

    goes_by_walk = False
    words = "the seed of the attempt decided"

    def pick(self, nodes: NodeTable, tied: NDArray[np.intp], seed: int, places: Places) -> int:
        return int(tied[choose(seed, len(tied))])

    def pick_best(self, nodes: NodeTable, rows: Rows, totals: Integers, seed: int) -> int:
        highest = _highest(totals)
        return _row_at(rows, nth(highest, choose(seed, int(np.count_nonzero(highest)))))

    def pick_kept(self, nodes: NodeTable, card: MaskedTotals, seed: int) -> int:
        if card.best is None:
            return self.pick_best(nodes, _ALL, card.totals, seed)
        return card.best.nth(partial(choose, seed))

    def rank_place(self, place: int, seed: int) -> int:
        """Mixed twice: the first member picks its node with this seed, and must not draw the same number."""
        return mix(mix(seed) + place)


class FirstRow(LowestName):
    """The row that comes first in the table: the node that came first. Experiments that put nodes into the table in a random
    order break ties by that order."""

    words = "ties go to the node that came first"

    def pick(self, nodes: NodeTable, tied: NDArray[np.intp], seed: int, places: Places) -> int:
        return int(tied.min())

    def pick_best(self, nodes: NodeTable, rows: Rows, totals: Integers, seed: int) -> int:
        return _row_at(rows, int(totals.argmax()))

    def pick_kept(self, nodes: NodeTable, card: MaskedTotals, seed: int) -> int:
        return int(card.totals.argmax()) if card.best is None else card.best.first()


class AsKubeScheduler(LowestName):
    """The row that comes to the top of kube-scheduler's heap. Placements of pod groups, which kube-scheduler takes at
    random, go by name."""

    goes_by_walk = True
    words = "the order of kube-scheduler's heap decides here"

    def pick(self, nodes: NodeTable, tied: NDArray[np.intp], seed: int, places: Places) -> int:
        return int(tied[first_on_heap(places)])


def first_on_heap(places: Places) -> int:
    """Which of the places is on top, once a binary heap is made of all totals, and these are the places of the highest.

    A child moves up only if its total is higher than that of its parent, and the left child is preferred to an equal right
    one. So the top is the first place in preorder: the parent, its left branch, its right branch. In binary, place + 1 is a
    one and then the way down (0: left, 1: right); preorder compares the ways as texts.

    | places  | place + 1        | top |
    | 1, 2    | 10, 11           | 1   |
    | 2, 3, 7 | 11, 100, 1000    | 3   |
    | 3, 7    | 100, 1000        | 3   |
    """
    ways = [f"{place + 1:b}" for place in places.tolist()]
    return ways.index(min(ways))


def _highest(totals: Integers) -> Mask:
    """Which of the totals are the highest."""
    found: Mask = totals == totals[totals.argmax()]  # Hot: of 5,000 totals in 0.4 µs; the maximum itself takes 1.1
    return found


def _tied(rows: Rows, totals: Integers) -> tuple[NDArray[np.intp], Places]:
    """The rows that have the highest total, and their places among all."""
    tied = _highest(totals).nonzero()[0]
    return (tied if isinstance(rows, slice) else rows[tied]), tied


def _row_at(rows: Rows, place: int) -> int:
    return place if isinstance(rows, slice) else int(rows[place])


lowest_name, by_seed, as_kube_scheduler, first_row = LowestName(), BySeed(), AsKubeScheduler(), FirstRow()

KUBE_SCHEDULER: Literal["kube-scheduler"] = "kube-scheduler"
TieRule = int | Literal["kube-scheduler"] | None
"""How a user wants ties to be broken: None by the lowest name, a number by seeds to which it is added."""


def tie_break_of(rule: TieRule) -> TieBreak:
    """The rule that a user wants."""
    if rule == KUBE_SCHEDULER:
        return as_kube_scheduler
    return lowest_name if rule is None else by_seed


BY_NAME_IN_FILES: Mapping[str, TieBreak] = {"seed": by_seed, "name": lowest_name, KUBE_SCHEDULER: as_kube_scheduler}
"""The rules by the names that recordings have for them."""


# ---- Nodes with the same total as the node that was chosen: a decision for one is as good as a decision for another.


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

    @property
    def goes_by_walk(self) -> bool:
        return self._inner.goes_by_walk

    @property
    def words(self) -> str:
        return self._inner.words

    def take(self) -> NDArray[np.intp]:
        """The rows of the last decision, once; none if it had no scores."""
        rows, self._rows = self._rows, _NONE
        return rows

    def pick(self, nodes: NodeTable, tied: NDArray[np.intp], seed: int, places: Places) -> int:
        self._rows = tied
        return self._inner.pick(nodes, tied, seed, places)

    def pick_best(self, nodes: NodeTable, rows: Rows, totals: Integers, seed: int) -> int:
        tied, places = _tied(rows, totals)
        return self.pick(nodes, tied, seed, places)

    def pick_kept(self, nodes: NodeTable, card: MaskedTotals, seed: int) -> int:
        return self.pick_best(nodes, _ALL, card.totals, seed)

    def rank_place(self, place: int, seed: int) -> int:
        return self._inner.rank_place(place, seed)
