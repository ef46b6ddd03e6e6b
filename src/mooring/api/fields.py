"""Which fields each type has that the embedded server serves, and what they hold: the table `data/fields.txt`.

The table is read when it is first asked for (10 ms). In it, what a field holds is a short text: a plain value
(`string`), a type (`core.PodSpec`), a list (`[core.Container]`) or a map (`{quantity}`). `tools/upstream_fields.py` makes
it from the tags in upstream's types.go and from its OpenAPI documents.
"""

from functools import cache, lru_cache
from importlib.resources import files
from typing import Any, NamedTuple

from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec, MergeRule
from mooring.api.structural_schema import known_part

ANYTHING = "object"
"""Holds any JSON, with no fields that are known."""


class Field(NamedTuple):
    """The value that a field holds, and whether a schema says that it must be there."""

    holds: str
    is_required: bool


Fields = dict[str, Field]
"""The fields of a type by their names in JSON."""


class SchemaPlace(NamedTuple):
    """The place of a field in protobuf."""

    numbers: tuple[int, ...]
    """The way to it: all but the last lead through messages whose fields JSON shows as those of the outer one."""
    keeps_zero: bool
    """Whether 0, false or an empty string differs from nothing."""
    is_bytes: bool
    """Whether the string of JSON is base64 of what is here."""


Places = dict[str, SchemaPlace]
"""The places of the fields of a type in protobuf, by their names in JSON."""


class Table(NamedTuple):
    """All types, as the file lists them."""

    types: dict[str, Fields]
    """By `package.Type`."""
    places: dict[str, Places]
    """By `package.Type`, without the fields that are in no message."""
    packages: dict[str, str]
    """The full name of each package: `core` is `io.k8s.api.core.v1`."""
    extensions: dict[tuple[str, str], dict[str, str]]
    """By type and field, how patches merge a value, in the words of OpenAPI; that of a type itself has an empty field."""


def type_of(resource: KindSpec) -> str:
    """`core.Pod`: what an object of this kind holds; anything at all, if the table does not have the kind.

    A group has one package for the version that most of its kinds have, and others that name theirs: `autoscaling-v2`.
    """
    return ANYTHING if resource.schema is not None else _type_of(resource.group, resource.version, resource.kind)


# Bounded, because clients name kinds that there are not.
@lru_cache(maxsize=1024)
def _type_of(group: str, version: str, kind: str) -> str:
    package, known = group.split(".")[0] or "core", table()
    for name in (package, f"{package}-{version}"):
        if f"{name}.{kind}" in known.types and known.packages[name].endswith(f".{version}"):
            return f"{name}.{kind}"
    return ANYTHING


def fields_of(name: str) -> Fields:
    """The fields of a type of the table."""
    return table().types[name]


def places_of(name: str) -> Places:
    """The places of the fields of a type in protobuf."""
    return table().places[name]


def full_name(name: str) -> str:
    """`io.k8s.api.core.v1.Pod` for `core.Pod`."""
    package, _, short = name.partition(".")
    return f"{table().packages[package]}.{short}"


def is_list(holds: str) -> bool:
    return holds[0] == "["


def is_map(holds: str) -> bool:
    return holds[0] == "{"


def is_type(holds: str) -> bool:
    """Whether this is one object with known fields; no plain value has a point in its name."""
    return holds[0] not in "[{" and "." in holds


def part_of(holds: str) -> str:
    """The value that an item of a list or an entry of a map holds."""
    return holds[1:-1]


def core_of(holds: str) -> str:
    """The name inside all brackets of a list or map."""
    return holds.strip("[]{}")


@cache
def table() -> Table:
    """The table, read once."""
    found = Table({}, {}, {}, {})
    package, owner, fields, places = "", "", Fields(), Places()
    for line in (files("mooring.api.schema") / "data" / "fields.txt").read_text().splitlines():
        if line.startswith(" "):
            marked, holds, place, *words = line.split()
            name = marked.rstrip("!")
            fields[name] = Field(_absolute(holds, package), marked != name)
            if place != "-":
                places[name] = _place(place, "bytes" in words)
            if words:
                _add_extensions(found, owner, name, words)
        elif line.startswith("package "):
            _, package, full = line.split()
            found.packages[package] = full
        elif line and not line.startswith("#"):
            short, *words = line.split()
            owner = f"{package}.{short}"
            fields, places = found.types[owner], found.places[owner] = {}, {}
            _add_extensions(found, owner, "", words)
    return found


def _add_extensions(found: Table, owner: str, field: str, words: list[str]) -> None:
    if extensions := dict(word.split("=") for word in words if "=" in word):
        found.extensions[owner, field] = extensions


def _absolute(holds: str, package: str) -> str:
    """The value of a field with its package named, if it is a type; types begin with a capital, plain values do not."""
    name = core_of(holds)
    return holds.replace(name, f"{package}.{name}") if name[0].isupper() else holds


def _place(marked: str, is_bytes: bool) -> SchemaPlace:
    numbers = marked.rstrip("?")
    return SchemaPlace(tuple(map(int, numbers.split("."))), marked != numbers, is_bytes)


@cache
def merge_rules() -> dict[tuple[str, str], MergeRule]:
    """How patches merge a value, by type and field, if there is a rule for it; that of a type itself has an empty field. A
    field has the rule of its type unless it has one of its own."""
    extensions = table().extensions
    found = {key: _merge_rule(words) for key, words in extensions.items() if not key[1]}
    for name, fields in table().types.items():
        for field, held in fields.items():
            if words := extensions.get((held.holds, ""), {}) | extensions.get((name, field), {}):
                found[name, field] = _merge_rule(words)
    return found


def _merge_rule(extensions: dict[str, str]) -> MergeRule:
    strategy, form = extensions.get("patch-strategy", ""), extensions.get("list-type", "")
    keys = tuple(filter(None, extensions.get("list-map-keys", "").split(",")))
    return MergeRule(
        patch_key=extensions.get("patch-merge-key", "") if "merge" in strategy.split(",") else None,
        apply_keys=keys if form in ("map", "set") else None,
        is_atomic=extensions.get("map-type") == "atomic",
        is_replaced=strategy == "replace",
    )


# ---- descriptions


@cache
def descriptions() -> dict[tuple[str, str], str]:
    """The texts of `kubectl explain` by type and field; that of a type itself has an empty field. They are in
    `data/descriptions.txt`."""
    found: dict[tuple[str, str], str] = {}
    name = ""
    for line in (files("mooring.api.schema") / "data" / "descriptions.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        key, _, text = line.strip().partition(": ")
        if not line.startswith(" "):
            name, key = key, ""
        found[name, key] = text
    return found


# ---- pruning


def pruned(resource: KindSpec, item: JsonObject) -> JsonObject:
    """An object without the fields that its kind does not have: those are never stored."""
    if resource.schema is None:
        left: JsonObject = _pruned(item, type_of(resource))
        return left
    known: JsonObject = known_part(resource.schema, item, [])
    return {**known, "metadata": _pruned(item["metadata"], "meta.ObjectMeta")} if "metadata" in item else known


def _pruned(value: Any, holds: str) -> Any:
    """A value of the wrong form is left as it is, for others to refuse."""
    if isinstance(value, list) and is_list(holds):
        return [_pruned(inner, part_of(holds)) for inner in value]
    if not isinstance(value, dict):
        return value
    if is_map(holds):
        return {name: _pruned(inner, part_of(holds)) for name, inner in value.items()}
    if not is_type(holds):
        return value
    known = fields_of(holds)
    return {name: _pruned(inner, known[name].holds) for name, inner in value.items() if name in known}
