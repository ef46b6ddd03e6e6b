"""The placements of a pod group: the group is tried in each of them, and goes where the score is highest.

Without the gate TopologyAwareWorkloadScheduling there is one trial, on all nodes. A CompositePodGroup is tried in placements
as well, and its groups in placements within those.
"""

from collections import Counter
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from mooring.cluster.columns.kernels import Ints
from mooring.cluster.pods.pod_groups import GroupName
from mooring.framework.attempts.attempt import Attempt
from mooring.framework.attempts.group_asking import everywhere, generate_placements, score_placements
from mooring.framework.attempts.runner import Runner
from mooring.framework.attempts.slots import count_slots
from mooring.framework.contract.group_points import (
    PlacementProgress,
    PlacementScorePlugin,
    PodGroupAssignments,
    PodGroupContext,
    PodGroupPlacement,
)
from mooring.framework.contract.status import Code, Rejection
from mooring.framework.kept.asking import AttemptError
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod
from mooring.scheduler.core import Core
from mooring.scheduler.extender_steps import Steps
from mooring.scheduler.groups.trial import (
    GroupResult,
    GroupStatus,
    Member,
    failed,
    feasible,
    give_back,
    hold_again,
    status_of,
    try_members,
    unschedulable,
)

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
    enough = members_needed(runner, group)
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
        and bool(pods)
        and all(_grows(plugin, pods) for plugin in profile.placement_scores)
    )


def _fitting(
    core: Core, runner: Runner, group: PodGroupContext, placements: Sequence[PodGroupPlacement], seed: int
) -> Ints | None:
    """For each placement how many members fit at most: those of each shape as if they were alone; None: more than sums
    decides about some of them."""
    if any(core.cluster.nominated.node_of(pod.id) is not None for pod in group.pods):
        return None  # a member need not leave room for itself, so members of one shape may differ
    rows = group.rows_of(placements)
    fitting = np.zeros(len(placements), np.int64)
    members = Counter(id(pod.shape) for pod in group.pods)
    for pod in {id(pod.shape): pod for pod in group.pods}.values():
        try:
            attempt = runner.open(pod, core.cluster, seed)
            slots = count_slots(attempt)
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


def has_binding_work(runner: Runner, attempt: Attempt) -> bool:
    """Whether Reserve may reject a member, for all that is known."""
    try:
        return any(plugin.has_binding_work(attempt.context) for plugin in runner.binding_plugins)
    except Exception:  # as above
        return True


def members_needed(runner: Runner, group: PodGroupContext) -> int | None:
    """How many more members must get a node for the group to be feasible, one at the least; None: some plugin does not
    say."""
    found, scheduled = 1, len(group.scheduled)
    try:
        for plugin in runner.profile.placement_feasibles:
            needed = plugin.enough_members(group)
            if needed is None:
                return None
            found = max(found, needed - scheduled)
    except Exception:  # as above
        return None
    return found


# ---- The trial of a whole tree of groups.


Results = dict[GroupName, GroupResult]
"""The result of each group of a tree. Groups that were not tried are missing."""
Key = tuple[int, int]
"""The score of a placement, and its rank among those with the same score."""

_SEED_STEP = 1_000_003
"""Members of a group draw different seeds from the number of the attempt."""


