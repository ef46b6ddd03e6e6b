"""Which lists are merged and by which keys of their items, and which maps are one value: what types.go says in tags.

Lists and maps are named by the end of the way that leads to them, as far as that is needed to tell them from others:
here those that several kinds share, in the KindSpec of a kind its own. A list that is not named is replaced as a whole;
a map that is not named is merged.
"""

import json
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace
from sys import intern

from mooring.api.api_errors import shortened
from mooring.api.json_objects import JsonObject, metadata_of
from mooring.api.kind_spec import BY_NAME, BY_TYPE, VALUES, ListRule, by
from mooring.api.kinds import SPECS
from mooring.api.structural_schema import Schema
from mooring.kit.shown_text import quoted
from mooring.model.pod_spec import REQUIRED_TERMS

Names = tuple[str, ...]
"""The way to a field: the object's kind, then the fields; items of lists leave no trace."""

Path = tuple[str, ...]
"""The way to a field with the keys that FieldsV1 nests: `f:name`, `k:{"name":"c"}` for an item, `v:"x"` for a value."""

DEEPEST = 64
"""How many keys a path has at most: what lies deeper is owned as a whole. No kind with known fields goes half as deep.
A path is as long as it is deep, so without a bound a short body that is nested a thousand times has a million keys.
"""


REPLACED = ListRule()
"""The rule of a list that is not named."""
KEY_DEFAULTS = {"protocol": "TCP"}
"""The values of keys that an item does not name."""


_NAMED_ITEMS = (
    *(
        "spec.containers",
        "spec.initContainers",
        "spec.ephemeralContainers",
        "env",
        "spec.volumes",
        "spec.schedulingGates",
    ),
    *("spec.evictionResponders", "spec.resourceClaims", "status.resourceClaimStatuses", "allocatedResourcesStatus"),
)
"""Lists of pods and their templates whose items have names."""
_PORTS = ("containers.ports", "initContainers.ports", "ephemeralContainers.ports")

_SETS = (
    *("podPreemptionPolicy.disableResizePreemption", "nodeAllocatableResourceClaimStatuses.containers"),
    *("bindMountOptions", "skipNodeOperations", "exitCodes.values", "onExitCodes.values"),
    *("uncountedTerminatedPods.failed", "uncountedTerminatedPods.succeeded"),
)
"""Lists of plain values that only server-side apply merges."""

_LISTS = {
    **dict.fromkeys(_SETS, ListRule(None, ())),
    "metadata.finalizers": VALUES,
    "metadata.ownerReferences": by("uid", atomic_items=True),
    "status.conditions": BY_TYPE,
    # Pods and their templates
    **dict.fromkeys(_NAMED_ITEMS, BY_NAME),
    **dict.fromkeys(_PORTS, by("containerPort", "protocol")),
    "volumeMounts": by("mountPath"),
    "volumeDevices": by("devicePath"),
    "resources.claims": ListRule(None, ("name",)),
    "spec.imagePullSecrets": by("name", atomic_items=True),
    "spec.hostAliases": by("ip"),
    "spec.topologySpreadConstraints": by("topologyKey", "whenUnsatisfiable"),
    "status.podIPs": by("ip"),
    "status.nodeAllocatableResourceClaimStatuses": by("resourceClaimName"),
    **dict.fromkeys(
        ("nodeAllocatableResourceClaimStatuses.mapping", "nodeAllocatableResourceClaimStatuses.overhead"), BY_NAME
    ),
    "status.volumeHealth": ListRule(None, ("name",)),
    **dict.fromkeys(("volumeHealth.healthConditions", "healthStatus.healthConditions"), by("status", "reason")),
    "status.hostIPs": ListRule("ip", None),
    "allocatedResourcesStatus.resources": ListRule(None, ("resourceID",)),
    # Parts of single kinds that lie deeper than their KindSpecs can name
    **dict.fromkeys(("podGroupTemplates", "compositePodGroupTemplates"), ListRule(None, ("name",))),
    **dict.fromkeys(("podGroupTemplates.resourceClaims", "scheduling.resourceClaims"), BY_NAME),
    # Parts of several kinds
    "devices.conditions": ListRule(None, ("type",)),
    "endpoints.addresses": ListRule(None, ()),
}
"""By the last names of the way, the rule of each list that several kinds have."""

_ATOMIC_MAPS = (
    *("nodeSelector", "spec.selector", "labelSelector", "namespaceSelector", "scopeSelector", "nodeTopology"),
    *(f"nodeAffinity.{REQUIRED_TERMS}", "nodeAffinity.required"),
    *("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef", "secretRef"),
    *("spec.dataSource", "podSelector", "metric.selector", "roleRef", "backend.resource", "defaultBackend.resource"),
    *("service.port", "endpoints.targetRef"),
)
"""Maps that several kinds have and that server-side apply takes for one value."""


