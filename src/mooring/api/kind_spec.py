"""KindSpec: everything that Mooring knows of an API kind, as one value. A new kind needs nothing else.

The specs are in `api/kinds`, one file for each family. Every other table of kinds is derived from them: what the API
server serves, admits, merges and prints, what the scheduler watches and looks up, and which events plugins can register.
Code that a spec cannot hold, because it needs the store or the admission of pods, is in
`apiserver/admission/special_kinds.py`; ordinary kinds have none.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any, Self

import msgspec

from mooring.api.api_errors import Cause
from mooring.api.json_objects import PATCHES, STRATEGIC_MERGE_PATCH, JsonObject, at
from mooring.api.structural_schema import Schema
from mooring.api.validation.problem import Problems
from mooring.kit.clock import NS_PER_S, moment_ns
from mooring.model.meta import KubeObject

# ---- what `kubectl get` prints of an object, with kube-apiserver's words: the cells that many kinds share, and columns
#
# A cell is a function of an object and of the present moment in nanoseconds since 1970. The columns of a kind are in
# its spec. kubectl shows columns of priority 1 only with `-o wide`.


def human_duration(seconds: int) -> str:
    """A duration with the one or two units that matter: apimachinery's duration.HumanDuration, bounds included.

    5 -> 5s, 119 -> 119s, 192 -> 3m12s, 600 -> 10m, 10800 -> 3h, 187200 -> 2d4h, 864000 -> 10d
    """
    if seconds < 0:  # Parity: a moment one second ahead, by clocks that differ, counts as now.
        return "0s" if seconds == -1 else "<invalid>"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    steps = (
        (seconds < 120, f"{seconds}s"),
        (minutes < 10, _two(minutes, "m", seconds % 60, "s")),
        (minutes < 180, f"{minutes}m"),
        (hours < 8, _two(hours, "h", minutes % 60, "m")),
        (hours < 48, f"{hours}h"),
        (days < 8, _two(days, "d", hours % 24, "h")),
        (days < 2 * 365, f"{days}d"),
        (days < 8 * 365, _two(days // 365, "y", days % 365, "d")),
    )
    return next((text for fits, text in steps if fits), f"{days // 365}y")


def _two(large: int, unit: str, small: int, small_unit: str) -> str:
    return f"{large}{unit}{small}{small_unit}" if small else f"{large}{unit}"


def whole_s(duration_ns: int) -> int:
    """Seconds, truncated towards zero as in Go."""
    return abs(duration_ns) // NS_PER_S * (1 if duration_ns >= 0 else -1)


Cell = str | int | float | bool | None
"""A cell of a table; None: it is empty."""

NONE, UNSET, UNKNOWN = "<none>", "<unset>", "<unknown>"


def since(written: str | None, now_ns: int) -> str:
    """How long ago an RFC 3339 time was."""
    return human_duration(whole_s(now_ns - moment_ns(written))) if written else UNKNOWN


def ago(path: str, otherwise: str = UNKNOWN) -> Callable[[JsonObject, int], Cell]:
    """How long ago the time at a path was."""
    return lambda item, now_ns: since(written, now_ns) if (written := at(item, path)) else otherwise


def field_cell(path: str, otherwise: Cell = "") -> Callable[[JsonObject, int], Cell]:
    """The value at a dotted path as it is."""
    return lambda item, _: at(item, path, otherwise)


def count(*paths: str) -> Callable[[JsonObject, int], Cell]:
    """How many entries the lists or maps at these paths have together."""
    return lambda item, _: sum(len(at(item, path, ())) for path in paths)


def ratio(done: str, wanted: str) -> Callable[[JsonObject, int], Cell]:
    """`1/3`: replicas that are ready, of those that are wanted (1 where the workload does not say)."""
    return lambda item, _: f"{at(item, done, 0)}/{at(item, wanted, 1)}"


def joined(path: str, key: str) -> Callable[[JsonObject, int], Cell]:
    """One field of every item of a list, such as the names of containers."""
    return lambda item, _: ",".join(line.get(key, "") for line in at(item, path, ()))


def labels_cell(path: str) -> Callable[[JsonObject, int], Cell]:
    return lambda item, _: ",".join(f"{k}={v}" for k, v in sorted(at(item, path, {}).items())) or NONE


def selector_cell(path: str) -> Callable[[JsonObject, int], Cell]:
    """The label selector at a path."""
    return lambda item, _: selector_text(at(item, path, {})) or NONE


_OPERATORS = {"In": "{key} in ({values})", "NotIn": "{key} notin ({values})", "Exists": "{key}"}


def selector_text(written: JsonObject | None) -> str:
    """A label selector in the form of `kubectl get -l`, sorted by key."""
    selector = written or {}
    rules = [(key, f"{key}={value}") for key, value in (selector.get("matchLabels") or {}).items()]
    for rule in selector.get("matchExpressions") or ():
        values = ",".join(sorted(rule.get("values") or ()))
        rules.append((rule["key"], _OPERATORS.get(rule["operator"], "!{key}").format(key=rule["key"], values=values)))
    return ",".join(text for _, text in sorted(rules))


def state_cell(path: str) -> Callable[[JsonObject, int], Cell]:
    """The phase of an object, or `Terminating` while it is being deleted."""
    return lambda item, _: "Terminating" if at(item, "metadata.deletionTimestamp") else at(item, path, "")


def conditions(item: JsonObject) -> dict[str, str]:
    """The status of each condition by its type."""
    return {line.get("type", ""): line.get("status", "") for line in at(item, "status.conditions", ())}


# ---- columns


class Column(msgspec.Struct, frozen=True):
    """One column of a table, as clients see it, and the function that makes its cells."""

    name: str
    cell: Callable[[JsonObject, int], Cell]
    priority: int = 0
    type: str = "string"
    format: str = ""
    description: str = ""
    """The description; empty: the name."""

    def definition(self) -> JsonObject:
        said = self.description or self.name
        shown = {"name": self.name, "type": self.type, "format": self.format, "description": said}
        return {**shown, "priority": self.priority}

    def read(self, item: JsonObject, now_ns: int) -> Cell:
        """The cell of an object. Some kinds are stored without validation, and one odd object must not break the whole
        list, so that errors in reading become `<invalid>`."""
        try:
            return self.cell(item, now_ns)
        except (AttributeError, KeyError, TypeError, ValueError):
            return "<invalid>"


def wide(name: str, cell: Callable[[JsonObject, int], Cell]) -> Column:
    return Column(name, cell, priority=1)


def number(name: str, path: str, otherwise: int = 0) -> Column:
    return Column(name, field_cell(path, otherwise), type="integer")


def template_columns(pod_spec: str, selects: str = "") -> tuple[Column, ...]:
    """The wide columns of a workload: containers, images and, if `selects` is the path of one, its label selector."""
    containers = f"{pod_spec}.containers"
    shown = (wide("Containers", joined(containers, "name")), wide("Images", joined(containers, "image")))
    return (*shown, wide("Selector", selector_cell(selects))) if selects else shown


NAME = Column("Name", field_cell("metadata.name"), format="name")

AGE = Column("Age", ago("metadata.creationTimestamp"))

PLAIN = (NAME, AGE)

TEMPLATE = ("spec", "template")
"""Where most workloads have the template of their pods."""
POD_SPEC = "spec.template.spec"
"""The path at which a workload has the spec of its pods."""


READ_WRITE = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
POSTED = ("create",)
"""The verbs of a kind that clients post and the server answers, but never stores."""


# ---- field labels: what clients can select objects by, such as `spec.nodeName=n1`


FieldReader = Callable[[JsonObject], str]
FieldLabels = Mapping[str, FieldReader]
"""By label, the function that reads the text that a field selector is compared with."""


def text_at(*places: str, otherwise: str = "") -> FieldReader:
    """A reader of the first dotted path that has a value, as text; `otherwise` if none has. A list means its first item."""
    ways = [place.split(".") for place in places]

    def read(item: JsonObject) -> str:
        return next((text for way in ways if (text := _read(item, way))), otherwise)

    return read


def _read(value: Any, way: list[str]) -> str:
    """The text at a path; only texts, numbers and bools count, as in upstream's field selectors."""
    for key in way:
        if isinstance(value, list):
            value = value[0] if value else None
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) else ""


