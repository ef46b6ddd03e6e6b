"""PostFilter: asks the profile's plugins for a way to make room for a pod that fits nowhere."""

from collections.abc import Callable, Mapping, Sequence

import msgspec

from mooring.framework.attempts.fit_errors import RejectedAttempt
from mooring.framework.attempts.runner import Runner
from mooring.framework.contract.intents import CallFault
from mooring.framework.contract.points import Candidates, Nomination, NoRoom, PostFilterPlugin, Victims
from mooring.framework.contract.status import Code, PluginError, describe
from mooring.framework.kept.asking import AttemptError
from mooring.scheduler.extenders.steps import Steps

Review = Callable[[Mapping[str, Victims]], Steps[Mapping[str, Victims] | CallFault]]
"""What extenders make of the candidate nodes and their victims."""


class PostFilterResult(msgspec.Struct):
    """The outcome of PostFilter, over all its plugins."""

    nomination: Nomination | None = None
    found_by: PostFilterPlugin | None = None
    message: str = ""
    """What it adds to the fit error; empty when room was found."""
    clear_nomination: bool = False
    """Whether a node that was promised earlier is to be forgotten. Otherwise an earlier promise stands."""
    code: Code = Code.Unschedulable
    """What metrics call it."""


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
        try:
            answer = wrap("PostFilter", plugin.name, plugin.post_filter)(failure)
            if isinstance(answer, Candidates) and review is not None:
                answer = answer.choose((yield from review(answer.victims)))
        except (PluginError, AttemptError) as fault:
            return PostFilterResult(message=str(fault), code=Code.Error)
        except Exception as fault:  # a plugin may raise anything: the attempt fails, and the plugin is named
            return PostFilterResult(
                message=f'running PostFilter plugin "{plugin.name}": {describe(fault)}', code=Code.Error
            )
        if isinstance(answer, Nomination):
            return PostFilterResult(answer, plugin, code=Code.Success)
        if not isinstance(answer, NoRoom):
            text = f'running PostFilter plugin "{plugin.name}": unexpected answer {answer!r}'
            return PostFilterResult(message=text, code=Code.Error)
        clear = clear or answer.clear_nomination
        if answer.rejection.code is Code.UnschedulableAndUnresolvable:
            return PostFilterResult(
                None, None, answer.rejection.message, answer.clear_nomination, answer.rejection.code
            )
        reasons += [reason for reason in answer.rejection.reasons if reason]
    return PostFilterResult(message=", ".join(reasons), clear_nomination=clear)
