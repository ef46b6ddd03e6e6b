"""What Mooring knows of an API kind, in one value: the only thing to write for a new kind.

The specs are in `model/kinds`, one file for each family. Every other table of kinds is derived from them: what the API
server serves, admits, merges and prints, what the scheduler watches and looks up, and which events plugins can wait for.
Code that a spec cannot hold, because it needs the store or the admission of pods, is in
`apiserver/admission/special_kinds.py`; ordinary kinds have none.
"""

from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass, field
from typing import Any

from mooring.model.api_errors import Cause
from mooring.model.json_objects import JsonObject
from mooring.model.meta import KubeObject
from mooring.model.table_columns import PLAIN, Column
from mooring.model.validation.problem import Problems

READ_WRITE = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
POSTED = ("create",)
"""The verbs of a kind that is posted and answered, but never kept."""


# ---- Field labels: what clients can select objects of a kind by, such as `spec.nodeName=n1`.


FieldReader = Callable[[dict[str, Any]], str]
FieldLabels = Mapping[str, FieldReader]
"""How to read the text that a selector is compared with, by label."""


def text_at(*places: str, otherwise: str = "") -> FieldReader:
    """Reads the first of the places that has something, as text: what is empty or missing is `otherwise`."""
    ways = [place.split(".") for place in places]

    def read(item: dict[str, Any]) -> str:
        return next((text for way in ways if (text := _read(item, way))), otherwise)

    return read


def _read(value: Any, way: list[str]) -> str:
    for key in way:
        if isinstance(value, list):
            value = value[0] if value else None
        value = value.get(key) if isinstance(value, dict) else None
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value) if isinstance(value, str | int) else ""


def labels_at(*places: str) -> FieldLabels:
    return {place: text_at(place) for place in places}


OF_METADATA: FieldLabels = labels_at("metadata.name", "metadata.namespace")
"""The labels of a kind that has no others."""


# ---- How patches merge a list: what tells its items apart, as the tags in upstream's types.go say.


@dataclass(frozen=True, slots=True)
class ListRule:
    """How the items of a list are told apart, for each of the two ways of merging."""

    patch_key: str | None = None
    """For strategic merge patches: a field of the items, empty for plain values, None if the list is replaced whole."""
    apply_keys: tuple[str, ...] | None = None
    """For server-side apply: fields of the items, none for plain values, None if the list is one value."""
    atomic_items: bool = False
    """For server-side apply: an item is owned as a whole."""


def by(key: str, *others: str, atomic_items: bool = False) -> ListRule:
    """Items are told apart by `key`; server-side apply looks at the other keys as well."""
    return ListRule(key, (key, *others), atomic_items)


BY_NAME = by("name")
BY_TYPE = by("type")
VALUES = ListRule("", ())
"""A list of plain values without repetition."""


# ---- the spec


@dataclass(frozen=True, slots=True)
class Watch:
    """How the scheduler follows the objects of a kind."""

    is_required: bool = False
    """Whether nothing can be scheduled without it. All others count as empty while a server refuses them."""
    field_selector: str = ""
    needs_groups: bool = False
    """Whether the scheduler watches it only where it schedules pod groups together."""
    wakes_pods: bool = False
    """Whether plugins can register its event. Objects of other kinds are only looked up."""
    wakes_by_default: bool = False
    """Whether its event is among those of a plugin that registers none (upstream: the default EventsToRegister)."""


