"""The SDK behind the spans: what a collector receives, and a collector that is not there."""

import logging
import socket
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1 import trace_service_pb2_grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from build import a_node, a_pod
from mooring.cli.recording_options import start_tracing
from mooring.framework import config
from mooring.framework.config.types import TracingConfiguration
from mooring.framework.contract.intents import Bind
from mooring.kit.clock import SteadyClock
from mooring.scheduler.inputs import BindAnswered, ObjectAdded
from mooring.scheduler.observer import Observer, SchedulerListeners
from mooring.serve import open_telemetry
from mooring.serve.tracing import (
    Tracing,
    TracingError,
    TracingSettings,
    tracing_settings,
)
from mooring.state.scheduler_assembly import build_scheduler
from otlp_receiver import ReceivedSpan, a_receiver, received
from recording_server import nowhere
from span_reading import NO_PLUGINS_NS

POINTS = ["PreFilter", "Filter", "PreScore", "Score", "Reserve", "Permit", "PreBind", "Bind", "PostBind"]


@contextmanager
def tracing(settings: TracingSettings | None, reports: list[str] | None = None) -> Iterator[Tracing]:
    found = start_tracing(settings, NO_PLUGINS_NS, (reports if reports is not None else []).append)
    try:
        yield found
    finally:
        found.close()


def schedule(tracing: Tracing, pods: int = 1) -> None:
    """Bind so many pods."""
    clock = SteadyClock()
    observer, _ = tracing.observe(Observer(), clock)
    scheduler = build_scheduler(config.default(), clock, listeners=SchedulerListeners(observer=observer))
    for name in ("n1", "n2"):
        scheduler.handle(ObjectAdded(a_node(name, cpu="1000", pods=10000)))
    for i in range(pods):
        metadata = {"uid": f"uid-{i}"}
        scheduler.handle(ObjectAdded(a_pod(f"p{i}", cpu="1m", metadata=metadata, schedulerName="default-scheduler")))
        scheduler.attempt()
        for intent in scheduler.take_intents():
            if isinstance(intent, Bind):
                scheduler.handle(BindAnswered(intent.pod))


def by_variables(monkeypatch: pytest.MonkeyPatch, **variables: str) -> TracingSettings:
    """The SDK reads some of them itself."""
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    settings = tracing_settings(None, variables)
    assert settings is not None
    return settings


def check_trace(spans: list[ReceivedSpan]) -> None:
    (root,) = (span for span in spans if not span.parent_id)
    assert (root.name, root.scope, root.attributes["k8s.pod.name"]) == ("Scheduling", "mooring.scheduler", "p0")
    assert [span.name for span in sorted(spans, key=lambda span: span.began_ns) if span.parent_id] == POINTS
    assert {span.trace_id for span in spans} == {root.trace_id}
    assert {span.parent_id for span in spans if span is not root} == {root.span_id}
    assert all(root.began_ns <= span.began_ns <= span.ended_ns <= root.ended_ns for span in spans)


def test_a_collector_over_http(monkeypatch: pytest.MonkeyPatch) -> None:
    with a_receiver() as receiver:
        settings = by_variables(
            monkeypatch,
            OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url,
            OTEL_EXPORTER_OTLP_HEADERS="authorization=Bearer%20x",
            OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=test,k8s.cluster.name=c1",
        )
        with tracing(settings) as found:
            schedule(found)
        check_trace(receiver.spans)
        ((path, headers),) = receiver.requests
        assert (path, headers["content-type"]) == ("/v1/traces", "application/x-protobuf")
        assert headers["authorization"] == "Bearer x"
        resource = receiver.spans[0].resource
        assert resource["service.name"] == "mooring" and resource["service.version"]
        assert resource["service.instance.id"] == socket.gethostname()
        assert (resource["deployment.environment.name"], resource["k8s.cluster.name"]) == ("test", "c1")


def test_the_name_of_the_service(monkeypatch: pytest.MonkeyPatch) -> None:
    with a_receiver() as receiver:
        settings = by_variables(
            monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url, OTEL_SERVICE_NAME="second-scheduler"
        )
        with tracing(settings) as found:
            schedule(found)
        assert {span.resource["service.name"] for span in receiver.spans} == {"second-scheduler"}


