"""Kept answers for one shape: for each row the first filter that rejects it, and the weighted sum of the scores.

A `ShapeMemo` puts together what is kept for the parts of the shape (part_memo.py), which other shapes may share.
`KeptAnswers` (kept_answers.py) owns all of them, and bounds them in bytes.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from operator import is_
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.kernels import Integers
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.contract.context import KeptValues, SchedulingContext
from mooring.framework.contract.points import Plugin, Rows
from mooring.framework.kept.best_rows import LEAST_ROWS, LEAST_ROWS_BY_NAME, BestRows, PassedCount
from mooring.framework.kept.feasible import DEAD, PASSED, First
from mooring.framework.kept.part_memo import (
    PRE_FILTER,
    PRE_SCORE,
    Bookmark,
    ByteCount,
    KeptColumn,
    PartMemo,
    PartOutcomes,
    PartQuestions,
)
from mooring.framework.kept.score_by_group import GroupedRows, RowGroups
from mooring.model.shape import PodPart

MEMO_OVERHEAD_BYTES = 10_000
"""Size of a memo without its arrays, in bytes: dictionaries, outcomes, values of plugins. Measured over 2,000 templates:
10,300."""

ASK = object()
"""In the answers of a point: the plugin has to be asked."""


class ShapeOutcomes(msgspec.Struct, frozen=True):
    """Answers of the plugins of PreFilter or PreScore for pods of a shape, as far as they are known, and the plugins of the
    next point that are to be asked."""

    skipped: frozenset[str]
    """Plugins that are known to skip."""
    unasked: frozenset[str]
    """These, and the plugins of the next point that do not concern pods of this shape, as far as one part of it shows."""
    answers: tuple[tuple[Any, PodPart, Any], ...]
    """The other plugins that may say something, the part of the shape that they go by, and what they say, or ASK."""
    asked_next: tuple[tuple[int, Any], ...]
    """The plugins of the next point (Filter or Score) that do not skip, may concern the pod, and whose answers are not kept,
    with their place in the order."""
    kept: tuple[int, ...]
    """The places of the parts whose kept filters or scores have a say."""
    kept_by_row: tuple[int, ...]
    """Places of the parts in `kept` whose answers change when pods come and go, and not only when nodes change."""


class OutcomeBook:
    """Makes the outcomes of a profile for one point.

    Hot: nearly all shapes have one of a few outcomes, because parts say nothing or skip. These are kept, so that a pod
    with requests that no pod had before finds those of the others.
    """

    LIMIT = 1024
    """Outcomes that are kept: plugins are few, and so are the combinations of those that skip."""

    def __init__(
        self,
        point: int,
        parts: Sequence[PartQuestions],
        asked: tuple[tuple[int, Plugin, PodPart], ...],
        asked_next: Sequence[tuple[int, Plugin]],
    ) -> None:
        """`parts` are the questions whose answers are kept. `asked` are the plugins whose answers depend on more than the
        shape, with their place in the order and the part of the shape that a skip may follow from; `asked_next` those of
        Filter or Score whose answers are not kept."""
        self.point = point
        """PRE_FILTER or PRE_SCORE."""
        self._parts = parts
        self._asked = asked
        self._asked_next = asked_next
        self._kept: dict[tuple[PartOutcomes, ...], ShapeOutcomes] = {}

    def find(self, outcomes: Sequence[PartOutcomes]) -> ShapeOutcomes:
        """The outcomes for a shape, by what the plugins of each of its parts say at this point. Shapes like it share them."""
        key = tuple(outcomes)
        known = self._kept.get(key)
        if known is None:
            known = self._make(outcomes)
            if not any(said.others for said in outcomes):
                if len(self._kept) >= self.LIMIT:
                    self._kept.clear()
                self._kept[key] = known
        return known

    def _make(self, outcomes: Sequence[PartOutcomes]) -> ShapeOutcomes:
        """Combine the answers for the parts of a shape: the plugins that skip, those that answered, those that are to be
        asked, and the parts whose kept filters or scores count."""
        skipped = frozenset[str]().union(*(said.skipped for said in outcomes))
        unasked = skipped.union(*(said.unconcerned for said in outcomes))
        answers: list[tuple[int, Any, PodPart, Any]] = [
            (index, plugin, questions.part, answer)
            for questions, said in zip(self._parts, outcomes, strict=True)
            for index, plugin, answer in said.others
        ]
        answers += [(index, plugin, part, ASK) for index, plugin, part in self._asked if plugin.name not in skipped]
        answers.sort(key=lambda answer: answer[0])
        kept = [place for place, questions in enumerate(self._parts) if questions.has_say(self.point, skipped)]
        return ShapeOutcomes(
            skipped,
            unasked,
            tuple(answer[1:] for answer in answers),
            tuple((index, plugin) for index, plugin in self._asked_next if plugin.name not in unasked),
            tuple(kept),
            tuple(place for place in kept if not self._parts[place].follows_nodes),
        )


@lru_cache(maxsize=4)
def _all_pass(height: int) -> First:
    """Where no filter rejects a node. Do not write to it: all shapes share it."""
    column = np.full(height, PASSED, np.int8)
    column.flags.writeable = False
    return column


@lru_cache(maxsize=4)
def _all_zero(height: int) -> Integers:
    """Where no score is given."""
    column = np.zeros(height, np.int16)
    column.flags.writeable = False
    return column


class _CombinedColumn:
    """A column that is put together from those of several parts, up to date on the rows that were touched."""

    __slots__ = ("_at", "_sources", "values")

    def __init__(self) -> None:
        self.values: NDArray[Any] = np.zeros(0, np.int8)
        self._sources: list[NDArray[Any]] = []
        self._at = Bookmark()

    def refresh(
        self,
        nodes: NodeTable,
        sources: Sequence[NDArray[Any]],
        dtype: type[np.signedinteger[Any]],
        combine: Callable[[Rows], NDArray[Any] | int],
        by_row: bool,
    ) -> None:
        """`combine` gives the values of some rows; it reads the sources, and what else is noted in the log of touches.
        `by_row`: a node that comes or goes changes no other row in the sources."""
        is_same = len(sources) == len(self._sources) and all(map(is_, sources, self._sources))
        if not is_same or len(self.values) != nodes.height or self.values.dtype != dtype:
            self._at.forget()
            self.values = np.zeros(nodes.height, dtype)
            self._sources = list(sources)
        rows = self._at.take_news(nodes, nodes.touches, by_row)
        if rows is not None:
            self.values[rows] = combine(rows)
            self._at.move(nodes, nodes.touches)

    @property
    def nbytes(self) -> int:
        return self.values.nbytes

    def copy(self, copies: Mapping[int, NDArray[Any]]) -> "_CombinedColumn":
        """A copy that follows the copies of its sources, which are given by the ids of the originals."""
        other = _CombinedColumn()
        other.values, other._at = self.values.copy(), self._at.copy()
        other._sources = [copies.get(id(source), source) for source in self._sources]
        return other


class _ValuesOfParts(dict[PodPart, KeptValues]):
    """Values that plugins keep, by part of a shape. Shapes with the same part share them if the profile has questions about
    the part. Hot: a part is looked up when a plugin first keeps something for it, because most parts are never asked for."""

    __slots__ = ("_parts", "_places")

    def __init__(self, parts: tuple[PartMemo, ...], places: Mapping[PodPart, int]) -> None:
        self._parts, self._places = parts, places

    def __missing__(self, part: PodPart) -> KeptValues:
        place = self._places.get(part)
        values = self[part] = KeptValues() if place is None else self._parts[place].values
        return values


class ShapeMemo:
    """Answers that a profile keeps for one shape.

    Which plugins have a say is settled when they are first asked: a PreFilter or PreScore that reads only the shape may have
    skipped some, and will skip the same ones every time.
    """

    # Hot: what a new memo does not have yet stands in the class, as in PartMemo.
    pre_filter_outcomes: ShapeOutcomes | None = None
    pre_score_outcomes: ShapeOutcomes | None = None
    _filtering: Sequence[PartMemo] = ()
    _scoring: Sequence[PartMemo] = ()
    _row_filtering: Sequence[PartMemo] = ()
    """Parts in `_filtering` whose answers change when pods come and go, and not only when nodes change. Hot: as a rule no
    node has changed."""
    _row_scoring: Sequence[PartMemo] = ()
    rejects_nothing = False
    """Whether no kept filter rejects a node, as of the last refresh: then a look at the column tells nothing."""
    _columns: Mapping[int, KeptColumn] | None = None
    """The columns of the kept filters that have a say, by their place in the order; None: not asked for yet."""
    _combined_first: _CombinedColumn | None = None
    _combined_sum: _CombinedColumn | None = None
    _best: BestRows | None = None
    _passed: PassedCount | None = None
    _grouped: GroupedRows | None = None

    def __init__(
        self, parts: tuple[PartMemo, ...], places: Mapping[PodPart, int], byte_count: ByteCount | None = None
    ) -> None:
        """`places` are those of the parts in the tuple. Without a count of bytes it belongs to one attempt: what is asked in
        a what-if is forgotten with it."""
        self.parts = parts
        self._places = places
        self.values = _ValuesOfParts(parts, places)
        self._byte_count = byte_count or ByteCount()
        self._filters_at, self._scores_at = Bookmark(), Bookmark()
        """How far all parts, and not only these, have followed the changes of nodes."""
        self._noted_bytes = MEMO_OVERHEAD_BYTES
        self._byte_count.bytes += MEMO_OVERHEAD_BYTES

    # ---- filters

    def settle_filters(self, known: ShapeOutcomes) -> None:
        """PreFilter is over for the first time: fix which filters have a say."""
        parts = self.parts
        self._filtering = [parts[place] for place in known.kept]
        self._row_filtering = [parts[place] for place in known.kept_by_row]
        for part in self._filtering:
            if part.filters is None:  # Hot: of a new shape most parts are known from other shapes
                part.settle_filters(known.skipped)
        self.pre_filter_outcomes, self._columns = known, None

    def first_rejections(self, context: SchedulingContext) -> First:
        """For each row the index of the first kept filter that rejects it, else PASSED, or DEAD. Do not write to it."""
        nodes = context.nodes
        is_at_end = self._filters_at.is_at_end(nodes, nodes.node_touches)
        for part in self._row_filtering if is_at_end else self._filtering:
            part.refresh(context, PRE_FILTER)
        if not is_at_end:
            self._filters_at.move(nodes, nodes.node_touches)
        sources = [part.first for part in self._filtering if part.first is not None]
        is_all_alive = nodes.alive_count == nodes.height
        self.rejects_nothing = is_all_alive and not sources
        if not is_all_alive or len(sources) > 1:
            return self._combine_first(nodes, sources)
        return sources[0] if sources else _all_pass(nodes.height)

    def refresh_node_answers(self, context: SchedulingContext) -> None:
        """Bring the answers of filters up to date that change with nodes alone, for a question about a single row."""
        if not self._filters_at.is_at_end(context.nodes, context.nodes.node_touches):
            for part in self._filtering:
                if part.follows_nodes:
                    part.refresh(context, PRE_FILTER)

    def _combine_first(self, nodes: NodeTable, sources: list[First]) -> First:
        """Combine the columns of several parts: the first filter of all parts that rejects a row is the one with the lowest
        index."""

        def combine(rows: Rows) -> First | int:
            if not isinstance(rows, slice) and len(rows) == 1:  # Hot: as a rule; arrays of one take three times as long
                row = rows.item(0)
                return min([PASSED if nodes.alive.item(row) else DEAD, *(source.item(row) for source in sources)])
            first = np.where(nodes.alive[rows], np.int8(PASSED), np.int8(DEAD))  # DEAD is less than any index
            for source in sources:
                np.minimum(first, source[rows], out=first)
            return first

        combined = self._combined_first = self._combined_first or _CombinedColumn()
        combined.refresh(nodes, sources, np.int8, combine, self._are_rejections_by_row())
        return combined.values

    def _are_rejections_by_row(self) -> bool:
        """Whether a node that comes or goes changes the first rejection of no other row."""
        return not any(part.questions.reads_other_nodes for part in self._filtering if part.first is not None)

    def codes(self, index: int) -> Integers | None:
        """The codes of one kept filter for all rows, as of the last refresh; None: not kept, or it rejects nothing."""
        if self._columns is None:
            columns = [column for part in self._filtering for column in part.filters or ()]
            self._columns = {column.question.index: column for column in columns}
        found = self._columns.get(index)
        return None if found is None else found.values

    # ---- scores

    def settle_scores(self, known: ShapeOutcomes) -> None:
        """PreScore is over for the first time: fix which scores have a say."""
        parts = self.parts
        self._scoring = [parts[place] for place in known.kept]
        self._row_scoring = [parts[place] for place in known.kept_by_row]
        for part in self._scoring:
            if part.normalized is None:
                part.settle_scores(known.skipped)
        self.pre_score_outcomes = known

    def score_sum(self, context: SchedulingContext) -> Integers:
        """For each row the weighted sum of the kept scores that are not normalised. Do not write to it."""
        nodes = context.nodes
        is_at_end = self._scores_at.is_at_end(nodes, nodes.node_touches)
        for part in self._row_scoring if is_at_end else self._scoring:
            part.refresh(context, PRE_SCORE)
        if not is_at_end:
            self._scores_at.move(nodes, nodes.node_touches)
        sources = [part.sum for part in self._scoring if part.sum is not None]
        if len(sources) > 1:
            return self._combine_sum(nodes, sources)
        return sources[0] if sources else _all_zero(nodes.height)

    def passed_count(self, nodes: NodeTable, first: First) -> int | None:
        """How many rows passed in what `first_rejections` has returned; None: the table is too small for that to pay."""
        if nodes.height <= LEAST_ROWS:
            return None
        passed = self._passed = self._passed or PassedCount()
        passed.refresh(nodes, first, self._are_rejections_by_row())
        return passed.count

    def best_rows(
        self, nodes: NodeTable, totals: Integers, first: First | None, is_by_name: bool = False
    ) -> BestRows | None:
        """Finds the best row in what `score_sum` has returned, of all or of those that passed in what `first_rejections` has
        returned; None: the table is too small for that to pay. `is_by_name` says that the first of the best rows is wanted,
        and that all rows passed."""
        if nodes.height <= (LEAST_ROWS_BY_NAME if is_by_name and totals.itemsize == 2 else LEAST_ROWS):
            return None
        best = self._best = self._best or BestRows()
        best.refresh(nodes, totals, first)
        return best

    def grouped(self, nodes: NodeTable, groups: RowGroups, first: First, kept: Integers) -> GroupedRows | None:
        """The rows by group, up to date; None: they are not followed at the moment. `first` and `kept` are what
        `first_rejections` and `score_sum` have returned."""
        grouped = self._grouped
        if grouped is None or not grouped.are_for(nodes, groups):
            grouped = self._grouped = GroupedRows(nodes, groups)
        return grouped if grouped.refresh(first, kept) else None

    def _combine_sum(self, nodes: NodeTable, sources: list[Integers]) -> Integers:
        """Combine the columns of several parts: the sum of their weighted scores by row. 32-bit integers are used if all
        parts have them."""
        dtype = np.int64 if any(source.dtype == np.int64 for source in sources) else np.int32

        def combine(rows: Rows) -> Integers:
            total: Integers = sources[0][rows].astype(dtype)
            for source in sources[1:]:
                total += source[rows]
            return total

        combined = self._combined_sum = self._combined_sum or _CombinedColumn()
        is_by_row = not any(part.questions.reads_other_nodes for part in self._scoring if part.sum is not None)
        combined.refresh(nodes, sources, dtype, combine, is_by_row)
        return combined.values

    def raw_scores(self, index: int) -> Integers | None:
        """The raw scores of one kept plugin that normalises, for all rows, as of the last refresh; None: all 0."""
        for part in self._scoring:
            for column in part.normalized or ():
                if column.question.index == index:
                    return column.values
        return None

    # ---- memory

    @property
    def own_bytes(self) -> int:
        first, total, grouped, best = self._combined_first, self._combined_sum, self._grouped, self._best
        return (
            MEMO_OVERHEAD_BYTES
            + (0 if first is None else first.nbytes)
            + (0 if total is None else total.nbytes)
            + (0 if grouped is None else grouped.nbytes)
            + (0 if best is None else best.nbytes)
        )  # Hot: asked for in every attempt, and as a rule there is neither

    def note_bytes(self) -> None:
        """Count what it takes now."""
        now = self.own_bytes
        self._byte_count.bytes += now - self._noted_bytes
        self._noted_bytes = now

    def drop(self) -> None:
        """The memo is no longer kept. An attempt that still reads it finds it as it was."""
        self._byte_count.bytes -= self._noted_bytes
        self._byte_count = ByteCount()

    def copy(self) -> "ShapeMemo":
        """A copy that is not counted: an attempt that reads it leaves this one as it is."""
        other = ShapeMemo(tuple(part.copy() for part in self.parts), self._places)
        copy_of = dict(zip(self.parts, other.parts, strict=True))
        other.values.update({part: kept.copy() for part, kept in self.values.items() if part not in self._places})
        other.pre_filter_outcomes, other.pre_score_outcomes = self.pre_filter_outcomes, self.pre_score_outcomes
        for name in ("_filtering", "_scoring", "_row_filtering", "_row_scoring"):
            setattr(other, name, [copy_of[part] for part in getattr(self, name)])
        other._filters_at, other._scores_at = self._filters_at.copy(), self._scores_at.copy()
        firsts = {id(a.first): b.first for a, b in copy_of.items() if a.first is not None and b.first is not None}
        sums = {id(a.sum): b.sum for a, b in copy_of.items() if a.sum is not None and b.sum is not None}
        other._combined_first = None if self._combined_first is None else self._combined_first.copy(firsts)
        other._combined_sum = None if self._combined_sum is None else self._combined_sum.copy(sums)
        return other

    def part(self, part: PodPart) -> PartMemo:
        """Return the memo of a part of the shape. The profile must have questions about this part."""
        return self.parts[self._places[part]]
