"""The placements of a pod group: the group is tried in each of them, and goes where the score is highest.

Without the gate TopologyAwareWorkloadScheduling there is one trial, on all nodes.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import msgspec
import numpy as np

from mooring.cluster.columns.kernels import Ints
from mooring.framework.attempts.attempt import Attempt
from mooring.framework.attempts.fit_errors import UNSCHEDULABLE_GROUP
from mooring.framework.attempts.group_asking import generate_placements, score_placements
from mooring.framework.attempts.runner import Runner
from mooring.framework.attempts.slots import count_slots
from mooring.framework.contract.group_points import (
    PlacementScorePlugin,
    PodGroupAssignments,
    PodGroupContext,
    PodGroupPlacement,
)
from mooring.framework.contract.points import PostFilterPlugin
from mooring.framework.contract.status import Rejection
from mooring.framework.kept.asking import AttemptError
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod
from mooring.scheduler.core import Core
from mooring.scheduler.extender_steps import Steps
from mooring.scheduler.failure import AttemptFailure, error
from mooring.scheduler.groups.trial import GroupTrial, Member

# ---- How many members of a pod group fit into each placement, without a trial in each of them.
#
# Members that only sums decide about fill the slots of a placement one after another. If they have one shape, it does
# not matter which node each of them gets: the number that fits follows from the slots, and so do scores that go by
# the members. The group is then tried in the placement that wins, and nowhere else. Members of several shapes take
# each other's slots, so that the number is a ceiling, and scores are too: the group is tried in the order of what
# placements promise, until none of the others can be better.
#
# Hot: with 125 racks of 40 nodes and gangs of 8, one trial instead of 125: 3,000 pods a second instead of 20.


class CountedCandidates(msgspec.Struct, frozen=True):
    """The placements where the group may be feasible. In all others it is not."""

    candidates: list[PodGroupAssignments]
    """In the order of the placements, with the members that have a node there; with all members if that is not exact."""
    is_exact: bool
    """Whether exactly these members fit, or at most all."""


def count_candidates(
    core: Core, runner: Runner, group: PodGroupContext, placements: Sequence[PodGroupPlacement], seed: int
) -> CountedCandidates | None:
    """None: only trials can tell."""
    if not is_countable(core, runner, group.pods):
        return None
    enough = members_needed(runner, group.pods[0], group.members.scheduled_count)
    fitting = _fitting(core, runner, group, placements, seed) if enough is not None else None
    if enough is None or fitting is None:
        return None
    is_exact = all(pod.shape is group.pods[0].shape for pod in group.pods)
    pods, counts = group.pods, fitting.tolist()
    first = {count: pods[:count] if is_exact else pods for count in set(counts)}
    found = [
        PodGroupAssignments(placement, first[count])
        for placement, count in zip(placements, counts, strict=True)
        if count >= enough
    ]
    return CountedCandidates(found, is_exact)


def is_countable(core: Core, runner: Runner, pods: Sequence[Pod]) -> bool:
    """Whether the members with a node decide, as far as the pods and the profile can say."""
    profile = runner.profile
    looks_at_all = (profile.percentage_of_nodes_to_score or 100) >= 100
    return (
        looks_at_all
        and not core.options.extenders
        and all(_grows(plugin, pods) for plugin in profile.placement_scores)
        and not any(_may_help(plugin, pod, core) for plugin in profile.post_filters for pod in pods)
    )


def _fitting(
    core: Core, runner: Runner, group: PodGroupContext, placements: Sequence[PodGroupPlacement], seed: int
) -> Ints | None:
    """For each placement how many members fit at most: those of each shape as if they were alone; None: more than sums
    decides about some of them."""
    rows = group.rows_of(placements)
    fitting = np.zeros(len(placements), np.int64)
    members = Counter(id(pod.shape) for pod in group.pods)
    for pod in {id(pod.shape): pod for pod in group.pods}.values():
        try:
            attempt = runner.open(pod, core.cluster, seed)
            slots = count_slots(attempt) if not core.cluster.nominated else None
        except AttemptError:
            return None  # the trial says it, in the name of the member that it happens to
        if slots is None or has_binding_work(runner, attempt):
            return None
        count = members[id(pod.shape)]
        # Slots are bounded before they are added up: hostile amounts must not overflow.
        fitting += np.minimum(rows.sum(np.minimum(slots.counts, count).take(rows.rows)), count)
    return fitting


def _grows(plugin: PlacementScorePlugin, pods: Sequence[Pod]) -> bool:
    try:
        return plugin.grows_with_pods(pods)
    except Exception:  # a plugin may raise anything: then it is asked in trials, and named if it fails there too
        return False


def _may_help(plugin: PostFilterPlugin, pod: Pod, core: Core) -> bool:
    try:
        return plugin.may_help(pod, core.cluster)
    except Exception:  # as above
        return True


def has_binding_work(runner: Runner, attempt: Attempt) -> bool:
    """Whether Reserve may reject a member, for all that is known."""
    try:
        return any(plugin.has_binding_work(attempt.context) for plugin in runner.binding_plugins)
    except Exception:  # as above
        return True


def members_needed(runner: Runner, pod: Pod, scheduled_count: int) -> int | None:
    """How many more members must get a node for Permit to let the group of a pod go, one at the least; None: some plugin
    does not say."""
    found = 1
    try:
        for plugin in runner.profile.permits:
            needed = plugin.enough_members(pod)
            if needed is None:
                return None
            found = max(found, needed - scheduled_count)
    except Exception:  # as above
        return None
    return found


def try_group(core: Core, runner: Runner, members: list[Member]) -> Steps[GroupTrial]:
    """The trial that decides about the group; its room is held if the group is feasible."""
    if runner.profile.tries_placements:
        return (yield from PlacementSearch(core, runner, members).steps())
    trial = GroupTrial(core, runner, members)
    yield from run(trial)
    return trial


def run(trial: GroupTrial) -> Steps[None]:
    try:
        yield from trial.steps()
    except BaseException:
        trial.give_back()  # a bug must not leave room held that no pod will take
        raise


Key = tuple[int, int]
"""The score of a placement, and its rank among those with the same score."""


class Tried(msgspec.Struct):
    """A placement with what came of the group in it."""

    placement: PodGroupPlacement
    trial: GroupTrial

    def assignments(self) -> PodGroupAssignments:
        held = [(member.entry.pod, member.node) for member in self.trial.members if member.node is not None]
        return PodGroupAssignments(
            self.placement, tuple(pod for pod, _ in held), tuple(node_name for _, node_name in held)
        )


class PlacementSearch:
    """One attempt for a group. Each trial has members of its own, so that what came of them is not mixed up."""

    def __init__(self, core: Core, runner: Runner, members: list[Member]) -> None:
        self._core = core
        self._runner = runner
        self._entries: list[tuple[QueuedPod, int]] = [(member.entry, member.seed) for member in members]
        self._seed = members[0].seed
        self._place_book: dict[int, int] = {}
        """By identity of a placement: its place among all of them."""
        first = members[0].entry.pod
        pods = [member.entry.pod for member in members]
        self._group = PodGroupContext(pods, core.cluster, runner.caller.for_attempt(first.id))

    def steps(self) -> Steps[GroupTrial]:
        """Find the placement that the group goes to; an error of a plugin refuses the group."""
        try:
            placements = generate_placements(self._runner.profile, self._group)
            if isinstance(placements, Rejection):
                return self._refused(AttemptFailure(placements.message, nominate=None))
            if len(placements) == 1:
                return (yield from self._try_only(placements[0]))
            self._place_book = {id(placement): place for place, placement in enumerate(placements)}
            counted = count_candidates(self._core, self._runner, self._group, placements, self._seed)
            found = (yield from self._try_counted(placements, counted)) if counted is not None else None
            return found or (yield from self._try_in_order(placements, placements))
        except AttemptError as fault:
            return self._refused(error(str(fault)))

    def _try_only(self, placement: PodGroupPlacement) -> Steps[GroupTrial]:
        """Hot: where there is nothing to choose from, the room stays held from the start."""
        trial = self._trial(placement)
        yield from run(trial)
        return trial if trial.is_feasible or trial.error is not None else _unavailable(trial, 1)

    def _try_counted(
        self, placements: Sequence[PodGroupPlacement], counted: CountedCandidates
    ) -> Steps[GroupTrial | None]:
        """The outcome of trials in all placements, with fewer of them. None: a trial says otherwise, and has held
        nothing."""
        candidates = counted.candidates
        if len(candidates) > 1 and not counted.is_exact:
            keys = self._keys(candidates)
            order = sorted(range(len(candidates)), key=keys.__getitem__, reverse=True)
            promises = [keys[index] for index in order]
            return (yield from self._try_in_order(placements, [candidates[i].placement for i in order], promises))
        chosen = candidates[self._best(candidates)] if candidates else PodGroupAssignments(placements[0], ())
        trial = self._trial(chosen.placement)
        yield from run(trial)
        if not candidates and not trial.is_feasible and trial.error is None:
            return _unavailable(trial, len(placements))
        is_as_counted = trial.held_count == len(chosen.pods) or not counted.is_exact
        if candidates and trial.is_feasible and is_as_counted:
            return trial
        trial.give_back()
        return None

    def _try_in_order(
        self,
        placements: Sequence[PodGroupPlacement],
        order: Sequence[PodGroupPlacement],
        promises: Sequence[Key] = (),
    ) -> Steps[GroupTrial]:
        """Upstream's way: every placement is tried, then the best is taken. An error in one of them ends the attempt.

        With `promises`, which descend, it ends as soon as no placement that is left can be better.
        """
        feasible: list[Tried] = []
        first: GroupTrial | None = None
        for index, placement in enumerate(order):
            if promises and self._is_settled(feasible, promises[index]):
                break
            trial = self._trial(placement)
            yield from run(trial)
            if trial.error is not None:
                return trial
            trial.give_back()
            first = trial if placement is placements[0] else first
            if trial.is_feasible:
                feasible.append(Tried(placement, trial))
        if not feasible:
            return _unavailable(first, len(placements)) if first else (yield from self._try_first(placements))
        best = feasible[self._best([each.assignments() for each in feasible])].trial
        best.hold_again()
        return best

    def _try_first(self, placements: Sequence[PodGroupPlacement]) -> Steps[GroupTrial]:
        """The group fits nowhere, and the first placement was not among those tried: its reasons are the ones to tell."""
        trial = self._trial(placements[0])
        yield from run(trial)
        return trial if trial.error is not None else _unavailable(trial, len(placements))

    def _is_settled(self, feasible: Sequence[Tried], promise: Key) -> bool:
        """Whether one of these placements is better than a promise. All members must fit there: otherwise a placement with
        more of them could lower its score."""
        found = [each.assignments() for each in feasible]
        is_full = any(len(each.pods) == len(self._group.pods) for each in found)
        return is_full and max(self._keys(found)) > promise

    def _best(self, candidates: Sequence[PodGroupAssignments]) -> int:
        """The index of the candidate with the highest key. Parity: a single one is not scored."""
        if len(candidates) == 1:
            return 0
        keys = self._keys(candidates)
        return keys.index(max(keys))

    def _keys(self, candidates: Sequence[PodGroupAssignments]) -> list[Key]:
        totals = score_placements(self._runner.profile, self._group, candidates).tolist()
        rank, seed = self._core.options.tie_break.rank_place, self._seed
        places = [self._place_book[id(candidate.placement)] for candidate in candidates]
        return [(total, rank(place, seed)) for total, place in zip(totals, places, strict=True)]

    def _trial(self, placement: PodGroupPlacement) -> GroupTrial:
        members = [Member(entry, seed) for entry, seed in self._entries]
        within = placement.mask(self._core.cluster.nodes)
        return GroupTrial(self._core, self._runner, members, replace(self._core.options, within=within))

    def _refused(self, failure: AttemptFailure) -> GroupTrial:
        """A trial in which no member was tried: all fail for this reason."""
        members = [Member(entry, seed, failure=failure) for entry, seed in self._entries]
        return GroupTrial(self._core, self._runner, members, refusal=failure)


def _unavailable(trial: GroupTrial, count: int) -> GroupTrial:
    """The trial of the first placement, whose reasons the members get, where the group is feasible in none of them."""
    text = f"0/{count} placements are available, first placement status: {UNSCHEDULABLE_GROUP}"
    trial.refusal = AttemptFailure(text)
    return trial
