"""The one way out of an attempt that did not succeed: requeue the pod, say why in its status, record an event."""

from dataclasses import dataclass, field

from mooring.framework.contract.intents import PatchStatus, Record
from mooring.framework.contract.status import Code, Rejection, describe
from mooring.model.meta import Condition
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod
from mooring.queue.queue import AlreadyQueued
from mooring.rules.conditions import typed_condition
from mooring.scheduler.core import Core

UNSCHEDULABLE = "Unschedulable"
"""Reasons of the condition PodScheduled, in upstream's words. The cluster autoscaler reads them: it adds nodes for
Unschedulable only."""
SCHEDULER_ERROR = "SchedulerError"
POD_SCHEDULED = "PodScheduled"

MAX_NOTE_BYTES = 1024
"""The API server's limit for the note of an event; upstream cuts there as well."""
_CUT = " ..."


@dataclass(frozen=True, slots=True)
class AttemptFailure:
    """Why an attempt failed. With the code Skip neither an event nor a condition is written."""

    message: str
    reason: str = UNSCHEDULABLE
    plugins: frozenset[str] = frozenset()
    """Plugins that rejected the pod: their queueing hints decide which events wake it."""
    pending: frozenset[str] = frozenset()
    """Plugins among `plugins` that said Pending: an event of one of these lets the pod skip its backoff."""
    nominate: str | None = ""
    """New value of `status.nominatedNodeName`: None leaves the nomination as it is, an empty name clears it."""
    code: Code = field(default=Code.Unschedulable, compare=False)
    """The status that led to it, for metrics."""

    def nominating(self, node_name: str) -> "AttemptFailure":
        """The failure with a nomination. Hot: `replace` takes 3 µs."""
        return AttemptFailure(self.message, self.reason, self.plugins, self.pending, node_name, self.code)


def error(message: str) -> AttemptFailure:
    """A failure without a plugin that rejected the pod: no event can be known to help, so only its backoff decides
    when it is tried again."""
    return AttemptFailure(message, SCHEDULER_ERROR, code=Code.Error)


def plugin_fault(point: str, name: str, fault: Exception | str) -> str:
    """The text for an exception of a plugin, or for an answer that cannot be used. It names the plugin as upstream does."""
    return f'running {point} plugin "{name}": {describe(fault)}'


def unusable(point: str, name: str, answer: object) -> str:
    """The fault of a plugin that returned what its extension point does not allow: a bug of the plugin."""
    return plugin_fault(point, name, f"unexpected answer {answer!r}")


def refused(rejection: Rejection) -> AttemptFailure:
    """A plugin rejected the node that had been chosen, in Reserve or Permit. The text is the fit error for this one
    node."""
    reasons = ", ".join(sorted(f"1 {reason}" for reason in rejection.reasons))
    text = f"0/1 nodes are available: {reasons}." if reasons else "0/1 nodes are available:"
    plugins = frozenset((rejection.plugin,))
    pending = plugins if rejection.code is Code.Pending else frozenset()
    return AttemptFailure(text, plugins=plugins, pending=pending, code=rejection.code)


def fail(
    core: Core, entry: QueuedPod, failure: AttemptFailure, promised: str | None = None, *, is_placed: bool = False
) -> None:
    """Bring a pod back from a failed attempt. `promised` is a node that a PatchStatus named as nominated meanwhile.

    A pod that has its node according to the server (`is_placed`) is not requeued, unless it is here for a resize.
    """
    core.observer.attempt_failed(entry, failure.reason == SCHEDULER_ERROR, failure.message)
    promised = core.queue.nominations.node_of(entry.uid) or promised
    core.story(entry.pod, f"is not scheduled: {failure.message}")
    known = core.pods.get(entry.key)
    if known is not None and known.id != entry.uid:
        core.queue.done(entry.uid, placed=False)  # the pod is gone, and another one has its name
        return
    is_resize = known is not None and core.cluster.is_resize(known)
    is_ours = entry.profile in core.runners  # not if the configuration lost its profile while the pod was in flight
    if known is None or (known.spec.node_name and not is_resize) or is_placed or not is_ours:
        core.queue.done(entry.uid, placed=False)
        known = known or entry.pod
    else:
        entry.pod = known
        entry.reject_by(failure.plugins, failure.pending)
        try:
            core.queue.add_unschedulable(entry)
        except AlreadyQueued as fault:
            core.report("a pod came back from an attempt but is queued", fault)
    if is_resize:
        return  # it has its node and runs there: nothing is said in its status, and no event is recorded
    core.queue.nominations.add(known, failure.nominate)
    if failure.code is not Code.Skip:
        core.outbox.append(Record(known, "Warning", "FailedScheduling", "Scheduling", cut(failure.message)))
        if not is_placed:
            _write_status(core, known, failure, promised)


def _write_status(core: Core, pod: Pod, failure: AttemptFailure, promised: str | None) -> None:
    """Set the condition PodScheduled and the nomination, unless the status has both already: an equal write would only
    cause another update event.

    A nomination that was sent but that the watch has not shown yet (`promised`) has to be taken back as well.
    """
    condition = Condition(
        type=POD_SCHEDULED,
        status="False",
        reason=failure.reason,
        message=failure.message,
        observed_generation=pod.metadata.generation,
    )
    before = typed_condition(pod.status.conditions, POD_SCHEDULED)
    same = before is not None and says(before) == says(condition)
    nominate = failure.nominate
    if nominate == pod.status.nominated_node_name and promised in (nominate, None):
        nominate = None
    if not same or nominate is not None:
        core.outbox.append(PatchStatus(pod, None if same else condition, nominate))


def says(condition: Condition) -> tuple[str, str | None, str]:
    """The parts of a condition that matter: times and observed generation alone are no reason for a write."""
    return condition.status, condition.reason, condition.message or ""


def cut(note: str) -> str:
    """The note within MAX_NOTE_BYTES. Bytes are cut, so half a character at the end is dropped."""
    raw = note.encode(errors="surrogatepass")  # a plugin may say anything
    if len(raw) <= MAX_NOTE_BYTES:
        return note
    return raw[: MAX_NOTE_BYTES - len(_CUT)].decode(errors="ignore") + _CUT
