"""PreFilter and PreScore: asks the plugins of these points, or recalls what they said about other pods with the same part.

What follows from a part of the shape alone is asked once and kept with the part (part_memo.py). The other plugins are asked
in every attempt, unless they skip pods like this one (SKIP_SHAPE, SKIP_FOR_NOW).
"""

from typing import Any

from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import Rows
from mooring.framework.contract.status import SKIP, SKIP_FOR_NOW, SKIP_SHAPE, SKIPS, describe
from mooring.framework.kept.asking import AttemptError
from mooring.framework.kept.feasible import FeasibleRows
from mooring.framework.kept.memo import ShapeMemo, ShapeOutcomes
from mooring.framework.kept.part_memo import PRE_FILTER, PRE_SCORE, PartMemo, PartOutcomes, outcomes_of_skips
from mooring.framework.kept.prepared import PreparedProfile
from mooring.model.shape import PodPart


class PrePoints:
    """The plugins of PreFilter and PreScore in one attempt."""

    __slots__ = ("_context", "_labels_and_controller", "_memo", "_runner")

    def __init__(self, runner: PreparedProfile, context: SchedulingContext, memo: ShapeMemo) -> None:
        self._runner = runner
        self._context = context
        self._memo = memo
        self._labels_and_controller: tuple[Any, ...] | None = None

    def outcomes(self, point: str) -> ShapeOutcomes:
        """What the plugins of a point say about pods of this shape. Those are asked whose answer a part of it decides."""
        book = self._runner.pre_filter_book if point == "PreFilter" else self._runner.pre_score_book
        place = book.point
        return book.find([part.outcomes[place] or self._ask_about(point, place, part) for part in self._memo.parts])

    def _ask_about(self, point: str, place: int, part: PartMemo) -> PartOutcomes:
        """Ask the plugins whose answer this part decides."""
        questions = part.questions
        said = self._fixed_outcomes(point, questions.pre_filters if place == PRE_FILTER else questions.pre_scores)
        if not said.others or not any(isinstance(answer, AttemptError) for _, _, answer in said.others):
            part.outcomes[place] = said  # otherwise the next attempt asks again
        return said

    def ask(self, point: str, plugin: Any, part: PodPart, feasible: FeasibleRows | None = None) -> Any:
        """Ask a plugin whose answer depends on more than the shape, unless it is known to skip. `part` is the one that a
        skip may follow from; `feasible` is for PreScore."""
        kept = self._memo.part(part)
        skip = plugin.name, point, self._labels_and_controller or self._kind_of_pod()
        if skip in kept.skips_for_now and kept.skips_for_now[skip] == plugin.version(self._context.cluster):
            return SKIP
        outcome = self._call(point, plugin, None if feasible is None else self._rows_for(plugin, feasible))
        if outcome is SKIP_SHAPE:
            kept.keep_skip(PRE_FILTER if point == "PreFilter" else PRE_SCORE, plugin.name)
        elif outcome is SKIP_FOR_NOW:
            kept.keep_skip_for_now(skip, plugin.version(self._context.cluster))
        return outcome

    def _rows_for(self, plugin: Any, feasible: FeasibleRows) -> Rows:
        if not plugin.needs_feasible and feasible.are_most:
            return slice(0, self._context.nodes.height)
        return feasible.rows

    def _fixed_outcomes(self, point: str, plugins: tuple[tuple[int, Any], ...]) -> PartOutcomes:
        """What the plugins say that go by one part alone. A fault is an answer too: an earlier plugin may end the attempt
        before it matters."""
        skipped, others = [], []
        for index, plugin in plugins:
            try:
                said = self._call(point, plugin, slice(0, self._context.nodes.height))
            except AttemptError as fault:
                said = fault
            if said in SKIPS:
                skipped.append(plugin.name)
            elif said is not None:
                others.append((index, plugin, said))
        return PartOutcomes(frozenset(skipped), tuple(others)) if others else outcomes_of_skips(frozenset(skipped))

    def _kind_of_pod(self) -> tuple[Any, ...]:
        """What SKIP_FOR_NOW may depend on of a pod beside its shape: its labels and its controller."""
        if self._labels_and_controller is None:
            pod = self._context.pod
            owner = pod.controller()
            controller = (owner.api_version, owner.kind, owner.name) if owner else None
            self._labels_and_controller = (pod.label_set, controller)
        return self._labels_and_controller

    def _call(self, point: str, plugin: Any, rows: Rows | None) -> Any:
        wrap = self._context.wrap
        try:
            if point == "PreFilter":
                return wrap(point, plugin.name, plugin.pre_filter)(self._context)
            return wrap(point, plugin.name, plugin.pre_score)(self._context, rows)
        except Exception as fault:
            raise AttemptError(f'running {point} plugin "{plugin.name}": {describe(fault)}') from fault
