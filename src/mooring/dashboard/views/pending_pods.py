"""Pods that have no node yet: where each waits, why, and what for."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod
from mooring.rules.conditions import typed_condition
from mooring.scheduler.failure import POD_SCHEDULED
from mooring.scheduler.scheduler import Scheduler

Whereabouts = Literal[
    "active", "backoff", "unschedulable", "gated", "inFlight", "waitingOnPermit", "bound", "gone", "other"
]
"""Where a pod is; `other`: it waits, but for another scheduler."""
_SIMPLE: tuple[Literal["active", "backoff"], ...] = ("active", "backoff")
MAX_MESSAGE = 2000
"""Characters of a message: plugins may say anything."""


@dataclass(frozen=True, slots=True)
class QueuedOrBinding:
    """A pod in the queue or on its way to a node."""

    pod: Pod
    entry: QueuedPod
    queue: Whereabouts


def pending_pods(scheduler: Scheduler) -> Iterator[QueuedOrBinding]:
    """All pods that have no node now, in no order. Entries are collected at once, 0.02 µs each; callers slice the rest."""
    core = scheduler.core
    places, bindings, waiting = (
        core.queue.entries_by_place(),
        list(core.bindings.values()),
        set(core.services.waiting.by_id),
    )
    seen = core.pods.get  # an entry may have a pod whose status is older

    def generate() -> Iterator[QueuedOrBinding]:
        for place in _SIMPLE:
            yield from (QueuedOrBinding(seen(entry.key, entry.pod), entry, place) for entry in places[place])
        for entry in places["unschedulable"]:
            yield QueuedOrBinding(seen(entry.key, entry.pod), entry, "gated" if entry.is_gated else "unschedulable")
        under_way = [entry for entry in places["in flight"] if entry.uid not in waiting]
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
        return QueuedOrBinding(pod, entry, place)
    binding = core.bindings.get(pod.id)
    if binding is not None:
        is_waiting = pod.id in core.services.waiting.by_id
        return QueuedOrBinding(pod, binding.entry, "waitingOnPermit" if is_waiting else "inFlight")
    flying = core.queue.in_flight.entry(pod.id)
    return None if flying is None else QueuedOrBinding(pod, flying, "inFlight")


# ---- why a pod waits


def message_of(pending: QueuedOrBinding) -> str:
    """What the gate or the last attempt said; empty before the first attempt."""
    if pending.entry.is_gated:
        return pending.entry.gating_message[:MAX_MESSAGE]
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
