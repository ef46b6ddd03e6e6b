"""Plugin callers that observe calls. `MeteredCaller` measures extension points as wholes in every attempt, and single plugin
calls in a tenth of them, as upstream does (pluginMetricsSamplePercent).

A scheduler that traces attempts has a `TracingCaller` for each profile, and a `TracedCaller` for one attempt.

Attempts that are not sampled get the caller that is below, metered or plain, so that they pay for one look-up only.
"""

from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence, Set
from functools import partial
from typing import Any, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.framework.contract.plugin_caller import ERROR, SUCCESS, M, PluginCaller, Wrap, unwrapped
from mooring.framework.contract.points import NoRoom, Plugin, Wait
from mooring.framework.contract.status import Code, Rejection, Sentinel
from mooring.framework.kept.feasible import PASSED
from mooring.framework.profile.profiles import Profile
from mooring.kit.callbacks import forward
from mooring.kit.clock import NS_PER_S, Clock
from mooring.kit.metrics import Histogram, MetricRegistry
from mooring.kit.spans import Attributes, TraceSpan

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

    def point_known(self, point: str, count: int) -> None:
        (self._succeeded.get(point) or self._success_of(point)).observe_zero(count)

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


# ---- The trace of one attempt to schedule a pod, from the queue to the end of its binding cycle.
#
# The root span has a span below it for each extension point, and below those the plugins that took long. Requests
# that the attempt leads to (binds, writes of PreBind, statuses, extenders) are spans of the same trace, however late
# they come.


ROOT = "Scheduling"
"""Upstream's name for the steps of an attempt that it logs when they take long."""
WAIT_ON_PERMIT = "WaitOnPermit"

STATUS = "scheduler.status"
RESULT = "scheduler.result"
MESSAGE = "scheduler.message"
CALLS = "scheduler.plugin.calls"
BUSY = "scheduler.plugin.busy_s"

_STEP_AFTER = {"Permit": "PreBind", WAIT_ON_PERMIT: "PreBind", "PreBind": "Bind"}
"""The steps that wait for requests, by what ends before them."""
_LAST = "PostBind"


class _PluginCalls(msgspec.Struct):
    """The calls of one plugin at one extension point."""

    began_ns: int
    ended_ns: int
    busy_ns: int
    count: int = 1


class AttemptTrace:
    """The spans of one attempt. An extension point becomes a span when it ends, or when its first request begins."""

    __slots__ = ("_calls", "_ended", "_is_bound", "_step", "_threshold_ns", "root")

    def __init__(self, root: TraceSpan, threshold_ns: int) -> None:
        """Plugins that are busy for less than `threshold_ns` at an extension point have no span."""
        self.root = root
        self._threshold_ns = threshold_ns
        self._calls: dict[tuple[str, str], _PluginCalls] = {}
        self._ended = ("", 0)
        """The extension point that ended last, and when."""
        self._step: TraceSpan | None = None
        """The span of the present step of the binding cycle, if a request has begun in it."""
        self._is_bound = False

    def called(self, point: str, plugin: str, began_ns: int, ended_ns: int) -> None:
        """A plugin was called. One may be called thousands of times at a point: the calls share a span."""
        calls = self._calls.get((point, plugin))
        if calls is None:
            self._calls[point, plugin] = _PluginCalls(began_ns, ended_ns, ended_ns - began_ns)
        else:
            calls.ended_ns = ended_ns
            calls.busy_ns += ended_ns - began_ns
            calls.count += 1

    def point_ended(self, point: str, status: str, began_ns: int, now_ns: int) -> None:
        """An extension point, or the wait on Permit, is over. PostBind is the last of a pod that was bound."""
        span, self._step = self._step, None
        if span is None:
            span = self.root.child(point, began_ns, {STATUS: status})
        else:
            span.set({STATUS: status})
        self._show_plugins(span, point)
        span.end(now_ns, status if status == ERROR else None)
        self._ended = point, now_ns
        if self._is_bound and point == _LAST:
            self.root.end(now_ns)

    def _show_plugins(self, span: TraceSpan, point: str) -> None:
        """What-ifs of PostFilter call filters: plugins of another point have its name in front."""
        for (called_at, plugin), calls in self._calls.items():
            if calls.busy_ns >= self._threshold_ns:
                name = plugin if called_at == point else f"{called_at} {plugin}"
                about = {CALLS: calls.count, BUSY: calls.busy_ns / NS_PER_S}
                span.child(name, calls.began_ns, about).end(calls.ended_ns)
        self._calls.clear()

    def request(self, name: str, began_ns: int, attributes: Attributes, *, is_awaited: bool) -> TraceSpan:
        """A request begins. If the attempt waits for its answer, it is part of the present step: PreBind and Bind last until
        their requests are answered."""
        point, ended_ns = self._ended
        if is_awaited and point in _STEP_AFTER and self._step is None:
            self._step = self.root.child(_STEP_AFTER[point], ended_ns)
        above = self._step if is_awaited and self._step is not None else self.root
        return above.child(name, began_ns, attributes, is_request=True)

    def bound(self) -> None:
        """The pod is bound: PostBind ends the trace."""
        self._is_bound = True
        self.root.set({RESULT: "scheduled"})

    def failed(self, is_error: bool, message: str, now_ns: int) -> None:
        """The attempt is over, and the pod has no node."""
        self.root.set({RESULT: "error" if is_error else "unschedulable", MESSAGE: message})
        self.root.end(now_ns, message if is_error else None)


