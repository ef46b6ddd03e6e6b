"""Expressions of claims, templates and device classes when they are written: kube-apiserver v1.37's answers word for word."""

from typing import Any

import pytest

from asking import MERGE_PATCH, ask
from cluster_api import an_api
from mooring.api.json_objects import JsonObject
from mooring.api.kinds.devices import DEVICE_CLASS

BASE = "/apis/resource.k8s.io/v1"
CLAIMS, CLASSES = f"{BASE}/namespaces/default/resourceclaims", f"{BASE}/deviceclasses"
TEMPLATES = f"{BASE}/namespaces/default/resourceclaimtemplates"
TEN = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
TOO_COMPLEX = "too complex, exceeds cost limit"
ALL_TOO_COMPLEX = "too complex, total cost of derived attribute CEL expressions in the claim exceeds cost limit"


def nested(depth: int) -> str:
    """So many loops over ten numbers: the cost of seven is above the limit, that of five is more than half of it."""
    text = "int('1'.find('[0-9]*')) < 100"
    for i in range(depth):
        text = f"{TEN}.all(x{i}, {text})"
    return text


def selecting(*expressions: str) -> list[JsonObject]:
    return [{"cel": {"expression": text}} for text in expressions]


def a_claim(*requests: JsonObject, **more: Any) -> JsonObject:
    return {"metadata": {"name": "c"}, "spec": {"devices": {"requests": list(requests), **more}}}


def a_template(claim: JsonObject) -> JsonObject:
    return {"metadata": {"name": "t"}, "spec": {"spec": claim["spec"]}}


def exactly(*expressions: str) -> JsonObject:
    return {"name": "r", "exactly": {"deviceClassName": "x", "selectors": selecting(*expressions)}}


def alternatives(*expressions: str) -> JsonObject:
    sub = {"name": "s", "deviceClassName": "x", "selectors": selecting(*expressions)}
    return {"name": "r", "firstAvailable": [sub]}


def deriving(*expressions: str) -> JsonObject:
    """A claim with derived attributes, each of which a constraint uses."""
    derived = [{"name": f"d.x/a{i}", "expression": text} for i, text in enumerate(expressions)]
    request = {"name": "r", "exactly": {"deviceClassName": "x", "derivedAttributes": derived}}
    return a_claim(request, constraints=[{"matchAttribute": each["name"]} for each in derived])


def faults(url: str, body: JsonObject, **gates: bool) -> list[tuple[str, str, str]]:
    """The field, the reason and the message of each cause; empty if the object was created."""
    reply = ask(an_api(gates=gates), "POST", url, body)
    if reply.code == 201:
        return []
    assert reply.code == 422, reply.body
    return [(each["field"], each["reason"], each["message"]) for each in reply.body["details"]["causes"]]


EXACT, ALTERNATIVE = "spec.devices.requests[0].exactly", "spec.devices.requests[0].firstAvailable[0]"
NOT_BOOL = "must evaluate to bool or the unknown type, not int"
UNDECLARED = "compilation failed: ERROR: <input>:1:1: undeclared reference to 'nope' (in container '')\n | nope\n | ^"
INVALID, FORBIDDEN = "FieldValueInvalid", "FieldValueForbidden"


@pytest.mark.parametrize(
    ("text", "reason", "message"),
    [
        ("1", INVALID, f'Invalid value: "1": {NOT_BOOL}'),
        ("nope", INVALID, f'Invalid value: "nope": {UNDECLARED}'),
        (nested(7), FORBIDDEN, f"Forbidden: {TOO_COMPLEX}"),
        ("'" + "x" * 10240 + "' == ''", "FieldValueTooLong", "Too long: may not be more than 10240 bytes"),
    ],
    ids=["no bool", "an unknown name", "too costly", "too long"],
)
def test_selectors_that_are_refused(text: str, reason: str, message: str) -> None:
    good = "device.driver == 'a'"
    told = (reason, message)
    assert faults(CLAIMS, a_claim(exactly(good, text))) == [(f"{EXACT}.selectors[1].cel.expression", *told)]
    assert faults(CLAIMS, a_claim(alternatives(text))) == [(f"{ALTERNATIVE}.selectors[0].cel.expression", *told)]
    assert faults(CLASSES, {"metadata": {"name": "x"}, "spec": {"selectors": selecting(good, text)}}) == [
        ("spec.selectors[1].cel.expression", *told)
    ]
    (found,) = faults(TEMPLATES, a_template(a_claim(exactly(text))))
    assert found == (f"spec.{EXACT}.selectors[0].cel.expression", *told)


