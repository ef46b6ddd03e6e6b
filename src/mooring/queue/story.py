"""Sentences about what happens to a pod in the queue, for whoever asks later why it waited."""

from collections.abc import Callable

from mooring.framework.events import FORCE_ACTIVATE, UNSCHEDULABLE_POD_ADD
from mooring.kit.clock import NS_PER_S
from mooring.model.pod import Pod
from mooring.queue.entry import Place, QueuedPod

Tell = Callable[[Pod, str], None]

ATTEMPT_FAILED = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POPPED_EARLY = "PopFromBackoffQ"
"""Labels of moves between queues that no cluster event caused."""


def moved(entry: QueuedPod, label: str, place: Place, until_ns: int | None) -> str:
    """A pod came to a place for a reason; `until_ns` is when its backoff will be over."""
    if place == "gated":
        return f"gated by {entry.gating_plugin}: {entry.gating_message}"
    if place == "unschedulable":
        return f"unschedulable, {_failure(entry)}"
    where = "the active queue" if until_ns is None else f"backoff until {time_of_day(until_ns)}"
    return f"{_cause(entry, label)} to {where}"


def taken(entry: QueuedPod, is_early: bool) -> str:
    """A pod left the queue for an attempt."""
    early = " before its backoff was over, as nothing else waits" if is_early else ""
    return f"taken for attempt {entry.attempts}{early}"


def time_of_day(time_ns: int) -> str:
    """UTC, to the second: 12:00:04."""
    minutes, seconds = divmod(time_ns // NS_PER_S, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours % 24:02}:{minutes:02}:{seconds:02}"


def _failure(entry: QueuedPod) -> str:
    if entry.rejectors:
        return f"rejected by {', '.join(entry.rejectors)}"
    return "sent back with its group" if entry.serves_backoff else "failed with an error"


def _cause(entry: QueuedPod, label: str) -> str:
    if label == ATTEMPT_FAILED:
        was_woken = entry.rejectors and not entry.serves_backoff
        return f"{_failure(entry)}{' but an event moved it meanwhile,' if was_woken else ','}"
    return _CAUSES.get(label) or f"moved by {label}"


_CAUSES = {UNSCHEDULABLE_POD_ADD.label: "added", BACKOFF_COMPLETE: "backoff over,", FORCE_ACTIVATE.label: "activated,"}
