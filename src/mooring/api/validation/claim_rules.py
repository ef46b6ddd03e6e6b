"""Validation of volumes, claims, storage classes and the kinds of dynamic resource allocation.

The rules are the API server's, as far as they affect scheduling. `check_…` functions are named in the KindSpecs.
"""

from collections.abc import Collection, Iterator

from mooring.api import api_errors as errors
from mooring.api.json_objects import JsonObject, at
from mooring.api.validation import field_rules as rules
from mooring.api.validation.field_rules import one_of, unique
from mooring.api.validation.problem import NOTHING_THERE, Problem, Problems, at_key, in_brackets, show
from mooring.model import devices, storage
from mooring.model.meta import MAX_INT64
from mooring.model.names import dns_label_faults
from mooring.model.node import NO_EXECUTE, NO_SCHEDULE
from mooring.model.pod_spec import ClaimSpec

ACCESS_MODES = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", storage.READ_WRITE_ONCE_POD)
DEVICE_EFFECTS = ("None", NO_SCHEDULE, NO_EXECUTE)
"""Taints of devices have an effect of their own, None, and no PreferNoSchedule."""


def check_volume(volume: storage.PersistentVolume) -> Problems:
    """Capacity and access modes are required, as in the API server."""
    spec = volume.spec
    yield from _access_modes("spec.accessModes", spec.access_modes)
    yield from rules.quantities("spec.capacity", spec.capacity)
    yield from rules.required("spec.capacity.storage", (spec.capacity or {}).get("storage"), "a size, e.g. 10Gi")
    yield from one_of("spec.volumeMode", spec.volume_mode, ("Filesystem", "Block"))
    if spec.node_affinity is not None and spec.node_affinity.required is not None:
        yield from rules.node_selector("spec.nodeAffinity.required", spec.node_affinity.required)


def check_claim_spec(path: str, spec: ClaimSpec) -> Problems:
    """The spec of a claim, also in a pod's ephemeral volume or in the template of a StatefulSet."""
    yield from _access_modes(f"{path}.accessModes", spec.access_modes)
    yield from rules.label_selector(f"{path}.selector", spec.selector)
    asked = (spec.resources.requests if spec.resources else None) or {}
    told = errors.field_required(f"{path}.resources[storage]")
    yield from rules.required(f"{path}.resources.requests.storage", asked.get("storage"), "a size, e.g. 10Gi", told)
    yield from rules.quantities(f"{path}.resources.requests", asked)
    yield from one_of(f"{path}.volumeMode", spec.volume_mode, ("Filesystem", "Block"))


def _access_modes(path: str, modes: Collection[str] | None) -> Problems:
    """Parity: of a mode that does not exist, the server reports the list."""
    yield from rules.required(path, modes, ", ".join(ACCESS_MODES), "at least 1 access mode is required")
    for i, mode in enumerate(modes or ()):
        if mode and mode not in ACCESS_MODES:
            told = errors.field_unsupported(path, mode, sorted(ACCESS_MODES))
            yield Problem(f"{path}[{i}]", show(mode), ", ".join(ACCESS_MODES), told=told)


def check_storage_class(storage_class: storage.StorageClass) -> Problems:
    yield from rules.required("provisioner", storage_class.provisioner, "the name of a provisioner")
    modes = (storage.IMMEDIATE, storage.WAIT_FOR_FIRST_CONSUMER)
    yield from one_of("volumeBindingMode", storage_class.volume_binding_mode, modes)
    for i, term in enumerate(storage_class.allowed_topologies or ()):
        for j, line in enumerate(term.match_label_expressions or ()):
            place = f"allowedTopologies[{i}].matchLabelExpressions[{j}]"
            yield from rules.label_key(f"{place}.key", line.key)
            yield from rules.required(f"{place}.values", line.values, "one value or more")


def check_csi_node(node: storage.CSINode) -> Problems:
    for i, driver in enumerate(node.spec.drivers or ()):
        if driver.allocatable is not None:
            yield from rules.in_range(f"spec.drivers[{i}].allocatable.count", driver.allocatable.count, 0)


