"""Tracing at its limits: what is sampled, when faults are reported, which packages are missing, and odd variables."""

import asyncio
import logging
import re
import threading
from typing import Any

import pytest
from opentelemetry.sdk.resources import Resource
from opentelemetry.trace import SpanKind, StatusCode

from mooring.cli.recording_options import start_tracing
from mooring.drivers.traced_requests import RequestTraces
from mooring.framework.config.types import TracingConfiguration
from mooring.kit.clock import VirtualClock
from mooring.scheduler.observer import Observer
from mooring.serve import open_telemetry
from mooring.serve.open_telemetry import OpenTelemetryTracing, SampledTracer
from mooring.serve.tracing import (
    PLUGIN_THRESHOLD,
    SERVICE_NAME,
    Tracing,
    TracingError,
    TracingSettings,
    tracing_settings,
)
from span_reading import RecordedSpans

SETTINGS = TracingSettings(1.0, (), source="the test")
HALF = 1 << 63
OTLP = {"OTEL_TRACES_EXPORTER": "otlp"}


# ---- packages


@pytest.mark.parametrize("package", ["opentelemetry.sdk", "google.protobuf", "grpc"])
def test_packages_that_the_extra_installs_are_named(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any) -> None:
        raise ModuleNotFoundError(f"No module named {package!r}", name=package)

    monkeypatch.setattr(open_telemetry, "OpenTelemetryTracing", missing)
    with pytest.raises(TracingError) as refused:
        start_tracing(SETTINGS, 0, print)
    assert str(refused.value) == (
        "the test turns tracing on, which needs the OpenTelemetry SDK: pip install 'mooring[tracing]'"
    )


@pytest.mark.parametrize("package", ["mooring.elsewhere", None])
def test_another_package_that_is_missing_is_a_bug(package: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: Any) -> None:
        raise ModuleNotFoundError("No module", name=package)

    monkeypatch.setattr(open_telemetry, "OpenTelemetryTracing", missing)
    with pytest.raises(ModuleNotFoundError):
        start_tracing(SETTINGS, 0, print)


# ---- samples and spans


@pytest.mark.parametrize(
    ("drawn", "is_sampled"), [(HALF - 1, True), (HALF, False), (0, False), (1, True), ((1 << 64) + 5, True)]
)
def test_half_of_all_ids_are_sampled(drawn: int, is_sampled: bool) -> None:
    """Only the lower 64 bits count; an id of zero is none."""
    asked: list[int] = []

    def draw(bits: int) -> int:
        asked.append(bits)
        return drawn

    tracer = SampledTracer(0.5, Resource({}), draw)
    assert tracer.sample() == (drawn if is_sampled else None)
    assert asked == [128]


def test_a_span_has_its_id_kind_times_and_fault() -> None:
    spans = RecordedSpans()
    root = spans.tracer.begin(7, "root", 1000, {"a": 1})
    assert re.fullmatch(r"00-0{31}7-[0-9a-f]{16}-0[13]", root.traceparent), "the flag of sampled traces is 1"
    asked, plain = root.child("asked", 1100, {"b": 2}, is_request=True), root.child("plain", 1200)
    asked.note("noted", 1150, {"c": 3})
    asked.set({"d": 4})
    asked.end(1050, "it failed")
    plain.end(1300)
    root.end(1400)
    first, second, last = spans.all
    assert (first.kind, second.kind, last.kind) == (SpanKind.CLIENT, SpanKind.INTERNAL, SpanKind.INTERNAL)
    assert (first.start_time, first.end_time) == (1100, 1100), "a clock that goes back ends no span before its start"
    assert (first.status.status_code, first.status.description) == (StatusCode.ERROR, "it failed")
    assert dict(first.attributes or {}) == {"b": 2, "d": 4} and dict(last.attributes or {}) == {"a": 1}
    ((name, at, keys),) = ((event.name, event.timestamp, dict(event.attributes or {})) for event in first.events)
    assert (name, at, keys) == ("noted", 1150, {"c": 3})
    assert (second.start_time, second.end_time, second.status.status_code) == (1200, 1300, StatusCode.UNSET)
    assert first.parent == second.parent == last.context and last.parent is None
    scope = last.instrumentation_scope
    assert scope is not None and scope.name == "mooring.scheduler" and scope.version


