"""The trial of a PodGroup: members are decided on one after another, each without the room of those before it.

The room stays held if enough members fit. Otherwise, or if the group goes elsewhere, all of it is given back.
"""

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from mooring.cluster.columns.kernels import Mask
from mooring.cluster.pods.pod_groups import GroupName
from mooring.framework.attempts.group_asking import ask_feasible
from mooring.framework.attempts.runner import Runner
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.group_points import UNSCHEDULABLE_GROUP, PlacementProgress, PodGroupContext
from mooring.framework.contract.status import Code, Rejection
from mooring.framework.kept.asking import AttemptError
from mooring.queue.entry import QueuedPod
from mooring.scheduler.bind import back_out, hold
from mooring.scheduler.core import Core
from mooring.scheduler.decide import DecideOptions
from mooring.scheduler.decision import Decision, DecisionError, NoFit, Placement
from mooring.scheduler.extender_attempt import extenders_for
from mooring.scheduler.extender_steps import Steps
from mooring.scheduler.failure import SCHEDULER_ERROR, AttemptFailure, error
from mooring.scheduler.post_filter import no_fit
from mooring.scheduler.under_way import Binding


class GroupStatus(msgspec.Struct):
    """The result of an attempt for a group, as upstream's Status: a code, reasons, and the error that they are about."""

    code: Code = Code.Success
    reasons: list[str] = msgspec.field(default_factory=list)
    error: str = ""
    """Stands before the reasons in the message. Where only the error is wanted, it stands alone."""

    @property
    def message(self) -> str:
        return ", ".join([self.error, *self.reasons] if self.error else self.reasons)

    @property
    def error_text(self) -> str:
        return self.error or self.message

    @property
    def is_success(self) -> bool:
        return self.code is Code.Success

    @property
    def is_error(self) -> bool:
        return self.code is Code.Error

    def copy(self) -> "GroupStatus":
        return GroupStatus(self.code, list(self.reasons), self.error)


def failed(text: str) -> GroupStatus:
    """The status of a group that failed with an error."""
    return GroupStatus(Code.Error, [], text)


def unschedulable(*reasons: str) -> GroupStatus:
    """The status of a group that does not fit."""
    return GroupStatus(Code.Unschedulable, list(reasons), UNSCHEDULABLE_GROUP)


def status_of(rejection: Rejection | None) -> GroupStatus:
    """The answer of plugins as a status."""
    return GroupStatus() if rejection is None else GroupStatus(rejection.code, list(rejection.reasons))


class Member(msgspec.Struct):
    """A member of the group, and what came of it in the trial."""

    entry: QueuedPod
    seed: int
    """Breaks ties among nodes of equal score, as the number of the attempt does for a single pod."""
    decision: Decision | None = None
    """None: it was not tried, because the trial ended before."""
    failure: AttemptFailure | None = None
    """Why it cannot go."""
    binding: Binding | None = None
    """The room that is held for it."""
    node: str | None = None
    """The node that was found for it, also after its room was given back."""
    promised: str | None = None
    """The node that it was nominated to before."""
    nominate: str | None = None
    """The node that PodGroupPostFilter nominates it to: None leaves its nomination as it is, an empty name clears it."""

    @property
    def has_error(self) -> bool:
        return self.failure is not None and self.failure.reason == SCHEDULER_ERROR

    @property
    def context(self) -> SchedulingContext | None:
        """The context of its attempt; None: it was not tried, or failed with an error."""
        if isinstance(self.decision, NoFit):
            return None if self.decision.failure is None else self.decision.failure.context
        return self.decision.context if isinstance(self.decision, Placement) else None


class GroupResult(msgspec.Struct):
    """The result of a group in an attempt."""

    name: GroupName
    status: GroupStatus
    members: list[Member] = msgspec.field(default_factory=list)
    """Of a PodGroup: all members that wait, in the order in which they are tried."""
    any_scheduled: bool = False
    """Whether a member has a node by this attempt."""
    waits_for_preemption: bool = False

    @property
    def held(self) -> list[Member]:
        """The members that a node was found for."""
        return [member for member in self.members if member.node is not None]


