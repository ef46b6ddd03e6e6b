"""The rules by which objects are renamed: one for every field that holds text."""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from mooring.inputs.dump_header import EventSource, InvolvedObject, PodEvent, RepeatedEvent
from mooring.inputs.dumps.name_book import (
    AMOUNT,
    NUMBER,
    PUBLIC,
    PUBLIC_FEATURES,
    PUBLIC_PROVISIONERS,
    TIME,
    WORDS,
    NameBook,
)
from mooring.model import devices, meta, node, pod_spec, storage, workloads
from mooring.model.meta import ObjectMeta, Wire
from mooring.model.storage import CLASS_ANNOTATION
from mooring.model.volumes import MIGRATED_PLUGINS, SELECTED_NODE
from mooring.rules.claims_of_pods import POD_CLAIM_NAME
from mooring.state.recording.recorded_steps import READ_ANNOTATIONS

T = TypeVar("T")
W = TypeVar("W", bound=Wire)
Rule = Callable[[NameBook, Any], Any]
NUMERIC_OPERATORS = ("Gt", "Lt")

# ---- rules for values: no rule gets None or an empty text


def word(book: NameBook, value: Any) -> Any:
    """A constant of the API, or several; what is none gets a name, which is none either."""
    if isinstance(value, list):
        return [word(book, each) for each in value]
    return value if not isinstance(value, str) or value in WORDS else book.name(value)


def _formed(form: re.Pattern[str]) -> Rule:
    """A rule for texts of one form, in which no name has room. A text of another form gets a name, which has not the form
    either. What is no text stays."""

    def rule(book: NameBook, value: Any) -> Any:
        if isinstance(value, list):
            return [rule(book, each) for each in value]
        if isinstance(value, dict):
            return {key: rule(book, each) for key, each in value.items()}
        return value if not isinstance(value, str) or form.fullmatch(value) else book.name(value)

    return rule


_time, _number, _amount = _formed(TIME), _formed(NUMBER), _formed(AMOUNT)


def _drop(book: NameBook, value: object) -> None:
    return None


def _empty(book: NameBook, value: object) -> str:
    return ""


def _each(rule: Rule) -> Rule:
    """A rule for lists: the rule of their entries."""
    return lambda book, texts: [rule(book, text) for text in texts]


_name, _public, _driver = NameBook.name, NameBook.public_name, NameBook.driver


def _labels(book: NameBook, labels: Mapping[str, str]) -> dict[str, str]:
    return {book.key(key): book.value_of(key, value) for key, value in labels.items()}


def _resources(book: NameBook, amounts: Mapping[str, T]) -> dict[str, T]:
    return {book.resource(name): _amount(book, amount) for name, amount in amounts.items()}


def _named(book: NameBook, items: Mapping[str, T]) -> dict[str, T]:
    return {book.name(name): _time(book, item) for name, item in items.items()}


def _qualified(book: NameBook, items: Mapping[str, T]) -> dict[str, T]:
    return {book.qualified(name): _amount(book, item) for name, item in items.items()}


def _condition(book: NameBook, text: str) -> str:
    return text if text in PUBLIC["conditions"] else book.name(text)


def _features(book: NameBook, texts: list[str]) -> list[str]:
    return sorted(text if text in PUBLIC_FEATURES else book.name(text) for text in texts)


def _annotations(book: NameBook, annotations: Mapping[str, str]) -> dict[str, str] | None:
    """Only annotations that decisions read. Most are marks; three hold a name, and one lists plugins."""
    naming: dict[str, Callable[[str], str]] = {
        CLASS_ANNOTATION: book.public_name,
        SELECTED_NODE: book.name,
        POD_CLAIM_NAME: book.name,
        MIGRATED_PLUGINS: _public_plugins,
    }
    shown: dict[str, str] = {}
    for key, text in annotations.items():
        if key in book.kept_annotations:
            shown[key] = text
        elif key in naming:
            shown[key] = naming[key](text)
        elif key in READ_ANNOTATIONS.exact and text in _MARKS:
            shown[key] = text
        elif key in book.renamed_annotations:
            shown[book.name(key)] = book.value(text)
    return shown or None


_MARKS = ("yes", "true", "false")
"""Values of annotations that are marks."""


def _public_plugins(text: str) -> str:
    return ",".join(each for each in text.split(",") if each in PUBLIC_PROVISIONERS)


# ---- the table

