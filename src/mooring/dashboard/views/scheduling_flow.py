"""How pods pass through a scheduler: how many, by profile and result, how long their attempts take, and the events of
each pod for its page.

The scheduler's observer counts; once a second a sample takes the difference. Latencies are of single attempts, because
the buckets of the metrics begin at a millisecond, which is longer than most attempts take.

A scheduler that is built with `tell` passes each event of a pod as a line, four for a pod that is placed at once. So a
line is only appended to one bounded journal of all pods; a page that asks for a pod searches it.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence

import msgspec

from mooring.cluster.nodes.table import NodeTable
from mooring.dashboard.slices import Sliced
from mooring.framework.contract.points import Nomination
from mooring.kit.clock import NS_PER_S, Clock, in_millis
from mooring.kit.shown_text import json_bytes
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod
from mooring.rules.conditions import typed_condition
from mooring.scheduler.observer import ForwardingObserver, Observer
from mooring.scheduler.scheduler import Scheduler

MAX_LINES = 80_000
"""Largest number of lines of all pods together; the newest are kept. These are the lines of 20,000 pods that are placed in
their first attempt, and take some 15 MiB."""
MAX_SHOWN = 100
"""Largest number of lines that the page of one pod shows; the newest are shown."""
LONG = 120
"""Texts with more characters are counted: they say why an attempt failed, and a plugin may say anything."""
MAX_TEXT = 1024
MAX_LONG = 4 << 20
"""Characters of all long texts; many pods share each of them."""
_STEP = 5000
"""Lines that are searched between two yields: some 0.2 ms."""

StoryLine = tuple[int, str]
"""(time in nanoseconds, what happened)"""


class PodStories:
    """Stories by `namespace/name`. A pod that is deleted and created again goes on with its story."""

    def __init__(
        self,
        now_ns: Callable[[], int],
        max_lines: int = MAX_LINES,
        max_shown: int = MAX_SHOWN,
        max_long: int = MAX_LONG,
    ) -> None:
        self._now_ns = now_ns
        self._max_shown, self._max_long = max_shown, max_long
        self._lines: deque[tuple[str, int, str]] = deque(maxlen=max_lines)
        self._note = self._lines.append
        self._long_texts: dict[str, str] = {}
        """The long texts in the journal, each once."""
        self._long = 0
        """Number of characters of the long texts that are kept."""

    def tell(self, pod: Pod, text: str) -> None:
        """Something happened to a pod. Hot: a list for each pod took 1.2 µs a line, this takes 0.3."""
        if len(text) > LONG:
            text = self._long_text(text)
        self._note((pod.key, self._now_ns(), text))

    def _long_text(self, text: str) -> str:
        """The text as one object for all lines that have it."""
        text = text[:MAX_TEXT]
        known = self._long_texts.get(text)
        if known is not None:
            return known
        while self._long + len(text) > self._max_long and self._lines:
            self._forget_half()
        self._long += len(text)
        self._long_texts[text] = text
        return text

    def _forget_half(self) -> None:
        """Drop the older half of the journal, and count the long texts that are left."""
        for _ in range((len(self._lines) + 1) // 2):
            self._lines.popleft()
        self._long_texts = {text: text for _, _, text in self._lines if len(text) > LONG}
        self._long = sum(map(len, self._long_texts))

    def take_over(self, earlier: "PodStories", before_ns: int) -> None:
        """Begin with the lines of another journal that are older than a moment: a time line has gone back to it."""
        for key, time_ns, text in earlier._lines:
            if time_ns < before_ns:
                self._note((key, time_ns, self._long_text(text) if len(text) > LONG else text))

    def of(self, key: str) -> Sliced[list[StoryLine]]:
        """The newest lines of a pod, oldest first; empty if nothing is known of it."""
        lines, found = list(self._lines), list[StoryLine]()
        for end in range(len(lines), 0, -_STEP):
            part = lines[max(end - _STEP, 0) : end]
            found[:0] = [(time_ns, text) for name, time_ns, text in part if name == key]
            if len(found) >= self._max_shown:
                break
            yield
        return found[-self._max_shown :]

    def __len__(self) -> int:
        """How many lines there are."""
        return len(self._lines)

    def check(self) -> list[str]:
        """Invariants that do not hold."""
        held = {text for _, _, text in self._lines if len(text) > LONG}
        problems = [f"a long text is not known: {text[:20]}" for text in held - self._long_texts.keys()]
        if self._long != sum(map(len, self._long_texts)):
            problems.append(f"{self._long} characters are counted")
        return problems


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