def list_rule(names: Names) -> ListRule:
    """The rule for the longest end of the way that a rule is known for."""
    return _LIST_BOOK.get(names[-3:]) or _LIST_BOOK.get(names[-2:]) or _LIST_BOOK.get(names[-1:]) or REPLACED


def is_atomic(names: Names) -> bool:
    """Whether server-side apply takes the map for one value."""
    return not _ATOMIC.isdisjoint((names[-3:], names[-2:], names[-1:]))


def is_replaced(names: Names) -> bool:
    """Whether a strategic merge patch replaces the map whole."""
    return not _REPLACED.isdisjoint((names[-3:], names[-2:], names[-1:]))


def _names(end: str, kind: str = "") -> Names:
    return (kind, *end.split(".")) if kind else tuple(end.split("."))


_LIST_BOOK: dict[Names, ListRule] = {_names(end): rule for end, rule in _LISTS.items()} | {
    _names(end, spec.kind): rule for spec in SPECS for end, rule in spec.lists.items()
}
"""All rules, those of single kinds included, by the names that a way may end with (one, two or three of them)."""
_ATOMIC: frozenset[Names] = frozenset(
    [*map(_names, _ATOMIC_MAPS), *(_names(end, spec.kind) for spec in SPECS for end in spec.atomic_maps)]
)
_REPLACED: frozenset[Names] = frozenset(_names(end, spec.kind) for spec in SPECS for end in spec.replaced_maps)


@dataclass(frozen=True, slots=True)
class MergePlace:
    """A place in an object: by names, for what is known of the type, and by path, for who owns it.

    Keys of paths are interned: paths are compared and looked up by the thousand, and a key may be a megabyte long.
    """

    names: Names
    path: Path = ()
    is_item: bool = False

    @property
    def is_keyed(self) -> bool:
        """Whether a list here has items of their own."""
        return not self.is_item and self._apply_keys is not None

    @property
    def _apply_keys(self) -> tuple[str, ...] | None:
        """The fields that identify an item of a list here; None: the list is one value."""
        return list_rule(self.names).apply_keys

    @property
    def _is_atomic(self) -> bool:
        """Whether a map here, or an item that is one, is one value."""
        return list_rule(self.names).atomic_items if self.is_item else is_atomic(self.names)

    def _key_default(self, name: str) -> object:
        """The value of a key that an item does not name."""
        return KEY_DEFAULTS.get(name)

    def at(self, name: str) -> "MergePlace":
        """The place of a field."""
        return self.inside(intern(f"f:{name}"))

    def inside(self, key: str) -> "MergePlace":
        """The place of the field, or of the item of a list, that a path has this key for."""
        if key.startswith("f:"):
            return MergePlace((*self.names, key[2:]), (*self.path, key))
        return MergePlace(self.names, (*self.path, key), True)

    def parts(self, value: object) -> JsonObject | None:
        """The parts of a value, by the key that a path has for each; None for a value that is owned as a whole.

        A list is such a value too if its items cannot be told apart.
        """
        if len(self.path) >= DEEPEST:
            return None
        if isinstance(value, dict):
            return None if self._is_atomic else {intern(f"f:{name}"): part for name, part in value.items()}
        if not isinstance(value, list) or not self.is_keyed:
            return None
        parts = {intern(key): item for item in value if (key := self.key(item)) is not None}
        return parts if len(parts) == len(value) else None

    def key(self, item: object) -> str | None:
        """The key that tells an item of this list from others; None if it has none."""
        fields = self._apply_keys
        if not fields:
            return None if isinstance(item, dict | list | None) else f"v:{compact(item)}"
        if not isinstance(item, dict):
            return None
        found = {name: item.get(name, self._key_default(name)) for name in fields}
        found = {name: value for name, value in found.items() if value is not None}
        return f"k:{compact(found)}" if found else None


@dataclass(frozen=True, slots=True)
class CustomPlace(MergePlace):
    """A place in an object of a custom kind: its schema has the rules, not the names. None: the schema does not have it."""

    schema: Schema | None = None

    @property
    def _apply_keys(self) -> tuple[str, ...] | None:
        return None if self.schema is None else self.schema.list_keys

    @property
    def _is_atomic(self) -> bool:
        return self.schema is not None and self.schema.is_atomic

    def _key_default(self, name: str) -> object:
        items = None if self.schema is None else self.schema.items
        part = None if items is None else items.properties.get(name)
        return None if part is None else part.default

    def inside(self, key: str) -> MergePlace:
        """Metadata has the rules of all kinds."""
        if not key.startswith("f:"):
            items = None if self.schema is None else self.schema.items
            return CustomPlace(self.names, (*self.path, key), True, items)
        if not self.path and key == "f:metadata":
            return MergePlace((*self.names, "metadata"), (key,))
        part = None if self.schema is None else self.schema.at(key[2:])
        return CustomPlace((*self.names, key[2:]), (*self.path, key), False, part)


