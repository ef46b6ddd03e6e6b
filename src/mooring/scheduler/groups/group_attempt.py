"""One attempt for a whole root pod group: its members go together, or none of them goes and none of them holds any room.

validate          all members have one scheduler name, and the priority of the group
trial             members are decided on one after another (trial.py, group_placements.py)
PodGroupPostFilter  the group does not fit: plugins may make room (group_post_filter.py)
submit            members go to their nodes or back to the queue; each PodGroup gets its condition
"""

from collections.abc import Iterator

import msgspec

from mooring.cluster.pods.pod_groups import GroupName
from mooring.framework.contract.group_points import UNSCHEDULABLE_GROUP, GroupFitError
from mooring.framework.contract.intents import Write
from mooring.framework.contract.points import Nomination
from mooring.framework.contract.status import Code
from mooring.kit.clock import in_seconds
from mooring.model.meta import Condition
from mooring.model.pod import Pod
from mooring.model.workloads import PREEMPT_LOWER_PRIORITY, AnyPodGroup, PodGroup
from mooring.queue.entry import QueuedGroup
from mooring.queue.group_queue import Outcome
from mooring.rules.conditions import timed_typed, typed_condition
from mooring.scheduler.bind import run_permit
from mooring.scheduler.core import Core
from mooring.scheduler.evict import WHOLE_CLUSTER, evict
from mooring.scheduler.extender_attempt import take
from mooring.scheduler.extender_steps import Steps
from mooring.scheduler.failure import SCHEDULER_ERROR, UNSCHEDULABLE, AttemptFailure, error, fail, says
from mooring.scheduler.groups.group_placements import GroupAttempt, Results
from mooring.scheduler.groups.group_post_filter import GroupPostFilterResult, run_group_post_filters
from mooring.scheduler.groups.trial import GroupResult, GroupStatus, Member, failed, unschedulable
from mooring.scheduler.observer import GroupResultLabel
from mooring.scheduler.post_filter import is_pointless


def attempt_group(core: Core, group: QueuedGroup) -> None:
    """Try a group that was popped, with all its members that wait."""
    fault = _fault(core, group)
    for entry in group.entries:
        if fault is None and is_pointless(core, entry):
            core.queue.done(entry.uid, placed=False)
            group.remove(entry)
        else:
            core.observer.attempt_began(entry)
    if fault is not None:
        _fail_before(core, group, fault)
        return
    if not group.members:
        _end(core, group, GroupStatus())
        return
    take(core, _in_cycle(core, group))


def _in_cycle(core: Core, group: QueuedGroup) -> Steps[None]:
    """The attempt, with a state of the group that plugins share between the members."""
    assert core.cluster.groups is not None, "groups are attempted only where they are kept"
    pods, nominations = [entry.pod for entry in group.entries], core.queue.nominations
    # Parity: members in flight are in no queue, so upstream finds nothing but the names of those that are nominated.
    for pod in pods:
        nominations.set_aside(pod)
    try:
        with core.cluster.groups.cycle(core.cluster.group_tree.leaves(group.root)):
            yield from _steps(core, group)
    finally:
        for pod in pods:
            nominations.count_again(pod)


def _steps(core: Core, group: QueuedGroup) -> Steps[None]:
    """Try the group, make room if it does not fit, then conclude for all groups in it at once."""
    first = group.entries[0]
    entries = {key: list(members) for key, members in group.members.items()}
    attempt = GroupAttempt(core, core.runners[first.profile], group.root, entries, core.queue.attempts)
    results = yield from attempt.steps()
    status = results[group.root].status.copy()
    _complete(core, attempt, results)
    core.observer.group_decided(first)
    if status.code is Code.Unschedulable:
        failure = _fit_error(core, group.root, results)
        _apply(core, results, (yield from run_group_post_filters(attempt, failure)))
    leaves = [result for result in results.values() if not result.name.is_composite]
    went = sum([_submit(core, result) for result in leaves])
    core.observer.group_ended(_label(results[group.root]), first)
    # Unlike upstream, a group of which no member went backs off, though it fits: a Permit plugin that rejects all of them
    # would be asked again at once, for ever.
    _end(core, group, unschedulable() if status.is_success and not went else status)


