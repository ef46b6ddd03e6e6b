"""SchedulingGates: a pod with gates waits outside the queue."""

from collections.abc import Sequence

from mooring.framework.contract.events import POD, Action, ClusterEvent, Registration
from mooring.framework.contract.points import PreEnqueuePlugin
from mooring.framework.contract.status import Rejection, final
from mooring.model.pod import Pod
from mooring.plugins.hints import ITSELF, is_itself


class SchedulingGates(PreEnqueuePlugin):
    """Gates are spec.schedulingGates: other controllers remove them when the pod may be scheduled."""

    name = "SchedulingGates"

    def events(self) -> Sequence[Registration]:
        """Only an update of the pod itself that removes its last gates can help."""
        opened = ClusterEvent(POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
        return (Registration(opened, is_itself, ITSELF),)

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        if not pod.spec.scheduling_gates:
            return None
        gates = [gate.name for gate in pod.spec.scheduling_gates]
        return final(f"waiting for scheduling gates: [{' '.join(gates)}]")
