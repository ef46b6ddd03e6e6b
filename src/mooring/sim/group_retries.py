"""When a simulation may end although pods are attempted again: if they are those of groups that do not fit.

Parity: the pods of a group that have room, but wait for others that have none, are rejected by no plugin. So they come back
after their backoff, for ever, and no event is needed.
"""

from mooring.kit.clock import NS_PER_S
from mooring.sim.simulated_cluster import SimulatedCluster


class GroupRetries:
    """Asked each time when time is about to pass."""

    def __init__(self, simulated: SimulatedCluster) -> None:
        self._simulated = simulated
        self._version = -1
        self._since_ns = 0

    def are_in_vain(self) -> bool:
        """Whether only pods of groups are attempted again, and each of them was since anything changed.

        Twice the longest backoff is enough for that. The decisions depend on the objects alone, so all would be the same.
        """
        simulated, now_ns = self._simulated, self._simulated.clock.now_ns()
        if simulated.cluster.groups is None:
            return False
        if simulated.driver.version != self._version:
            self._version, self._since_ns = simulated.driver.version, now_ns
            return False
        if now_ns - self._since_ns < 2 * simulated.longest_backoff_s * NS_PER_S:
            return False
        return self._only_groups()

    def _only_groups(self) -> bool:
        scheduler = self._simulated.scheduler
        if scheduler.next_deadline_ns() is not None:
            return False
        tried = [entry for entry in scheduler.queued_pods() if scheduler.place_in_queue(entry.key) == "backoff"]
        return all(entry.pod.group_key is not None for entry in tried)
