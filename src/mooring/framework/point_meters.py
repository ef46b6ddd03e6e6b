"""Measures the plugins of a profile: extension points as wholes, and in a tenth of all attempts each call of a plugin."""

from collections.abc import Callable
from typing import TypeVar

from mooring.framework.evaluations import Evaluations
from mooring.framework.points import NoRoom, Wait
from mooring.framework.profiles import Profile
from mooring.framework.status import SKIP, Code, Rejection
from mooring.kit.clock import Clock
from mooring.kit.metrics import Histogram, Registry

T = TypeVar("T")

_SCATTER = 2654435761
_TENTH = (1 << 32) // 10

SUCCESS, ERROR = Code.Success.name, Code.Error.name
STATUS = {code: code.name for code in Code}


def is_sampled(seed: int) -> bool:
    """Whether the attempt with this seed is one of the tenth that are measured call by call, spread evenly."""
    return (seed * _SCATTER) & 0xFFFFFFFF < _TENTH


def status_of(answer: object) -> str:
    """What metrics call a plugin's answer."""
    if isinstance(answer, NoRoom):
        answer = answer.rejection
    if isinstance(answer, Rejection):
        return STATUS[answer.code]
    if answer is SKIP:
        return Code.Skip.name
    return Code.Wait.name if isinstance(answer, Wait) else SUCCESS


class PluginProbe:
    """Measures single calls of plugins."""

    def __init__(self, clock: Clock, registry: Registry) -> None:
        self._now_ns = clock.now_ns
        self._durations = registry.histogram("scheduler_plugin_execution_duration_seconds")

    def call(self, point: str, plugin: str, ask: Callable[..., T], *args: object) -> T:
        """Ask a plugin, and note how long that took and what came of it."""
        began_ns = self._now_ns()
        status = ERROR
        try:
            answer = ask(*args)
            status = status_of(answer)
        finally:
            self._durations.series(plugin, point, status).observe_ns(self._now_ns() - began_ns)
        return answer


class PointMeters:
    """What is measured of one profile."""

    def __init__(self, clock: Clock, registry: Registry, profile: Profile) -> None:
        self.now_ns = clock.now_ns
        self.evaluations = Evaluations(profile)
        self._probe = PluginProbe(clock, registry)
        self._durations = registry.histogram("scheduler_framework_extension_point_duration_seconds")
        self._profile = profile.scheduler_name
        self._succeeded: dict[str, Histogram] = {}

    def probe(self, seed: int) -> PluginProbe | None:
        """What measures each call of the attempt with this seed; None for most attempts."""
        return self._probe if is_sampled(seed) else None

    def observe(self, point: str, status: str, began_ns: int) -> int:
        """A point that began then is over. Returns the time."""
        now_ns = self.now_ns()
        series = self._succeeded.get(point) if status is SUCCESS else None
        if series is None:
            series = self._durations.series(point, status, self._profile)
            if status is SUCCESS:
                self._succeeded[point] = series
        series.observe_ns(now_ns - began_ns)
        return now_ns