def _end(core: Core, group: QueuedGroup, status: GroupStatus) -> None:
    """The attempt is over: members that are back in the queue form the entity again."""
    outcome: Outcome = "success" if status.is_success else "error" if status.is_error else "rejected"
    assert core.queue.groups is not None, "groups are attempted only where they are queued"
    core.queue.end_group_cycle(group, outcome)


# ---- Before the trial


def _fault(core: Core, group: QueuedGroup) -> str | None:
    """Why the group cannot be tried as one; None: it can. Members that wait are looked at first, then those on nodes."""
    root = core.cluster.group_tree.find(group.root)
    assert root is not None, "a group without its object is not queued"
    pods = [*(entry.pod for entry in group.entries), *_scheduled(core, group.root)]
    wanted = _policy(root.spec.preemption_policy if _has_policy(core) else pods[0].spec.preemption_policy)
    for pod in pods:
        fault = _fault_of_pod(pod, pods[0], root, wanted, _has_policy(core))
        if fault is not None:
            return fault
    name = pods[0].spec.scheduler_name
    return None if name in core.runners else f'profile not found for scheduler name "{name}"'


def _fault_of_pod(pod: Pod, first: Pod, root: AnyPodGroup, wanted: str, goes_by_group: bool) -> str | None:
    names = pod.spec.scheduler_name, first.spec.scheduler_name
    if names[0] != names[1]:
        said = f'"{names[0]}" and "{names[1]}"'
        return f"all pods in a single pod group should have the same .spec.schedulerName set, got: {said}"
    if pod.priority != root.priority:
        rule = "all pods in a single pod group should have the same priority as the pod group's priority"
        return f"{rule}, got {pod.priority} and {root.priority}"
    policy = _policy(pod.spec.preemption_policy)
    if policy != wanted:
        rule = "all pods in a single pod group should have the same preemption policy"
        whose = " as the pod group's preemption policy" if goes_by_group else ""
        return f"{rule}{whose}, got {policy} and {wanted}"
    return None


def _has_policy(core: Core) -> bool:
    return core.cluster.gates.get("PodGroupPreemptionPolicy", False)


def _policy(written: str | None) -> str:
    return written or PREEMPT_LOWER_PRIORITY


def _scheduled(core: Core, root: GroupName) -> Iterator[Pod]:
    """The pods of all groups under a root that have a node, or are about to."""
    groups = core.cluster.groups
    for key in core.cluster.group_tree.leaves(root) if groups is not None else ():
        members = groups.named(key)  # type: ignore[union-attr]
        yield from (*members.assigned.values(), *members.assumed.values())


def _fail_before(core: Core, group: QueuedGroup, fault: str) -> None:
    """The group cannot be tried: all its members fail, and all its PodGroups say why."""
    for entry in group.entries:
        if entry.profile in core.runners:
            fail(core, entry, error(fault))
        else:
            core.queue.done(entry.uid, placed=False)
    for key in core.cluster.group_tree.leaves(group.root):
        _write_condition(core, key, failed(fault))
    _end(core, group, failed(fault))


# ---- After the trial


def _complete(core: Core, attempt: GroupAttempt, results: Results) -> None:
    """Give a result to groups that were not tried, or that fitted under a parent that does not: the result of the parent."""
    _complete_below(core, attempt, results, attempt.root, GroupStatus())


def _complete_below(core: Core, attempt: GroupAttempt, results: Results, name: GroupName, parent: GroupStatus) -> None:
    result = results.get(name)
    if result is None or (not parent.is_success and result.status.is_success):
        members = [] if name.is_composite else attempt.members(name.key)
        # Parity: the status is the one of the parent itself, so a reason that is added to one is added to both.
        result = results[name] = GroupResult(name, parent, members)
    for child in core.cluster.group_tree.children(name):
        _complete_below(core, attempt, results, child, result.status)


def _fit_error(core: Core, root: GroupName, results: Results) -> GroupFitError:
    group = core.cluster.group_tree.find(root)
    assert group is not None, "an attempt holds all inputs back, so its group is there"
    for result in results.values():
        before = _failure_of(result.status)
        for member in result.members:
            # Members that were not tried fail with the status of the group as it is before PodGroupPostFilter.
            if member.decision is None:
                member.failure = before
    members = [member for result in results.values() for member in result.members]
    pods, contexts = tuple(m.entry.pod for m in members), tuple(m.context for m in members)
    return GroupFitError(root, group, pods, core.cluster, contexts)


