"""One attempt: take a pod from the queue, decide, and send it on its way."""

from mooring.framework.runner import Runner
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod
from mooring.scheduler.bind import begin_binding
from mooring.scheduler.core import Core
from mooring.scheduler.decision import Decision, NoFit, Placement
from mooring.scheduler.extenders.attempt import panel_for, take
from mooring.scheduler.extenders.steps import Steps
from mooring.scheduler.failure import fail
from mooring.scheduler.groups.attempt import attempt_group
from mooring.scheduler.make_room import Room
from mooring.scheduler.verdict import failure_of, is_pointless, seek_room


def attempt(core: Core) -> Pod | None:
    """Try the next pod. Returns the pod that was taken from the queue; None when no one's turn has come."""
    entry = core.queue.pop()
    if entry is None:
        return None
    pod = entry.pod
    if core.cluster.groups is not None and pod.group_key is not None:
        attempt_group(core, entry)
        return pod
    runner = core.runners.get(entry.profile)
    if runner is None or is_pointless(core, pod):
        core.queue.done(entry.uid, placed=False)
        return pod
    core.observer.attempt_began(entry)
    take(core, _steps(core, entry, runner))
    return pod


def _steps(core: Core, entry: QueuedPod, runner: Runner) -> Steps[None]:
    """Decide, make room if the pod fits nowhere, and act on it."""
    panel = panel_for(core, entry.pod)
    decision = yield from core.deciding(runner, entry.pod, core.cluster, core.options, core.queue.attempts, panel)
    room = (yield from seek_room(runner, decision, panel)) if isinstance(decision, NoFit) else None
    _conclude(core, entry, runner, decision, room)


def _conclude(core: Core, entry: QueuedPod, runner: Runner, decision: Decision, room: Room | None) -> None:
    """Send the pod to its node, or back to the queue."""
    failure, pod = failure_of(core, entry, decision, room), entry.pod
    core.observer.decided(entry)
    if failure is not None:
        fail(core, entry, failure)
    else:
        assert isinstance(decision, Placement) and decision.cycle is not None, "a placement comes with its cycle"
        best = f"the best of {decision.feasible_count} feasible nodes (score {decision.score})"
        core.story(pod, f"goes to {decision.node}, {best if decision.feasible_count > 1 else 'the only choice'}")
        begin_binding(core, entry, runner, decision.cycle, decision.node)
