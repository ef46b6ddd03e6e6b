"""A profile made ready for attempts: its plugins with what their answers depend on, which is checked once, at the start."""

from collections.abc import Iterable, Sequence
from functools import lru_cache, partial
from typing import Any
from weakref import ref

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.change_log import Follower
from mooring.cluster.nodes.table import NodeTable
from mooring.framework.config.problems import show
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.plugin_caller import PluginCaller
from mooring.framework.contract.points import FilterPlugin, Plugin, Reads, Rows, ScorePlugin
from mooring.framework.contract.special_points import TotalsPlugin
from mooring.framework.contract.status import SKIP, SKIP_FOR_NOW, SKIP_SHAPE, SKIPS, describe
from mooring.framework.kept.asking import (
    AttemptError,
    ask_filter,
    ask_filter_row,
    ask_score,
    ask_score_row,
    concerns,
    pre_filtering,
)
from mooring.framework.kept.feasible import PASSED, FeasibleRows
from mooring.framework.kept.memo import OutcomeBook, ShapeMemo, ShapeOutcomes
from mooring.framework.kept.part_memo import (
    MAX_SKIP_SETS,
    PRE_FILTER,
    PRE_SCORE,
    ByteCount,
    KeptQuestion,
    PartMemo,
    PartOutcomes,
    PartQuestions,
    integers_for,
    outcomes_of,
)
from mooring.framework.kept.score_by_group import ScoreByGroup
from mooring.framework.kept.score_by_value import ScoreByValue
from mooring.framework.profile.profiles import Profile
from mooring.model.pod import Pod
from mooring.model.shape import PodPart, PodShape

# ---- Verdicts beside nominated pods, kept for the shapes and priorities that preempt again and again.
#
# Where pods are nominated to a node, others have to fit beside them (leave_room.py). What comes of that
# depends on the shape, the priority, and what is on the node and nominated to it, so it is asked again only for rows
# that were touched.


_MOST = 16
"""For how many shapes and priorities columns are kept: as many as preemption keeps dry runs for."""


