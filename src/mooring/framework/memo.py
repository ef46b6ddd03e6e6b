"""What is kept for one shape: for each row the filter that rejects it first, and the weighted sum of the scores.

A `ShapeMemo` combines columns that other shapes may share (kept_columns.py). `KeptAnswers` (kept_answers.py) owns memos and
columns, and bounds them in bytes.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.kernels import MAX_SCORE
from mooring.cluster.nodes.table import NodeTable, few_rows
from mooring.framework.context import KeptValues, SchedulingContext
from mooring.framework.kept_columns import ByteCount, ColumnKey, ColumnSet, Integers, KeptColumn, KeptQuestion
from mooring.framework.points import Plugin, Rows
from mooring.framework.ranking import DEAD, PASSED, RowRanking
from mooring.framework.status import SKIPS
from mooring.model.shape import PodPart, PodShape, ShapePart

Outcomes = dict[tuple[Plugin, str], Any]
"""Answers of PreFilter and PreScore plugins, by plugin and point."""

MEMO_OVERHEAD_BYTES = 10_000
"""What a memo takes beside its arrays: dictionaries, plans, values of plugins. Measured over 2,000 templates: 10,300."""
_MOST_CHANGED = 16
"""Changed rows up to which a ranking is kept up to date: looking through a block takes 5 µs, all 5,000 rows 30 µs."""
_UNKNOWN = object()
_MAX_INT32 = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class PluginPlan:
    """What is to be asked at PreFilter or PreScore."""

    skipped: frozenset[str]
    """Plugins that are known to skip."""
    steps: tuple[tuple[Any, PodPart | None], ...]
    """Plugins with the part of the shape that alone decides the answer; None: more than the shape does."""


class MemoOwner(Protocol):
    """What a memo shares with others."""

    @property
    def byte_count(self) -> ByteCount: ...

    def column(self, key: ColumnKey, question: KeptQuestion) -> KeptColumn: ...

    def outcomes_of(self, part: ShapePart) -> Outcomes: ...


class ShapeMemo:
    """All that a profile keeps for one shape.

    Which columns it reads is settled when they are first asked for: a PreFilter or PreScore that reads only the shape
    may have skipped some, and will skip the same ones every time.
    """

    def __init__(self, owner: MemoOwner | None = None) -> None:
        """Without an owner it shares no columns: what is asked in a what-if is forgotten with it."""
        self._owner = owner
        self._byte_count = owner.byte_count if owner is not None else ByteCount()
        self.kept_values = KeptValues()
        self._part_outcomes: dict[ShapePart, Outcomes] = {}
        self.outcomes: Outcomes = {}
        """SKIP_SHAPE of PreFilter and PreScore plugins whose other answers depend on more than the shape."""
        self.levels: dict[int, int] = {}
        """By index of a kept score plugin that tells no nodes apart: what normalising makes of 0."""
        self.pre_filter_plan: PluginPlan | None = None
        self.pre_score_plan: PluginPlan | None = None
        self.columns: list[tuple[ColumnKey, KeptColumn]] = []
        """The columns that it reads, with the key of each."""
        self._filters: ColumnSet | None = None
        """The last filter first, so that the first rejection of a row is the last one written."""
        self._scores: ColumnSet | None = None
        self._summed: list[tuple[KeptColumn, int]] = []
        """The scores that need nothing but adding up, with their weights."""
        self._first: NDArray[np.int8] = np.zeros(0, np.int8)
        self._sum: Integers = np.zeros(0, np.int32)
        self._ranking: RowRanking | None = None
        """Made when the shape comes again after few changes; None: it would cost more than it saves."""
        self._changed: list[int] | None = []
        """The rows whose first rejection or sum has changed since they were ranked; None: too many."""
        self._byte_count.bytes += MEMO_OVERHEAD_BYTES

    def outcomes_of(self, part: ShapePart) -> Outcomes:
        """What PreFilter and PreScore plugins said that follows from a part of the shape alone."""
        return self._part_outcomes.setdefault(part, {}) if self._owner is None else self._owner.outcomes_of(part)

    def settle(self, point: str, plan: PluginPlan, shape: PodShape) -> PluginPlan:
        """The plan without the plugins that are known to skip, or to have nothing to say, for this shape."""
        skipped, steps = [], []
        for plugin, part in plan.steps:
            known = self.outcomes if part is None else self.outcomes_of(shape.part(part))
            said = known.get((plugin, point), _UNKNOWN)
            if said in SKIPS:
                skipped.append(plugin.name)
            elif said is not None:
                steps.append((plugin, part))
        return PluginPlan(frozenset(skipped), tuple(steps))

    def first_rejections(
        self, context: SchedulingContext, questions: Callable[[], list[KeptQuestion]]
    ) -> NDArray[np.int8]:
        """For each row the index of the first kept filter that rejects it, else PASSED, or DEAD. Do not write to it."""
        nodes = context.nodes
        if self._filters is None:
            self._filters = ColumnSet(list(reversed(self._find_columns(questions(), context.shape))))
        rows = self._filters.refresh(context)
        if len(self._first) != nodes.capacity:
            self._byte_count.bytes += nodes.capacity - len(self._first)
            self._first = np.full(nodes.capacity, DEAD, np.int8)
        few = few_rows(rows) if rows is not None else None
        self._note_changed(rows, few)
        if few is not None:
            for row in few:
                self._first[row] = self._first_rejection(nodes, row)
        elif rows is not None:
            first = np.where(nodes.alive[rows], np.int8(PASSED), np.int8(DEAD))
            for index, column in self._filters.columns:
                if column.values is not None:
                    first[(column.values[rows] != 0) & (first != DEAD)] = index
            self._first[rows] = first
        return self._first[: nodes.height]

    def _first_rejection(self, nodes: NodeTable, row: int) -> int:
        """The same for one row."""
        assert self._filters is not None
        if not nodes.alive[row]:
            return DEAD
        first = PASSED
        for index, column in self._filters.columns:
            if column.values is not None and column.values[row]:
                first = index
        return first

    def codes(self, index: int) -> NDArray[np.int64] | None:
        """The codes of one kept filter for all rows, as of the last refresh; None: not kept, or it rejects nothing."""
        return self._filters.values(index) if self._filters is not None else None

    def score_sum(
        self, context: SchedulingContext, questions: Callable[[], list[KeptQuestion]], weights: dict[int, int]
    ) -> Integers:
        """For each row the sum of the kept scores named in `weights`, times their weight. Do not write to it."""
        nodes = context.nodes
        if self._scores is None:
            self._scores = ColumnSet(self._find_columns(questions(), context.shape))
            self._summed = [(column, weights[index]) for index, column in self._scores.columns if index in weights]
        rows = self._scores.refresh(context)
        if len(self._sum) != nodes.capacity:
            before = self._sum.nbytes
            is_small = sum(abs(weight) for _, weight in self._summed) * MAX_SCORE < _MAX_INT32
            self._sum = np.zeros(nodes.capacity, np.int32 if is_small else np.int64)
            self._byte_count.bytes += self._sum.nbytes - before
        parts = [(column.values, weight) for column, weight in self._summed if column.values is not None]
        few = few_rows(rows) if rows is not None else None
        self._note_changed(rows, few)
        if few is not None:
            for row in few:
                self._sum[row] = sum(int(part[row]) * weight for part, weight in parts)
        elif rows is not None:
            total = np.zeros(len(self._sum[rows]), self._sum.dtype)
            for values, weight in parts:
                total += values[rows] if weight == 1 else values[rows].astype(total.dtype) * weight
            self._sum[rows] = total
        return self._sum

    def _note_changed(self, rows: Rows | None, few: list[int] | None) -> None:
        if rows is None:
            return
        if few is None or self._changed is None or len(self._changed) > _MOST_CHANGED:
            self._changed = None
        else:
            self._changed += few

    def ranking(self, nodes: NodeTable) -> RowRanking | None:
        """The rows by the sum of `score_sum`, those that `first_rejections` says pass; None: too many have changed."""
        if self._changed is None:
            # It is made if few rows change until the shape comes again.
            self._byte_count.bytes -= self._ranking.nbytes if self._ranking is not None else 0
            self._changed, self._ranking = [], None
            return None
        if self._ranking is None:
            self._ranking = RowRanking(nodes, self._first, self._sum)
            self._byte_count.bytes += self._ranking.nbytes
        elif self._changed:
            before = self._ranking.nbytes
            self._ranking.update(self._changed)
            self._byte_count.bytes += self._ranking.nbytes - before
        self._changed = []
        return self._ranking

    def score(self, index: int) -> NDArray[np.int64] | None:
        """The raw scores of one kept score plugin for all rows, as of the last refresh; None: all 0."""
        return self._scores.values(index) if self._scores is not None else None

    @property
    def arrays_bytes(self) -> int:
        ranking = self._ranking.nbytes if self._ranking is not None else 0
        return self._first.nbytes + self._sum.nbytes + ranking

    def drop(self) -> None:
        """The memo is no longer kept. An attempt that still reads it finds it as it was."""
        self._byte_count.bytes -= MEMO_OVERHEAD_BYTES + self.arrays_bytes
        self._byte_count, self._owner = ByteCount(), None

    def _find_columns(self, questions: list[KeptQuestion], shape: PodShape) -> list[tuple[int, KeptColumn]]:
        found = []
        for question in questions:
            key = question.plugin, question.point, shape.part(question.part)
            column = self._owner.column(key, question) if self._owner else KeptColumn(question, self._byte_count)
            column.users += 1
            self.columns.append((key, column))
            found.append((question.index, column))
        return found
