"""Selectors: what CEL and Kubernetes make of them, and what is said of those that fail."""

from typing import Any

import msgspec
import pytest

from device_building import DRIVER, a_device
from mooring.model.devices import Device
from mooring.plugins.devices import cel as device_selectors
from mooring.plugins.devices.cel import DeviceExpression, compile_selector, facts_of
from mooring.plugins.devices.effort import CelFault, TookTooLong
from mooring.plugins.devices.pools import LikenessBook, likeness_of
from mooring.rules.device_expressions import MAX_COST

DEVICE = msgspec.convert(
    a_device(
        "gpu-0",
        {"memory": "40Gi", "other.example.com/lanes": "1500m"},
        model="a100",
        numa=0,
        ecc=True,
        attributes={"driverVersion": {"version": "1.2.3-rc.1+build"}, "other.example.com/kind": {"string": "x"}},
    ),
    Device,
)
OWN = f'device.attributes["{DRIVER}"]'
MEMORY = f'device.capacity["{DRIVER}"].memory'

ANSWERS = {
    f'device.driver == "{DRIVER}"': True,
    "device.allowMultipleAllocations": False,
    f"{OWN}.ecc": True,
    f'{OWN}.model in ["a100", "h100"]': True,
    f"{OWN}.numa < 1 && {OWN}.model.startsWith('h')": False,
    f"has({OWN}.model)": True,
    f"has({OWN}.missing)": False,
    f'"missing" in {OWN}': False,
    f"{OWN}.?missing.orValue(true)": True,
    f"cel.bind(own, {OWN}, own.ecc && own.numa == 0)": True,
    "cel.bind(all, device, all.driver == 'x')": False,
    "has(device.attributes)": True,
    'device.attributes["other.example.com"].kind == "x"': True,
    '"a" in device.attributes["unknown.example.com"]': False,
    'has(device.attributes["unknown.example.com"].a) || device.driver != ""': True,
    '!has(device.attributes["unknown.example.com"].a)': True,
    '"unknown.example.com" in device.attributes': False,
    f'{MEMORY}.compareTo(quantity("40Gi")) == 0': True,
    f'{MEMORY}.isGreaterThan(quantity("39Gi"))': True,
    f'{MEMORY}.isLessThan(quantity("40960Mi"))': False,
    f'{MEMORY} == quantity("40960Mi")': True,
    f'{MEMORY}.sub(quantity("39Gi")).add(1).asInteger() == 1073741825': True,
    'device.capacity["other.example.com"].lanes.isInteger()': False,
    'device.capacity["other.example.com"].lanes.asApproximateFloat() > 1.4': True,
    'sign(quantity("-1")) == -1 && isQuantity("1Ki") && !isQuantity("1Kb")': True,
    f'{OWN}.driverVersion.compareTo(semver("1.2.3")) < 0': True,
    f'{OWN}.driverVersion.isGreaterThan(semver("1.2.3-alpha"))': True,
    f"{OWN}.driverVersion.major() == 1 && {OWN}.driverVersion.minor() == 2 && {OWN}.driverVersion.patch() == 3": True,
    f'{OWN}.driverVersion.isGreaterThan(semver("v01.2", true))': True,
    'isSemver("1.0") || isSemver("1.0.0+x")': True,
}


@pytest.mark.parametrize("expression", ANSWERS)
def test_what_selects_the_device(expression: str) -> None:
    matcher = compile_selector(expression)
    assert not isinstance(matcher, CelFault), matcher
    assert matcher.answer(facts_of(DRIVER, DEVICE))[0] is ANSWERS[expression]


NOT_COMPILED = {
    "device.": "compilation failed: ERROR: <input>:1:8: Syntax error",
    "nope == 1": "compilation failed: ERROR: <input>:1:1: undeclared reference to 'nope' (in container '')",
    "device.nope": "compilation failed: ERROR: <input>:1:7: undefined field 'nope'",
    "device.driver == 1": "compilation failed: ERROR: <input>:1:15: found no matching overload for '_==_'",
    f'{MEMORY}.compareTo(semver("1.0.0")) == 0': "compilation failed: ERROR: <input>:1:52: found no matching overload for "
    "'compareTo' applied to 'kubernetes.Quantity.(kubernetes.Semver)'",
    "device == 1": "compilation failed: ERROR: <input>:1:8: found no matching overload for '_==_' applied to "
    "'(kubernetes.DRADevice, int)'",
    "device.driver": "must evaluate to bool or the unknown type, not string",
    f"[{OWN}.ecc]": "must evaluate to bool or the unknown type, not list(dyn)",
}


@pytest.mark.parametrize("expression", NOT_COMPILED)
def test_what_does_not_compile(expression: str) -> None:
    fault = compile_selector(expression)
    assert isinstance(fault, CelFault)
    assert str(fault).startswith(NOT_COMPILED[expression])


FAILS = {
    f"{OWN}.missing": "no such key: missing",
    'device.attributes["unknown.example.com"].missing': "no such key: missing",
    f"{OWN}.numa / 0 == 1": "division by zero",
    f'{OWN}.model < 3 || {OWN}.model == "h100"': "no such overload",
    f"{OWN}.model": "CEL result of type string could not be converted to bool: "
    "unsupported native conversion from string to 'bool'",
    f"{OWN}.numa": "CEL result of type int could not be converted to bool: unsupported type conversion from 'int' to bool",
    f"{OWN}.driverVersion": "CEL result of type kubernetes.Semver could not be converted to bool: "
    "type conversion error from 'Semver' to 'bool'",
    f'{MEMORY}.isGreaterThan(quantity("much"))': "quantities must match the regular expression "
    "'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'",
}


