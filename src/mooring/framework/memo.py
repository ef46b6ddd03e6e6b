"""What is kept from one attempt to the next: columns of verdicts and scores, refreshed only on rows that were touched since.

Answers are kept by what they depend on. A plugin declares with `@reads` which part of a pod's shape it looks at; its
answers for all rows are one `KeptColumn`, shared by all shapes that have this part. What belongs to a whole shape is a
`ShapeMemo`: for each row the filter that rejects it first, and the weighted sum of the scores. `KeptAnswers` owns both,
and bounds them in bytes.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any
from weakref import ref

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.change_log import ChangeLog
from mooring.cluster.nodes.table import NodeTable, few_rows
from mooring.framework.context import KeptValues, SchedulingContext
from mooring.framework.points import Plugin, Reads, Rows
from mooring.framework.ranking import DEAD, PASSED, RowRanking
from mooring.framework.status import SKIPS
from mooring.model.shape import PodPart, PodShape, ShapePart

Integers = NDArray[np.signedinteger[Any]]
"""Numbers in as few bytes as hold them."""
MemoKey = tuple[str, "ref[PodShape]"]
"""The name of a profile and a shape."""
Outcomes = dict[tuple[Plugin, str], Any]
"""Answers of PreFilter and PreScore plugins, by plugin and point."""
ColumnKey = tuple[Plugin, str, ShapePart]
"""A plugin, an extension point, and the part of a shape that the answers are for."""
Answer = Callable[[SchedulingContext, Rows], NDArray[np.int64] | None]

DEFAULT_LIMIT_BYTES = 64 << 20
"""At 5,000 nodes a shape takes some 60 KB, so a thousand templates fit in."""
PROTECTED_SHARE = 0.8
"""The share of the bytes that a pass over many new shapes leaves alone."""
MEMO_OVERHEAD_BYTES = 4096
"""What a memo takes beside its arrays: dictionaries, plans, values that plugins keep. Measured over 5,000 templates."""
MAX_OUTCOMES = 4096
"""Parts of shapes of which the answers at PreFilter and PreScore are kept: about 1 KB each."""
MAX_EVICTED = 16384
"""Evicted shapes that are remembered: many times more than can be kept, at 200 bytes each."""
_MOST_CHANGED = 16
"""Changed rows up to which a ranking is kept up to date: looking through a block takes 5 µs, all 5,000 rows 30 µs."""
_UNKNOWN = object()
_MAX_SCORE = 100
_MAX_INT32 = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class KeptQuestion:
    """A filter or score whose answers are kept: its place in the profile's order, what they depend on, how to ask it."""

    index: int
    plugin: Plugin
    point: str
    reads: Reads
    part: PodPart
    ask: Answer


@dataclass(frozen=True, slots=True)
class PluginPlan:
    """What is to be asked at PreFilter or PreScore."""

    skipped: frozenset[str]
    """Plugins that are known to skip."""
    steps: tuple[tuple[Any, PodPart | None], ...]
    """Plugins with the part of the shape that alone decides the answer; None: more than the shape does."""


@dataclass(slots=True)
class ByteCount:
    """How many bytes the arrays of columns and memos take."""

    bytes: int = 0


def _news(log: ChangeLog[int], position: int, height: int) -> Rows | None:
    """The rows in a log since a position; None: none. A log that no longer reaches back, or many rows, mean all rows."""
    if position == log.end:
        return None
    touched = log.since(position, height)
    if touched is None or len(touched) * 4 > height:
        return slice(0, height)
    return np.array(touched if len(touched) == 1 else sorted(touched), np.intp)


