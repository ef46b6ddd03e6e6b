"""An attempt in which extenders have a say: it is suspended at each call, and goes on when all replies are there."""

from collections.abc import Callable
from dataclasses import replace

from mooring.framework.intents import CallReply
from mooring.framework.runner import Runner
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod
from mooring.scheduler.core import Core
from mooring.scheduler.decision import Decision, NoFit
from mooring.scheduler.extenders.interest import Panel, interested_in
from mooring.scheduler.extenders.review import review
from mooring.scheduler.extenders.steps import Steps, Suspension
from mooring.scheduler.make_room import Room, making_room

Conclude = Callable[[Decision, Room | None], None]
"""Told what was decided, and what PostFilter came to if it was asked."""


def panel_for(core: Core, pod: Pod) -> Panel | None:
    """The extenders that are interested in the pod; None: there are none."""
    extenders = interested_in(core.manner.extenders, pod)
    if not extenders:
        return None
    return Panel(extenders, lambda text: core.report(text, None), lambda text: core.story(pod, text))


def suspend(core: Core, entry: QueuedPod, runner: Runner, panel: Panel, conclude: Conclude) -> None:
    """Begin an attempt; it is over at once where no extender serves the verbs that it comes to."""
    begin(core, _attempting(core, entry, runner, panel, conclude))


def begin(core: Core, steps: Steps[None]) -> None:
    """Take steps that may have to wait for extenders."""
    core.suspension = Suspension(steps)
    _advance(core, core.suspension, None)


def replied(core: Core, suspension: Suspension, token: int, reply: CallReply) -> bool:
    """A call was answered. Returns whether the attempt is over."""
    if token not in (call.token for call in suspension.calls):
        return False
    suspension.replies.setdefault(token, reply)
    if len(suspension.replies) < len(suspension.calls):
        return False
    replies = [suspension.replies[call.token] for call in suspension.calls]
    _advance(core, suspension, replies)
    return core.suspension is None


def _advance(core: Core, suspension: Suspension, replies: list[CallReply] | None) -> None:
    """To the next calls, or to the end."""
    suspension.calls, suspension.replies = (), {}
    try:
        calls = suspension.steps.send(replies)  # type: ignore[arg-type]  # None begins a generator
    except StopIteration:
        core.suspension = None
        return
    except BaseException:
        core.suspension = None  # a bug must not leave the scheduler waiting for ever
        raise
    suspension.calls = tuple(replace(call, token=core.last_token + 1 + place) for place, call in enumerate(calls))
    core.last_token += len(calls)
    core.outbox += suspension.calls


def _attempting(core: Core, entry: QueuedPod, runner: Runner, panel: Panel, conclude: Conclude) -> Steps[None]:
    decision = yield from core.deciding(panel, runner, entry.pod, core.cluster, core.manner, core.queue.attempts)
    room = None
    if isinstance(decision, NoFit):
        room = yield from seeking_room(panel, runner, decision)
    conclude(decision, room)


def seeking_room(panel: Panel, runner: Runner, decision: NoFit) -> Steps[Room | None]:
    """The pod fits nowhere: let PostFilter make room, where the extenders have a say in it. None: nobody was asked."""
    if decision.failure is None or not runner.profile.points.get("postFilter"):
        return None
    return (yield from _making_room(panel, runner, decision))


def _making_room(panel: Panel, runner: Runner, decision: NoFit) -> Steps[Room]:
    failure, meters = decision.failure, runner.meters
    assert failure is not None
    cycle = failure.attempt.cycle
    began_ns = meters.now_ns() if meters is not None else 0
    room = yield from making_room(
        runner, failure, cycle.probe, lambda victims: review(panel, cycle.pod, cycle.nodes, victims)
    )
    if meters is not None:
        meters.observe("PostFilter", room.code.name, began_ns)
    return room
