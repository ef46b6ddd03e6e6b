"""Which placement of a pod group is the best, without a trial in each of them.

Members of one shape that only sums decide about fill the slots of a placement one after another, whichever node each of
them gets. So the number of members that fit follows from the slots of its nodes, and so do scores that do not ask for the
nodes. The group is then tried in the placement that wins, and nowhere else.

Hot: with 125 racks of 40 nodes and gangs of 8, one trial instead of 125.
"""

from collections.abc import Sequence

import numpy as np

from mooring.cluster.nodes.kernels import Ints
from mooring.framework.asking import AttemptError
from mooring.framework.attempt import Attempt
from mooring.framework.group_context import (
    PodGroupAssignments,
    PodGroupContext,
    PodGroupPlacement,
    RowsByPlacement,
)
from mooring.framework.points import PostFilterPlugin
from mooring.framework.runner import Runner
from mooring.framework.slots import count_slots
from mooring.model.pod import Pod
from mooring.scheduler.core import Core


def promising(
    core: Core, runner: Runner, group: PodGroupContext, placements: Sequence[PodGroupPlacement], seed: int
) -> list[PodGroupAssignments] | None:
    """The placements where the group is feasible, with the members that have a node there; None: only trials can tell."""
    if not is_countable(core, runner, group.pods):
        return None
    try:
        attempt = runner.open(group.pods[0], core.cluster, seed)
        slots = count_slots(attempt)
        enough = _enough(runner, group) if slots is not None and not _has_binding_work(runner, attempt) else None
    except AttemptError:
        return None  # the trial says it, in the name of the member that it happens to
    if slots is None or enough is None:
        return None
    return _feasible(group.pods, placements, slots, enough)


def is_countable(core: Core, runner: Runner, pods: Sequence[Pod]) -> bool:
    """Whether the number of members with a node decides, as far as the pods and the profile can say."""
    profile, first = runner.profile, pods[0]
    looks_at_all = (profile.percentage_of_nodes_to_score or 100) >= 100
    return (
        looks_at_all
        and not core.options.extenders
        and all(pod.shape is first.shape for pod in pods)
        and not any(plugin.needs_nodes for plugin in profile.placement_scores)
        and not any(_may_help(plugin, pod, core) for plugin in profile.post_filters for pod in pods)
    )


def _may_help(plugin: PostFilterPlugin, pod: Pod, core: Core) -> bool:
    try:
        return plugin.may_help(pod, core.cluster)
    except Exception:  # a plugin may raise anything: then it is asked in a trial, and named if it fails there too
        return True


def _has_binding_work(runner: Runner, attempt: Attempt) -> bool:
    """Whether Reserve may reject a member, for all that is known."""
    try:
        return any(plugin.has_binding_work(attempt.context) for plugin in runner.binding_plugins)
    except Exception:  # as above
        return True


def _enough(runner: Runner, group: PodGroupContext) -> int | None:
    """How many members must get a node for Permit to let the group go; None: it does not say."""
    found = 1
    try:
        for plugin in runner.profile.permits:
            needed = plugin.enough_members(group.pods[0])
            if needed is None:
                return None
            found = max(found, needed - group.members.scheduled_count)
    except Exception:  # as above
        return None
    return found


def _feasible(
    pods: tuple[Pod, ...], placements: Sequence[PodGroupPlacement], slots: Ints, enough: int
) -> list[PodGroupAssignments]:
    """Slots are bounded by the number of members before they are added up: hostile amounts must not overflow."""
    rows = RowsByPlacement(placements)
    fitting = np.minimum(rows.sum(np.minimum(slots, len(pods)).take(rows.rows)), len(pods))
    first = {count: pods[:count] for count in set(fitting.tolist())}
    return [
        PodGroupAssignments(placement, first[count])
        for placement, count in zip(placements, fitting.tolist(), strict=True)
        if count >= enough
    ]
