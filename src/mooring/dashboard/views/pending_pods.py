"""Pods that have no node yet: where each waits, why, and what for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import nlargest
from typing import Literal, cast

import msgspec

from mooring.dashboard.slices import Sliced
from mooring.framework.contract.group_points import tells_of_group
from mooring.kit.clock import in_millis, moment_ns
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod
from mooring.rules.conditions import typed_condition
from mooring.scheduler.failure import POD_SCHEDULED
from mooring.scheduler.scheduler import Scheduler

# ---- Times of objects, which are texts of any content, as moments and as the texts that pages read.


_MAX_TEXT = 40
"""Longer texts are no times."""


def moment_text(written: str | None) -> str:
    """The time in the form of the dashboard; empty if it is none."""
    found = written_moment_ns(written)
    return "" if found is None else in_millis(found)


def written_moment_ns(written: str | None) -> int | None:
    return _moment_ns(written) if written and len(written) <= _MAX_TEXT else None


@lru_cache(maxsize=4096)
def _moment_ns(written: str) -> int | None:
    """Hot: pods that a controller creates share their second; 0.1 µs instead of 1.2."""
    try:
        found = moment_ns(written)
        in_millis(found)  # the last moments of the year 9999 are rounded to times that have no text
    except (ValueError, OverflowError):
        return None
    return found


Whereabouts = Literal[
    "active", "backoff", "unschedulable", "gated", "inFlight", "waitingOnPermit", "bound", "gone", "other"
]
"""Where a pod is; `other`: it waits, but for another scheduler."""
_SIMPLE: tuple[Literal["active", "backoff"], ...] = ("active", "backoff")
INCOMPLETE = "waiting for its pod group: the PodGroup, or a CompositePodGroup above it, does not exist"
"""Why a member waits whose group is not complete."""
MAX_MESSAGE = 2000
"""Characters of a message: plugins may say anything."""


@dataclass(frozen=True, slots=True)
class QueuedOrBinding:
    """A pod in the queue or on its way to a node."""

    pod: Pod
    entry: QueuedPod
    queue: Whereabouts
    gate: str = ""
    """Why a gate holds back the pod, or another member of its group and the pod with it."""


def pending_pods(scheduler: Scheduler) -> Iterator[QueuedOrBinding]:
    """All pods that have no node now, in no order. Entries are collected at once, 0.02 µs each; callers slice the rest."""
    core = scheduler.core
    places, bindings, waiting = (
        core.queue.entities_by_place(),
        list(core.bindings.values()),
        set(core.services.waiting.by_id),
    )
    seen = core.pods.get  # an entry may have a pod whose status is older

    def generate() -> Iterator[QueuedOrBinding]:
        for place in _SIMPLE:
            for entity in places[place]:
                yield from (QueuedOrBinding(seen(e.key, e.pod), e, place) for e in entity.entries)
        for entity in places["unschedulable"]:
            queue: Whereabouts = "gated" if entity.is_gated else "unschedulable"
            for entry in entity.entries:
                yield QueuedOrBinding(seen(entry.key, entry.pod), entry, queue, entity.gating_message)
        for entity in places["incomplete"]:
            for entry in entity.entries:
                yield QueuedOrBinding(seen(entry.key, entry.pod), entry, "gated", INCOMPLETE)
        flying = [entry for entity in places["in flight"] for entry in entity.entries]
        under_way = [entry for entry in flying if entry.uid not in waiting]
        for entry in (*under_way, *(binding.entry for binding in bindings)):
            is_waiting = entry.uid in waiting
            yield QueuedOrBinding(seen(entry.key, entry.pod), entry, "waitingOnPermit" if is_waiting else "inFlight")

    return generate()


def pending_pod(scheduler: Scheduler, pod: Pod) -> QueuedOrBinding | None:
    """Where a pod waits; None: nowhere."""
    core = scheduler.core
    place = core.queue.where(pod.key)
    entry = core.queue.get(pod.key)
    if place is not None and entry is not None:
        if place in ("incomplete", "pending"):
            return QueuedOrBinding(pod, entry, "gated" if place == "incomplete" else "inFlight", INCOMPLETE)
        return QueuedOrBinding(pod, entry, cast(Whereabouts, place), core.queue.gate_of(entry))
    binding = core.bindings.get(pod.id)
    if binding is not None:
        is_waiting = pod.id in core.services.waiting.by_id
        return QueuedOrBinding(pod, binding.entry, "waitingOnPermit" if is_waiting else "inFlight")
    flying = core.queue.in_flight.entry(pod.id)
    return None if flying is None else QueuedOrBinding(pod, flying, "inFlight")


# ---- why a pod waits


def message_of(pending: QueuedOrBinding) -> str:
    """The message of the gate or of the last attempt; empty before the first attempt."""
    if pending.queue == "gated":
        return pending.gate[:MAX_MESSAGE]
    condition = typed_condition(pending.pod.status.conditions, POD_SCHEDULED)
    if condition is None or condition.status != "False":
        return ""
    return (condition.message or condition.reason or "")[:MAX_MESSAGE]


NOT_TRIED = "Not tried yet"
_MAX_REASON = 200


def reason_of(pending: QueuedOrBinding) -> str:
    """The reason in a few words, so that pods can be grouped by it."""
    message = message_of(pending)
    if message:
        return main_reason(message)
    if pending.entry.rejectors:
        return f"rejected by {', '.join(pending.entry.rejectors)}"
    return NOT_TRIED if not pending.entry.attempts else "failed with an error"


@lru_cache(maxsize=4096)
def main_reason(message: str) -> str:
    """The reason for which most nodes were rejected.

    | message                                                                        | reason           |
    | 0/5 nodes are available: 1 Insufficient cpu, 4 Too many pods. preemption: 0/5 … | Too many pods    |
    | 0/5 nodes are available: pod has unbound immediate PersistentVolumeClaims.      | pod has unbound … |
    | anything else                                                                   | anything else    |
    """
    head, found, rest = message.partition(" nodes are available: ")
    if not found or "/" not in head:
        return message[:_MAX_REASON]
    told = rest.partition(". ")[0].removesuffix(".")  # what PostFilter says is a sentence of its own
    counted = [each for part in _parts(told) if (each := _counted(part)) is not None]
    if not counted:
        return told[:_MAX_REASON]
    return max(counted, key=lambda each: each[0])[1][:_MAX_REASON]


def _parts(told: str) -> Iterator[str]:
    """`1 a, b, 2 c` has the parts `1 a, b` and `2 c`: a reason may have commas."""
    part = ""
    for piece in told.split(", "):
        if part and _counted(piece) is not None:
            yield part
            part = piece
        else:
            part = f"{part}, {piece}" if part else piece
    yield part


def _counted(part: str) -> tuple[int, str] | None:
    count, _, reason = part.partition(" ")
    return (int(count), reason) if count.isascii() and count.isdigit() and len(count) < 10 and reason else None


# ---- what a pod waits for


def waits_for(scheduler: Scheduler, pending: QueuedOrBinding) -> list[str]:
    """Changes of the cluster such as `Node/Add`, or plugins that hold the pod on Permit."""
    if pending.queue in ("unschedulable", "gated"):
        return scheduler.core.queue.hints.waking_events(pending.entry)
    waiting = scheduler.waiting.get(pending.entry.uid)
    return waiting.pending_plugins if waiting is not None else []


# ---- Pending pods grouped by why they wait, the largest groups first. The pods of a PodGroup, which the scheduler
# attempts together, are one group, with the reason of one that fits nowhere.


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
    """Values that all pods of the group share and that the page shows: the reason, the plugins, the queue."""
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
    """Count a pending pod in the group of its reason, plugins and queue. Members of a pod group form one group; when there
    are too many groups, further pods are counted as OTHER."""
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
    own = reason.partition(": ")[2] if reason.startswith("PodGroup ") else reason
    return tells_of_group(own) or reason.endswith(NOT_TRIED)


def waits_since_ns(pending: QueuedOrBinding) -> int:
    """When the pod was created; where that is not known, when the queue got it."""
    created_ns = written_moment_ns(pending.pod.metadata.creation_timestamp)
    return pending.entry.timestamp_ns if created_ns is None else created_ns


def _shown(group: _Group) -> PendingGroup:
    return PendingGroup(*group.key, group.count, _oldest(group))


def _oldest(group: _Group) -> OldestPod:
    pod = group.oldest.pod
    return OldestPod(pod.namespace, pod.name, in_millis(group.since_ns))
