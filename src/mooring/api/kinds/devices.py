"""Dynamic resource allocation: claims for devices and their templates, device classes, the slices of drivers, and rules
that taint devices."""

from mooring.api.json_objects import JsonObject, at, fill
from mooring.api.kind_spec import (
    AGE,
    BY_TYPE,
    NAME,
    Cell,
    Column,
    KindSpec,
    ListRule,
    Watch,
    ago,
    by,
    field_cell,
    labels_at,
)
from mooring.api.kinds.device_versions import CLAIM_V1BETA1, RULE_V1ALPHA3, SLICE_V1BETA1, TEMPLATE_V1BETA1
from mooring.api.validation import claim_rules
from mooring.api.validation.device_field_rules import claim_faults, slice_faults, template_faults
from mooring.model import devices

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
    lists={
        "status.reservedFor": by("uid"),
        "status.devices": ListRule(None, ("driver", "device", "pool", "shareID")),
    },
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
    lists={"status.conditions": BY_TYPE},
    columns=(
        *(NAME, Column("Key", field_cell("spec.taint.key")), Column("Value", field_cell("spec.taint.value"))),
        *(Column("Effect", field_cell("spec.taint.effect")), Column("TimeAdded", ago("spec.taint.timeAdded", "")), AGE),
    ),
)
