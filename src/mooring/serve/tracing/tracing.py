"""Tracing of a process: chosen once at its start, and asked for the observer of the scheduler and for spans of requests."""

from collections.abc import Callable

from mooring.drivers.traced_requests import RequestTraces
from mooring.framework.config.durations import Duration
from mooring.kit.clock import Clock
from mooring.scheduler.observer import Observer

PLUGIN_THRESHOLD = Duration(1_000_000)
"""A plugin that is busy for a millisecond takes longer than most decisions as a whole."""

Report = Callable[[str], None]
"""What to do with a message for the operator."""


class Tracing:
    """No tracing: base class and default."""

    def observe(self, observer: Observer, clock: Clock) -> tuple[Observer, RequestTraces]:
        """What observes the scheduler instead of this observer, and what traces the requests of its driver."""
        return observer, RequestTraces()

    def close(self) -> None:
        """Export what is left, within seconds."""
