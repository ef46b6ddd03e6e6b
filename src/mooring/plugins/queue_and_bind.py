"""The plugins at the two ends of an attempt: SchedulingGates and PrioritySort for the queue, and DefaultBinder."""

from collections.abc import Sequence

from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import TARGET_POD, Action, ClusterEvent, Registration
from mooring.framework.contract.intents import Bind
from mooring.framework.contract.points import BindPlugin, PreEnqueuePlugin, QueueSortPlugin
from mooring.framework.contract.status import Rejection, final
from mooring.model.pod import Pod
from mooring.model.workloads import AnyPodGroup


class SchedulingGates(PreEnqueuePlugin):
    """A pod with gates (spec.schedulingGates) waits outside the queue. Other controllers remove gates when the pod may be
    scheduled."""

    name = "SchedulingGates"

    def events(self) -> Sequence[Registration]:
        """Only an update of the pod itself that removes its last gates can help."""
        return (Registration(ClusterEvent(TARGET_POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)),)

    @classmethod
    def may_gate(cls, pod: Pod) -> bool:
        return bool(pod.spec.scheduling_gates)

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        if not pod.spec.scheduling_gates:
            return None
        gates = [gate.name for gate in pod.spec.scheduling_gates]
        return final(f"waiting for scheduling gates: [{' '.join(gates)}]")


class PrioritySort(QueueSortPlugin):
    """The only QueueSort plugin of upstream; exactly one is enabled in all profiles."""

    name = "PrioritySort"

    def sort_key(self, pod: Pod, queued_at: float) -> tuple[int, float]:
        """Higher priorities first; among equals the pod that has been queued longer."""
        return -pod.priority, queued_at

    def group_sort_key(self, group: AnyPodGroup | None, pods: Sequence[Pod], queued_at: float) -> tuple[int, float]:
        """A group has the priority of its root, whatever the priorities of its pods."""
        return 0 if group is None else -group.priority, queued_at


class DefaultBinder(BindPlugin):
    """Answers with an intent: the driver calls the API server and reports what became of it."""

    name = "DefaultBinder"

    def bind(self, context: SchedulingContext, node_name: str) -> Bind:
        return Bind(context.pod, node_name)


PLUGINS = (SchedulingGates, PrioritySort, DefaultBinder)
