"""Whether attempts are traced, how many, and where the spans go: the `tracing` section, or the variables of OpenTelemetry.

The section is component-base's TracingConfiguration, as kube-apiserver and the kubelet have it. Where a file has it, it
decides: OTLP over gRPC without TLS, and its own sampling rate. Without it, OTEL_TRACES_EXPORTER or an endpoint among the
variables turns tracing on. The SDK itself reads all other variables.
"""

from collections.abc import Mapping, Sequence
from math import inf
from typing import Literal
from urllib.parse import urlsplit

import msgspec

from mooring.drivers.traced_requests import RequestTraces
from mooring.framework.config.durations import Duration
from mooring.framework.config.types import TracingConfiguration
from mooring.kit.clock import Clock
from mooring.kit.shown_text import shown_url
from mooring.kit.words import did_you_mean, similar
from mooring.scheduler.observer import Observer

SERVICE_NAME = "mooring"

OtlpProtocol = Literal["grpc", "http/protobuf"]
PROTOCOLS: tuple[OtlpProtocol, ...] = ("grpc", "http/protobuf")

_OFF = "OTEL_SDK_DISABLED"
_EXPORTER = "OTEL_TRACES_EXPORTER"
_SAMPLER, _SAMPLER_ARG = "OTEL_TRACES_SAMPLER", "OTEL_TRACES_SAMPLER_ARG"
_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
"""The one for traces comes before the one for all signals."""
_QUEUE, _BATCH = "OTEL_BSP_MAX_QUEUE_SIZE", "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"
_COUNTS = {_QUEUE: 2048, _BATCH: 512, "OTEL_BSP_SCHEDULE_DELAY": 5000, "OTEL_BSP_EXPORT_TIMEOUT": 30000}
_SECONDS = ("OTEL_EXPORTER_OTLP_TRACES_TIMEOUT", "OTEL_EXPORTER_OTLP_TIMEOUT")
"""Numbers above zero, whole ones with the defaults of the SDK. Other values it would ignore, or fail with."""

_READ_DIGITS = 100
"""The longest number: Python refuses to read one of more than 4,300 digits."""

_EXPORTERS = ("otlp", "console", "none")
_SAMPLERS = {
    "always_on": 1.0,
    "always_off": 0.0,
    "traceidratio": None,
    "parentbased_always_on": 1.0,
    "parentbased_always_off": 0.0,
    "parentbased_traceidratio": None,
}
"""The share of attempts that is traced; None: OTEL_TRACES_SAMPLER_ARG says it. An attempt has no parent, so that those with
`parentbased_` are the same as those without."""


class TracingError(ValueError):
    """Tracing cannot be had as it is configured. The text is one line that says what to do."""


class TracingSettings(msgspec.Struct, frozen=True):
    """The exporters of spans, and the share of attempts that is traced."""

    ratio: float
    """0 to 1."""
    exporters: tuple[str, ...] = ("otlp",)
    protocol: OtlpProtocol = "grpc"
    endpoint: str | None = None
    """None: the SDK reads it from the variables, or takes its default."""
    source: str = ""
    """The section or variable that turned tracing on, for messages."""


def tracing_settings(section: TracingConfiguration | None, environ: Mapping[str, str]) -> TracingSettings | None:
    """None: nothing is traced. Raises TracingError for variables with values that mean nothing."""
    if environ.get(_OFF, "").strip().lower() == "true":
        return None
    if section is not None:
        _check_numbers(environ)
        _check_authority(section.endpoint or "")
        rate = section.sampling_rate_per_million or 0
        return TracingSettings(rate / 1_000_000, endpoint=section.endpoint, source="the tracing section")
    exporters = tuple(filter(None, (name.strip() for name in environ.get(_EXPORTER, "").split(","))))
    for name in exporters:
        _check_name(_EXPORTER, name, _EXPORTERS)
    source = _EXPORTER if exporters else next((name for name in _ENDPOINTS if environ.get(name)), "")
    if not source or "none" in exporters:
        return None
    _check_numbers(environ)
    _check_endpoints(environ)
    return TracingSettings(_ratio(environ), exporters or ("otlp",), _protocol(environ), source=source)


