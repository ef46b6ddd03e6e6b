"""A pod on its way from a decision to its node."""

from dataclasses import dataclass, field

from mooring.framework.context import SchedulingContext
from mooring.framework.runner import Runner
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod


@dataclass(slots=True)
class Binding:
    """The binding cycle of one pod."""

    entry: QueuedPod
    pod: Pod
    """As it is assumed: with its node."""
    runner: Runner
    context: SchedulingContext
    has_waited: bool = False
    """On Permit, or for the work of PreBind: then the pod's status was asked to name the node."""
    step_began_ns: int = 0
    """When its present step (the wait on Permit, PreBind, Bind) began, as the caller of its plugins says."""

    node_name: str = field(init=False)

    def __post_init__(self) -> None:
        self.node_name = self.pod.spec.node_name
