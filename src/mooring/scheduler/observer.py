"""Events of a scheduler that can be observed: each method says that something happened. Metrics are one observer
(metrics.py), traces another one around it (traces.py), and the counts of the dashboard a third one around both.

The observer is chosen when the scheduler is built. Other code does not ask whether anything is measured, except for speed
(`Core.is_observed`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, Protocol

from mooring.cluster.cache import Cache
from mooring.cluster.cluster import Cluster
from mooring.framework.contract.events import ClusterEvent
from mooring.framework.contract.plugin_caller import PluginCaller
from mooring.framework.contract.points import Nomination
from mooring.framework.kept.kept_answers import KeptAnswers
from mooring.framework.profile.profiles import Profile
from mooring.kit.callbacks import forward
from mooring.kit.metrics import MetricRegistry
from mooring.model.pod import Pod
from mooring.queue.entry import QueuedPod, QueueListeners
from mooring.queue.queue_views import QueueViews
from mooring.scheduler.under_way import ExtenderCalls

GroupResultLabel = Literal["scheduled", "unschedulable", "waiting_on_preemption", "error"]
"""The result label of metrics about pod groups."""


class ObservedState(Protocol):
    """The parts of a scheduler that an observer may read. Core has these as fields."""

    @property
    def cluster(self) -> Cluster: ...
    @property
    def cache(self) -> Cache: ...
    @property
    def queue(self) -> QueueViews: ...
    @property
    def bindings(self) -> Mapping[str, object]: ...
    @property
    def extender_calls(self) -> ExtenderCalls: ...


class Observer:
    """The observer that ignores everything: base class and default. Plugins declare metrics in `registry`; here they
    are not read."""

    def __init__(self) -> None:
        self.registry = MetricRegistry()

    def caller_for(self, profile: Profile) -> PluginCaller:
        """The caller for the plugins of a profile."""
        return PluginCaller()

    def watch(self, state: ObservedState) -> None:
        """The scheduler is built: its state may be read from now on."""

    def watch_kept_answers(self, kept: KeptAnswers) -> None:
        """The profiles keep answers here: their bytes and counts may be read from now on."""

    def time_passed(self) -> None:
        """A second has passed."""

    # ---- changes of the cluster

    def change_arrived(self) -> None:
        """A change of the cluster is about to be taken in."""

    def change_handled(self, event: ClusterEvent) -> None:
        """The change that arrived last was taken in, as this event."""

    # ---- attempts

    def attempt_began(self, entry: QueuedPod) -> None:
        """The pod was popped and is about to be decided on."""

    def decided(self, entry: QueuedPod, node_name: str) -> None:
        """A node was chosen; or no node fits (an empty name) and PostFilter is over."""

    def attempt_failed(self, entry: QueuedPod, is_error: bool, message: str) -> None:
        """The pod is about to be requeued; `is_error` tells a SchedulerError from Unschedulable, `message` says why."""

    def pod_bound(self, entry: QueuedPod) -> None:
        """The API server, or an extender, has bound the pod."""

    def wait_on_permit_ended(self, pod: Pod, status: str, began_ns: int) -> None:
        """A wait of the pod that began at `began_ns` (the clock of the plugin caller) ended with this status."""

    def preempts(self, preemptor: Pod, nomination: Nomination) -> None:
        """Preemption found room on a node. Some of its victims may be terminating already."""

    def evictions_ended(self, preemptor: str, has_failed: bool, began_ns: int, now_ns: int) -> None:
        """All evictions for a preemptor of this kind were answered; both times are of the scheduler's clock."""

    def victim_evicted(self, victim: Pod) -> None:
        """The API server has evicted a victim of preemption."""

    # ---- attempts for pod groups

    def group_decided(self, first: QueuedPod) -> None:
        """The trial of a group is over: which members fit, and where, is known."""

    def group_ended(self, result: GroupResultLabel, first: QueuedPod) -> None:
        """All members are on their way to a node, or back in the queue."""

    def placements_generated(self, profile: Profile, count: int) -> None:
        """A group is about to be tried in so many placements."""

    def placement_evaluated(self, profile: Profile, is_feasible: bool, began_ns: int) -> None:
        """A trial of a PodGroup in a placement that began at `began_ns` (the clock of the plugin caller) is over."""


class ForwardingObserver(Observer):
    """Stands around another observer and passes on what it does not replace: base class of those that add to it."""

    def __init__(self, inner: Observer) -> None:
        self.registry = inner.registry
        self._inner = inner
        forward(self, inner, Observer)


@dataclass(frozen=True)
class SchedulerListeners(QueueListeners):
    """Receivers of what a scheduler does. They change nothing."""

    observer: Observer = field(default_factory=Observer)
