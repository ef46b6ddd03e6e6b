"""What the queue counts. Plain numbers: a metrics layer reads them when it is asked."""

from collections import Counter
from dataclasses import dataclass, field

from mooring.queue.entry import QueuedPod

POD_POPPED = "PodPopped"
"""The label under which the starts of attempts are counted among the in-flight events."""


@dataclass(slots=True)
class QueueCounters:
    """Counters only grow; gauges are what is there now. How many pods wait where, the queue itself tells."""

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