def try_members(
    core: Core, runner: Runner, group: PodGroupContext, members: list[Member], within: Mask | None
) -> Steps[GroupResult]:
    """Try the members in order, on the rows of `within` alone. A rejected member is passed over: the others may still be
    enough. The trial ends as soon as they cannot be, or with an error."""
    result = GroupResult(group.name, GroupStatus(), members)
    options = core.options if within is None else replace(core.options, within=within)
    left: list[Member] = []
    try:
        yield from _try(core, runner, group, result, options)
        if options.decides_on_all_members:
            left = [member for member in members if member.decision is None]
            for member in left:
                yield from _decide(core, runner, member, options)
    except BaseException:
        give_back(core, members)  # a bug must not leave room held that no pod will take
        raise
    if not result.status.is_success:
        give_back(core, members)
        result.any_scheduled = False
    for member in left:  # the decision was only to be seen
        member.decision = member.failure = member.node = None
    return result


def _try(
    core: Core, runner: Runner, group: PodGroupContext, result: GroupResult, options: DecideOptions
) -> Steps[None]:
    """Try the members until enough or too few fit. A Wait that is left at the end means too few."""
    remaining, scheduled = len(result.members), len(group.scheduled)
    result.status = feasible(runner, group, PlacementProgress(remaining, scheduled))
    if result.status.code is Code.Unschedulable:
        result.status = unschedulable(*result.status.reasons)
    if result.status.code not in (Code.Success, Code.Wait):
        return
    for member in result.members:
        yield from _decide(core, runner, member, options)
        if member.has_error:
            assert member.failure is not None
            result.status = failed(f"failed to schedule other pod from a pod group: {member.failure.message}")
            return
        remaining -= 1
        scheduled += member.node is not None
        result.status = feasible(runner, group, PlacementProgress(remaining, scheduled))
        if result.status.code not in (Code.Success, Code.Wait):
            return
        result.any_scheduled = result.any_scheduled or member.node is not None
    if result.status.code is Code.Wait:
        result.status = unschedulable(*result.status.reasons)


def feasible(runner: Runner, group: PodGroupContext, progress: PlacementProgress) -> GroupStatus:
    """Ask PlacementFeasible; a fault of a plugin is an error of the group."""
    try:
        return status_of(ask_feasible(runner.profile, group, progress))
    except AttemptError as fault:
        return failed(f"failed to evaluate placement feasibility: {fault}")


def _decide(core: Core, runner: Runner, member: Member, options: DecideOptions) -> Steps[None]:
    """Decide on one member with the room of the others taken, and take the room that was found. PostFilter is not asked."""
    pod = member.entry.pod
    decision = yield from core.deciding(runner, pod, core.cluster, options, member.seed, extenders_for(core, pod))
    core.observer.decided(member.entry, decision.node if isinstance(decision, Placement) else "")
    member.decision = decision
    member.promised = core.queue.nominations.node_of(member.entry.uid)
    if isinstance(decision, Placement):
        hold_found(core, runner, member, decision)
    elif isinstance(decision, NoFit):
        member.failure = replace(no_fit(core, decision, None), nominate=None)
    else:
        assert isinstance(decision, DecisionError)
        member.failure = error(decision.error)


def hold_found(core: Core, runner: Runner, member: Member, decision: Placement) -> None:
    """Hold the room on the node that was chosen; the member fails if it cannot be held."""
    assert decision.context is not None, "a placement comes with its context"
    held = hold(core, member.entry, runner, decision.context, decision.node)
    if isinstance(held, AttemptFailure):
        member.failure, member.node = held, None
        _renominate(core, member)
    else:
        member.binding, member.node = held, decision.node


def hold_again(core: Core, runner: Runner, members: Iterable[Member]) -> str | None:
    """Take the room once more that was found and given back. Returns why one of them does not get it; None: all do."""
    for member in members:
        if member.node is not None and isinstance(member.decision, Placement):
            hold_found(core, runner, member, member.decision)
            if member.failure is not None:
                return member.failure.message
    return None


def give_back(core: Core, members: Iterable[Member]) -> None:
    """Release all room, in reverse order, and restore nominations that the trial deleted."""
    for member in reversed(list(members)):
        if member.binding is not None:
            back_out(core, member.binding)
            member.binding = None
            _renominate(core, member)


def _renominate(core: Core, member: Member) -> None:
    if member.promised is not None:
        core.queue.nominations.add(member.entry.pod, member.promised)
        core.queue.nominations.set_aside(member.entry.pod)