class GroupAttempt(msgspec.Struct):
    """One attempt for a root group. Each trial has members of its own, so that what came of them is not mixed up."""

    core: Core
    runner: Runner
    root: GroupName
    entries: Mapping[str, Sequence[QueuedPod]]
    """By key of the PodGroup: its members that wait, in the order in which they are tried."""
    seed: int

    def members(self, key: str) -> list[Member]:
        """The members of a PodGroup, untried."""
        return [Member(entry, self.seed + place * _SEED_STEP) for place, entry in enumerate(self.entries.get(key, ()))]

    def context(self, name: GroupName) -> PodGroupContext:
        leaves = self.core.cluster.group_tree.leaves(name)
        pods = [entry.pod for key in leaves for entry in self.entries.get(key, ())]
        caller = self.runner.caller.for_attempt(pods[0].id if pods else name.key)
        return PodGroupContext(name, pods, self.core.cluster, caller)

    def steps(self) -> Steps[Results]:
        """Try the root. If it is feasible, the room of all its members that have a node is held."""
        results: Results = {}
        root = yield from self._try(self.root, None, results)
        if root.status.is_success and not root.any_scheduled:
            self.give_back(results)
            root.status = unschedulable()
        return results

    def give_back(self, results: Results) -> None:
        """Release the room of all members, in reverse order."""
        give_back(self.core, [member for result in results.values() for member in result.members])

    def _try(self, name: GroupName, parent: PodGroupPlacement | None, results: Results) -> Steps[GroupResult]:
        """Try a group within a placement of its parent; None: on all nodes."""
        group = self.context(name)
        if not self.runner.profile.tries_placements:
            results[name] = result = yield from self._trial(group, None)
            return result
        search: PlacementSearch = (CompositeSearch if name.is_composite else PlacementSearch)(self, group, parent)
        found = yield from search.steps()
        results.update(found)
        return results[name]

    def _trial(self, group: PodGroupContext, placement: PodGroupPlacement | None) -> Steps[GroupResult]:
        """Try the members of a PodGroup in a placement; None: on all nodes."""
        within = None if placement is None else placement.mask(self.core.cluster.nodes)
        members = self.members(group.key)
        return (yield from try_members(self.core, self.runner, group, members, within))

    def try_leaf(self, group: PodGroupContext, placement: PodGroupPlacement) -> Steps[Results]:
        """Try a PodGroup in one placement."""
        began_ns = group.caller.began()
        result = yield from self._trial(group, placement)
        if not result.status.is_error:
            self.core.observer.placement_evaluated(self.runner.profile, result.status.is_success, began_ns)
        return {group.name: result}

    def try_composite(self, group: PodGroupContext, placement: PodGroupPlacement) -> Steps[Results]:
        """Try the groups of a CompositePodGroup one after another in one placement. If too few fit, all room is given
        back."""
        results: Results = {}
        children = self.core.cluster.group_tree.children(group.name)
        result = GroupResult(group.name, GroupStatus())
        remaining, scheduled = len(children), 0
        result.status = feasible(self.runner, group, PlacementProgress(remaining, scheduled))
        for child in children if result.status.code in (Code.Success, Code.Wait) else ():
            tried = yield from self._try(child, placement, results)
            if tried.status.is_error:
                text = f"composite pod group evaluation failed due to child error: {tried.status.error_text}"
                result.status = failed(text)
                break
            result.any_scheduled = result.any_scheduled or tried.any_scheduled
            remaining -= 1
            scheduled += tried.status.is_success
            result.status = feasible(self.runner, group, PlacementProgress(remaining, scheduled))
            if result.status.code not in (Code.Success, Code.Wait):
                break
        if result.status.code is Code.Wait:
            result.status = unschedulable(*result.status.reasons)
        if not result.status.is_success:
            self.give_back(results)
            result.any_scheduled = False
        if result.status.is_error:
            return {group.name: result}  # Parity: the groups below fail with its text, not with their own
        return {group.name: result, **results}

    def successful(self, name: GroupName, results: Results) -> list[Member]:
        """The members that have a node, of PodGroups that are feasible like all groups above them."""
        result = results.get(name)
        if result is None or not result.status.is_success:
            return []
        below = [
            member
            for child in self.core.cluster.group_tree.children(name)
            for member in self.successful(child, results)
        ]
        return [*below, *result.held]


