"""The pods of each node in the order of their importance, as columns: preemption goes through them.

Slot 0 of a row is its most important pod: highest priority, then longest running. Columns are brought up to date when
they are read, and on touched rows only: most clusters preempt rarely.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.change_log import Follower
from mooring.cluster.nodes.table import NodeTable
from mooring.kit.clock import moment_ns
from mooring.model.pod import Pod

NOT_STARTED_NS = (1 << 63) - 1
"""The start time of a pod that has none: later than any."""

NO_POD = (1 << 31) - 1
"""The priority of an empty slot: higher than any preemptor's, so it is never a victim."""


class PodRanks:
    """By slot and row: priority, start time and requests of the pods on nodes."""

    def __init__(self, nodes: NodeTable) -> None:
        self.nodes = nodes
        self._news = Follower(nodes.touches, nodes.pod_touches)
        self._is_first = True
        """Whether all rows have to be ranked: at the beginning, and when resources got other places."""
        self._resources_version = nodes.amounts.resources_version
        self._ranked: dict[int, list[Pod]] = {}
        """By row: the pods in the order of their slots."""
        self.priority: NDArray[np.int64] = np.full((1, nodes.capacity), NO_POD, np.int64)
        self.start_ns: NDArray[np.int64] = np.zeros((1, nodes.capacity), np.int64)
        self.request: NDArray[np.int64] = np.zeros((len(nodes.amounts.requested), 1, nodes.capacity), np.int64)

    def refresh(self) -> None:
        """Bring the columns up to date with the table."""
        nodes = self.nodes
        touched = self._news.news()
        if self._resources_version != nodes.amounts.resources_version:
            self._resources_version = nodes.amounts.resources_version
            self._is_first = True
        rows = range(nodes.height) if touched is None or self._is_first else touched
        self._is_first = False
        for row in rows:
            self._ranked[row] = by_importance(nodes.pods_on[row])
        self._fit(max((len(self._ranked[row]) for row in rows), default=0))
        for row in rows:
            self._put(row, self._ranked[row])

    def pods(self, row: int) -> list[Pod]:
        """The pods of a row, most important first, each as it is now."""
        present = {pod.id: pod for pod in self.nodes.pods_on[row]}
        return [present.get(pod.id, pod) for pod in self._ranked.get(row, [])]

    def _fit(self, slots: int) -> None:
        """Make the columns large enough for the table and for so many pods on a node."""
        have, capacity = self.priority.shape
        resources = len(self.nodes.amounts.requested)
        if slots > have or self.nodes.capacity > capacity or resources > len(self.request):
            # Half as much again, so that a node which fills up pod by pod causes few copies.
            slots = max(have, slots + slots // 2)
            shape = (slots, self.nodes.capacity)
            priority = np.full(shape, NO_POD, np.int64)
            priority[:have, :capacity] = self.priority
            self.priority = priority
            self.start_ns = _padded(self.start_ns, shape)
            self.request = _padded(self.request, (resources, *shape))

    def _put(self, row: int, pods: list[Pod]) -> None:
        """Write the pods of a row into its slots; the slots behind them hold NO_POD."""
        self.priority[:, row] = NO_POD
        self.start_ns[:, row] = 0
        self.request[:, :, row] = 0
        book = self.nodes.amounts.resource_book
        for slot, pod in enumerate(pods):
            self.priority[slot, row] = pod.priority
            self.start_ns[slot, row] = start_ns(pod)
            for name, (amount, _) in pod.shape.held.items():
                if name in book:
                    self.request[book[name], slot, row] = amount


def by_importance(pods: Sequence[Pod]) -> list[Pod]:
    """The pods, the more important first.

    Parity: a pod that has not started counts as started at the moment of the comparison. Moments pass, so among such
    pods upstream's sort turns the order around: the one that came last is the most important.
    """

    def key(place: int) -> tuple[int, int, int]:
        started = start_ns(pods[place])
        return -pods[place].priority, started, -place if started == NOT_STARTED_NS else place

    return [pods[place] for place in sorted(range(len(pods)), key=key)]


def start_ns(pod: Pod) -> int:
    """When the pod started, or NOT_STARTED_NS."""
    return NOT_STARTED_NS if pod.status.start_time is None else parse_time_ns(pod.status.start_time)


def parse_time_ns(text: str) -> int:
    """An RFC 3339 time in nanoseconds since 1970; 0 for one that cannot be read."""
    try:
        return moment_ns(text)
    except ValueError:
        return 0


def _padded(column: NDArray[np.int64], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """A copy in a larger shape; what is new is zero."""
    larger = np.zeros(shape, np.int64)
    larger[tuple(slice(0, size) for size in column.shape)] = column
    return larger
