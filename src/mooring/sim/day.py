"""A day of a cluster in seconds: pods arrive, wait, run and finish on the virtual clock.

The clock jumps from one event to the next. Of events at the same time, backoffs and waits end first, then pods finish, then
others change the cluster, then pods arrive, each in the order in which they were planned; then the scheduler attempts pods.
An attempt takes one millisecond of simulated time, and events that become due meanwhile happen before the next attempt.
"""

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from mooring.drivers.simulated_driver import ATTEMPT_NS, START_NS
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.profile.registry import Registry
from mooring.inputs.admission import missing_namespaces
from mooring.inputs.arrivals import Arrival, ArrivalStream, ListedArrivals, PlannedChange
from mooring.kit.callbacks import Progress
from mooring.kit.clock import NS_PER_S
from mooring.kit.words import count
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.scheduler.ties import TieRule
from mooring.sim.controllers import PreemptedPods
from mooring.sim.gauge import NodeMeans, PartTimes, Span, Stay, StayFile, UtilisationGauge, peak_memory_bytes
from mooring.sim.results import FailureReason, GroupWait, GroupWaits, PodCounts, SimulatedEviction, Story
from mooring.sim.simulated_cluster import RecordTo, SimulatedCluster

SPANS = 60
"""How many spans of equal length the report of utilisation has."""

PATIENCE_NS = 3600 * NS_PER_S
"""How long pods may be attempted again and again after the last arrival or end of a pod before the day stops."""

ATTEMPTS_A_POD = 1000
"""How many attempts, as a mean over all pods, may follow each other without an arrival or end before the day stops."""

_PARTS = (
    "set-up",
    "generating",
    "arrivals",
    "decisions",
    "queue and binding",
    "ends",
    "backoffs",
    "utilisation",
    "report",
)
"""The parts of a day whose times are reported, in the order of the report."""


@dataclass(slots=True)
class Waits:
    """How long pods of one priority waited from arrival to binding, in seconds."""

    priority: int
    waited_s: list[float] = field(default_factory=list)
    pending: int = 0
    """How many are still pending in the end."""
    preempted: int = 0

    @property
    def placed(self) -> int:
        """How many were bound and not preempted later."""
        return len(self.waited_s) - self.preempted

    def quantile_s(self, share: float) -> float | None:
        """The waiting time that this share of the pods did not exceed; None if no pod was bound."""
        return float(np.quantile(self.waited_s, share)) if self.waited_s else None


@dataclass(slots=True)
class DayReport:
    """The results of a day. A public interface: `mooring.simulate` returns it."""

    simulated_s: float
    arrived: int
    """Pods that ran before, were preempted and came back are among them."""
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
    placed: int = 0
    """How many pods were bound and not preempted later. `placements` has all that were bound, unless the arrivals were
    generated."""
    placed_by_node: Mapping[str, int] = field(default_factory=dict)
    """Node -> how many pods were bound to it."""
    failed_attempts: int = 0
    """Attempts that found no node."""
    limits: list[FailureReason] = field(default_factory=list)
    """Why nodes rejected pods in those attempts; the most frequent reason first."""
    node_means: NodeMeans | None = field(default=None, compare=False, repr=False)
    """How full each node was on average; None if no time passed."""
    groups: list[GroupWait] = field(default_factory=list)
    """The pod groups by key, if the scheduler heeds groups."""
    parts_s: dict[str, float] = field(default_factory=dict, compare=False)
    """How long each part of the simulation took, in seconds of the machine's clock."""
    peak_bytes: int | None = field(default=None, compare=False)
    """The most memory that the process had; None where the system does not say."""

    @property
    def pending(self) -> int:
        return sum(waits.pending for waits in self.waits)

    @property
    def counts(self) -> PodCounts:
        return PodCounts(self.arrived, self.placed, self.pending, len(self.preempted))

    def placed_on(self) -> dict[str, int]:
        """Node -> how many pods were bound to it."""
        return {name: self.placed_by_node.get(name, 0) for name in self.nodes}


