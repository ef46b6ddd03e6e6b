"""Dynamic resource allocation: claims for devices and their templates, device classes, the slices of drivers, and rules
that taint devices."""

from collections.abc import Callable
from typing import Any

from mooring.api.json_objects import JsonObject, at, fill
from mooring.api.kind_spec import (
    AGE,
    NAME,
    Cell,
    Column,
    KindSpec,
    OtherForm,
    Watch,
    ago,
    field_cell,
    labels_at,
)
from mooring.api.validation import claim_rules
from mooring.api.validation.claim_rules import claim_faults, slice_faults, template_faults
from mooring.model import devices

# ---- Older versions of resource.k8s.io: how their objects differ from v1, which is the form of Mooring's typed objects.
#
# v1beta2 has the form of v1. v1beta1 has the fields of a device under `basic`, and those of an exact request beside its name
# instead of under `exactly`. v1alpha3 of Kubernetes 1.33 and 1.34 had further criteria in DeviceTaintRules. Statuses are the
# same in all versions.

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


_DEVICES = ("resource.k8s.io", "v1")
_V1BETA1 = "resource.k8s.io/v1beta1"
_BETA = ("resource.k8s.io/v1beta2", _V1BETA1)
_V1ALPHA3 = "resource.k8s.io/v1alpha3"


def _complete_template(template: JsonObject) -> None:
    """A template has the spec of a claim in its own spec."""
    _complete_claim(template.setdefault("spec", {}))


def _complete_claim(claim: JsonObject) -> None:
    """Both forms of a request, exact and prioritised, get the mode ExactCount and the count 1."""
    for request in claim.setdefault("spec", {}).get("devices", {}).get("requests", ()):
        for asked in (*([request["exactly"]] if "exactly" in request else ()), *request.get("firstAvailable", ())):
            fill(asked, {"allocationMode": devices.EXACT_COUNT})
            if asked["allocationMode"] == devices.EXACT_COUNT:
                asked.setdefault("count", 1)


def _claim_state(claim: JsonObject, _: int) -> Cell:
    """The states that hold at the same time, such as `allocated,reserved`."""
    deleted, allocated = at(claim, "metadata.deletionTimestamp"), at(claim, "status.allocation") is not None
    held = (
        ("deleted", deleted),
        ("pending", not allocated and not deleted),
        ("allocated", allocated),
        ("reserved", allocated and at(claim, "status.reservedFor")),
    )
    return ",".join(name for name, holds in held if holds)


RESOURCE_CLAIM = KindSpec(
    *(*_DEVICES, "resourceclaims", "ResourceClaim"),
    subresources=("status",),
    struct=devices.ResourceClaim,
    other_versions=_BETA,
    other_forms={_V1BETA1: CLAIM_V1BETA1},
    check=lambda claim: claim_rules.check_device_claim("spec.devices", claim.spec.devices),
    watch=Watch(wakes_pods=True, wakes_by_default=True),
    complete=_complete_claim,
    faults=claim_faults,
    fixed=("spec",),
    status_keeps=("labels", "annotations", "finalizers", "ownerReferences"),
    columns=(NAME, Column("State", _claim_state), AGE),
)

RESOURCE_CLAIM_TEMPLATE = KindSpec(
    *(*_DEVICES, "resourceclaimtemplates", "ResourceClaimTemplate"),
    struct=devices.ResourceClaimTemplate,
    other_versions=_BETA,
    other_forms={_V1BETA1: TEMPLATE_V1BETA1},
    check=lambda template: claim_rules.check_device_claim("spec.spec.devices", template.spec.spec.devices),
    complete=_complete_template,
    faults=template_faults,
)

DEVICE_CLASS = KindSpec(
    *(*_DEVICES, "deviceclasses", "DeviceClass", False),
    struct=devices.DeviceClass,
    other_versions=_BETA,
    check=lambda device_class: claim_rules.check_selectors("spec.selectors", device_class.spec.selectors),
    watch=Watch(wakes_pods=True, wakes_by_default=True),
    has_generation=True,
)

RESOURCE_SLICE = KindSpec(
    *(*_DEVICES, "resourceslices", "ResourceSlice", False),
    struct=devices.ResourceSlice,
    other_versions=_BETA,
    other_forms={_V1BETA1: SLICE_V1BETA1},
    check=claim_rules.check_resource_slice,
    faults=slice_faults,
    watch=Watch(wakes_pods=True),
    has_generation=True,
    fixed=("spec.nodeName", "spec.driver", "spec.pool.name"),
    field_labels=labels_at("metadata.name", "spec.nodeName", "spec.driver", "spec.pool.name"),
    columns=(
        *(NAME, Column("Node", field_cell("spec.nodeName")), Column("Driver", field_cell("spec.driver"))),
        *(Column("Pool", field_cell("spec.pool.name")), AGE),
    ),
)

DEVICE_TAINT_RULE = KindSpec(
    *(*_DEVICES, "devicetaintrules", "DeviceTaintRule", False),
    subresources=("status",),
    struct=devices.DeviceTaintRule,
    other_versions=("resource.k8s.io/v1beta2", _V1ALPHA3),
    other_forms={_V1ALPHA3: RULE_V1ALPHA3},
    check=claim_rules.check_device_taint_rule,
    watch=Watch(needs_gate="DRADeviceTaintRules"),
    status_keeps=("labels", "annotations", "finalizers", "ownerReferences"),
    has_generation=True,
    columns=(
        *(NAME, Column("Key", field_cell("spec.taint.key")), Column("Value", field_cell("spec.taint.value"))),
        *(Column("Effect", field_cell("spec.taint.effect")), Column("TimeAdded", ago("spec.taint.timeAdded", "")), AGE),
    ),
)
