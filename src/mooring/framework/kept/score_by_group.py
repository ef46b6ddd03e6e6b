"""Scores that follow from the value of a label and from a count of pods: nodes that agree in both form a group, and the best
row of each group is kept from one attempt to the next.

Default topology spreading gives such scores: they tell nodes apart by their zone and by how many pods of the same selector
they have. A pod that is placed moves one row to another group, so the next pod of its template looks at one row for each
group instead of at all rows.

Hot: where one of three zones with 20,000 nodes in all is drained, scoring took 21 of 53 s of CPU time, nearly all of it for
columns of spreading. With groups it takes 12 of 40 s.
"""

from abc import abstractmethod
from collections.abc import Sequence
from heapq import heappop, heappush
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.kernels import Integers
from mooring.cluster.columns.labels import LabelColumn
from mooring.cluster.nodes.table import NodeTable
from mooring.cluster.tallies.tally import Tally
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import Rows, ScorePlugin, Scores
from mooring.framework.contract.status import describe
from mooring.framework.kept.asking import AttemptError, normalize, scoring
from mooring.framework.kept.feasible import PASSED, First
from mooring.framework.kept.part_memo import Bookmark

MOST_GROUPS = 4096
"""With more groups than these, the rows are looked at."""
MOST_NEWS = 64
"""If more rows were touched since, and more than one in _ROWS_FOR_ONE, groups are not followed at that moment."""
_ROWS_FOR_ONE = 512
"""Hot: to put one row into another group takes 2 µs; to score 100,000 rows without groups takes 300."""
MOST_LISTED = 4096
"""The largest number of best rows of a group that are listed: on an empty cluster of 1,000,000 nodes all rows of a group
are equal, and a list of 333,000 takes 13 MB and 15 ms."""
_NO_GROUP = -1
"""The group of rows that are not feasible."""
_NO_RANK = -1
"""In place of the best rank, as long as no group was looked at."""


class RowGroups(msgspec.Struct, frozen=True, eq=False):
    """Groups of rows: by the code of a label, and by the count of a tally."""

    column: LabelColumn
    tally: Tally | None
    """None: by the label alone."""


class PresentGroups(msgspec.Struct, frozen=True, eq=False):
    """The groups that feasible rows are in: the code and the count of each."""

    codes: Sequence[int]
    counts: Sequence[int]
    feasible: int
    """How many rows are feasible."""


class ScoreByGroup(ScorePlugin):
    """A score that may be the same for all rows of a group.

    Its `normalize` must depend on which scores there are among the feasible nodes, not on how many nodes have them, nor on
    the rows.
    """

    @abstractmethod
    def row_groups(self, context: SchedulingContext) -> RowGroups | None:
        """The groups in which rows have the same score for this pod; None: there are none, and `score` is asked."""

    @abstractmethod
    def score_groups(self, context: SchedulingContext, present: PresentGroups) -> Scores:
        """The raw score of each group."""


class BestOfGroups(msgspec.Struct, eq=False):
    """The outcome of scoring by groups: the row with the highest total, and of those that have it the one with the lowest
    name."""

    row: int
    total: int
    count: int
    """The number of feasible rows."""