class Day:
    """Runs arrivals on a cluster. Pods that are pending in the input arrive at the beginning and never finish.

    What is kept for a pod goes when the pod is gone, so a day of a million pods needs memory only for those that are there
    at the same time. `names_placements` is False for a day so large that not even the names of all pods are to be kept.
    Raises ConfigError for a configuration that cannot be built, InputError for objects that contradict each other.
    """

    def __init__(
        self,
        objects: Sequence[KubeObject],
        arrivals: Sequence[Arrival] | ArrivalStream,
        config: KubeSchedulerConfiguration,
        registry: Registry | None = None,
        gates: Mapping[str, bool] | None = None,
        *,
        names_placements: bool = True,
        ties: TieRule = None,
        record_to: RecordTo | None = None,
    ) -> None:
        """`record_to` makes a recorder of the scheduler's steps."""
        self._parts = PartTimes(_PARTS)
        self._stream = ListedArrivals(arrivals) if isinstance(arrivals, Sequence) else arrivals
        namespaces = missing_namespaces([*objects, *self._stream.pods()])
        self._simulated = SimulatedCluster(
            [*objects, *namespaces], config, registry, records=False, gates=gates, ties=ties, record_to=record_to
        )
        self._driver = self._simulated.driver
        self._planned = len(self._simulated.pending) + len(self._stream)
        self._coming = itertools.chain((Arrival(0, pod, None) for pod in self._simulated.pending), self._stream)
        self._next = next(self._coming, None)
        self._ends: list[tuple[int, int, str, str]] = []
        """When pods finish, as a heap: time, a number in the order of planning, key and id of the pod."""
        self._changes = deque(self._stream.changes)
        self._numbers = itertools.count()
        self._arrived = 0
        self._stays: dict[str, Stay] = {}
        """The pods that are there, by id."""
        self._waits: dict[int, Waits] = {}
        self._group_waits = GroupWaits(self._simulated.cluster)
        self._placements: dict[str, str] | None = {} if names_placements else None
        self._placed_by_node: Counter[str] = Counter()
        self._finished = 0
        self._moved_ns, self._moved_attempts = START_NS, 0
        """The time of the last arrival or end of a pod, and the number of attempts until then."""
        self._was_stopped = False
        self._file: StayFile | None = None
        self.on_reading: Callable[[int], None] | None = None
        """Called each time before the clock moves, and at the end, with the time that the clock moves to: what it finds holds
        until then."""
        self._gauge, self._is_gauged = UtilisationGauge(self._driver), True
        self._driver.on_bound = self._bound
        self._simulated.on_evicted = self._evicted
        self._preempted = PreemptedPods(self._driver, gates)
        self._run_again_ns: dict[str, int | None] = {}
        """How long preempted pods of the day run when they come back, by id."""
        self._parts.lap("set-up")

    @property
    def simulated(self) -> SimulatedCluster:
        return self._simulated

    def run(
        self,
        until_ns: int | None = None,
        on_progress: Progress | None = None,
        story: str | None = None,
        file: StayFile | None = None,
    ) -> DayReport:
        """Run until nothing is left to happen, or until so much time has passed. `story` names a pod; may raise NoSuchPod.
        `file` gets a line for each pod."""
        told = self._find(story) if story is not None else None
        self._simulated.stories.only = told.key if told is not None else ""
        self._file = file
        end_ns = None if until_ns is None else START_NS + until_ns
        self._parts.skip()
        while self._step(end_ns):
            if on_progress is not None:
                on_progress(self._arrived, self._planned)
        return self._report(told)

    def until_attempt(self, until_ns: int | None = None) -> bool:
        """Let everything happen that comes before the next attempt, which `attempt` makes. False at the end of the day, or
        when so much time has passed. For callers that decide between attempts: such a day does not follow utilisation."""
        self._is_gauged = False
        end_ns = None if until_ns is None else START_NS + until_ns
        while True:
            now_ns = self._simulated.clock.now_ns()
            if (end_ns is not None and now_ns > end_ns) or self._is_stuck(now_ns):
                return False
            if self._simulated.scheduler.has_work() and not self._is_planned_now():
                return True
            if not self._step(end_ns):
                return False

    def attempt(self) -> None:
        """Make the attempt that `until_attempt` led to."""
        self._driver.attempt_once()
        self._replace_preempted()

    def has_more(self) -> bool:
        """Whether pods wait for a node, or are still to come."""
        return self._next is not None or any(stay.bound_ns is None for stay in self._stays.values())

    def _is_planned_now(self) -> bool:
        planned_ns = self._planned_ns()
        return planned_ns is not None and planned_ns <= self._simulated.clock.now_ns()

    def pending_keys(self) -> list[str]:
        """The pods that are there and have no node, in the order of their arrival."""
        return [stay.arrival.pod.key for stay in self._stays.values() if stay.bound_ns is None]

    def _find(self, name: str) -> Pod:
        candidates = self._stream.candidates(name)
        return self._simulated.find(name, candidates, len(self._stream) - len(candidates))

    def _step(self, end_ns: int | None) -> bool:
        """One planned event, one attempt, or a jump to the next event. False at the end of the day."""
        driver, now_ns = self._driver, self._simulated.clock.now_ns()
        if (end_ns is not None and now_ns > end_ns) or self._is_stuck(now_ns):
            return False
        planned_ns = self._planned_ns()
        if planned_ns is not None and planned_ns <= now_ns:
            self._let_happen(planned_ns)
            self._moved_ns, self._moved_attempts = now_ns, self._simulated.scheduler.attempts
            return True
        has_work = self._simulated.scheduler.has_work()
        next_ns = now_ns + ATTEMPT_NS if has_work else driver.next_ns(planned_ns)
        is_over = not has_work and (next_ns is None or (end_ns is not None and next_ns > end_ns))
        until_ns = (end_ns or now_ns) if is_over or next_ns is None else next_ns
        self._read(until_ns)
        self._parts.lap("utilisation")
        if has_work:
            driver.attempt_once()
            self._replace_preempted()
            self._parts.lap("queue and binding")
            return True
        driver.jump(until_ns)
        self._parts.lap("backoffs")
        return not is_over

    def _read(self, until_ns: int) -> None:
        if not self._is_gauged:
            return
        self._gauge.read()
        if self.on_reading is not None:
            self.on_reading(until_ns)

    def _is_stuck(self, now_ns: int) -> bool:
        """Whether only attempts without success would follow."""
        attempts = self._simulated.scheduler.attempts - self._moved_attempts
        is_planned = self._ends or self._next is not None or self._changes
        is_over = not is_planned and now_ns - self._moved_ns > PATIENCE_NS
        self._was_stopped = is_over or attempts > ATTEMPTS_A_POD * self._planned
        return self._was_stopped

    def _planned_ns(self) -> int | None:
        """When the next planned event is due. Drops the end of pods that were preempted."""
        ends = self._ends
        while ends and not self._is_there(*ends[0][2:]):
            heapq.heappop(ends)
        planned = [ends[0][0]] if ends else []
        if self._next is not None:
            planned.append(START_NS + self._next.at_ns)
        if self._changes:
            planned.append(START_NS + self._changes[0].at_ns)
        return min(planned, default=None)

    def _is_there(self, key: str, pod_id: str) -> bool:
        """Another pod may have the name by now."""
        held = self._driver.objects.get(("Pod", key))
        return isinstance(held, Pod) and held.id == pod_id

    def _let_happen(self, when_ns: int) -> None:
        """Carry out the planned event that is due at this time; of several the end of a pod."""
        if self._ends and self._ends[0][0] == when_ns:
            self._finish(*heapq.heappop(self._ends)[2:])
            self._parts.lap("ends")
        elif self._changes and START_NS + self._changes[0].at_ns == when_ns:
            self._change(self._changes.popleft())
            self._parts.lap("arrivals")
        elif self._next is not None:
            self._arrive(self._next)
            self._parts.lap("arrivals")
            self._next = next(self._coming, None)
            self._parts.lap("generating")

    def _change(self, change: PlannedChange) -> None:
        """Make a planned change: create, update or remove an object. A change of a pod is ignored if another pod has its name
        by now."""
        item, driver = change.item, self._driver
        held = driver.objects.get((type(item).__name__, item.key))
        if isinstance(item, Pod) and isinstance(held, Pod) and held.id != item.id:
            return  # a later pod of this name
        if change.is_removal:
            self._remove(item)
        elif held is not None:
            driver.update(item)
        elif not isinstance(item, Pod) or item.spec.node_name:
            driver.create(item)  # a pod without a node had an arrival of its own, and has left since

    def _remove(self, item: KubeObject) -> None:
        """Others delete an object."""
        self._driver.delete(type(item).__name__, item.key)
        stay = self._stays.get(item.id) if isinstance(item, Pod) else None
        if isinstance(item, Pod) and stay is not None:
            self._waits_of(item).pending -= stay.bound_ns is None
            self._leave(item.id, "deleted")

    def _arrive(self, arrival: Arrival) -> None:
        """Create an arriving pod. An older pod with its name is removed first."""
        self._arrived += 1
        held = self._driver.objects.get(("Pod", arrival.pod.key))
        if held is not None:  # a StatefulSet makes the next pod of a name when the last one is gone
            self._remove(held)
        self._stays[arrival.pod.id] = Stay(arrival)
        self._waits_of(arrival.pod).pending += 1
        self._group_waits.arrived(arrival.pod, arrival.at_ns / NS_PER_S)
        self._driver.create(arrival.pod)

    def _finish(self, key: str, pod_id: str) -> None:
        self._finished += 1
        self._driver.delete("Pod", key)
        self._leave(pod_id, "finished")

    def _evicted(self, victim: Pod) -> None:
        """Pods that were there before the day count for no priority."""
        if victim.key not in self._stream.replaced:
            self._preempted.preempted(victim)
        if victim.id in self._stays:
            self._run_again_ns[victim.id] = self._stays[victim.id].arrival.run_ns
            self._waits_of(victim).preempted += 1
            self._leave(victim.id, "preempted")

    def _replace_preempted(self) -> None:
        """Let the pods arrive that controllers create instead of preempted ones. They run as long as those would have."""
        for victim, pod in self._preempted.take():
            self._simulated.note_replaced(victim, pod)
            is_of_the_day = victim.id in self._run_again_ns
            self._arrived -= is_of_the_day
            self._planned += not is_of_the_day
            self._arrive(Arrival(self._simulated.passed_ns(), pod, self._run_again_ns.get(victim.id)))
        self._run_again_ns.clear()

    def _leave(self, pod_id: str, result: str) -> None:
        stay = self._stays.pop(pod_id)
        if self._file is not None:
            self._file.write(stay, self._simulated.passed_ns(), result)

    def _bound(self, pod: Pod) -> None:
        """Note the waiting time, and plan the end of the pod."""
        stay, now_ns = self._stays[pod.id], self._simulated.passed_ns()
        stay.bound_ns, stay.node = now_ns, pod.spec.node_name
        arrival = stay.arrival
        self._placed_by_node[stay.node] += 1
        if self._placements is not None:
            self._placements[pod.key] = stay.node
        waits = self._waits_of(pod)
        waits.pending -= 1
        waits.waited_s.append((now_ns - arrival.at_ns) / NS_PER_S)
        self._group_waits.bound(pod, now_ns / NS_PER_S)
        if arrival.run_ns is not None:
            end_ns = START_NS + now_ns + arrival.run_ns
            heapq.heappush(self._ends, (end_ns, next(self._numbers), pod.key, pod.id))

    def _waits_of(self, pod: Pod) -> Waits:
        waits = self._waits.get(pod.priority)
        if waits is None:
            waits = self._waits[pod.priority] = Waits(pod.priority)
        return waits

    def _report(self, told: Pod | None) -> DayReport:
        """The results at the end."""
        simulated = self._simulated
        self._read(self._simulated.clock.now_ns())
        self._write_rest()
        self._parts.move("queue and binding", "decisions", simulated.deciding_ns)
        report = DayReport(
            self._simulated.passed_ns() / NS_PER_S,
            self._arrived,
            self._planned,
            self._finished,
            simulated.scheduler.attempts,
            [self._waits[priority] for priority in sorted(self._waits, reverse=True)],
            self._gauge.spans(SPANS),
            self._gauge.mean_used(),
            sorted(node.name for node in self._driver.nodes()),
            self._placements or {},
            simulated.evictions,
            simulated.scheduler.rescued,
            self._notes(),
            simulated.stories.of(told.key) if told is not None else None,
            sum(waits.placed for waits in self._waits.values()),
            self._placed_by_node,
            simulated.failures.attempts,
            simulated.failures.reasons(),
            self._gauge.node_means(),
            groups=self._group_waits.waits(),
        )
        self._parts.lap("report")
        report.parts_s, report.peak_bytes = self._parts.seconds(), peak_memory_bytes()
        return report

    def _write_rest(self) -> None:
        """Write the pods that are there at the end, in the order of their arrival."""
        if self._file is not None:
            for stay in self._stays.values():
                self._file.write(stay, None, "pending" if stay.bound_ns is None else "running")

    def _notes(self) -> list[str]:
        """Notes about input and outcome."""
        notes = self._simulated.input_notes()
        late = self._planned - self._arrived
        if late:
            notes.append(f"{count(late, 'pod')} would have arrived later")
        if self._was_stopped:
            notes.append("stopped: the scheduler attempted the same pods again and again without success")
        return [*notes, *self._simulated.notes()]
