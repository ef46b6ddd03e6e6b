"""One attempt for a whole pod group: its members go together, or none of them goes and none of them holds any room."""

from dataclasses import replace

import msgspec

from mooring.framework.attempts.group_post_filter import UNSCHEDULABLE_GROUP
from mooring.framework.attempts.runner import Runner
from mooring.framework.contract.intents import Write
from mooring.framework.contract.status import Code
from mooring.kit.clock import in_seconds
from mooring.model.meta import Condition
from mooring.model.pod import Pod
from mooring.model.workloads import PodGroup
from mooring.queue.entry import QueuedPod
from mooring.rules.conditions import timed_typed, typed_condition
from mooring.scheduler.bind import run_permit
from mooring.scheduler.core import Core
from mooring.scheduler.evict import evict
from mooring.scheduler.extenders.attempt import take
from mooring.scheduler.extenders.steps import Steps
from mooring.scheduler.failure import SCHEDULER_ERROR, AttemptFailure, error, fail
from mooring.scheduler.groups.placements import try_group
from mooring.scheduler.groups.preemption import GATE, GroupPreemption, make_room, preempt
from mooring.scheduler.groups.trial import GroupTrial, Member
from mooring.scheduler.observer import GroupResult
from mooring.scheduler.verdict import is_pointless

WAITS_FOR_PREEMPTION = f"{UNSCHEDULABLE_GROUP}, pod group is waiting for preemption to complete"


def attempt_group(core: Core, first: QueuedPod) -> None:
    """Try the group of a pod that was popped, together with all members that wait in the queue.

    Parity: members with different scheduler names fail, since one profile decides for the group.
    """
    entries = _gather(core, first)
    if not entries:
        return
    strangers = [entry.profile for entry in entries if entry.profile != entries[0].profile]
    if strangers:
        names = f'"{entries[0].profile}" and "{strangers[0]}"'
        text = f"all pods in a single pod group should have the same .spec.schedulerName set, got: {names}"
        for entry in entries:
            fail(core, entry, error(text))
        return
    take(core, _in_cycle(core, core.runners[entries[0].profile], entries))


def _in_cycle(core: Core, runner: Runner, entries: list[QueuedPod]) -> Steps[None]:
    """The attempt, with a state of the group that plugins share between the members."""
    assert core.cluster.groups is not None, "pods are attempted in groups only where groups are kept"
    with core.cluster.groups.cycle(entries[0].pod):
        yield from _steps(core, runner, entries)


def _gather(core: Core, first: QueuedPod) -> list[QueuedPod]:
    """The members to be tried: highest priority first, then the one that has waited longest. Members that need no
    attempt are left out."""
    groups = core.cluster.groups
    group = groups.of(first.pod) if groups is not None else None
    if group is None:
        core.observer.attempt_began(first)
        fail(core, first, error(""))  # Parity: it backs off, and nothing is said about it
        return []
    popped = [core.queue.pop_member(pod) for pod in list(group.unscheduled.values()) if pod.id != first.uid]
    entries = []
    for entry in (first, *(entry for entry in popped if entry is not None)):
        if entry.profile not in core.runners or is_pointless(core, entry):
            core.queue.done(entry.uid, placed=False)
        else:
            core.observer.attempt_began(entry)
            entries.append(entry)
    return sorted(entries, key=lambda entry: (-entry.pod.priority, entry.initial_attempt_ns or 0, entry.key))


def _steps(core: Core, runner: Runner, entries: list[QueuedPod]) -> Steps[None]:
    """Try the members, then conclude for all at once. Seeds are numbered as if each member had been popped alone, so
    that a run replays."""
    seed = core.queue.attempts - len(entries) + 1
    members = [Member(entry, seed + place) for place, entry in enumerate(entries)]
    trial = yield from try_group(core, runner, members)
    core.observer.group_decided(entries[0])
    found = (yield from _preempt(core, runner, trial)) if core.cluster.gates.get(GATE, False) else None
    core.observer.group_ended(_conclude(core, trial, found), entries[0])


def _preempt(core: Core, runner: Runner, trial: GroupTrial) -> Steps[GroupPreemption | None]:
    """Search for victims that make room for the group as one, and note why there are none; None: it need not preempt."""
    if trial.error is not None or (trial.is_feasible and not trial.needs_preemption):
        return None
    trial.give_back()
    found = yield from preempt(core, runner, trial)
    if found.refusal is not None and found.refusal.code is Code.Error:
        trial.refusal = error(found.refusal.message)
    elif found.refusal is not None:
        said = _group_failure(trial, trial.is_feasible)
        trial.refusal = replace(said, message=f"{said.message}, {found.refusal.message}")
    return found


