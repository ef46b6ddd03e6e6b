"""Spans by the OpenTelemetry SDK, which the extra `tracing` installs. No other module imports it.

A thread of the SDK exports spans in batches, from a queue with a limit: the event loop never waits for a collector. If the
collector is down the oldest spans are dropped, and the log says so once a minute.
"""

import logging
import socket
import sys
import threading
import time
from collections.abc import Callable
from random import Random

from opentelemetry.context import Context
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, ConsoleSpanExporter, SpanExporter
from opentelemetry.sdk.trace.id_generator import RandomIdGenerator
from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
from opentelemetry.trace import Span, SpanKind, StatusCode, set_span_in_context
from opentelemetry.trace import Tracer as ApiTracer

from mooring.drivers.traced_requests import RequestTraces
from mooring.kit.callbacks import Tell
from mooring.kit.clock import Clock
from mooring.kit.logs import one_line
from mooring.kit.spans import NO_ATTRIBUTES, Attributes
from mooring.kit.version import VERSION
from mooring.scheduler.observer import Observer
from mooring.scheduler.traces import SchedulerTraces
from mooring.serve.tracing import SERVICE_NAME, Tracing, TracingSettings

_sdk_log = logging.getLogger("opentelemetry")

SCOPE = "mooring.scheduler"
"""The instrumentation scope of all spans."""
CLOSING_S = 3.0
"""How long the end of the process waits for the last spans: Kubernetes kills a container 30 s after SIGTERM, and the lease is
released before."""
_QUIET_S = 60.0
"""At most one line in this time says that spans cannot be exported."""
_SHOWN_CHARACTERS = 300
"""Characters of the text of a fault that are shown."""


class OpenTelemetryTracing(Tracing):
    """A provider with its exporters."""

    def __init__(self, settings: TracingSettings, threshold_ns: int, report: Tell) -> None:
        self._threshold_ns = threshold_ns
        self._log = ExportFaults(report)
        _sdk_log.addHandler(self._log)
        _sdk_log.propagate = False
        self.tracer = SampledTracer(settings.ratio, _resource())
        for exporter in settings.exporters:
            self.tracer.provider.add_span_processor(BatchSpanProcessor(_exporter(exporter, settings)))

    def observe(self, observer: Observer, clock: Clock) -> tuple[Observer, RequestTraces]:
        traces = SchedulerTraces(observer, self.tracer, clock, self._threshold_ns)
        return traces, RequestTraces(traces, clock)

    def close(self) -> None:
        """The SDK may wait for half a minute, so a thread that ends with the process waits instead."""
        ending = threading.Thread(target=self._end, name="end of tracing", daemon=True)
        ending.start()
        ending.join(CLOSING_S)

    def _end(self) -> None:
        self.tracer.provider.shutdown()
        _sdk_log.removeHandler(self._log)
        _sdk_log.propagate = not _sdk_log.handlers


def _resource() -> Resource:
    """The source of the spans. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES have precedence."""
    host = socket.gethostname()
    about = {"service.name": SERVICE_NAME, "service.version": VERSION, "service.instance.id": host}
    return Resource(about).merge(OTELResourceDetector().detect())


def _exporter(name: str, settings: TracingSettings) -> SpanExporter:
    """Imports what is needed: the one for gRPC takes 0.1 s and 20 MiB more than the other."""
    if name == "console":
        return ConsoleSpanExporter(out=sys.stdout)
    if settings.protocol == "http/protobuf":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpExporter

        return HttpExporter()
    from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcExporter

    if settings.endpoint is None:
        return GrpcExporter()  # the variables decide, or http://localhost:4317
    # Parity: no TLS for the endpoint of the section, as upstream.
    return GrpcExporter(endpoint=settings.endpoint, insecure=True)


# ---- spans


class _PreparedIds(RandomIdGenerator):
    """The id of the next trace is drawn when it is sampled, before the SDK is asked for a span."""

    trace_id = 0

    def generate_trace_id(self) -> int:
        return self.trace_id


