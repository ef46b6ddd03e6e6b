"""Runs the plugins of a profile on one pod, point by point: PreFilter, Filter, PreScore, Score.

Whatever a plugin raises ends the attempt with that plugin named; never the scheduler.
"""

from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.kernels import Integers, Mask, weigh
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import (
    Codes,
    FilterPlugin,
    NodeNames,
    Plugin,
    PreFilterExtensions,
    Reads,
    Rows,
    ScorePlugin,
    Scores,
)
from mooring.framework.contract.special_points import TotalsPlugin
from mooring.framework.contract.status import SKIP_SHAPE, SKIPS, Code, FoundRejection, Rejection, describe, final
from mooring.framework.kept.asking import (
    AttemptError,
    ask_filter,
    ask_score,
    ask_totals,
    concerns,
    count_rows,
    filtering,
    normalize,
    scoring,
)
from mooring.framework.kept.best_rows import LEAST_ROWS, MaskedTotals
from mooring.framework.kept.feasible import NARROWED_OUT, PASSED, FeasibleRows, First, with_value
from mooring.framework.kept.memo import ASK, ShapeMemo
from mooring.framework.kept.prepared import PreparedProfile, PrePoints
from mooring.framework.kept.score_by_group import BestOfGroups, RowGroups, ScoreByGroup, groups_of
from mooring.framework.kept.score_by_value import ValueScores, ask_score_by_value

C = TypeVar("C")

_NONE: frozenset[str] = frozenset()


@lru_cache(maxsize=1024)
def _with(skipped: frozenset[str], name: str) -> frozenset[str]:
    """The plugins that skip, with one more. Hot: there are few combinations, and the callers that measure look up what they
    count by these sets: the same object each time needs no new set and no new hash."""
    return skipped | {name}


# Hot: of what an attempt makes each time, structs take a third of the time of dataclasses: 0.3 µs instead of 0.9.


class Narrowing(msgspec.Struct):
    """Result of PreFilter: the names of the nodes to look at, if plugins restricted them, and the names of these plugins."""

    names: frozenset[str] | None = None
    plugins: tuple[str, ...] = ()
    within: Mask | None = None
    """The only rows to look at, whatever PreFilter says: those of a placement. It makes no rejections."""

    def includes(self, name: str, row: int) -> bool:
        """Whether the node with this name, in this row, is one of the nodes to look at."""
        return (self.names is None or name in self.names) and (self.within is None or bool(self.within[row]))

    def rejection_of_others(self) -> Rejection | None:
        if self.names is None:
            return None
        return final(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(self.plugins))}]")


class PodRejected(msgspec.Struct):
    """PreFilter refused the pod, whatever the node."""

    rejection: Rejection
    plugins: frozenset[str]


class Verdicts(msgspec.Struct, eq=False):
    """The outcome of filtering: for each row which filter rejected it first, and the codes that tell why."""

    first: NDArray[np.int8]
    codes: dict[int, Codes] = msgspec.field(default_factory=dict)
    """By index of a filter that was asked in this attempt: a code for every row (0 for those not asked about)."""
    objections: dict[str, Rejection] = msgspec.field(default_factory=dict)
    """By name of a node: what extenders have against it. Such rows are NARROWED_OUT in `first`."""
    is_thinned: bool = False
    """Whether extenders left fewer nodes than filters did."""
    kept: NDArray[np.int8] | None = None
    """First rejections by the kept filters alone, by row. If `first` is this same array, no other filter rejected a node."""
    found: tuple[NDArray[np.int8], list[FoundRejection]] | None = None
    """The column `first` and its distinct verdicts, once these are worked out (fit_errors.py)."""


class ScoreCard(msgspec.Struct, eq=False):
    """The outcome of scoring for the rows that passed: totals and, if asked for, what each plugin gave (weighted)."""

    rows: Rows
    totals: Scores
    added: int = 0
    """Number to add to the total of each node. It is the same for all nodes, so it does not change which node is the best."""
    by_plugin: dict[str, Scores] = msgspec.field(default_factory=dict)


