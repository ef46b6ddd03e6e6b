"""PrioritySort: the queue is ordered by priority, then by time."""

from mooring.framework.points import QueueSortPlugin
from mooring.model.pod import Pod


class PrioritySort(QueueSortPlugin):
    name = "PrioritySort"

    def sort_key(self, pod: Pod, queued_at: float) -> tuple[int, float]:
        return -pod.priority, queued_at