class KeptColumn:
    """The answers of one plugin for all rows, for all pods that share what the plugin reads of them."""

    __slots__ = (
        "_ask",
        "_byte_count",
        "_capacity",
        "_node_set_version",
        "_position",
        "follows_nodes",
        "users",
        "values",
    )

    def __init__(self, question: KeptQuestion, byte_count: ByteCount) -> None:
        self._ask = question.ask
        self.follows_nodes = question.reads <= Reads.NODE
        """Whether only changes of nodes can change an answer, and no pod that comes or goes."""
        self._byte_count = byte_count
        self.values: Integers | None = None
        """None: the plugin has answered None so far, which means 0 for every row.

        Bytes where all answers fit: most scores and codes do, and then a shape takes a quarter of the memory.
        """
        self.users = 0
        """The memos that read it."""
        self._capacity = 0
        self._node_set_version = -1
        self._position = 0

    def refresh_rows(self, context: SchedulingContext, position: int, rows: Rows) -> None:
        """`refresh`, where the reader knows the rows that were touched since `position`; as a rule this column was up to
        date there too, and so need not look them up again."""
        nodes = context.nodes
        is_known = self._position == position and self._node_set_version == nodes.node_set_version
        if not is_known or self._capacity != nodes.capacity:
            self.refresh(context)
            return
        self._capacity = 0  # should asking raise, nothing passes for answered
        self._put(rows, self._ask(context, rows), nodes.capacity)
        self._capacity, self._position = nodes.capacity, nodes.touches.end

    def refresh(self, context: SchedulingContext) -> None:
        """Ask again where something was touched that the answers depend on."""
        nodes = context.nodes
        log = nodes.node_touches if self.follows_nodes else nodes.touches
        if self._node_set_version != nodes.node_set_version or self._capacity != nodes.capacity:
            self.clear()
            self._node_set_version = nodes.node_set_version
            rows: Rows | None = slice(0, nodes.height)
        elif self._position == log.end:
            return
        else:
            rows = _news(log, self._position, nodes.height)
        self._capacity = 0  # should asking raise, nothing passes for answered
        if rows is not None:
            self._put(rows, self._ask(context, rows), nodes.capacity)
        self._capacity, self._position = nodes.capacity, log.end

    def _put(self, rows: Rows, answer: NDArray[np.int64] | None, capacity: int) -> None:
        if answer is None:
            if self.values is not None:
                self.values[rows] = 0
            return
        values = self.values
        if values is not None and len(answer) == 1 and -128 <= answer[0] <= 127:
            values[rows] = answer  # Hot: as a rule one row was touched, and its answer is small
            return
        if values is None or values.dtype == np.int8:
            self._make_room(answer, capacity)
        assert self.values is not None
        self.values[rows] = answer

    def _make_room(self, answer: NDArray[np.int64], capacity: int) -> None:
        """Have an array that can hold the answer."""
        is_small = not len(answer) or bool(answer.min() >= -128 and answer.max() <= 127)
        if self.values is None:
            self.values = np.zeros(capacity, np.int8 if is_small else np.int64)
            self._byte_count.bytes += self.values.nbytes
        elif not is_small:
            self._byte_count.bytes += 7 * self.values.nbytes
            self.values = self.values.astype(np.int64)

    def clear(self) -> None:
        if self.values is not None:
            self._byte_count.bytes -= self.values.nbytes
            self.values = None

    def drop(self) -> None:
        """The column is no longer kept. An attempt that still reads it finds it as it was."""
        if self.values is not None:
            self._byte_count.bytes -= self.values.nbytes
        self._byte_count = ByteCount()


class ColumnSet:
    """Columns that are read together, and which of their rows may be new since they were last read together.

    Others refresh the columns too, at other times; so a set has a position of its own in the log of touched rows.
    """

    __slots__ = ("_capacity", "_node_position", "_node_set_version", "_position", "columns", "following_rows")

    def __init__(self, columns: list[tuple[int, KeptColumn]]) -> None:
        self.columns = columns
        """By index of the plugin."""
        self.following_rows = [column for _, column in columns if not column.follows_nodes]
        self._capacity, self._node_set_version, self._position, self._node_position = 0, -1, 0, 0

    def refresh(self, context: SchedulingContext) -> Rows | None:
        """Bring the columns up to date. Returns the rows whose answers may be new; None: there are none."""
        nodes = context.nodes
        if self._node_set_version != nodes.node_set_version or self._capacity != nodes.capacity:
            self._refresh_all(context)
            rows: Rows | None = slice(0, nodes.height)
        elif self._position == nodes.touches.end:
            return None
        else:
            rows = _news(nodes.touches, self._position, nodes.height)
            if self._node_position != nodes.node_touches.end:
                self._refresh_all(context)
            elif rows is not None:
                for column in self.following_rows:
                    column.refresh_rows(context, self._position, rows)
        self._capacity, self._node_set_version = nodes.capacity, nodes.node_set_version
        self._position, self._node_position = nodes.touches.end, nodes.node_touches.end
        return rows

    def _refresh_all(self, context: SchedulingContext) -> None:
        for _, column in self.columns:
            column.refresh(context)

    def values(self, index: int) -> NDArray[np.int64] | None:
        """The answers of one plugin for all rows, as of the last refresh; None: there are none, or all are 0."""
        found = next((column.values for each, column in self.columns if each == index), None)
        return None if found is None else found.astype(np.int64)


class ShapeMemo:
    """All that a profile keeps for one shape.

    Which columns it reads is settled when they are first asked for: a PreFilter or PreScore that reads only the shape
    may have skipped some, and will skip the same ones every time.
    """

    def __init__(self, store: "KeptAnswers | None" = None) -> None:
        """Without a store it shares no columns: what is asked in a what-if is forgotten with it."""
        self._store = store
        self._byte_count = store.byte_count if store is not None else ByteCount()
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
        return self._part_outcomes.setdefault(part, {}) if self._store is None else self._store.outcomes_of(part)

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
            is_small = sum(abs(weight) for _, weight in self._summed) * _MAX_SCORE < _MAX_INT32
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
        self._byte_count, self._store = ByteCount(), None

    def _find_columns(self, questions: list[KeptQuestion], shape: PodShape) -> list[tuple[int, KeptColumn]]:
        found = []
        for question in questions:
            key = question.plugin, question.point, shape.part(question.part)
            column = self._store.column(key, question) if self._store else KeptColumn(question, self._byte_count)
            column.users += 1
            self.columns.append((key, column))
            found.append((question.index, column))
        return found