def compact(value: object) -> str:
    """JSON without blanks and with sorted keys: two equal values have the same text, and FieldsV1 is written so."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def path_text(path: Path) -> str:
    """A path as messages show it: `.spec.containers[name="c"].image`."""
    return "".join(map(_key_text, path))


def _key_text(key: str) -> str:
    """One step of a path: `.image`, `[="x"]` for a value, `[name="c"]` for an item."""
    form, _, text = key.partition(":")
    if form == "f":
        return f".{shortened(text)}"
    if form == "v":
        return f"[={shortened(text)}]"
    return f"[{','.join(f'{name}={shortened(compact(value))}' for name, value in json.loads(text).items())}]"


# ---- `metadata.managedFields`: who owns which fields of an object, read and written.


Paths = frozenset[Path]
"""A set of fields."""


@dataclass(frozen=True, slots=True)
class Owner:
    """One entry of managedFields: a manager, and the paths of the fields that it owns."""

    manager: str
    operation: str
    api_version: str
    subresource: str = ""
    time: str = ""
    paths: Paths = frozenset()

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """Who applies is the same whichever version that goes through."""
        return self.manager, self.operation, self.api_version * (self.operation != "Apply"), self.subresource

    def __str__(self) -> str:
        through = f" with subresource {quoted(shortened(self.subresource))}" if self.subresource else ""
        using = f" using {shortened(self.api_version)}" if self.operation == "Update" else ""
        return f"{quoted(shortened(self.manager))}{through}{using}"

    def without(self, paths: Set[Path]) -> "Owner":
        return replace(self, paths=self.paths - paths)


def owners_of(item: JsonObject | None) -> list[Owner]:
    """The entries of managedFields. An entry that makes no sense is left out, as if it had no owner."""
    entries = metadata_of(item or {}).get("managedFields")
    return [_owner(entry) for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _owner(entry: JsonObject) -> Owner:
    """One entry, with empty texts where it says nothing: clients may write managedFields themselves."""
    names = ("manager", "operation", "apiVersion", "subresource", "time")
    manager, operation, version, subresource, time = (str(entry.get(name) or "") for name in names)
    return Owner(manager, operation, version, subresource, time, frozenset(_paths(entry.get("fieldsV1"), ())))


def _paths(fields: object, path: Path) -> Iterator[Path]:
    """The paths that FieldsV1 nests: one ends where there is nothing below it, or a dot."""
    if not isinstance(fields, dict):
        return
    if path and (not fields or "." in fields or len(path) == DEEPEST):
        yield path
    for key, inner in fields.items() if len(path) < DEEPEST else ():
        if (known := _known_key(key)) is not None:
            yield from _paths(inner, (*path, intern(known)))


def _known_key(key: str) -> str | None:
    """A key of FieldsV1 as we write it, however its JSON was spelt; None for what is none."""
    form, _, text = key.partition(":")
    if form not in ("k", "v"):
        return key if form == "f" else None
    try:
        value = json.loads(text)
    except ValueError:
        return None
    return f"{form}:{compact(value)}" if isinstance(value, dict) == (form == "k") else None


def _fields_v1(paths: Iterable[Path]) -> JsonObject:
    """Parity: a path that others go on from is marked by a dot, one that ends there by nothing."""
    fields: JsonObject = {}
    ends = sorted(paths)
    inner = {path[:length] for path in ends for length in range(1, len(path))}
    for path in ends:
        node = fields
        for key in path:
            node = node.setdefault(key, {})
        if path in inner:
            node["."] = {}
    return fields


def with_owners(item: JsonObject, owners: Iterable[Owner]) -> JsonObject:
    """The object with these owners, and no others."""
    entries = [_entry(owner) for owner in sorted(owners, key=_entry_order) if owner.paths]
    metadata = {key: value for key, value in metadata_of(item).items() if key != "managedFields"}
    return {**item, "metadata": metadata | ({"managedFields": entries} if entries else {})}


def _entry_order(owner: Owner) -> tuple[str, ...]:
    """Parity: upstream sorts entries so, which keeps an object the same when nothing changed."""
    return owner.operation, owner.time, owner.manager, owner.api_version, owner.subresource


def _entry(owner: Owner) -> JsonObject:
    """One owner as it is written."""
    entry: JsonObject = {"manager": owner.manager, "operation": owner.operation, "apiVersion": owner.api_version}
    entry |= {"time": owner.time} if owner.time else {}
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": _fields_v1(owner.paths)}
    return entry | ({"subresource": owner.subresource} if owner.subresource else {})


def bare(item: JsonObject) -> JsonObject:
    """The object without its managedFields."""
    metadata = metadata_of(item)
    if "managedFields" not in metadata:
        return item
    return {**item, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}
