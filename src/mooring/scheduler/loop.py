"""One scheduling attempt: pop a pod, decide, then bind it or requeue it."""

from mooring.framework.attempts.runner import Runner
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedGroup, QueuedPod
from mooring.scheduler.bind import begin_binding
from mooring.scheduler.core import Core
from mooring.scheduler.decision import DecisionError, NoFit, Placement
from mooring.scheduler.extender_asking import InterestedExtenders
from mooring.scheduler.extender_attempt import extenders_for, take
from mooring.scheduler.extender_steps import Steps, at_once
from mooring.scheduler.failure import fail
from mooring.scheduler.groups.group_attempt import attempt_group
from mooring.scheduler.post_filter import evict_victims, failure_of, is_pointless, post_filter


def attempt(core: Core) -> Pod | None:
    """Try the next pod. Returns the pod that was popped; None if the active queue is empty."""
    queue, cluster, options = core.queue, core.cluster, core.options
    entry = queue.pop()
    if entry is None:
        return None
    if isinstance(entry, QueuedGroup):
        first = entry.entries[0].pod
        attempt_group(core, entry)
        return first
    pod = entry.pod
    runner = core.runners.get(pod.spec.scheduler_name)
    if runner is None or is_pointless(core, entry):
        queue.done(entry.uid, placed=False)
        return pod
    if core.is_observed:
        core.observer.attempt_began(entry)
    if options.extenders:
        take(core, _with_extenders(core, entry, runner))
        return pod
    # Hot: without extenders the decision is the outermost generator. Another one around it takes 0.5 µs.
    deciding = core.deciding
    decision = at_once(deciding(runner, pod, cluster, options, queue.attempts, None))
    if isinstance(decision, Placement):
        begin_binding(core, entry, runner, decision)
    else:
        at_once(_send_back(core, entry, runner, decision, None))
    return pod


def _with_extenders(core: Core, entry: QueuedPod, runner: Runner) -> Steps[None]:
    """An attempt that waits for the replies of extenders."""
    interested = extenders_for(core, entry.pod)
    decision = yield from core.deciding(runner, entry.pod, core.cluster, core.options, core.queue.attempts, interested)
    if isinstance(decision, Placement):
        begin_binding(core, entry, runner, decision)
    else:
        yield from _send_back(core, entry, runner, decision, interested)


def _send_back(
    core: Core,
    entry: QueuedPod,
    runner: Runner,
    decision: NoFit | DecisionError,
    interested: InterestedExtenders | None,
) -> Steps[None]:
    """Make room if the pod fits nowhere, and requeue it. Victims are evicted before: the gate that holds it back must be
    closed by then."""
    room = (yield from post_filter(runner, decision, interested)) if isinstance(decision, NoFit) else None
    failure = failure_of(core, decision, room)
    if failure.nominate:
        evict_victims(core, entry.pod, room)
    core.observer.decided(entry, "")
    fail(core, entry, failure)
