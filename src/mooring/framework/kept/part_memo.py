"""Kept answers of a profile for all pods that have one part of their shape in common. Only rows that were touched are
refreshed.

A plugin declares with `@reads` which part of a pod's shape it looks at. What the plugins that go by one part said is a
`PartMemo`: their answers at PreFilter and PreScore, and by row the first of their filters that rejects it and the sum of
their scores. All shapes with this part share it (memo.py puts the parts of a shape together).
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any

import msgspec
import numpy as np

from mooring.cluster.change_log import RowLog
from mooring.cluster.columns.kernels import MAX_SCORE, Integers, weigh
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.contract.context import KeptValues, SchedulingContext
from mooring.framework.contract.points import FilterPlugin, Plugin, Reads, Rows, ScorePlugin
from mooring.framework.kept.feasible import PASSED, First
from mooring.model.shape import PodPart, ShapePart

PRE_FILTER, PRE_SCORE = 0, 1
"""The places of these points in `PartMemo.outcomes`."""
FEW_ROWS = 6
"""Up to so many rows plain numbers are quicker than arrays."""
MAX_SKIP_SETS = 1024
"""Sets of plugins that skip for which it is remembered which scores are left: in practice there are a handful."""
MAX_SKIPS_FOR_NOW = 4096
"""Kinds of pods for which SKIP_FOR_NOW is remembered: some 200 bytes each."""
_MAX_INT16 = (1 << 15) - 1
_MAX_INT32 = (1 << 31) - 1


class KeptQuestion(msgspec.Struct, frozen=True):
    """A filter or score whose answers are kept: its place in the profile's order, what they depend on, how to ask it."""

    index: int
    plugin: Plugin
    point: str
    reads: Reads
    part: PodPart
    ask: Callable[[SchedulingContext, Rows], Integers | None]
    ask_row: Callable[[SchedulingContext, int], int]
    """Asks about one row, in plain numbers."""
    weight: int = 1
    """Weight of a score plugin in the profile; 1 for filters."""

    @property
    def normalizes(self) -> bool:
        """Whether the score of a node depends on those of others."""
        return isinstance(self.plugin, ScorePlugin) and self.plugin.normalizes()


@dataclass(frozen=True, eq=False)
class PartQuestions:
    """The questions of a profile that go by one part of the shape. Identity is equality."""

    part: PodPart
    pre_filters: tuple[tuple[int, Plugin], ...] = ()
    """The PreFilter plugins whose answer follows from the part alone, with their place in the order."""
    pre_scores: tuple[tuple[int, Plugin], ...] = ()
    filters: tuple[KeptQuestion, ...] = ()
    summed: tuple[KeptQuestion, ...] = ()
    """The scores that need nothing but adding up."""
    normalized: tuple[KeptQuestion, ...] = ()
    """The scores that depend on those of other nodes."""
    concerned: tuple[tuple[Plugin, ...], tuple[Plugin, ...]] = ((), ())
    """The filters and the scores that are asked in each attempt, and for which the part alone may say that they do not
    concern a pod."""
    owner: object = None
    """Profiles whose questions have the same owner get the same answers, and share them."""

    @property
    def is_any(self) -> bool:
        """Whether there is any question about the part."""
        return bool(self.pre_filters or self.pre_scores or self.filters or self.summed or self.normalized)

    @cached_property
    def follows_nodes(self) -> bool:
        """Whether only changes of nodes can change an answer, and no pod that comes or goes."""
        return all(each.reads <= Reads.NODE for each in (*self.filters, *self.summed, *self.normalized))

    @cached_property
    def reads_other_nodes(self) -> bool:
        """Whether an answer about a node may change when other nodes come or go."""
        return any(each.plugin.reads_other_nodes for each in (*self.filters, *self.summed, *self.normalized))

    @cached_property
    def answers_by_row(self) -> tuple[bool, bool]:
        """Whether a filter, and whether a score, defines how to answer about one row. Where none does, they are asked about a
        few rows at once: an array of one row takes as long as an array of six."""
        scores = (*self.summed, *self.normalized)
        return (
            any(_own(each.plugin, FilterPlugin, "filter_row") for each in self.filters),
            any(_own(each.plugin, ScorePlugin, "score_row") for each in scores),
        )

    def has_say(self, point: int, skipped: frozenset[str]) -> bool:
        """Whether a filter (after PRE_FILTER) or a score (after PRE_SCORE) is left where these plugins skip."""
        questions = self.filters if point == PRE_FILTER else (*self.summed, *self.normalized)
        return any(each.plugin.name not in skipped for each in questions)

    @cached_property
    def _scores_left(self) -> "dict[frozenset[str], ScoresLeft]":
        return {}

    def scores_left(self, skipped: frozenset[str]) -> "ScoresLeft":
        """The scores that have a say where PreScore skipped some plugins. Hot: the same few sets for all shapes."""
        left = self._scores_left.get(skipped)
        if left is None:
            summed = [each for each in self.summed if each.plugin.name not in skipped]
            normalized = [each for each in self.normalized if each.plugin.name not in skipped]
            left = ScoresLeft(tuple(summed), tuple(normalized), integers_for([each.weight for each in summed]))
            if len(self._scores_left) >= MAX_SKIP_SETS:
                self._scores_left.clear()
            self._scores_left[skipped] = left
        return left