def labels_at(*places: str) -> FieldLabels:
    """Field labels that are the paths that they read, which most are."""
    return {place: text_at(place) for place in places}


OF_METADATA: FieldLabels = labels_at("metadata.name", "metadata.namespace")
"""The labels of a kind that has no others."""


# ---- how patches merge lists


class MergeRule(msgspec.Struct, frozen=True):
    """How the two kinds of merging treat a field or a type; the tags in upstream's types.go say it.

    The two identify the items of some lists by different fields (ports of a Service), so both are here.
    """

    patch_key: str | None = None
    """For strategic merge patches: the field that identifies an item, empty for plain values; None: the patch replaces
    the list (patchMergeKey)."""
    apply_keys: tuple[str, ...] | None = None
    """For server-side apply: the fields that identify an item, () for plain values; None: the list is one value
    (listMapKey)."""
    is_atomic: bool = False
    """Whether a map is one value for server-side apply."""
    is_replaced: bool = False
    """Whether a strategic merge patch replaces a map as a whole."""


BY_NAME = MergeRule("name", ("name",))


# ---- the spec


class Watch(msgspec.Struct, frozen=True):
    """How the scheduler follows the objects of a kind."""

    is_required: bool = False
    """Whether the scheduler cannot work without it. Any other kind counts as empty while the server does not serve it."""
    field_selector: str = ""
    """Limits the watch on the server's side: finished pods are most of the objects of a cluster that runs jobs."""
    needs_gate: str = ""
    """The feature gate without which the scheduler does not watch it: an API that few servers serve."""
    wakes_pods: bool = False
    """Whether plugins can register its event. Objects of other kinds are only looked up during an attempt."""
    wakes_by_default: bool = False
    """Whether its event is among those of a plugin that registers none (upstream: the default EventsToRegister)."""

    def is_on(self, gates: Mapping[str, bool]) -> bool:
        """Whether a scheduler with these feature gates watches it. A gate that is not named is off."""
        return not self.needs_gate or gates.get(self.needs_gate, False)