_same = dict.fromkeys
"""One rule for several fields."""
_GROUP_NAMES: dict[str, Rule] = {
    "priority_class_name": _public,
    "preemption_policy": word,
    "parent_composite_pod_group_name": _name,
}
"""Rules for the names in the spec of a PodGroup or a CompositePodGroup."""
RULES: dict[type[Wire], dict[str, Rule]] = {
    ObjectMeta: {
        "name": _name,
        "generate_name": _drop,
        "namespace": _public,
        "uid": _name,
        "labels": _labels,
        "annotations": _annotations,
        "finalizers": _each(NameBook.finalizer),
        "resource_version": _number,
        **_same(("creation_timestamp", "deletion_timestamp"), _time),
    },
    meta.LabelSelector: {"match_labels": _labels},
    meta.Condition: {
        "type": _condition,
        "reason": lambda book, text: text if text in PUBLIC["reasons"] else None,
        "message": _drop,
        "status": word,
        "last_transition_time": _time,
    },
    # ---- nodes and pods
    node.NodeStatus: {"allocatable": _resources, "capacity": _resources, "declared_features": _features},
    node.NodePodPreemptionPolicy: {"disable_resize_preemption": _each(NameBook.key)},
    node.Taint: {"key": NameBook.key, "value": NameBook.value, "effect": word},
    node.ContainerImage: {"names": _each(NameBook.image_on_node)},
    pod_spec.PodSpec: {
        "node_name": _name,
        "scheduler_name": _public,
        "priority_class_name": _public,
        "node_selector": _labels,
        "overhead": _resources,
        "runtime_class_name": _name,
        "preemption_policy": word,
    },
    pod_spec.PodStatus: {
        "nominated_node_name": _name,
        "allocated_resources": _resources,
        "phase": word,
        "start_time": _time,
    },
    pod_spec.Container: {"name": _name, "image": NameBook.image, "restart_policy": word},
    pod_spec.ContainerPort: {"host_ip": NameBook.address, "protocol": word},
    pod_spec.ContainerStatus: {"name": _name, "allocated_resources": _resources},
    pod_spec.RestartRule: {"action": word},
    pod_spec.VolumeMount: {"bind_mount_options": word},
    pod_spec.ResourceRequirements: {"requests": _resources, "limits": _resources},
    pod_spec.TopologySpreadConstraint: {
        "topology_key": NameBook.key,
        "match_label_keys": _each(NameBook.key),
        **_same(("when_unsatisfiable", "node_affinity_policy", "node_taints_policy"), word),
    },
    pod_spec.PodAffinityTerm: {
        "namespaces": _each(_public),
        "topology_key": NameBook.key,
        **_same(("match_label_keys", "mismatch_label_keys"), _each(NameBook.key)),
    },
    pod_spec.SchedulingGate: {"name": _name},
    pod_spec.SchedulingGroup: {"pod_group_name": _name},
    workloads.GroupTopology: {"key": NameBook.key},
    workloads.PodGroupSpec: _GROUP_NAMES,
    workloads.CompositePodGroupSpec: _GROUP_NAMES,
    workloads.WorkloadReference: {"workload_name": _name, "template_name": _name},
    pod_spec.PodResourceClaim: {"name": _name, "resource_claim_name": _name, "resource_claim_template_name": _name},
    pod_spec.ContainerClaim: {"name": _name},
    pod_spec.MappedResource: {"name": NameBook.resource, "quantity": _amount},
    pod_spec.OverheadResource: {"name": NameBook.resource, **_same(("per_pod", "per_container"), _amount)},
    pod_spec.NodeAllocatableClaimStatus: {"resource_claim_name": _name, "containers": _each(_name)},
    pod_spec.PodClaimStatus: {"name": _name, "resource_claim_name": _name},
    pod_spec.ExtendedClaimStatus: {"resource_claim_name": _name},
    pod_spec.RequestMapping: {
        "container_name": _name,
        "resource_name": NameBook.resource,
        "request_name": NameBook.request,
    },
    # ---- volumes
    pod_spec.Volume: {"name": _name},
    pod_spec.ClaimVolume: {"claim_name": NameBook.claim},
    pod_spec.ClaimSpec: {
        "volume_name": _name,
        "storage_class_name": _public,
        "volume_attributes_class_name": _name,
        **_same(("access_modes", "volume_mode"), word),
    },
    pod_spec.ImageVolume: {"reference": NameBook.image},
    pod_spec.CsiVolume: {"driver": _driver},
    pod_spec.GceDisk: {"pd_name": _name},
    pod_spec.AzureDisk: {"disk_uri": _name},
    pod_spec.VolumeById: {"volume_id": NameBook.volume_id},
    pod_spec.IscsiVolume: {"iqn": _name},
    pod_spec.RbdVolume: {"monitors": _each(_name), "pool": _name, "image": _name},
    storage.ClaimReference: {
        "namespace": _public,
        "name": NameBook.claim,
        "uid": _name,
        "resource_version": _number,
        **_same(("api_version", "kind"), word),
    },
    storage.CsiSource: {"driver": _driver, "volume_handle": _name},
    storage.PersistentVolumeSpec: {
        "capacity": _resources,
        "storage_class_name": _public,
        "volume_attributes_class_name": _name,
        **_same(("access_modes", "volume_mode"), word),
    },
    storage.PhaseStatus: {"phase": word},
    storage.StorageClass: {"provisioner": _driver, "volume_binding_mode": word},
    storage.NodeDriver: {"name": _driver},
    storage.CSIStorageCapacity: {"storage_class_name": _public, **_same(("capacity", "maximum_volume_size"), _amount)},
    storage.VolumeAttachmentSpec: {"attacher": _driver, "node_name": _name},
    storage.AttachmentSource: {"persistent_volume_name": _name},
    # ---- workloads, classes, budgets
    workloads.SelectorMapSpec: {"selector": _labels},
    workloads.PriorityClass: {"preemption_policy": word},
    workloads.RuntimeOverhead: {"pod_fixed": _resources},
    workloads.RuntimeScheduling: {"node_selector": _labels},
    workloads.LimitRangeItem: {"type": word, **_same(("default", "default_request", "min", "max"), _resources)},
    workloads.DisruptionBudgetSpec: {
        "min_available": _amount,
        "max_unavailable": _amount,
        "unhealthy_pod_eviction_policy": word,
    },
    workloads.DisruptionBudgetStatus: {"disrupted_pods": _named},
    workloads.WorkloadSpec: {"completion_mode": word},
    workloads.Workload: {"kind": word},
    # ---- devices
    devices.CelSelector: {"expression": lambda book, text: book.expressions.get(text) or book.name(text)},
    devices.OpaqueConfiguration: {"driver": _driver, "parameters": _drop},
    devices.CapacityRequirements: {"requests": _qualified},
    devices.DerivedAttribute: {"name": NameBook.qualified, "expression": _name},
    devices.ExactDeviceRequest: {"device_class_name": _name, "allocation_mode": word},
    devices.DeviceSubRequest: {"name": NameBook.request, "device_class_name": _name, "allocation_mode": word},
    devices.DeviceRequest: {"name": NameBook.request},
    devices.DeviceConstraint: {
        "requests": _each(NameBook.request),
        "match_attribute": NameBook.qualified,
        "distinct_attribute": NameBook.qualified,
    },
    devices.DeviceClaimConfiguration: {"requests": _each(NameBook.request)},
    devices.AllocationConfiguration: {"source": word, "requests": _each(NameBook.request)},
    devices.AllocatedDevice: {
        "request": NameBook.request,
        "driver": _driver,
        **_same(("pool", "device", "share_id"), _name),
        **_same(("binding_conditions", "binding_failure_conditions"), _each(_condition)),
        "consumed_capacity": _qualified,
        "skip_node_operations": word,
    },
    devices.Allocation: {"allocation_timestamp": _time},
    devices.ClaimConsumer: {
        "api_group": lambda book, text: book.name(text) if text else text,
        "name": _name,
        "uid": _name,
        "resource": lambda book, text: text if text == "pods" else book.name(text),
    },
    devices.DeviceStatus: {
        "driver": _driver,
        "data": _drop,
        "network_data": _drop,
        **_same(("pool", "device", "share_id"), _name),
    },
    devices.DeviceClassSpec: {"extended_resource_name": NameBook.resource},
    devices.DeviceAttribute: {
        "string_value": _name,
        "version_value": NameBook.version,
        "string_values": _each(_name),
        "version_values": _each(NameBook.version),
    },
    devices.DeviceTaintSelector: {"driver": _driver, **_same(("pool", "device"), _name)},
    devices.NodeAllocatableMapping: {
        "capacity_key": NameBook.qualified,
        **_same(("capacity_multiplier", "device_multiplier"), _amount),
    },
    devices.NodeAllocatableOverhead: _same(("per_pod", "per_container"), _amount),
    devices.CapacityRange: _same(("min", "max", "step"), _amount),
    devices.CapacityPolicy: {"default": _amount, "valid_values": _amount},
    devices.DeviceCapacity: {"value": _amount},
    devices.DeviceCounter: {"value": _amount},
    devices.CounterSet: {"name": _name, "counters": _named},
    devices.CounterConsumption: {
        "counter_set": _name,
        "counters": _named,
        "compatibility_groups": _each(_name),
    },
    devices.Device: {
        "node_allocatable_resources": _resources,
        "name": _name,
        "node_name": _name,
        "attributes": _qualified,
        "capacity": _qualified,
        **_same(("binding_conditions", "binding_failure_conditions"), _each(_condition)),
    },
    devices.ResourcePool: {"name": _name},
    devices.ResourceSliceSpec: {"driver": _driver, "node_name": _name, "skip_node_operations": word},
    # ---- events
    InvolvedObject: {"kind": word, "namespace": _public, "name": _name, "uid": _name},
    RepeatedEvent: {"last_observed_time": _time},
    EventSource: {"component": _public},
    PodEvent: {
        "reason": lambda book, text: text if text in PUBLIC["event_reasons"] else "Other",
        "message": _empty,
        "reporting_component": _public,
        "type": word,
        **_same(("event_time", "first_timestamp", "last_timestamp"), _time),
    },
}
"""By struct and field. Fields that hold structs are renamed inside; fields without text stay."""
