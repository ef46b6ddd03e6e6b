"""What can be observed of a scheduler: each method says that something happened. Metrics are one observer (metrics.py).

The observer is chosen when the scheduler is built, so that no other code asks whether anything is measured.
"""

from collections.abc import Mapping
from typing import Literal, Protocol

from mooring.cluster.cluster import Cluster
from mooring.cluster.pods.cache import Cache
from mooring.framework.events import ClusterEvent
from mooring.framework.plugin_caller import PluginCaller
from mooring.framework.profiles import Profile
from mooring.kit.metrics import MetricRegistry
from mooring.queue.entry import QueuedPod
from mooring.queue.queue import SchedulingQueue
from mooring.scheduler.extenders.calls import ExtenderCalls

GroupResult = Literal["scheduled", "unschedulable", "waiting_on_preemption", "error"]


class SchedulerState(Protocol):
    """What an observer may read of a scheduler."""

    @property
    def cluster(self) -> Cluster: ...
    @property
    def cache(self) -> Cache: ...
    @property
    def queue(self) -> SchedulingQueue: ...
    @property
    def bindings(self) -> Mapping[str, object]: ...
    @property
    def extender_calls(self) -> ExtenderCalls: ...


class Observer:
    """Sees everything and does nothing. `registry` is where plugins declare metrics; here no one reads them."""

    def __init__(self) -> None:
        self.registry = MetricRegistry()

    def caller_for(self, profile: Profile) -> PluginCaller:
        """What calls the plugins of a profile."""
        return PluginCaller()

    def watch(self, state: SchedulerState) -> None:
        """The scheduler is built: its state may be read from now on."""

    def time_passed(self) -> None:
        """A second has passed."""

    # ---- changes of the cluster

    def change_arrived(self) -> None:
        """A change of the cluster is about to be taken in."""

    def change_handled(self, event: ClusterEvent) -> None:
        """The change that arrived last was taken in, as this event."""

    # ---- attempts

    def attempt_began(self, entry: QueuedPod) -> None: ...

    def decided(self, entry: QueuedPod) -> None:
        """A node was chosen, or no node fits and PostFilter is over."""

    def attempt_failed(self, entry: QueuedPod, is_error: bool) -> None: ...

    def pod_bound(self, entry: QueuedPod) -> None: ...

    def wait_on_permit_ended(self, status: str, began_ns: int) -> None: ...

    def preempts(self, victims: int) -> None:
        """Room is made: so many pods have to leave, with those that are terminating already."""

    # ---- attempts for pod groups

    def group_decided(self, first: QueuedPod) -> None:
        """It is known which members fit, and where."""

    def group_ended(self, result: GroupResult, first: QueuedPod) -> None:
        """All members are on their way to a node, or back in the queue."""
