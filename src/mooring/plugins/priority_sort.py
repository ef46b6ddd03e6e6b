"""PrioritySort: the queue is ordered by priority, then by time."""

from mooring.framework.contract.points import QueueSortPlugin
from mooring.model.pod import Pod


class PrioritySort(QueueSortPlugin):
    """The only QueueSort plugin of upstream; exactly one is enabled in all profiles."""

    name = "PrioritySort"

    def sort_key(self, pod: Pod, queued_at: float) -> tuple[int, float]:
        """Higher priorities first; among equals the pod that has been queued longer."""
        return -pod.priority, queued_at
