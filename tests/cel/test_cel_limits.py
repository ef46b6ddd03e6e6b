"""Hostile expressions: evaluation is bounded, whatever the expression says."""

import pytest
from test_cel_rows import FACTS, compiled

from mooring.cel.budget import WORK
from mooring.plugins.devices.cel import DeviceExpression, compile_selector
from mooring.plugins.devices.effort import CelFault
from mooring.rules.device_expressions import MAX_BYTES, MAX_COST

EXCEEDED = "operation cancelled: actual cost limit exceeded"
TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"


def nested(depth: int, body: str) -> str:
    for i in reversed(range(depth)):
        body = f"{TEN}.all(x{i}, {body})"
    return body


HOSTILE = {
    "loops in loops": nested(7, "x0 + x6 > 0"),
    "loops that cost little": nested(7, "true"),
    "a list that is too long": "lists.range(1000000000).size() > 0",
    "a text that doubles": "cel.bind(a, '" + "x" * 1000 + "', a.replace('x', a).replace('x', a).size() > 0)",
    "optionals in optionals": "optional.of(1)" + ".optMap(x, x)" * 200 + ".hasValue()",
    "a pattern with many ways": "'" + "a" * 4000 + "'.matches('" + "(a*)*" * 20 + "b')",
    "lists of lists of the same list": "".join(
        f"cel.bind(l{i + 1}, [{', '.join([f'l{i}'] * 10)}], " for i in range(12)
    ).join(("cel.bind(l0, [1], ", "l12 == l12" + ")" * 13)),
    "a comprehension over what comprehensions made": "lists.range(2000).map(x, lists.range(2000)).flatten().max() > 0",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_expressions_are_cancelled(name: str) -> None:
    with pytest.raises(CelFault, match=EXCEEDED) as fault:
        compiled(HOSTILE[name]).answer(FACTS)
    assert fault.value.cost == MAX_COST


def test_what_costs_do_not_tell_is_counted_anew_for_each_evaluation() -> None:
    matcher = compiled("'" + "a" * 100 + "'.matches('(a*)*b')")
    for _ in range(WORK.MAX_STEPS // 100):
        assert matcher.answer(FACTS)[0] is False


def test_missing_domains_are_looked_up_once_each() -> None:
    """Two steps and a presence test for each domain; evaluating again for each would cost the square of that."""
    domains = " || ".join(f'has(device.attributes["d{i}.example"].a)' for i in range(200))
    assert len(domains) < MAX_BYTES
    assert compiled(domains).answer(FACTS) == (False, 3 * 200)


def test_expressions_that_nest_too_deep_do_not_compile() -> None:
    for text in ("(" * 300 + "true" + ")" * 300, "1" + " + 1" * 300 + " > 0", "[" * 300 + "]" * 300 + " == []"):
        fault = compile_selector(text)
        assert isinstance(fault, CelFault)
        assert "expression recursion limit exceeded: 250" in str(fault)


def test_expressions_may_nest_deep() -> None:
    for text in ("(" * 200 + "true" + ")" * 200, "1" + " + 1" * 200 + " > 0", "[" * 200 + "]" * 200 + " != []"):
        assert isinstance(compile_selector(text), DeviceExpression), text[:20]


def test_many_terms_do_not_nest() -> None:
    assert compiled(" && ".join(["true"] * 1200)).answer(FACTS) == (True, 0)


def test_expressions_that_are_too_long_do_not_compile() -> None:
    assert isinstance(compile_selector("true" + " " * (MAX_BYTES - 4)), DeviceExpression)
    fault = compile_selector("true" + " " * (MAX_BYTES - 3))
    assert str(fault) == "compilation failed: Too long: may not be more than 10240 bytes"


@pytest.mark.parametrize(
    "expression",
    [
        "1" * 5000 + " > 0",
        f"quantity('{'1' * 5000}') == quantity('1')",
        f"isSemver('1.2.3-{'1' * 5000}')",
        f"isSemver('{'1' * 5000}.2.3')",
        f"duration('{'1' * 5000}s') > duration('1s')",
        f"isIP('1.2.3.{'1' * 5000}') || isCIDR('1.2.3.4/{'1' * 5000}')",
        f"'%.{'1' * 5000}f'.format([1.0]) == ''",
        f"double('{'1' * 5000}') > 0.0",
        "'\ud800' == 'a'",
    ],
)
def test_numbers_and_texts_of_any_length_are_no_bug(expression: str) -> None:
    found = compile_selector(expression)
    if isinstance(found, DeviceExpression):
        try:
            found.answer(FACTS)
        except CelFault as fault:
            assert str(fault)
