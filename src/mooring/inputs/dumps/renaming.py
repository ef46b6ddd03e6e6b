"""New names for an anonymous dump: one for each text, in the same order, and never for words that are Kubernetes' own.
There is one rule for every name of a field that holds text, and there are exceptions by struct.

Decisions compare names: the lowest node name breaks ties, the first volume of a size is taken, pools of devices are
tried by name. So the new names sort as the old ones do, and the same text has the same new name wherever it occurs.
"""

import re
import tomllib
from collections.abc import Callable, Mapping, Set
from pathlib import Path
from typing import Any, TypeVar

from mooring.api.kinds import BY_KIND, KINDS
from mooring.framework.config.feature_gates import DEFAULTS
from mooring.framework.contract.annotation_keys import AnnotationKeys
from mooring.inputs.dump_header import PodEvent
from mooring.model import devices, meta, pod_spec, storage
from mooring.model.meta import Wire
from mooring.model.storage import CLASS_ANNOTATION
from mooring.model.volumes import DELIMITER, DRIVERS, IN_TREE_PLUGINS, MIGRATED_PLUGINS, SELECTED_NODE, TOPOLOGY_LABELS
from mooring.rules.claims_and_volumes import POD_CLAIM_NAME
from mooring.state.recording.recorded_steps import READ_ANNOTATIONS

# ---- words that are Kubernetes' own, and forms that have no room for a word

PUBLIC = {
    name: frozenset(words)
    for name, words in tomllib.loads(Path(__file__).with_name("public_words.toml").read_text()).items()
}
PUBLIC_PROVISIONERS = IN_TREE_PLUGINS | {"kubernetes.io/no-provisioner"}
"""Provisioners that come with Kubernetes; decisions tell the last one from others."""
PUBLIC_FEATURES = frozenset(DEFAULTS)
"""Nodes declare features under the names of their gates."""

_DIGITS = r"[0-9]{1,30}"
TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?(Z|[+-][0-9]{2}:[0-9]{2})")
NUMBER = re.compile(_DIGITS)
AMOUNT = re.compile(rf"[+-]?({_DIGITS})?\.?({_DIGITS})?([eE][+-]?{_DIGITS}|[numkMGTPE]|[KMGTPE]i)?%?")
"""A quantity or a percentage."""
DURATION = re.compile(r"([0-9.]{1,30}(ns|us|ms|s|m|h))+")
HUGE_PAGES = re.compile(rf"hugepages-{_DIGITS}([KMGTPE]i)?")
OWN_REQUEST = re.compile(rf"container-{_DIGITS}-request-{_DIGITS}")
"""The names of requests in claims for extended resources, which the scheduler writes."""

WORDS = PUBLIC["constants"] | {*KINDS, *(kind for _, kind in BY_KIND)}
"""Constants of fields, and kinds."""


_RESOURCES = frozenset(("cpu", "memory", "ephemeral-storage", "storage", "pods"))
_RESOURCE_PREFIXES = (
    "requests.",
    "hugepages-",
    "attachable-volumes-csi-",
    "attachable-volumes-",
    "deviceclass.resource.kubernetes.io/",
)
_OWN_DOMAIN = "kubernetes.io/"


