"""Records of a day while it passes: the stay of each pod as a line of a file, how long each part of the work took, and the
utilisation over time, which is the requested share of what is allocatable, and how many pods are pending.

The gauge adds up amount times duration, so averages are exact however long a span is and however rarely it reads.
"""

import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TextIO

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.table import NodeTable
from mooring.drivers.simulated_driver import Driver
from mooring.inputs.arrivals import Arrival
from mooring.kit.clock import NS_PER_S
from mooring.kit.shown_text import csv_line

# ---- stays


@dataclass(slots=True)
class Stay:
    """A pod of the day, from its arrival until it is gone. Times are since the beginning."""

    arrival: Arrival
    bound_ns: int | None = None
    node: str = ""


class StayFile:
    """Writes one line of CSV for each pod when it is gone, and for the others at the end: nothing of it is kept in memory.

    A pod is `finished`, `preempted`, `running` or `pending`; times are in seconds since the beginning, empty if unknown.
    """

    HEAD = "pod,priority,arrived,bound,ended,node,result\n"

    def __init__(self, file: TextIO) -> None:
        self._file = file
        file.write(self.HEAD)

    def write(self, stay: Stay, ended_ns: int | None, result: str) -> None:
        pod, bound, ended = stay.arrival.pod, _seconds(stay.bound_ns), _seconds(ended_ns)
        arrived = _seconds(stay.arrival.at_ns)
        self._file.write(csv_line((pod.key, pod.priority, arrived, bound, ended, stay.node, result)))


def _seconds(time_ns: int | None) -> str:
    return "" if time_ns is None else f"{time_ns / NS_PER_S:.3f}"


# ---- where the time goes


class PartTimes:
    """A stopwatch that gives all time to one of the parts: `lap` names the part that has just ended."""

    def __init__(self, parts: Iterable[str]) -> None:
        self._ns = dict.fromkeys(parts, 0)
        self._since_ns = time.perf_counter_ns()

    def lap(self, part: str) -> None:
        now_ns = time.perf_counter_ns()
        self._ns[part] += now_ns - self._since_ns
        self._since_ns = now_ns

    def skip(self) -> None:
        """The time since the last lap belongs to no part."""
        self._since_ns = time.perf_counter_ns()

    def move(self, whole: str, part: str, part_ns: int) -> None:
        """Show what was measured inside another part on its own."""
        self._ns[whole] -= part_ns
        self._ns[part] += part_ns

    def seconds(self) -> dict[str, float]:
        return {part: ns / NS_PER_S for part, ns in self._ns.items()}


