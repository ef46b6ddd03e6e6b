"""Answers kept for a pod shape: columns of verdicts and scores, refreshed only on rows that were touched since."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.change_log import ChangeLog
from mooring.cluster.nodes.table import NodeTable, few_rows
from mooring.framework.context import KeptValues, SchedulingContext
from mooring.framework.points import Reads, Rows
from mooring.framework.status import SKIPS

Answer = Callable[[SchedulingContext, Rows], NDArray[np.int64] | None]

PASSED = 127
"""In a column of first rejections: no filter rejects the row."""
DEAD = -1
"""... the row has no node."""
NARROWED_OUT = -2
"""... a PreFilter ruled the node out."""


_UNKNOWN = object()


@dataclass(frozen=True, slots=True)
class Question:
    """One plugin's filter or score, its place in the profile's order, and what its answer depends on."""

    index: int
    reads: Reads
    ask: Answer


@dataclass(frozen=True, slots=True)
class PluginPlan:
    """What is to be asked at PreFilter or PreScore: plugins with whether their answer is fixed for the shape."""

    skipped: frozenset[str]
    """Plugins that are known to skip."""
    steps: tuple[tuple[Any, bool], ...]


class KeptColumns:
    """The answers of several plugins for all rows. Call `refresh` before reading `columns`."""

    def __init__(self, questions: list[Question]) -> None:
        self._questions = questions
        self.columns: dict[int, NDArray[np.int64]] = {}
        """By index of the question. A question that was never answered with anything but None has no column: zero."""
        self._capacity = 0
        self._node_set_version = -1
        self._node_position = 0
        self._position = 0

    def refresh(self, context: SchedulingContext) -> Rows | None:
        """Ask again where something was touched. Returns the rows whose answers may be new; None: there are none."""
        nodes = context.nodes
        if self._capacity != nodes.capacity or self._node_set_version != nodes.node_set_version:
            rows = node_rows = self._start_over(nodes)
        else:
            rows = _news(nodes.touches, self._position, nodes.height)
            node_rows = _news(nodes.node_touches, self._node_position, nodes.height)
        self._position, self._node_position = nodes.touches.end, nodes.node_touches.end
        if rows is None:
            return None
        try:
            for question in self._questions:
                asked = node_rows if question.reads is Reads.NODE else rows
                if asked is not None:
                    self._put(question, asked, question.ask(context, asked), nodes.capacity)
        except BaseException:
            self._capacity = 0  # or else what was left unasked would pass for answered next time
            raise
        return rows

    def _start_over(self, nodes: NodeTable) -> Rows | None:
        """There is nothing to build on: nothing is kept yet, or a node came or went. All rows have to be asked about."""
        self._capacity, self._node_set_version = nodes.capacity, nodes.node_set_version
        self.columns.clear()
        return slice(0, nodes.height)

    def _put(self, question: Question, rows: Rows, answer: NDArray[np.int64] | None, capacity: int) -> None:
        column = self.columns.get(question.index)
        if column is None:
            if answer is None:
                return
            column = self.columns[question.index] = np.zeros(capacity, np.int64)
        column[rows] = 0 if answer is None else answer


def _news(log: ChangeLog[int], position: int, height: int) -> Rows | None:
    """The rows in a log since a position; None: none. A log that no longer reaches back, or many rows, mean all rows."""
    if position == log.end:
        return None
    touched = log.since(position)
    if touched is None or len(touched) * 4 > height:
        return slice(0, height)
    return np.array(sorted(touched), np.intp)


class ShapeMemo:
    """All that a profile keeps for one shape.

    Which questions are kept is settled when they are first asked: a PreFilter or PreScore that reads only the shape
    may have skipped some, and will skip the same ones every time.
    """

    def __init__(self) -> None:
        self.kept_values = KeptValues()
        self.outcomes: dict[tuple[str, str], Any] = {}
        """What PreFilter and PreScore plugins said that follows from the shape alone, by point and plugin name."""
        self.levels: dict[int, int] = {}
        """By index of a kept score plugin that tells no nodes apart: what normalising makes of 0."""
        self.pre_filter_plan: PluginPlan | None = None
        self.pre_score_plan: PluginPlan | None = None
        self._filters: KeptColumns | None = None
        self._scores: KeptColumns | None = None
        self._filter_order: list[int] = []
        self._summed: dict[int, int] = {}
        self._first: NDArray[np.int8] = np.zeros(0, np.int8)
        self._sum: NDArray[np.int64] = np.zeros(0, np.int64)

    def settle(self, point: str, plan: PluginPlan) -> PluginPlan:
        """The plan without the plugins that are known to skip, or to have nothing to say, for this shape."""
        said = {plugin.name: self.outcomes.get((point, plugin.name), _UNKNOWN) for plugin, _ in plan.steps}
        return PluginPlan(
            frozenset(name for name, outcome in said.items() if outcome in SKIPS),
            tuple(step for step in plan.steps if said[step[0].name] not in (None, *SKIPS)),
        )

    def first_rejections(self, context: SchedulingContext, questions: Callable[[], list[Question]]) -> NDArray[np.int8]:
        """For each row the index of the first kept filter that rejects it, else PASSED, or DEAD. Do not write to it."""
        nodes = context.nodes
        if self._filters is None:
            asked = questions()
            self._filters = KeptColumns(asked)
            self._filter_order = sorted((question.index for question in asked), reverse=True)
        rows = self._filters.refresh(context)
        if len(self._first) != nodes.capacity:
            self._first = np.full(nodes.capacity, DEAD, np.int8)
        few = few_rows(rows) if rows is not None else None
        if few is not None:
            for row in few:
                self._first[row] = self._first_rejection(nodes, row)
        elif rows is not None:
            first = np.where(nodes.alive[rows], PASSED, DEAD).astype(np.int8)
            for index in self._filter_order:
                column = self._filters.columns.get(index)
                if column is not None:
                    first[(column[rows] != 0) & (first != DEAD)] = index
            self._first[rows] = first
        return self._first[: nodes.height]

    def _first_rejection(self, nodes: NodeTable, row: int) -> int:
        """The same for one row."""
        assert self._filters is not None
        if not nodes.alive[row]:
            return DEAD
        first = PASSED
        for index in self._filter_order:
            column = self._filters.columns.get(index)
            if column is not None and column[row]:
                first = index
        return first

    def codes(self, index: int) -> NDArray[np.int64] | None:
        """The codes of one kept filter for all rows, as of the last refresh; None: not kept, or it rejects nothing."""
        return self._filters.columns.get(index) if self._filters else None

    def score_sum(
        self, context: SchedulingContext, questions: Callable[[], list[Question]], weights: dict[int, int]
    ) -> NDArray[np.int64]:
        """For each row the sum of the kept scores named in `weights`, times their weight. Do not write to it."""
        nodes = context.nodes
        if self._scores is None:
            asked = questions()
            self._scores = KeptColumns(asked)
            self._summed = {question.index: weights[question.index] for question in asked if question.index in weights}
        rows = self._scores.refresh(context)
        if len(self._sum) != nodes.capacity:
            self._sum = np.zeros(nodes.capacity, np.int64)
        few = few_rows(rows) if rows is not None else None
        if few is not None:
            kept = self._scores.columns
            parts = [(kept[index], weight) for index, weight in self._summed.items() if index in kept]
            for row in few:
                self._sum[row] = sum(int(part[row]) * weight for part, weight in parts)
        elif rows is not None:
            total = np.zeros(len(self._sum[rows]), np.int64)
            for index, weight in self._summed.items():
                column = self._scores.columns.get(index)
                if column is not None:
                    total += column[rows] * weight
            self._sum[rows] = total
        return self._sum

    def score(self, index: int) -> NDArray[np.int64] | None:
        """The raw scores of one kept score plugin for all rows, as of the last refresh; None: all 0."""
        return self._scores.columns.get(index) if self._scores else None