class NameBook:
    """First `name` and its kin only note the texts and return them; after `close` they return the new names."""

    def __init__(self) -> None:
        self._texts: set[str] = set()
        self._new: dict[str, str] | None = None
        self.numbers: set[str] = set()
        """Values of labels that selectors compare as numbers (Gt, Lt), which must stay."""
        self.compared_keys: set[str] = set()
        """The keys of those labels."""
        self.expressions: dict[str, str] = {}
        """New texts of device selectors (device_groups.py)."""
        self.made_of: dict[str, tuple[str, str]] = {}
        """Names of claims that are made of the names of a pod and its volume; they are looked up in this form."""
        self.kept_annotations = AnnotationKeys()
        """Annotations that the user wants to keep as they are."""
        self.renamed_annotations = AnnotationKeys()
        """Annotations that plugins read: they stay under another key and with another value."""

    def close(self) -> None:
        """Give out names: `x` and the rank among all texts, with as many digits as the largest needs."""
        width = len(str(len(self._texts)))
        self._new = {text: f"x{rank:0{width}}" for rank, text in enumerate(sorted(self._texts))}

    def noted(self) -> Set[str]:
        """All texts that get a new name."""
        return self._texts

    def new_names(self) -> Mapping[str, str]:
        """Old name -> new name, when the book is closed."""
        return self._new or {}

    @property
    def is_closed(self) -> bool:
        return self._new is not None

    def name(self, text: str) -> str:
        """The new name of any text."""
        if not text:
            return text
        if self._new is None:
            self._texts.add(text)
            return text
        return self._new[text]

    def public_name(self, text: str) -> str:
        """The name of a namespace, class or scheduler, which may be one that every cluster has."""
        return text if text in PUBLIC["names"] else self.name(text)

    def driver(self, text: str) -> str:
        """A driver or provisioner; the volumes of in-tree plugins are counted under the public names of their drivers."""
        return text if text in DRIVERS or text in PUBLIC_PROVISIONERS else self.name(text)

    def finalizer(self, text: str) -> str:
        """A finalizer has a domain, or is Kubernetes' own. The scheduler looks for the one of resource claims; all others
        only keep an object."""
        return text if text in PUBLIC["finalizers"] else f"example.com/{self.name(text)}"

    def claim(self, text: str) -> str:
        """The name of a volume claim."""
        if text in self.made_of:
            return "-".join(map(self.name, self.made_of[text]))
        return self.name(text)

    # ---- labels and taints

    def key(self, text: str) -> str:
        return text if text in PUBLIC["keys"] else self.name(text)

    def value(self, text: str) -> str:
        is_public = text in PUBLIC["values"] or text in PUBLIC["names"] or text in self.numbers
        return text if is_public else self.name(text)

    def value_of(self, key: str, text: str) -> str:
        """The value under a key: a volume may have several zones in one value."""
        if key in TOPOLOGY_LABELS and DELIMITER in text:
            return DELIMITER.join(map(self.value, text.split(DELIMITER)))
        return self.value(text)

    # ---- names with an inner form

    def resource(self, text: str) -> str:
        """`acme.com/gpu`: the domain stays a domain, because a configuration may ignore all resources of a domain."""
        if text in _RESOURCES or HUGE_PAGES.fullmatch(text):
            return text
        for prefix in _RESOURCE_PREFIXES:
            if text.startswith(prefix):
                return prefix + self.resource(text.removeprefix(prefix))
        if _OWN_DOMAIN in text:
            return _OWN_DOMAIN + self.name(text)
        return self.qualified(text)

    def qualified(self, text: str) -> str:
        """`domain/name` or `name`: attributes and capacities of devices belong to the domain of their driver."""
        domain, slash, rest = text.partition("/")
        return f"{self.driver(domain)}/{self.name(rest)}" if slash else self.name(text)

    def request(self, text: str) -> str:
        """A request of a resource claim, or an alternative of one: `request/alternative`."""
        return "/".join(part if OWN_REQUEST.fullmatch(part) else self.name(part) for part in text.split("/"))

    def image(self, text: str) -> str:
        """Images without a tag are those with the tag `latest`, so the text with its tag is what gets a name."""
        has_tag = text.rfind(":") > text.rfind("/")
        return f"{self.name(text if has_tag else f'{text}:latest')}:v"

    def image_on_node(self, text: str) -> str:
        """Images of nodes are compared as they are written."""
        return self.image(text) if text.rfind(":") > text.rfind("/") else self.name(text)

    def volume_id(self, text: str) -> str:
        """`aws://zone/vol-1` and `vol-1` are the same volume to the driver, and two to the in-tree plugin."""
        if text.startswith("aws://"):
            return "aws://" + "/".join(map(self.name, text.removeprefix("aws://").split("/")))
        return self.name(text)

    def version(self, text: str) -> str:
        """A version stays a version; only equality counts."""
        new = self.name(text)
        return f"0.0.{int(new[1:])}" if self.is_closed else text

    def address(self, text: str) -> str:
        """An IP address that a port is bound to; new ones are from the range for documentation. Wildcards and the loopback
        address have a meaning."""
        if text in ("", "0.0.0.0", "::", "127.0.0.1", "::1"):
            return text
        new = self.name(text)
        return f"2001:db8::{int(new[1:]):x}" if self.is_closed else text


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
    PodEvent: {"reason": lambda book, text: text if text in PUBLIC["event_reasons"] else "Other", "message": _empty},
}
"""By struct, fields whose names mean something else elsewhere."""
