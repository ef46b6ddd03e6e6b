"""Validation of fields of ResourceSlices and ResourceClaims that only some devices have: partitions, compatibility groups,
operations that kubelets leave out, and derived attributes. The texts are those of kube-apiserver.

The rules read JSON: most of these fields are not part of the typed objects. What all devices have is in `claim_rules`.
"""

from collections.abc import Iterator

from mooring.api import api_errors as errors
from mooring.api.json_objects import JsonObject, at
from mooring.model.names import dns_label_faults

MAX_COMPATIBILITY_GROUPS, MAX_DERIVED_ATTRIBUTES = 2, 32
_PREPARE, _UNPREPARE, _ALL_OPERATIONS = "NodePrepareResources", "NodeUnprepareResources", "*"
_OPERATIONS = (_ALL_OPERATIONS, _PREPARE, _UNPREPARE)


def slice_faults(published: JsonObject) -> list[errors.Cause]:
    """The faults of a ResourceSlice."""
    spec = published.get("spec") or {}
    return [
        *_operations("spec.skipNodeOperations", spec.get("skipNodeOperations") or []),
        *_partitions(spec),
        *(fault for i, device in enumerate(spec.get("devices") or ()) for fault in _groups(i, device)),
    ]


def _partitions(spec: JsonObject) -> Iterator[errors.Cause]:
    """The type of a partition is an attribute that each device has that consumes counters, as text."""
    name = spec.get("partitionTypeAttribute")
    if name is None:
        return
    parts = [(i, each) for i, each in enumerate(spec.get("devices") or ()) if each.get("consumesCounters")]
    if not parts:
        why = "may only be set on a slice which declares devices that consume counters"
        yield errors.field_invalid("spec.partitionTypeAttribute", name, why)
    bare = name.removeprefix(f"{spec.get('driver', '')}/")
    for i, device in parts:
        attributes = device.get("attributes") or {}
        found = attributes.get(name, attributes.get(bare))
        path = f"spec.devices[{i}].attributes[{name}]"
        if found is None:
            what = "device consumes counters and `partitionTypeAttribute` names this attribute"
            yield errors.field_required(path, f"{what}, so it must be set")
        elif "string" not in found:
            yield errors.field_invalid(
                path, found, "must be a string value because `partitionTypeAttribute` names this attribute"
            )


def _operations(path: str, operations: list[str]) -> Iterator[errors.Cause]:
    """A device that is not prepared is not unprepared either."""
    for i, operation in enumerate(operations):
        if operation in operations[:i]:
            yield errors.field_duplicate(f"{path}[{i}]", operation)
        if operation not in _OPERATIONS:
            yield errors.field_unsupported(f"{path}[{i}]", operation, _OPERATIONS)
    if _PREPARE in operations and _UNPREPARE not in operations and _ALL_OPERATIONS not in operations:
        why = f"{_PREPARE} cannot be skipped unless {_UNPREPARE} is also skipped"
        yield errors.field_invalid(path, operations, why)


def _groups(number: int, device: JsonObject) -> Iterator[errors.Cause]:
    for i, consumed in enumerate(device.get("consumesCounters") or ()):
        names = consumed.get("compatibilityGroups") or []
        path = f"spec.devices[{number}].consumesCounters[{i}].compatibilityGroups"
        if len(names) > MAX_COMPATIBILITY_GROUPS:
            most = f"must have at most {MAX_COMPATIBILITY_GROUPS} items"
            yield errors.field_too_many(path, str(len(names)), most)
            continue
        for j, name in enumerate(names):
            if name in names[:j]:
                yield errors.field_duplicate(f"{path}[{j}]", name)
            yield from (errors.field_invalid(f"{path}[{j}]", name, why) for why in dns_label_faults(name))


# ---- claims


def claim_faults(claim: JsonObject) -> list[errors.Cause]:
    """The faults of a ResourceClaim."""
    results = at(claim, "status.allocation.devices.results", [])
    path = "status.allocation.devices.results"
    return [
        *_derived("spec.devices", at(claim, "spec.devices", {})),
        *(
            fault
            for i, result in enumerate(results)
            for fault in _operations(f"{path}[{i}].skipNodeOperations", result.get("skipNodeOperations") or [])
        ),
    ]


def template_faults(template: JsonObject) -> list[errors.Cause]:
    """The faults of a ResourceClaimTemplate."""
    return [*_derived("spec.spec.devices", at(template, "spec.spec.devices", {}))]


def _derived(path: str, devices: JsonObject) -> Iterator[errors.Cause]:
    """The faults of all derived attributes of a claim."""
    used = _used(devices)
    for i, request in enumerate(devices.get("requests") or ()):
        name, place = request.get("name", ""), f"{path}.requests[{i}]"
        if request.get("exactly"):
            yield from _attributes(f"{place}.exactly", request["exactly"], used | _names(devices, name))
        for j, sub in enumerate(request.get("firstAvailable") or ()):
            here = used | _names(devices, name) | _names(devices, f"{name}/{sub.get('name', '')}")
            yield from _attributes(f"{place}.firstAvailable[{j}]", sub, here)


def _attributes(path: str, asked: JsonObject, used: set[str]) -> Iterator[errors.Cause]:
    """The faults of the derived attributes of one request; `used` are the attributes of the constraints on it."""
    place, derived = f"{path}.derivedAttributes", asked.get("derivedAttributes") or []
    if len(derived) > MAX_DERIVED_ATTRIBUTES:
        yield errors.field_too_many(place, str(len(derived)), f"must have at most {MAX_DERIVED_ATTRIBUTES} items")
        return
    names = [each.get("name", "") for each in derived]
    for i, each in enumerate(derived):
        if names[i] and names[i] in names[:i]:
            yield errors.field_duplicate(f"{place}[{i}]", names[i])
        yield from (errors.field_required(f"{place}[{i}].{key}") for key in ("name", "expression") if not each.get(key))
        if names[i] and names[i] not in used:
            what = "must be referenced by at least one matchAttribute or distinctAttribute constraint"
            yield errors.field_invalid(f"{place}[{i}].name", names[i], f"{what} targeting this request")


def _used(devices: JsonObject) -> set[str]:
    """The attributes of the constraints on all requests."""
    return {_attribute(each) for each in devices.get("constraints") or () if not each.get("requests")}


def _names(devices: JsonObject, request: str) -> set[str]:
    """The attributes of the constraints that name this request."""
    constraints = devices.get("constraints") or ()
    return {_attribute(each) for each in constraints if request in (each.get("requests") or ())}


def _attribute(constraint: JsonObject) -> str:
    name: str = constraint.get("matchAttribute") or constraint.get("distinctAttribute") or ""
    return name