@dataclass(frozen=True, slots=True, eq=False)
class KindSpec:
    """One kind under one group and version. Specs are compared by identity."""

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
    """What its objects are kept under, if not under group and plural: both event groups see the same objects."""

    # ---- the typed object
    struct: type[KubeObject] = KubeObject
    """What its objects are read into: metadata alone, for kinds that cannot change a decision."""
    other_versions: tuple[str, ...] = ()
    """apiVersions of the same form that manifests may name."""
    check: Callable[[Any], Problems] | None = None
    """What is wrong with a typed object, beyond its metadata."""
    makes_pods: bool = False
    """Whether a simulation makes pods of its template."""
    watch: Watch | None = None

    # ---- what the API server makes of a new or changed object
    spec_defaults: Mapping[str, Any] = field(default_factory=dict)
    """Defaults of plain fields of `spec`, where they are missing or an empty text."""
    has_pod_template: bool = False
    """Whether `spec.template` is a pod template, which gets the defaults of pods."""
    complete: Callable[[JsonObject], None] | None = None
    """Further defaulting in place, at creation and at every update."""
    completes_status: bool = False
    """Whether writing the status subresource defaults the object again."""
    new_status: Mapping[str, Any] = field(default_factory=dict)
    """The status that a new object gets, whatever its writer says."""
    brings_status: bool = False
    """Whether a new object keeps the status of its writer instead."""
    finalizer: str = ""
    """What keeps a new object from vanishing while it is in use."""
    has_generation: bool = False
    """Whether the server counts changes of `spec` in metadata.generation."""

    # ---- what the API server rejects
    new_faults: Callable[[JsonObject], list[Cause]] | None = None
    """Faults of an object that is created."""
    faults: Callable[[JsonObject], list[Cause]] | None = None
    """Faults of an object that is created or changed, where the typed object does not show them."""
    change_faults: Callable[[JsonObject, JsonObject], list[Cause]] | None = None
    """Faults of a change from one object to another."""
    fixed: tuple[str, ...] = ()
    """Paths of fields that no update may change."""
    status_keeps: tuple[str, ...] = ()
    """Entries of the metadata that a write to the status subresource leaves alone."""
    needs_version: bool = False
    """Whether an update must name the resourceVersion that its writer has seen."""
    limits_own_size: bool = False
    """Whether `faults` bounds the size of an object, before the store does."""

    # ---- deletion
    returns_deleted: bool = False
    """Whether a deletion answers with the object instead of a Status."""
    has_grace_period: bool = False
    """Whether an object stays for a while after its deletion, and every watch sees it end."""
    has_spec_finalizers: bool = False
    """Whether `spec.finalizers` hold a deleted object too, and its phase says that it is terminating."""

    # ---- patches: by the way to a field below the object, of one or two names; `patches/merge_keys.py` has shared ones
    lists: Mapping[str, ListRule] = field(default_factory=dict)
    atomic_maps: tuple[str, ...] = ()
    """Maps that server-side apply takes for one value."""
    replaced_maps: tuple[str, ...] = ()
    """Maps that a strategic merge patch replaces whole."""
    has_plain_selector: bool = False
    """Whether `spec.selector` is a map of labels, and no label selector."""

    # ---- reading
    field_labels: FieldLabels = field(default_factory=lambda: OF_METADATA)
    """What clients can select objects by."""
    columns: tuple[Column, ...] = PLAIN
    row_conditions: Callable[[JsonObject], list[JsonObject]] | None = None

    # ---- derived
    api_version: str = field(init=False)
    storage: str = field(init=False)
    """What objects are kept under."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "storage", self.stored_as or f"{self.group}/{self.plural}")
        object.__setattr__(self, "api_version", f"{self.group}/{self.version}" if self.group else self.version)

    @property
    def is_typed(self) -> bool:
        """Whether objects of the kind can change a decision."""
        return self.struct is not KubeObject

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def path(self) -> str:
        """The prefix of its URLs: `/api/v1`, `/apis/apps/v1`."""
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"

    @property
    def api_versions(self) -> tuple[str, ...]:
        """The apiVersions that manifests may name, the served one first."""
        return (self.api_version, *self.other_versions)

    @property
    def event(self) -> str:
        """The resource of its cluster events, as plugins register it: `Node`, `storage.k8s.io/StorageClass`."""
        return f"{self.group}/{self.kind}" if self.group else self.kind