def check_capacity(capacity: storage.CSIStorageCapacity) -> Problems:
    yield from rules.required("storageClassName", capacity.storage_class_name, "the name of a StorageClass")
    yield from rules.label_selector("nodeTopology", capacity.node_topology)
    yield from rules.quantity("capacity", capacity.capacity)
    yield from rules.quantity("maximumVolumeSize", capacity.maximum_volume_size)


# ---- dynamic resource allocation


def check_device_claim(path: str, claim: devices.DeviceClaim) -> Problems:
    """Request names are unique, because constraints and allocations refer to them."""
    for i, request in enumerate(claim.requests or ()):
        yield from _request(f"{path}.requests[{i}]", request)
    names = ((f"{path}.requests[{i}].name", request.name) for i, request in enumerate(claim.requests or ()))
    yield from unique(names, "request name")
    for i, constraint in enumerate(claim.constraints or ()):
        attributes = [name for name in (constraint.match_attribute, constraint.distinct_attribute) if name]
        if len(attributes) != 1:
            found = "both" if attributes else NOTHING_THERE
            yield Problem(
                f"{path}.constraints[{i}]", found, "exactly one of matchAttribute and distinctAttribute must be set"
            )


def _request(path: str, request: devices.DeviceRequest) -> Problems:
    """Yield the problems of one request of a claim. It has either `exactly` or a list `firstAvailable`, whose entries are
    checked like exact requests."""
    yield from rules.short_name(f"{path}.name", request.name)
    if (request.exactly is None) == (not request.first_available):
        found = NOTHING_THERE if request.exactly is None else "both"
        yield Problem(path, found, "exactly one of exactly and firstAvailable must be set")
    if request.exactly is not None:
        yield from _device_request(f"{path}.exactly", request.exactly)
    for i, sub in enumerate(request.first_available or ()):
        yield from rules.short_name(f"{path}.firstAvailable[{i}].name", sub.name)
        yield from _device_request(f"{path}.firstAvailable[{i}]", sub)


def _device_request(path: str, request: devices.ExactDeviceRequest | devices.DeviceSubRequest) -> Problems:
    """The fields that an exact request and an alternative of a prioritised list have in common."""
    yield from rules.object_name(f"{path}.deviceClassName", request.device_class_name)
    yield from check_selectors(f"{path}.selectors", request.selectors)
    yield from one_of(f"{path}.allocationMode", request.allocation_mode, (devices.EXACT_COUNT, devices.ALL))
    if request.allocation_mode == devices.ALL and request.count:
        yield Problem(f"{path}.count", show(request.count), "nothing with allocationMode All")
    yield from rules.in_range(f"{path}.count", request.count, 0, MAX_INT64)
    yield from rules.tolerations(f"{path}.tolerations", request.tolerations, DEVICE_EFFECTS)
    for name, text in ((request.capacity.requests if request.capacity else None) or {}).items():
        place = f"{path}.capacity.requests"
        yield from rules.quantity(at_key(place, name), text, in_brackets(place, name))


def check_selectors(path: str, selectors: Collection[devices.DeviceSelector] | None) -> Problems:
    """Expressions are compiled elsewhere (plugins/devices), because cel is beside this package."""
    for i, selector in enumerate(selectors or ()):
        expression = selector.cel.expression if selector.cel else ""
        yield from rules.required(f"{path}[{i}].cel.expression", expression, "a CEL expression")


def check_resource_slice(written: devices.ResourceSlice) -> Problems:
    """A slice says for all devices which nodes can use them, or leaves that to each device."""
    spec = written.spec
    yield from rules.object_name("spec.driver", spec.driver)
    yield from rules.required("spec.pool.name", spec.pool.name, "the name of a pool")
    yield from rules.in_range("spec.pool.resourceSliceCount", spec.pool.resource_slice_count, 1, MAX_INT64)
    yield from rules.in_range("spec.pool.generation", spec.pool.generation, 0, MAX_INT64)
    chosen = [spec.node_name, spec.node_selector, spec.all_nodes, spec.per_device_node_selection]
    if sum(bool(way) for way in chosen) != 1:
        allowed = "exactly one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection must be set"
        yield Problem("spec", f"{sum(bool(way) for way in chosen)} of them", allowed)
    if spec.node_selector is not None:
        yield from rules.node_selector("spec.nodeSelector", spec.node_selector)
    for i, device in enumerate(spec.devices or ()):
        yield from _device(f"spec.devices[{i}]", device)
    for i, counters in enumerate(spec.shared_counters or ()):
        for name, counter in (counters.counters or {}).items():
            place = at_key(f"spec.sharedCounters[{i}].counters", name)
            yield from rules.quantity(f"{place}.value", counter.value)


