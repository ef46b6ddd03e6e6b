"""The plugin caller that measures: extension points as wholes in every attempt, single plugin calls in a tenth of them.

Upstream samples a tenth as well (pluginMetricsSamplePercent).
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence, Set
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mooring.framework.contract.plugin_caller import ERROR, SUCCESS, M, PluginCaller, Wrap, unwrapped
from mooring.framework.contract.points import NoRoom, Plugin, Wait
from mooring.framework.contract.status import Code, Rejection, Sentinel
from mooring.framework.kept.feasible import PASSED
from mooring.framework.profile.profiles import Profile
from mooring.kit.clock import Clock
from mooring.kit.metrics import Histogram, MetricRegistry

_SCATTER = 2654435761
"""Knuth's multiplier: consecutive seeds are spread evenly over 32 bits, so that samples are spread over time."""
_TENTH = (1 << 32) // 10
"""A tenth of all 32-bit numbers."""

_STATUS = {code: code.name for code in Code}
"""Hot: an enum's `name` is a property, several times slower than a look-up."""


def is_sampled(seed: int) -> bool:
    """Whether the attempt with this seed is among the tenth whose plugin calls are measured. A function of the seed,
    so that a replay measures the same attempts."""
    return (seed * _SCATTER) & 0xFFFFFFFF < _TENTH


def status_of(answer: object) -> str:
    """The status label of metrics for a plugin's answer."""
    if isinstance(answer, NoRoom):
        answer = answer.rejection
    if isinstance(answer, Rejection):
        return _STATUS[answer.code]
    if isinstance(answer, Sentinel):
        return Code.Skip.name
    return Code.Wait.name if isinstance(answer, Wait) else SUCCESS


class MeteredCaller(PluginCaller):
    """Calls the plugins of one profile, and records how long that takes and what comes of it."""

    measures = True

    def __init__(self, clock: Clock, registry: MetricRegistry, profile: Profile) -> None:
        self.began = clock.now_ns  # type: ignore[method-assign]  # Hot: one call less for each extension point
        self.evaluations = Evaluations(profile)
        self._now_ns = clock.now_ns
        self._calls = registry.histogram("scheduler_plugin_execution_duration_seconds")
        self._durations = registry.histogram("scheduler_framework_extension_point_duration_seconds")
        self._hints = registry.histogram("scheduler_queueing_hint_execution_duration_seconds")
        self._profile = profile.scheduler_name
        self._succeeded: dict[str, Histogram] = {}
        """Hot: the series of the usual status by extension point, so that labels are not joined each time."""

    def wrap_for(self, seed: int) -> Wrap:
        return self._timed if is_sampled(seed) else unwrapped

    def wrap_always(self) -> Wrap:
        return self._timed

    def _timed(self, point: str, plugin: str, method: M) -> M:
        return cast(M, partial(self._call, point, plugin, method))

    def _call(self, point: str, plugin: str, method: Callable[..., Any], *args: object) -> Any:
        """Call the method and record its duration, under Error if it raises."""
        began_ns = self._now_ns()
        status = ERROR
        try:
            answer = method(*args)
            status = status_of(answer)
        finally:
            self._calls.series(plugin, point, status).observe_ns(self._now_ns() - began_ns)
        return answer

    def ended(self, point: str, status: str, began_ns: int) -> int:
        """Record the duration of an extension point in its histogram. Returns the present time in nanoseconds."""
        now_ns = self._now_ns()
        if status is SUCCESS:
            series = self._succeeded.get(point) or self._success_of(point)
        else:
            series = self._durations.series(point, status, self._profile)
        series.observe_ns(now_ns - began_ns)
        return now_ns

    def skipped_points(self, points: Sequence[str]) -> int:
        for point in points:
            series = self._succeeded.get(point) or self._success_of(point)
            series.observe_ns(0)
        return self._now_ns()

    def _success_of(self, point: str) -> Histogram:
        series = self._succeeded[point] = self._durations.series(point, SUCCESS, self._profile)
        return series

    def hints_known(self, plugin: str, event: str, outcome: str, count: int) -> None:
        self._hints.series(plugin, event, outcome).observe_zero(count)

    def hinted(self, plugin: str, event: str, outcome: str, began_ns: int) -> None:
        self._hints.series(plugin, event, outcome).observe_ns(self._now_ns() - began_ns)

    def pre_filtered(self, left_out: Set[str], rejection: Rejection | None) -> None:
        """Parity: upstream stops PreFilter at a rejection that is UnschedulableAndUnresolvable; after others it asks
        the remaining plugins."""
        if rejection is not None and rejection.code is Code.UnschedulableAndUnresolvable:
            self.evaluations.refused(frozenset(left_out), rejection.plugin)
        else:
            self.evaluations.pre_filtered(frozenset(left_out))

    def all_passed(self, left_out: Set[str], nodes: int) -> None:
        self.evaluations.all_passed(frozenset(left_out), nodes)

    def filtered(self, left_out: Set[str], first: NDArray[np.int8], alive: int) -> None:
        passed = int(np.count_nonzero(first == PASSED))
        if passed == alive:
            self.all_passed(left_out, passed)
        else:
            self.evaluations.rejected(frozenset(left_out), first, passed)

    def scored(self, left_out: Set[str], nodes: int) -> None:
        self.evaluations.scored(frozenset(left_out), nodes)


