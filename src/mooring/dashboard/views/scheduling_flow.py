"""How many pods pass through a scheduler, by profile and result, and how long their attempts take.

The scheduler's observer counts; once a second a sample takes the difference. Latencies are of single attempts, because the
buckets of the metrics begin at a millisecond, which is longer than most attempts take.
"""

from collections import Counter, deque
from collections.abc import Mapping, Sequence

import msgspec

from mooring.cluster.nodes.table import NodeTable
from mooring.framework.contract.points import Nomination
from mooring.kit.clock import NS_PER_S, Clock, in_millis
from mooring.kit.shown_text import json_bytes
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod
from mooring.rules.conditions import typed_condition
from mooring.scheduler.observer import ForwardingObserver, Observer
from mooring.scheduler.scheduler import Scheduler

DISRUPTION_TARGET, PREEMPTION = "DisruptionTarget", "PreemptionByScheduler"
"""The condition of a pod that is evicted, and its reason for a victim of preemption."""
RESULTS = ("scheduled", "unschedulable", "error")
_MAX_DURATIONS = 10_000
"""Attempts of a profile whose durations are kept between two samples, the newest: more than a second has."""


class LatencyFigures(msgspec.Struct, frozen=True):
    """Seconds from the beginning of an attempt to the answer of its bind, or to its failure."""

    p50: float
    p99: float


class SelfCheckFigures(msgspec.Struct, frozen=True):
    """How often the scheduler has checked itself, and what it found."""

    runs: int
    differences: int
    last: str
    """When the last check ended; empty before the first."""


class FlowSample(msgspec.Struct, frozen=True, rename="camel"):
    """The event `flow`: what happened in some seconds."""

    time: str
    seconds: float
    bound: int
    attempts: Mapping[str, Mapping[str, int]]
    latency: Mapping[str, LatencyFigures]
    preemptions: int
    victims: int
    evictions: int
    self_check: SelfCheckFigures | None


class FlowCounters:
    """Counts attempts, preemptions and evictions since the last sample."""

    def __init__(self, clock: Clock, profiles: Sequence[str] = ()) -> None:
        self.now_ns = clock.now_ns
        self.attempts: Counter[tuple[str, str]] = Counter()
        """(profile, result) -> attempts."""
        self.durations_ns: dict[str, deque[int]] = {}
        self.preemptions = self.victims = self.evictions = 0
        self.profiles = profiles
        """Shown also while they have no attempts."""
        self._sampled_ns = clock.now_ns()

    def around(self, inner: Observer) -> Observer:
        """An observer that counts here and passes everything on."""
        return FlowObserver(inner, self)

    def follow(self, scheduler: Scheduler) -> None:
        """Count evictions by others as well: by the eviction API, and deletions from nodes that are drained."""
        nodes = scheduler.cluster.nodes

        def changed(old: Pod | None, new: Pod | None) -> None:
            """Hot: once for each change of a pod; 0.1 to 0.4 µs."""
            if old is None or not old.spec.node_name or (new is not None and not new.is_terminating):
                return
            if not old.is_terminating and not old.is_finished:
                self.evictions += is_evicted(new or old, nodes)

        scheduler.core.services.pod_listeners.append(changed)

    def ended(self, profile: str, result: str, taken_ns: int) -> None:
        """Hot: once an attempt; 0.4 µs."""
        self.attempts[profile, result] += 1
        durations = self.durations_ns.get(profile)
        if durations is None:
            durations = self.durations_ns[profile] = deque(maxlen=_MAX_DURATIONS)
        durations.append(taken_ns)

    def sample(self, self_check: SelfCheckFigures | None = None) -> FlowSample:
        """The counts since the last sample; from now on it is counted anew."""
        now_ns = self.now_ns()
        profiles = list(dict.fromkeys((*self.profiles, *(profile for profile, _ in self.attempts))))
        attempts = {name: {result: self.attempts[name, result] for result in RESULTS} for name in profiles}
        sampled = FlowSample(
            in_millis(now_ns),
            round(max(now_ns - self._sampled_ns, 0) / NS_PER_S, 3),
            sum(each["scheduled"] for each in attempts.values()),
            attempts,
            {name: _latency(durations) for name, durations in self.durations_ns.items() if durations},
            self.preemptions,
            self.victims,
            self.evictions,
            self_check,
        )
        self._sampled_ns = now_ns
        self.attempts.clear()
        self.durations_ns.clear()
        self.preemptions = self.victims = self.evictions = 0
        return sampled


