"""Pending pods grouped by why they wait, the largest groups first. The pods of a PodGroup, which the scheduler attempts
together, are one group, with the reason of one that fits nowhere."""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import nlargest

import msgspec

from mooring.dashboard.slices import Sliced
from mooring.dashboard.views.moments import written_moment_ns
from mooring.dashboard.views.pending_pods import NOT_TRIED, QueuedOrBinding, pending_pods, reason_of
from mooring.framework.attempts.fit_errors import UNSCHEDULABLE_GROUP
from mooring.kit.clock import in_millis
from mooring.scheduler.scheduler import Scheduler

SHOWN = 20
_MAX_GROUPS = 1000
"""Groups that are told apart; further reasons share one. A plugin may name the pod in its words."""
OTHER = "other reasons"
_STEP = 200
"""Pods between two yields: some 0.3 ms."""


class OldestPod(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    since: str


class PendingGroup(msgspec.Struct, frozen=True):
    reason: str
    plugins: Sequence[str]
    queue: str
    count: int
    oldest: OldestPod


class PendingGroups(msgspec.Struct, frozen=True):
    """The event `pending`."""

    groups: Sequence[PendingGroup]
    total: int
    oldest: OldestPod | None = None
    """The pod that waits longest, of all groups; None if no pod waits."""


_GroupKey = tuple[str, tuple[str, ...], str]


@dataclass(slots=True)
class _Group:
    key: _GroupKey
    """What is shown of it: the reason, the plugins, the queue."""
    count: int
    oldest: QueuedOrBinding
    since_ns: int


def pending_groups(scheduler: Scheduler) -> Sliced[PendingGroups]:
    """Groups of the pods that wait now."""
    groups: dict[_GroupKey, _Group] = {}
    total = 0
    are_together = scheduler.core.cluster.groups is not None
    for pending in pending_pods(scheduler):
        _add(groups, pending, pending.pod.group_key if are_together else None)
        total += 1
        if total % _STEP == 0:
            yield
    largest = nlargest(SHOWN, groups.values(), lambda group: (group.count, -group.since_ns))
    oldest = min(groups.values(), key=lambda group: group.since_ns, default=None)
    return PendingGroups([_shown(group) for group in largest], total, None if oldest is None else _oldest(oldest))


def _add(groups: dict[_GroupKey, _Group], pending: QueuedOrBinding, pod_group: str | None) -> None:
    shown: _GroupKey = reason_of(pending), pending.entry.rejectors, pending.queue
    key: _GroupKey = shown
    if pod_group is not None:
        shown = f"PodGroup {pod_group}: {shown[0]}", shown[1], shown[2]
        key = pod_group, (), ""
    if key not in groups and len(groups) >= _MAX_GROUPS:
        key = shown = OTHER, (), pending.queue
    since_ns = waits_since_ns(pending)
    group = groups.get(key)
    if group is None:
        groups[key] = _Group(shown, 1, pending, since_ns)
        return
    if pod_group is not None and _tells_little(group.key[0]):
        group.key = shown
    group.count += 1
    if since_ns < group.since_ns:
        group.oldest, group.since_ns = pending, since_ns


def _tells_little(reason: str) -> bool:
    """Whether a member was tried without being the one that fits nowhere."""
    return UNSCHEDULABLE_GROUP in reason or reason.endswith(NOT_TRIED)


def waits_since_ns(pending: QueuedOrBinding) -> int:
    """When the pod was created; where that is not known, when the queue got it."""
    created_ns = written_moment_ns(pending.pod.metadata.creation_timestamp)
    return pending.entry.timestamp_ns if created_ns is None else created_ns


def _shown(group: _Group) -> PendingGroup:
    return PendingGroup(*group.key, group.count, _oldest(group))


def _oldest(group: _Group) -> OldestPod:
    pod = group.oldest.pod
    return OldestPod(pod.namespace, pod.name, in_millis(group.since_ns))