# ---- How often each plugin of a profile was evaluated, at PreFilter, Filter, PreScore and Score


LeftOut = frozenset[str]
"""The plugins that skipped the attempt, at PreFilter or PreScore."""


class Evaluations:
    """Counts attempts and nodes by the set of plugins that were left out, and adds them up for each plugin when metrics
    are read.

    Kept answers count as well: upstream would have asked the plugin, and the metric is compared with upstream's. Hot:
    two sums an attempt, whatever the number of plugins.
    """

    def __init__(self, profile: Profile) -> None:
        self._pre_filters = _names(profile.pre_filters)
        self._filters = _names(profile.filters)
        self._pre_scores = _names(profile.pre_scores)
        self._scores = _names(profile.scores)
        self.clear()

    def clear(self) -> None:
        """Begin to count anew, also when metrics are reset."""
        self._pre_filtered: defaultdict[LeftOut, int] = defaultdict(int)
        self._filtered: defaultdict[LeftOut, int] = defaultdict(int)
        self._pre_scored: defaultdict[LeftOut, int] = defaultdict(int)
        self._scored: defaultdict[LeftOut, int] = defaultdict(int)
        self._others: defaultdict[tuple[str, str], int] = defaultdict(int)
        """(Plugin, point): evaluations of attempts in which some plugins saw fewer nodes than others."""

    def take_over(self, other: "Evaluations") -> None:
        """Go on with the counts of a profile that this one replaces."""
        for plugin_and_point, count in other.read().items():
            self._others[plugin_and_point] += count

    def pre_filtered(self, left_out: LeftOut) -> None:
        self._pre_filtered[left_out] += 1

    def refused(self, left_out: LeftOut, by: str) -> None:
        """PreFilter rejected the pod, so the plugins after that one were not asked."""
        for name in self._pre_filters:
            if name not in left_out:
                self._others[name, "PreFilter"] += 1
            if name == by:
                return

    def all_passed(self, left_out: LeftOut, nodes: int) -> None:
        """No filter rejected any of so many nodes."""
        self._filtered[left_out] += nodes

    def rejected(self, left_out: LeftOut, first: NDArray[np.int8], passed: int) -> None:
        """Some nodes were rejected, each by the filter with this index in `first`. A filter is evaluated on the nodes
        that all filters before it passed.

        Nodes that were not looked at have a negative number.
        """
        left = int(np.count_nonzero(first >= 0))
        rejections = left - passed
        for index, name in enumerate(self._filters):
            if name in left_out:
                continue
            self._others[name, "Filter"] += left
            if rejections:  # Hot: one or two filters reject, and all numbers at once take twice as long
                rejected = int(np.count_nonzero(first == index))
                left, rejections = left - rejected, rejections - rejected

    def scored(self, left_out: LeftOut, nodes: int) -> None:
        self._pre_scored[left_out] += 1
        self._scored[left_out] += nodes

    def read(self) -> dict[tuple[str, str], int]:
        """By plugin and point, with 0 for plugins that were never evaluated."""
        counted: dict[tuple[str, str], int] = {}
        for point, names, sums in (
            ("PreFilter", self._pre_filters, self._pre_filtered),
            ("Filter", self._filters, self._filtered),
            ("PreScore", self._pre_scores, self._pre_scored),
            ("Score", self._scores, self._scored),
        ):
            for name in names:
                having_say = (count for left_out, count in sums.items() if name not in left_out)
                counted[name, point] = sum(having_say) + self._others.get((name, point), 0)
        return counted


def _names(plugins: Iterable[Plugin]) -> Sequence[str]:
    return tuple(plugin.name for plugin in plugins)
