"""The placements of a pod group: the group is tried in each of them, and goes where the score is highest.

Without the gate TopologyAwareWorkloadScheduling there is one trial, on all nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mooring.cluster.nodes.kernels import Mask
from mooring.framework.asking import AttemptError
from mooring.framework.group_asking import generate_placements, score_placements
from mooring.framework.group_context import PodGroupAssignments, PodGroupContext, PodGroupPlacement
from mooring.framework.runner import Runner
from mooring.framework.status import Rejection
from mooring.queue.entry import QueuedPod
from mooring.scheduler.core import Core
from mooring.scheduler.extenders.steps import Steps
from mooring.scheduler.failure import AttemptFailure, error
from mooring.scheduler.groups.promising import promising
from mooring.scheduler.groups.trial import GroupTrial, Member

UNSCHEDULABLE_GROUP = "pod group is unschedulable"
"""Upstream's words: they end up in conditions of pods and pod groups."""


def try_group(core: Core, runner: Runner, members: list[Member]) -> Steps[GroupTrial]:
    """The trial that decides about the group; its room is held if the group is feasible."""
    if runner.profile.tries_placements:
        return (yield from PlacementSearch(core, runner, members).steps())
    trial = GroupTrial(core, runner, members, core.options)
    yield from run(trial)
    return trial


def run(trial: GroupTrial) -> Steps[None]:
    try:
        yield from trial.steps()
    except BaseException:
        trial.give_back()  # a bug must not leave room held that no pod will take
        raise


@dataclass(slots=True)
class Tried:
    """A placement with what came of the group in it."""

    placement: PodGroupPlacement
    trial: GroupTrial

    def assignments(self) -> PodGroupAssignments:
        held = [(member.entry.pod, member.node) for member in self.trial.members if member.node is not None]
        return PodGroupAssignments(
            self.placement, tuple(pod for pod, _ in held), tuple(node_name for _, node_name in held)
        )


class PlacementSearch:
    """One attempt for a group. The members are those of the first placement; others get new ones."""

    def __init__(self, core: Core, runner: Runner, members: list[Member]) -> None:
        self._core = core
        self._runner = runner
        self._entries: list[tuple[QueuedPod, int]] = [(member.entry, member.seed) for member in members]
        first = members[0].entry.pod
        pods = [member.entry.pod for member in members]
        self._group = PodGroupContext(pods, core.cluster, runner.caller.for_attempt(first.id))

    def steps(self) -> Steps[GroupTrial]:
        try:
            placements = generate_placements(self._runner.profile, self._group)
        except AttemptError as fault:
            return self._refused(error(str(fault)))
        if isinstance(placements, Rejection):
            return self._refused(AttemptFailure(placements.message, nominate=None))
        if len(placements) == 1:
            return (yield from self._try_only(placements[0]))
        return (yield from self._try_promising(placements)) or (yield from self._try_all(placements))

    def _try_only(self, placement: PodGroupPlacement) -> Steps[GroupTrial]:
        """Hot: where there is nothing to choose from, the room stays held from the start."""
        trial = self._trial(placement)
        yield from run(trial)
        return trial if trial.is_feasible or trial.error is not None else _unavailable(trial, 1)

    def _try_promising(self, placements: Sequence[PodGroupPlacement]) -> Steps[GroupTrial | None]:
        """The outcome of `_try_all` with a single trial, where numbers tell which; None: they do not tell, or the trial says
        otherwise, and has held nothing."""
        seed = self._entries[0][1]
        candidates = promising(self._core, self._runner, self._group, placements, seed)
        if candidates is None:
            return None
        try:
            chosen = candidates[self.best(candidates)] if candidates else PodGroupAssignments(placements[0], ())
        except AttemptError as fault:
            return self._refused(error(str(fault)))
        trial = self._trial(chosen.placement)
        yield from run(trial)
        fitting = sum(member.node is not None for member in trial.members)
        is_as_expected = trial.is_feasible if candidates else not trial.is_feasible
        if trial.error is None and is_as_expected and (not candidates or fitting == len(chosen.pods)):
            return trial if candidates else _unavailable(trial, len(placements))
        trial.give_back()
        return None

    def _try_all(self, placements: Sequence[PodGroupPlacement]) -> Steps[GroupTrial]:
        """Upstream's way: every placement is tried, then the best is taken. An error in one of them ends the attempt."""
        tried: list[Tried] = []
        for placement in placements:
            trial = self._trial(placement)
            yield from run(trial)
            if trial.error is not None:
                return trial
            trial.give_back()
            tried.append(Tried(placement, trial))
        feasible = [each for each in tried if each.trial.is_feasible]
        if not feasible:
            return _unavailable(tried[0].trial, len(placements))
        try:
            best = feasible[self.best([each.assignments() for each in feasible])].trial
        except AttemptError as fault:
            return self._refused(error(str(fault)))
        best.hold_again()
        return best

    def best(self, candidates: Sequence[PodGroupAssignments]) -> int:
        """The place of the candidate with the highest score. Parity: a single one is not scored."""
        if len(candidates) == 1:
            return 0
        totals = score_placements(self._runner.profile, self._group, candidates)
        tied = np.flatnonzero(totals == totals.max())
        return int(tied[self._core.options.tie_break.pick_place(len(tied), self._entries[0][1])])

    def _trial(self, placement: PodGroupPlacement) -> GroupTrial:
        members = [Member(entry, seed) for entry, seed in self._entries]
        return GroupTrial(self._core, self._runner, members, replace(self._core.options, within=self._mask(placement)))

    def _mask(self, placement: PodGroupPlacement) -> Mask | None:
        """The rows of a placement as a mask; None: all nodes."""
        nodes = self._core.cluster.nodes
        if len(placement.rows) == nodes.alive_count:
            return None
        mask = np.zeros(nodes.height, np.bool_)
        mask[placement.rows] = True
        return mask

    def _refused(self, failure: AttemptFailure) -> GroupTrial:
        """A trial in which no member was tried: all fail for this reason."""
        members = [Member(entry, seed, failure=failure) for entry, seed in self._entries]
        return GroupTrial(self._core, self._runner, members, refusal=failure)


def _unavailable(trial: GroupTrial, count: int) -> GroupTrial:
    """The trial of the first placement, whose reasons the members get, where the group is feasible in none of them."""
    text = f"0/{count} placements are available, first placement status: {UNSCHEDULABLE_GROUP}"
    trial.refusal = AttemptFailure(text)
    return trial