class CrowdedColumns:
    """The first rejection of each row and the codes behind it, both with the nominated pods of one priority or more."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._news = Follower(nodes.touches)
        self._layout = (-1, -1, -1)
        self.first: NDArray[np.int8] = np.zeros(0, np.int8)
        self.codes: dict[int, NDArray[np.int64]] = {}
        """By index of a filter that rejects rows with nominated pods: its codes for all rows."""

    def touched(self) -> list[int] | None:
        """The rows to be asked about again; None: all."""
        nodes = self._nodes
        layout = nodes.node_set_version, nodes.height, nodes.amounts.resources_version
        touched = self._news.news()
        if layout != self._layout:
            self._layout, touched = layout, None
        return touched

    def void(self) -> None:
        """Asking failed halfway: start over next time."""
        self._layout = (-1, -1, -1)


class CrowdedBook:
    """The columns of the shapes and priorities that were asked about last."""

    def __init__(self, nodes: NodeTable | None = None) -> None:
        """`nodes` is for a fork that is kept."""
        self._kept: dict[tuple[ref[PodShape], int], CrowdedColumns | None] = {}
        """None: asked about once. Pods that all differ would only make columns that no other pod reads."""
        self._nodes = nodes

    def clear(self) -> None:
        self._kept.clear()

    def find(self, pod: Pod, nodes: NodeTable) -> CrowdedColumns | None:
        """The columns for pods of this shape and priority; None: nothing is kept for them, or for this table."""
        if nodes is not self._nodes:
            if nodes.is_fork:
                return None
            self._kept.clear()
            self._nodes = nodes
        key = (ref(pod.shape), pod.priority)  # a shape that is gone is not kept alive
        columns = None
        if key in self._kept:
            columns = self._kept.pop(key) or CrowdedColumns(nodes)
        self._kept[key] = columns  # last in the order of use
        if len(self._kept) > _MOST:
            del self._kept[next(iter(self._kept))]
        return columns


class SearchCursor(msgspec.Struct):
    """Where the next search that looks at a part of the nodes starts; all profiles of a scheduler share one."""

    start: int = 0


class PreparedProfile:
    """Data of a profile that attempts read. From one attempt to the next only the cursor and the kept values change:
    outcomes, levels, and verdicts beside nominated pods."""

    def __init__(
        self, profile: Profile, caller: PluginCaller | None = None, cursor: SearchCursor | None = None
    ) -> None:
        self.profile = profile
        self.caller = caller or PluginCaller()
        self.cursor = cursor or SearchCursor()
        self.crowded = CrowdedBook()
        self.filters = profile.filters
        self.scores = profile.scores
        if len(self.filters) >= PASSED:
            raise ValueError(f"a profile can have at most {PASSED - 1} filter plugins, {len(self.filters)} are enabled")
        self.filter_reads = [_reads_of(plugin, "filter", "pre_filter") for plugin in self.filters]
        self.score_reads = [_reads_of(plugin, "score", "pre_score") for plugin in self.scores]
        self.weights = [profile.weights[plugin.name] for plugin in self.scores]
        self.judge = _judge(self.scores)
        """The plugin that has the last word about totals, if there is one."""
        asked = _asked(profile.pre_filters, "pre_filter"), _asked(profile.pre_scores, "pre_score")
        self.asked = [
            (point, plugin, part)
            for point, plugins in zip(("PreFilter", "PreScore"), asked, strict=True)
            for _, plugin, part in plugins
        ]
        """The PreFilter and PreScore plugins whose answer depends on more than the shape, with the part of it that a skip
        may follow from."""
        named = {part for _, _, part in self.asked} | {each.concerned_by for each in (*self.filters, *self.scores)}
        questions = [self._questions_about(part) for part in PodPart]
        self.parts = tuple(each for each in questions if each.is_any or each.part in named)
        """Questions whose answers are kept, by part of the shape."""
        self.part_places = {questions.part: place for place, questions in enumerate(self.parts)}
        self.reads_pods = Reads.ROW in (*self.filter_reads, *self.score_reads)
        """Whether kept answers depend on the pods themselves that are on nodes, and not only on what is counted of them."""
        self.asked_filters = [
            (index, plugin) for index, plugin in enumerate(self.filters) if self.filter_reads[index] is Reads.CLUSTER
        ]
        """The filters whose answers are not kept, with their place in the order."""
        self._filters_without: dict[frozenset[str], list[tuple[int, FilterPlugin, bool]]] = {}
        self.asked_if_concerned = {plugin.name for plugin in profile.pre_filters if plugin.is_asked_if_concerned}
        """The PreFilter plugins that skip the pods which they do not concern."""
        self.pre_filter_book = OutcomeBook(PRE_FILTER, self.parts, asked[0], self.asked_filters)
        self.summed = frozenset(question.index for part in self.parts for question in part.summed)
        """The score plugins whose kept answers need nothing but adding up."""
        self.asked_scores = [(index, plugin) for index, plugin in enumerate(self.scores) if index not in self.summed]
        """The score plugins whose part of the total is worked out in each attempt, with their place in the order."""
        self.pre_score_book = OutcomeBook(PRE_SCORE, self.parts, asked[1], self.asked_scores)
        self.scores_by_group = [
            (index, plugin) for index, plugin in self.asked_scores if isinstance(plugin, ScoreByGroup)
        ]
        """Score plugins in `asked_scores` that may tell rows apart by groups."""
        self.scores_by_value = [
            (index, plugin) for index, plugin in self.asked_scores if isinstance(plugin, ScoreByValue)
        ]
        """Score plugins in `asked_scores` whose scores may follow from the value of one label."""
        self.binding_plugins: tuple[Plugin, ...] = tuple(dict.fromkeys((*profile.reserves, *profile.pre_binds)))
        """The plugins that may have work to do between the decision and Bind."""
        self.total_type = integers_for(self.weights)
        """The integers that totals fit into."""
        self.levels: dict[int, int] = {}
        """By index of a kept score plugin: what normalising makes of 0, where it tells no nodes apart."""

    def _questions_about(self, part: PodPart) -> PartQuestions:
        """Collect the plugins whose answers depend on this part of the shape and can be kept: PreFilter, Filter, PreScore and
        Score."""
        pre_filters = _fixed(self.profile.pre_filters, "pre_filter", part)
        pre_scores = _fixed(self.profile.pre_scores, "pre_score", part)
        filters = [
            KeptQuestion(
                index, plugin, "Filter", reads, part, partial(ask_filter, plugin), partial(ask_filter_row, plugin)
            )
            for index, (plugin, reads) in enumerate(zip(self.filters, self.filter_reads, strict=True))
            if reads is not Reads.CLUSTER and _part_of(plugin, "filter", "pre_filter") is part
        ]
        scores = [
            KeptQuestion(
                index, plugin, "Score", reads, part, partial(ask_score, plugin), partial(ask_score_row, plugin), weight
            )
            for index, (plugin, reads, weight) in enumerate(
                zip(self.scores, self.score_reads, self.weights, strict=True)
            )
            if reads is not Reads.CLUSTER and _part_of(plugin, "score", "pre_score") is part
        ]
        return PartQuestions(
            part,
            pre_filters,
            pre_scores,
            tuple(filters),
            tuple(question for question in scores if not question.normalizes),
            tuple(question for question in scores if question.normalizes),
            (_concerned(self.filters, self.filter_reads, part), _concerned(self.scores, self.score_reads, part)),
            self._owner(part, [*filters, *scores], (*pre_filters, *pre_scores)),
        )

    def _owner(self, part: PodPart, questions: list[KeptQuestion], fixed: tuple[tuple[int, Plugin], ...]) -> object:
        """Return the object that identifies the answers about a part. Profiles with the same plugins and arguments for this
        part get the same object and share the answers."""
        profile = self.profile
        asked = [(each.point, each.index, each.weight, each.plugin) for each in questions]
        asked += [("fixed", index, 1, plugin) for index, plugin in fixed]
        asked += [(point, 0, 1, plugin) for point, plugin, goes_by in self.asked if goes_by is part]
        if not all(plugin.is_same_in_all_profiles for _, _, _, plugin in asked):
            return object()
        described = [(*place, type(plugin), show(profile.args.get(plugin.name))) for *place, plugin in asked]
        return _interned(repr((part, described)))

    @property
    def kept_questions(self) -> list[KeptQuestion]:
        """All filters and scores whose answers are kept."""
        return [each for part in self.parts for each in (*part.filters, *part.summed, *part.normalized)]

    def filters_without(self, skipped: frozenset[str]) -> list[tuple[int, FilterPlugin, bool]]:
        """The filters that do not skip, with their place in the order, and whether one may say that a pod does not concern
        it. Hot: the same few sets for all attempts."""
        left = self._filters_without.get(skipped)
        if left is None:
            left = [
                (index, plugin, getattr(plugin.concerns, "__func__", None) is not _CONCERNS_ALL)
                for index, plugin in enumerate(self.filters)
                if plugin.name not in skipped
            ]
            if len(self._filters_without) >= MAX_SKIP_SETS:
                self._filters_without.clear()
            self._filters_without[skipped] = left
        return left

    def forgetful_memo(self) -> ShapeMemo:
        """A memo for one attempt that shares nothing with others: what is asked in a what-if is forgotten with it."""
        return ShapeMemo(tuple(PartMemo(questions, ByteCount()) for questions in self.parts), self.part_places)


def _judge(scores: Sequence[ScorePlugin]) -> TotalsPlugin | None:
    """The TotalsPlugin of a profile. Raises ValueError if there are several: each would have the last word."""
    judges = [plugin for plugin in scores if isinstance(plugin, TotalsPlugin)]
    if len(judges) > 1:
        names = ", ".join(plugin.name for plugin in judges)
        raise ValueError(
            f"a profile can have one plugin that decides about totals, and {names} do: disable all but one"
        )
    return judges[0] if judges else None


@lru_cache(maxsize=1024)
def _interned(key: str) -> object:
    return object()


def _fixed(plugins: Iterable[Plugin], method: str, part: PodPart) -> tuple[tuple[int, Plugin], ...]:
    """The plugins whose answer follows from this part of the shape alone."""
    return tuple(
        (index, plugin)
        for index, plugin in enumerate(plugins)
        if _declared(plugin, method) is Reads.SHAPE and _declared_part(plugin, method) is part
    )


def _concerned(plugins: Sequence[Plugin], reads: Sequence[Reads], part: PodPart) -> tuple[Plugin, ...]:
    """The plugins whose answers are not kept, and that this part of a shape may show to have no say."""
    return tuple(
        plugin
        for plugin, what in zip(plugins, reads, strict=True)
        if what is Reads.CLUSTER and plugin.concerned_by is part
    )


def _asked(plugins: Iterable[Plugin], method: str) -> tuple[tuple[int, Plugin, PodPart], ...]:
    return tuple(
        (index, plugin, _declared_part(plugin, method))
        for index, plugin in enumerate(plugins)
        if _declared(plugin, method) is not Reads.SHAPE
    )


def _declared_part(plugin: Plugin, method: str) -> PodPart:
    return getattr(getattr(plugin, method), "part", PodPart.WHOLE)


def _declared(plugin: Plugin, method: str) -> Reads:
    return getattr(getattr(plugin, method, None), "reads", Reads.CLUSTER)


def _part_of(plugin: Plugin, method: str, before: str) -> PodPart:
    """The part of the shape that a kept filter or score goes by; the whole if the point before it goes by another one."""
    parts = {_declared_part(plugin, each) for each in (method, before) if hasattr(plugin, each)}
    return parts.pop() if len(parts) == 1 else PodPart.WHOLE


def _reads_of(plugin: Plugin, method: str, before: str) -> Reads:
    """Return the data that a filter or score reads, as declared. The framework can keep its answer only if the point before
    it (PreFilter or PreScore) always answers the same for a shape; otherwise this raises ValueError."""
    what = _declared(plugin, method)
    if what is not Reads.CLUSTER and hasattr(plugin, before) and _declared(plugin, before) is not Reads.SHAPE:
        raise ValueError(f"{method} of plugin {plugin.name} reads {what.name}, so its {before} must read only SHAPE")
    return what


# ---- PreFilter and PreScore: asks the plugins of these points, or recalls what they said about other pods with the
# same part.
#
# Answers that follow from a part of the shape alone are asked once and kept with the part (part_memo.py). Other plugins
# are asked in every attempt, unless they skip pods like this one (SKIP_SHAPE, SKIP_FOR_NOW).


_CONCERNS_ALL = vars(Plugin)["concerns"].__func__
"""The method of plugins that do not say which pods they concern."""


class PrePoints:
    """Asks the plugins of PreFilter and PreScore in one attempt."""

    __slots__ = ("_labels_and_controller", "_memo", "context", "runner")

    def __init__(self, runner: PreparedProfile, context: SchedulingContext, memo: ShapeMemo) -> None:
        self.runner = runner
        self.context = context
        self._memo = memo
        self._labels_and_controller: tuple[Any, ...] | None = None

    def _outcomes(self, point: str) -> ShapeOutcomes:
        """Return the answers of the plugins of a point for pods of this shape. Plugins are asked here if a part of the shape
        decides their answer and the answer is not kept yet."""
        book = self.runner.pre_filter_book if point == "PreFilter" else self.runner.pre_score_book
        place, parts = book.point, self._memo.parts
        # Hot: a loop is quicker than chained maps and a search for None, which compares by the methods of the outcomes.
        return book.find([part.outcomes[place] or self._ask_about(point, place, part) for part in parts])

    def _ask_about(self, point: str, place: int, part: PartMemo) -> PartOutcomes:
        """Ask the plugins whose answer this part decides."""
        questions = part.questions
        said = self._fixed_outcomes(
            point, questions.pre_filters if place == PRE_FILTER else questions.pre_scores, questions.concerned[place]
        )
        if not said.others or not any(isinstance(answer, AttemptError) for _, _, answer in said.others):
            part.outcomes[place] = said  # otherwise the next attempt asks again
        return said

    def _ask(self, point: str, plugin: Any, part: PodPart, feasible: FeasibleRows | None = None) -> Any:
        """Ask a plugin whose answer depends on more than the shape, unless it is known to skip. `part` is the one that a
        skip may follow from; `feasible` is for PreScore."""
        if feasible is None and plugin.is_asked_if_concerned and not concerns(plugin, self.context, pre_filtering):
            return None
        kept = self._memo.part(part)
        skip = plugin.name, point, self._labels_and_controller or self._kind_of_pod()
        if skip in kept.skips_for_now and kept.skips_for_now[skip] == plugin.version(self.context.cluster):
            return SKIP
        outcome = self._call(point, plugin, None if feasible is None else self._rows_for(plugin, feasible))
        if outcome is SKIP_SHAPE:
            kept.keep_skip(PRE_FILTER if point == "PreFilter" else PRE_SCORE, plugin.name)
        elif outcome is SKIP_FOR_NOW:
            kept.keep_skip_for_now(skip, plugin.version(self.context.cluster))
        return outcome

    def _rows_for(self, plugin: Any, feasible: FeasibleRows) -> Rows:
        if not plugin.needs_feasible and feasible.are_most:
            return slice(0, self.context.nodes.height)
        return feasible.rows

    def _fixed_outcomes(
        self, point: str, plugins: tuple[tuple[int, Any], ...], concerned: tuple[Plugin, ...]
    ) -> PartOutcomes:
        """Ask the plugins whose answers depend on one part alone. An error is an answer too, because an earlier plugin may
        end the attempt before it matters. Of a plugin that fails to say whether it concerns the pod, Filter or Score
        tells."""
        skipped, others = [], []
        for index, plugin in plugins:
            try:
                said = self._call(point, plugin, slice(0, self.context.nodes.height))
            except AttemptError as fault:
                said = fault
            if said is None:
                continue
            if said in SKIPS:
                skipped.append(plugin.name)
            else:
                others.append((index, plugin, said))
        unconcerned = [each.name for each in concerned if not _may_concern(each, self.context.pod)]
        if unconcerned and point == "PreFilter":
            asked = self.runner.asked_if_concerned
            skipped += [name for name in unconcerned if name in asked]
        return outcomes_of(skipped, unconcerned, tuple(others))

    def _kind_of_pod(self) -> tuple[Any, ...]:
        """The properties of a pod, beside its shape, that SKIP_FOR_NOW may depend on: its labels and its controller."""
        if self._labels_and_controller is None:
            pod = self.context.pod
            owner = pod.controller()
            controller = (owner.api_version, owner.kind, owner.name) if owner else None
            self._labels_and_controller = (pod.label_set, controller)
        return self._labels_and_controller

    def _call(self, point: str, plugin: Any, rows: Rows | None) -> Any:
        """Call PreFilter or PreScore of a plugin. Raises AttemptError with upstream's text if the plugin raises."""
        wrap = self.context.wrap
        try:
            if point == "PreFilter":
                if self.context.is_resize and plugin.skips_resizes:
                    return SKIP
                return wrap(point, plugin.name, plugin.pre_filter)(self.context)
            return wrap(point, plugin.name, plugin.pre_score)(self.context, rows)
        except Exception as fault:
            raise AttemptError(f'running {point} plugin "{plugin.name}": {describe(fault)}') from fault


def _may_concern(plugin: Plugin, pod: Pod) -> bool:
    try:
        return plugin.concerns(pod)
    except Exception:  # a plugin may raise anything: it is asked in each attempt, and named if it fails there too
        return True
