"""A day of a cluster in seconds: pods arrive, wait, run and finish on the virtual clock.

The clock jumps from one event to the next. Of events at the same time, backoffs and waits end first, then pods finish, then
pods arrive, each in the order in which they were planned; then the scheduler attempts pods. An attempt takes one millisecond
of simulated time, and events that become due meanwhile happen before the next attempt.
"""

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.registry import Registry
from mooring.kit.clock import NS_PER_S
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.sim.gauge import Span, UtilisationGauge
from mooring.sim.reading.admission import missing_namespaces
from mooring.sim.reading.arrivals import Arrival
from mooring.sim.results import SimulatedEviction, Story
from mooring.sim.simulated_cluster import SimulatedCluster, count

FINISH, ARRIVE = 0, 1
"""Kinds of planned events; of two at the same time the lower comes first."""

SPANS = 60
"""How many spans of equal length the report of utilisation has."""

PATIENCE_NS = 3600 * NS_PER_S
"""How long pods may be attempted again and again after the last arrival or end of a pod before the day stops."""

ATTEMPTS_A_POD = 1000
"""How many attempts, as a mean over all pods, may follow each other without an arrival or end before the day stops."""

Progress = Callable[[int, int], None]
"""Called with the number of pods that have arrived, and of all planned pods."""


@dataclass(slots=True)
class Waits:
    """How long pods of one priority waited from arrival to binding, in seconds."""

    priority: int
    waited_s: list[float] = field(default_factory=list)
    pending: int = 0
    """How many are still pending in the end."""
    preempted: int = 0

    def quantile_s(self, share: float) -> float | None:
        """The waiting time that this share of the pods did not exceed; None if no pod was bound."""
        return float(np.quantile(self.waited_s, share)) if self.waited_s else None


@dataclass(slots=True)
class DayReport:
    """The results of a day. A public interface: `mooring.simulate` returns it."""

    simulated_s: float
    arrived: int
    planned: int
    """How many pods were planned; more than `arrived` if the day ended earlier."""
    finished: int
    attempts: int
    waits: list[Waits]
    """By priority, the highest first."""
    spans: list[Span]
    mean_used: dict[str, float]
    """Resource -> requested share of the allocatable amount, averaged over time."""
    nodes: list[str]
    placements: dict[str, str]
    """Pod -> the node that it was bound to."""
    preempted: list[SimulatedEviction] = field(default_factory=list)
    rescued: int = 0
    """Pods that were placed only by the flush after five minutes: nothing had moved them before."""
    notes: list[str] = field(default_factory=list)
    story: Story | None = None

    @property
    def pending(self) -> int:
        return sum(waits.pending for waits in self.waits)

    def placed_on(self) -> dict[str, int]:
        """Node -> how many pods were bound to it."""
        counts = Counter(self.placements.values())
        return {name: counts[name] for name in self.nodes}