def _protocol(environ: Mapping[str, str]) -> OtlpProtocol:
    for variable in _PROTOCOLS:
        if written := environ.get(variable, "").strip():
            _check_name(variable, written, PROTOCOLS)
            return "grpc" if written == "grpc" else "http/protobuf"
    return "http/protobuf"


def _ratio(environ: Mapping[str, str]) -> float:
    """Without a sampler, all attempts: the default of OpenTelemetry."""
    sampler = environ.get(_SAMPLER, "").strip() or "parentbased_always_on"
    _check_name(_SAMPLER, sampler, tuple(_SAMPLERS))
    fixed = _SAMPLERS[sampler]
    if fixed is not None:
        return fixed
    written = environ.get(_SAMPLER_ARG, "").strip() or "1"
    try:
        ratio = float(written)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise TracingError(f"{_SAMPLER_ARG}={written} is not a number from 0 to 1, which {sampler} needs")
    return ratio


def _check_name(variable: str, written: str, known: Sequence[str]) -> None:
    if written not in known:
        meant = did_you_mean(similar(written, known, 1))
        raise TracingError(f"{variable}={written} is not supported; there are: {', '.join(known)}{meant}")


def _check_endpoints(environ: Mapping[str, str]) -> None:
    """The SDK would take a URL without a scheme for the name of a host, and fail with each export."""
    for variable in _ENDPOINTS:
        written = environ.get(variable, "").strip()
        if written and not _is_url(written):
            raise TracingError(f"{variable}={shown_url(written)} is not a URL such as http://localhost:4318")


def _is_url(text: str) -> bool:
    try:
        url = urlsplit(text)
        return url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:  # a port that is no number, or brackets that belong to no address
        return False


def _check_authority(endpoint: str) -> None:
    """The exporter of the SDK would take the DNS server for the collector."""
    url = urlsplit(endpoint)
    if url.scheme == "dns" and url.netloc and url.path.strip("/"):
        right = f"dns:///{url.path.strip('/')}"
        raise TracingError(
            f"tracing.endpoint: a DNS server of its own is not supported: use {right} for {shown_url(endpoint)}"
        )


def _check_numbers(environ: Mapping[str, str]) -> None:
    counts = {name: _count(name, environ.get(name, "").strip() or str(default)) for name, default in _COUNTS.items()}
    for variable in _SECONDS:
        _check_seconds(variable, environ.get(variable, "").strip() or "10")
    queue, batch = counts[_QUEUE], counts[_BATCH]
    if batch > queue:
        raise TracingError(f"{_BATCH}={batch} is larger than {_QUEUE}={queue}: a batch must fit into the queue")


def _count(variable: str, written: str) -> int:
    if len(written) > _READ_DIGITS:
        raise TracingError(f"{variable} has {len(written)} characters, which is too long for a number")
    if not written.isdecimal() or not int(written):
        raise TracingError(f"{variable}={written} is not a whole number above 0")
    return int(written)


def _check_seconds(variable: str, written: str) -> None:
    try:
        seconds = float(written)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < inf:
        raise TracingError(f"{variable}={written} is not a number of seconds above 0")


# ---- Tracing of a process: chosen once at its start, and asked for the observer of the scheduler and for spans of
# requests.


PLUGIN_THRESHOLD = Duration(1_000_000)
"""A plugin that is busy for a millisecond takes longer than most decisions as a whole."""


class Tracing:
    """No tracing: base class and default."""

    def observe(self, observer: Observer, clock: Clock) -> tuple[Observer, RequestTraces]:
        """The observer for the scheduler instead of this one, and what traces the requests of its driver."""
        return observer, RequestTraces()

    def close(self) -> None:
        """Export what is left, within seconds."""
