"""What turns tracing on, how many attempts are traced and where spans go; and values that mean nothing."""

from typing import Final

import pytest

from mooring.framework.config.types import TracingConfiguration
from mooring.serve.tracing import TracingError, TracingSettings, tracing_settings

HTTP: Final = "http/protobuf"
ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"
OTLP = {"OTEL_TRACES_EXPORTER": "otlp"}


def by_variables(**variables: str) -> TracingSettings | None:
    return tracing_settings(None, variables)


OFF = {
    "nothing is set": {},
    "no exporter": {"OTEL_TRACES_EXPORTER": "none", ENDPOINT: "http://localhost:4318"},
    "an empty variable": {"OTEL_TRACES_EXPORTER": "", ENDPOINT: ""},
    "the SDK is disabled": {"OTEL_SDK_DISABLED": "true", **OTLP},
    "the SDK is disabled, in capitals": {"OTEL_SDK_DISABLED": "TRUE", **OTLP},
    "variables that say only how": {"OTEL_TRACES_SAMPLER": "always_on", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
    "bad values of something that is off": {"OTEL_TRACES_SAMPLER": "rubbish", "OTEL_BSP_MAX_QUEUE_SIZE": "x"},
}


@pytest.mark.parametrize("variables", OFF.values(), ids=OFF.keys())
def test_off(variables: dict[str, str]) -> None:
    assert by_variables(**variables) is None


ON = {
    "an exporter": (OTLP, TracingSettings(1.0, ("otlp",), HTTP, None, "OTEL_TRACES_EXPORTER")),
    "an endpoint": ({ENDPOINT: "http://c:4318"}, TracingSettings(1.0, ("otlp",), HTTP, None, ENDPOINT)),
    "an endpoint for traces": (
        {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "https://c/v1/traces"},
        TracingSettings(1.0, ("otlp",), HTTP, None, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"),
    ),
    "the console": (
        {"OTEL_TRACES_EXPORTER": "console, otlp"},
        TracingSettings(1.0, ("console", "otlp"), HTTP, None, "OTEL_TRACES_EXPORTER"),
    ),
    "gRPC": (
        {**OTLP, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
        TracingSettings(1.0, ("otlp",), "grpc", None, "OTEL_TRACES_EXPORTER"),
    ),
    "the protocol for traces counts more": (
        {**OTLP, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": HTTP},
        TracingSettings(1.0, ("otlp",), HTTP, None, "OTEL_TRACES_EXPORTER"),
    ),
    "not disabled": (
        {**OTLP, "OTEL_SDK_DISABLED": "false"},
        TracingSettings(1.0, ("otlp",), HTTP, None, "OTEL_TRACES_EXPORTER"),
    ),
}


@pytest.mark.parametrize(("variables", "expected"), ON.values(), ids=ON.keys())
def test_on(variables: dict[str, str], expected: TracingSettings) -> None:
    assert by_variables(**variables) == expected


SAMPLERS = {
    "always_on": ("", 1.0),
    "always_off": ("0.7", 0.0),
    "traceidratio": ("0.25", 0.25),
    "parentbased_always_on": ("", 1.0),
    "parentbased_always_off": ("", 0.0),
    "parentbased_traceidratio": ("0.01", 0.01),
    "": ("0.5", 1.0),
}


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_samplers(sampler: str) -> None:
    argument, ratio = SAMPLERS[sampler]
    settings = by_variables(OTEL_TRACES_SAMPLER=sampler, OTEL_TRACES_SAMPLER_ARG=argument, **OTLP)
    assert settings is not None and settings.ratio == ratio


def test_a_ratio_without_an_argument_is_all() -> None:
    settings = by_variables(OTEL_TRACES_SAMPLER="traceidratio", **OTLP)
    assert settings is not None and settings.ratio == 1.0


BAD = {
    "an exporter": (
        {"OTEL_TRACES_EXPORTER": "jaeger"},
        "OTEL_TRACES_EXPORTER=jaeger is not supported; there are: otlp, console, none",
    ),
    "an exporter with a typing error": (
        {"OTEL_TRACES_EXPORTER": "oltp"},
        "OTEL_TRACES_EXPORTER=oltp is not supported; there are: otlp, console, none; did you mean otlp?",
    ),
    "a protocol": (
        {**OTLP, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/json"},
        "OTEL_EXPORTER_OTLP_PROTOCOL=http/json is not supported; there are: grpc, http/protobuf",
    ),
    "a sampler": (
        {**OTLP, "OTEL_TRACES_SAMPLER": "traceidratios"},
        "OTEL_TRACES_SAMPLER=traceidratios is not supported; there are: always_on, always_off, traceidratio, "
        "parentbased_always_on, parentbased_always_off, parentbased_traceidratio; did you mean traceidratio?",
    ),
    "a ratio above 1": (
        {**OTLP, "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "5"},
        "OTEL_TRACES_SAMPLER_ARG=5 is not a number from 0 to 1, which traceidratio needs",
    ),
    "a ratio that is no number": (
        {**OTLP, "OTEL_TRACES_SAMPLER": "traceidratio", "OTEL_TRACES_SAMPLER_ARG": "nan"},
        "OTEL_TRACES_SAMPLER_ARG=nan is not a number from 0 to 1, which traceidratio needs",
    ),
    "an endpoint without a scheme": (
        {ENDPOINT: "localhost:4318"},
        "OTEL_EXPORTER_OTLP_ENDPOINT=localhost:4318 is not a URL such as http://localhost:4318",
    ),
    "an endpoint without a host": (
        {ENDPOINT: "http://"},
        "OTEL_EXPORTER_OTLP_ENDPOINT=http:// is not a URL such as http://localhost:4318",
    ),
    "an endpoint with a port that is none": (
        {ENDPOINT: "http://c:otlp"},
        "OTEL_EXPORTER_OTLP_ENDPOINT=http://c:otlp is not a URL such as http://localhost:4318",
    ),
    "an endpoint with half an address": (
        {ENDPOINT: "http://[::1"},
        "OTEL_EXPORTER_OTLP_ENDPOINT=http://[::1 is not a URL such as http://localhost:4318",
    ),
    "a timeout": (
        {**OTLP, "OTEL_BSP_EXPORT_TIMEOUT": "-1"},
        "OTEL_BSP_EXPORT_TIMEOUT=-1 is not a whole number above 0",
    ),
    "a queue": (
        {**OTLP, "OTEL_BSP_MAX_QUEUE_SIZE": "many"},
        "OTEL_BSP_MAX_QUEUE_SIZE=many is not a whole number above 0",
    ),
    "no queue": ({**OTLP, "OTEL_BSP_MAX_QUEUE_SIZE": "0"}, "OTEL_BSP_MAX_QUEUE_SIZE=0 is not a whole number above 0"),
    "a batch that does not fit": (
        {**OTLP, "OTEL_BSP_MAX_QUEUE_SIZE": "100"},
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=512 is larger than OTEL_BSP_MAX_QUEUE_SIZE=100: a batch must fit into the queue",
    ),
    "a time": (
        {**OTLP, "OTEL_EXPORTER_OTLP_TIMEOUT": "10s"},
        "OTEL_EXPORTER_OTLP_TIMEOUT=10s is not a number of seconds above 0",
    ),
}


@pytest.mark.parametrize(("variables", "text"), BAD.values(), ids=BAD.keys())
def test_values_that_mean_nothing(variables: dict[str, str], text: str) -> None:
    with pytest.raises(TracingError) as refused:
        by_variables(**variables)
    assert str(refused.value) == text


# ---- the section


def test_the_section_decides_over_the_variables() -> None:
    section = TracingConfiguration(endpoint="c:4317", sampling_rate_per_million=2500)
    variables = {**OTLP, "OTEL_TRACES_SAMPLER": "always_on", "OTEL_EXPORTER_OTLP_PROTOCOL": HTTP}
    assert tracing_settings(section, variables) == TracingSettings(
        0.0025, ("otlp",), "grpc", "c:4317", "the tracing section"
    )


def test_the_section_without_a_rate_traces_nothing_as_upstream() -> None:
    settings = tracing_settings(TracingConfiguration(), {})
    assert settings is not None
    assert (settings.ratio, settings.endpoint, settings.protocol) == (0.0, None, "grpc")


def test_the_sdk_can_be_disabled_in_spite_of_the_section() -> None:
    section = TracingConfiguration(sampling_rate_per_million=1_000_000)
    assert tracing_settings(section, {"OTEL_SDK_DISABLED": "true"}) is None


def test_a_dns_server_of_its_own() -> None:
    with pytest.raises(TracingError) as refused:
        tracing_settings(TracingConfiguration(endpoint="dns://8.8.8.8/collector:4317"), {})
    assert str(refused.value) == (
        "tracing.endpoint: a DNS server of its own is not supported: "
        "use dns:///collector:4317 for dns://8.8.8.8/collector:4317"
    )
