"""Measures attempts for pod groups: what comes of them, and how long they and their decisions take."""

from typing import Literal

from mooring.framework.metric_catalogue import POD_GROUPS
from mooring.kit.clock import Clock
from mooring.kit.metrics import Registry

Result = Literal["scheduled", "unschedulable", "waiting_on_preemption", "error"]


class GroupMeters:
    """Told what happens; declares its metrics, which are there only where pod groups are scheduled."""

    def __init__(self, clock: Clock, registry: Registry) -> None:
        for description in POD_GROUPS:
            registry.declare(description)
        self._now_ns = clock.now_ns
        self._attempts = registry.counter("scheduler_podgroup_schedule_attempts_total")
        self._durations = registry.histogram("scheduler_podgroup_scheduling_attempt_duration_seconds")
        self._decisions = registry.histogram("scheduler_podgroup_scheduling_algorithm_duration_seconds").series()

    def decided(self, began_ns: int) -> None:
        """It is known which members fit, and where."""
        self._decisions.observe_ns(self._now_ns() - began_ns)

    def ended(self, result: Result, profile: str, began_ns: int) -> None:
        """All members are on their way to a node, or back in the queue."""
        self._attempts.series(result, profile).add()
        self._durations.series(result, profile).observe_ns(self._now_ns() - began_ns)
