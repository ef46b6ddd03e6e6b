"""A day of a cluster in seconds: pods arrive, wait, run and finish on the virtual clock.

The clock jumps from one thing that happens to the next: an arrival, the end of a run, the end of a backoff or a wait,
and every half minute the safety net of the queue. What happens at the same time happens in this order.
"""

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from mooring.kit.clock import NS_PER_S
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.sim.arrivals import Arrival
from mooring.sim.driver import PARKED_FLUSH_S, Driver

FINISH, ARRIVE, TICK, FLUSH = 0, 1, 2, 3
"""What can happen; of things at the same time the lower comes first."""

SAMPLES = 60
"""Into how many spans the simulated time is cut for the picture of utilisation."""

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class Waits:
    """How long pods of one priority waited from arrival to binding, in seconds."""

    priority: int
    waited_s: list[float] = field(default_factory=list)
    pending: int = 0
    preempted: int = 0

    def quantile_s(self, share: float) -> float:
        return float(np.quantile(self.waited_s, share)) if self.waited_s else 0.0


@dataclass(slots=True)
class Span:
    """A stretch of simulated time: how much of each resource was requested on average, and how many pods waited."""

    from_s: float
    used: dict[str, float]
    pending: float


@dataclass(slots=True)
class DayReport:
    """What came of a day."""

    simulated_s: float
    arrived: int
    finished: int
    attempts: int
    waits: list[Waits]
    spans: list[Span]
    mean_used: dict[str, float]
    """Resource -> share of what is allocatable that was requested, averaged over time."""
    nodes: int
    placements: dict[str, str]
    """Pod -> the node it was last bound to."""


class Day:
    """Runs arrivals on a driver."""

    def __init__(self, driver: Driver, objects: Sequence[KubeObject], arrivals: Sequence[Arrival]) -> None:
        self._driver = driver
        self._begin_ns = driver.clock.now_ns()
        self._happenings: list[tuple[int, int, int, Arrival | str | None]] = []
        self._sequence = 0
        self._arrival_of: dict[str, tuple[int, Arrival]] = {}
        self._waits: dict[int, Waits] = {}
        self._placements: dict[str, str] = {}
        self._finished = 0
        self._attempts = 0
        self._gauge = _Gauge(driver)
        driver.on_bound = self._bound
        driver.on_evicted = self._evicted
        for item in objects:
            driver.create(item)
        for arrival in arrivals:
            self._plan(self._begin_ns + arrival.at_ns, ARRIVE, arrival)
        self._planned = len(arrivals)

    def run(self, until_ns: int | None = None, on_progress: Progress | None = None) -> DayReport:
        """Until nothing is left to happen, or this much time has passed."""
        end_ns = None if until_ns is None else self._begin_ns + until_ns
        self._settle()
        self._plan(self._begin_ns + PARKED_FLUSH_S * NS_PER_S, FLUSH, None)
        arrived = 0
        while (next_ns := self._next_ns()) is not None and (end_ns is None or next_ns <= end_ns):
            self._gauge.pass_until(max(next_ns, self._driver.clock.now_ns()))
            self._driver.advance_to(next_ns)
            arrived += self._let_happen(next_ns)
            self._settle()
            if on_progress is not None:
                on_progress(arrived, self._planned)
        self._gauge.pass_until(end_ns or self._driver.clock.now_ns())
        return self._report(arrived)

    def _next_ns(self) -> int | None:
        """When the next thing happens; None when nothing but the safety net is left and it has nobody to catch."""
        queue, waiting = self._driver.scheduler.core.queue, self._driver.scheduler.core.desk.waiting
        times = [when for when in (queue.next_release_ns(), waiting.next_deadline_ns()) if when is not None]
        if self._happenings and (self._happenings[0][1] != FLUSH or len(self._happenings) > 1 or times):
            times.append(self._happenings[0][0])
        return max(min(times), self._driver.clock.now_ns()) if times else None

    def _let_happen(self, now_ns: int) -> int:
        """All that is due. Returns how many pods arrived."""
        arrived = 0
        self._driver.tick()
        while self._happenings and self._happenings[0][0] <= now_ns:
            _, what, _, which = heapq.heappop(self._happenings)
            if isinstance(which, Arrival):
                arrived += 1
                self._arrive(which)
            elif what == FINISH and isinstance(which, str):
                self._finish(which)
            else:
                self._driver.scheduler.flush_parked()
                self._plan(now_ns + PARKED_FLUSH_S * NS_PER_S, FLUSH, None)
        return arrived

    def _settle(self) -> None:
        self._attempts += len(self._driver.settle())

    def _plan(self, when_ns: int, what: int, which: Arrival | str | None) -> None:
        self._sequence += 1
        heapq.heappush(self._happenings, (when_ns, what, self._sequence, which))

    def _arrive(self, arrival: Arrival) -> None:
        pod = arrival.pod
        self._arrival_of[pod.id] = (self._driver.clock.now_ns(), arrival)
        self._of(pod).pending += 1
        self._driver.create(pod)

    def _bound(self, pod: Pod) -> None:
        self._placements[pod.key] = pod.spec.node_name
        known = self._arrival_of.get(pod.id)
        if known is None:
            return
        arrived_ns, arrival = known
        now_ns = self._driver.clock.now_ns()
        self._of(pod).pending -= 1
        self._of(pod).waited_s.append((now_ns - arrived_ns) / NS_PER_S)
        if arrival.run_ns is not None:
            self._plan(now_ns + arrival.run_ns, FINISH, pod.key)

    def _evicted(self, pod: Pod) -> None:
        if pod.id in self._arrival_of:
            self._of(pod).preempted += 1

    def _finish(self, key: str) -> None:
        pod = self._driver.objects.get(("Pod", key))
        if isinstance(pod, Pod):  # it may have been preempted meanwhile
            self._finished += 1
            self._driver.delete("Pod", key)

    def _of(self, pod: Pod) -> Waits:
        return self._waits.setdefault(pod.priority, Waits(pod.priority))

    def _report(self, arrived: int) -> DayReport:
        simulated_s = (self._driver.clock.now_ns() - self._begin_ns) / NS_PER_S
        return DayReport(
            simulated_s,
            arrived,
            self._finished,
            self._attempts,
            [self._waits[priority] for priority in sorted(self._waits, reverse=True)],
            self._gauge.spans(SAMPLES),
            self._gauge.mean_used(),
            len(self._driver.nodes()),
            self._placements,
        )


