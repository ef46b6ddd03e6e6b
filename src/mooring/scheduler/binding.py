"""The state of a binding cycle: a pod on its way from a decision to its node."""

import msgspec

from mooring.framework.attempts.runner import Runner
from mooring.framework.contract.context import SchedulingContext
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod


class Binding(msgspec.Struct, eq=False):
    """The binding cycle of one pod. It lives in `Core.bindings` from Permit until the Bind is answered."""

    entry: QueuedPod
    pod: Pod
    """As it is assumed: a copy with its node name. `entry.pod` stays as the watch showed it."""
    runner: Runner
    context: SchedulingContext
    node_name: str
    """Kept beside the pod because every plugin call needs it."""
    has_waited: bool = False
    """On Permit, or for the work of PreBind: then the status names the node as nominated, unless that is switched off. If
    the binding fails, it must be taken back."""
    step_began_ns: int = 0
    """When its present step (the wait on Permit, PreBind, Bind) began, as the caller of its plugins says."""
