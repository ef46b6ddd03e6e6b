"""Measures the scheduler: what comes of attempts, how long they and their parts take, and what is in which state.

One object, handed in when the scheduler is built. Whatever is not handed one pays for a look whether it was.
"""

from typing import TYPE_CHECKING

from mooring.framework.events import ClusterEvent
from mooring.framework.metric_catalogue import CATALOGUE
from mooring.framework.point_meters import PointMeters
from mooring.framework.runner import Runner
from mooring.kit.clock import Clock
from mooring.kit.metrics import Counter, Histogram, Registry
from mooring.queue.entry import QueuedPod
from mooring.scheduler.groups.meters import GroupMeters
from mooring.scheduler.state_readings import read_state_of

if TYPE_CHECKING:
    from mooring.scheduler.core import Binding, Core

MANY_ATTEMPTS = 15
"""So many attempts or more share one label."""


class Meters:
    """Told what happens; `registry` holds what came of it. `clock` must be the one of the scheduler."""

    def __init__(self, clock: Clock, registry: Registry | None = None) -> None:
        self.registry = registry = registry or Registry(CATALOGUE)
        self._clock = clock
        self._now_ns = clock.now_ns
        self._event_came_ns = 0
        self.groups: GroupMeters | None = None
        """Measures attempts for pod groups, where there are any."""
        self._ends: dict[tuple[str, str], tuple[Counter, Histogram]] = {}
        self._handled: dict[ClusterEvent, Histogram] = {}
        self._attempts = registry.counter("scheduler_schedule_attempts_total")
        self._attempt_durations = registry.histogram("scheduler_scheduling_attempt_duration_seconds")
        self._decisions = registry.histogram("scheduler_scheduling_algorithm_duration_seconds").series()
        sli = registry.histogram("scheduler_pod_scheduling_sli_duration_seconds")
        labels = [*(str(count) for count in range(MANY_ATTEMPTS)), f"{MANY_ATTEMPTS}+"]
        self._until_bound = [sli.series(label) for label in labels]
        self._attempts_needed = registry.histogram("scheduler_pod_scheduling_attempts").series()
        self._rescued = registry.counter("scheduler_pod_scheduled_after_flush_total").series()
        self._permit_waits = registry.histogram("scheduler_permit_wait_duration_seconds")
        self._events = registry.histogram("scheduler_event_handling_duration_seconds")
        self._hints = registry.histogram("scheduler_queueing_hint_execution_duration_seconds")
        self._victims = registry.histogram("scheduler_preemption_victims").series()
        self._evictions = registry.counter("scheduler_preemption_goroutines_execution_total").series("success")
        self._eviction_starts = registry.histogram("scheduler_preemption_goroutines_duration_seconds").series("success")

    # ---- at assembly

    def join_runners(self, runners: dict[str, Runner]) -> dict[str, PointMeters]:
        """Measure the plugins of these profiles from now on."""
        joined = {name: PointMeters(self._clock, self.registry, runner.profile) for name, runner in runners.items()}
        for name, meters in joined.items():
            runners[name].meters = meters
        return joined

    def join(self, core: "Core") -> None:
        """Measure hints from now on, and read what is in which state when someone looks."""
        core.queue.counters.observe_hint = self._hint_asked
        read_state_of(core, self.registry)
        if core.cluster.groups is not None and self.groups is None:
            self.groups = GroupMeters(self._clock, self.registry)

    def _hint_asked(self, plugin: str, event: str, outcome: str, taken_ns: int) -> None:
        self._hints.series(plugin, event, outcome).observe_ns(taken_ns)

    # ---- attempts

    def began(self, entry: QueuedPod) -> None:
        """An attempt begins."""
        entry.began_ns = self._now_ns()

    def decided(self, entry: QueuedPod) -> None:
        """A node was chosen, or there is none and PostFilter had its say."""
        self._decisions.observe_ns(self._now_ns() - entry.began_ns)

    def failed(self, entry: QueuedPod, is_error: bool) -> None:
        """The attempt did not lead to a node."""
        self._ended("error" if is_error else "unschedulable", entry, self._now_ns())

    def scheduled(self, entry: QueuedPod) -> None:
        """The pod is bound."""
        now_ns = self._now_ns()
        self._ended("scheduled", entry, now_ns)
        self._attempts_needed.observe(entry.attempts)
        if entry.initial_attempt_ns is not None:
            series = self._until_bound[min(entry.attempts, MANY_ATTEMPTS)]
            series.observe_ns(now_ns - entry.initial_attempt_ns)
        if entry.was_flushed:
            self._rescued.add()

    def _ended(self, result: str, entry: QueuedPod, now_ns: int) -> None:
        key = result, entry.profile
        series = self._ends.get(key)
        if series is None:
            series = self._ends[key] = self._attempts.series(*key), self._attempt_durations.series(*key)
        count, durations = series
        count.add()
        durations.observe_ns(now_ns - entry.began_ns)

    # ---- binding

    def step_began(self, binding: "Binding") -> None:
        """A step that may take its time begins: the wait on Permit, or PreBind."""
        binding.step_began_ns = self._now_ns()

    def permit_ended(self, binding: "Binding", status: str) -> None:
        """The wait on Permit is over."""
        self._permit_waits.series(status).observe_ns(self._now_ns() - binding.step_began_ns)

    def step_ended(self, binding: "Binding", point: str, status: str) -> None:
        """PreBind, or Bind, is over; the next step begins."""
        if binding.runner.meters is not None:
            binding.step_began_ns = binding.runner.meters.observe(point, status, binding.step_began_ns)

    # ---- preemption

    def evicts(self, victims: int) -> None:
        """Room is made: so many pods have to leave, those included that are on their way out already.

        Parity: upstream means to record how the eviction went, but does so when it starts: always well, after no time.
        """
        self._victims.observe(victims)
        self._evictions.add()
        self._eviction_starts.observe(0)

    # ---- changes of the cluster

    def event_came(self) -> None:
        self._event_came_ns = self._now_ns()

    def event_handled(self, event: ClusterEvent) -> None:
        """What came last was taken in, as this event."""
        series = self._handled.get(event)
        if series is None:
            series = self._handled[event] = self._events.series(event.label)
        series.observe_ns(self._now_ns() - self._event_came_ns)