def _own(plugin: Plugin, point: type[Plugin], method: str) -> bool:
    """Whether the plugin defines a method that the extension point has as well."""
    return getattr(type(plugin), method) is not getattr(point, method)


@dataclass(frozen=True)
class ScoresLeft:
    """The scores of a part that have a say about some pods."""

    summed: tuple[KeptQuestion, ...]
    normalized: tuple[KeptQuestion, ...]
    sum_type: "type[np.signedinteger[Any]]"
    """The integers that the weighted sum of `summed` fits into."""


class ByteCount(msgspec.Struct):
    """How many bytes the arrays of memos take."""

    bytes: int = 0


class Bookmark(msgspec.Struct, gc=False):
    """How far a reader has followed a node table.

    Hot: there are four of them for a new shape, which the collector would look at.
    """

    _height: int = -1
    _node_set_version: int = -1
    _position: int = 0

    def is_at_end(self, nodes: NodeTable, log: RowLog) -> bool:
        """Whether nothing has changed since."""
        return (
            self._position == log.end
            and self._node_set_version == nodes.node_set_version
            and self._height == nodes.height
        )

    def take_news(self, nodes: NodeTable, log: RowLog, by_row: bool = False) -> Rows | None:
        """The rows that changed since; None: nothing has changed. Until the next `move` nothing passes for taken in, because
        asking about them may raise.

        All of them if nodes came or went, except `by_row`, where answers do not depend on other nodes; also if that is no
        longer known, or if they are many. A row may be named twice: sorting them out would take longer than asking about
        some of them twice.
        """
        if self._height != nodes.height or (self._node_set_version != nodes.node_set_version and not by_row):
            self._height = -1
            return slice(0, nodes.height)
        if self._position == log.end:
            return None
        self._height = -1
        touched = log.rows_since(self._position)
        if touched is None or len(touched) * 4 > nodes.height:
            return slice(0, nodes.height)
        return touched

    def move(self, nodes: NodeTable, log: RowLog) -> None:
        """Everything up to now is taken in."""
        self._height, self._node_set_version, self._position = nodes.height, nodes.node_set_version, log.end

    def forget(self) -> None:
        """Nothing passes for taken in."""
        self._height = -1

    def copy(self) -> "Bookmark":
        return Bookmark(self._height, self._node_set_version, self._position)


