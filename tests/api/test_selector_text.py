"""Selectors in URLs: recorded exchanges, every form, every refusal word for word, and a plain twin."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.api.api_errors import ApiError
from mooring.api.kind_spec import FieldLabels
from mooring.api.kinds import SPECS
from mooring.api.kinds.pods import POD
from mooring.api.selector_text import parse_field_selector, parse_label_selector, parse_selectors
from validation_texts import NAME_RULE, VALUE_RULE

PODS, *RECORDED = json.loads((Path(__file__).parent / "data/selectors.json").read_text())


@pytest.mark.parametrize("row", [pytest.param(row, id=row["name"]) for row in RECORDED])
def test_recorded_selectors(row: dict[str, Any]) -> None:
    if row["message"] is not None:
        assert refusal_of(row["labels"], row["fields"]) == row["message"]
        return
    selector = parse_selectors(row["labels"], row["fields"], POD.field_labels)
    assert [pod["metadata"]["name"] for pod in PODS["pods"] if selector.matches(pod)] == row["matched"]


def labels_of(kind: str) -> FieldLabels:
    return next(spec.field_labels for spec in SPECS if spec.kind == kind)


def refusal_of(labels: str, fields: str = "", kind: str = "Pod") -> str:
    with pytest.raises(ApiError) as refused:
        parse_selectors(labels, fields, labels_of(kind))
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")
    return refused.value.message


LABELS = [
    ("nothing matches everything", "", {}, True),
    ("blanks match everything", " \t\n", {"a": "b"}, True),
    ("one sign of equality", "a=b", {"a": "b"}, True),
    ("two signs of equality", "a == b", {"a": "c"}, False),
    ("equality needs the label", "a=b", {}, False),
    ("nothing after the sign is the empty value", "a=", {"a": ""}, True),
    ("nothing after the sign, and another label", "a=,b", {"a": "", "b": "x"}, True),
    ("inequality", "a!=b", {"a": "b"}, False),
    ("inequality without the label", "a!=b", {}, True),
    ("a label that must be there", "a", {"a": ""}, True),
    ("a label that must be there, and is not", "a", {"b": ""}, False),
    ("a label that must be absent", "!a", {"b": ""}, True),
    ("a label that must be absent, and is not", "! a", {"a": ""}, False),
    ("a set", "a in (x,y)", {"a": "y"}, True),
    ("a set with blanks", " a  in ( x , y ) ", {"a": "x"}, True),
    ("a set without brackets of its own", "a in(x)", {"a": "x"}, True),
    ("a set with nothing in it is the empty value", "a in ()", {"a": ""}, True),
    ("a set with an empty value", "a in (x,)", {"a": ""}, True),
    ("a set with an empty value at the front", "a in (,x)", {"a": ""}, True),
    ("a set with an empty value in the middle", "a in (x,,y)", {"a": ""}, True),
    ("outside of a set", "a notin (x,y)", {"a": "y"}, False),
    ("outside of a set without the label", "a notin (x,y)", {}, True),
    ("greater", "a>3", {"a": "4"}, True),
    ("not greater", "a>3", {"a": "3"}, False),
    ("less than a negative number cannot be asked for, but such labels can be less", "a < 3", {"a": "2"}, True),
    ("words that are no numbers are not less", "a<3", {"a": "x"}, False),
    ("all must hold", "a=b,c!=d,e in (x,y),!f,g notin (z)", {"a": "b", "c": "x", "e": "y", "g": "g"}, True),
    ("all must hold, and one does not", "a=b,c!=d,e in (x,y),!f,g notin (z)", {"a": "b", "e": "y", "f": ""}, False),
    ("keys with a prefix", "kubernetes.io/hostname=n1", {"kubernetes.io/hostname": "n1"}, True),
    ("operators as keys and as values", "in in (in,notin),notin=in", {"in": "notin", "notin": "in"}, True),
]


@pytest.mark.parametrize(("text", "labels", "matches"), [pytest.param(*row[1:], id=row[0]) for row in LABELS])
def test_label_selectors(text: str, labels: dict[str, str], matches: bool) -> None:
    assert parse_label_selector(text).matches(labels) is matches
    assert parse_selectors(text, "", POD.field_labels).matches({"metadata": {"labels": labels}}) is matches


INTEGER_RULE = "for 'Gt', 'Lt' operators, the value must be an integer"
UNREADABLE_LABELS = [
    ("a comma first", ",a", "found ',', expected: !, identifier, or 'end of string'"),
    ("a bracket first", "(a)", "found '(', expected: !, identifier, or 'end of string'"),
    ("a comma last", "a=b,", "found '', expected: identifier after ','"),
    ("two commas", "a,,b", "found ',', expected: identifier after ','"),
    ("two words", "a=b c", "found 'c', expected: ',' or 'end of string'"),
    ("a value for a label that must be absent", "!a=b", "found '=', expected: ',' or 'end of string'"),
    ("nothing after the exclamation mark", "!", "unable to parse requirement: found '', expected: identifier"),
    (
        "an exclamation mark behind",
        "a!",
        "unable to parse requirement: found '!', expected: in, notin, =, ==, !=, gt, lt",
    ),
    ("another operator", "a b", "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"),
    ("three signs of equality", "a===b", "unable to parse requirement: found '=', expected: identifier"),
    ("a set without brackets", "a in x", "unable to parse requirement: found 'x' expected: '('"),
    ("a set that does not end", "a in (x", "unable to parse requirement: found '', expected: ',' or ')'"),
    ("a set that ends in a comma", "a in (x,", "unable to parse requirement: found '', expected: ',', or identifier"),
    ("a set of signs", "a in (=)", "unable to parse requirement: found '=', expected: ',', ')' or identifier"),
    (
        "a set with a sign behind a comma",
        "a in (x,=)",
        "unable to parse requirement: found '=', expected: ',', or identifier",
    ),
    ("a set of words without commas", "a in (x y)", "unable to parse requirement: found 'y', expected: ',' or ')'"),
    ("a key that no label can have", "-a", f'unable to parse requirement: <nil>: Invalid value: "-a": {NAME_RULE}'),
    (
        "a value that no label can have",
        "a=b_",
        f'unable to parse requirement: values[0][a]: Invalid value: "b_": {VALUE_RULE}',
    ),
    (
        "two values that no label can have",
        "a in (-,x,_)",
        f'unable to parse requirement: [values[0][a]: Invalid value: "-": {VALUE_RULE}, '
        f'values[1][a]: Invalid value: "_": {VALUE_RULE}]',
    ),
    (
        "greater than a word",
        "a>x",
        f'unable to parse requirement: values[0]: Invalid value: "x": {INTEGER_RULE}',
    ),
]


@pytest.mark.parametrize(("text", "message"), [pytest.param(*row[1:], id=row[0]) for row in UNREADABLE_LABELS])
def test_label_selectors_that_cannot_be_read(text: str, message: str) -> None:
    assert refusal_of(text) == message


A_POD: dict[str, Any] = {
    "metadata": {"name": "p", "namespace": "ns"},
    "spec": {"nodeName": "n1", "restartPolicy": "Always", "schedulerName": "s", "serviceAccountName": "sa"},
    "status": {"phase": "Running", "podIPs": [{"ip": "1.1.1.1"}], "nominatedNodeName": "n2"},
}
AN_EVENT: dict[str, Any] = {
    "metadata": {"name": "e", "namespace": "ns"},
    "regarding": {"kind": "Pod", "name": "p", "uid": "u"},
    "reason": "Scheduled",
    "type": "Normal",
    "reportingController": "default-scheduler",
}
A_CORE_EVENT: dict[str, Any] = {
    "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"},
    "source": {"component": "kubelet"},
    "reportingComponent": "x",
}
FIELDS: list[tuple[str, str, dict[str, Any], str, bool]] = [
    ("Pod", "nothing matches everything", A_POD, "", True),
    ("Pod", "commas alone match everything", A_POD, ",,", True),
    ("Pod", "equality", A_POD, "spec.nodeName=n1", True),
    ("Pod", "two signs of equality", A_POD, "spec.nodeName==n2", False),
    ("Pod", "inequality", A_POD, "status.phase!=Failed,status.phase!=Succeeded", True),
    ("Pod", "inequality that does not hold", A_POD, "status.phase!=Running", False),
    ("Pod", "every term must hold", A_POD, "metadata.name=p,metadata.namespace=other", False),
    ("Pod", "all that pods can be selected by", A_POD, "spec.restartPolicy=Always,spec.schedulerName=s", True),
    ("Pod", "accounts and nominations", A_POD, "spec.serviceAccountName=sa,status.nominatedNodeName=n2", True),
    ("Pod", "the old name of the node's field", A_POD, "spec.host=n1", True),
    ("Pod", "the first address", A_POD, "status.podIP=1.1.1.1,status.podIPs=1.1.1.1", True),
    ("Pod", "the address alone", {"status": {"podIP": "1.1.1.2"}}, "status.podIP=1.1.1.2", True),
    ("Pod", "no address", {"status": {"podIPs": []}}, "status.podIP=", True),
    ("Pod", "what is absent is empty", {}, "spec.nodeName=", True),
    ("Pod", "what is absent is false", {}, "spec.hostNetwork=false", True),
    ("Pod", "what is true", {"spec": {"hostNetwork": True}}, "spec.hostNetwork=true", True),
    ("Pod", "what has another type is empty", {"spec": ["x"]}, "spec.nodeName=", True),
    ("Pod", "signs behind backslashes", {"metadata": {"name": "a,b=c\\"}}, "metadata.name=a\\,b\\=c\\\\", True),
    ("Node", "schedulable unless told otherwise", {"spec": {}}, "spec.unschedulable=false", True),
    ("Node", "unschedulable", {"spec": {"unschedulable": True}}, "spec.unschedulable!=true", False),
    ("Namespace", "the phase", {"status": {"phase": "Active"}}, "status.phase=Active", True),
    ("ConfigMap", "names of other kinds", {"metadata": {"name": "x"}}, "metadata.name=x,metadata.namespace=", True),
    ("Secret", "the type", {"type": "Opaque"}, "type=Opaque", True),
    ("Service", "the address", {"spec": {"clusterIP": "None"}}, "spec.clusterIP=None,spec.type=", True),
    ("ReplicationController", "no replicas", {}, "status.replicas=0", True),
    ("ReplicationController", "replicas", {"status": {"replicas": 2}}, "status.replicas=2", True),
    (
        "ResourceSlice",
        "the node and the driver",
        {"spec": {"nodeName": "n", "driver": "d"}},
        "spec.nodeName=n,spec.driver=d",
        True,
    ),
    (
        "Event",
        "events under the names of the other group",
        AN_EVENT,
        "involvedObject.name=p,involvedObject.uid=u",
        True,
    ),
    ("Event", "the controller counts as the source", AN_EVENT, "source=default-scheduler", True),
    (
        "Event",
        "the reporting component",
        AN_EVENT,
        "reportingComponent=default-scheduler,reason=Scheduled,type=Normal",
        True,
    ),
    (
        "Event",
        "core events",
        A_CORE_EVENT,
        "involvedObject.kind=Pod,regarding.name=p,involvedObject.fieldPath=spec",
        True,
    ),
    ("Event", "the source of core events", A_CORE_EVENT, "source=kubelet,reportingController=x", True),
]


@pytest.mark.parametrize(
    ("kind", "item", "text", "matches"), [pytest.param(row[0], *row[2:], id=f"{row[0]}: {row[1]}") for row in FIELDS]
)
def test_field_selectors(kind: str, item: dict[str, Any], text: str, matches: bool) -> None:
    assert all(term.admits(item) for term in parse_field_selector(text, labels_of(kind))) is matches


UNREADABLE_FIELDS = [
    ("an unknown field of pods", "Pod", "spec.foo=x", "field label not supported: spec.foo"),
    ("an unknown field of nodes", "Node", "metadata.namespace=x", "field label not supported: metadata.namespace"),
    (
        "an unknown field of other kinds",
        "ConfigMap",
        "data=x",
        '"data" is not a known field selector: only "metadata.name", "metadata.namespace"',
    ),
    ("no operator", "Pod", "metadata.name=x,spec", "invalid selector: 'metadata.name=x,spec'; can't understand 'spec'"),
    ("no field", "Pod", "=x", "field label not supported: "),
    ("a backslash before a letter", "Pod", "metadata.name=\\x", "invalid field selector: invalid escape sequence: \\x"),
    ("a backslash at the end", "Pod", "metadata.name=x\\", "invalid field selector: invalid escape sequence: \\"),
    ("a bare sign", "Pod", "metadata.name=a=b", "invalid field selector: unescaped character in value: 61"),
    (
        "what cannot be read is told before what is unknown",
        "Pod",
        "a=b,c",
        "invalid selector: 'a=b,c'; can't understand 'c'",
    ),
]


@pytest.mark.parametrize(("kind", "text", "message"), [pytest.param(*row[1:], id=row[0]) for row in UNREADABLE_FIELDS])
def test_field_selectors_that_cannot_be_read(kind: str, text: str, message: str) -> None:
    assert refusal_of("", text, kind) == message


def test_both_selectors_must_match() -> None:
    selector = parse_selectors("a=b", "metadata.name=x", POD.field_labels)
    assert selector.matches({"metadata": {"name": "x", "labels": {"a": "b"}}})
    assert not selector.matches({"metadata": {"name": "x", "labels": {"a": "c"}}})
    assert not selector.matches({"metadata": {"name": "y", "labels": {"a": "b"}}})
    assert parse_selectors("", "", POD.field_labels).is_empty
    assert not selector.is_empty


@pytest.mark.parametrize(
    "item", [{}, {"metadata": []}, {"metadata": {"labels": 1}}, {"metadata": {"labels": {"a": []}}}]
)
def test_objects_without_proper_labels_have_none(item: dict[str, Any]) -> None:
    assert not parse_selectors("a in (b)", "", POD.field_labels).matches(item)


keys = st.sampled_from(["a", "b", "in"])
values = st.sampled_from(["x", "y", "notin", ""])
requirements = st.lists(
    st.tuples(keys, st.sampled_from(["=", "!=", "in", "notin", "", "!"]), st.lists(values, min_size=1))
)


def written(key: str, operator: str, listed: list[str]) -> str:
    match operator:
        case "":
            return key
        case "!":
            return f"!{key}"
        case "in" | "notin":
            return f"{key} {operator} ({','.join(listed)})"
        case _:
            return f"{key}{operator}{listed[0]}"


def holds(key: str, operator: str, listed: list[str], labels: dict[str, str]) -> bool:
    match operator:
        case "":
            return key in labels
        case "!":
            return key not in labels
        case "in":
            return labels.get(key) in listed
        case "notin":
            return labels.get(key) not in listed
        case "=":
            return labels.get(key) == listed[0]
        case _:
            return labels.get(key) != listed[0]


@given(requirements, st.dictionaries(keys, values))
def test_what_is_written_is_what_is_meant(lines: list[tuple[str, str, list[str]]], labels: dict[str, str]) -> None:
    text = ",".join(written(*line) for line in lines)
    assert parse_label_selector(text).matches(labels) is all(holds(*line, labels) for line in lines)


@given(st.text("ab=!(),>< \\inot.", max_size=12) | st.text(max_size=8))
def test_any_text_is_a_selector_or_is_refused(text: str) -> None:
    for parse in (parse_label_selector, lambda text: parse_field_selector(text, POD.field_labels)):
        try:
            parse(text)
        except ApiError as refused:
            assert refused.code == 400
