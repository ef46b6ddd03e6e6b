"""Runs the extension points of pod groups: PlacementFeasible, PlacementGenerate and PlacementScore.

Whatever a plugin raises, and an answer of another form, ends the attempt of the group with upstream's words; never the
scheduler.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.kernels import MAX_SCORE, Ints
from mooring.framework.contract.group_points import (
    PlacementGeneratePlugin,
    PlacementProgress,
    PlacementScorePlugin,
    PodGroupAssignments,
    PodGroupContext,
    PodGroupPlacement,
)
from mooring.framework.contract.plugin_caller import ERROR, SUCCESS
from mooring.framework.contract.status import Code, PluginError, Rejection, curable, describe
from mooring.framework.kept.asking import AttemptError
from mooring.framework.profile.profiles import Profile

_SCORING = "running PlacementScore plugins"
_NORMALIZING = "running NormalizePlacementScore on PlacementScore plugins"
_WEIGHING = "applying score defaultWeights on PlacementScore plugins"
"""Upstream's words for what failed."""
_FEASIBLE = (Code.Wait, Code.Unschedulable)
"""The codes that PlacementFeasible may answer with."""


def ask_feasible(profile: Profile, group: PodGroupContext, progress: PlacementProgress) -> Rejection | None:
    """Whether enough of the group fit. None: they do; Wait: more are needed; Unschedulable: there are too few. Raises
    AttemptError."""
    began_ns, answer = group.caller.began(), None
    status = ERROR
    try:
        for plugin in profile.placement_feasibles:
            try:
                said = group.wrap("PlacementFeasible", plugin.name, plugin.placement_feasible)(group, progress)
            except Exception as fault:  # a plugin may raise anything
                raise AttemptError(f"running PlacementFeasible plugin: {describe(fault)}") from fault
            if said is not None and (not isinstance(said, Rejection) or said.code not in _FEASIBLE):
                name = said.code.name if isinstance(said, Rejection) else repr(said)
                raise AttemptError(f"unexpected status from PlacementFeasible plugin: {name}")
            answer = said or answer
            if said is not None and said.code is Code.Unschedulable:
                break
        status = SUCCESS if answer is None else answer.code.name
    finally:
        group.caller.ended("PlacementFeasible", status, began_ns)
    return answer


def everywhere(group: PodGroupContext) -> PodGroupPlacement:
    """All nodes as one placement."""
    return PodGroupPlacement("", group.nodes.alive[: group.nodes.height].nonzero()[0])


def generate_placements(
    profile: Profile, group: PodGroupContext, parent: PodGroupPlacement | None = None
) -> Sequence[PodGroupPlacement] | Rejection:
    """The placements to try within the parent, at least one; without a plugin it is the parent. None: all nodes."""
    parent = everywhere(group) if parent is None else parent
    began_ns, status = group.caller.began(), ERROR
    try:
        placements: Sequence[PodGroupPlacement] | Rejection = [parent]
        for plugin in profile.placement_generates:
            placements = _ask_generator(plugin, group, parent)
        status = placements.code.name if isinstance(placements, Rejection) else SUCCESS
    finally:
        group.caller.ended("PlacementGenerate", status, began_ns)
    return placements


def _ask_generator(
    plugin: PlacementGeneratePlugin, group: PodGroupContext, parent: PodGroupPlacement
) -> Sequence[PodGroupPlacement] | Rejection:
    """Ask a plugin for the placements of a group within the parent placement. An empty answer becomes a rejection. Raises
    AttemptError if the plugin fails or names rows outside of the parent."""
    wrap = group.wrap
    try:
        found = wrap("PlacementGenerate", plugin.name, plugin.generate_placements)(group, parent)
        if not isinstance(found, Rejection):
            _check_rows(found, group, parent)
    except PluginError as fault:
        raise AttemptError(str(fault)) from fault
    except Exception as fault:
        raise AttemptError(f'running PlacementGenerate plugin "{plugin.name}": {describe(fault)}') from fault
    if isinstance(found, Rejection):
        return found.by(plugin.name)
    return found or curable("no feasible placements found").by(plugin.name)


def _check_rows(placements: Sequence[PodGroupPlacement], group: PodGroupContext, parent: PodGroupPlacement) -> None:
    """A generator must not invent rows. Hot: in one pass; 125 placements one by one take 0.4 ms."""
    by_placement = group.rows_of(placements)
    rows = by_placement.rows
    if rows.dtype != np.intp or rows.ndim != 1:
        raise TypeError("the rows of a placement must be an array of intp")
    is_there = np.zeros(group.nodes.height, np.bool_)
    is_there[parent.rows] = True
    if len(rows) and (rows.min() < 0 or rows.max() >= len(is_there) or not is_there[rows].all()):
        raise ValueError("a placement has rows that its parent does not have")
    if not by_placement.are_ascending():
        raise ValueError("the rows of a placement must be ascending")


def score_placements(profile: Profile, group: PodGroupContext, candidates: Sequence[PodGroupAssignments]) -> Ints:
    """The weighted total of each candidate."""
    began_ns, status = group.caller.began(), ERROR
    try:
        totals = np.zeros(len(candidates), np.int64)
        for plugin in profile.placement_scores:
            totals += _scores_of(plugin, group, candidates) * profile.placement_weights[plugin.name]
        status = SUCCESS
    finally:
        group.caller.ended("PlacementScore", status, began_ns)
    return totals


def _scores_of(plugin: PlacementScorePlugin, group: PodGroupContext, candidates: Sequence[PodGroupAssignments]) -> Ints:
    """Get the scores of a plugin for the candidate placements, normalized and checked. Raises AttemptError."""
    doing, wrap = _SCORING, group.wrap
    try:
        scores = wrap("PlacementScore", plugin.name, plugin.score_placements)(group, candidates)
        _check_scores(scores, len(candidates))
        if plugin.normalizes_placements():
            doing = _NORMALIZING
            point = "PlacementScoreExtensionNormalize"
            scores = wrap(point, plugin.name, plugin.normalize_placements)(group, scores)
            _check_scores(scores, len(candidates))
    except Exception as fault:
        raise AttemptError(f'{doing}: plugin "{plugin.name}" failed with: {describe(fault)}') from fault
    wrong = scores[(scores < 0) | (scores > MAX_SCORE)]
    if len(wrong):
        text = f"returns an invalid score {wrong[0]}, it should in the range of [0, {MAX_SCORE}] after normalizing"
        raise AttemptError(f'{_WEIGHING}: plugin "{plugin.name}" {text}')
    return scores.astype(np.int64)


def _check_scores(scores: NDArray[np.signedinteger], count: int) -> None:
    if not isinstance(scores, np.ndarray) or scores.shape != (count,) or scores.dtype.kind != "i":
        raise TypeError(f"scores must be an array of {count} signed integers")
