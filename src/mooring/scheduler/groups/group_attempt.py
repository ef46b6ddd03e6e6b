"""One attempt for a whole pod group: its members go together, or none of them goes and none of them holds any room."""

from collections.abc import Iterable
from dataclasses import replace

import msgspec

from mooring.cluster.nodes.table import NodeTable
from mooring.framework.attempts.fit_errors import (
    UNSCHEDULABLE_GROUP,
    GroupFitError,
    GroupSearch,
    GroupVictims,
    MovedPods,
    PodGroupPostFilterPlugin,
)
from mooring.framework.attempts.runner import Runner
from mooring.framework.contract.group_points import group_not_found
from mooring.framework.contract.intents import Write
from mooring.framework.contract.points import Nomination
from mooring.framework.contract.status import Code, Rejection, curable
from mooring.kit.clock import in_seconds
from mooring.model.meta import Condition
from mooring.model.pod import Pod
from mooring.model.workloads import PodGroup
from mooring.queue.entry import QueuedPod
from mooring.rules.conditions import timed_typed, typed_condition
from mooring.scheduler.bind import run_permit
from mooring.scheduler.core import Core
from mooring.scheduler.decide import deciding
from mooring.scheduler.decision import NoFit
from mooring.scheduler.evict import WHOLE_CLUSTER, evict
from mooring.scheduler.extender_attempt import take
from mooring.scheduler.extender_steps import Steps
from mooring.scheduler.failure import SCHEDULER_ERROR, AttemptFailure, error, fail, plugin_fault, says
from mooring.scheduler.groups.group_placements import has_binding_work, members_needed, try_group
from mooring.scheduler.groups.trial import GroupTrial, Member
from mooring.scheduler.observer import GroupResult, Observer
from mooring.scheduler.post_filter import evict_victims, is_pointless

# ---- Preemption for a whole pod group (gate WorkloadAwarePreemption): a plugin searches for victims in the whole
# cluster, and its questions are answered by trials of the group without them.
#
# Trials run on the cluster itself, with the pods put aside that a question names. All of them are back where they
# were when the search is over, whatever happens.


GATE = "WorkloadAwarePreemption"
_NO_PLUGIN = curable("default preemption plugin is not registered, workload aware preemption is disabled")
_HAS_CONSTRAINTS = curable("workload aware preemption is not supported for pod groups with scheduling constraints")


class GroupPreemption(msgspec.Struct, frozen=True):
    """The result of a search for victims."""

    victims: GroupVictims | None = None
    found_by: PodGroupPostFilterPlugin | None = None
    refusal: Rejection | None = None
    """Why no room can be made; with the code Error, the group fails with it."""


def search_for_victims(core: Core, runner: Runner, trial: GroupTrial) -> Steps[GroupPreemption]:
    """Search for the victims that make room for the group. The trial has given its room back."""
    plugin = next(
        (each for each in runner.profile.plugins.values() if isinstance(each, PodGroupPostFilterPlugin)), None
    )
    if plugin is None:
        return GroupPreemption(refusal=_NO_PLUGIN)
    key = trial.members[0].entry.pod.group_key or ""
    group = core.cluster.pod_group(key)
    if group is None:
        text = f"failed to get pod group object: {group_not_found(key)}"
        return GroupPreemption(refusal=Rejection((text,), Code.Error))
    if group.topology_key is not None:
        return GroupPreemption(refusal=_HAS_CONSTRAINTS)
    found = yield from _run(core, runner, trial, plugin, _fit_error(core, runner, trial, group))
    if isinstance(found, Rejection):
        return GroupPreemption(refusal=found)
    return GroupPreemption(found, plugin)


def evict_for_group(core: Core, trial: GroupTrial, found: GroupPreemption) -> None:
    """Evict the victims of a search for the group as one. Members are gated until all evictions are answered."""
    if found.victims is not None and found.found_by is not None:
        members = tuple(member.entry.pod for member in trial.members)
        evict(core, members[0], Nomination(WHOLE_CLUSTER, found.victims.pods), found.found_by, members)


