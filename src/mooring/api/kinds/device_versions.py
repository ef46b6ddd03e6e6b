"""Older versions of resource.k8s.io: how their objects differ from v1, which is the form of Mooring's typed objects.

v1beta2 has the form of v1. v1beta1 has the fields of a device under `basic`, and those of an exact request beside its name
instead of under `exactly`. v1alpha3 of Kubernetes 1.33 and 1.34 had further criteria in DeviceTaintRules. Statuses are the
same in all versions.
"""

from collections.abc import Callable
from typing import Any

from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import OtherForm

_OF_REQUEST = frozenset(("name", "firstAvailable"))
"""The fields that a request has beside those of an exact request."""
_DROPPED_CRITERIA = ("deviceClassName", "selectors")
"""The criteria of DeviceTaintRules that Kubernetes 1.35 removed."""


def _is_set(value: Any) -> bool:
    """Whether a field has a value. Servers write an empty deviceClassName into requests that have alternatives; `false` is a
    value of adminAccess."""
    return value is not None and value != "" and (value != 0 or value is False)


def _with(item: Any, name: str, change: Callable[[Any], Any]) -> Any:
    """A copy of an object with one field changed. What is no object, or lacks the field, is for the decoder to report."""
    return {**item, name: change(item[name])} if isinstance(item, dict) and name in item else item


def _with_each(item: Any, name: str, change: Callable[[Any], Any]) -> Any:
    """A copy of an object with every object of one list changed."""

    def changed(entries: Any) -> Any:
        if not isinstance(entries, list):
            return entries
        return [change(entry) if isinstance(entry, dict) else entry for entry in entries]

    return _with(item, name, changed)


# ---- requests of claims and templates


def _request_to_v1(request: JsonObject) -> JsonObject:
    made = {name: request[name] for name in request if name in _OF_REQUEST}
    exactly = {name: value for name, value in request.items() if name not in _OF_REQUEST and _is_set(value)}
    return {**made, "exactly": exactly} if exactly else made


def _claim_to_v1(claim: JsonObject) -> JsonObject:
    return _in_requests(claim, _request_to_v1)


def _template_to_v1(template: JsonObject) -> JsonObject:
    made: JsonObject = _with(template, "spec", _claim_to_v1)
    return made


def _request_to_v1beta1(request: JsonObject) -> JsonObject:
    rest = {name: value for name, value in request.items() if name != "exactly"}
    return {**rest, **(request.get("exactly") or {})}


def _claim_to_v1beta1(claim: JsonObject) -> JsonObject:
    return _in_requests(claim, _request_to_v1beta1)


def _in_requests(claim: Any, change: Callable[[JsonObject], JsonObject]) -> JsonObject:
    """A copy of a claim, or of the spec of a template, with every request changed."""
    made: JsonObject = _with(
        claim, "spec", lambda spec: _with(spec, "devices", lambda asked: _with_each(asked, "requests", change))
    )
    return made


# ---- slices and rules


def _device_to_v1(device: JsonObject) -> JsonObject:
    basic = device.get("basic")
    rest = {name: value for name, value in device.items() if name != "basic"}
    return {**rest, **basic} if isinstance(basic, dict) else rest


def _slice_to_v1(published: JsonObject) -> JsonObject:
    made: JsonObject = _with(published, "spec", lambda spec: _with_each(spec, "devices", _device_to_v1))
    return made


def _rule_to_v1(rule: JsonObject) -> JsonObject:
    """Raises ValueError for a rule with a criterion that v1 does not have: without it the rule would taint more devices."""
    spec = rule.get("spec")
    selector = spec.get("deviceSelector") if isinstance(spec, dict) else None
    for name in _DROPPED_CRITERIA:
        if isinstance(selector, dict) and selector.get(name):
            raise ValueError(
                f"spec.deviceSelector.{name}: Kubernetes 1.35 removed this criterion; the rule has no effect"
            )
    return rule


CLAIM_V1BETA1 = OtherForm(_claim_to_v1, _claim_to_v1beta1)
TEMPLATE_V1BETA1 = OtherForm(_template_to_v1)
SLICE_V1BETA1 = OtherForm(_slice_to_v1)
RULE_V1ALPHA3 = OtherForm(_rule_to_v1)
