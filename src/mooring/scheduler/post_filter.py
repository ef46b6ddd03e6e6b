"""Between a decision and its consequences: whether an attempt is worthwhile, whether PostFilter finds a way to make room
for a pod that fits nowhere, and why the pod fails."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from mooring.framework.attempts.fit_errors import RejectedAttempt
from mooring.framework.attempts.runner import Runner
from mooring.framework.contract.intents import CallFault, Record
from mooring.framework.contract.points import Candidates, Nomination, NoRoom, PostFilterPlugin, Victims
from mooring.framework.contract.status import Code, PluginError
from mooring.framework.kept.asking import AttemptError
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod
from mooring.scheduler.core import Core
from mooring.scheduler.decision import DecisionError, NoFit
from mooring.scheduler.evict import evict
from mooring.scheduler.extender_asking import InterestedExtenders, review
from mooring.scheduler.extender_steps import Steps
from mooring.scheduler.failure import AttemptFailure, error, plugin_fault, unusable

Review = Callable[[Mapping[str, Victims]], Steps[Mapping[str, Victims] | CallFault]]
"""Function in which extenders review the candidate nodes and their victims. It returns the candidates that they left, or a
fault."""


class PostFilterResult(msgspec.Struct):
    """The outcome of PostFilter, over all its plugins."""

    nomination: Nomination | None = None
    found_by: PostFilterPlugin | None = None
    message: str = ""
    """Text that PostFilter adds to the fit error: why there is no room, or which room was found. Parity: where a plugin
    finds room, nothing is told of the plugins before it."""
    clear_nomination: bool = False
    """Whether a node that was promised earlier is to be forgotten. Otherwise an earlier promise stands."""
    code: Code = Code.Unschedulable
    """Status of the extension point in metrics."""


def run_post_filter_plugins(
    runner: Runner, failure: RejectedAttempt, review: Review | None = None
) -> Steps[PostFilterResult]:
    """Ask the PostFilter plugins for room; extenders may review what they find. The time that extenders take counts,
    as upstream."""
    caller = failure.attempt.context.caller
    began_ns = caller.began()
    room = yield from ask_in_order(runner.profile.post_filters, failure, review)
    caller.ended("PostFilter", room.code.name, began_ns)
    return room


def ask_in_order(
    plugins: Sequence[PostFilterPlugin], failure: RejectedAttempt, review: Review | None = None
) -> Steps[PostFilterResult]:
    """Ask until a plugin finds room, fails, or says that nothing can help. The reasons of the others are joined."""
    wrap = failure.attempt.context.wrap
    reasons: list[str] = []
    clear = False
    for plugin in plugins:
        if failure.attempt.context.is_resize and plugin.skips_resizes:
            continue
        try:
            answer = wrap("PostFilter", plugin.name, plugin.post_filter)(failure)
            if isinstance(answer, Candidates) and review is not None:
                answer = answer.choose((yield from review(answer.victims)))
        except (PluginError, AttemptError) as fault:
            return PostFilterResult(message=str(fault), code=Code.Error)
        except Exception as fault:  # a plugin may raise anything: the attempt fails, and the plugin is named
            return PostFilterResult(message=plugin_fault("PostFilter", plugin.name, fault), code=Code.Error)
        if isinstance(answer, Nomination):
            return PostFilterResult(answer, plugin, answer.message, code=Code.Success)
        if not isinstance(answer, NoRoom):
            return PostFilterResult(message=unusable("PostFilter", plugin.name, answer), code=Code.Error)
        clear = clear or answer.clear_nomination
        if answer.rejection.code is Code.UnschedulableAndUnresolvable:
            return PostFilterResult(
                None, None, answer.rejection.message, answer.clear_nomination, answer.rejection.code
            )
        reasons += [reason for reason in answer.rejection.reasons if reason]
    return PostFilterResult(message=", ".join(reasons), clear_nomination=clear)


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


def evict_victims(core: Core, preemptor: Pod, result: PostFilterResult | None) -> None:
    """Evict the victims that PostFilter chose, if it found room."""
    if result is not None and result.nomination is not None and result.found_by is not None:
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
        text = unusable("PostFilter", room.found_by.name, room.nomination)
        return AttemptFailure(f"{message} {text}", plugins=plugins, pending=pending, nominate=None)
    return AttemptFailure(message, plugins=plugins, pending=pending, nominate=room.nomination.node_name)