class Collector(trace_service_pb2_grpc.TraceServiceServicer):
    def __init__(self) -> None:
        self.spans: list[ReceivedSpan] = []

    def Export(self, request: ExportTraceServiceRequest, context: Any) -> ExportTraceServiceResponse:
        self.spans += received(request)
        return ExportTraceServiceResponse()


def test_the_section_exports_by_grpc() -> None:
    collector = Collector()
    server = grpc.server(ThreadPoolExecutor(2))
    add_to_server: Any = trace_service_pb2_grpc.add_TraceServiceServicer_to_server
    add_to_server(collector, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        section = TracingConfiguration(endpoint=f"127.0.0.1:{port}", sampling_rate_per_million=1_000_000)
        with tracing(tracing_settings(section, {})) as found:
            schedule(found)
        check_trace(collector.spans)
    finally:
        server.stop(None).wait()


def test_the_console(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    with tracing(by_variables(monkeypatch, OTEL_TRACES_EXPORTER="console")) as found:
        schedule(found)
    out = capsys.readouterr().out
    assert out.count('"name": "Scheduling"') == 1 and out.count('"parent_id": "0x') == len(POINTS)


# ---- a collector that does not work


def test_a_collector_that_is_not_there_costs_one_line_and_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[str] = []
    variables = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": nowhere(),
        "OTEL_BSP_SCHEDULE_DELAY": "50",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "0.2",
        "OTEL_BSP_MAX_QUEUE_SIZE": "100",
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "10",
    }
    monkeypatch.setattr(open_telemetry, "CLOSING_S", 0.3)
    with tracing(by_variables(monkeypatch, **variables), reports) as found:
        schedule(found, pods=100)
        deadline_s = time.monotonic() + 20
        while not reports and time.monotonic() < deadline_s:
            time.sleep(0.01)
        began_s = time.monotonic()
    assert time.monotonic() - began_s < 10, "the end does not wait for the collector"
    (report,) = reports
    assert report.startswith("Tracing: ") and "\n" not in report and len(report) < 400


def test_a_collector_that_refuses_is_reported_once_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[str] = []
    now_s = [1000.0]
    monkeypatch.setattr("mooring.serve.open_telemetry.time.monotonic", lambda: now_s[0])
    handler = open_telemetry.ExportFaults(reports.append)
    log = logging.Logger("opentelemetry.test")
    log.addHandler(handler)
    for _ in range(50):
        log.warning("Failed to export span batch code: %s", 503)
    log.info("nothing to see")
    now_s[0] += 59
    log.error("Failed")
    now_s[0] += 2
    try:
        raise ConnectionError("refused\nby the host" + "x" * 1000)
    except ConnectionError:
        log.exception("Exception while exporting Span.")
    first, second = reports
    assert first == "Tracing: Failed to export span batch code: 503"
    assert second.startswith("Tracing: Exception while exporting Span. refused") and "\n" not in second
    assert second.endswith(" (50 more warnings since the last)") and len(second) < 400


def test_the_warnings_of_the_sdk_go_nowhere_else(monkeypatch: pytest.MonkeyPatch) -> None:
    log = logging.getLogger("opentelemetry")
    before = list(log.handlers)
    with a_receiver() as receiver:
        settings = by_variables(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=receiver.url)
        with tracing(settings):
            (added,) = (handler for handler in log.handlers if handler not in before)
            assert not log.propagate
        assert added not in log.handlers and log.propagate is not bool(log.handlers)


# ---- the extra


def test_without_settings_the_sdk_is_not_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mooring.serve.open_telemetry", None)
    with tracing(None) as found:
        observer = Observer()
        assert found.observe(observer, SteadyClock())[0] is observer


MISSING = {
    "the SDK": "opentelemetry.sdk.trace",
    "the exporter": "opentelemetry.exporter.otlp.proto.grpc.trace_exporter",
}


@pytest.mark.parametrize("module", MISSING.values(), ids=MISSING.keys())
def test_a_package_that_is_missing(module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "mooring.serve.open_telemetry")
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(TracingError) as refused:
        start_tracing(TracingSettings(1.0, source="the tracing section"), 0, print)
    assert str(refused.value) == (
        "the tracing section turns tracing on, which needs the OpenTelemetry SDK: pip install 'mooring[tracing]'"
    )
