"""A pod in the queue, with what the queue remembers of it from one attempt to the next, and what the queue counts."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Literal, TypeVar

import msgspec

from mooring.model.pod import Pod

K = TypeVar("K")

Place = Literal["active", "backoff", "unschedulable", "gated"]
"""Where a queued pod is; the words are labels of metrics."""

TellPod = Callable[[Pod, str], None]
"""Takes a sentence about a pod, for the story of the pod (`--explain`)."""
ReportFault = Callable[[str, Exception | None], None]
"""Takes what should not have happened: a text, and the exception behind it if there is one."""


class QueuedPod(msgspec.Struct, eq=False, gc=False):
    """A pod on its way to a node: upstream's QueuedPodInfo. `new_entry` makes one.

    It is made once, handed out by `pop`, and comes back by `add_unschedulable` if its attempt fails. Times are
    nanoseconds of the scheduler's clock.

    Hot: a struct fills in its defaults in C; 18 slots were set one by one. It is in no reference cycle, so the garbage
    collector need not look at it.
    """

    pod: Pod
    timestamp_ns: int
    """When it was made, or came back from its last attempt. Moving between queues does not change it."""
    key: str
    uid: str
    """Key and id of the pod. Hot: kept here, because a pod works them out each time."""
    initial_attempt_ns: int | None = None
    """When it first became ready to be tried: gated pods have not."""
    attempts: int = 0
    began_ns: int = 0
    """When its present attempt began, where that is measured."""
    start: int = 0
    """While it is in flight: how many events there had been when its attempt began (in_flight.py)."""
    unschedulable_count: int = 0
    """How often it came back rejected by plugins; never reset."""
    consecutive_errors: int = 0
    """How often in a row it came back without a plugin to blame."""
    backoff_until_ns: int | None = None
    """The end of its backoff, worked out when first needed (backoff.py); None again after each return."""
    serves_backoff: bool = False
    """Whether the pod stays in backoff to the end, also when nothing else waits."""
    unschedulable_plugins: tuple[str, ...] = ()
    """Plugins that rejected it; an event that one of them registered may move it."""
    pending_plugins: tuple[str, ...] = ()
    """Plugins that wait for an event: when it comes the pod is tried at once, without backoff."""
    gating_plugin: str = ""
    """The PreEnqueue plugin that holds it back; empty: none does."""
    gating_message: str = ""
    was_flushed: bool = False
    """Only the flush of pods that waited too long gave it its present attempt, not an event."""
    flushed_ns: int = 0
    """When that flush was: the time for the next one counts from there."""

    @property
    def profile(self) -> str:
        """The name of the profile that is to schedule it."""
        return self.pod.spec.scheduler_name

    @property
    def is_gated(self) -> bool:
        return self.gating_plugin != ""

    @property
    def rejectors(self) -> tuple[str, ...]:
        """All plugins that rejected it in its last attempt, or gated it since, each once."""
        pending = self.pending_plugins
        if not pending:
            return self.unschedulable_plugins
        return pending + tuple(name for name in self.unschedulable_plugins if name not in pending)

    def reject_by(self, plugins: Iterable[str], pending: Iterable[str] = ()) -> None:
        """Note the plugins that rejected it in the attempt that just failed; none: the attempt ended in an error."""
        self.unschedulable_plugins = tuple(sorted(set(plugins)))
        self.pending_plugins = tuple(sorted(set(pending)))
        self.gating_plugin = self.gating_message = ""

    def __repr__(self) -> str:
        return f"QueuedPod({self.key}, attempts={self.attempts}, rejectors={list(self.rejectors)})"


def new_entry(pod: Pod, now_ns: int) -> QueuedPod:
    """A pod that comes to the queue."""
    return QueuedPod(pod, now_ns, pod.key, pod.id)


# ---- Counters of the queue: plain numbers, which metrics read when they are collected.


POD_POPPED = "PodPopped"
"""The label under which the starts of attempts are counted among the in-flight events."""


class LabelCounts(dict[K, int]):
    """How often something happened, by the labels of a metric; 0 for labels that were never counted.

    Hot: `+= 1` takes a third fewer instructions than in collections.Counter, which replaces `__delitem__`.
    """

    def __missing__(self, key: K) -> int:
        return 0


class QueueCounters:
    """Counters only grow; gauges say what is there now. How many pods wait in each place, the queue itself knows.

    Hot: a class with slots, because the numbers change with each pod, and structs take three times as long to set a field.
    """

    __slots__ = (
        "flights_begun",
        "flights_ended",
        "flushed",
        "hints",
        "incoming",
        "kept_events",
        "rescued",
        "unschedulable",
    )

    def __init__(self) -> None:
        self.incoming: LabelCounts[tuple[str, str]] = LabelCounts()
        """Counter: (queue, event label) -> pods that came in."""
        self.kept_events: Counter[str] = Counter()
        """Gauge: event label -> events kept for pods in flight."""
        self.flights_begun = 0
        self.flights_ended = 0
        """Counters: attempts that began, and those that are over. Hot: numbers, because each pod counts in both."""
        self.unschedulable: Counter[tuple[str, str]] = Counter()
        """Gauge: (plugin, profile) -> pods that the plugin rejected."""
        self.hints: Counter[tuple[str, str, str]] = Counter()
        """Counter: (plugin, event label, outcome) -> hints that were asked."""
        self.flushed = 0
        """Counter: pods that got another chance only because they had been unschedulable for too long."""
        self.rescued = 0
        """Counter: those of them that were then placed. Each is a wake-up that was lost."""

    @property
    def in_flight_events(self) -> Counter[str]:
        """Gauge: the kept events, and the starts of attempts that are under way among them (POD_POPPED)."""
        begun = {POD_POPPED: self.flights_begun - self.flights_ended} if self.flights_begun else {}
        return Counter({**self.kept_events, **begun})

    def hold(self, entry: QueuedPod) -> None:
        """The pod counts as rejected by its plugins from now on."""
        for plugin in entry.rejectors:
            self.unschedulable[plugin, entry.profile] += 1

    def release(self, entry: QueuedPod) -> None:
        """The pod no longer counts as rejected."""
        for plugin in entry.rejectors:
            self.unschedulable[plugin, entry.profile] -= 1
