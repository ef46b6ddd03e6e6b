"""Unknown and duplicate fields, in the words and the order of kube-apiserver."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import RESOURCES
from mooring.api.schema import strict

PODS, DEPLOYMENTS = RESOURCES["", "v1", "pods"], RESOURCES["apps", "v1", "deployments"]
SLICES, REVISIONS = RESOURCES["resource.k8s.io", "v1", "resourceslices"], RESOURCES["apps", "v1", "controllerrevisions"]

FAULTY = b"""{
  "apiVersion": "apps/v1", "kind": "Deployment",
  "metadata": {"name": "first", "name": "d", "labels": {"app": "a", "app": "b"}, "colour": "m"},
  "spec": {
    "mast": {"a": 1, "a": 2}, "sail": 1, "sail": 2, "paused": true, "paused": false,
    "template": {"spec": {"containers": [
      {"name": "c", "anchor": 1, "imagePullPolicy": "Always", "imagePullPolicy": "Never"}, {"name": "d", "foo": 1}
    ]}}
  }
}"""


def found(resource: KindSpec, body: bytes) -> list[str]:
    return strict.told_faults(resource, body)


def test_both_kinds_of_faults_are_told_in_the_order_of_the_body() -> None:
    assert found(DEPLOYMENTS, FAULTY) == [
        'duplicate field "metadata.name"',
        'duplicate field "metadata.labels.app"',
        'unknown field "metadata.colour"',
        'unknown field "spec.mast"',
        'unknown field "spec.sail"',
        'duplicate field "spec.paused"',
        'unknown field "spec.template.spec.containers[0].anchor"',
        'duplicate field "spec.template.spec.containers[0].imagePullPolicy"',
        'unknown field "spec.template.spec.containers[1].foo"',
    ]


def test_of_a_body_without_a_type_only_duplicates_are_told() -> None:
    assert strict.duplicates(FAULTY)[2:5] == [
        'duplicate field "spec.mast.a"',
        'duplicate field "spec.sail"',
        'duplicate field "spec.paused"',
    ]
    assert strict.duplicates(b'{"a": [{"b": 1}, {"b": 1}], "b": {"a": 1}}') == []


@pytest.mark.parametrize(
    ("resource", "item", "expected"),
    [
        pytest.param(PODS, {"spec": {"foo": 1}}, ["spec.foo"], id="in the spec"),
        pytest.param(PODS, {"Spec": {}}, ["Spec"], id="case matters"),
        pytest.param(PODS, {"spec": {"nodeSelector": {"foo": "1"}}}, [], id="keys of a map are not fields"),
        pytest.param(PODS, {"spec": {"volumes": [{"nfs": {"ip": ""}}]}}, ["spec.volumes[0].nfs.ip"], id="in a union"),
        pytest.param(PODS, {"spec": None, "metadata": {"labels": None}}, [], id="nulls"),
        pytest.param(PODS, {"spec": [{"foo": 1}], "metadata": "x"}, [], id="the wrong form is refused elsewhere"),
        pytest.param(PODS, {"metadata": {"managedFields": [{"fieldsV1": {"f:x": {}}}]}}, [], id="owned fields"),
        pytest.param(REVISIONS, {"data": {"any": {"thing": 1}}}, [], id="raw data"),
        pytest.param(
            SLICES,
            {"spec": {"devices": [{"attributes": {"a": {"int": 1, "foo": 1}}}]}},
            ["spec.devices[0].attributes.a.foo"],
            id="in a value of a map",
        ),
        pytest.param(KindSpec("example.org", "v1", "boats", "Boat"), {"foo": 1}, [], id="a kind nobody knows"),
    ],
)
def test_unknown_fields(resource: KindSpec, item: dict[str, Any], expected: list[str]) -> None:
    told = [f'unknown field "{path}"' for path in expected]
    assert strict.told_faults(resource, item) == told
    assert found(resource, json.dumps(item).encode()) == told
    assert strict.is_known(resource, item) is not bool(expected)


def test_no_more_than_a_hundred_faults_are_told() -> None:
    assert len(strict.told_faults(PODS, {f"f{i}": 1 for i in range(200)})) == 100


def test_raw_data_may_have_fields_twice() -> None:
    assert found(REVISIONS, b'{"data": {"a": 1, "a": 2}}') == []


def test_faults_of_json_patch_operations() -> None:
    body = b'[{"op": "add", "path": "/a", "value": {"x": 1}, "foo": 1}, {"op": "test", "path": "/a", "path": "/b"}]'
    assert strict.json_patch_faults(body) == [
        'json patch unknown field "[0].foo"',
        'json patch duplicate field "[1].path"',
    ]


# Against plain twins

NAMES = st.sampled_from(["spec", "metadata", "containers", "name", "labels", "foo", 'a"b'])
VALUES = st.recursive(
    st.sampled_from(["1", '"a:b"', '"\\":"', "null", "[]"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3).map(lambda parts: f"[{','.join(parts)}]"),
        st.lists(st.tuples(NAMES, inner), max_size=4).map(
            lambda pairs: f"{{{','.join(f'{json.dumps(name)}: {value}' for name, value in pairs)}}}"
        ),
    ),
    max_leaves=12,
)


def has_repeats(text: str) -> bool:
    """Whether there is an object with fewer entries than were written."""
    lost: list[bool] = []
    json.loads(text, object_pairs_hook=lambda pairs: lost.append(len({key for key, _ in pairs}) < len(pairs)))
    return any(lost)


@given(VALUES)
def test_duplicates_are_told_where_there_are_some(text: str) -> None:
    assert bool(strict.duplicates(text.encode())) is has_repeats(text)


@given(VALUES.filter(lambda text: text.startswith("{")))
def test_the_quick_look_and_the_thorough_one_agree(text: str) -> None:
    item = json.loads(text)
    told = strict.told_faults(PODS, item)
    assert strict.is_known(PODS, item) is not bool(told)
    assert set(told) == {fault for fault in found(PODS, text.encode()) if fault.startswith("unknown")} or has_repeats(
        text
    )


# YAML

FAULTY_YAML = b"""apiVersion: v1
kind: Pod
metadata:
  name: a
  name: b
