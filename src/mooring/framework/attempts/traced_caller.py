"""The plugin callers of a scheduler that traces attempts: `TracingCaller` for a profile, `TracedCaller` for one attempt.

Attempts that are not sampled get the caller that is below, metered or plain, so that they pay for one look-up only.
"""

from collections.abc import Callable, Generator, Mapping, Sequence, Set
from functools import partial
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mooring.framework.attempts.attempt_trace import AttemptTrace
from mooring.framework.contract.plugin_caller import SUCCESS, M, PluginCaller, Wrap
from mooring.framework.contract.status import Rejection
from mooring.kit.clock import Clock


class _CallerAround(PluginCaller):
    """Passes everything on to another caller."""

    def __init__(self, inner: PluginCaller) -> None:
        self._inner = inner
        self.measures = inner.measures

    def wrap_for(self, seed: int) -> Wrap:
        return self._inner.wrap_for(seed)

    def wrap_always(self) -> Wrap:
        return self._inner.wrap_always()

    def began(self) -> int:
        return self._inner.began()

    def ended(self, point: str, status: str, began_ns: int) -> int:
        return self._inner.ended(point, status, began_ns)

    def skipped_points(self, points: Sequence[str]) -> int:
        return self._inner.skipped_points(points)

    def hints_skipped(self, plugin: str, event: str, count: int) -> None:
        self._inner.hints_skipped(plugin, event, count)

    def hinted(self, plugin: str, event: str, outcome: str, began_ns: int) -> None:
        self._inner.hinted(plugin, event, outcome, began_ns)

    def pre_filtered(self, left_out: Set[str], rejection: Rejection | None) -> None:
        self._inner.pre_filtered(left_out, rejection)

    def all_passed(self, left_out: Set[str], nodes: int) -> None:
        self._inner.all_passed(left_out, nodes)

    def filtered(self, left_out: Set[str], first: NDArray[np.int8], alive: int) -> None:
        self._inner.filtered(left_out, first, alive)

    def scored(self, left_out: Set[str], nodes: int) -> None:
        self._inner.scored(left_out, nodes)


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