class Attempt(PrePoints):
    """One attempt: call pre_filter, filter and score, in this order."""

    __slots__ = ("_is_prepared", "_no_filter", "_no_score")

    def __init__(self, runner: PreparedProfile, context: SchedulingContext, memo: ShapeMemo) -> None:
        super().__init__(runner, context, memo)
        self._is_prepared = False
        """Whether PreFilter ran to its end, so that filters have the state that they read."""
        self._no_filter: frozenset[str] = _NONE
        self._no_score: frozenset[str] = _NONE
        """The plugins that skip Filter and Score."""

    # ---- PreFilter

    def pre_filter(self) -> Narrowing | PodRejected:
        """Ask every PreFilter plugin. Kept answers are used where the shape decides them. Returns the restriction to nodes,
        or the rejection of the pod. Parity: a plugin that says Unschedulable does not stop the plugins after it,
        UnschedulableAndUnresolvable does."""
        memo, narrowing, is_settled = self._memo, Narrowing(), True
        known = memo.pre_filter_outcomes or self._outcomes("PreFilter")
        self._no_filter = known.skipped
        refused: PodRejected | None = None
        for plugin, part, said in known.answers:
            outcome = said if said is not ASK else self._ask("PreFilter", plugin, part)
            if outcome is None:
                continue
            if outcome in SKIPS:
                self._no_filter = _with(self._no_filter, plugin.name)
                is_settled = is_settled and outcome is not SKIP_SHAPE
            elif isinstance(outcome, NodeNames):
                empty = _narrow(narrowing, outcome.names, plugin.name)
                if empty is not None:
                    self._end_before(plugin)
                    return empty
            elif isinstance(outcome, Rejection):
                refused = PodRejected(outcome.by(plugin.name), frozenset((plugin.name,)))
                if outcome.code is Code.UnschedulableAndUnresolvable:
                    self._end_before(plugin)
                    return refused
                if outcome.code is not Code.Unschedulable:
                    raise AttemptError(f'running PreFilter plugin "{plugin.name}": {outcome.message}')
            elif isinstance(outcome, AttemptError):
                raise outcome
            else:
                raise AttemptError(f'running PreFilter plugin "{plugin.name}": unexpected answer {outcome!r}')
        if memo.pre_filter_outcomes is None:
            memo.settle_filters(known if is_settled else self._outcomes("PreFilter"))
        self._is_prepared = True
        return refused or narrowing

    def _end_before(self, plugin: Plugin) -> None:
        """The attempt ends at PreFilter of a plugin: note those that come after it."""
        names = [each.name for each in self.runner.profile.pre_filters]
        self.context.unreached = names[names.index(plugin.name) + 1 :]

    # ---- Filter

    def filter(self, narrowing: Narrowing) -> Verdicts:
        """Ask every Filter plugin about the nodes that the ones before it let pass: begin with the first rejections that are
        kept for the shape, apply the restrictions of PreFilter and of the placement, then ask the filters whose answers are
        not kept."""
        context = self.context
        kept = self._memo.first_rejections(context)
        verdicts = Verdicts(kept, kept=kept)
        if narrowing.names is not None:
            verdicts.first = _keep_only(verdicts.first, narrowing.names, context)
        if narrowing.within is not None:
            verdicts.first = with_value(verdicts.first, ~narrowing.within, NARROWED_OUT)
        known = self._memo.pre_filter_outcomes
        for index, plugin in self.runner.asked_filters if known is None else known.asked_next:
            if plugin.name not in self._no_filter and concerns(plugin, context, filtering):
                self._ask_filter(index, plugin, verdicts)
        return verdicts

    @property
    def left_out(self) -> frozenset[str]:
        """The plugins that skip Filter."""
        return self._no_filter

    def refresh_node_answers(self) -> None:
        """Bring the kept answers of filters up to date that follow from nodes alone: `kept_code` gives these."""
        self._memo.refresh_node_answers(self.context)

    def _rejects_nothing(self, verdicts: Verdicts) -> bool:
        """Whether all rows are known to have passed. Hot: as a rule they have, and no column is read to find out."""
        return self._memo.rejects_nothing and verdicts.first is verdicts.kept

    def active_filters(self) -> list[tuple[int, FilterPlugin]]:
        """The filters that have a say about this pod, with their place in the order.

        What-ifs get filters from here and from nowhere else, so that none of them can ask a filter whose PreFilter did not
        run: a final rejection by PreFilter ends it, and then no eviction can help.
        """
        if not self._is_prepared:
            raise RuntimeError("a what-if asks for filters of an attempt whose PreFilter did not run to its end")
        known = self._memo.pre_filter_outcomes
        left = self.runner.filters_without(self._no_filter if known is None else self._no_filter | known.unasked)
        return [
            (index, plugin) for index, plugin, asks in left if not asks or concerns(plugin, self.context, filtering)
        ]

    def extensions(self) -> list[PreFilterExtensions]:
        """The plugins with a say whose state follows the pods on nodes."""
        plugins = self.runner.profile.pre_filters
        return [p for p in plugins if isinstance(p, PreFilterExtensions) and p.name not in self._no_filter]

    def kept_codes(self, index: int) -> Codes | None:
        """The codes of a filter whose answers are kept, for all rows; None: it rejects nothing."""
        codes = self._memo.codes(index)
        return None if codes is None else codes.astype(np.int64)

    def kept_code(self, index: int, row: int) -> int:
        """The code of a filter whose answers are kept, for one row; 0: it lets the row pass."""
        codes = self._memo.codes(index)
        return 0 if codes is None else int(codes[row])

    def rejection(self, index: int, code: int) -> Rejection:
        """Ask the filter with this index for the rejection that its code stands for. Raises AttemptError if the plugin
        fails."""
        plugin = self.runner.filters[index]
        try:
            return plugin.rejection(self.context, code).by(plugin.name)
        except Exception as fault:
            raise AttemptError(f"{filtering(plugin)}: {describe(fault)}") from fault

    def codes(self, verdicts: Verdicts, index: int) -> Codes:
        """The codes of one filter, for all rows."""
        found = verdicts.codes.get(index)
        if found is None:
            found = self.kept_codes(index)
        assert found is not None, "a filter that rejected something has codes"
        return found

    def _ask_filter(self, index: int, plugin: FilterPlugin, verdicts: Verdicts) -> None:
        """Parity: a node is asked about only when all filters before this one let it pass."""
        height = self.context.nodes.height
        still_in = None if self._rejects_nothing(verdicts) else verdicts.first > index
        asked = height if still_in is None else int(np.count_nonzero(still_in))
        if not asked:
            return
        is_for_all = asked == height or (not plugin.needs_feasible and 2 * asked >= height)
        rows: Rows = slice(0, height) if still_in is None or is_for_all else np.flatnonzero(still_in)
        codes = ask_filter(plugin, self.context, rows)
        if codes is None:
            return
        everywhere = codes
        if not is_for_all:
            everywhere = np.zeros(height, codes.dtype)
            everywhere[rows] = codes
        elif still_in is not None and asked < height:
            everywhere[np.flatnonzero(~still_in)] = 0
        first = with_value(verdicts.first, everywhere != 0, index)
        if first is not verdicts.first:
            verdicts.codes[index], verdicts.first = everywhere, first

    # ---- Score

    def score(self, rows: Rows, explain: bool = False) -> ScoreCard:
        """Score the nodes that passed: PreScore, Score, normalise, range check, weights."""
        feasible = FeasibleRows.of(rows, count_rows(self.context, rows))
        return self._pre_score_and_score(feasible, self._totals, explain)

    def best(self, verdicts: Verdicts, goes_by_name: bool = False) -> ScoreCard | MaskedTotals | BestOfGroups | None:
        """Score the nodes that passed, where only the best one is wanted; None: fewer than two passed, or a plugin of the
        profile has the last word about their totals. With `goes_by_name`, the row with the lowest name is taken of those
        with the highest total."""
        if self.runner.judge is not None:
            return None
        first = verdicts.first
        kept = first if first is verdicts.kept else None
        if self._rejects_nothing(verdicts):
            feasible = FeasibleRows.all(len(first))
        else:
            count = None if kept is None else self._memo.passed_count(self.context.nodes, kept)
            feasible = FeasibleRows(first, count)
        if feasible.count < 2:
            return None
        is_new = self._memo.pre_score_outcomes is None
        return self._pre_score_and_score(feasible, self._find_best, kept, goes_by_name, is_new)

    def _pre_score_and_score(self, feasible: FeasibleRows, score: Callable[..., C], *options: object) -> C:
        """Run both points of scoring. `score` sums the scores in one of two ways."""
        self._pre_score(feasible)
        return score(feasible, *options)

    def _totals(self, feasible: FeasibleRows, explain: bool) -> ScoreCard:
        """Sum the weighted scores of the feasible rows. Kept scores are summed already; only other plugins are asked, but
        `explain` asks all plugins to show the part of each."""
        runner, context, rows = self.runner, self.context, feasible.rows
        if runner.judge is not None and (judged := self._judged(runner.judge, feasible, explain)) is not None:
            return judged
        if not runner.scores:
            return ScoreCard(rows, np.ones(count_rows(context, rows), np.int64))
        kept_sum = self._memo.score_sum(context)
        card = ScoreCard(rows, kept_sum[rows].astype(np.int64))
        for index, plugin in enumerate(runner.scores) if explain else runner.asked_scores:
            if plugin.name in self._no_score:
                continue
            weighted = self._weighted(index, plugin, feasible)
            if index not in runner.summed:
                card.totals += weighted
            if explain:
                card.by_plugin[plugin.name] = np.zeros(len(card.totals), np.int64) + weighted
        return card

    def _judged(self, judge: TotalsPlugin, feasible: FeasibleRows, explain: bool) -> ScoreCard | None:
        """The totals that a plugin decided on; None: it leaves them to the sum of the scores."""
        context, rows = self.context, feasible.rows
        totals = ask_totals(judge, context, rows, partial(self._normalized, feasible))
        if totals is None:
            return None
        return ScoreCard(rows, totals, by_plugin={judge.name: totals} if explain else {})

    def _normalized(self, feasible: FeasibleRows) -> dict[str, Scores]:
        """The normalized scores of each plugin that has a say about this pod, without weights."""
        found: dict[str, Scores] = {}
        count = count_rows(self.context, feasible.rows)
        for index, plugin in enumerate(self.runner.scores):
            if plugin is self.runner.judge:
                continue
            has_say = plugin.name not in self._no_score and concerns(plugin, self.context, scoring)
            found[plugin.name] = np.zeros(count, np.int64) + (
                self._scores_of(index, plugin, feasible) if has_say else 0
            )
        return found

    def _find_best(
        self, feasible: FeasibleRows, first: First | None, goes_by_name: bool, is_new: bool
    ) -> ScoreCard | MaskedTotals | BestOfGroups:
        """Hot: where all asked scores give one number for all nodes, only what is kept tells nodes apart. `first` are the
        kept first rejections, if they alone decide which rows are feasible. Groups are for a shape that comes again: `is_new`
        says that this is the first time."""
        context = self.context
        kept_sum, added, parts = self._memo.score_sum(context), 0, []
        kept = kept_sum
        known = self._memo.pre_score_outcomes
        asked = self.runner.asked_scores if known is None else known.asked_next
        if first is not None and goes_by_name and not is_new:
            grouped = self._best_of_groups(asked, first, kept, feasible)
            if grouped is not None:
                return grouped
        by_value = self._scores_by_value(feasible)
        for index, plugin in asked:
            if plugin.name not in self._no_score and index not in by_value:
                weighted = self._weighted(index, plugin, feasible)
                if isinstance(weighted, int):
                    added += weighted
                else:
                    parts.append(weighted)
        for scores in by_value.values():
            kept_sum, added = scores.add_to(kept_sum, self.runner.total_type), added + scores.base
        if parts:
            rows = feasible.rows
            totals: Scores = (kept_sum[rows] if isinstance(rows, slice) else kept_sum.take(rows)) + parts[0]
            for part in parts[1:]:
                totals = totals + part
            return ScoreCard(rows, totals, added=added)
        if first is not None and kept_sum is kept and context.nodes.height > LEAST_ROWS:
            is_all = feasible.count == len(first)
            is_by_name = is_all and goes_by_name and context.nodes.is_named_by_row()
            best = self._memo.best_rows(context.nodes, kept, None if is_all else first, is_by_name)
            if best is not None:
                return MaskedTotals(best.totals, added, feasible.count, best)
        totals = feasible.mask(kept_sum, is_own=kept_sum is not kept)
        return MaskedTotals(totals, added, feasible.count)

    def _best_of_groups(
        self, asked: Iterable[tuple[int, ScorePlugin]], first: First, kept: Integers, feasible: FeasibleRows
    ) -> BestOfGroups | None:
        """The best row, where one of the asked plugins scores groups of rows that are followed, and the others give one
        number for all nodes. None: the rows have to be scored."""
        found = self._plugin_by_group()
        if found is None:
            return None
        index, plugin, groups = found
        grouped = self._memo.grouped(self.context.nodes, groups, first, kept)
        if grouped is None:
            return None
        added = 0
        for other, each in asked:
            if other != index and each.name not in self._no_score:
                weighted = self._weighted(other, each, feasible)
                if not isinstance(weighted, int):
                    return None
                added += weighted
        best = grouped.best(plugin, self.context, self.runner.weights[index])
        if best is not None:
            best.total += added
        return best

    def _plugin_by_group(self) -> tuple[int, ScoreByGroup, RowGroups] | None:
        """The first plugin that scores this pod by groups of rows, with its place in the order, and the groups."""
        for index, plugin in self.runner.scores_by_group:
            if plugin.name not in self._no_score and concerns(plugin, self.context, scoring):
                groups = groups_of(plugin, self.context)
                if groups is not None:
                    return index, plugin, groups
        return None

    def _scores_by_value(self, feasible: FeasibleRows) -> dict[int, ValueScores]:
        """By index of a plugin: its scores, where they follow from a label and most nodes are feasible."""
        found: dict[int, ValueScores] = {}
        for index, plugin in self.runner.scores_by_value if feasible.are_most else ():
            if plugin.name not in self._no_score and concerns(plugin, self.context, scoring):
                scores = ask_score_by_value(plugin, self.context, feasible, self.runner.weights[index])
                if scores is not None:
                    found[index] = scores
        return found

    def _weighted(self, index: int, plugin: ScorePlugin, feasible: FeasibleRows) -> Scores | int:
        """Compute the contribution of a plugin to the totals: its normalized scores times its weight. It is one number if it
        is the same for all nodes."""
        if not concerns(plugin, self.context, scoring):
            return 0
        scores, weight = self._scores_of(index, plugin, feasible), self.runner.weights[index]
        return scores * weight if isinstance(scores, int) else weigh(scores, weight)

    def _pre_score(self, feasible: FeasibleRows) -> None:
        """Run PreScore and note the plugins that skip Score. Kept answers are used where the shape decides them. Raises
        AttemptError if a plugin failed."""
        memo, is_settled = self._memo, True
        known = memo.pre_score_outcomes or self._outcomes("PreScore")
        self._no_score = known.skipped
        for plugin, part, said in known.answers:
            outcome = said if said is not ASK else self._ask("PreScore", plugin, part, feasible)
            if outcome in SKIPS:
                self._no_score = _with(self._no_score, plugin.name)
                is_settled = is_settled and outcome is not SKIP_SHAPE
            elif isinstance(outcome, AttemptError):
                raise outcome
        if memo.pre_score_outcomes is None:
            memo.settle_scores(known if is_settled else self._outcomes("PreScore"))

    def _scores_of(self, index: int, plugin: ScorePlugin, feasible: FeasibleRows) -> Scores | int:
        """Get the scores of a plugin, normalized and checked. It is one number if it is the same for all nodes."""
        if index in self.runner.summed or self.runner.score_reads[index] is Reads.CLUSTER:
            raw = ask_score(plugin, self.context, feasible.rows)
        else:
            column = self._memo.raw_scores(index)
            if column is None:
                return self._level(index, plugin, feasible)
            raw = column[feasible.rows].astype(np.int64)
        if not plugin.normalizes():
            return 0 if raw is None else raw
        # Hot: a plugin without anything to tell nodes apart is normalised for one node instead of thousands.
        scores = normalize(plugin, self.context, np.zeros(1, np.int64) if raw is None else raw, feasible.rows)
        return int(scores[0]) if raw is None else scores

    def _level(self, index: int, plugin: ScorePlugin, feasible: FeasibleRows) -> int:
        """Get the normalized score of a kept plugin that gives all nodes the same raw score. Its `normalize` depends only on
        the scores, so the result is kept for the profile."""
        levels = self.runner.levels
        level = levels.get(index)
        if level is None:
            level = levels[index] = int(normalize(plugin, self.context, np.zeros(1, np.int64), feasible.rows)[0])
        return level


