"""An attempt in which extenders take part: it is suspended at each call, and goes on when all replies are there.

The scheduler has no I/O and no threads, so an attempt is a generator (steps.py) that yields calls. Here it is driven:
calls go out as intents, replies come in by token.
"""

from dataclasses import replace

from mooring.framework.config.types import Extender
from mooring.framework.contract.intents import CallReply
from mooring.model.pod import Pod
from mooring.scheduler.core import Core
from mooring.scheduler.extender_asking import InterestedExtenders, interested_in, is_interested
from mooring.scheduler.extender_replies import Unusable, bind_call, read_bound
from mooring.scheduler.extender_steps import Steps, Suspension, at_once
from mooring.scheduler.under_way import Binding

# ---- Binding by an extender instead of the Bind plugins.


SKIPPED = "Skipping extender in bind as it returned error and has ignorable flag set"
"""Upstream's log message."""


def call_binder(core: Core, binding: Binding) -> bool:
    """Have the first extender that binds pods and is interested in this one bind it. False: there is none."""
    for extender in core.options.extenders:
        if extender.bind_verb and is_interested(extender, binding.pod):
            _call(core, binding, extender)
            return True
    return False


def _call(core: Core, binding: Binding, extender: Extender) -> None:
    """Send the call, and note which binding its reply belongs to."""
    call = bind_call(extender, binding.pod, binding.node_name)
    token = core.outbox.next_token()
    core.extender_calls.binders[token] = (binding, extender)
    core.outbox.append(replace(call, token=token))


def refusal(reply: CallReply) -> str | None:
    """Why the extender did not bind the pod; None: it did."""
    try:
        read_bound(reply)
    except Unusable as fault:
        return str(fault)
    return None


def skip(core: Core, extender: Extender, fault: str) -> bool:
    """Whether an extender that failed is ignorable. If so, a report says that it is skipped, and the Bind plugins
    take over."""
    if extender.ignorable:
        core.report(f"{SKIPPED}: extender {extender.shown_url}: {fault}", None)
    return extender.ignorable


def extenders_for(core: Core, pod: Pod) -> InterestedExtenders | None:
    """The extenders that are interested in the pod; None: there are none."""
    extenders = interested_in(core.options.extenders, pod) if core.options.extenders else ()
    if not extenders:
        return None
    return InterestedExtenders(extenders, lambda text: core.report(text, None), lambda text: core.story(pod, text))


def take(core: Core, steps: Steps[None]) -> None:
    """Run the steps of an attempt. Without extenders no step can wait, so the attempt is over when this returns."""
    if not core.options.extenders:
        at_once(steps)
        return
    core.extender_calls.suspension = Suspension(steps)
    _advance(core, core.extender_calls.suspension, None)


def replied(core: Core, suspension: Suspension, token: int, reply: CallReply) -> bool:
    """A call was answered. Returns whether the attempt is over.

    Replies with an unknown token are from an earlier step or a second answer to the same call: they are ignored.
    """
    if token not in (call.token for call in suspension.calls):
        return False
    suspension.replies.setdefault(token, reply)
    if len(suspension.replies) < len(suspension.calls):
        return False
    replies = [suspension.replies[call.token] for call in suspension.calls]
    _advance(core, suspension, replies)
    return core.extender_calls.suspension is None


def _advance(core: Core, suspension: Suspension, replies: list[CallReply] | None) -> None:
    """Run the steps up to the next calls, or to the end. Each call gets a token here, because steps cannot know it."""
    suspension.calls, suspension.replies = (), {}
    try:
        calls = suspension.steps.send(replies)  # type: ignore[arg-type]  # None begins a generator
    except StopIteration:
        core.extender_calls.suspension = None
        return
    except BaseException:
        core.extender_calls.suspension = None  # a bug must not leave the scheduler waiting for ever
        raise
    suspension.calls = tuple(replace(call, token=core.outbox.next_token()) for call in calls)
    core.outbox.intents += suspension.calls
