"""One attempt: take a pod from the queue, decide, and send it on its way."""

from functools import partial

from mooring.framework.runner import Runner
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod
from mooring.scheduler.bind import begin_binding
from mooring.scheduler.core import Core
from mooring.scheduler.decision import Decision, NoFit, Placement
from mooring.scheduler.extenders.attempt import panel_for, suspend
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
    if core.meters is not None:
        core.meters.began(entry)
    if core.manner.extenders and (panel := panel_for(core, pod)) is not None:
        suspend(core, entry, runner, panel, partial(_conclude, core, entry, runner))
        return pod
    decision = core.decide(runner, pod, core.cluster, core.manner, core.queue.attempts)
    _conclude(core, entry, runner, decision, seek_room(runner, decision) if isinstance(decision, NoFit) else None)
    return pod


def _conclude(core: Core, entry: QueuedPod, runner: Runner, decision: Decision, room: Room | None) -> None:
    """Send the pod to its node, or back to the queue."""
    failure, pod = failure_of(core, entry, decision, room), entry.pod
    if core.meters is not None:
        core.meters.decided(entry)
    if failure is not None:
        fail(core, entry, failure)
    else:
        assert isinstance(decision, Placement) and decision.cycle is not None, "a placement comes with its cycle"
        best = f"the best of {decision.feasible_count} feasible nodes (score {decision.score})"
        core.story(pod, f"goes to {decision.node}, {best if decision.feasible_count > 1 else 'the only choice'}")
        begin_binding(core, entry, runner, decision.cycle, decision.node)