class PlacementSearch:
    """The search for the placement that a PodGroup goes to."""

    def __init__(self, attempt: GroupAttempt, group: PodGroupContext, parent: PodGroupPlacement | None) -> None:
        self._attempt = attempt
        self._core = attempt.core
        self._runner = attempt.runner
        self._group = group
        self._parent = everywhere(group) if parent is None else parent
        self._place_book: dict[int, int] = {}
        """By identity of a placement: its place among all of them."""

    def steps(self) -> Steps[Results]:
        """Find the placement that the group goes to, with the room held there; an error of a plugin fails the group."""
        try:
            placements = generate_placements(self._runner.profile, self._group, self._parent)
            if isinstance(placements, Rejection):
                return self._refused(status_of(placements))
            self._core.observer.placements_generated(self._runner.profile, len(placements))
            if len(placements) == 1:
                return (yield from self._try_only(placements[0]))
            self._place_book = {id(placement): place for place, placement in enumerate(placements)}
            found = yield from self._try_counted(placements)
            return found or (yield from self._try_in_order(placements, placements))
        except AttemptError as fault:
            return self._refused(failed(str(fault)))

    def _try_in(self, placement: PodGroupPlacement) -> Steps[Results]:
        """Try the group in one placement."""
        return self._attempt.try_leaf(self._group, placement)

    def _own(self, results: Results) -> GroupResult:
        return results[self._group.name]

    def _try_only(self, placement: PodGroupPlacement) -> Steps[Results]:
        """Hot: where there is nothing to choose from, the room stays held from the start."""
        results = yield from self._try_in(placement)
        status = self._own(results).status
        return results if status.is_success or status.is_error else self._unavailable(results, 1)

    def _try_counted(self, placements: Sequence[PodGroupPlacement]) -> Steps[Results | None]:
        """The outcome of trials in all placements, with fewer of them. None: only trials in all of them can tell; nothing is
        held."""
        counted = count_candidates(self._core, self._runner, self._group, placements, self._attempt.seed)
        if counted is None:
            return None
        candidates = counted.candidates
        if len(candidates) > 1 and not counted.is_exact:
            keys = self._keys(candidates)
            order = sorted(range(len(candidates)), key=keys.__getitem__, reverse=True)
            promises = [keys[index] for index in order]
            return (yield from self._try_in_order(placements, [candidates[i].placement for i in order], promises))
        chosen = candidates[self._best(candidates)] if candidates else PodGroupAssignments(placements[0], ())
        results = yield from self._try_in(chosen.placement)
        own = self._own(results)
        if not candidates and own.status.code is Code.Unschedulable:
            return self._unavailable(results, len(placements))
        is_as_counted = len(own.held) == len(chosen.pods) or not counted.is_exact
        if candidates and own.status.is_success and is_as_counted:
            return results
        self._attempt.give_back(results)
        return None

    def _try_in_order(
        self,
        placements: Sequence[PodGroupPlacement],
        order: Sequence[PodGroupPlacement],
        promises: Sequence[Key] = (),
    ) -> Steps[Results]:
        """Upstream's way: every placement is tried, then the best is taken. An error in one of them ends the attempt.

        With `promises`, which descend, it ends as soon as no placement that is left can be better.
        """
        tried: list[Results] = []
        found: list[PodGroupAssignments] = []
        first: Results | None = None
        for index, placement in enumerate(order):
            if promises and self._is_settled(found, promises[index]):
                break
            results = yield from self._try_in(placement)
            self._attempt.give_back(results)
            if self._own(results).status.is_error:
                return results
            first = results if placement is placements[0] else first
            if self._own(results).status.is_success:
                tried.append(results)
                found.append(self._assignments(placement, results))
        if not found:
            first = first or (yield from self._try_in(placements[0]))
            is_error = self._own(first).status.is_error
            return first if is_error else self._unavailable(first, len(placements))
        return self._take(tried[self._best(found)])

    def _take(self, results: Results) -> Results:
        """Hold the room again that was found in the best placement."""
        members = self._attempt.successful(self._group.name, results)
        fault = hold_again(self._core, self._runner, members)
        if fault is None:
            return results
        give_back(self._core, members)
        return self._refused(failed(f"failed to assume the subtree: {fault}"))

    def _assignments(self, placement: PodGroupPlacement, results: Results) -> PodGroupAssignments:
        held = self._attempt.successful(self._group.name, results)
        pods = tuple(member.entry.pod for member in held)
        return PodGroupAssignments(placement, pods, tuple(member.node or "" for member in held))

    def _is_settled(self, found: Sequence[PodGroupAssignments], promise: Key) -> bool:
        """Whether one of these placements is better than a promise. All members must fit there: otherwise a placement with
        more of them could lower its score."""
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
        rank, seed = self._core.options.tie_break.rank_place, self._attempt.seed
        places = [self._place_book[id(candidate.placement)] for candidate in candidates]
        return [(total, rank(place, seed)) for total, place in zip(totals, places, strict=True)]

    def _refused(self, status: GroupStatus) -> Results:
        """The result of a group of which no member was tried."""
        name = self._group.name
        members = [] if name.is_composite else self._attempt.members(name.key)
        return {name: GroupResult(name, status, members)}

    def _unavailable(self, results: Results, count: int) -> Results:
        """The results of the first placement, whose reasons the members get, where the group is feasible in none."""
        own = self._own(results)
        text = f"0/{count} placements are available, first placement status: {own.status.error_text}"
        own.status = unschedulable(text)
        return results


class CompositeSearch(PlacementSearch):
    """The search for the placement that a CompositePodGroup goes to, with placements of its groups within it."""

    def _try_in(self, placement: PodGroupPlacement) -> Steps[Results]:
        return self._attempt.try_composite(self._group, placement)

    def _try_counted(self, placements: Sequence[PodGroupPlacement]) -> Steps[Results | None]:
        """Sums of members do not decide about groups of groups."""
        yield from ()
        return None
