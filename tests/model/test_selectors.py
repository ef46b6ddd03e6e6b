"""Label and node selectors: what they match and what they refuse, word for word."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.model.meta import LabelSelector
from mooring.model.pod_spec import NodeSelector
from mooring.model.selectors import (
    EVERYTHING,
    NOTHING,
    SelectorError,
    compile_node_selector,
    compile_node_term,
    compile_selector,
    parse_int64,
)
from validation_texts import NAME_RULE, VALUE_RULE


def a_selector(**written: Any) -> LabelSelector:
    return msgspec.convert(written, LabelSelector)


def a_line(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


MATCHES = [
    pytest.param(a_line("a", "In", "x", "y"), {"a": "x"}, True, id="In with a listed value"),
    pytest.param(a_line("a", "In", "x"), {"a": "z"}, False, id="In with another value"),
    pytest.param(a_line("a", "In", "x"), {}, False, id="In without the label"),
    pytest.param(a_line("a", "NotIn", "x"), {"a": "x"}, False, id="NotIn with a listed value"),
    pytest.param(a_line("a", "NotIn", "x"), {"a": "z"}, True, id="NotIn with another value"),
    pytest.param(a_line("a", "NotIn", "x"), {}, True, id="NotIn without the label"),
    pytest.param(a_line("a", "Exists"), {"a": ""}, True, id="Exists with an empty value"),
    pytest.param(a_line("a", "Exists"), {"b": ""}, False, id="Exists without the label"),
    pytest.param(a_line("a", "DoesNotExist"), {}, True, id="DoesNotExist without the label"),
    pytest.param(a_line("a", "DoesNotExist"), {"a": "x"}, False, id="DoesNotExist with the label"),
]


@pytest.mark.parametrize(("line", "labels", "matches"), MATCHES)
def test_expressions(line: dict[str, Any], labels: dict[str, str], matches: bool) -> None:
    assert compile_selector(a_selector(matchExpressions=[line])).matches(labels) is matches


def test_null_matches_nothing_and_empty_matches_everything() -> None:
    assert compile_selector(None) == NOTHING
    assert compile_selector(LabelSelector()) == EVERYTHING
    assert not NOTHING.matches({})
    assert EVERYTHING.matches({})
    assert EVERYTHING.is_empty
    assert not NOTHING.is_empty


def test_all_lines_must_hold() -> None:
    selector = compile_selector(a_selector(matchLabels={"a": "1"}, matchExpressions=[a_line("b", "Exists")]))
    assert selector.matches({"a": "1", "b": "2"})
    assert not selector.matches({"a": "1"})
    assert not selector.matches({"a": "2", "b": "2"})


def test_equality_is_added_except_to_nothing() -> None:
    selector = compile_selector(a_selector(matchLabels={"a": "1"})).with_equal({"b": "2"})
    assert selector.matches({"a": "1", "b": "2"})
    assert not selector.matches({"a": "1", "b": "3"})
    assert NOTHING.with_equal({"b": "2"}) == NOTHING


REFUSALS = [
    pytest.param(a_line("a", "Like", "x"), '"Like" is not a valid label selector operator', id="unknown operator"),
    pytest.param(a_line("a", "Gt", "1"), '"Gt" is not a valid label selector operator', id="Gt is for nodes only"),
    pytest.param(
        a_line("a", "In"),
        "values: Invalid value: null: for 'in', 'notin' operators, values set can't be empty",
        id="In without values",
    ),
    pytest.param(
        a_line("a", "Exists", "x"),
        'values: Invalid value: ["x"]: values set must be empty for exists and does not exist',
        id="Exists with values",
    ),
    pytest.param(
        a_line("a", "In", "-x"), f'values[0][a]: Invalid value: "-x": {VALUE_RULE}', id="a value that no label can have"
    ),
    pytest.param(a_line("a b", "Exists"), f'key: Invalid value: "a b": {NAME_RULE}', id="a key that no label can have"),
    pytest.param(
        a_line("a", "In", "x" * 64),
        f'values[0][a]: Invalid value: "{"x" * 64}": must be no more than 63 bytes',
        id="a value that is too long",
    ),
]


@pytest.mark.parametrize(("line", "text"), REFUSALS)
def test_refusals(line: dict[str, Any], text: str) -> None:
    with pytest.raises(SelectorError) as refusal:
        compile_selector(a_selector(matchExpressions=[line]))
    assert str(refusal.value) == text


def a_node_selector(*terms: dict[str, Any]) -> NodeSelector:
    return msgspec.convert({"nodeSelectorTerms": list(terms)}, NodeSelector)


NODE_MATCHES = [
    pytest.param(({"matchExpressions": [a_line("n", "Gt", "5")]},), {"n": "6"}, True, id="Gt with a larger label"),
    pytest.param(({"matchExpressions": [a_line("n", "Gt", "5")]},), {"n": "5"}, False, id="Gt with an equal label"),
    pytest.param(({"matchExpressions": [a_line("n", "Gt", "5")]},), {"n": "x"}, False, id="Gt with a word as label"),
    pytest.param(({"matchExpressions": [a_line("n", "Gt", "5")]},), {}, False, id="Gt without the label"),
    pytest.param(({"matchExpressions": [a_line("n", "Lt", "5")]},), {"n": "-6"}, True, id="Lt with a negative label"),
    pytest.param(({"matchExpressions": [a_line("n", "Lt", "5")]},), {"n": "5"}, False, id="Lt with an equal label"),
    pytest.param(({"matchFields": [a_line("metadata.name", "In", "n1")]},), {}, True, id="the field of this node"),
    pytest.param(({"matchFields": [a_line("metadata.name", "NotIn", "n1")]},), {}, False, id="the field negated"),
    pytest.param(({"matchFields": [a_line("spec.x", "In", "n1")]},), {}, False, id="an unknown field reads as empty"),
    pytest.param(({}, {"matchExpressions": [a_line("a", "Exists")]}), {"a": ""}, True, id="an empty term is dropped"),
    pytest.param(({},), {"a": ""}, False, id="only an empty term matches no node"),
    pytest.param((), {"a": ""}, False, id="no term matches no node"),
    pytest.param(
        ({"matchExpressions": [a_line("a", "In")]}, {"matchExpressions": [a_line("a", "Exists")]}),
        {"a": ""},
        True,
        id="a faulty term leaves the others alone",
    ),
]


@pytest.mark.parametrize(("terms", "labels", "matches"), NODE_MATCHES)
def test_node_selectors(terms: tuple[dict[str, Any], ...], labels: dict[str, str], matches: bool) -> None:
    assert compile_node_selector(a_node_selector(*terms)).matches("n1", labels) is matches


def test_fields_are_not_asked_of_a_node_without_name() -> None:
    matcher = compile_node_selector(a_node_selector({"matchFields": [a_line("metadata.name", "In", "n1")]}))
    assert matcher.matches("", {})
    assert not matcher.matches("n2", {})


NODE_REFUSALS = [
    pytest.param(
        {"matchExpressions": [a_line("a", "Like")]},
        'matchExpressions[0].operator: Unsupported value: "Like": supported values: '
        '"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"',
        id="label",
    ),
    pytest.param(
        {"matchFields": [a_line("metadata.name", "Exists")]},
        'matchFields[0].operator: Unsupported value: "Exists": supported values: "In", "NotIn"',
        id="field operator",
    ),
    pytest.param(
        {"matchFields": [a_line("metadata.name", "In", "a", "b")]},
        'matchFields[0].values: Invalid value: ["a","b"]: must have one element',
        id="field values",
    ),
    pytest.param(
        {"matchExpressions": [a_line("n", "Gt", "1", "2")]},
        "matchExpressions[0].values: Invalid value: [\"1\",\"2\"]: for 'Gt', 'Lt' operators, exactly one value is required",
        id="Gt with two values",
    ),
    pytest.param(
        {"matchExpressions": [a_line("n", "Gt", "-5")]},
        f'matchExpressions[0].values[0][n]: Invalid value: "-5": {VALUE_RULE}',
        id="a signed number is no label value",
    ),
]


@pytest.mark.parametrize(("term", "text"), NODE_REFUSALS)
def test_node_refusals(term: dict[str, Any], text: str) -> None:
    selector = a_node_selector(term)
    assert compile_node_selector(selector).faults() == [f"nodeSelectorTerms[0].{text}"]
    compiled = compile_node_term((selector.node_selector_terms or [])[0])
    assert compiled is not None
    assert compiled.faults == (text,)


@given(st.integers(-(1 << 64), 1 << 64))
def test_integers_are_read_within_64_bits(number: int) -> None:
    fits = -(1 << 63) <= number < (1 << 63)
    assert parse_int64(str(number)) == (number if fits else None)


@pytest.mark.parametrize("text", [None, "", "1.0", " 1", "1e3", "0x1", "١"])
def test_what_is_no_integer(text: str | None) -> None:
    assert parse_int64(text) is None
