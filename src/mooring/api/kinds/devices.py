"""Dynamic resource allocation: claims for devices and their templates, device classes, the slices of drivers, and rules
that taint devices."""

from mooring.api.json_objects import JsonObject, at, fill
from mooring.api.kind_spec import AGE, BY_TYPE, NAME, Cell, Column, KindSpec, ListRule, Watch, by, field_cell, labels_at
from mooring.api.validation import claim_rules
from mooring.model import devices

_DEVICES = ("resource.k8s.io", "v1")
_BETA = ("resource.k8s.io/v1beta2",)
"""It has the form of v1. v1beta1 does not: its devices are under `basic`, and its requests have no `exactly`."""


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


def _complete_slice(published: JsonObject) -> None:
    """A mapping to resources of the node takes its capacity, or one of the resource, once."""
    for device in published.get("spec", {}).get("devices") or ():
        for mapping in (device.get("nodeAllocatableResourceMappings") or {}).values():
            mapping.setdefault("allocationMultiplier", "1")


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
    check=lambda claim: claim_rules.check_device_claim("spec.devices", claim.spec.devices),
    watch=Watch(wakes_pods=True, wakes_by_default=True),
    complete=_complete_claim,
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
    check=lambda template: claim_rules.check_device_claim("spec.spec.devices", template.spec.spec.devices),
    complete=_complete_template,
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
    check=claim_rules.check_resource_slice,
    watch=Watch(wakes_pods=True),
    complete=_complete_slice,
    has_generation=True,
    fixed=("spec.nodeName", "spec.driver", "spec.pool.name"),
    field_labels=labels_at("metadata.name", "spec.nodeName", "spec.driver"),
    columns=(
        *(NAME, Column("Node", field_cell("spec.nodeName")), Column("Driver", field_cell("spec.driver"))),
        *(Column("Pool", field_cell("spec.pool.name")), AGE),
    ),
)

DEVICE_TAINT_RULE = KindSpec(
    *("resource.k8s.io", "v1beta2", "devicetaintrules", "DeviceTaintRule", False),
    subresources=("status",),
    struct=devices.DeviceTaintRule,
    other_versions=("resource.k8s.io/v1alpha3",),
    check=claim_rules.check_device_taint_rule,
    watch=Watch(needs_gate="DRADeviceTaintRules"),
    status_keeps=("labels", "annotations", "finalizers", "ownerReferences"),
    has_generation=True,
    lists={"status.conditions": BY_TYPE},
)