def _failure_of(status: GroupStatus, nominate: str | None = None) -> AttemptFailure:
    reason = SCHEDULER_ERROR if status.is_error else UNSCHEDULABLE
    return AttemptFailure(status.message, reason, nominate=nominate, code=status.code)


def _apply(core: Core, results: Results, found: GroupPostFilterResult) -> None:
    """Note in all groups what PodGroupPostFilter says. If there is room, evict its victims and nominate members."""
    if found.code is Code.Error:
        for result in results.values():
            result.status = failed(found.refusal.message)
        return
    text = found.refusal.message if found.room is None else found.room.message
    for result in results.values():
        result.status.reasons.append(text)
        if found.room is not None:
            result.waits_for_preemption = True
            for member in result.members:
                member.nominate = found.room.nominated.get(member.entry.key)
    if found.room is not None and found.found_by is not None and found.room.victims:
        members = tuple(member.entry.pod for result in results.values() for member in result.members)
        evict(core, members[0], Nomination(WHOLE_CLUSTER, found.room.victims), found.found_by, members)


def _submit(core: Core, result: GroupResult) -> int:
    """Send the members of a PodGroup to their nodes, or back to the queue, and write its condition. Returns how many Permit
    let go, or keeps waiting."""
    went = 0
    for member in result.members:
        failure = _failure(result, member)
        if failure is not None:
            fail(core, member.entry, failure)
        else:
            assert member.binding is not None, "a member of a group that goes has room, or a reason why not"
            core.story(member.entry.pod, f"goes to {member.binding.node_name}, with its group")
            run_permit(core, member.binding)
            went += core.queue.where(member.entry.key) is None
    _write_condition(core, result.name.key, result.status)
    return went


def _failure(result: GroupResult, member: Member) -> AttemptFailure | None:
    """Why a member does not go; None: it goes. Members of a group that fits may fail alone, those of another all fail."""
    status = result.status
    if status.is_error:
        return member.failure if member.has_error else _failure_of(status, nominate="")
    if member.failure is not None or member.node is None:
        failure = member.failure or _failure_of(status)
        return failure if member.nominate is None else failure.nominating(member.nominate)
    if status.is_success:
        return None
    if result.waits_for_preemption:
        return _failure_of(status, member.nominate)
    return AttemptFailure(f"{UNSCHEDULABLE_GROUP}, {status.message}")


def _label(root: GroupResult) -> GroupResultLabel:
    if root.status.is_success:
        return "scheduled"
    if root.status.is_error:
        return "error"
    return "waiting_on_preemption" if root.waits_for_preemption else "unschedulable"


# ---- The condition of a PodGroup: whether its pods could be scheduled


INITIALLY_SCHEDULED = "PodGroupInitiallyScheduled"


def _write_condition(core: Core, key: str, status: GroupStatus) -> None:
    """Set the condition PodGroupInitiallyScheduled, unless the status has it already.

    A group that was scheduled once stays so: members that come later and do not fit change nothing, even if their attempt
    comes before the watch shows the condition.
    """
    group, groups = core.cluster.pod_group(key), core.cluster.groups
    if group is None or groups is None:
        return
    members = groups.named(key)
    if status.is_success:
        members.scheduled_uid = group.uid
    elif members.scheduled_uid == group.uid:
        return
    conditions = group.status.conditions or []
    before = typed_condition(conditions, INITIALLY_SCHEDULED)
    now = Condition(
        type=INITIALLY_SCHEDULED,
        status="True" if status.is_success else "False",
        reason="Scheduled" if status.is_success else SCHEDULER_ERROR if status.is_error else UNSCHEDULABLE,
        message=status.error_text if status.is_error else status.message,
        observed_generation=group.metadata.generation,
    )
    if before is not None and (says(before) == says(now) or (before.status == "True" and now.status == "False")):
        return
    now = timed_typed(before, now, in_seconds(core.clock.now_ns()))
    written = [condition for condition in conditions if condition is not before] + [now]
    body = {"status": {"conditions": msgspec.to_builtins(written)}}
    core.outbox.append(Write("PATCH", PodGroup, group.name, group.namespace, body, "status"))
