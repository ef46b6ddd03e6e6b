"""Measures the plugins of a profile: extension points as wholes, and in a tenth of all attempts each call of a plugin."""

from collections.abc import Callable, Set
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mooring.framework.evaluations import Evaluations
from mooring.framework.memo import PASSED
from mooring.framework.plugin_caller import ERROR, SUCCESS, M, PluginCaller, Wrap, unwrapped
from mooring.framework.points import NoRoom, Wait
from mooring.framework.profiles import Profile
from mooring.framework.status import SKIP, SKIP_SHAPE, Code, Rejection
from mooring.kit.clock import Clock
from mooring.kit.metrics import Histogram, MetricRegistry

_SCATTER = 2654435761
"""Knuth's multiplier: consecutive seeds are spread evenly over 32 bits."""
_TENTH = (1 << 32) // 10

_STATUS = {code: code.name for code in Code}


def is_sampled(seed: int) -> bool:
    """Whether the attempt with this seed is one of the tenth that are measured call by call, spread evenly."""
    return (seed * _SCATTER) & 0xFFFFFFFF < _TENTH


def status_of(answer: object) -> str:
    """What metrics call a plugin's answer."""
    if isinstance(answer, NoRoom):
        answer = answer.rejection
    if isinstance(answer, Rejection):
        return _STATUS[answer.code]
    if answer is SKIP or answer is SKIP_SHAPE:
        return Code.Skip.name
    return Code.Wait.name if isinstance(answer, Wait) else SUCCESS


class MeteredCaller(PluginCaller):
    """Calls the plugins of one profile, and records how long that takes and what comes of it."""

    def __init__(self, clock: Clock, registry: MetricRegistry, profile: Profile) -> None:
        self.began = clock.now_ns  # type: ignore[method-assign]  # Hot: one call less for each extension point
        self.evaluations = Evaluations(profile)
        self._now_ns = clock.now_ns
        self._calls = registry.histogram("scheduler_plugin_execution_duration_seconds")
        self._durations = registry.histogram("scheduler_framework_extension_point_duration_seconds")
        self._hints = registry.histogram("scheduler_queueing_hint_execution_duration_seconds")
        self._profile = profile.scheduler_name
        self._succeeded: dict[str, Histogram] = {}

    def wrap_for(self, seed: int) -> Wrap:
        return self._timed if is_sampled(seed) else unwrapped

    def _timed(self, point: str, plugin: str, method: M) -> M:
        return cast(M, partial(self._call, point, plugin, method))

    def _call(self, point: str, plugin: str, method: Callable[..., Any], *args: object) -> Any:
        began_ns = self._now_ns()
        status = ERROR
        try:
            answer = method(*args)
            status = status_of(answer)
        finally:
            self._calls.series(plugin, point, status).observe_ns(self._now_ns() - began_ns)
        return answer

    def ended(self, point: str, status: str, began_ns: int) -> int:
        now_ns = self._now_ns()
        series = self._succeeded.get(point) if status is SUCCESS else None
        if series is None:
            series = self._durations.series(point, status, self._profile)
            if status is SUCCESS:
                self._succeeded[point] = series
        series.observe_ns(now_ns - began_ns)
        return now_ns

    def hinted(self, plugin: str, event: str, outcome: str, began_ns: int) -> None:
        self._hints.series(plugin, event, outcome).observe_ns(self._now_ns() - began_ns)

    def pre_filtered(self, left_out: Set[str], rejection: Rejection | None) -> None:
        if rejection is not None and rejection.code is Code.UnschedulableAndUnresolvable:
            self.evaluations.refused(frozenset(left_out), rejection.plugin)
        else:
            self.evaluations.pre_filtered(frozenset(left_out))

    def filtered(self, left_out: Set[str], first: NDArray[np.int8], alive: int) -> None:
        passed = int(np.count_nonzero(first == PASSED))
        if passed == alive:
            self.evaluations.all_passed(frozenset(left_out), passed)
        else:
            self.evaluations.rejected(frozenset(left_out), first, passed)

    def scored(self, left_out: Set[str], nodes: int) -> None:
        self.evaluations.scored(frozenset(left_out), nodes)
