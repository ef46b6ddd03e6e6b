"""A pod in the queue, with what the queue remembers of it from one attempt to the next, and what the queue counts."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal

from mooring.framework.events import ClusterEvent
from mooring.model.pod import Pod

Place = Literal["active", "backoff", "unschedulable", "gated"]
"""Where a queued pod is; the words are labels of metrics."""


class QueuedPod:
    """A pod on its way to a node: upstream's QueuedPodInfo.

    It is made once, handed out by `pop`, and comes back by `add_unschedulable` if its attempt fails. Times are
    nanoseconds of the scheduler's clock.
    """

    __slots__ = (
        "attempts",
        "backoff_until_ns",
        "began_ns",
        "consecutive_errors",
        "flushed_ns",
        "gating_events",
        "gating_message",
        "gating_plugin",
        "initial_attempt_ns",
        "key",
        "pending_plugins",
        "pod",
        "serves_backoff",
        "timestamp_ns",
        "uid",
        "unschedulable_count",
        "unschedulable_plugins",
        "was_flushed",
    )

    def __init__(self, pod: Pod, now_ns: int) -> None:
        self.pod = pod
        self.key = pod.key
        self.uid = pod.id
        self.timestamp_ns = now_ns
        """When it was made, or came back from its last attempt. Moving between queues does not change it."""
        self.initial_attempt_ns: int | None = None
        """When it first became ready to be tried: gated pods have not."""
        self.attempts = 0
        self.began_ns = 0
        """When its present attempt began, where that is measured."""
        self.unschedulable_count = 0
        """How often it came back rejected by plugins; never reset."""
        self.consecutive_errors = 0
        """How often in a row it came back without a plugin to blame."""
        self.backoff_until_ns: int | None = None
        """The end of its backoff, worked out when first needed (backoff.py); None again after each return."""
        self.serves_backoff = False
        """It stays in backoff to the end, also when nothing else waits."""
        self.unschedulable_plugins: tuple[str, ...] = ()
        """Plugins that rejected it; an event that one of them registered may move it."""
        self.pending_plugins: tuple[str, ...] = ()
        """Plugins that wait for an event: when it comes the pod is tried at once, without backoff."""
        self.gating_plugin = ""
        """The PreEnqueue plugin that holds it back; empty: none does."""
        self.gating_message = ""
        self.gating_events: tuple[ClusterEvent, ...] = ()
        self.was_flushed = False
        """Only the flush of pods that waited too long gave it its present attempt, not an event."""
        self.flushed_ns = 0
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
        self.gating_events = ()

    def gate_hears(self, event: ClusterEvent) -> bool:
        """Whether an event can open the gate that holds the pod back: its plugin registered the event."""
        return event.is_wildcard or any(registered.covers(event) for registered in self.gating_events)

    def __repr__(self) -> str:
        return f"QueuedPod({self.key}, attempts={self.attempts}, rejectors={list(self.rejectors)})"


# ---- What the queue counts: plain numbers, which metrics read when they are collected.


POD_POPPED = "PodPopped"
"""The label under which the starts of attempts are counted among the in-flight events."""


@dataclass(slots=True)
class QueueCounters:
    """Counters only grow; gauges say what is there now. How many pods wait in each place, the queue itself knows."""

    incoming: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Counter: (queue, event label) -> pods that came in."""
    in_flight_events: Counter[str] = field(default_factory=Counter)
    """Gauge: event label -> events kept for pods in flight."""
    unschedulable: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Gauge: (plugin, profile) -> pods that the plugin rejected."""
    hints: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Counter: (plugin, event label, outcome) -> hints that were asked."""
    flushed: int = 0
    """Counter: pods that got another chance only because they had been unschedulable for too long."""
    rescued: int = 0
    """Counter: those of them that were then placed. Each is a wake-up that was lost."""

    def hold(self, entry: QueuedPod) -> None:
        """The pod counts as rejected by its plugins from now on."""
        for plugin in entry.rejectors:
            self.unschedulable[plugin, entry.profile] += 1

    def release(self, entry: QueuedPod) -> None:
        """The pod no longer counts as rejected."""
        for plugin in entry.rejectors:
            self.unschedulable[plugin, entry.profile] -= 1