def _narrow(narrowing: Narrowing, names: frozenset[str], plugin: str) -> PodRejected | None:
    """Keep only nodes that every restricting plugin named. Returns the rejection of the pod when none is left."""
    narrowing.names = names if narrowing.names is None else narrowing.names & names
    narrowing.plugins = (*narrowing.plugins, plugin)
    if narrowing.names:
        return None
    if len(narrowing.plugins) == 1:
        text = f"node(s) didn't satisfy plugin {plugin}"
    else:
        text = f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(narrowing.plugins))}] simultaneously"
    return PodRejected(final(text), frozenset(narrowing.plugins))


def _keep_only(first: NDArray[np.int8], names: frozenset[str], context: SchedulingContext) -> NDArray[np.int8]:
    kept = np.full(len(first), NARROWED_OUT, np.int8)
    rows = [context.nodes.row_book[name] for name in names if name in context.nodes.row_book]
    kept[rows] = first[rows]
    return kept


def rejecting_filters(verdicts: Verdicts) -> list[int]:
    """The indexes of the filters that rejected a node."""
    if len(verdicts.first) and (only := int(verdicts.first.min())) == verdicts.first.max():
        return [only] if 0 <= only < PASSED else []
    counts = np.bincount(verdicts.first.astype(np.int64) - NARROWED_OUT, minlength=1)
    return [int(index) for index in np.flatnonzero(counts) + NARROWED_OUT if 0 <= index < PASSED]
