"""Merge patches: recorded exchanges, the examples of RFC 7386, and its pseudo-code as a twin."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.api_errors import ApiError
from mooring.api.patches.json_patch import apply_merge_patch, equal

RECORDED = [
    row for row in json.loads((Path(__file__).parent / "data/patches.json").read_text()) if row["type"] == "merge"
]

keys = st.sampled_from(["a", "b", "c"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("xy", max_size=2),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=12,
)
objects = st.dictionaries(keys, json_values, max_size=3)


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in RECORDED])
def test_recorded_patches(row: dict[str, Any]) -> None:
    result = apply_merge_patch(row["before"], row["patch"])
    assert result["spec"] == row["after"]["spec"]
    assert result["status"] == row["after"]["status"]


RFC_7386 = [
    ({"a": "b"}, {"a": "c"}, {"a": "c"}),
    ({"a": "b"}, {"b": "c"}, {"a": "b", "b": "c"}),
    ({"a": "b"}, {"a": None}, {}),
    ({"a": "b", "b": "c"}, {"a": None}, {"b": "c"}),
    ({"a": ["b"]}, {"a": "c"}, {"a": "c"}),
    ({"a": "c"}, {"a": ["b"]}, {"a": ["b"]}),
    ({"a": {"b": "c"}}, {"a": {"b": "d", "c": None}}, {"a": {"b": "d"}}),
    ({"a": [{"b": "c"}]}, {"a": [1]}, {"a": [1]}),
    ({"e": None}, {"a": 1}, {"e": None, "a": 1}),
    ({}, {"a": {"bb": {"ccc": None}}}, {"a": {"bb": {}}}),
    ({}, {"a": [{"b": None}]}, {"a": [{"b": None}]}),
]


@pytest.mark.parametrize(
    ("document", "patch", "result"), [pytest.param(*row, id=f"{row[0]} and {row[1]}") for row in RFC_7386]
)
def test_examples_of_the_rfc(document: dict[str, Any], patch: object, result: dict[str, Any]) -> None:
    assert apply_merge_patch(document, patch) == result


REFUSED = [
    ("null", None, "Invalid JSON Patch"),
    ("a list", [1], "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}"),
    (
        "a text",
        "x",
        "error decoding patch: json: cannot unmarshal string into Go value of type map[string]interface {}",
    ),
]


@pytest.mark.parametrize(("patch", "message"), [pytest.param(*row[1:], id=row[0]) for row in REFUSED])
def test_what_is_no_object_is_refused(patch: object, message: str) -> None:
    with pytest.raises(ApiError) as refused:
        apply_merge_patch({}, patch)
    assert (refused.value.code, refused.value.message) == (400, message)


def test_patches_nested_too_deep_are_refused() -> None:
    deep: dict[str, Any] = {}
    for _ in range(5000):
        deep = {"a": deep}
    with pytest.raises(ApiError, match="exceeded max depth"):
        apply_merge_patch({}, deep)


def rfc_merge(target: Any, patch: Any) -> Any:
    """The pseudo-code of RFC 7386, word for word; it changes its target."""
    if not isinstance(patch, dict):
        return patch
    if not isinstance(target, dict):
        target = {}
    for name, value in patch.items():
        if value is None:
            if name in target:
                del target[name]
        else:
            target[name] = rfc_merge(target.get(name), value)
    return target


@given(objects, objects)
def test_the_pseudo_code_agrees(document: dict[str, Any], patch: dict[str, Any]) -> None:
    before = copy.deepcopy((document, patch))
    result = apply_merge_patch(document, patch)
    assert equal([document, patch], list(before))
    assert equal(result, rfc_merge(copy.deepcopy(document), patch))


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return value


def diff(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    patch: dict[str, Any] = {key: None for key in old if key not in new}
    for key, value in new.items():
        if isinstance(value, dict) and isinstance(old.get(key), dict):
            patch[key] = diff(old[key], value)
        elif key not in old or not equal(old[key], value):
            patch[key] = value
    return patch


@given(objects, objects)
def test_a_diff_leads_from_one_object_to_the_other(old: dict[str, Any], new: dict[str, Any]) -> None:
    """Only to those without nulls: a merge patch cannot say null."""
    wanted = without_nulls(new)
    assert equal(apply_merge_patch(old, diff(old, wanted)), wanted)


@given(objects, json_values)
def test_any_json_is_a_patch_or_is_refused(document: dict[str, Any], patch: object) -> None:
    try:
        once = apply_merge_patch(document, patch)
    except ApiError as refused:
        assert refused.code == 400
    else:
        assert equal(apply_merge_patch(once, patch), once), "the same patch again changes nothing"