class SampledTracer:
    """Draws an id for each attempt; the sampler's bound says whether the attempt is traced (TraceIdRatioBased).

    Hot: 0.2 µs for an attempt that is not. The SDK would take 4 µs to begin a span that is not recorded.
    """

    def __init__(self, ratio: float, resource: Resource, draw: Callable[[int], int] | None = None) -> None:
        """`draw` returns an integer with so many random bits."""
        sampler = TraceIdRatioBased(ratio)
        self._bound, self._mask = sampler.bound, sampler.TRACE_ID_LIMIT
        self._draw = draw or Random().getrandbits
        self._ids = _PreparedIds()
        self.provider = TracerProvider(ParentBased(sampler), resource, shutdown_on_exit=False, id_generator=self._ids)
        self._tracer = self.provider.get_tracer(SCOPE, VERSION)

    def sample(self) -> int | None:
        trace_id = self._draw(128)
        return trace_id if trace_id & self._mask < self._bound and trace_id else None

    def begin(
        self, trace_id: int, name: str, began_ns: int, attributes: Attributes = NO_ATTRIBUTES
    ) -> "OpenTelemetrySpan":
        self._ids.trace_id = trace_id
        span = self._tracer.start_span(_whole(name), Context(), attributes=_sendable(attributes), start_time=began_ns)
        return OpenTelemetrySpan(self._tracer, span, began_ns)


class OpenTelemetrySpan:
    """A TraceSpan. Its context is passed on explicitly: the SDK's current context is never used."""

    __slots__ = ("_began_ns", "_context", "_span", "_tracer")

    def __init__(self, tracer: ApiTracer, span: Span, began_ns: int) -> None:
        self._tracer = tracer
        self._span = span
        self._began_ns = began_ns
        self._context: Context | None = None

    @property
    def traceparent(self) -> str:
        context = self._span.get_span_context()
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def child(
        self, name: str, began_ns: int, attributes: Attributes = NO_ATTRIBUTES, *, is_request: bool = False
    ) -> "OpenTelemetrySpan":
        if self._context is None:
            self._context = set_span_in_context(self._span, Context())
        kind = SpanKind.CLIENT if is_request else SpanKind.INTERNAL
        span = self._tracer.start_span(_whole(name), self._context, kind, _sendable(attributes), start_time=began_ns)
        return OpenTelemetrySpan(self._tracer, span, began_ns)

    def set(self, attributes: Attributes) -> None:
        self._span.set_attributes(_sendable(attributes))

    def note(self, name: str, at_ns: int, attributes: Attributes = NO_ATTRIBUTES) -> None:
        self._span.add_event(_whole(name), _sendable(attributes), at_ns)

    def end(self, ended_ns: int, fault: str | None = None) -> None:
        """The clock of a machine may go back: a span does not end before it begins."""
        if fault is not None:
            self._span.set_status(StatusCode.ERROR, _whole(fault))
        self._span.end(max(ended_ns, self._began_ns))


def _whole(text: str) -> str:
    """The text with `?` for half characters (lone surrogates). Servers and plugins may say anything, and one such text would
    make the exporter fail, with all spans of its batch."""
    return text if text.isascii() else text.encode(errors="replace").decode()


def _sendable(attributes: Attributes) -> Attributes:
    return {name: _whole(value) if isinstance(value, str) else value for name, value in attributes.items()}


# ---- what the SDK logs


class ExportFaults(logging.Handler):
    """Reports the warnings of the SDK: the first at once, then one in a minute with the number of those in between."""

    def __init__(self, report: Tell) -> None:
        super().__init__(logging.WARNING)
        self._report = report
        self._reported_s = -_QUIET_S
        self._held_back = 0

    def emit(self, record: logging.LogRecord) -> None:
        """Tell a warning of the exporter, at most once in _QUIET_S seconds. The next report tells how many were held
        back."""
        now_s = time.monotonic()
        if now_s - self._reported_s < _QUIET_S:
            self._held_back += 1
            return
        more = f" ({self._held_back} more warnings since the last)" if self._held_back else ""
        self._reported_s, self._held_back = now_s, 0
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            text = f"{text} {record.exc_info[1]}"
        self._report(f"Tracing: {one_line(text)[:_SHOWN_CHARACTERS]}{more}")
