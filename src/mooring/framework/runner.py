"""Runs the plugins of a profile, point by point, on one attempt after another.

Answers that read only shape, node or row are kept from attempt to attempt (memo.py); only the others are asked anew.
"""

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.cluster import Cluster
from mooring.cluster.table import NodeTable
from mooring.framework.cycle import Cycle
from mooring.framework.memo import NARROWED_OUT, PASSED, Question, ShapeMemo
from mooring.framework.points import (
    Codes,
    FilterPlugin,
    NodeNames,
    Plugin,
    PreFilterPlugin,
    PreScorePlugin,
    Reads,
    Rows,
    ScorePlugin,
    Scores,
)
from mooring.framework.profiles import Profile
from mooring.framework.status import SKIP, Code, Rejection, final
from mooring.model.pod import Pod
from mooring.model.shape import PodShape

MAX_SCORE = 100
_MAX_FILTERS = PASSED - 1


class AttemptError(Exception):
    """The attempt ended in an error (not in a *no*): the text is what the pod's condition will say."""


@dataclass(slots=True)
class Narrowing:
    """What PreFilter left: the only nodes to look at, if that was restricted, and by whom."""

    names: frozenset[str] | None = None
    plugins: tuple[str, ...] = ()

    def rejection_of_others(self) -> Rejection | None:
        if self.names is None:
            return None
        return final(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(self.plugins))}]")


@dataclass(slots=True)
class PodRejected:
    """PreFilter refused the pod, whatever the node."""

    rejection: Rejection
    plugins: frozenset[str]


@dataclass(slots=True)
class Verdicts:
    """The outcome of filtering: for each row which filter rejected it first, and the codes that tell why."""

    first: NDArray[np.int8]
    codes: dict[int, Codes] = field(default_factory=dict)
    """By index of the filter: a code for every row of the table (rows that were not asked have 0)."""


@dataclass(slots=True)
class ScoreCard:
    """The outcome of scoring for the rows that passed: totals, and what each plugin gave (after weights) if asked for."""

    rows: Rows
    totals: Scores
    by_plugin: dict[str, Scores] = field(default_factory=dict)


class Runner:
    """A profile with what it keeps between attempts."""

    MEMO_LIMIT = 64
    """Shapes kept at once; one takes some 50 bytes a node."""

    def __init__(self, profile: Profile) -> None:
        self.profile = profile
        self.pre_filters: tuple[PreFilterPlugin, ...] = _typed(profile, "preFilter")
        self.filters: tuple[FilterPlugin, ...] = _typed(profile, "filter")
        self.pre_scores: tuple[PreScorePlugin, ...] = _typed(profile, "preScore")
        self.scores: tuple[ScorePlugin, ...] = _typed(profile, "score")
        if len(self.filters) > _MAX_FILTERS:
            raise ValueError(f"a profile can have at most {_MAX_FILTERS} filter plugins, {len(self.filters)} are enabled")
        self.filter_reads = [_reads_of(plugin, "filter", "pre_filter") for plugin in self.filters]
        self.score_reads = [_reads_of(plugin, "score", "pre_score") for plugin in self.scores]
        self.weights = [profile.weights[plugin.name] for plugin in self.scores]
        self.summed = {
            index: self.weights[index]
            for index, plugin in enumerate(self.scores)
            if self.score_reads[index] is not Reads.CLUSTER and not _normalizes(plugin)
        }
        """Score plugins whose kept answers need nothing but adding up, with their weight."""
        self._memos: OrderedDict[PodShape, ShapeMemo] = OrderedDict()
        self._table: NodeTable | None = None

    def open(self, pod: Pod, cluster: Cluster, seed: int = 0) -> "Attempt":
        """Begin an attempt to place a pod."""
        cluster.nodes.settle()
        memo = self._memo(pod.shape, cluster.nodes)
        return Attempt(self, Cycle(pod, cluster, seed, memo.keepsakes), memo)

    def _memo(self, shape: PodShape, nodes: NodeTable) -> ShapeMemo:
        """What is kept for the shape. It follows one table; for a fork of it nothing is kept."""
        if nodes.is_fork:
            return ShapeMemo()
        if nodes is not self._table:
            self._memos.clear()
            self._table = nodes
        memo = self._memos.get(shape)
        if memo is None:
            memo = self._memos[shape] = ShapeMemo()
            if len(self._memos) > self.MEMO_LIMIT:
                self._memos.popitem(last=False)
        else:
            self._memos.move_to_end(shape)
        return memo


