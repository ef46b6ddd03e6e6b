"""How filters and scores are asked, and what their answers must look like.

Whatever a plugin raises, and an answer of another form, ends the attempt with that plugin named; never the scheduler.
"""

from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np

from mooring.cluster.columns.kernels import MAX_SCORE
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.plugin_caller import unwrapped
from mooring.framework.contract.points import Codes, FilterPlugin, Plugin, Rows, ScorePlugin, Scores
from mooring.framework.contract.special_points import TotalsPlugin
from mooring.framework.contract.status import describe

P = TypeVar("P", bound=Plugin)

_UNSIGNED = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
"""By the bytes of an integer."""


class AttemptError(Exception):
    """The attempt ended in an error (not in a *no*): the text is what the pod's condition will say."""


def count_rows(context: SchedulingContext, rows: Rows) -> int:
    """How many rows are meant."""
    return len(range(context.nodes.height)[rows] if isinstance(rows, slice) else rows)


def concerns(plugin: P, context: SchedulingContext, doing: Callable[[P], str]) -> bool:
    try:
        return plugin.concerns(context.pod)
    except Exception as fault:
        raise AttemptError(f"{doing(plugin)}: {describe(fault)}") from fault


def pre_filtering(plugin: Plugin) -> str:
    """Upstream's words for what fails when a PreFilter does."""
    return f'running PreFilter plugin "{plugin.name}"'


def filtering(plugin: FilterPlugin) -> str:
    """Upstream's words for what fails when a filter does."""
    return f'running "{plugin.name}" filter plugin'


def scoring(plugin: ScorePlugin) -> str:
    """Upstream's words for what fails when a score does."""
    return f'running Score plugins: plugin "{plugin.name}" failed with'


def ask_filter(plugin: FilterPlugin, context: SchedulingContext, rows: Rows) -> Codes | None:
    """A filter's codes for these rows; whatever it raises, and a wrong number of codes, ends the attempt."""
    if context.is_resize and plugin.skips_resizes:  # also where the profile disables its PreFilter, which skips it
        return None
    try:
        codes = context.wrap("Filter", plugin.name, plugin.filter)(context, rows)
        if codes is not None:
            _check_form(codes, count_rows(context, rows), "codes")
    except Exception as fault:
        raise AttemptError(f"{filtering(plugin)}: {describe(fault)}") from fault
    return codes


def ask_score(plugin: ScorePlugin, context: SchedulingContext, rows: Rows) -> Scores | None:
    """A plugin's scores for these rows, which must be in range unless they are normalised afterwards."""
    try:
        scores = context.wrap("Score", plugin.name, plugin.score)(context, rows)
        if scores is not None:
            _check_form(scores, count_rows(context, rows), "scores")
    except Exception as fault:
        raise AttemptError(f"{scoring(plugin)}: {describe(fault)}") from fault
    if scores is not None and not plugin.is_in_range and not plugin.normalizes():
        _check_range(plugin, scores)
    return scores


def ask_totals(
    plugin: TotalsPlugin, context: SchedulingContext, rows: Rows, scores: Callable[[], Mapping[str, Scores]]
) -> Scores | None:
    """The totals of a plugin that has the last word about them; None: it leaves them to the sum of the scores."""
    try:
        totals = context.wrap("Score", plugin.name, plugin.totals)(context, rows, scores)
        if totals is None:
            return None
        _check_form(totals, count_rows(context, rows), "totals")
        return totals.astype(np.int64)
    except AttemptError:
        raise  # another plugin failed, and is named
    except Exception as fault:
        raise AttemptError(f"{scoring(plugin)}: {describe(fault)}") from fault


def ask_filter_row(plugin: FilterPlugin, context: SchedulingContext, row: int) -> int:
    """A filter's code for one row, as the plugin defines that, or else as about rows."""
    if type(plugin).filter_row is FilterPlugin.filter_row:
        codes = ask_filter(plugin, context, np.array([row], np.intp))
        return 0 if codes is None else int(codes[0])
    if context.is_resize and plugin.skips_resizes:
        return 0
    try:
        wrap = context.wrap
        ask = plugin.filter_row if wrap is unwrapped else wrap("Filter", plugin.name, plugin.filter_row)
        code = ask(context, row)
        if type(code) is not int:
            raise TypeError(f"a code must be an int, not {type(code).__name__}")
    except Exception as fault:
        raise AttemptError(f"{filtering(plugin)}: {describe(fault)}") from fault
    return code


def ask_score_row(plugin: ScorePlugin, context: SchedulingContext, row: int) -> int:
    """A plugin's score for one row, which must be in range unless it is normalised afterwards."""
    if type(plugin).score_row is ScorePlugin.score_row:
        scores = ask_score(plugin, context, np.array([row], np.intp))
        return 0 if scores is None else int(scores[0])
    try:
        wrap = context.wrap
        ask = plugin.score_row if wrap is unwrapped else wrap("Score", plugin.name, plugin.score_row)
        score = ask(context, row)
        if type(score) is not int:
            raise TypeError(f"a score must be an int, not {type(score).__name__}")
    except Exception as fault:
        raise AttemptError(f"{scoring(plugin)}: {describe(fault)}") from fault
    if not 0 <= score <= MAX_SCORE and not plugin.normalizes():
        raise _out_of_range(plugin, score)
    return score


def normalize(plugin: ScorePlugin, context: SchedulingContext, scores: Scores, rows: Rows) -> Scores:
    """Call `normalize` of a plugin and check the number and the range of the scores. Raises AttemptError with upstream's text
    if the plugin fails."""
    try:
        asked = len(scores)  # one for all nodes, where the plugin tells no nodes apart
        scores = context.wrap("ScoreExtensionNormalize", plugin.name, plugin.normalize)(context, scores, rows)
        _check_form(scores, asked, "scores")
    except Exception as fault:
        text = f'running Normalize on Score plugins: plugin "{plugin.name}" failed with: {describe(fault)}'
        raise AttemptError(text) from fault
    _check_range(plugin, scores)
    return scores


def _check_form(answer: object, asked: int, what: str) -> None:
    if not isinstance(answer, np.ndarray) or answer.dtype.kind != "i":
        form = f"an array of {answer.dtype}" if isinstance(answer, np.ndarray) else type(answer).__name__
        raise TypeError(f"{what} must be an array of signed integers, not {form}")
    if len(answer) != asked:
        raise ValueError(f"{len(answer)} {what} for {asked} nodes")


def _check_range(plugin: ScorePlugin, scores: Scores) -> None:
    # Hot: as unsigned, a negative score is larger than any allowed one, so one maximum finds both ends.
    if len(scores) and np.maximum.reduce(scores.view(_UNSIGNED[scores.itemsize])) > MAX_SCORE:
        raise _out_of_range(plugin, int(next(s for s in scores if not 0 <= s <= MAX_SCORE)))


def _out_of_range(plugin: ScorePlugin, score: int) -> AttemptError:
    return AttemptError(
        f'applying score defaultWeights on Score plugins: plugin "{plugin.name}" returns an invalid score {score}, '
        f"it should in the range of [0, {MAX_SCORE}] after normalizing"
    )