def is_evicted(pod: Pod, nodes: NodeTable) -> bool:
    """Whether a pod that leaves its node was evicted by someone else than this scheduler, whose victims are counted apart.

    The control plane marks pods that it evicts. `kubectl drain --disable-eviction` deletes pods without a mark: a pod that
    is deleted from a cordoned node counts, unless a DaemonSet would create it there again.
    """
    mark = typed_condition(pod.status.conditions, DISRUPTION_TARGET)
    if mark is not None and mark.status == "True":
        return mark.reason != PREEMPTION
    row, owner = nodes.row_book.get(pod.spec.node_name), pod.controller()
    is_daemon = owner is not None and owner.kind == "DaemonSet"
    return row is not None and bool(nodes.unschedulable[row]) and not is_daemon


def _latency(durations_ns: Sequence[int]) -> LatencyFigures:
    """Percentiles by rank: the smallest value that so many are not above."""
    ordered = sorted(durations_ns)
    last = len(ordered) - 1
    return LatencyFigures(_seconds(ordered[last * 50 // 100]), _seconds(ordered[last * 99 // 100]))


def _seconds(taken_ns: int) -> float:
    return round(max(taken_ns, 0) / NS_PER_S, 7)


class FlowObserver(ForwardingObserver):
    """Stands around another observer, such as metrics."""

    def __init__(self, inner: Observer, counters: FlowCounters) -> None:
        super().__init__(inner)
        self._counters = counters
        self._now_ns = counters.now_ns

    def attempt_began(self, entry: QueuedPod) -> None:
        entry.began_ns = self._now_ns()
        self._inner.attempt_began(entry)

    def attempt_failed(self, entry: QueuedPod, is_error: bool, message: str) -> None:
        self._inner.attempt_failed(entry, is_error, message)
        result = "error" if is_error else "unschedulable"
        self._counters.ended(entry.profile, result, self._now_ns() - entry.began_ns)

    def pod_bound(self, entry: QueuedPod) -> None:
        self._inner.pod_bound(entry)
        self._counters.ended(entry.profile, "scheduled", self._now_ns() - entry.began_ns)

    def preempts(self, preemptor: Pod, nomination: Nomination) -> None:
        self._inner.preempts(preemptor, nomination)
        self._counters.preemptions += 1
        self._counters.victims += len(nomination.victims)

    def victim_evicted(self, victim: Pod) -> None:
        self._inner.victim_evicted(victim)
        self._counters.evictions += 1


# ---- How many pods wait where in the queue.


class QueueSample(msgspec.Struct, frozen=True, rename="camel"):
    """The event `queue`. A pod is counted in one of these."""

    time: str
    active: int
    backoff: int
    unschedulable: int
    gated: int
    in_flight: int
    """Taken for an attempt, or being bound."""
    waiting_on_permit: int


def queue_sample(scheduler: Scheduler, time: str) -> QueueSample:
    counts = scheduler.pending_counts()
    core, waiting = scheduler.core, len(scheduler.waiting)
    # A pod that waits on Permit is in flight to the queue, and among the bindings too.
    in_flight = len(core.queue.in_flight) + len(core.bindings) - 2 * waiting
    return QueueSample(
        time, counts["active"], counts["backoff"], counts["unschedulable"], counts["gated"], max(in_flight, 0), waiting
    )


def queue_activity(scheduler: Scheduler) -> tuple[int, ...]:
    """Differs from an earlier one if pods have moved in the queue since."""
    queue = scheduler.core.queue
    return queue.attempts, sum(queue.counters.incoming.values()), *queue.pending_counts().values()


# ---- The last samples of queue and flow, for the lines that a page draws when it opens.


LENGTH = 600
"""Samples, one a second: ten minutes."""


class HistoryPage(msgspec.Struct, frozen=True):
    """`GET api/history`."""

    queue: list[msgspec.Raw]
    flow: list[msgspec.Raw]


class SampleHistory:
    """Samples are kept encoded: 0.3 KB each instead of some 2 KB as objects, and a page costs no encoding."""

    def __init__(self) -> None:
        self._queue: deque[msgspec.Raw] = deque(maxlen=LENGTH)
        self._flow: deque[msgspec.Raw] = deque(maxlen=LENGTH)
        self._last = ""

    def add(self, queue: QueueSample, flow: FlowSample | None) -> tuple[bytes, bytes]:
        """Keep samples. Returns them encoded; without a flow, an empty one. A recording that is set back starts over."""
        if queue.time < self._last:
            self._queue.clear()
            self._flow.clear()
        self._last = queue.time
        counts = json_bytes(queue)
        passed = b"" if flow is None else json_bytes(flow)
        self._queue.append(msgspec.Raw(counts))
        if passed:
            self._flow.append(msgspec.Raw(passed))
        return counts, passed

    def page(self) -> HistoryPage:
        return HistoryPage(list(self._queue), list(self._flow))