def peak_memory_bytes() -> int | None:
    """The most memory that this process had so far; None where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


# ---- utilisation

SHOWN = 64
"""How many extended resources are shown though no pod requests them."""

POINTS = 100_000
"""How many points of the curve are kept. Beyond that every second one is dropped, which makes the curve coarser and keeps
its sums."""


@dataclass(slots=True)
class Span:
    """A span of simulated time with its averages: the requested share of each resource, and pending pods."""

    from_s: float
    used: dict[str, float]
    pending: float


MAIN = ("cpu", "memory")
"""The resources that each node is followed for: those with the first places in the matrices of amounts."""


@dataclass(slots=True)
class NodeMeans:
    """The requests of the pods of each node for the resources MAIN, averaged over time; columns over the nodes."""

    names: list[str]
    requested: NDArray[np.float64]
    """By resource and node, in units of the node table."""
    allocatable: NDArray[np.float64]


class RequestedSums:
    """The sums that the pods on all nodes request of each resource, kept up to date from the rows that were touched.

    Hot: a sum over the matrix takes 2 ms at 100,000 nodes, and a day of a million pods needs three million of them.
    """

    def __init__(self, nodes: NodeTable) -> None:
        self._nodes = nodes
        self._position = -1
        self._version = -1
        """The version of the places of resources."""
        self._seen = nodes.amounts.requested.copy()
        self._sums: list[int] = []
        self._moments: dict[int, list[int]] = {}
        """Row -> for each resource of MAIN, the sum of all changes, each times when it was seen."""

    def refresh(self, at_ns: int = 0) -> list[int]:
        """The sums by place of the resource, as they are now. The caller must not change the list. `at_ns` is the time since
        the beginning; without it, there are no means."""
        nodes, amounts = self._nodes, self._nodes.amounts
        touches = nodes.touches
        if touches.end == self._position and amounts.resources_version == self._version:
            return self._sums
        rows = touches.since(self._position) if self._position >= 0 else None
        is_known = amounts.resources_version == self._version and amounts.requested.shape == self._seen.shape
        if rows is None or not is_known:
            self._note_all(at_ns)
            self._seen = amounts.requested.copy()
            self._sums = [sum(amounts.tolist()) for amounts in self._seen]
        else:
            for row in rows:
                self._add(row, at_ns)
        self._position, self._version = touches.end, amounts.resources_version
        return self._sums

    def means(self, passed_ns: int) -> NodeMeans:
        """The means of all nodes that are there over the time since the beginning, which must not be 0.

        What a row has now, it has had since its last change; so what it had over time is what it has now, times all the time,
        less each change times when it came.
        """
        nodes, amounts = self._nodes, self._nodes.amounts
        self.refresh(passed_ns)
        moments = np.zeros((len(MAIN), nodes.height))
        for row, sums in self._moments.items():
            moments[:, row] = sums
        rows = np.flatnonzero(nodes.alive[: nodes.height])
        requested = amounts.requested[: len(MAIN), rows] - moments[:, rows] / passed_ns
        names = [nodes.names[row] for row in rows.tolist()]
        return NodeMeans(names, requested, amounts.allocatable[: len(MAIN), rows].astype(np.float64))

    def _add(self, row: int, at_ns: int) -> None:
        """Add the difference that a touched row makes."""
        now = self._nodes.amounts.requested[:, row]
        changes = (now - self._seen[:, row]).tolist()
        for place, change in enumerate(changes):
            if change:
                self._sums[place] += change
        self._note(row, changes[: len(MAIN)], at_ns)
        self._seen[:, row] = now

    def _note(self, row: int, changes: list[int], at_ns: int) -> None:
        """Add changes to the moments."""
        sums = self._moments.get(row)
        if sums is None:
            sums = self._moments[row] = [0] * len(MAIN)
        for place, change in enumerate(changes):
            sums[place] += change * at_ns

    def _note_all(self, at_ns: int) -> None:
        """Add the changes of all rows that differ from what was seen."""
        now = self._nodes.amounts.requested[: len(MAIN)]
        before = np.zeros_like(now)
        width = min(self._seen.shape[1], now.shape[1])
        before[:, :width] = self._seen[: len(MAIN), :width]
        changes = now - before
        for row in np.flatnonzero(changes.any(0)).tolist():
            self._note(row, changes[:, row].tolist(), at_ns)


class UtilisationGauge:
    """Adds up amount times duration.

    A reading holds until the next one, so `read` must be called each time before the clock moves.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._nodes = driver.scheduler.cluster.nodes
        self._begin_ns = self._now_ns = driver.clock.now_ns()
        self._requested = RequestedSums(self._nodes)
        self._used: dict[str, int] = {}
        self._pending = 0
        self._used_sums: dict[str, int] = {}
        self._pending_sum = 0
        self._points: list[tuple[int, dict[str, int], int]] = [(self._begin_ns, {}, 0)]
        """(time, sums by resource, sum of pending pods). Sums are in units of the node table times nanoseconds."""
        self._every = 1
        self._readings = 0

    def read(self) -> None:
        """Add what was read last for the time that has passed, then read again."""
        now_ns = self._driver.clock.now_ns()
        passed_ns = now_ns - self._now_ns
        if passed_ns:
            sums = self._used_sums
            for name, amount in self._used.items():
                sums[name] = sums.get(name, 0) + amount * passed_ns
            self._pending_sum += self._pending * passed_ns
            self._now_ns = now_ns
            self._keep_point()
        requested = self._requested.refresh(now_ns - self._begin_ns)
        self._used = {name: requested[place] for name, place in self._nodes.amounts.resource_book.items()}
        self._pending = sum(self._driver.scheduler.pending_counts().values())

    def mean_used(self) -> dict[str, float]:
        return self.spans(1)[0].used if self._now_ns > self._begin_ns else {}

    def node_means(self) -> NodeMeans | None:
        """The means of each node; None if no time has passed."""
        passed_ns = self._now_ns - self._begin_ns
        return self._requested.means(passed_ns) if passed_ns else None

    def spans(self, count: int) -> list[Span]:
        """The time since the beginning in `count` equal spans."""
        if self._now_ns == self._begin_ns:
            return []
        self._points.append((self._now_ns, self._used_sums, self._pending_sum))
        times = np.array([point[0] - self._begin_ns for point in self._points], np.float64)
        edges = np.linspace(0, self._now_ns - self._begin_ns, count + 1)
        length_ns = edges[1]
        means = {
            name: np.diff(np.interp(edges, times, self._curve(name))) / length_ns / room
            for name, room in self._resources()
        }
        pending = np.interp(edges, times, np.array([point[2] for point in self._points], np.float64))
        waited = np.diff(pending) / length_ns
        self._points.pop()
        return [
            Span(float(edges[i]) / NS_PER_S, {name: float(mean[i]) for name, mean in means.items()}, float(waited[i]))
            for i in range(count)
        ]

    def _resources(self) -> list[tuple[str, int]]:
        """The resources of the nodes, and the allocatable amount of each on all nodes."""
        nodes = self._nodes
        nodes.amounts.places(nodes.amounts.supplied()[:SHOWN])  # from now on the table counts them
        rooms = nodes.amounts.allocatable[:, nodes.alive].sum(1, dtype=np.float64)
        return [(name, int(rooms[index])) for name, index in nodes.amounts.resource_book.items() if rooms[index]]

    def _curve(self, name: str) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
        """The sum of a resource at each point; 0 at points before the first pod that requested it."""
        return np.array([sums.get(name, 0) for _, sums, _ in self._points], np.float64)

    def _keep_point(self) -> None:
        """Keep every n-th point; n doubles when there are too many."""
        self._readings += 1
        if self._readings % self._every:
            return
        self._points.append((self._now_ns, self._used_sums.copy(), self._pending_sum))
        if len(self._points) > POINTS:
            self._points = self._points[::2]
            self._every *= 2
