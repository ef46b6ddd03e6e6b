"""From bytes to data: what is JSON, what is YAML, and what is neither or too much."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from asking import APPLY_PATCH, CONFIG_MAPS, JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, ask
from cluster_api import an_api
from mooring.api.api_errors import ApiError
from mooring.apiserver.server.request import read_json, read_object, read_yaml

JSON, YAML = "application/json", "application/yaml"

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 10)}]\n"
    for before, name in zip("abcdefghi", "bcdefghij", strict=True)
)


@pytest.mark.parametrize(
    "content_type", ["", JSON, "Application/JSON", "application/json; charset=utf-8", "application/json;charset=UTF-8"]
)
def test_json_is_taken_under_all_its_names(content_type: str) -> None:
    assert read_object(b'{"a": 1}', content_type, "Pod") == {"a": 1}


@pytest.mark.parametrize("text", ["{a: 1}", "a: 1\n", '{"a": 1}', "---\na: 1\n", "a: 0x1\n"])
def test_yaml_is_taken(text: str) -> None:
    assert read_object(text.encode(), YAML, "Pod") == {"a": 1}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "unexpected end of JSON input ()"),
        (b'{"a":', 'unexpected end of JSON input ({"a":)'),
        (b'{"a":"', 'unexpected end of JSON input ({"a":")'),
        (b"hello", "invalid character 'h' looking for beginning of value (hello)"),
        (b"{a: 1}", "invalid character 'a' looking for beginning of object key string ({a: 1})"),
        (b'{"a":"\xff"}', 'invalid UTF-8 in string ({"a":"\N{REPLACEMENT CHARACTER}"})'),
    ],
    ids=["nothing", "open", "open string", "text", "YAML", "no UTF-8"],
)
def test_what_is_no_json_is_refused_in_words_of_go(body: bytes, why: str) -> None:
    with pytest.raises(ApiError) as refused:
        read_object(body, JSON, "Pod")
    assert refused.value.message == (
        f"the object provided is unrecognized (must be of type Pod): couldn't get version/kind; json parse error: {why}"
    )


@pytest.mark.parametrize("media", [JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH])
@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000, b'{"a":' * 100_000, b"NaN"])
def test_what_is_no_patch_is_refused(media: str, body: bytes) -> None:
    api = an_api()
    ask(api, "POST", CONFIG_MAPS, {"metadata": {"name": "c"}})
    reply = ask(api, "PATCH", f"{CONFIG_MAPS}/c", body, media)
    assert (reply.code, reply.body["reason"]) == (400, "BadRequest")


def test_a_number_of_thousands_of_digits_is_refused() -> None:
    with pytest.raises(ApiError):
        read_json(b"1" * 5000)


@pytest.mark.parametrize("content_type", [YAML, APPLY_PATCH])
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("[" * 100_000, "exceeded max depth"),
        ("- " * 100_000 + "x", "exceeded max depth"),
        ("? " * 100_000 + "x", "exceeded max depth"),
        ("{a: " * 50_000, "exceeded max depth"),
        (LAUGHS, "document contains excessive aliasing"),
        ("a: &a [*a]", "document contains excessive aliasing"),
        ("a: &a {b: {c: *a}}", "document contains excessive aliasing"),
        ("a: {", ""),
        ("a: *nowhere", ""),
        ("!!python/object/apply:os.system ['true']", ""),
        ("\0", ""),
        ("a: b: c", ""),
        ("a: 1\n--- \nb: 2\n", ""),
        ("{[a]: b}", ""),
    ],
    ids=lambda text: text[:20],
)
def test_yaml_that_would_be_the_end_of_us_is_refused(content_type: str, text: str, why: str) -> None:
    """libyaml crashes on deep nesting, and small documents can stand for more than there is memory."""
    api = an_api()
    method, path = ("POST", CONFIG_MAPS) if content_type == YAML else ("PATCH", f"{CONFIG_MAPS}/c")
    reply = ask(api, method, path, text.encode(), content_type, fieldManager="me")
    assert (reply.code, reply.body["reason"]) == (400, "BadRequest")
    assert why in reply.body["message"]
    assert api.store.count("/configmaps") == 0


def test_aliases_within_reason_are_taken() -> None:
    text = "metadata: {name: c, labels: &l {a: b}, annotations: *l}\n"
    made = ask(an_api(), "POST", CONFIG_MAPS, text.encode(), YAML)
    assert (made.code, made.body["metadata"]["annotations"]) == (201, {"a": "b"})


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


@given(VALUES)
def test_what_is_json_is_read_as_such_by_either(value: object) -> None:
    body = json.dumps(value).encode()
    assert read_json(body) == read_yaml(body) == value


@given(st.binary(max_size=60))
def test_no_bytes_are_a_fault_of_ours(body: bytes) -> None:
    for content_type in (JSON, YAML):
        try:
            assert isinstance(read_object(body, content_type, "Pod"), dict)
        except ApiError as refused:
            assert refused.code == 400
