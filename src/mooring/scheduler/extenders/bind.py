"""Binding by an extender instead of the Bind plugins."""

from dataclasses import replace

from mooring.framework.config.types import Extender
from mooring.framework.contract.intents import CallReply
from mooring.scheduler.binding import Binding
from mooring.scheduler.core import Core
from mooring.scheduler.extenders.interest import is_interested
from mooring.scheduler.extenders.replies import Unusable, bind_call, read_bound

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
