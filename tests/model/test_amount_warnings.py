"""Amounts that are admitted and that hardly anybody means."""

from typing import Any

import msgspec
import pytest

from build import a_pod
from mooring.api.validate import amount_warnings
from mooring.model.workloads import Workload

REQUESTS = "spec.containers[0].resources.requests"
ROWS: list[Any] = [
    pytest.param(
        {"memory": "512m"},
        [f'{REQUESTS}[memory]: fractional byte value "512m" is invalid, must be an integer'],
        id="milli-bytes",
    ),
    pytest.param(
        {"ephemeral-storage": "1500m"},
        [f'{REQUESTS}[ephemeral-storage]: fractional byte value "1500m" is invalid, must be an integer'],
        id="milli-bytes of storage",
    ),
    pytest.param(
        {"cpu": "512Mi"},
        [f'{REQUESTS}[cpu]: "512Mi" is 536870912 CPUs, more than any node has; units such as Mi are for memory'],
        id="a unit of memory for cpu",
    ),
    pytest.param(
        {"memory": 512},
        [f'{REQUESTS}[memory]: "512" is 512 bytes, which no container can start with; add a unit such as Mi'],
        id="a unit that is missing",
    ),
    pytest.param({"memory": "512Mi", "cpu": "512m", "ephemeral-storage": "1Gi", "example.com/gpu": 2}, [], id="usual"),
    pytest.param({"memory": 0, "cpu": 0}, [], id="nothing"),
    pytest.param({"memory": "x"}, [], id="no amount at all, which is an error elsewhere"),
]


@pytest.mark.parametrize(("requests", "warnings"), ROWS)
def test_amounts_of_a_pod(requests: dict[str, Any], warnings: list[str]) -> None:
    assert [str(warning) for warning in amount_warnings(a_pod(requests=requests))] == warnings


def test_amounts_in_a_template_in_limits_and_in_the_overhead() -> None:
    container = {"name": "c", "resources": {"limits": {"memory": "1m"}}}
    spec = {"initContainers": [container], "containers": [], "overhead": {"memory": "5m"}}
    workload = msgspec.convert({"spec": {"template": {"spec": spec}}}, Workload)
    assert [warning.path for warning in amount_warnings(workload)] == [
        "spec.template.spec.initContainers[0].resources.limits[memory]",
        "spec.template.spec.overhead[memory]",
    ]
