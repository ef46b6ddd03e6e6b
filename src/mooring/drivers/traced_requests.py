"""The spans of requests that an attempt leads to: writes to the API server and calls to extenders.

A request of an attempt that is traced carries a W3C traceparent header, so that spans of the server belong to the same trace.
Requests of all other attempts go the usual way.
"""

from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import msgspec

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.drivers.api_writer import ApiWriter, Sender, Writer
from mooring.drivers.extender_calls import ExtenderAsker
from mooring.framework.attempts.traced_caller import AttemptTrace
from mooring.framework.contract.intents import Call, CallFault, CallReply
from mooring.kit.clock import Clock
from mooring.kit.spans import NO_ATTRIBUTES, Attributes, TraceSpan
from mooring.model.pod import Pod
from mooring.scheduler.failure import cut
from mooring.scheduler.traces import SchedulerTraces

METHOD, PATH, CODE, SERVER = "http.request.method", "url.path", "http.response.status_code", "server.address"
"""Names of OpenTelemetry's semantic conventions. Paths, not URLs: a URL may have credentials in it."""

_NO_SPAN = nullcontext()


class RequestTraces:
    """What drivers put around their requests. This one traces none: base class and default."""

    def writer(self, writer: Writer) -> Writer:
        """The writer that a driver is to use instead of this one."""
        return writer

    def asker(self, asker: ExtenderAsker) -> ExtenderAsker:
        """The same for the client that calls extenders."""
        return asker

    def write(self, pod_id: str, name: str, *, is_awaited: bool) -> AbstractContextManager[object]:
        """A context in which something is written without a request: the API server is in this process."""
        return _NO_SPAN


class SampledRequests(RequestTraces):
    """Traces the requests of attempts that are traced."""

    def __init__(self, traces: SchedulerTraces, clock: Clock) -> None:
        self._traces = traces
        self._clock = clock

    def writer(self, writer: Writer) -> Writer:
        """A dry run sends no requests: its writer stays as it is."""
        return _TracedWriter(writer, self) if isinstance(writer, ApiWriter) else writer

    def asker(self, asker: ExtenderAsker) -> ExtenderAsker:
        return _TracedAsker(asker, self)

    def write(self, pod_id: str, name: str, *, is_awaited: bool) -> AbstractContextManager[object]:
        trace = self._traces.of(pod_id)
        return _NO_SPAN if trace is None else self.span(trace, name, is_awaited=is_awaited)

    def of(self, pod_id: str) -> AttemptTrace | None:
        return self._traces.of(pod_id)

    def span(
        self, trace: AttemptTrace, name: str, attributes: Attributes = NO_ATTRIBUTES, *, is_awaited: bool
    ) -> "RequestSpan":
        span = trace.request(name, self._clock.now_ns(), attributes, is_awaited=is_awaited)
        return RequestSpan(span, self._clock)


class RequestSpan:
    """The span of a request, which ends with the block. What the block raises is the fault of the request; its text is cut,
    because a server may say anything."""

    __slots__ = ("_clock", "_fault", "_span")

    def __init__(self, span: TraceSpan, clock: Clock) -> None:
        self._span = span
        self._clock = clock
        self._fault: str | None = None

    @property
    def traceparent(self) -> str:
        return self._span.traceparent

    def fail(self, fault: str) -> None:
        """The request failed, although nothing is raised."""
        self._fault = fault

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, ApiError):
            self._span.set({CODE: error.code})
            self._fault = error.message
        elif error is not None:
            self._fault = f"{type(error).__name__}: {error}"
        self._span.end(self._clock.now_ns(), None if self._fault is None else cut(self._fault))


# ---- the API server


class _TracedWriter:
    """A Writer whose requests are traced where the attempt is. Events are not: they are written long after it."""

    def __init__(self, writer: ApiWriter, requests: SampledRequests) -> None:
        self._writer = writer
        self._requests = requests
        self.create_event, self.patch_event = writer.create_event, writer.patch_event
        self.write = writer.write

    def for_pod(self, pod_id: str) -> Writer:
        trace = self._requests.of(pod_id)
        if trace is None:
            return self._writer
        writer, requests = self._writer, self._requests
        return msgspec.structs.replace(
            writer,
            binder=_TracedSender(writer.binder, trace, requests, is_awaited=True),
            statuses=_TracedSender(writer.statuses, trace, requests, is_awaited=False),
            objects=_TracedSender(writer.objects, trace, requests, is_awaited=True),
        )

    async def bind(self, pod: Pod, node_name: str) -> None:
        await self.for_pod(pod.id).bind(pod, node_name)

    async def read_pod(self, pod: Pod) -> JsonObject | None:
        return await self.for_pod(pod.id).read_pod(pod)

    async def patch_status(self, pod: Pod, patch: JsonObject) -> None:
        await self.for_pod(pod.id).patch_status(pod, patch)

    async def delete(self, pod: Pod) -> None:
        await self.for_pod(pod.id).delete(pod)


class _TracedSender(msgspec.Struct, frozen=True):
    """Sends requests of one attempt, each as a span."""

    sender: Sender
    trace: AttemptTrace
    requests: SampledRequests
    is_awaited: bool
    """Whether the attempt waits for the answers."""

    async def send(
        self, method: str, path: str, body: bytes, content_type: str = "application/json", traceparent: str = ""
    ) -> bytes:
        name, about = f"{method} {resource_of_path(path)}", {METHOD: method, PATH: path}
        with self.requests.span(self.trace, name, about, is_awaited=self.is_awaited) as span:
            return await self.sender.send(method, path, body, content_type, span.traceparent)


def resource_of_path(path: str) -> str:
    """`pods/binding` for /api/v1/namespaces/default/pods/web-0/binding: names of spans have no names of objects in them."""
    parts = path.split("/")[3 if path.startswith("/api/") else 4 :]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    return "/".join((*parts[:1], *parts[2:]))


# ---- extenders


class _TracedAsker(msgspec.Struct, frozen=True):
    """Calls extenders, each call as a span where the attempt is traced."""

    asker: ExtenderAsker
    requests: SampledRequests

    async def ask(self, call: Call, body: bytes, traceparent: str = "") -> CallReply:
        trace = self.requests.of(call.pod_id)
        if trace is None:
            return await self.asker.ask(call, body)
        url = urlsplit(call.url)
        about = {METHOD: "POST", PATH: url.path, SERVER: url.hostname or ""}
        with self.requests.span(trace, f"Extender {call.verb}", about, is_awaited=True) as span:
            reply = await self.asker.ask(call, body, span.traceparent)
            if isinstance(reply, CallFault):
                span.fail(reply.message)
            return reply

    async def close(self) -> None:
        await self.asker.close()