class KeptColumn:
    """The answers of one plugin by row."""

    __slots__ = ("_byte_count", "question", "values")

    def __init__(self, question: KeptQuestion, byte_count: ByteCount) -> None:
        self.question = question
        self._byte_count = byte_count
        self.values: Integers | None = None
        """None: the plugin has answered 0 so far for every row.

        Bytes where all answers fit: most scores and codes do, and then a shape takes a quarter of the memory.
        """

    def put(self, rows: Rows, answer: Integers | None, height: int) -> None:
        """Store the answers for some rows; None stands for 0 on all of them. While all answers are 0, the column takes no
        memory."""
        if answer is None or not len(answer):
            if self.values is not None:
                self.values[rows] = 0
            return
        if answer.itemsize == 1:  # Hot: bytes are small, whichever they are
            self._make_room(0, int(np.count_nonzero(answer)) and 1, height)
        else:
            self._make_room(int(answer.min()), int(answer.max()), height)
        if self.values is not None:
            self.values[rows] = answer

    def put_row(self, row: int, answer: int, height: int) -> None:
        if answer or self.values is not None:
            self._make_room(answer, answer, height)
            assert self.values is not None
            self.values[row] = answer

    def _make_room(self, lowest: int, highest: int, height: int) -> None:
        """Have an array that can hold these answers."""
        is_small = lowest >= -128 and highest <= 127
        if self.values is None:
            if lowest or highest:
                self.values = np.zeros(height, np.int8 if is_small else np.int64)
                self._byte_count.bytes += self.values.nbytes
        elif not is_small and self.values.dtype == np.int8:
            self._byte_count.bytes += 7 * self.values.nbytes
            self.values = self.values.astype(np.int64)

    def fit(self, height: int) -> None:
        """Forget answers about a table of another size."""
        if self.values is not None and len(self.values) != height:
            self._byte_count.bytes -= self.values.nbytes
            self.values = None

    def drop(self) -> None:
        """Detach the column from the shared byte count, because it is no longer kept."""
        self._byte_count = ByteCount()

    def copy(self) -> "KeptColumn":
        """A copy that is not counted."""
        other = KeptColumn(self.question, ByteCount())
        other.values = None if self.values is None else self.values.copy()
        return other


class PartOutcomes(msgspec.Struct, frozen=True, eq=False):
    """Answers of the plugins of PreFilter or PreScore that depend on one part of the shape alone.

    Where they said nothing or skipped, it is interned (`outcomes_of_skips`): identity is equality.
    """

    skipped: frozenset[str] = frozenset()
    """The plugins that skip Filter or Score."""
    unconcerned: frozenset[str] = frozenset()
    """The plugins of Filter or Score that do not skip, and do not concern any pod with this part (`concerned_by`)."""
    others: tuple[tuple[int, Plugin, Any], ...] = ()
    """Plugins with any other answer than None or a skip: their place in the order, the plugin, and the answer."""


@lru_cache(maxsize=1024)
def outcomes_of_skips(skipped: frozenset[str], unconcerned: frozenset[str]) -> PartOutcomes:
    return PartOutcomes(skipped, unconcerned)


@lru_cache(maxsize=1024)
def _of_skips_in_order(skipped: tuple[str, ...], unconcerned: tuple[str, ...]) -> PartOutcomes:
    """Hot: a new shape has skips in an order that others had before, and no set is made of them."""
    return outcomes_of_skips(frozenset(skipped), frozenset(unconcerned))


def outcomes_of(
    skipped: Collection[str], unconcerned: Collection[str], others: tuple[tuple[int, Plugin, Any], ...]
) -> PartOutcomes:
    """Outcomes with these answers, interned where that is possible."""
    if others:
        return PartOutcomes(frozenset(skipped), frozenset(unconcerned), others)
    return _of_skips_in_order(tuple(skipped), tuple(unconcerned))


KeptOfPart = dict[ShapePart, "PartMemo"]
"""Memos about one part of shapes, by the value that stands for this part in a shape."""