def _conclude(core: Core, trial: GroupTrial, found: GroupPreemption | None) -> GroupResult:
    """Send the group to its nodes, or requeue all members. Parity: members beyond the minimum may fail alone.

    Everything is given back before victims are evicted and members are requeued: both must see the cluster without the
    trial.
    """
    first = trial.members[0].entry.pod
    if trial.is_feasible and not trial.needs_preemption:
        write_group_status(core, first)
        for member in trial.members:
            _run_permit(core, member)
        return "scheduled"
    is_waiting = trial.is_feasible or (found is not None and found.victims is not None)
    failures = [_failure(trial, member, is_waiting) for member in trial.members]
    trial.give_back()
    write_group_status(core, first, _group_failure(trial, is_waiting))
    if found is not None:
        make_room(core, trial, found)
    for member, failure in zip(trial.members, failures, strict=True):
        if is_waiting:
            _make_room(core, member)
        fail(core, member.entry, failure)
    if _error(trial) is not None:
        return "error"
    return "waiting_on_preemption" if is_waiting else "unschedulable"


def _run_permit(core: Core, member: Member) -> None:
    """A member of a group that goes: on to Permit again, now for real; or it fails alone."""
    if member.binding is None:
        assert member.failure is not None, "a member that was tried has room, or a reason why not"
        fail(core, member.entry, member.failure)
        return
    core.story(member.entry.pod, f"goes to {member.binding.node_name}, with its group")
    run_permit(core, member.binding)


def _group_failure(trial: GroupTrial, is_waiting: bool) -> AttemptFailure:
    """The failure of the group as such: for its status, and for members without a reason of their own."""
    if trial.refusal is not None:
        return trial.refusal
    if trial.error is not None:
        return error(f"failed to schedule other pod from a pod group: {trial.error.message}")
    return AttemptFailure(WAITS_FOR_PREEMPTION if is_waiting and trial.is_feasible else UNSCHEDULABLE_GROUP)


def _error(trial: GroupTrial) -> AttemptFailure | None:
    """The error that the group fails with."""
    refused = trial.refusal is not None and trial.refusal.reason == SCHEDULER_ERROR
    return trial.refusal if refused else trial.error


def _failure(trial: GroupTrial, member: Member, is_waiting: bool) -> AttemptFailure:
    """Why a member of a group that does not go is requeued: its own reason, or that the group is not complete."""
    if _error(trial) is not None:
        return member.failure if member.failure is not None and member.has_error else _group_failure(trial, False)
    if member.node is None:
        assert member.failure is not None, "a member that was tried has room, or a reason why not"
        return member.failure
    if not is_waiting:
        waits = f'one or more plugins asked to wait and no plugin rejected pod "{member.entry.pod.name}"'
        return AttemptFailure(f"{UNSCHEDULABLE_GROUP}, {waits}")
    return member.failure or replace(_group_failure(trial, is_waiting), nominate=member.node)


def _make_room(core: Core, member: Member) -> None:
    """The group will fit once the victims have left: evict them.

    Unlike upstream, no pod is evicted for a group that would not fit even then.
    """
    room = member.room
    if room is not None and room.nomination is not None and room.found_by is not None:
        evict(core, member.entry.pod, room.nomination, room.found_by)


# ---- The status of the PodGroup: whether its pods could be scheduled


POD_GROUP_SCHEDULED = "PodGroupScheduled"


def write_group_status(core: Core, member: Pod, failure: AttemptFailure | None = None) -> None:
    """Set the condition PodGroupScheduled, unless the status has it already.

    A group that was scheduled once stays so: members that come later and do not fit change nothing.
    """
    group = core.cluster.pod_group(member.group_key or "")
    if group is None:
        return
    conditions = group.status.conditions or []
    before = typed_condition(conditions, POD_GROUP_SCHEDULED)
    now = _condition(group, failure)
    if before is not None and (_says(before) == _says(now) or (before.status == "True" and now.status == "False")):
        return
    now = timed_typed(before, now, in_seconds(core.clock.now_ns()))
    written = [condition for condition in conditions if condition is not before] + [now]
    body = {"status": {"conditions": msgspec.to_builtins(written)}}
    core.outbox.append(Write("PATCH", PodGroup, group.name, group.namespace, body, "status"))


def _condition(group: PodGroup, failure: AttemptFailure | None) -> Condition:
    return Condition(
        type=POD_GROUP_SCHEDULED,
        status="True" if failure is None else "False",
        reason="Scheduled" if failure is None else failure.reason,
        message="" if failure is None else failure.message,
        observed_generation=group.metadata.generation,
    )


def _says(condition: Condition) -> tuple[str, str | None, str]:
    return condition.status, condition.reason, condition.message or ""