class Attempt:
    """One attempt: call pre_filter, filter and score, in this order."""

    def __init__(self, runner: Runner, cycle: Cycle, memo: ShapeMemo) -> None:
        self.runner = runner
        self.cycle = cycle
        self._memo = memo
        self._no_filter: set[str] = set()
        self._no_score: set[str] = set()

    # ---- PreFilter

    def pre_filter(self) -> Narrowing | PodRejected:
        """Ask every PreFilter plugin. A final rejection ends it; after a curable one the others are still asked."""
        narrowing = Narrowing()
        refused: PodRejected | None = None
        for plugin in self.runner.pre_filters:
            outcome = self._once("preFilter", plugin, "pre_filter", lambda p=plugin: p.pre_filter(self.cycle))
            if outcome is None:
                continue
            if outcome is SKIP:
                self._no_filter.add(plugin.name)
            elif isinstance(outcome, NodeNames):
                empty = _narrow(narrowing, outcome.names, plugin.name)
                if empty is not None:
                    return empty
            elif isinstance(outcome, Rejection):
                refused = PodRejected(outcome.by(plugin.name), frozenset((plugin.name,)))
                if outcome.code is Code.UnschedulableAndUnresolvable:
                    return refused
            else:
                raise AttemptError(f'running PreFilter plugin "{plugin.name}": unexpected answer {outcome!r}')
        return refused or narrowing

    # ---- Filter

    def filter(self, narrowing: Narrowing) -> Verdicts:
        """Ask every Filter plugin about the nodes that the ones before it let pass."""
        cycle, runner = self.cycle, self.runner
        verdicts = Verdicts(self._memo.first_rejections(cycle, self._kept_filters))
        if narrowing.names is not None:
            verdicts.first = _keep_only(verdicts.first, narrowing.names, cycle)
        for index, plugin in enumerate(runner.filters):
            if runner.filter_reads[index] is Reads.CLUSTER and plugin.name not in self._no_filter:
                self._ask_filter(index, plugin, verdicts)
        return verdicts

    def rejection(self, verdicts: Verdicts, index: int, code: int) -> Rejection:
        plugin = self.runner.filters[index]
        return plugin.rejection(self.cycle, code).by(plugin.name)

    def codes(self, verdicts: Verdicts, index: int) -> Codes:
        """The codes of one filter, for all rows."""
        found = verdicts.codes.get(index)
        if found is None:
            found = self._memo.codes(index)
        assert found is not None, "a filter that rejected something has codes"
        return found

    def _ask_filter(self, index: int, plugin: FilterPlugin, verdicts: Verdicts) -> None:
        """Parity: a node is asked about only when all filters before this one let it pass."""
        height = self.cycle.nodes.height
        still_in = verdicts.first > index
        asked = int(np.count_nonzero(still_in))
        if not asked:
            return
        rows: Rows = slice(0, height) if asked == height else np.flatnonzero(still_in)
        with _blaming(f'running "{plugin.name}" filter plugin: '):
            codes = plugin.filter(self.cycle, rows)
            _check_length(codes, asked, "codes")
        if codes is None or not codes.any():
            return
        everywhere = np.zeros(height, np.int64)
        everywhere[rows] = codes
        verdicts.codes[index] = everywhere
        verdicts.first = np.where(everywhere != 0, np.int8(index), verdicts.first)

    def _kept_filters(self) -> list[Question]:
        return [
            Question(index, self.runner.filter_reads[index], _guarded_filter(plugin))
            for index, plugin in enumerate(self.runner.filters)
            if self.runner.filter_reads[index] is not Reads.CLUSTER and plugin.name not in self._no_filter
        ]

    # ---- Score

    def score(self, rows: Rows, explain: bool = False) -> ScoreCard:
        """Score the nodes that passed: PreScore, Score, normalise, range check, weights."""
        runner, cycle = self.runner, self.cycle
        for plugin in runner.pre_scores:
            outcome = self._once("preScore", plugin, "pre_score", lambda p=plugin: p.pre_score(cycle, rows))
            if outcome is SKIP:
                self._no_score.add(plugin.name)
        if not runner.scores:
            return ScoreCard(rows, np.ones(len(cycle.nodes.alive[rows]), np.int64))
        kept_sum = self._memo.score_sum(cycle, self._kept_scores, runner.summed)
        card = ScoreCard(rows, kept_sum[rows].copy())
        for index, scorer in enumerate(runner.scores):
            if scorer.name in self._no_score or (index in runner.summed and not explain):
                continue
            scores = self._scores_of(index, scorer, rows)
            weight = runner.weights[index]
            if scores is not None and index not in runner.summed:
                card.totals += scores * weight if weight != 1 else scores
            if explain:
                card.by_plugin[scorer.name] = (
                    np.zeros(len(card.totals), np.int64) if scores is None else scores * weight
                )
        return card

    def _scores_of(self, index: int, plugin: ScorePlugin, rows: Rows) -> Scores | None:
        """What a plugin gives, normalised and checked; None: 0 for every node."""
        if self.runner.score_reads[index] is Reads.CLUSTER:
            with _blaming(f'running Score plugins: plugin "{plugin.name}" failed with: '):
                raw = plugin.score(self.cycle, rows)
                _check_length(raw, len(self.cycle.nodes.alive[rows]), "scores")
        else:
            column = self._memo.score(index)
            raw = None if column is None else column[rows]
        if index in self.runner.summed:
            return raw
        if raw is None:
            if not _normalizes(plugin):
                return None
            raw = np.zeros(len(self.cycle.nodes.alive[rows]), np.int64)
        with _blaming(f'running Normalize on Score plugins: plugin "{plugin.name}" failed with: '):
            scores = plugin.normalize(self.cycle, raw, rows)
        _check_range(plugin, scores)
        return scores

    def _kept_scores(self) -> list[Question]:
        return [
            Question(index, self.runner.score_reads[index], _guarded_score(plugin, checked=index in self.runner.summed))
            for index, plugin in enumerate(self.runner.scores)
            if self.runner.score_reads[index] is not Reads.CLUSTER and plugin.name not in self._no_score
        ]

    def _once(self, point: str, plugin: Plugin, method: str, ask: Callable[[], Any]) -> Any:
        """Ask a PreFilter or PreScore plugin, or recall what it said if that depends on the shape alone."""
        if getattr(getattr(plugin, method), "reads", Reads.CLUSTER) is not Reads.SHAPE:
            with _blaming(f'running {point[0].upper()}{point[1:]} plugin "{plugin.name}": '):
                return ask()
        key = (point, plugin.name)
        if key not in self._memo.outcomes:
            with _blaming(f'running {point[0].upper()}{point[1:]} plugin "{plugin.name}": '):
                self._memo.outcomes[key] = ask()
        return self._memo.outcomes[key]


