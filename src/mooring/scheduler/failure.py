"""The one way out of an attempt that did not succeed: requeue the pod, say why in its status, record an event."""

from dataclasses import dataclass, field

from mooring.framework.intents import PatchStatus, Record
from mooring.framework.status import Code, Rejection
from mooring.model.meta import Condition
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod
from mooring.queue.queue import AlreadyQueued
from mooring.rules.conditions import typed_condition
from mooring.scheduler.core import Core

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"
POD_SCHEDULED = "PodScheduled"

MAX_NOTE_BYTES = 1024
_CUT = " ..."


@dataclass(frozen=True, slots=True)
class AttemptFailure:
    """Why an attempt failed, and what becomes of the pod's nomination: None leaves it, an empty name clears it."""

    message: str
    reason: str = UNSCHEDULABLE
    plugins: frozenset[str] = frozenset()
    pending: frozenset[str] = frozenset()
    nominate: str | None = ""
    code: Code = field(default=Code.Unschedulable, compare=False)
    """The status that led to it, for metrics."""


def error(message: str) -> AttemptFailure:
    """Something went wrong: nobody rejected the pod, so only its backoff decides when it is tried again."""
    return AttemptFailure(message, SCHEDULER_ERROR, code=Code.Error)


def refused(rejection: Rejection) -> AttemptFailure:
    """A plugin rejected the node that had been chosen."""
    reasons = ", ".join(sorted(f"1 {reason}" for reason in rejection.reasons))
    text = f"0/1 nodes are available: {reasons}." if reasons else "0/1 nodes are available:"
    plugins = frozenset((rejection.plugin,))
    pending = plugins if rejection.code is Code.Pending else frozenset()
    return AttemptFailure(text, plugins=plugins, pending=pending, code=rejection.code)


def fail(
    core: Core, entry: QueuedPod, failure: AttemptFailure, promised: str | None = None, *, is_placed: bool = False
) -> None:
    """Bring a pod back from a failed attempt. `promised` is a node that its status was asked to name meanwhile.

    A pod of which the server says that it has its node all the same (`is_placed`) does not come back.
    """
    core.observer.attempt_failed(entry, is_error=failure.reason == SCHEDULER_ERROR)
    promised = core.queue.nominations.node_of(entry.uid) or promised
    core.story(entry.pod, f"is not scheduled: {failure.message or 'nobody wanted to bind it'}")
    known = core.pods.get(entry.key)
    if known is not None and known.id != entry.uid:
        core.queue.done(entry.uid, placed=False)  # another pod has taken the name: this one is history
        return
    if known is None or known.spec.node_name or is_placed:
        core.queue.done(entry.uid, placed=False)
        known = known or entry.pod
    else:
        entry.pod = known
        entry.reject_by(failure.plugins, failure.pending)
        try:
            core.queue.add_unschedulable(entry)
        except AlreadyQueued as fault:
            core.report("a pod came back from an attempt but is queued", fault)
    core.queue.nominations.add(known, failure.nominate)
    if failure.message:
        core.outbox.append(Record(known, "Warning", "FailedScheduling", "Scheduling", cut(failure.message)))
        if not is_placed:
            _write_status(core, known, failure, promised)


def _write_status(core: Core, pod: Pod, failure: AttemptFailure, promised: str | None) -> None:
    """Say why in the pod's status, unless it says so already. What it was last asked to name may not be seen yet."""
    condition = Condition(
        type=POD_SCHEDULED,
        status="False",
        reason=failure.reason,
        message=failure.message,
        observed_generation=pod.metadata.generation,
    )
    before = typed_condition(pod.status.conditions, POD_SCHEDULED)
    same = before is not None and _says(before) == _says(condition)
    nominate = failure.nominate
    if nominate == pod.status.nominated_node_name and promised in (nominate, None):
        nominate = None
    if not same or nominate is not None:
        core.outbox.append(PatchStatus(pod, None if same else condition, nominate))


def _says(condition: Condition) -> tuple[str, str | None, str | None]:
    return condition.status, condition.reason, condition.message


def cut(note: str) -> str:
    """An event's note is limited to 1024 bytes."""
    raw = note.encode(errors="surrogatepass")  # a plugin may say anything
    if len(raw) <= MAX_NOTE_BYTES:
        return note
    return raw[: MAX_NOTE_BYTES - len(_CUT)].decode(errors="ignore") + _CUT