class _Gauge:
    """Follows over time what is requested, as a share of what is allocatable, and how many pods wait."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._begin_ns = self._now_ns = driver.clock.now_ns()
        self._ends: list[int] = []
        self._values: list[dict[str, float]] = []
        self._pending: list[int] = []

    def pass_until(self, now_ns: int) -> None:
        """Until then everything stays as it is."""
        if now_ns > self._now_ns:
            self._ends.append(now_ns)
            self._values.append(self._shares())
            self._pending.append(sum(self._driver.scheduler.core.queue.pending_counts().values()))
            self._now_ns = now_ns

    def mean_used(self) -> dict[str, float]:
        return self._means(np.array([self._begin_ns, self._now_ns]))[0].used if self._ends else {}

    def spans(self, count: int) -> list[Span]:
        if not self._ends:
            return []
        return self._means(np.linspace(self._begin_ns, self._now_ns, count + 1).astype(np.int64))

    def _means(self, edges: NDArray[np.int64]) -> list[Span]:
        """Averages over the spans between the edges."""
        ends = np.array(self._ends)
        starts = np.concatenate(([self._begin_ns], ends[:-1]))
        names = sorted({name for shares in self._values for name in shares})
        columns = {name: np.array([shares.get(name, 0.0) for shares in self._values]) for name in names}
        pending = np.array(self._pending)
        spans = []
        for begin, end in pairwise(edges.tolist()):
            lengths = np.clip(np.minimum(ends, end) - np.maximum(starts, begin), 0, None)
            total = max(int(lengths.sum()), 1)
            used = {name: float((column * lengths).sum()) / total for name, column in columns.items()}
            spans.append(Span((begin - self._begin_ns) / NS_PER_S, used, float((pending * lengths).sum()) / total))
        return spans

    def _shares(self) -> dict[str, float]:
        nodes = self._driver.scheduler.core.cluster.nodes
        room, used = nodes.allocatable.sum(1), nodes.requested.sum(1)
        return {name: int(used[i]) / int(room[i]) for name, i in nodes.resource_book.items() if room[i]}