class KeptAnswers:
    """Memos and columns of all profiles of a scheduler, bounded in bytes.

    The memos of shapes that came more than once are *protected*: new ones are evicted first. So a pass over many templates
    that come once does not evict those that come again and again. A column goes with the last memo that reads it.
    """

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self.byte_count = ByteCount()
        self._columns: dict[ColumnKey, KeptColumn] = {}
        self._outcomes: dict[ShapePart, Outcomes] = {}
        self._new: OrderedDict[MemoKey, ShapeMemo] = OrderedDict()
        self._protected: OrderedDict[MemoKey, ShapeMemo] = OrderedDict()
        """Both: least recently used first."""
        self._evicted: dict[MemoKey, None] = {}
        """Shapes whose memo was evicted. One that comes again is used more than once, though its memo did not last."""
        self._table: NodeTable | None = None

    def memo(self, profile: str, shape: PodShape, nodes: NodeTable) -> ShapeMemo:
        """What is kept for a shape in a profile. It follows one table; for a fork of it nothing is kept."""
        if nodes.is_fork:
            return ShapeMemo()
        if nodes is not self._table:
            self._clear()
            self._table = nodes
        key = profile, ref(shape)
        memo = self._protected.get(key)
        if memo is not None:
            self._protected.move_to_end(key)
        elif (memo := self._new.get(key)) is not None:
            self._protect(key)
        else:
            memo = self._new[profile, ref(shape, lambda dead: self._forget((profile, dead)))] = ShapeMemo(self)
            if key in self._evicted:
                del self._evicted[key]
                self._protect(key)
        if self.byte_count.bytes > self.limit_bytes:
            self._evict(memo)
        return memo

    def column(self, key: ColumnKey, question: KeptQuestion) -> KeptColumn:
        """The column for a question about pods with a part, which may have been asked for another shape before."""
        column = self._columns.get(key)
        if column is None:
            column = self._columns[key] = KeptColumn(question, self.byte_count)
        return column

    def outcomes_of(self, part: ShapePart) -> Outcomes:
        """What PreFilter and PreScore plugins said that follows from a part of a shape alone."""
        found = self._outcomes.get(part)
        if found is None:
            if len(self._outcomes) >= MAX_OUTCOMES:
                self._outcomes.clear()
            found = self._outcomes[part] = {}
        return found

    def _protect(self, key: MemoKey) -> None:
        """A shape came for the second time. The memo that was not used for longest loses its protection, if need be."""
        self._new.move_to_end(key)
        kept_key, memo = self._new.popitem()  # the key that was put in: its reference tells when the shape is gone
        self._protected[kept_key] = memo
        mean_bytes = self.byte_count.bytes / (len(self._protected) + len(self._new))
        if len(self._protected) * mean_bytes > PROTECTED_SHARE * self.limit_bytes:
            oldest, demoted = self._protected.popitem(last=False)
            self._new[oldest] = demoted

    def _evict(self, used: ShapeMemo) -> None:
        """Drop memos until the rest is within the limit; the one in use stays."""
        for memos in (self._new, self._protected):
            while memos and self.byte_count.bytes > self.limit_bytes:
                key = next((key for key, memo in memos.items() if memo is not used), None)
                if key is None:
                    break
                self._drop(memos.pop(key))
                self._evicted[key] = None
        while len(self._evicted) > MAX_EVICTED:
            del self._evicted[next(iter(self._evicted))]

    def _forget(self, key: MemoKey) -> None:
        """The last pod of a shape is gone."""
        for memos in (self._new, self._protected):
            memo = memos.pop(key, None)
            if memo is not None:
                self._drop(memo)

    def _drop(self, memo: ShapeMemo) -> None:
        memo.drop()
        for key, column in memo.columns:
            column.users -= 1
            if not column.users:
                column.drop()
                self._columns.pop(key, None)

    def _clear(self) -> None:
        for memos in (self._new, self._protected):
            while memos:
                self._drop(memos.popitem()[1])
        self._outcomes.clear()
        self._evicted.clear()

    def check(self) -> list[str]:
        """The invariants that do not hold, in words."""
        memos = [*self._new.values(), *self._protected.values()]
        counted = sum(MEMO_OVERHEAD_BYTES + memo.arrays_bytes for memo in memos)
        counted += sum(column.values.nbytes for column in self._columns.values() if column.values is not None)
        faults = (
            [] if counted == self.byte_count.bytes else [f"{counted} bytes are kept, {self.byte_count.bytes} are noted"]
        )
        users: dict[ColumnKey, int] = {}
        for memo in memos:
            for key, _ in memo.columns:
                users[key] = users.get(key, 0) + 1
        if users != {key: column.users for key, column in self._columns.items()}:
            faults.append("columns have other users than they know")
        return faults
