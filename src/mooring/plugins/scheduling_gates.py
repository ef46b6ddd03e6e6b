"""SchedulingGates: a pod with gates waits outside the queue."""

from mooring.framework.points import PreEnqueuePlugin
from mooring.framework.status import Rejection, final
from mooring.model.pod import Pod


class SchedulingGates(PreEnqueuePlugin):
    name = "SchedulingGates"

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        gates = [gate.name for gate in pod.spec.scheduling_gates or ()]
        return final(f"waiting for scheduling gates: [{' '.join(gates)}]") if gates else None