def _fit_error(core: Core, runner: Runner, trial: GroupTrial, group: PodGroup) -> GroupFitError:
    rejected = next((m.decision.failure for m in trial.members if isinstance(m.decision, NoFit)), None)
    if rejected is not None and rejected.verdicts is None:
        rejected = None
    members = tuple(member.entry.pod for member in trial.members)
    return GroupFitError(group, members, core.cluster, _enough(core, runner, trial), rejected)


def _enough(core: Core, runner: Runner, trial: GroupTrial) -> int | None:
    """How many members must find a node, if the number alone decides; None: other plugins, or extenders, have a say."""
    decisions = [member.decision for member in trial.members]
    attempts = [each.failure.attempt for each in decisions if isinstance(each, NoFit) and each.failure]
    pod = trial.members[0].entry.pod
    known = core.cluster.groups.of(pod) if core.cluster.groups is not None else None
    if core.options.extenders or known is None or any(has_binding_work(runner, attempt) for attempt in attempts):
        return None
    return members_needed(runner, pod, known.scheduled_count)


def _run(
    core: Core, runner: Runner, trial: GroupTrial, plugin: PodGroupPostFilterPlugin, failure: GroupFitError
) -> Steps[GroupVictims | Rejection]:
    """Answer the questions of a search until it is over."""
    aside = PodsAside(core.cluster.nodes)
    try:
        search: GroupSearch = plugin.pod_group_post_filter(failure)
        answer: Rejection | None = None
        while True:
            try:
                question = search.send(answer)
            except StopIteration as end:
                found: GroupVictims | Rejection = end.value
                return found
            except Exception as fault:  # a plugin may raise anything: the group fails, and the plugin is named
                return Rejection((plugin_fault("PodGroupPostFilter", plugin.name, fault),), Code.Error)
            aside.move(question)
            answer = yield from _try_again(core, runner, trial.members)
    finally:
        aside.restore()


def _try_again(core: Core, runner: Runner, members: Iterable[Member]) -> Steps[Rejection | None]:
    """Try the group on the cluster as it is now, without PostFilter and without a trace. None: it fits."""
    unseen = replace(core, observer=Observer(), tell=None, deciding=deciding)
    again = [Member(member.entry, member.seed) for member in members]
    trial = GroupTrial(unseen, runner, again, makes_room=False)
    try:
        yield from trial.steps()
        if trial.error is not None:
            text = f"failed to schedule other pod from a pod group: {trial.error.message}"
            return Rejection((text,), Code.Error)
        return None if trial.is_feasible else curable(UNSCHEDULABLE_GROUP)
    finally:
        trial.give_back()


class PodsAside:
    """Takes pods off their nodes for a while. What is kept of rows that are touched is worked out again."""

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._away: dict[str, Pod] = {}
        self._before: dict[int, list[Pod]] = {}
        """The pods of rows that were touched, in their order: decisions may depend on it."""

    def move(self, moved: MovedPods) -> None:
        """Take pods off their nodes for a trial, and put others back. The order of pods on each row is noted, to restore it
        at the end."""
        for pod in moved.leave:
            row = self._nodes.row_of_pod(pod.id)
            if row is not None:
                self._before.setdefault(row, list(self._nodes.pods_on[row]))
                self._away[pod.id] = self._nodes.displace(pod.id)
        for pod in moved.come_back:
            self._put_back(pod.id)

    def restore(self) -> None:
        for pod_id in list(self._away):
            self._put_back(pod_id)
        for row, pods in self._before.items():
            self._nodes.pods_on[row][:] = pods
            self._nodes.pod_touches.note(row)

    def _put_back(self, pod_id: str) -> None:
        pod = self._away.pop(pod_id, None)
        if pod is not None:
            self._nodes.place(pod, pod.spec.node_name)


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
    found = yield from search_for_victims(core, runner, trial)
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
        evict_for_group(core, trial, found)
    for member, failure in zip(trial.members, failures, strict=True):
        if is_waiting:  # Unlike upstream, no pod is evicted for a group that would not fit even then.
            evict_victims(core, member.entry.pod, member.room)
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
    if before is not None and (says(before) == says(now) or (before.status == "True" and now.status == "False")):
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
