"""JSON Patch: recorded exchanges, RFC 6902 case by case, kube-apiserver's quirks, and nothing that ends in a traceback."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.api_errors import ApiError
from mooring.api.patches.json_patch import COPY_LIMIT_BYTES, OPERATION_LIMIT, apply_json_patch, equal

RECORDED = [
    row for row in json.loads((Path(__file__).parent / "data/patches.json").read_text()) if row["type"] == "json"
]

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.text("ab/~-01", max_size=3),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["a", "b", "c/d", "e~f", ""]), inner, max_size=3)
    ),
    max_leaves=12,
)
documents = st.dictionaries(st.sampled_from(["a", "b", "c/d", "e~f", ""]), json_values, max_size=4)


def an_operation(op: str, path: str, **others: Any) -> dict[str, Any]:
    return {"op": op, "path": path} | {name.strip("_"): value for name, value in others.items()}


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in RECORDED])
def test_recorded_patches(row: dict[str, Any]) -> None:
    result = apply_json_patch(row["before"], row["patch"])
    assert result["metadata"].get("labels") == row["after"]["metadata"].get("labels")
    assert result["spec"].get("schedulingGates", []) == row["after"]["spec"].get("schedulingGates", [])


BASE = {"a": {"b": 1}, "l": [1, 2, 3], "x/y": 1, "m~n": 2, "z": None}
FITTING = [
    ("adds a field", [an_operation("add", "/c", value=2)], {"c": 2}),
    ("adds over a field", [an_operation("add", "/a", value=2)], {"a": 2}),
    ("adds in an object inside", [an_operation("add", "/a/c", value=[1])], {"a": {"b": 1, "c": [1]}}),
    ("adds at the front of a list", [an_operation("add", "/l/0", value=0)], {"l": [0, 1, 2, 3]}),
    ("adds after the last item by position", [an_operation("add", "/l/3", value=4)], {"l": [1, 2, 3, 4]}),
    ("adds after the last item by a dash", [an_operation("add", "/l/-", value=4)], {"l": [1, 2, 3, 4]}),
    (
        "negative positions count from behind the last item",
        [an_operation("add", "/l/-1", value=4)],
        {"l": [1, 2, 3, 4]},
    ),
    ("adds null where no value is given", [an_operation("add", "/c")], {"c": None}),
    ("replaces an item", [an_operation("replace", "/l/1", value="x")], {"l": [1, "x", 3]}),
    ("replaces the last item", [an_operation("replace", "/l/-1", value="x")], {"l": [1, 2, "x"]}),
    ("replaces what is absent", [an_operation("replace", "/a/c", value=1)], {"a": {"b": 1, "c": 1}}),
    ("removes an item", [an_operation("remove", "/l/0")], {"l": [2, 3]}),
    ("a slash in a key is ~1", [an_operation("replace", "/x~1y", value=5)], {"x/y": 5}),
    ("a tilde in a key is ~0", [an_operation("replace", "/m~0n", value=5)], {"m~n": 5}),
    ("a key that is the empty text", [an_operation("add", "/", value=5)], {"": 5}),
    (
        "moves between lists and objects",
        [an_operation("move", "/a/c", from_="/l/0")],
        {"a": {"b": 1, "c": 1}, "l": [2, 3]},
    ),
    ("moves within a list", [an_operation("move", "/l/0", from_="/l/2")], {"l": [3, 1, 2]}),
    ("copies", [an_operation("copy", "/l/-", from_="/a")], {"l": [1, 2, 3, {"b": 1}]}),
    (
        "copies are apart",
        [an_operation("copy", "/c", from_="/a"), an_operation("add", "/c/b", value=2)],
        {"c": {"b": 2}},
    ),
    ("tests what is there", [an_operation("test", "/a", value={"b": 1})], {}),
    ("tests an item", [an_operation("test", "/l/2", value=3)], {}),
    ("tests the document", [an_operation("test", "", value=BASE)], {}),
    (
        "what is absent is null to a test",
        [an_operation("test", "/nope", value=None), an_operation("test", "/nope")],
        {},
    ),
    ("no operations", [], {}),
    ("null for a patch", None, {}),
    ("unknown members of an operation are ignored", [an_operation("test", "/a/b", value=1, why="x")], {}),
]


@pytest.mark.parametrize(("patch", "changes"), [pytest.param(*row[1:], id=row[0]) for row in FITTING])
def test_operations_that_fit(patch: object, changes: dict[str, Any]) -> None:
    assert equal(apply_json_patch(BASE, patch), BASE | changes)


def test_removing_a_field() -> None:
    assert apply_json_patch({"a": 1, "b": 2}, [an_operation("remove", "/a")]) == {"b": 2}


def test_replacing_the_document() -> None:
    assert apply_json_patch(BASE, [an_operation("replace", "", value={"q": 1})]) == {"q": 1}


UNFIT = [
    ("adds under what is absent", an_operation("add", "/q/r", value=1)),
    ("adds to the document itself", an_operation("add", "", value={})),
    ("adds to a number", an_operation("add", "/a/b/c", value=1)),
    ("adds behind the end of a list", an_operation("add", "/l/4", value=1)),
    ("adds far before a list", an_operation("add", "/l/-5", value=1)),
    ("adds at a position that is no number", an_operation("add", "/l/x", value=1)),
    ("adds at a position in other digits", an_operation("add", "/l/١", value=1)),
    ("replaces an item behind the end", an_operation("replace", "/l/3", value=1)),
    ("replaces the dash", an_operation("replace", "/l/-", value=1)),
    ("replaces the document by a number", an_operation("replace", "", value=1)),
    ("removes what is absent", an_operation("remove", "/q")),
    ("removes an item behind the end", an_operation("remove", "/l/3")),
    ("moves into itself", an_operation("move", "/a/c", from_="/a")),
    ("moves what is absent", an_operation("move", "/c", from_="/q")),
    ("moves from nowhere", an_operation("move", "/c")),
    ("copies what is absent", an_operation("copy", "/c", from_="/q")),
    ("tests another value", an_operation("test", "/a/b", value=2)),
    ("tests a number as a truth", an_operation("test", "/a/b", value=True)),
    ("tests an integer as a float", an_operation("test", "/a/b", value=1.0)),
    ("tests without a value what is there", an_operation("test", "/a/b")),
    ("tests under a number", an_operation("test", "/a/b/c", value=1)),
    ("has no path", {"op": "add", "value": 1}),
    ("has a path without a slash", an_operation("add", "c", value=1)),
    ("has an unknown operation", an_operation("merge", "/a", value=1)),
    ("has no operation", {"path": "/a"}),
    ("is null", None),
]


@pytest.mark.parametrize("operation", [pytest.param(row[1], id=row[0]) for row in UNFIT])
def test_operations_that_do_not_fit_are_refused_without_reasons(operation: object) -> None:
    with pytest.raises(ApiError) as refused:
        apply_json_patch(BASE, [operation])
    assert refused.value.status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": "the server rejected our request due to an error in our request",
        "reason": "Invalid",
        "details": {},
        "code": 422,
    }
    assert str(refused.value.__cause__), "the log can tell why"


UNREADABLE = [
    (
        "an object",
        {"op": "add"},
        "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
    ),
    (
        "a list of texts",
        ["add"],
        "error decoding patch: json: cannot unmarshal string into Go value of type handlers.jsonPatchOp",
    ),
    (
        "a path that is a number",
        [{"op": "add", "path": 1}],
        "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.path of type string",
    ),
]


@pytest.mark.parametrize(("patch", "message"), [pytest.param(*row[1:], id=row[0]) for row in UNREADABLE])
def test_what_is_no_patch(patch: object, message: str) -> None:
    with pytest.raises(ApiError) as refused:
        apply_json_patch(BASE, patch)
    assert (refused.value.code, refused.value.message) == (400, message)


def test_too_many_operations() -> None:
    with pytest.raises(ApiError) as refused:
        apply_json_patch(BASE, [an_operation("test", "/a/b", value=1)] * (OPERATION_LIMIT + 1))
    assert refused.value.code == 413
    assert refused.value.message == (
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001"
    )


def test_copies_cannot_grow_without_bounds() -> None:
    doubling = [an_operation("copy", "/a/-", from_="/a")] * 40
    with pytest.raises(ApiError, match="rejected our request"):
        apply_json_patch({"a": ["x" * (COPY_LIMIT_BYTES // 1000)]}, doubling)


def test_a_result_that_is_no_object() -> None:
    with pytest.raises(ApiError) as refused:
        apply_json_patch(BASE, [an_operation("replace", "", value=[1])])
    assert refused.value.code == 422
    assert refused.value.message == ' "" is invalid: patch: Invalid value: "[1]": the patched document is not an object'


def test_all_operations_apply_or_none() -> None:
    document = copy.deepcopy(BASE)
    with pytest.raises(ApiError):
        apply_json_patch(document, [an_operation("remove", "/a"), an_operation("remove", "/a")])
    assert document == BASE


def test_what_is_not_touched_is_shared() -> None:
    document: dict[str, Any] = {"a": {"b": 1}, "c": {"d": 1}}
    assert apply_json_patch(document, [an_operation("add", "/a/x", value=1)])["c"] is document["c"]


def test_documents_nested_too_deep_are_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(ApiError, match="exceeded max depth"):
        apply_json_patch(deep, [an_operation("test", "", value=deep)])


EQUALS = [
    ("the same number", 1, 1, True),
    ("a number and a truth", 1, True, False),
    ("an integer and a float", 1, 1.0, False),
    ("objects in another order", {"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
    ("objects with another key", {"a": 1}, {"b": 1}, False),
    ("lists in another order", [1, 2], [2, 1], False),
    ("a list and its beginning", [1, 2], [1], False),
    ("truth inside", {"a": [{"b": 0}]}, {"a": [{"b": False}]}, False),
    ("null and nothing", None, {}, False),
]


@pytest.mark.parametrize(("one", "other", "same"), [pytest.param(*row[1:], id=row[0]) for row in EQUALS])
def test_equality_knows_types(one: object, other: object, same: bool) -> None:
    assert equal(one, other) is same


def diff(old: Any, new: Any, path: str = "") -> list[dict[str, Any]]:
    """A patch from one document to another, object by object; the plainest that is right."""
    patch = [an_operation("remove", f"{path}/{escaped(key)}") for key in old if key not in new]
    for key, value in new.items():
        inner = f"{path}/{escaped(key)}"
        if isinstance(value, dict) and isinstance(old.get(key), dict):
            patch += diff(old[key], value, inner)
        elif key not in old or not equal(old[key], value):
            patch.append(an_operation("add", inner, value=value))
    return patch


def escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


@given(documents, documents)
def test_a_diff_leads_from_one_document_to_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    before = copy.deepcopy(old)
    assert equal(apply_json_patch(old, diff(old, new)), new)
    assert equal(old, before)


pointers = st.lists(st.sampled_from(["a", "b", "c~1d", "e~0f", "", "0", "1", "-", "-1", "+1", "x"]), max_size=3).map(
    lambda keys: "".join(f"/{key}" for key in keys)
)
operations = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test", "no"]), "path": pointers},
    optional={"from": pointers, "value": json_values},
)


@given(documents, st.lists(operations, max_size=5))
def test_any_operations_apply_or_are_refused_and_change_no_input(
    document: dict[str, Any], patch: list[dict[str, Any]]
) -> None:
    before = copy.deepcopy((document, patch))
    try:
        assert isinstance(apply_json_patch(document, patch), dict)
    except ApiError as refused:
        assert refused.code == 422
    assert equal([document, patch], list(before))


@given(documents, json_values)
def test_any_json_is_a_patch_or_is_refused(document: dict[str, Any], patch: object) -> None:
    try:
        apply_json_patch(document, patch)
    except ApiError as refused:
        assert refused.code in (400, 422)