@pytest.mark.parametrize("expression", FAILS)
def test_what_fails_on_the_device(expression: str) -> None:
    matcher = compile_selector(expression)
    assert not isinstance(matcher, CelFault), matcher
    with pytest.raises(CelFault) as fault:
        matcher.answer(facts_of(DRIVER, DEVICE))
    assert str(fault.value) == FAILS[expression]
    assert fault.value.cost > 0, "to find that out cost something"


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        ({}, "attribute x: unsupported attribute value"),
        ({"version": "1.2"}, "attribute x: parse semantic version: No Major.Minor.Patch elements found"),
    ],
)
def test_attributes_that_have_no_value(attribute: dict[str, str], text: str) -> None:
    device = msgspec.convert({"name": "d", "attributes": {"x": attribute}}, Device)
    with pytest.raises(CelFault) as raised:
        facts_of(DRIVER, device)
    assert str(raised.value) == text


def test_devices_that_no_selector_can_tell_apart_are_asked_once() -> None:
    twin = msgspec.structs.replace(DEVICE, name="gpu-1", taints=[])
    book = LikenessBook()
    ours = likeness_of(book, DRIVER, DEVICE)
    assert likeness_of(book, DRIVER, twin) is ours
    assert likeness_of(book, "other", DEVICE) is not ours
    assert likeness_of(LikenessBook(), DRIVER, DEVICE) is not ours


# ---- what it costs

NUMBERS = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
THOUSANDS = "".join(f"{NUMBERS}.all(x{i}, " for i in range(4)) + "x0 > 0" + ")" * 4
"""Ten thousand comparisons."""


def test_a_selector_that_costs_more_than_a_selector_may_is_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_COST == 1_000_000, "upstream's CELSelectorExpressionMaxCost"
    monkeypatch.setattr(device_selectors, "MAX_COST", 1000)
    matcher = compile_selector(THOUSANDS)
    assert isinstance(matcher, DeviceExpression)
    for limit in (1000, 2000):
        with pytest.raises(CelFault) as raised:
            matcher.answer(facts_of(DRIVER, DEVICE), limit)
        assert str(raised.value) == "operation cancelled: actual cost limit exceeded"
        assert raised.value.cost == 1000


def test_a_selector_that_costs_more_than_is_left_took_too_long() -> None:
    matcher = compile_selector(f"{NUMBERS}.all(x, x > 0)")
    assert isinstance(matcher, DeviceExpression)
    is_selected, cost = matcher.answer(facts_of(DRIVER, DEVICE))
    assert is_selected and cost > 10
    assert matcher.answer(facts_of(DRIVER, DEVICE), cost) == (True, cost)
    with pytest.raises(TookTooLong):
        matcher.answer(facts_of(DRIVER, DEVICE), cost - 1)


def test_the_length_of_a_selector_is_counted_in_bytes_even_where_it_is_no_text() -> None:
    """JSON can escape half a character, which takes three bytes."""
    long, longest = compile_selector("\ud800" * 3414), compile_selector("\ud800" * 3413)
    assert str(long) == "compilation failed: Too long: may not be more than 10240 bytes"
    assert isinstance(longest, CelFault) and "Too long" not in str(longest)


def test_what_a_selector_says_is_remembered() -> None:
    likeness = likeness_of(LikenessBook(), DRIVER, DEVICE)
    assert likeness.known("device.driver != ''") is None
    answer, cost = likeness.ask("device.driver != ''")
    assert answer is True and cost > 0
    assert likeness.known("device.driver != ''") is True
    fault, cost = likeness.ask("1 +")
    assert isinstance(fault, CelFault) and cost == 0
    assert likeness.known("1 +") is fault
    fault, cost = likeness.ask(f"{OWN}.missing")
    assert isinstance(fault, CelFault) and cost >= fault.cost > 0


def test_of_each_kind_of_device_the_last_1024_selectors_are_remembered() -> None:
    likeness = likeness_of(LikenessBook(), DRIVER, DEVICE)
    for i in range(1025):
        likeness.ask(f"{i} >= 0")
    assert [likeness.known(f"{i} >= 0") for i in (0, 1, 1024)] == [None, True, True]


@pytest.mark.parametrize(
    "change",
    [{"attributes": None}, {"capacity": None}, {"allow_multiple_allocations": True}],
    ids=lambda change: next(iter(change)),
)
def test_devices_that_a_selector_can_tell_apart_are_asked_each(change: dict[str, Any]) -> None:
    book = LikenessBook()
    ours, other = likeness_of(book, DRIVER, DEVICE), msgspec.structs.replace(DEVICE, **change)
    theirs = likeness_of(book, DRIVER, other)
    assert theirs is not ours


def test_a_selector_reads_whether_several_claims_may_use_the_device() -> None:
    shared = msgspec.structs.replace(DEVICE, allow_multiple_allocations=True)
    matcher = compile_selector("device.allowMultipleAllocations")
    assert isinstance(matcher, DeviceExpression)
    assert matcher.answer(facts_of(DRIVER, shared))[0] is True
