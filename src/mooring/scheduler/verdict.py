"""What comes of a decision before the pod is sent anywhere: is it worth trying, can room be made, why does it fail."""

from mooring.framework.intents import Record
from mooring.framework.runner import Runner
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod
from mooring.scheduler.core import Core
from mooring.scheduler.decision import Decision, DecisionError, NoFit
from mooring.scheduler.evict import evict
from mooring.scheduler.extenders.interest import Panel
from mooring.scheduler.extenders.review import review
from mooring.scheduler.extenders.steps import Steps
from mooring.scheduler.failure import Failure, error
from mooring.scheduler.make_room import Room, make_room


def is_pointless(core: Core, pod: Pod) -> bool:
    """Whether the pod is on its way out, or on its way to a node already."""
    if pod.is_terminating:
        note = f"skip schedule deleting pod: {pod.key}"
        core.outbox.append(Record(pod, "Warning", "FailedScheduling", "Scheduling", note))
        return True
    return core.cache.is_assumed(pod.id)


def seek_room(runner: Runner, decision: NoFit, panel: Panel | None) -> Steps[Room | None]:
    """The pod fits nowhere: let PostFilter make room, which interested extenders review. None: there is no PostFilter."""
    failure = decision.failure
    if failure is None or not runner.profile.post_filters:
        return None
    if panel is None:
        return (yield from make_room(runner, failure))
    cycle = failure.attempt.cycle
    return (yield from make_room(runner, failure, lambda victims: review(panel, cycle.pod, cycle.nodes, victims)))


def failure_of(core: Core, entry: QueuedPod, decision: Decision, room: Room | None) -> Failure | None:
    """Why the pod cannot be placed, after acting on the room that was found for it; None: it can."""
    if isinstance(decision, DecisionError):
        return error(decision.error)
    if not isinstance(decision, NoFit):
        return None
    failure = no_fit(core, decision, room)
    if failure.nominate and room is not None and room.nomination is not None and room.found_by is not None:
        evict(core, entry.pod, room.nomination, room.found_by)
    return failure


def no_fit(core: Core, decision: NoFit, room: Room | None) -> Failure:
    """The pod fits nowhere: why, and which node it is to be nominated to if room was found there."""
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
    return Failure(message, plugins=plugins, pending=pending, nominate=room.nomination.node_name)
