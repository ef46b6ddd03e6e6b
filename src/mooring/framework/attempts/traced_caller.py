"""The plugin callers of a scheduler that traces attempts: `TracingCaller` for a profile, `TracedCaller` for one attempt.

Attempts that are not sampled get the caller that is below, metered or plain, so that they pay for one look-up only.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import partial
from typing import Any, cast

import msgspec

from mooring.framework.contract.plugin_caller import ERROR, SUCCESS, M, PluginCaller, Wrap
from mooring.kit.callbacks import forward
from mooring.kit.clock import NS_PER_S, Clock
from mooring.kit.spans import Attributes, TraceSpan

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
