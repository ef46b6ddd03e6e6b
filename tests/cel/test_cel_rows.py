"""Expressions row by row: the answers, costs and errors of cel-go."""

import msgspec
import pytest
from cel_rows import FAULTS, NOT_COMPILED, VALUES

from mooring.model.devices import Device
from mooring.plugins.devices.cel import DeviceExpression, Matcher, compile_selector, facts_of
from mooring.plugins.devices.effort import CelFault

DRIVER = "gpu.example.com"
DEVICE = msgspec.convert(
    {
        "name": "gpu-0",
        "attributes": {
            "model": {"string": "a100"},
            "numa": {"int": 0},
            "ecc": {"bool": True},
            "driverVersion": {"version": "1.2.3-rc.1+build"},
            "services": {"string": "some_example_value"},
            "other.example.com/kind": {"string": "x"},
        },
        "capacity": {"memory": {"value": "40Gi"}, "other.example.com/lanes": {"value": "1500m"}},
    },
    Device,
)
FACTS = facts_of(DRIVER, DEVICE)


def compiled(expression: str) -> Matcher:
    matcher = compile_selector(expression)
    assert isinstance(matcher, DeviceExpression), matcher
    return matcher


@pytest.mark.parametrize(("expression", "is_selected", "cost"), VALUES)
def test_expressions_have_cel_gos_values_and_costs(expression: str, is_selected: bool, cost: int) -> None:
    assert compiled(expression).answer(FACTS) == (is_selected, cost)


@pytest.mark.parametrize(("expression", "cost", "text"), FAULTS)
def test_expressions_fail_with_cel_gos_words_and_costs(expression: str, cost: int, text: str) -> None:
    with pytest.raises(CelFault) as fault:
        compiled(expression).answer(FACTS)
    assert (str(fault.value), fault.value.cost) == (text, cost)


@pytest.mark.parametrize(("expression", "text"), NOT_COMPILED)
def test_expressions_that_do_not_compile_are_told_in_cel_gos_words(expression: str, text: str) -> None:
    fault = compile_selector(expression)
    assert isinstance(fault, CelFault)
    assert str(fault).split("\n")[0] == text


def test_the_place_of_a_fault_is_marked() -> None:
    assert str(compile_selector("true &&\n  nope")) == (
        "compilation failed: ERROR: <input>:2:3: undeclared reference to 'nope' (in container '')\n |   nope\n | ..^"
    )