class Day:
    """Runs arrivals on a cluster. Pods that are pending in the input arrive at the beginning and never finish.

    Raises ConfigError for a configuration that cannot be built, InputError for objects that contradict each other.
    """

    def __init__(
        self,
        objects: Sequence[KubeObject],
        arrivals: Sequence[Arrival],
        config: KubeSchedulerConfiguration,
        registry: Registry | None = None,
        gates: Mapping[str, bool] | None = None,
    ) -> None:
        namespaces = missing_namespaces([*objects, *(arrival.pod for arrival in arrivals)])
        self._simulated = SimulatedCluster([*objects, *namespaces], config, registry, records=False, gates=gates)
        self._driver = self._simulated.driver
        self._begin_ns = self._simulated.clock.now_ns()
        self._arrivals = [*(Arrival(0, pod, None) for pod in self._simulated.pending), *arrivals]
        self._plans: list[tuple[int, int, int, Arrival | str]] = []
        self._sequence = 0
        self._arrived: dict[str, Arrival] = {}
        """By id of the pod."""
        self._waits: dict[int, Waits] = {}
        self._placements: dict[str, str] = {}
        self._finished = 0
        self._moved_ns, self._moved_attempts = self._begin_ns, 0
        """The time of the last arrival or end of a pod, and the number of attempts until then."""
        self._was_stopped = False
        self._gauge = UtilisationGauge(self._driver)
        self._driver.on_bound = self._bound
        for arrival in self._arrivals:
            self._plan(self._begin_ns + arrival.at_ns, ARRIVE, arrival)

    def run(
        self, until_ns: int | None = None, on_progress: Progress | None = None, story: str | None = None
    ) -> DayReport:
        """Run until nothing is left to happen, or until so much time has passed. `story` names a pod; may raise NoSuchPod."""
        told = self._simulated.find(story, [arrival.pod for arrival in self._arrivals]) if story is not None else None
        self._simulated.stories.only = told.key if told is not None else ""
        end_ns = None if until_ns is None else self._begin_ns + until_ns
        while self._step(end_ns):
            if on_progress is not None:
                on_progress(len(self._arrived), len(self._arrivals))
        return self._report(told)

    def _step(self, end_ns: int | None) -> bool:
        """One planned event, one attempt, or a jump to the next event. False at the end of the day."""
        driver, now_ns = self._driver, self._simulated.clock.now_ns()
        if (end_ns is not None and now_ns > end_ns) or self._is_stuck(now_ns):
            return False
        planned_ns = self._planned_ns()
        if planned_ns is not None and planned_ns <= now_ns:
            self._let_happen()
            self._moved_ns, self._moved_attempts = now_ns, self._simulated.scheduler.attempts
            return True
        self._gauge.read()  # before time passes
        if driver.attempt_once() is not None:
            return True
        next_ns = driver.next_ns(planned_ns)
        is_over = next_ns is None or (end_ns is not None and next_ns > end_ns)
        driver.jump((end_ns or now_ns) if is_over or next_ns is None else next_ns)
        return not is_over

    def _is_stuck(self, now_ns: int) -> bool:
        """Whether only attempts without success would follow."""
        attempts = self._simulated.scheduler.attempts - self._moved_attempts
        is_over = not self._plans and now_ns - self._moved_ns > PATIENCE_NS
        self._was_stopped = is_over or attempts > ATTEMPTS_A_POD * len(self._arrivals)
        return self._was_stopped

    def _planned_ns(self) -> int | None:
        """When the next planned event is due. Drops the end of pods that were preempted."""
        plans = self._plans
        while plans and isinstance(what := plans[0][3], str) and ("Pod", what) not in self._driver.objects:
            heapq.heappop(plans)
        return plans[0][0] if plans else None

    def _let_happen(self) -> None:
        """Carry out the first planned event."""
        what = heapq.heappop(self._plans)[3]
        if isinstance(what, Arrival):
            self._arrived[what.pod.id] = what
            self._waits_of(what.pod).pending += 1
            self._driver.create(what.pod)
        else:
            self._finished += 1
            self._driver.delete("Pod", what)

    def _plan(self, when_ns: int, kind: int, what: Arrival | str) -> None:
        self._sequence += 1
        heapq.heappush(self._plans, (when_ns, kind, self._sequence, what))

    def _bound(self, pod: Pod) -> None:
        """Note the waiting time, and plan the end of the pod."""
        arrival = self._arrived[pod.id]
        now_ns = self._simulated.clock.now_ns()
        self._placements[pod.key] = pod.spec.node_name
        waits = self._waits_of(pod)
        waits.pending -= 1
        waits.waited_s.append((now_ns - self._begin_ns - arrival.at_ns) / NS_PER_S)
        if arrival.run_ns is not None:
            self._plan(now_ns + arrival.run_ns, FINISH, pod.key)

    def _waits_of(self, pod: Pod) -> Waits:
        waits = self._waits.get(pod.priority)
        if waits is None:
            waits = self._waits[pod.priority] = Waits(pod.priority)
        return waits

    def _report(self, told: Pod | None) -> DayReport:
        """The results at the end. Preempted pods count for their priority only if they arrived during the day."""
        simulated = self._simulated
        self._gauge.read()
        for eviction in simulated.evictions:
            if eviction.pod.id in self._arrived:
                self._waits_of(eviction.pod).preempted += 1
        return DayReport(
            (simulated.clock.now_ns() - self._begin_ns) / NS_PER_S,
            len(self._arrived),
            len(self._arrivals),
            self._finished,
            simulated.scheduler.attempts,
            [self._waits[priority] for priority in sorted(self._waits, reverse=True)],
            self._gauge.spans(SPANS),
            self._gauge.mean_used(),
            sorted(node.name for node in self._driver.nodes()),
            self._placements,
            simulated.evictions,
            simulated.scheduler.rescued,
            self._notes(),
            simulated.stories.of(told.key) if told is not None else None,
        )

    def _notes(self) -> list[str]:
        """Notes about input and outcome."""
        notes = []
        if self._simulated.finished:
            notes.append(
                f"{count(len(self._simulated.finished), 'finished pod')} left out: finished pods use no resources"
            )
        late = len(self._arrivals) - len(self._arrived)
        if late:
            notes.append(f"{count(late, 'pod')} would have arrived later")
        if self._was_stopped:
            notes.append("stopped: the scheduler attempted the same pods again and again without success")
        return [*notes, *self._simulated.notes()]