def test_nothing_is_traced_for_a_pod_without_an_attempt_that_is() -> None:
    spans, clock = RecordedSpans(), VirtualClock(0)
    requests = RequestTraces(spans.around(Observer(), clock), clock)
    with requests.span("nobody", "write", is_awaited=True) as found:
        assert found.traceparent == ""
        found.fail("nothing was recorded")
    assert spans.all == ()


class Client:
    """Notes what it sends."""

    def __init__(self) -> None:
        self.notes: list[str] = []

    async def send(
        self, method: str, path: str, body: bytes, content_type: str = "application/json", traceparent: str = ""
    ) -> bytes:
        self.notes.append(f"{method} {path} {body.decode()} {traceparent}")
        return b"[]"


def test_requests_of_attempts_that_are_not_traced_pass_on() -> None:
    spans, clock, client = RecordedSpans(), VirtualClock(0), Client()
    sender = RequestTraces(spans.around(Observer(), clock), clock).sender(client, "nobody", is_awaited=True)
    assert sender is client
    assert asyncio.run(sender.send("POST", "/x", b"{}")) == b"[]"
    assert client.notes == ["POST /x {} "] and spans.all == ()


def test_names_and_numbers() -> None:
    observer = Observer()
    assert Tracing().observe(observer, VirtualClock(0))[0] is observer
    assert SERVICE_NAME == "mooring" and PLUGIN_THRESHOLD.seconds == 0.001


# ---- faults of the SDK


def test_a_fault_is_reported_again_after_exactly_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    reports: list[str] = []
    now_s = [0.0]
    monkeypatch.setattr("mooring.serve.open_telemetry.time.monotonic", lambda: now_s[0])
    log = logging.Logger("opentelemetry.test")
    log.addHandler(open_telemetry.ExportFaults(reports.append))
    for now_s[0] in (0.0, 59.9, 60.0, 119.9, 120.0):
        log.warning("x" * 400)
    text = f"Tracing: {'x' * 300}"
    assert reports == [text, f"{text} (1 more warnings since the last)", f"{text} (1 more warnings since the last)"]


def test_tracing_takes_the_log_of_the_sdk_and_gives_it_back(monkeypatch: pytest.MonkeyPatch) -> None:
    log = logging.getLogger("opentelemetry")
    monkeypatch.setattr(log, "handlers", [])
    monkeypatch.setattr(log, "propagate", True)
    tracing = OpenTelemetryTracing(SETTINGS, 0, print)
    assert len(log.handlers) == 1 and log.handlers[0].level == logging.WARNING and log.propagate is False
    ended: list[tuple[str, bool]] = []

    def shutdown() -> None:
        ended.append((threading.current_thread().name, threading.current_thread().daemon))

    monkeypatch.setattr(tracing.tracer.provider, "shutdown", shutdown)
    tracing.close()
    assert ended == [("end of tracing", True)]
    assert log.handlers == [] and log.propagate is True


def test_the_end_waits_for_three_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float | None] = []
    monkeypatch.setattr("mooring.serve.open_telemetry.threading.Thread.start", lambda self: self.run())
    monkeypatch.setattr("mooring.serve.open_telemetry.threading.Thread.join", lambda self, s: waited.append(s))
    tracing = OpenTelemetryTracing(SETTINGS, 0, print)
    waited.clear()
    tracing.close()
    assert waited == [3.0]


# ---- variables