@contextmanager
def _blaming(prefix: str) -> Iterator[None]:
    """Whatever a plugin raises ends the attempt, with the plugin named; never the scheduler."""
    try:
        yield
    except AttemptError:
        raise
    except Exception as fault:
        raise AttemptError(f"{prefix}{fault}") from fault


def _typed(profile: Profile, point: str) -> Any:
    return tuple(profile.points.get(point, ()))


def _reads_of(plugin: Plugin, method: str, before: str) -> Reads:
    """What a filter or score reads. It can only be kept if the point before it always says the same for a shape."""
    what: Reads = getattr(getattr(plugin, method), "reads", Reads.CLUSTER)
    earlier: Reads = getattr(getattr(plugin, before, None), "reads", Reads.CLUSTER)
    if what is not Reads.CLUSTER and hasattr(plugin, before) and earlier is not Reads.SHAPE:
        raise ValueError(f"{method} of plugin {plugin.name} reads {what.name}, so its {before} must read only SHAPE")
    return what


def _normalizes(plugin: ScorePlugin) -> bool:
    return type(plugin).normalize is not ScorePlugin.normalize


def _guarded_filter(plugin: FilterPlugin) -> Callable[[Cycle, Rows], Codes | None]:
    def ask(cycle: Cycle, rows: Rows) -> Codes | None:
        with _blaming(f'running "{plugin.name}" filter plugin: '):
            codes = plugin.filter(cycle, rows)
            _check_length(codes, len(cycle.nodes.alive[rows]), "codes")
            return codes

    return ask


def _guarded_score(plugin: ScorePlugin, checked: bool) -> Callable[[Cycle, Rows], Scores | None]:
    def ask(cycle: Cycle, rows: Rows) -> Scores | None:
        with _blaming(f'running Score plugins: plugin "{plugin.name}" failed with: '):
            scores = plugin.score(cycle, rows)
            _check_length(scores, len(cycle.nodes.alive[rows]), "scores")
        if checked and scores is not None:
            _check_range(plugin, scores)
        return scores

    return ask


def _check_length(answer: NDArray[np.int64] | None, wanted: int, what: str) -> None:
    if answer is not None and len(answer) != wanted:
        raise ValueError(f"{len(answer)} {what} for {wanted} nodes")


def _check_range(plugin: ScorePlugin, scores: Scores) -> None:
    # Hot: as unsigned, a negative score is larger than any allowed one, so one maximum finds both ends.
    if len(scores) and scores.view(np.uint64).max() > MAX_SCORE:
        worst = int(next(s for s in scores if not 0 <= s <= MAX_SCORE))
        raise AttemptError(
            f'applying score defaultWeights on Score plugins: plugin "{plugin.name}" returns an invalid score {worst}, '
            f"it should in the range of [0, {MAX_SCORE}] after normalizing"
        )


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


def _keep_only(first: NDArray[np.int8], names: frozenset[str], cycle: Cycle) -> NDArray[np.int8]:
    kept = np.full(len(first), NARROWED_OUT, np.int8)
    rows = [cycle.nodes.row_book[name] for name in names if name in cycle.nodes.row_book]
    kept[rows] = first[rows]
    return kept
