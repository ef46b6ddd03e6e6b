"""The pods of each node in the order of their importance, as columns: preemption goes through them.

Slot 0 of a row is its most important pod: highest priority, then longest running. Columns are brought up to date when
they are read, and on touched rows only: most clusters preempt rarely.
"""

from collections.abc import Callable, Hashable, Sequence
from itertools import accumulate, chain
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.change_log import Follower
from mooring.cluster.columns.resource_amounts import MAX_SUM
from mooring.cluster.nodes.table import NodeTable
from mooring.kit.clock import moment_ns
from mooring.model.pod import Pod

NOT_STARTED_NS = (1 << 63) - 1
"""The start time of a pod that has none: later than any."""

NO_POD = (1 << 31) - 1
"""The priority of an empty position: higher than any preemptor's, so it is never a victim."""


_HALF = 1 << 63


MANY_ROWS = 12
"""From so many rows on it is quicker to rank them together: a row alone takes some 20 µs, all together begin with 150."""


class PodRanks:
    """By position and row: priority, start time and requests of the pods on nodes."""

    def __init__(self, nodes: NodeTable) -> None:
        self.nodes = nodes
        self._news = Follower(nodes.touches, nodes.pod_touches)
        self._is_first = True
        """Whether all rows have to be ranked: at the beginning, and when resources got other places."""
        self._resources_version = nodes.amounts.resources_version
        self._ranked: dict[int, list[Pod]] = {}
        """By row: the pods in the order of their positions. What was found is also read after victims have left."""
        self.count: NDArray[np.int64] = np.zeros(nodes.capacity, np.int64)
        """How many pods a row has: the positions behind them are empty."""
        self.priority: NDArray[np.int64] = np.full((1, nodes.capacity), NO_POD, np.int64)
        self.lowest: NDArray[np.int64] = np.full(nodes.capacity, NO_POD, np.int64)
        """By row: the priority of its least important pod, NO_POD without pods."""
        self.start_ns: NDArray[np.int64] = np.zeros((1, nodes.capacity), np.int64)
        self.held: NDArray[np.int64] = np.zeros((len(nodes.amounts.requested), 1, nodes.capacity), np.int64)
        """By resource: what the pods of a row request up to and with the one in the position. With thousands of pods that
        request as much as there can be, it wraps around."""

    @property
    def request(self) -> NDArray[np.int64]:
        """By resource: what the pod in each position requests."""
        return np.diff(self.held, axis=1, prepend=0)

    def request_in(self, positions: NDArray[np.intp], rows: NDArray[np.intp]) -> NDArray[np.int64]:
        """Requests of the pods in these positions of these rows: resources x rows."""
        before = self.held[:, np.maximum(positions - 1, 0), rows] * (positions > 0)
        found: NDArray[np.int64] = self.held[:, positions, rows] - before
        return found

    def refresh(self) -> None:
        """Bring the columns up to date with the table."""
        nodes = self.nodes
        touched = self._news.news()
        if self._resources_version != nodes.amounts.resources_version:
            self._resources_version = nodes.amounts.resources_version
            self._is_first = True
        if touched is None or self._is_first:
            self._is_first = False
            self._rank_together(np.arange(nodes.height))
        elif len(touched) >= MANY_ROWS:
            self._rank_together(np.unique(touched))
        else:
            self._rank_each(touched)

    def _rank_each(self, rows: list[int]) -> None:
        """Rank the pods of a few rows."""
        for row in rows:
            self._ranked[row] = by_importance(self.nodes.pods_on[row])
        if rows:
            self._fit(max(len(self._ranked[row]) for row in rows))
        for row in rows:
            self._put(row, self._ranked[row])

    def _rank_together(self, rows: NDArray[np.intp]) -> None:
        """Rank the pods of these rows, in ascending order, at once. Hot: a third of the time that it takes row by row."""
        here = list(map(self.nodes.pods_on.__getitem__, rows.tolist()))
        counts = np.array(list(map(len, here)), np.int64)
        self._fit(int(counts.max(initial=0)))
        pods = list(chain.from_iterable(here))
        row = np.repeat(rows, counts)
        position = np.arange(len(pods)) - np.repeat(counts.cumsum() - counts, counts)
        priority = _of_distinct(list(map(attrgetter("spec.priority"), pods)), pods, attrgetter("priority"))
        started = _of_distinct(list(map(attrgetter("status.start_time"), pods)), pods, start_ns)
        order = np.lexsort((started, -priority, row))  # a stable sort: the position decides last
        ranked = list(map(pods.__getitem__, order.tolist()))
        ends = counts.cumsum().tolist()
        for its_row, first, end in zip(rows.tolist(), [0, *ends], ends, strict=False):
            self._ranked[its_row] = ranked[first:end]
        self.priority[:, rows], self.start_ns[:, rows], self.held[:, :, rows] = NO_POD, 0, 0
        self.count[rows] = counts
        # `row` and `position` are sorted by row, and within a row the places are 0, 1, 2, ... for its pods by importance.
        self.priority[position, row], self.start_ns[position, row] = priority[order], started[order]
        self.lowest[rows] = np.where(counts > 0, self.priority[counts - 1, rows], NO_POD)
        for index, amounts in self._requests_of(pods).items():
            self.held[index][position, row] = amounts[order]
            self.held[index][:, rows] = self.held[index][:, rows].cumsum(axis=0)

    def _requests_of(self, pods: list[Pod]) -> dict[int, NDArray[np.int64]]:
        """By resource that pods request: what each requests. Pods of one shape request the same."""
        shape_of = list(map(attrgetter("shape"), pods))
        ids = list(map(id, shape_of))
        shapes = list(dict(zip(ids, shape_of, strict=True)).values())
        place_of = {id(shape): place for place, shape in enumerate(shapes)}
        places = np.array(list(map(place_of.__getitem__, ids)), np.intp)
        found: dict[int, NDArray[np.int64]] = {}
        for name in dict.fromkeys(name for shape in shapes for name in shape.held):
            index = self.nodes.amounts.resource_book.get(name)
            if index is not None:
                amounts = [shape.held[name][0] if name in shape.held else 0 for shape in shapes]
                found[index] = np.array(amounts, np.int64)[places]
        return found

    def pods(self, row: int) -> list[Pod]:
        """The pods of a row, most important first, each as it is now."""
        present = {pod.id: pod for pod in self.nodes.pods_on[row]}
        return [present.get(pod.id, pod) for pod in self._ranked.get(row, [])]

    def _fit(self, positions: int) -> None:
        """Make the columns large enough for the table and for so many pods on a node."""
        have, capacity = self.priority.shape
        resources = len(self.nodes.amounts.requested)
        if positions > have or self.nodes.capacity > capacity or resources > len(self.held):
            # Half as much again, so that a node which fills up pod by pod causes few copies.
            positions = max(have, positions + positions // 2)
            shape = (positions, self.nodes.capacity)
            priority = np.full(shape, NO_POD, np.int64)
            priority[:have, :capacity] = self.priority
            self.priority = priority
            self.count = _padded(self.count, shape[1:])
            lowest = np.full(shape[1:], NO_POD, np.int64)
            lowest[:capacity] = self.lowest
            self.lowest = lowest
            self.start_ns = _padded(self.start_ns, shape)
            held = _padded(self.held, (resources, *shape))
            held[:, have:] = held[:, have - 1 : have]  # empty positions request nothing
            self.held = held

    def _put(self, row: int, pods: list[Pod]) -> None:
        """Write the pods of a row into its positions; the positions behind them hold NO_POD.

        Hot: with preemption each attempt touches one row; lists are written at once, column by column.
        """
        positions, book = len(self.priority), self.nodes.amounts.resource_book
        empty = positions - len(pods)
        self.count[row] = len(pods)
        self.lowest[row] = pods[-1].priority if pods else NO_POD
        self.priority[:, row] = [pod.priority for pod in pods] + [NO_POD] * empty
        self.start_ns[:, row] = [start_ns(pod) for pod in pods] + [0] * empty
        requested = [pod.shape.held for pod in pods]
        self.held[:, :, row] = 0
        for name in dict.fromkeys(name for held in requested for name in held):
            index = book.get(name)
            if index is not None:
                sums = list(accumulate(held[name][0] if name in held else 0 for held in requested))
                if sums[-1] > MAX_SUM:  # beyond an int64 it wraps around: the differences are right all the same
                    sums = [(each + _HALF) % (2 * _HALF) - _HALF for each in sums]
                self.held[index, :, row] = sums + sums[-1:] * empty


def by_importance(pods: Sequence[Pod]) -> list[Pod]:
    """The pods, the more important first.

    Parity: a pod that has not started counts as started when the list of victims is made, pod by pod. So such pods are less
    important than others, and among them the one that came first is the most important.
    """
    keys = [(-pod.priority, start_ns(pod), place) for place, pod in enumerate(pods)]
    return [pods[place] for _, _, place in sorted(keys)]


def start_ns(pod: Pod) -> int:
    """When the pod started, or NOT_STARTED_NS."""
    return NOT_STARTED_NS if pod.status.start_time is None else parse_time_ns(pod.status.start_time)


def parse_time_ns(text: str) -> int:
    """An RFC 3339 time in nanoseconds since 1970; 0 for one that cannot be read."""
    try:
        return moment_ns(text)
    except ValueError:
        return 0


def _of_distinct(written: Sequence[Hashable], pods: Sequence[Pod], find: Callable[[Pod], int]) -> NDArray[np.int64]:
    """Apply `find` to pods, once for each distinct value in `written`. The result for a pod must depend only on its value
    there.

    Hot: 20,000 pods have few priorities and start times; to ask for each took 6 ms longer.
    """
    found = {value: find(pod) for value, pod in dict(zip(written, pods, strict=True)).items()}
    if len(found) == 1:
        return np.full(len(pods), next(iter(found.values())), np.int64)
    return np.array(list(map(found.__getitem__, written)), np.int64)


def _padded(column: NDArray[np.int64], shape: tuple[int, ...]) -> NDArray[np.int64]:
    """A copy in a larger shape; what is new is zero."""
    larger = np.zeros(shape, np.int64)
    larger[tuple(slice(0, size) for size in column.shape)] = column
    return larger