ODD = {
    "spaces around a switch": ({"OTEL_SDK_DISABLED": " true ", **OTLP}, None),
    "spaces around a number": ({"OTEL_BSP_MAX_QUEUE_SIZE": " 512 ", **OTLP}, 1.0),
    "a batch that just fits": ({"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "2048", **OTLP}, 1.0),
    "a number that is just short enough": ({"OTEL_BSP_SCHEDULE_DELAY": "9" * 100, **OTLP}, 1.0),
    "a time of part of a second": ({"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": " 0.5 ", **OTLP}, 1.0),
    "spaces around a sampler": (
        {"OTEL_TRACES_SAMPLER": " traceidratio ", "OTEL_TRACES_SAMPLER_ARG": " 0.5 ", **OTLP},
        0.5,
    ),
    "a ratio of 0": ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "0", **OTLP}, 0.0),
    "a ratio of 1": ({"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "1", **OTLP}, 1.0),
    "a protocol of spaces": ({"OTEL_EXPORTER_OTLP_PROTOCOL": " ", **OTLP}, 1.0),
    "an endpoint of spaces": ({"OTEL_EXPORTER_OTLP_ENDPOINT": " ", **OTLP}, 1.0),
}


@pytest.mark.parametrize(("variables", "ratio"), ODD.values(), ids=ODD.keys())
def test_odd_values_that_mean_something(variables: dict[str, str], ratio: float | None) -> None:
    found = tracing_settings(None, variables)
    assert (None if found is None else found.ratio) == ratio


URL = "is not a URL such as http://localhost:4318"
BAD = {
    "a queue that is too long to read": (
        {"OTEL_BSP_MAX_QUEUE_SIZE": "9" * 5000},
        "OTEL_BSP_MAX_QUEUE_SIZE has 5000 characters, which is too long for a number",
    ),
    "a delay of one digit too many": (
        {"OTEL_BSP_SCHEDULE_DELAY": "9" * 101},
        "OTEL_BSP_SCHEDULE_DELAY has 101 characters, which is too long for a number",
    ),
    "a batch of nothing": (
        {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "0"},
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=0 is not a whole number above 0",
    ),
    "a delay": ({"OTEL_BSP_SCHEDULE_DELAY": "soon"}, "OTEL_BSP_SCHEDULE_DELAY=soon is not a whole number above 0"),
    "a batch that is one too large": (
        {"OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "2049"},
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=2049 is larger than OTEL_BSP_MAX_QUEUE_SIZE=2048: a batch must fit into the queue",
    ),
    "no time": (
        {"OTEL_EXPORTER_OTLP_TRACES_TIMEOUT": "0"},
        "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT=0 is not a number of seconds above 0",
    ),
    "a time without an end": (
        {"OTEL_EXPORTER_OTLP_TIMEOUT": "inf"},
        "OTEL_EXPORTER_OTLP_TIMEOUT=inf is not a number of seconds above 0",
    ),
    "a port of 0": ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://c:0"}, f"OTEL_EXPORTER_OTLP_ENDPOINT=http://c:0 {URL}"),
    "another scheme": (
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "grpc://c"},
        f"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=grpc://c {URL}",
    ),
    "a protocol for traces": (
        {"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "xml"},
        "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL=xml is not supported; there are: grpc, http/protobuf",
    ),
    "a ratio below 0": (
        {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "-0.1"},
        "OTEL_TRACES_SAMPLER_ARG=-0.1 is not a number from 0 to 1, which traceidratio needs",
    ),
    "a ratio in words": (
        {"OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "half"},
        "OTEL_TRACES_SAMPLER_ARG=half is not a number from 0 to 1, which traceidratio needs",
    ),
}


@pytest.mark.parametrize(("variables", "text"), BAD.values(), ids=BAD.keys())
def test_more_values_that_mean_nothing(variables: dict[str, str], text: str) -> None:
    with pytest.raises(TracingError) as refused:
        tracing_settings(None, {**OTLP, **variables})
    assert str(refused.value) == text


def test_the_section_needs_good_numbers_too() -> None:
    with pytest.raises(TracingError):
        tracing_settings(TracingConfiguration(), {"OTEL_BSP_MAX_QUEUE_SIZE": "0"})


@pytest.mark.parametrize("endpoint", ["dns:///XC:4317", "dns://8.8.8.8", "dns://8.8.8.8/", "unix:///a/b", "C:4317"])
def test_an_endpoint_without_a_dns_server_of_its_own(endpoint: str) -> None:
    found = tracing_settings(TracingConfiguration(endpoint=endpoint), {})
    assert found is not None and found.endpoint == endpoint


def test_a_dns_server_of_its_own_is_told_with_what_to_write_instead() -> None:
    with pytest.raises(TracingError, match=r"not supported: use dns:///X for dns://8\.8\.8\.8/X/$"):
        tracing_settings(TracingConfiguration(endpoint="dns://8.8.8.8/X/"), {})
