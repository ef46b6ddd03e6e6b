"""One attempt: take a pod from the queue, decide, and send it on its way."""

from functools import partial

from mooring.cycle.bind import begin_binding
from mooring.cycle.core import Core
from mooring.cycle.decision import Decision, Failed, NoFit, Placement
from mooring.cycle.evict import evict
from mooring.cycle.extender_attempt import panel_for, suspend
from mooring.cycle.failure import Failure, error, fail
from mooring.cycle.make_room import Room, make_room, make_room_measured
from mooring.framework.intents import Record
from mooring.framework.runner import Runner
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod


def attempt(core: Core) -> Pod | None:
    """Try the next pod. Returns the pod that was taken from the queue; None when no one's turn has come."""
    entry = core.queue.pop()
    if entry is None:
        return None
    pod = entry.pod
    runner = core.runners.get(entry.profile)
    if runner is None or _is_pointless(core, pod):
        core.queue.done(entry.uid, placed=False)
        return pod
    if core.meters is not None:
        core.meters.began(entry)
    if core.manner.extenders and (panel := panel_for(core, pod)) is not None:
        suspend(core, entry, runner, panel, partial(_conclude, core, entry, runner))
        return pod
    decision = core.decide(runner, pod, core.cluster, core.manner, core.queue.attempts)
    _conclude(core, entry, runner, decision, _seek_room(runner, decision) if isinstance(decision, NoFit) else None)
    return pod


def _conclude(core: Core, entry: QueuedPod, runner: Runner, decision: Decision, room: Room | None) -> None:
    """Send the pod to its node, or back to the queue."""
    failure, pod = _failure_of(core, entry, decision, room), entry.pod
    if core.meters is not None:
        core.meters.decided(entry)
    if failure is not None:
        fail(core, entry, failure)
    else:
        assert isinstance(decision, Placement) and decision.cycle is not None, "a placement comes with its cycle"
        best = f"the best of {decision.feasible_count} feasible nodes (score {decision.score})"
        core.story(pod, f"goes to {decision.node}, {best if decision.feasible_count > 1 else 'the only choice'}")
        begin_binding(core, entry, runner, decision.cycle, decision.node)


def _is_pointless(core: Core, pod: Pod) -> bool:
    """Whether the pod is on its way out, or on its way to a node already."""
    if pod.is_terminating:
        note = f"skip schedule deleting pod: {pod.key}"
        core.outbox.append(Record(pod, "Warning", "FailedScheduling", "Scheduling", note))
        return True
    return core.cache.is_assumed(pod.id)


def _failure_of(core: Core, entry: QueuedPod, decision: Decision, room: Room | None) -> Failure | None:
    """Why the pod cannot be placed; None: it can."""
    if isinstance(decision, Failed):
        return error(decision.error)
    return _no_fit(core, entry, decision, room) if isinstance(decision, NoFit) else None


def _seek_room(runner: Runner, decision: NoFit) -> Room | None:
    """The pod fits nowhere: let PostFilter make room. None: nobody was asked."""
    if decision.failure is None or not runner.profile.points.get("postFilter"):
        return None
    meters, failure = runner.meters, decision.failure
    return make_room(runner, failure) if meters is None else make_room_measured(runner, failure, meters)


def _no_fit(core: Core, entry: QueuedPod, decision: NoFit, room: Room | None) -> Failure:
    """The pod fits nowhere: act on the room that was found, and tell what came of it."""
    plugins, pending = decision.diagnosis.plugins, decision.diagnosis.pending
    if room is None:
        return Failure(decision.message, plugins=plugins, pending=pending)
    message = f"{decision.message} {room.message}" if room.message else decision.message
    if room.nomination is None:
        return Failure(message, plugins=plugins, pending=pending, nominate="" if room.clear_nomination else None)
    assert room.found_by is not None
    if room.nomination.node_name not in core.cluster.nodes.row_book:
        text = f'running PostFilter plugin "{room.found_by.name}": unexpected answer {room.nomination!r}'
        return Failure(f"{message} {text}", plugins=plugins, pending=pending, nominate=None)
    evict(core, entry.pod, room.nomination, room.found_by)
    return Failure(message, plugins=plugins, pending=pending, nominate=room.nomination.node_name)
