"""Which lists are merged and by which keys of their items, and which maps are one value: a walk through an object beside
the table of fields, which has what types.go says in tags."""

import json
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache
from sys import intern

from mooring.api.api_errors import shortened
from mooring.api.fields import ANYTHING, fields_of, is_list, is_map, is_type, merge_rules, part_of, type_of
from mooring.api.json_objects import JsonObject, metadata_of
from mooring.api.kind_spec import MergeRule
from mooring.api.kinds import BY_KIND, SPECS
from mooring.api.structural_schema import Schema
from mooring.kit.shown_text import quoted

Path = tuple[str, ...]
"""The way to a field with the keys that FieldsV1 nests: `f:name`, `k:{"name":"c"}` for an item, `v:"x"` for a value."""

DEEPEST = 64
"""How many keys a path has at most: what lies deeper is owned as a whole. No kind with known fields goes half as deep.
A path is as long as it is deep, so without a bound a short body that is nested a thousand times has a million keys.
"""

_METADATA = "meta.ObjectMeta"
_BY_NAME = {spec.kind: spec for spec in reversed(SPECS)}
KEY_DEFAULTS = {"protocol": "TCP"}
"""The values of keys that an item does not name."""
WHOLE = MergeRule()
"""The rule of a field that has none: lists are replaced as a whole, maps are merged."""


@dataclass(frozen=True, slots=True)
class MergePlace:
    """A place in an object: by what it holds, for how that is merged, and by path, for who owns it.

    Keys of paths are interned: paths are compared and looked up by the thousand, and a key may be a megabyte long.
    """

    holds: str
    """The type of the table of fields, or a list or map of it."""
    path: Path = ()
    rule: MergeRule = WHOLE
    is_item: bool = False

    @property
    def is_keyed(self) -> bool:
        """Whether a list here has items of their own."""
        return not self.is_item and self.rule.apply_keys is not None

    def _key_default(self, name: str) -> object:
        """The value of a key that an item does not name."""
        return KEY_DEFAULTS.get(name)

    def at(self, name: str) -> "MergePlace":
        """The place of a field."""
        return self.inside(intern(f"f:{name}"))

    def inside(self, key: str) -> "MergePlace":
        """The place of the field, or of the item of a list, that a path has this key for."""
        path, holds, name = (*self.path, key), self.holds, ""
        if is_list(holds) or is_map(holds):
            part = owner = part_of(holds)
        else:
            owner, name = holds, key[2:]
            known = fields_of(holds).get(name) if is_type(holds) else None
            part = ANYTHING if known is None else known.holds
        return MergePlace(part, path, merge_rules().get((owner, name), WHOLE), key[:2] != "f:")

    def parts(self, value: object) -> JsonObject | None:
        """The parts of a value, by the key that a path has for each; None for a value that is owned as a whole.

        A list is such a value too if its items cannot be told apart.
        """
        if len(self.path) >= DEEPEST:
            return None
        if isinstance(value, dict):
            return None if self.rule.is_atomic else {intern(f"f:{name}"): part for name, part in value.items()}
        if not isinstance(value, list) or not self.is_keyed:
            return None
        parts = {intern(key): item for item in value if (key := self.key(item)) is not None}
        return parts if len(parts) == len(value) else None

    def key(self, item: object) -> str | None:
        """The key that tells an item of this list from others; None if it has none."""
        fields = self.rule.apply_keys
        if not fields:
            return None if isinstance(item, dict | list | None) else f"v:{compact(item)}"
        if not isinstance(item, dict):
            return None
        found = {name: item.get(name, self._key_default(name)) for name in fields}
        found = {name: value for name, value in found.items() if value is not None}
        return f"k:{compact(found)}" if found else None


@dataclass(frozen=True, slots=True)
class CustomPlace(MergePlace):
    """A place in an object of a custom kind: its schema has the rules. None: the schema does not have it."""

    schema: Schema | None = None

    def _key_default(self, name: str) -> object:
        items = None if self.schema is None else self.schema.items
        part = None if items is None else items.properties.get(name)
        return None if part is None else part.default

    def inside(self, key: str) -> MergePlace:
        """Metadata has the rules of all kinds."""
        if not key.startswith("f:"):
            items = None if self.schema is None else self.schema.items
            return CustomPlace(ANYTHING, (*self.path, key), _rule_of(items), True, items)
        if not self.path and key == "f:metadata":
            return MergePlace(_METADATA, (key,))
        part = None if self.schema is None else self.schema.at(key[2:])
        return CustomPlace(ANYTHING, (*self.path, key), _rule_of(part), schema=part)


def _rule_of(schema: Schema | None) -> MergeRule:
    return WHOLE if schema is None else MergeRule(apply_keys=schema.list_keys, is_atomic=schema.is_atomic)


@dataclass(frozen=True, slots=True)
class NamedPlace(MergePlace):
    """A place in an object of a kind that the table does not have: rules are by the names of the way (`KindSpec.lists`)."""

    rules: Mapping[str, MergeRule] = field(default_factory=dict)
    way: str = ""

    def inside(self, key: str) -> MergePlace:
        path = (*self.path, key)
        if not key.startswith("f:"):
            return NamedPlace(ANYTHING, path, WHOLE, True, self.rules, self.way)
        if path == ("f:metadata",):
            return MergePlace(_METADATA, path)
        way = f"{self.way}.{key[2:]}".removeprefix(".")
        return NamedPlace(ANYTHING, path, self.rules.get(way, WHOLE), False, self.rules, way)


# Bounded, because clients name kinds that there are not.
@lru_cache(maxsize=1024)
def root_place(kind: str, api_version: str) -> MergePlace:
    """The place of a whole object that is not of a custom kind. Without a version it is that of any version."""
    resource = BY_KIND.get((api_version, kind)) or _BY_NAME.get(kind)
    if resource is None or not is_type(type_of(resource)):
        return NamedPlace(ANYTHING, rules={} if resource is None else resource.lists)
    return MergePlace(type_of(resource))


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
