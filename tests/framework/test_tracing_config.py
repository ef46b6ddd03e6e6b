"""The section `tracing` of a configuration: component-base's fields, bounds and texts."""

from typing import Any

import pytest
import yaml

from mooring.framework import config
from mooring.framework.config import ConfigError
from mooring.framework.config.settings import as_object

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
NAMING = "https://github.com/grpc/grpc/blob/master/doc/naming.md"


def problems(section: Any) -> list[str]:
    try:
        config.load(yaml.safe_dump({**HEAD, "tracing": section}))
    except ConfigError as error:
        return error.problems
    return []


GOOD: dict[str, Any] = {
    "all of it": {"endpoint": "collector.observability:4317", "samplingRatePerMillion": 10_000},
    "nothing": {},
    "null": None,
    "the highest rate": {"samplingRatePerMillion": 1_000_000},
    "none": {"samplingRatePerMillion": 0},
    "a host without a port": {"endpoint": "localhost"},
    "a resolver": {"endpoint": "dns:///collector:4317"},
    "an IPv6 address": {"endpoint": "[::1]:4317"},
    "a socket": {"endpoint": "unix:///run/otel.sock"},
    "an abstract socket": {"endpoint": "unix-abstract:///otel"},
}


@pytest.mark.parametrize("section", GOOD.values(), ids=GOOD.keys())
def test_good_sections(section: Any) -> None:
    assert problems(section) == []


BAD = {
    "a rate below zero": (
        {"samplingRatePerMillion": -1},
        "tracing.samplingRatePerMillion: Invalid value: -1: sampling rate must be positive",
    ),
    "more than all": (
        {"samplingRatePerMillion": 1_000_001},
        "tracing.samplingRatePerMillion: Invalid value: 1000001: "
        "sampling rate per million must be less than or equal to one million",
    ),
    "a URL": (
        {"endpoint": "http://localhost:4317"},
        'tracing.endpoint: Invalid value: "http://localhost:4317": unsupported scheme: http.  '
        f"Options are none, dns, unix, or unix-abstract.  See {NAMING}",
    ),
    "a port that is a word": (
        {"endpoint": "localhost:otlp"},
        'tracing.endpoint: Invalid value: "dns://localhost:otlp": '
        'parse "dns://localhost:otlp": invalid port ":otlp" after host',
    ),
}


@pytest.mark.parametrize(("section", "problem"), BAD.values(), ids=BAD.keys())
def test_bad_sections(section: Any, problem: str) -> None:
    assert problems(section) == [problem]


def test_brackets_that_belong_to_no_address() -> None:
    (problem,) = problems({"endpoint": "[::1:4317"})
    assert problem.startswith('tracing.endpoint: Invalid value: "dns://[::1:4317": parse "dns://[::1:4317": ')


def test_both_fields_are_checked() -> None:
    assert len(problems({"samplingRatePerMillion": -1, "endpoint": "ftp://x"})) == 2


STRICT = {
    "an unknown field": ({"samplingRate": 1}, 'strict decoding error: unknown field "tracing.samplingRate"'),
    "a rate that is a text": (
        {"samplingRatePerMillion": "1"},
        "json: cannot unmarshal string into Go struct field "
        "TracingConfiguration.tracing.samplingRatePerMillion of type int32",
    ),
    "a section that is a text": ("on", "json: cannot unmarshal string into Go struct field "),
}


@pytest.mark.parametrize(("section", "text"), STRICT.values(), ids=STRICT.keys())
def test_decoding_is_strict(section: Any, text: str) -> None:
    (problem,) = problems(section)
    assert text in problem


def test_the_section_is_shown_only_where_it_is_written() -> None:
    assert "tracing" not in as_object(config.default())
    section = {"endpoint": "localhost:4317", "samplingRatePerMillion": 5}
    assert as_object(config.from_object({**HEAD, "tracing": section}))["tracing"] == section
    assert config.from_object(as_object(config.from_object({**HEAD, "tracing": section}))).tracing is not None
