"""Between a decision and its consequences: whether an attempt is worthwhile, whether room can be made, and why a pod
fails."""

from mooring.framework.attempts.runner import Runner
from mooring.framework.contract.intents import Record
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod
from mooring.scheduler.core import Core
from mooring.scheduler.decision import DecisionError, NoFit
from mooring.scheduler.evict import evict
from mooring.scheduler.extenders.interest import InterestedExtenders
from mooring.scheduler.extenders.review import review
from mooring.scheduler.extenders.steps import Steps
from mooring.scheduler.failure import AttemptFailure, error
from mooring.scheduler.post_filter import PostFilterResult, run_post_filter_plugins


def is_pointless(core: Core, entry: QueuedPod) -> bool:
    """Whether the pod needs no attempt: it is being deleted, or already assumed. The event is upstream's
    skipPodSchedule."""
    pod = entry.pod
    if pod.metadata.deletion_timestamp is not None:
        note = f"skip schedule deleting pod: {pod.key}"
        core.outbox.append(Record(pod, "Warning", "FailedScheduling", "Scheduling", note))
        return True
    return core.cache.is_assumed(entry.uid)


def post_filter(
    runner: Runner, decision: NoFit, interested: InterestedExtenders | None
) -> Steps[PostFilterResult | None]:
    """The pod fits nowhere: run PostFilter, whose candidates interested extenders review. None: there is no
    PostFilter plugin, or there are no nodes."""
    failure = decision.failure
    if failure is None or not runner.profile.post_filters:
        return None
    if interested is None:
        return (yield from run_post_filter_plugins(runner, failure))
    context = failure.attempt.context
    return (
        yield from run_post_filter_plugins(
            runner, failure, lambda victims: review(interested, context.pod, context.nodes, victims)
        )
    )


def failure_of(core: Core, decision: NoFit | DecisionError, result: PostFilterResult | None) -> AttemptFailure:
    """Why the pod cannot be placed."""
    return error(decision.error) if isinstance(decision, DecisionError) else no_fit(core, decision, result)


def evict_victims(core: Core, preemptor: Pod, failure: AttemptFailure, result: PostFilterResult | None) -> None:
    """Evict the victims that PostFilter chose, if the failure nominates the pod."""
    if failure.nominate and result is not None and result.nomination is not None and result.found_by is not None:
        evict(core, preemptor, result.nomination, result.found_by)


def no_fit(core: Core, decision: NoFit, room: PostFilterResult | None) -> AttemptFailure:
    """The failure of a pod that fits nowhere: why, and the node to nominate it to if room was found.

    A plugin of a user may name a node that does not exist: that is reported as an error in its name, and no nomination
    is made.
    """
    plugins, pending = decision.diagnosis.plugins, decision.diagnosis.pending
    if room is None:
        return AttemptFailure(decision.message, plugins=plugins, pending=pending)
    message = f"{decision.message} {room.message}" if room.message else decision.message
    if room.nomination is None:
        return AttemptFailure(message, plugins=plugins, pending=pending, nominate="" if room.clear_nomination else None)
    assert room.found_by is not None
    if room.nomination.node_name not in core.cluster.nodes.row_book:
        text = f'running PostFilter plugin "{room.found_by.name}": unexpected answer {room.nomination!r}'
        return AttemptFailure(f"{message} {text}", plugins=plugins, pending=pending, nominate=None)
    return AttemptFailure(message, plugins=plugins, pending=pending, nominate=room.nomination.node_name)