class GroupedRows:
    """The feasible rows of one shape by group, with the best row of each as far as kept scores tell.

    It follows the columns of a memo, which change only on rows that the table notes as touched.
    """

    __slots__ = (
        "_at",
        "_best",
        "_first",
        "_groups",
        "_is_grouped",
        "_kept",
        "_nodes",
        "_of_row",
        "_pods_at",
        "_sizes",
        "_span",
    )

    def __init__(self, nodes: NodeTable, groups: RowGroups) -> None:
        self._nodes, self._groups = nodes, groups
        self._at, self._pods_at = Bookmark(), Bookmark()
        self._first: First = np.zeros(0, np.int8)
        self._kept: Integers = np.zeros(0, np.int16)
        self._is_grouped = False
        """False: the groups are void, and only changes are followed."""
        self._span = 0
        """One more than the highest count that there may be before rows are grouped anew."""
        self._of_row: NDArray[np.int32] = np.zeros(0, np.int32)
        """By row: code * span + count, or _NO_GROUP."""
        self._sizes: dict[int, int] = {}
        """By group: how many feasible rows it has."""
        self._best: dict[int, tuple[int, list[int], int]] = {}
        """By group, as far as it is known: the highest kept sum, a heap of the rows that had it, as ranks by name, and the
        rank before which all of them are in the heap. A row of the heap may have left the group since, or have another sum.

        Hot: as a rule the best row of a group takes the next pod, and then another one of the group is the best. To look for
        it among 20,000 rows took 1 s of the 36 s for a drained zone."""

    @property
    def nbytes(self) -> int:
        return self._of_row.nbytes

    def are_for(self, nodes: NodeTable, groups: RowGroups) -> bool:
        """Whether these groups are followed here."""
        known = self._groups
        return nodes is self._nodes and groups.tally is known.tally and groups.column is known.column

    def refresh(self, first: First, kept: Integers) -> bool:
        """Follow the first rejections and the sums of kept scores. Returns False if the rows are to be scored without groups:
        too many changed since the last time, or there are too many groups.

        Hot: rows are grouped for the third pod in a row, when few rows changed since the second; the first pod of a shape is
        scored without groups, because it may be the only one. Where 400 templates come in turn, rows that are grouped anew
        for each pod take 70 µs more than without groups, of 110.
        """
        nodes = self._nodes
        if first is not self._first or kept is not self._kept:
            self._at.forget()
            self._first, self._kept = first, kept
        news = [self._at.take_news(nodes, nodes.touches), self._pods_at.take_news(nodes, nodes.pod_touches)]
        rows: list[int] = []
        most, are_few = max(MOST_NEWS, nodes.height // _ROWS_FOR_ONE), True
        for touched in news:
            if isinstance(touched, np.ndarray) and len(touched) <= most:
                rows += touched.tolist()
            elif touched is not None:
                are_few = False
        self._at.move(nodes, nodes.touches)
        self._pods_at.move(nodes, nodes.pod_touches)
        was_grouped, self._is_grouped = self._is_grouped, False
        if are_few:
            self._is_grouped = (was_grouped and all(map(self._regroup, dict.fromkeys(rows)))) or self._group_all()
        return self._is_grouped

    def _group_all(self) -> bool:
        """Group all rows anew. Returns False if there are too many groups."""
        height, tally, column = self._nodes.height, self._groups.tally, self._groups.column
        counts = None if tally is None else tally.counts[:height]
        self._span = 1 if counts is None else 2 * int(counts.max(initial=0)) + 8
        if self._span * column.width > MOST_GROUPS:
            return False
        of_row = column.codes[:height].astype(np.int32) * self._span
        if counts is not None:
            of_row += counts
        of_row[self._first != PASSED] = _NO_GROUP
        self._of_row = of_row
        sizes = np.bincount(of_row + 1)
        present = sizes[1:].nonzero()[0]
        self._sizes = dict(zip(present.tolist(), sizes[present + 1].tolist(), strict=True))
        self._best = {}
        return True

    def _regroup(self, row: int) -> bool:
        """Put one row into its group. Returns False if its count is higher than expected."""
        before, group = self._of_row.item(row), _NO_GROUP
        if before != _NO_GROUP:
            self._leave(before)
        if self._first.item(row) == PASSED:
            tally = self._groups.tally
            count = 0 if tally is None else tally.count(row)
            if count >= self._span:
                return False
            group = self._groups.column.codes.item(row) * self._span + count
            self._join(row, group)
        self._of_row[row] = group
        return True

    def _leave(self, group: int) -> None:
        self._sizes[group] -= 1
        if not self._sizes[group]:
            del self._sizes[group]
            self._best.pop(group, None)

    def _join(self, row: int, group: int) -> None:
        size = self._sizes[group] = self._sizes.get(group, 0) + 1
        highest, ranks, end = self._best.get(group, (None, [], 0))
        mine = self._kept.item(row)
        if size == 1 or (highest is not None and mine > highest):
            self._best[group] = mine, [self._nodes.name_rank().item(row)], self._nodes.height
        elif mine == highest and (rank := self._nodes.name_rank().item(row)) < end:
            heappush(ranks, rank)
            if len(ranks) > 2 * size + MOST_NEWS:  # the same rows, again and again
                del self._best[group]

    def _best_of(self, group: int) -> int:
        """The rank by name of the row of the group with the highest kept sum, and of those that have it the lowest."""
        highest, ranks, _ = self._best.get(group, (0, [], 0))
        by_name = self._nodes.rows_by_name()
        while ranks:
            row = by_name.item(ranks[0])
            if self._of_row.item(row) == group and self._kept.item(row) == highest:
                return ranks[0]
            heappop(ranks)
        there = (self._of_row == group).nonzero()[0]
        sums = self._kept.take(there)
        highest = sums.max()
        tied = self._nodes.name_rank().take(there[sums == highest])
        # Hot: partitioned, 166,000 rows take 1.7 ms; to sort them all takes 7.
        listed = tied if len(tied) <= MOST_LISTED else np.partition(tied, MOST_LISTED)[:MOST_LISTED]
        listed.sort()
        found: list[int] = listed.tolist()
        self._best[group] = int(highest), found, self._nodes.height if len(tied) <= MOST_LISTED else found[-1] + 1
        return found[0]

    def best(self, plugin: ScoreByGroup, context: SchedulingContext, weight: int) -> BestOfGroups | None:
        """The best row of all, with the weighted score of the plugin; None: fewer than two rows are feasible."""
        groups = [*self._sizes]
        feasible = sum(self._sizes.values())
        if feasible < 2:
            return None
        span = self._span
        present = PresentGroups([group // span for group in groups], [group % span for group in groups], feasible)
        raw = _ask(plugin, context, present)
        rows: Rows = slice(0, self._nodes.height)
        rank, total = _NO_RANK, 0
        for group, score in zip(groups, normalize(plugin, context, raw, rows).tolist(), strict=True):
            mine = self._best_of(group)
            own = self._best[group][0] + score * weight
            if rank == _NO_RANK or own > total or (own == total and mine < rank):
                rank, total = mine, own
        return BestOfGroups(self._nodes.rows_by_name().item(rank), total, feasible)


def groups_of(plugin: ScoreByGroup, context: SchedulingContext) -> RowGroups | None:
    """Ask a plugin for the groups in which it scores. Raises AttemptError if it fails."""
    groups: RowGroups | None = _wrapped(plugin, context, plugin.row_groups)
    return groups


def _ask(plugin: ScoreByGroup, context: SchedulingContext, present: PresentGroups) -> Scores:
    scores: Scores = _wrapped(plugin, context, plugin.score_groups, present)
    return scores


def _wrapped(plugin: ScoreByGroup, context: SchedulingContext, ask: Any, *args: Any) -> Any:
    try:
        return context.wrap("Score", plugin.name, ask)(context, *args)
    except Exception as fault:
        raise AttemptError(f"{scoring(plugin)}: {describe(fault)}") from fault
