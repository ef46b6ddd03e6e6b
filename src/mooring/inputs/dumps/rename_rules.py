"""The rules by which objects are renamed: one for every name of a field that holds text, and exceptions by struct."""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from mooring.inputs.dump_header import PodEvent
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
from mooring.model import devices, meta, pod_spec, storage
from mooring.model.meta import Wire
from mooring.model.storage import CLASS_ANNOTATION
from mooring.model.volumes import MIGRATED_PLUGINS, SELECTED_NODE
from mooring.rules.claims_of_pods import POD_CLAIM_NAME
from mooring.state.recording.recorded_steps import READ_ANNOTATIONS

T = TypeVar("T")
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


# ---- the tables

_BY_RULE: tuple[tuple[Rule, str], ...] = (
    (
        _name,
        "name uid container_name counter_set device device_class_name disk_uri expression iqn node_name "
        "nominated_node_name parent_composite_pod_group_name pd_name persistent_volume_name pod_group_name pool "
        "resource_claim_name resource_claim_template_name runtime_class_name share_id string_value "
        "template_name "
        "volume_attributes_class_name volume_handle volume_name workload_name",
    ),
    (_each(_name), "compatibility_groups containers monitors string_values"),
    (_named, "counters disrupted_pods"),
    (_public, "component namespace priority_class_name reporting_component scheduler_name storage_class_name"),
    (_each(_public), "namespaces"),
    (_driver, "attacher driver provisioner"),
    (NameBook.key, "key topology_key"),
    (_each(NameBook.key), "disable_resize_preemption match_label_keys mismatch_label_keys"),
    (NameBook.value, "value"),
    (_labels, "labels match_labels node_selector selector"),
    (_annotations, "annotations"),
    (_each(NameBook.finalizer), "finalizers"),
    (NameBook.claim, "claim_name"),
    (NameBook.address, "host_ip"),
    (NameBook.volume_id, "volume_id"),
    (NameBook.image, "image reference"),
    (_each(NameBook.image_on_node), "names"),
    (NameBook.version, "version_value"),
    (_each(NameBook.version), "version_values"),
    (NameBook.resource, "extended_resource_name resource_name"),
    (
        _resources,
        "allocatable allocated_resources capacity default default_request limits max min node_allocatable_resources "
        "overhead pod_fixed requests",
    ),
    (NameBook.request, "request request_name"),
    (NameBook.qualified, "capacity_key distinct_attribute match_attribute"),
    (_qualified, "attributes consumed_capacity"),
    (_features, "declared_features"),
    (_each(_condition), "binding_conditions binding_failure_conditions"),
    (
        word,
        "access_modes action allocation_mode api_version bind_mount_options completion_mode effect kind "
        "node_affinity_policy node_taints_policy phase preemption_policy protocol restart_policy skip_node_operations "
        "source status type unhealthy_pod_eviction_policy volume_binding_mode volume_mode when_unsatisfiable",
    ),
    (
        _time,
        "allocation_timestamp creation_timestamp deletion_timestamp event_time first_timestamp last_observed_time "
        "last_timestamp last_transition_time start_time",
    ),
    (_number, "resource_version"),
    (
        _amount,
        "capacity_multiplier device_multiplier max_unavailable maximum_volume_size min_available per_container per_pod "
        "quantity step valid_values",
    ),
    (_empty, "provider_id"),
    (_drop, "data generate_name message network_data parameters"),
)
FIELDS: Mapping[str, Rule] = {field: rule for rule, fields in _BY_RULE for field in fields.split()}
"""The rule for a field of text, by its name. A struct that is new in the model may use these names: no rule lets a text pass
that is not public."""
EXCEPTIONS: Mapping[type[Wire], Mapping[str, Rule]] = {
    meta.Condition: {"type": _condition, "reason": lambda book, text: text if text in PUBLIC["reasons"] else None},
    pod_spec.MappedResource: {"name": NameBook.resource},
    pod_spec.OverheadResource: {"name": NameBook.resource},
    pod_spec.RbdVolume: {"image": _name},
    storage.ClaimReference: {"name": NameBook.claim},
    storage.NodeDriver: {"name": _driver},
    storage.CSIStorageCapacity: {"capacity": _amount},
    devices.CelSelector: {"expression": lambda book, text: book.expressions.get(text) or book.name(text)},
    devices.CapacityRequirements: {"requests": _qualified},
    devices.DerivedAttribute: {"name": NameBook.qualified},
    devices.DeviceSubRequest: {"name": NameBook.request},
    devices.DeviceRequest: {"name": NameBook.request},
    devices.DeviceConstraint: {"requests": _each(NameBook.request)},
    devices.DeviceClaimConfiguration: {"requests": _each(NameBook.request)},
    devices.AllocationConfiguration: {"requests": _each(NameBook.request)},
    devices.ClaimConsumer: {
        "api_group": lambda book, text: book.name(text) if text else text,
        "resource": lambda book, text: text if text == "pods" else book.name(text),
    },
    devices.CapacityRange: dict.fromkeys(("min", "max"), _amount),
    devices.CapacityPolicy: {"default": _amount},
    devices.DeviceCapacity: {"value": _amount},
    devices.DeviceCounter: {"value": _amount},
    devices.Device: {"capacity": _qualified},
    PodEvent: {
        "reason": lambda book, text: text if text in PUBLIC["event_reasons"] else "Other",
        "message": _empty,
    },
}
"""By struct, fields whose names mean something else elsewhere."""
