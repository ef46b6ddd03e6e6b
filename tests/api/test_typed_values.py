"""The structs that are made of the table of fields, and the walk that finds what does not fit, agree."""

from datetime import datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.api_errors import ApiError
from mooring.api.fields import fields_of, is_list, is_map, is_type, part_of, table, type_of
from mooring.api.kinds import RESOURCES
from mooring.api.schema import strict
from mooring.api.schema.typed_values import check_typed, conforms, has_conforming_spec, misfit_of, quantity_fault

KINDS = {type_of(resource): resource for resource in RESOURCES.values()}
ODD = st.sampled_from(
    [None, True, 0, -1, 1 << 63, 1.0, "", "1", "x", "2024-02-30T00:00:00Z", [], [None], {}, {"a": None}]
)
PLAIN = {
    "string": "x",
    "boolean": True,
    "integer": 1,
    "time": "2024-12-31T23:59:59Z",
    "micro-time": "2024-12-31T23:59:59.123456Z",
    "quantity": "1500m",
    "int-or-string": "50%",
    "object": {"any": 1},
    "fields-v1": {"f:a": {}},
}


@st.composite
def values(draw: st.DrawFn, holds: str) -> Any:
    """Mostly what fits; now and then something odd, or a field that the type does not have."""
    if draw(st.integers(0, 19)) == 0:
        return draw(ODD)
    if is_list(holds):
        return [draw(values(part_of(holds))) for _ in range(draw(st.integers(0, 2)))]
    if is_map(holds):
        return {f"k{i}": draw(values(part_of(holds))) for i in range(draw(st.integers(0, 2)))}
    if not is_type(holds):
        return PLAIN[holds]
    fields = fields_of(holds)
    names = draw(st.lists(st.sampled_from(sorted(fields)), max_size=3, unique=True))
    made = {name: draw(values(fields[name].holds)) for name in names}
    return {**made, "mast": 1} if draw(st.integers(0, 19)) == 0 else made


@given(
    st.sampled_from(["core.Pod", "core.Node", "resource.ResourceSlice", "apps.Deployment"]).flatmap(
        lambda holds: st.tuples(st.just(holds), values(holds))
    )
)
def test_the_quick_look_and_the_thorough_one_agree(drawn: tuple[str, Any]) -> None:
    holds, value = drawn
    if not isinstance(value, dict):
        return
    fits = misfit_of(holds, value, "x") is None and not strict.told_faults(KINDS[holds], value)
    assert conforms(holds, value) is fits


@given(
    st.text(alphabet="0123456789.eEkKmMi+- n", max_size=8) | st.sampled_from(["1e18", "1e99", "-1.5Gi", "1_0", "1\n"])
)
def test_a_text_that_the_quick_look_takes_for_a_quantity_is_one(text: str) -> None:
    assert not conforms("quantity", text) or not quantity_fault(text)


@given(
    *(st.integers(0, 9999), st.integers(0, 13), st.integers(0, 32), st.integers(0, 24), st.integers(0, 60)),
    st.sampled_from(["Z", ".5Z", "+01:00", "", "z"]),
)
def test_a_text_that_the_quick_look_takes_for_a_time_is_one(
    year: int, month: int, day: int, hour: int, minute: int, zone: str
) -> None:
    text = f"{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:00{zone}"
    if conforms("time", text):
        assert datetime.fromisoformat(text)
    assert not conforms("time", text) or misfit_of("time", text, "x") is None


def test_what_only_the_thorough_look_takes() -> None:
    pod = {"metadata": {"creationTimestamp": "2024-02-29T00:00:00Z"}}
    assert not conforms("core.Pod", pod)
    check_typed("core.Pod", pod, "Pod", "v1")


def test_a_null_in_a_list_of_plain_values_does_not_fit() -> None:
    with pytest.raises(ApiError, match=r"cannot unmarshal array into Go struct field Pod\.metadata\.finalizers"):
        check_typed("core.Pod", {"metadata": {"finalizers": ["a", None]}}, "Pod", "v1")
    check_typed("core.Pod", {"spec": {"containers": [None]}}, "Pod", "v1")


def test_every_type_of_the_table_has_a_struct() -> None:
    for name in table().types:
        assert conforms(name, {})


# ---- the spec of an object in JSON text


@pytest.mark.parametrize(
    "spec",
    [
        {"nodeName": "n", "containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
        {"containers": None, "nodeSelector": {"a": None}},
        {"priority": 1, "hostNetwork": True, "terminationGracePeriodSeconds": 30},
        {},
        {"nodeNam": "n"},
        {"containers": [{"nam": "c"}]},
        {"containers": {}},
        {"priority": "1"},
        {"containers": [{"resources": {"requests": {"cpu": " 1 "}}}]},
        "spec",
    ],
    ids=str,
)
def test_a_spec_conforms_as_text_as_it_does_decoded(spec: Any) -> None:
    text = msgspec.json.encode({"metadata": {"any": "thing"}, "spec": spec, "other": [1]})
    assert has_conforming_spec("core.Pod", text) == conforms("core.Pod", {"spec": spec})
    assert has_conforming_spec("core.Pod", msgspec.Raw(text)) == conforms("core.Pod", {"spec": spec})


@pytest.mark.parametrize("text", [b"{}", b'{"spec":null}', b'{"spec":{}', b"[]", b'{"spec":{"nodeName":"\xff"}}'])
def test_text_without_a_spec_does_not_conform(text: bytes) -> None:
    assert not has_conforming_spec("core.Pod", text)


def test_a_kind_without_a_spec_has_none() -> None:
    assert not has_conforming_spec("core.ConfigMap", b'{"spec":{}}')