def _device(path: str, device: devices.Device) -> Problems:
    """An attribute has exactly one value, or one list that is not empty."""
    yield from rules.short_name(f"{path}.name", device.name)
    yield from rules.taints(f"{path}.taints", device.taints, DEVICE_EFFECTS)
    for name, attribute in (device.attributes or {}).items():
        yield from _attribute(at_key(f"{path}.attributes", name), attribute)
    for name, capacity in (device.capacity or {}).items():
        yield from rules.quantity(f"{at_key(f'{path}.capacity', name)}.value", capacity.value)
    for name, taken in (device.node_allocatable_resources or {}).items():
        yield from _node_resource(at_key(f"{path}.nodeAllocatableResources", name), taken, device.capacity or {})
    for i, consumed in enumerate(device.consumes_counters or ()):
        for name, counter in (consumed.counters or {}).items():
            place = at_key(f"{path}.consumesCounters[{i}].counters", name)
            yield from rules.quantity(f"{place}.value", counter.value)


def _node_resource(path: str, taken: devices.NodeAllocatableResource, capacity: Collection[str]) -> Problems:
    """Problems of the amount that a device takes of one resource of its node."""
    mapping, overhead = taken.mapping, taken.overhead
    if mapping is not None:
        yield from rules.quantity(f"{path}.mapping.capacityMultiplier", mapping.capacity_multiplier)
        yield from rules.quantity(f"{path}.mapping.deviceMultiplier", mapping.device_multiplier)
        if mapping.capacity_key is not None and mapping.capacity_key not in capacity:
            yield Problem(f"{path}.mapping.capacityKey", show(mapping.capacity_key), "a capacity of the device")
    if overhead is not None:
        yield from rules.quantity(f"{path}.overhead.perPod", overhead.per_pod)
        yield from rules.quantity(f"{path}.overhead.perContainer", overhead.per_container)


def _attribute(path: str, attribute: devices.DeviceAttribute) -> Problems:
    """Yield the problems of a device attribute. It has exactly one value or one list of values, and a list must not be
    empty."""
    single = (attribute.int_value, attribute.bool_value, attribute.string_value, attribute.version_value)
    lists = (attribute.int_values, attribute.bool_values, attribute.string_values, attribute.version_values)
    count = sum(value is not None for value in (*single, *lists))
    if count != 1:
        yield Problem(
            path, f"{count} of them", "exactly one of int, bool, string and version, or a list of one, must be set"
        )
    for name, values in zip(("ints", "bools", "strings", "versions"), lists, strict=True):
        if values is not None:
            yield from rules.required(f"{path}.{name}", values, "one value or more")


def check_device_taint_rule(rule: devices.DeviceTaintRule) -> Problems:
    """A selector may leave names out, but none may be empty."""
    selector = rule.spec.device_selector
    if selector is not None and selector.driver is not None:
        yield from rules.object_name("spec.deviceSelector.driver", selector.driver)
    if selector is not None and selector.pool is not None:
        yield from rules.required("spec.deviceSelector.pool", selector.pool, "the name of a pool")
    if selector is not None and selector.device is not None:
        yield from rules.short_name("spec.deviceSelector.device", selector.device)
    yield from rules.taint("spec.taint", rule.spec.taint, DEVICE_EFFECTS)


# ---- fields of slices and claims that only some devices have: partitions, compatibility groups, operations that kubelets
# leave out, and derived attributes. These rules read JSON, since most of these fields are not part of the typed objects.

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
    return {_derived_attribute(each) for each in devices.get("constraints") or () if not each.get("requests")}


def _names(devices: JsonObject, request: str) -> set[str]:
    """The attributes of the constraints that name this request."""
    constraints = devices.get("constraints") or ()
    return {_derived_attribute(each) for each in constraints if request in (each.get("requests") or ())}


def _derived_attribute(constraint: JsonObject) -> str:
    name: str = constraint.get("matchAttribute") or constraint.get("distinctAttribute") or ""
    return name