class _CallerAround(PluginCaller):
    """Passes on to another caller whatever it does not define itself."""

    def __init__(self, inner: PluginCaller) -> None:
        self._inner = inner
        self.measures = inner.measures
        forward(self, inner, PluginCaller)

    def for_attempt(self, pod_id: str) -> PluginCaller:
        return self


class TracingCaller(_CallerAround):
    """The caller of a profile. `traces` has the attempts that are traced, by id of the pod."""

    def __init__(self, inner: PluginCaller, traces: Mapping[str, AttemptTrace], clock: Clock) -> None:
        super().__init__(inner)
        self._traces = traces
        self._clock = clock

    def for_attempt(self, pod_id: str) -> PluginCaller:
        trace = self._traces.get(pod_id)
        return self._inner if trace is None else TracedCaller(self._inner, trace, self._clock)


class TracedCaller(_CallerAround):
    """The caller of one attempt that is traced. `clock` must be the one that the caller below measures with."""

    def __init__(self, inner: PluginCaller, trace: AttemptTrace, clock: Clock) -> None:
        super().__init__(inner)
        self.measures = True
        self._trace = trace
        self._now_ns = clock.now_ns

    def wrap_for(self, seed: int) -> Wrap:
        return self._around(self._inner.wrap_for(seed))

    def wrap_always(self) -> Wrap:
        return self._around(self._inner.wrap_always())

    def _around(self, wrap: Wrap) -> Wrap:
        def timed(point: str, plugin: str, method: M) -> M:
            return cast(M, partial(self._call, point, plugin, wrap(point, plugin, method)))

        return timed

    def _call(self, point: str, plugin: str, method: Callable[..., Any], *args: object) -> Any:
        """Call the method and note how long it takes, whatever it raises."""
        began_ns = self._now_ns()
        try:
            answer = method(*args)
        finally:
            self._trace.called(point, plugin, began_ns, self._now_ns())
        is_work = point == "PreBind" and isinstance(answer, Generator)
        return self._work(plugin, answer) if is_work else answer

    def _work(self, plugin: str, work: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """The work that PreBind returned, which goes on with the answers to its writes. It counts as another call."""
        began_ns = self._now_ns()
        try:
            return (yield from work)
        finally:
            self._trace.called("PreBind", plugin, began_ns, self._now_ns())

    def began(self) -> int:
        return self._now_ns()

    def ended(self, point: str, status: str, began_ns: int) -> int:
        self._inner.ended(point, status, began_ns)
        now_ns = self._now_ns()
        self._trace.point_ended(point, status, began_ns, now_ns)
        return now_ns

    def skipped_points(self, points: Sequence[str]) -> int:
        self._inner.skipped_points(points)
        now_ns = self._now_ns()
        for point in points:
            self._trace.point_ended(point, SUCCESS, now_ns, now_ns)
        return now_ns