def test_selectors_that_are_accepted() -> None:
    texts = ("true", "device.attributes['d.x'].a", "device.capacity['d.x'].m.isGreaterThan(quantity('1Gi'))", nested(5))
    assert faults(CLAIMS, a_claim(exactly(*texts))) == []


def test_derived_attributes_have_one_limit_for_each_and_one_for_all() -> None:
    place = f"{EXACT}.derivedAttributes[0].expression"
    all_of_them = ("spec.devices", FORBIDDEN, f"Forbidden: {ALL_TOO_COMPLEX}")
    assert faults(CLAIMS, deriving(nested(5))) == []
    assert faults(CLAIMS, deriving(nested(5), nested(5))) == [all_of_them]
    assert faults(CLAIMS, deriving(nested(7))) == [(place, FORBIDDEN, f"Forbidden: {TOO_COMPLEX}"), all_of_them]


def test_derived_attributes_are_lists_only_with_the_gate() -> None:
    place = f"{EXACT}.derivedAttributes[0].expression"
    scalar = "must evaluate to a primitive scalar (string, integer, boolean, semver)"
    assert faults(CLAIMS, deriving("['a']")) == [
        (place, INVALID, f"Invalid value: \"['a']\": {scalar}, not list(string)")
    ]
    assert faults(CLAIMS, deriving("['a']"), DRAListTypeAttributes=True) == []


ATTRIBUTE = "device.attributes['d.x'].a"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"{ATTRIBUTE}.exists(x, x == 1)", "expression of type 'any' cannot be range of a comprehension"),
        (f"cel.bind(v, {ATTRIBUTE}, v.all(x, x))", "expression of type 'any' cannot be range of a comprehension"),
        (f"{ATTRIBUTE}.includes(1)", "undeclared reference to 'includes'"),
        (f"{ATTRIBUTE}.b", "must evaluate to bool or the unknown type, not dyn"),
        (f"[{ATTRIBUTE}]", "must evaluate to bool or the unknown type, not list(google.protobuf.Any)"),
        (f"[{ATTRIBUTE}, 1].exists(x, x == 1)", "expected type 'any' but found 'int'"),
    ],
)
def test_attributes_of_new_selectors_are_lists_only_with_the_gate(text: str, told: str) -> None:
    (found,) = faults(CLAIMS, a_claim(exactly(text)))
    assert found[1] == INVALID and told in found[2]
    if text in (f"{ATTRIBUTE}.exists(x, x == 1)", f"{ATTRIBUTE}.includes(1)", f"{ATTRIBUTE}.b"):
        assert faults(CLAIMS, a_claim(exactly(text)), DRAListTypeAttributes=True) == []


@pytest.mark.parametrize(
    "text", [f"size({ATTRIBUTE}) > 1", f"1 in {ATTRIBUTE}", f"{ATTRIBUTE} ? true : false", ATTRIBUTE]
)
def test_attributes_that_are_no_lists_fit_everywhere_else(text: str) -> None:
    assert faults(CLAIMS, a_claim(exactly(text))) == []


def test_expressions_that_are_stored_are_not_looked_at_again() -> None:
    """They were stored by an older server, or while a gate was on."""
    api = an_api()
    ask(api, "POST", CLASSES, {"metadata": {"name": "x"}, "spec": {"selectors": selecting("true")}})
    storage = DEVICE_CLASS.storage
    held = api.store.get(storage, ("", "x"))
    api.store.update(storage, ("", "x"), {**held, "spec": {"selectors": selecting("1")}})
    labelled = ask(api, "PATCH", f"{CLASSES}/x", {"metadata": {"labels": {"a": "b"}}}, MERGE_PATCH)
    assert labelled.code == 200 and labelled.body["spec"] == {"selectors": selecting("1")}
    refused = ask(api, "PATCH", f"{CLASSES}/x", {"spec": {"selectors": selecting("2")}}, MERGE_PATCH)
    assert refused.code == 422