class OtherForm(msgspec.Struct, frozen=True):
    """How the objects of another version differ from those of the spec's own version."""

    read: Callable[[JsonObject], JsonObject]
    """A copy in the form of the spec's version. Raises ValueError if that version cannot express the object."""
    write: Callable[[JsonObject], JsonObject] | None = None
    """A copy in the other form. None: Mooring does not write such objects."""


class ScalePaths(msgspec.Struct, frozen=True):
    """Where an object has the fields that its scale subresource shows, as dotted paths."""

    replicas: str = "spec.replicas"
    current: str = "status.replicas"
    selector: str = ""
    """A field with the selector as text; empty: the label selector in `spec.selector`."""


_USUAL_SCALE = ScalePaths()


@dataclass(frozen=True, slots=True, eq=False)
class KindSpec:
    """One kind under one group and version. Specs are compared by identity.

    A spec holds data and pure functions on JSON or on the typed object. It never reads the store or a clock. The defaults
    describe an ordinary kind that the server stores and nothing interprets.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool = True
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    _: KW_ONLY
    verbs: tuple[str, ...] = READ_WRITE
    stored_as: str = ""
    """The key of its objects in the store, if not group and plural: both groups of events show the same objects."""
    served_too: tuple[str, ...] = ()
    """Further apiVersions under which the embedded server serves the same objects. Those with another form are in
    `other_forms`."""
    stored_version: str = ""
    """The apiVersion that objects have in the store, if not that of the spec: set for the versions in `served_too`."""

    # ---- kinds of CustomResourceDefinitions
    definition: str = ""
    """The name of the CustomResourceDefinition that the kind comes from; empty for kinds of Kubernetes itself."""
    schema: Schema | None = None
    """The fields of its objects, where a structural schema describes them instead of the table of fields."""
    singular_name: str = ""
    """The singular name, if it is not the kind in lower case."""
    list_kind_name: str = ""
    """The kind of its lists, if it is not the kind with `List` behind it."""

    # ---- the typed object
    struct: type[KubeObject] = KubeObject
    """The struct that its objects are decoded into; KubeObject (metadata alone) for kinds that cannot change a decision."""
    other_versions: tuple[str, ...] = ()
    """Further apiVersions that API servers may serve and manifests may have, the preferred ones first."""
    other_forms: Mapping[str, OtherForm] = field(default_factory=dict)
    """By apiVersion, the form of objects that differs from that of the spec's own version. Any other version has the same."""
    name_rule: Callable[[str, str], Problems] | None = None
    """Validates `metadata.name` at its path, where names are not DNS subdomains."""
    check: Callable[[Any], Problems] | None = None
    """Validates a typed object; metadata is validated for all kinds alike."""
    makes_pods: bool = False
    """Whether a simulation creates pods from its template."""
    watch: Watch | None = None

    # ---- what the API server makes of a new or changed object
    defaults: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of plain fields at the top level that are missing or an empty text."""
    spec_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of plain fields of `spec` that are missing or an empty text."""
    pod_template: tuple[str, ...] = ()
    """The path of the pod template, which the server defaults and checks like a pod; empty for kinds without one."""
    complete: Callable[[JsonObject], None] | None = None
    """Further defaulting, in place; the server calls it at creation and at every update."""
    completes_status: bool = False
    """Whether a write to the status subresource defaults the object again."""
    new_status: Mapping[str, Any] = field(default_factory=dict)
    """The status of a new object; the server drops the one that the client sent."""
    brings_status: bool = False
    """Whether a new object keeps the status that the client sent: kubelets register nodes with their capacity."""
    finalizer: str = ""
    """The finalizer that a new object gets, which keeps it from being deleted while it is in use."""
    has_generation: bool = False
    """Whether the server counts changes of `spec` in metadata.generation."""

    # ---- what the API server rejects
    new_faults: Callable[[JsonObject], list[Cause]] | None = None
    """Faults that the server checks at creation only."""
    faults: Callable[[JsonObject], list[Cause]] | None = None
    """Faults that the server checks at creation and update, of fields that the typed object does not have."""
    change_faults: Callable[[JsonObject, JsonObject], list[Cause]] | None = None
    """Faults of an update, from the old and the new object."""
    status_faults: Callable[[JsonObject, JsonObject], list[Cause]] | None = None
    """Faults of a write to the status subresource, from the old and the new object."""
    fixed: tuple[str, ...] = ()
    """Paths of immutable fields."""
    status_keeps: tuple[str, ...] = ()
    """Fields of the metadata that a write to the status subresource does not change."""
    needs_version: bool = False
    """Whether an update must have the resourceVersion that the client has read (no unconditional update)."""
    limits_own_size: bool = False
    """Whether `faults` limits the size of an object, with a message of its own instead of the store's."""

    # ---- deletion
    returns_deleted: bool = False
    """Whether the server answers a deletion with the object instead of a Status."""
    has_grace_period: bool = False
    """Whether an object stays for its grace period after the deletion, as a pod does while its containers stop."""
    has_spec_finalizers: bool = False
    """Whether `spec.finalizers` delay the deletion too, with the phase Terminating: namespaces."""

    lists: Mapping[str, MergeRule] = field(default_factory=dict)
    """How patches merge the lists of a kind that the table of fields does not have, by the path of the field."""
    has_plain_selector: bool = False
    """Whether `spec.selector` is a map of labels instead of a label selector."""

    # ---- reading
    scale: ScalePaths = _USUAL_SCALE
    """The fields that the scale subresource shows, if there is one."""
    field_labels: FieldLabels = field(default_factory=lambda: OF_METADATA)
    """The labels of field selectors."""
    columns: tuple[Column, ...] = PLAIN
    """The columns of `kubectl get`."""
    row_conditions: Callable[[JsonObject], list[JsonObject]] | None = None
    """Conditions of a table row, from the object: rows of finished pods have one."""

    # ---- derived
    api_version: str = field(init=False)
    storage: str = field(init=False)
    """The key of its objects in the store."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "storage", self.stored_as or f"{self.group}/{self.plural}")
        object.__setattr__(self, "api_version", f"{self.group}/{self.version}" if self.group else self.version)

    @property
    def is_typed(self) -> bool:
        """Whether objects of the kind can change a scheduling decision."""
        return self.struct is not KubeObject

    def is_called(self, written: str) -> bool:
        """Whether users mean it, in any case: by its kind, its plural or a short name, each also with the group, or with
        version and group (`deployments.apps`, `deployments.v1.apps`), as kubectl takes it."""
        name, _, suffix = written.lower().partition(".")
        is_named = name in (self.singular, self.plural, *self.short_names)
        return is_named and suffix in ("", self.group, f"{self.version}.{self.group}")

    @property
    def patches(self) -> tuple[str, ...]:
        """The types of patches that the kind takes. Strategic merge patches are for Kubernetes' own kinds."""
        return tuple(each for each in PATCHES if each != STRATEGIC_MERGE_PATCH or not self.definition)

    @property
    def singular(self) -> str:
        return self.singular_name or self.kind.lower()

    @property
    def list_kind(self) -> str:
        return self.list_kind_name or f"{self.kind}List"

    @property
    def resource(self) -> str:
        """The name in messages, quotas and RBAC: `pods`, `replicasets.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def path(self) -> str:
        """The prefix of its URLs: `/api/v1`, `/apis/apps/v1`."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"

    def url(self, namespace: str = "", name: str = "") -> str:
        """The path of its objects in all namespaces or in one, or of one object: `/api/v1/namespaces/shop/pods/web`."""
        parts = [self.path, *(("namespaces", namespace) if namespace and self.namespaced else ()), self.plural]
        return "/".join((*parts, name) if name else parts)

    @property
    def api_versions(self) -> tuple[str, ...]:
        """The apiVersions that manifests may name, the served one first."""
        return (self.api_version, *self.other_versions)

    @property
    def form(self) -> OtherForm | None:
        """The form in which servers send and take objects of this version; None for that of the typed object."""
        return self.other_forms.get(self.api_version)

    def in_version(self, api_version: str) -> Self:
        """The spec of this kind under another of its versions, for requests: it has other URLs, and maybe another form."""
        return self if api_version == self.api_version else replace(self, version=api_version.rpartition("/")[2])

    @property
    def event(self) -> str:
        """The resource of its cluster events, as plugins register it: `Node`, `storage.k8s.io/StorageClass`."""
        return f"{self.group}/{self.kind}" if self.group else self.kind
