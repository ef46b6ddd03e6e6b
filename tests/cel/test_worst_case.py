"""The most that expressions can cost: numbers that upstream's tests publish for its estimator, and no run that costs more."""

import pytest
from cel_rows import FAULTS, VALUES

from mooring.cel.estimates import LIMITLESS, LengthBounds, Path
from mooring.cel.expression import compile_expression
from mooring.cel.values import Type
from mooring.rules.device_expressions import MAX_COST, declarations, device_size, new_expression

TEXT = "'ABCDEFGHIJ abcdefghij'"
LOOPS = "int('1'.find('[0-9]*')) < 100"
TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"


def nested(depth: int) -> str:
    """So many loops over ten numbers around a search."""
    text = LOOPS
    for i in range(depth):
        text = f"{TEN}.all(x{i}, {text})"
    return text


ATTRIBUTE = 'device.attributes["d.example.com"].name'
OF_DEVICES = {
    "true": 0,
    '"d.example.com" in device.attributes': 3,
    'device.driver == ""': 2,
    'device.driver == "dra.example.com"': 4,
    ATTRIBUTE: 4,
    'device.attributes["d.example.com"]["name"]': 4,
    'cel.bind(own, device.attributes["d.example.com"], own.name)': 15,
    f'{ATTRIBUTE}.includes("a")': 4 + 64,
    f'"a" in {ATTRIBUTE}': 4 + 64,
    f"{ATTRIBUTE}.exists(x, x > 0)": 5 + (3 + 3) * 64,
    f'{ATTRIBUTE}.all(x, x != "")': 5 + (2 + 2) * 64,
    f'{ATTRIBUTE}.all(x, x.isGreaterThan(semver("0.0.1")))': 5 + (2 + 4) * 64,
    nested(7): 85_555_551,
}
"""Costs for devices of which nothing is known: 64 is the longest value of an attribute."""

OF_FUNCTIONS = {
    "[1, 2, 3, 4, 5].sum()": 15,
    "[uint(1), uint(2), uint(3), uint(4), uint(5)].sum()": 20,
    "['012345678901', '012345678901', '012345678901', '012345678901', '012345678901'].max()": 25,
    "[1, 2, 3, 4, 5].indexOf(3)": 15,
    f"{TEXT}.lowerAscii() == {TEXT}.lowerAscii()": 9,
    f"strings.quote({TEXT}) == strings.quote({TEXT})": 11,
    "url('https:://kubernetes.io/') == url('https:://kubernetes.io/')": 9,
    "sets.contains([1, 2], [2])": 23,
    "sets.equivalent([1, 2, 3], [3, 2, 1])": 39,
    "{'a': 1, 'b': 2}.transformMapEntry(k, v, {k: v + 1})": 131,
    "[1, 2].all(i, v, v > 0)": 21,
    "[1, 2].existsOne(i, v, v > 0)": 20,
    "[1, 2].transformList(i, v, v < 5, v + 1)": 53,
    # Counted by hand: 3 for the walk over 21 characters; two walks and 22 insertions for the replacement.
    f"{TEXT}.trim()": 3,
    f"{TEXT}.replace(' ', ' 12 ')": 5,
    f"{TEXT}.split(' ')": 5,
    f"{TEXT}.contains('abc')": 3,
    f"{TEXT}.matches('a.c')": 3,
    "quantity('12') == quantity('12')": 3,
    "lists.range(9)": 20,
    "[3, 1, 2].sort()": 10 + 2 * 9 + 1 + 10,
    "[1, 2, 3].slice(1, 3)": 10 + 2 + 1 + 10,
    "[1, 2].size() > 0 ? 'a' : 'bc'": 12,
    "dyn(1)": 1,
}
"""Costs without a device; texts of which nothing is known have at most 12 characters, as in upstream's tests."""


def short_texts(path: Path, kind: Type) -> LengthBounds | None:
    return LengthBounds(0, 12) if kind.name in ("string", "bytes") else None


@pytest.mark.parametrize(("text", "cost"), OF_DEVICES.items())
def test_costs_of_expressions_about_devices(text: str, cost: int) -> None:
    assert compile_expression(text, declarations(), device_size).worst_cost == cost


@pytest.mark.parametrize(("text", "cost"), OF_FUNCTIONS.items())
def test_costs_of_functions(text: str, cost: int) -> None:
    assert compile_expression(text, declarations(), short_texts).worst_cost == cost


UNDERESTIMATED = ('{"a": device.driver}.a', "format.uri().validate", "model.foo == 1")
"""Parity: cel-go estimates nothing for a field of a value of unknown type and for the start of a path that is no variable;
apiserver takes every named format for a pattern of 128 characters."""


@pytest.mark.parametrize("text", [row[0] for row in (*VALUES, *FAULTS) if not row[0].startswith(UNDERESTIMATED[:2])])
def test_no_run_costs_more_than_the_worst_case(text: str) -> None:
    actual = {row[0]: row[2] for row in VALUES} | {row[0]: row[1] for row in FAULTS}
    missing = 1 if text.endswith(UNDERESTIMATED[2]) else 0
    assert compile_expression(text, declarations(), device_size).worst_cost + missing >= min(actual[text], MAX_COST)


def test_lengths_without_a_limit_cost_without_a_limit() -> None:
    assert (
        compile_expression("lists.range(int(device.driver)).size() > 0", declarations(), device_size).worst_cost
        == LIMITLESS
    )
    assert new_expression("device.attributes.foo.all(k, k == '') ", False, True) == LIMITLESS


def test_macros_that_double_their_target_are_visited_once() -> None:
    """Each optMap has its target twice, so a tree of 40 has 2^40 paths."""
    text = "optional.of(1)" + "".join(f".optMap(x{i}, x{i} + 1)" for i in range(40)) + ".orValue(1) == 1"
    assert compile_expression(text, declarations(), device_size).worst_cost > 0


def test_what_derived_attributes_may_be() -> None:
    scalar = "must evaluate to a primitive scalar (string, integer, boolean, semver)"
    assert new_expression("[1]", True, False) == f"{scalar}, not list(int)"
    assert new_expression("[1.0]", True, True) == f"{scalar} or a list of these scalars, not list(double)"
    assert new_expression("[1]", True, True) == 10
    assert new_expression("1", False, True) == "must evaluate to bool or the unknown type, not int"