class PartMemo:
    """Answers that a profile keeps about one part of a shape. The rows belong to one node table."""

    # Hot: what a new memo does not have yet stands in the class: one is made for each pod with requests of its own.
    filters: list[KeptColumn] | None = None
    """Columns of the filters that decide about pods with this part; None: no filter was asked yet, or none decides."""
    normalized: list[KeptColumn] | None = None
    _summed: tuple[KeptQuestion, ...] = ()
    _sum_type: type[np.signedinteger[Any]] = np.int64
    first: First | None = None
    """None: nothing is rejected."""
    sum: Integers | None = None
    """The weighted sum of the scores that need nothing but adding up; None: 0 for every row."""

    def __init__(
        self, questions: PartQuestions, byte_count: ByteCount, kept_in: "KeptOfPart | None" = None, key: Any = None
    ) -> None:
        """It is kept under the key until the last shape with the part is no longer kept; without either it belongs to one
        attempt."""
        self.questions = questions
        self.part = questions.part
        self._kept_in, self._key = kept_in, key
        self.follows_nodes = questions.follows_nodes
        self.byte_count = byte_count
        self.users = 0
        """The memos of shapes that read it."""
        self.values = KeptValues()
        self.outcomes: list[PartOutcomes | None] = [None, None]
        """Answers at PRE_FILTER and PRE_SCORE of the plugins that depend on this part alone; None: not asked yet."""
        self.skips_for_now: dict[tuple[Any, ...], Any] = {}
        """SKIP_FOR_NOW of a plugin at a point, for pods of a label set and a controller, with the version that it is for."""
        self._filters_at, self._scores_at = Bookmark(), Bookmark()

    def keep_skip_for_now(self, key: tuple[Any, ...], version: Any) -> None:
        """A plugin skips pods of a kind until its version changes."""
        if len(self.skips_for_now) >= MAX_SKIPS_FOR_NOW:
            self.skips_for_now.clear()
        self.skips_for_now[key] = version

    def keep_skip(self, point: int, plugin: str) -> None:
        """A plugin that may be asked about more skips all pods with this part."""
        before = self.outcomes[point]
        assert before is not None, "the plugins that go by the part alone are asked first"
        self.outcomes[point] = outcomes_of(before.skipped | {plugin}, before.unconcerned, before.others)

    def settle_filters(self, skipped: frozenset[str]) -> None:
        """Fix which filters have a say: PreFilter was asked, and would always say the same."""
        asked = [each for each in self.questions.filters if each.plugin.name not in skipped]
        self.filters = [KeptColumn(each, self.byte_count) for each in asked]

    def settle_scores(self, skipped: frozenset[str]) -> None:
        """Fix which scores have a say: PreScore was asked, and would always say the same."""
        left = self.questions.scores_left(skipped)
        self.normalized = [KeptColumn(each, self.byte_count) for each in left.normalized]
        self._summed, self._sum_type = left.summed, left.sum_type

    def refresh(self, context: SchedulingContext, point: int) -> None:
        """Ask the filters (after PRE_FILTER) or the scores (after PRE_SCORE) again about the rows that were touched since the
        last time in what their answers depend on. A few rows are asked about one by one.

        Hot: after a pod was placed one row is touched, and for one row plain numbers take a fifth of what arrays take.
        """
        is_filter, nodes = point == PRE_FILTER, context.nodes
        log = nodes.node_touches if self.follows_nodes else nodes.touches
        at = self._filters_at if is_filter else self._scores_at
        rows = at.take_news(nodes, log, not self.questions.reads_other_nodes)
        if rows is None:
            return
        if isinstance(rows, slice) or len(rows) > FEW_ROWS or not self.questions.answers_by_row[point]:
            (self._filter_rows if is_filter else self._score_rows)(context, rows)
        else:
            ask_row = self._filter_row if is_filter else self._score_row
            # Hot: a node that three victims left is there three times, 6 µs each; as a rule there is one row, and once
            for row in rows.tolist() if len(rows) == 1 else dict.fromkeys(rows.tolist()):
                ask_row(context, row)
        at.move(nodes, log)

    # ---- filters

    def _filter_row(self, context: SchedulingContext, row: int) -> None:
        """Hot: after a pod was placed one row is asked about, and for it NumPy's overhead would dominate."""
        first, height = PASSED, context.nodes.height
        for column in self.filters or ():
            code = column.question.ask_row(context, row)
            column.put_row(row, code, height)
            if code and first == PASSED:
                first = column.question.index
        if first != PASSED and self.first is None:
            self._make_first(height)
        if self.first is not None:
            self.first[row] = first

    def _filter_rows(self, context: SchedulingContext, rows: Rows) -> None:
        """Ask the kept filters of this part about rows, and write their codes and the index of the first filter that rejects
        each row. A column without any rejection is not stored."""
        height, first = context.nodes.height, None
        if self.first is not None and len(self.first) != height:
            self.byte_count.bytes -= len(self.first)
            self.first = None
        for column in self.filters or ():
            column.fit(height)
            column.put(rows, column.question.ask(context, rows), height)
            if column.values is not None:
                found = (column.values[rows] != 0) * np.int8(column.question.index - PASSED)
                found += PASSED  # Hot: `np.where` takes twice as long
                first = found if first is None else np.minimum(first, found)
        if first is not None and self.first is None:
            self._make_first(height)
        if self.first is not None:
            self.first[rows] = PASSED if first is None else first

    def _make_first(self, height: int) -> None:
        self.first = np.full(height, PASSED, np.int8)
        self.byte_count.bytes += height

    # ---- scores

    def _score_row(self, context: SchedulingContext, row: int) -> None:
        """Ask the kept scores of this part about one row, with plain numbers. Scores that need `normalize` are stored raw,
        the others as a weighted sum."""
        total, height = 0, context.nodes.height
        for question in self._summed:
            total += question.ask_row(context, row) * question.weight
        if total and self.sum is None:
            self._make_sum(height)
        if self.sum is not None:
            self.sum[row] = total
        for column in self.normalized or ():
            column.put_row(row, column.question.ask_row(context, row), height)

    def _score_rows(self, context: SchedulingContext, rows: Rows) -> None:
        """Ask the kept scores of this part about rows. Scores that need `normalize` are stored raw, the others as a weighted
        sum. No sum is stored while no plugin gives a score."""
        height, total = context.nodes.height, self._add_up(context, rows)
        if isinstance(rows, slice):  # all rows. Hot: the sum itself is kept, and nothing is copied to new memory
            self.byte_count.bytes += (0 if total is None else total.nbytes) - (
                0 if self.sum is None else self.sum.nbytes
            )
            self.sum = total
        else:
            if total is not None and self.sum is None:
                self._make_sum(height)
            if self.sum is not None:
                self.sum[rows] = 0 if total is None else total
        for column in self.normalized or ():
            column.fit(height)
            column.put(rows, column.question.ask(context, rows), height)

    def _add_up(self, context: SchedulingContext, rows: Rows) -> Integers | None:
        """The weighted sum of the scores of some rows, in memory of its own; None: 0 for all of them."""
        total: Integers | None = None
        is_own = False
        for question in self._summed:
            scores = question.ask(context, rows)
            if scores is None:
                continue
            weighted = weigh(scores, question.weight, self._sum_type)
            total, is_own = (weighted, weighted is not scores) if total is None else (total + weighted, True)
        return total if total is None or is_own else total.copy()

    def _make_sum(self, height: int) -> None:
        self.sum = np.zeros(height, self._sum_type)
        self.byte_count.bytes += self.sum.nbytes

    def copy(self) -> "PartMemo":
        """A copy that is not counted: refreshing it leaves this one as it is."""
        other: PartMemo = object.__new__(PartMemo)
        other.__dict__.update(self.__dict__)
        other.byte_count, other.values = ByteCount(), self.values.copy()
        other.outcomes, other.skips_for_now = list(self.outcomes), dict(self.skips_for_now)
        other.filters = None if self.filters is None else [column.copy() for column in self.filters]
        other.normalized = None if self.normalized is None else [column.copy() for column in self.normalized]
        other.first = None if self.first is None else self.first.copy()
        other.sum = None if self.sum is None else self.sum.copy()
        other._filters_at, other._scores_at = self._filters_at.copy(), self._scores_at.copy()
        return other

    # ---- memory

    @property
    def arrays_bytes(self) -> int:
        columns = (column.values for column in (*(self.filters or ()), *(self.normalized or ())))
        return sum(array.nbytes for array in (self.first, self.sum, *columns) if array is not None)

    def drop(self) -> None:
        """Remove the memo from the kept memos. An attempt that still reads it finds it as it was."""
        self.byte_count.bytes -= self.arrays_bytes
        self.byte_count = ByteCount()
        for column in (*(self.filters or ()), *(self.normalized or ())):
            column.drop()
        if self._kept_in is not None:
            del self._kept_in[self._key]


def integers_for(weights: Sequence[int]) -> type[np.signedinteger[Any]]:
    """The smallest type for sums of scores with these weights."""
    most = sum(map(abs, weights)) * MAX_SCORE
    return np.int16 if most <= _MAX_INT16 else np.int32 if most <= _MAX_INT32 else np.int64
