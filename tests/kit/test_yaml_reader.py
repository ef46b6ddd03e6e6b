"""YAML as kubectl reads it: what scalars mean, what is refused and where, and that no text is too wild."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mooring.kit.yaml_reader import (
    STANDARD_LIMITS,
    Repeat,
    TooDeep,
    TooManyAliases,
    YamlFault,
    YamlLimits,
    keep_last,
    read_document,
    read_documents,
    repeated_keys,
    resolve,
)

SCALARS = [
    ("yes", True), ("Off", False), ("TRUE", True), ("y", "y"), ("~", None), ("", None), ("Null", None),
    ("12", 12), ("-3", -3), ("+3", 3), ("0", 0), ("1_000", 1000), ("0755", 493), ("0o17", 15), ("0x1F", 31),
    ("0b11", 3), ("1.5", 1.5), (".5", 0.5), ("1.", 1.0), ("1e3", 1000.0), ("1E-2", 0.01),
    ("12:30", "12:30"), ("2026-01-01", "2026-01-01"), ("1.2.3", "1.2.3"), ("09", 9.0), ("0x", "0x"),
    ("-", "-"), (".", "."),
    ("500m", "500m"), ("1e999", "1e999"), ("9" * 5000, "9" * 5000), ("nginx", "nginx"), ("0x_", "0x_"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), SCALARS)
def test_unquoted_scalars(text: str, value: Any) -> None:
    assert resolve(text) == value
    assert type(resolve(text)) is type(value)


DOCUMENTS = [
    pytest.param("a: 1\n---\n---\nb: 2\n...\n", [{"a": 1}, None, {"b": 2}], id="several documents"),
    pytest.param("", [], id="no document"),
    pytest.param("1: a\ntrue: b\n1.5: c", [{"1": "a", "true": "b", "1.5": "c"}], id="keys become strings"),
    pytest.param(
        "a: '1'\nb: \"yes\"\nc: !!str 1\nd: ! 1", [{"a": "1", "b": "yes", "c": "1", "d": "1"}], id="quoted text"
    ),
    pytest.param(
        "a: !!int '7'\nb: !!float 1\nc: !!null ''\nd: !!bool 'no'", [{"a": 7, "b": 1, "c": None, "d": False}], id="tags"
    ),
    pytest.param("a: &x {k: [1]}\nb: *x", [{"a": {"k": [1]}, "b": {"k": [1]}}], id="an alias"),
    pytest.param("a: &x 5\n*x : 6", [{"a": 5, "5": 6}], id="an alias as key"),
    pytest.param(
        "a: &x {k: 1, l: 2}\nb:\n  k: 3\n  <<: *x",
        [{"a": {"k": 1, "l": 2}, "b": {"k": 3, "l": 2}}],
        id="a merged mapping",
    ),
    pytest.param("<<: [{a: 1}, {a: 2, b: 3}]", [{"a": 1, "b": 3}], id="the first of merged mappings wins"),
    pytest.param("'<<': 1", [{"<<": 1}], id="a quoted << is a key"),
]


@pytest.mark.parametrize(("text", "documents"), DOCUMENTS)
def test_documents(text: str, documents: list[Any]) -> None:
    assert list(read_documents(text.encode())) == documents


FAULTS = [
    pytest.param("a: 1\nb: 2\na: 3", 3, 1, 'duplicate key "a"; remove all but one', id="a key twice"),
    pytest.param("1: a\n'1': b", 2, 1, 'duplicate key "1"; remove all but one', id="a key twice once it is text"),
    pytest.param("a: *x", 1, 4, "the alias *x has no anchor before it; define &x first", id="an unknown alias"),
    pytest.param(
        "a: &x [*x]", 1, 8, "the alias *x has no anchor before it; define &x first", id="an alias inside its anchor"
    ),
    pytest.param("? [a]\n: b", 1, 5, "the key is not a string; write a string", id="a list as key"),
    pytest.param("~: b", 1, 1, "the key is not a string; write a string", id="null as key"),
    pytest.param("<<: 3", 1, 5, "only mappings can be merged after <<; write a mapping", id="a merged number"),
    pytest.param(
        "a: !!python/name:os.system x",
        1,
        4,
        "the tag tag:yaml.org,2002:python/name:os.system is not supported; remove it",
        id="a tag that runs code",
    ),
    pytest.param("a: !mine {}", 1, 4, "the tag !mine is not supported; remove it", id="a tag of one's own"),
    pytest.param(
        "a: !!int x",
        1,
        4,
        "the value does not match its tag tag:yaml.org,2002:int; correct one of them",
        id="a tag that lies",
    ),
    pytest.param(
        "a: !!int yes",
        1,
        4,
        "the value does not match its tag tag:yaml.org,2002:int; correct one of them",
        id="a boolean is no integer",
    ),
    pytest.param(
        "a: {",
        2,
        1,
        "the text does not parse (did not find expected node content, while parsing a flow node)",
        id="a torn text",
    ),
    pytest.param(
        "a:\n\t- b",
        2,
        1,
        "the text does not parse (found character that cannot start any token, while scanning for the next token)",
        id="a tab",
    ),
    pytest.param(
        "[" * (STANDARD_LIMITS.depth + 1),
        1,
        STANDARD_LIMITS.depth + 1,
        f"the nesting is too deep; at most {STANDARD_LIMITS.depth} levels are supported",
        id="too deep",
    ),
]


@pytest.mark.parametrize(("text", "line", "column", "reason"), FAULTS)
def test_faults(text: str, line: int, column: int, reason: str) -> None:
    with pytest.raises(YamlFault) as fault:
        list(read_documents(text.encode()))
    assert (fault.value.line, fault.value.column, str(fault.value)) == (line, column, reason)


def test_documents_before_a_fault_are_read() -> None:
    documents = read_documents(b"a: 1\n---\nb: 2\n---\n}")
    assert (next(documents), next(documents)) == ({"a": 1}, {"b": 2})
    with pytest.raises(YamlFault):
        next(documents)


@pytest.mark.parametrize("shape", ["[{}]", "{{<<: [{}]}}"], ids=["lists", "merges"])
def test_aliases_of_aliases_are_bounded(shape: str) -> None:
    seed = "&l0 [x]" if shape == "[{}]" else "&l0 {x: y}"
    lines = [f"l0: {seed}", *(f"l{i}: &l{i} {shape.format(', '.join([f'*l{i - 1}'] * 9))}" for i in range(1, 20))]
    with pytest.raises(YamlFault, match=f"the aliases stand for more than {STANDARD_LIMITS.aliased_nodes} nodes"):
        list(read_documents("\n".join(lines).encode()))


@pytest.mark.parametrize("text", [b"\xff\xfe\x00", b"a: \xff", b"\x00", b"a: \x07"])
def test_bytes_that_are_no_text(text: bytes) -> None:
    with pytest.raises(YamlFault):
        list(read_documents(text))


def test_progress_is_told_while_parsing() -> None:
    text = b"".join(b"- {a: 1}\n" for _ in range(5000))
    positions: list[int] = []
    list(read_documents(text, positions.append))
    assert len(positions) > 3
    assert positions == sorted(positions)
    assert 0 < positions[-1] <= len(text)


def plain_data(text: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        st.none() | st.booleans() | st.integers(-(10**9), 10**9) | text,
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
        max_leaves=20,
    )


@given(plain_data(st.text(max_size=20)))
def test_what_pyyaml_writes_is_read_back(value: Any) -> None:
    quoted = yaml.safe_dump(value, default_style='"')  # Unquoted, `0E0` is text to PyYAML and a number to kubectl.
    assert list(read_documents(quoted.encode())) == [value]


@given(plain_data(st.text(st.characters(max_codepoint=0xD7FF), max_size=20)))
def test_json_is_yaml(value: Any) -> None:
    assert list(read_documents(json.dumps(value).encode())) == [value]


@given(st.text(alphabet="ab:-?[]{},&*!<|>'\"#% \n1.~=", max_size=60))
def test_wild_text_is_read_or_refused(text: str) -> None:
    try:
        list(read_documents(text.encode()))
    except YamlFault as fault:
        assert fault.line >= 1
        assert fault.column >= 1


def test_a_repeated_key_is_reported_with_its_own_line_and_that_of_its_value() -> None:
    text = b"a: 1\nb:\n- c: 1\n  c:\n    d: 2\na:\n  x: 1\n  x: 2\n"
    inner, outer = Repeat(8, ("a", "x"), 8), Repeat(6, ("a",), 7)
    assert repeated_keys(text) == [Repeat(4, ("b", 0, "c"), 5), inner, outer]


def test_of_repeated_keys_the_last_counts() -> None:
    assert read_document(b"a: 1\na: 2\n", keep_last) == {"a": 2}


def test_a_second_document_is_refused_where_it_begins() -> None:
    with pytest.raises(
        YamlFault, match="expected a single document in the stream, but found another document"
    ) as fault:
        read_document(b"a: 1\nb: 2\n--- \nc: 3\n")
    assert (fault.value.line, fault.value.column) == (3, 1)


@pytest.mark.parametrize(
    ("text", "kind"),
    [("[[[]]]", TooDeep), ("a: &a [1]\nb: [*a, *a]\n", TooManyAliases), ("a: &a [*a]\n", TooManyAliases)],
    ids=["one level too many", "one alias too many", "an alias inside its own anchor"],
)
def test_limits_are_those_of_the_caller(text: str, kind: type[YamlFault]) -> None:
    assert read_document("[[]]", limits=YamlLimits(2, 3)) == [[]]
    with pytest.raises(kind):
        read_document(text, limits=YamlLimits(2, 3))


def test_a_fault_of_the_parser_carries_the_parsers_error() -> None:
    with pytest.raises(YamlFault) as fault:
        read_document("a: b: c")
    assert isinstance(fault.value.error, yaml.MarkedYAMLError)
