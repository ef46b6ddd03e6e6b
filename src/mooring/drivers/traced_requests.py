"""The spans of requests that an attempt leads to: writes to the API server and calls to extenders.

A request of an attempt that is traced carries a W3C traceparent header, so that spans of the server belong to the same trace.
Requests of all other attempts go the usual way.
"""

from types import TracebackType
from typing import Protocol, Self

import msgspec

from mooring.api.api_errors import ApiError
from mooring.framework.attempts.observing_callers import AttemptTrace
from mooring.kit.clock import Clock
from mooring.kit.spans import NO_ATTRIBUTES, Attributes, TraceSpan
from mooring.scheduler.failure import cut
from mooring.scheduler.traces import SchedulerTraces

METHOD, PATH, CODE, SERVER = "http.request.method", "url.path", "http.response.status_code", "server.address"
"""Names of OpenTelemetry's semantic conventions. Paths, not URLs: a URL may have credentials in it."""


class RequestSpan:
    """The span of a request, which ends with the block; `_NO_SPAN` records nothing. What the block raises is the fault of the
    request; its text is cut, because a server may say anything."""

    __slots__ = ("_clock", "_fault", "_span")

    def __init__(self, span: TraceSpan | None = None, clock: Clock | None = None) -> None:
        self._span = span
        self._clock = clock
        self._fault: str | None = None

    @property
    def traceparent(self) -> str:
        """The header for the server; empty if nothing is traced."""
        return self._span.traceparent if self._span is not None else ""

    def fail(self, fault: str) -> None:
        """The request failed, although nothing is raised."""
        self._fault = fault

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._span is None or self._clock is None:
            return
        if isinstance(error, ApiError):
            self._span.set({CODE: error.code})
            self._fault = error.message
        elif error is not None:
            self._fault = f"{type(error).__name__}: {error}"
        self._span.end(self._clock.now_ns(), None if self._fault is None else cut(self._fault))


_NO_SPAN = RequestSpan()


class Sender(Protocol):
    """Sends single requests: a LeanClient, or one around it that traces them."""

    async def send(
        self, method: str, path: str, body: bytes, content_type: str = "application/json", traceparent: str = ""
    ) -> bytes: ...


class RequestTraces:
    """Spans that drivers put around their requests. Without the traces of a scheduler, nothing is traced."""

    def __init__(self, traces: SchedulerTraces | None = None, clock: Clock | None = None) -> None:
        self._traces = traces
        self._clock = clock

    def span(self, pod_id: str, name: str, attributes: Attributes = NO_ATTRIBUTES, *, is_awaited: bool) -> RequestSpan:
        """The context of a request that an attempt of the pod leads to; `is_awaited`: the attempt waits for the answer."""
        trace = self._traces.of(pod_id) if self._traces is not None else None
        if trace is None or self._clock is None:
            return _NO_SPAN
        return _begun(trace, self._clock, name, attributes, is_awaited)

    def sender(self, sender: Sender, pod_id: str, *, is_awaited: bool) -> Sender:
        """The sender for requests of an attempt: the given one, unless the attempt is traced."""
        trace = self._traces.of(pod_id) if self._traces is not None else None
        if trace is None or self._clock is None:
            return sender
        return _TracedSender(sender, trace, self._clock, is_awaited)


NO_TRACES = RequestTraces()


def _begun(trace: AttemptTrace, clock: Clock, name: str, attributes: Attributes, is_awaited: bool) -> RequestSpan:
    return RequestSpan(trace.request(name, clock.now_ns(), attributes, is_awaited=is_awaited), clock)


class _TracedSender(msgspec.Struct, frozen=True):
    """Sends requests of one attempt, each as a span."""

    sender: Sender
    trace: AttemptTrace
    clock: Clock
    is_awaited: bool

    async def send(
        self, method: str, path: str, body: bytes, content_type: str = "application/json", traceparent: str = ""
    ) -> bytes:
        name, about = f"{method} {resource_of_path(path)}", {METHOD: method, PATH: path}
        with _begun(self.trace, self.clock, name, about, self.is_awaited) as span:
            return await self.sender.send(method, path, body, content_type, span.traceparent)


def resource_of_path(path: str) -> str:
    """`pods/binding` for /api/v1/namespaces/default/pods/web-0/binding: names of spans have no names of objects in them."""
    parts = path.split("/")[3 if path.startswith("/api/") else 4 :]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    return "/".join((*parts[:1], *parts[2:]))