spec:
  containers:
  - name: c
    image: x
    image: "yes"
"""
LINES = ['line 5: key "name" already set in map', 'line 10: key "image" already set in map']


def test_duplicates_in_yaml_are_told_by_line() -> None:
    assert strict.yaml_duplicates(FAULTY_YAML) == LINES
    assert strict.yaml_duplicates(b"a: 1\nb: {a: 1}\n") == []
    assert strict.yaml_duplicates(b'{"a": 1, "b": {"a": 1}}') == []
    assert strict.yaml_duplicates(b'{"a": 1,\n "a": {"a": 1}}') == ['line 2: key "a" already set in map']


def test_aliases_upon_aliases_are_gone_through_once() -> None:
    lines = ["a0: &a0 [x]"] + [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 40)]
    assert strict.yaml_duplicates("\n".join(lines).encode()) == []


# Refusals and warnings


def test_the_recorded_refusal() -> None:
    """A kube-apiserver of v1.36 gave this answer to a POST with fieldValidation=Strict."""
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "strict", "labels": {"app": "strict"}},
        "spec": {"containers": [{"name": "c", "image": "x"}], "foo": 1},
    }
    assert strict.strict_error(PODS, found(PODS, json.dumps(pod).encode())).status() == {
        "kind": "Status",
        "apiVersion": "v1",
        "metadata": {},
        "status": "Failure",
        "message": 'Pod in version "v1" cannot be handled as a Pod: strict decoding error: unknown field "spec.foo"',
        "reason": "BadRequest",
        "code": 400,
    }


def test_a_refused_object() -> None:
    told = strict.strict_error(DEPLOYMENTS, ['duplicate field "spec.paused"', 'unknown field "spec.foo"'])
    assert told.message == (
        'Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: '
        'duplicate field "spec.paused", unknown field "spec.foo"'
    )
    assert (told.code, told.reason) == (400, "BadRequest")


def test_a_refused_object_in_yaml() -> None:
    faults = sorted(strict.told_faults(PODS, yaml.safe_load(FAULTY_YAML) | {"foo": 1}))
    assert strict.strict_error(PODS, faults, LINES).message == (
        'Pod in version "v1" cannot be handled as a Pod: strict decoding error: yaml: unmarshal errors:\n'
        '  line 5: key "name" already set in map\n'
        '  line 10: key "image" already set in map, unknown field "foo"'
    )


def test_a_refused_patch() -> None:
    told = strict.patch_error('{"spec":{}}', ['unknown field "spec.foo"'])
    what = 'Invalid value: "{\\"spec\\":{}}": strict decoding error: unknown field "spec.foo"'
    assert told.message == f' "" is invalid: patch: {what}'
    assert (told.code, told.reason) == (422, "Invalid")
    assert told.status()["details"] == {"causes": [{"reason": "FieldValueInvalid", "message": what, "field": "patch"}]}


def test_a_refused_apply() -> None:
    assert strict.apply_error(LINES[:1]).message == (
        "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n"
        '  line 5: key "name" already set in map'
    )


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        pytest.param({"foo": 1}, ".spec.foo: field not declared in schema", id="one"),
        pytest.param(
            {"containers": [{"name": "c", "foo": 1}], "tolerations": [{"bar": 1}]},
            'errors:\n  .spec.containers[name="c"].foo: field not declared in schema\n'
            "  .spec.tolerations[0].bar: field not declared in schema",
            id="several, in lists",
        ),
    ],
)
def test_undeclared_fields_that_are_applied(spec: dict[str, Any], expected: str) -> None:
    item = {"metadata": {"name": "p", "namespace": "default"}, "spec": spec}
    told = strict.undeclared(PODS, item)
    start = "failed to create typed patch object (default/p; /v1, Kind=Pod): "
    assert told.message == start + expected
    assert told.code == 500


def test_what_is_declared_can_be_applied() -> None:
    assert strict.is_known(PODS, {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c"}]}})


def test_a_warning_header() -> None:
    assert strict.warning_headers(['unknown field "spec.foo"']) == [r'299 - "unknown field \"spec.foo\""']
    assert strict.warning_headers([r'unknown field "a\tb"']) == [r'299 - "unknown field \"a\\tb\""']
