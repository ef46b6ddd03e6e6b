"""`metadata.managedFields`: who owns which fields of an object, read and written."""

import json
from collections.abc import Iterable, Iterator, Set
from dataclasses import dataclass, replace
from sys import intern
from typing import Any

from mooring.api.api_errors import shortened
from mooring.api.patches.merge_keys import DEEPEST, Path, compact
from mooring.kit.shown_text import quoted

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


def owners_of(item: dict[str, Any] | None) -> list[Owner]:
    """The entries of managedFields. An entry that makes no sense is left out, as if it had no owner."""
    entries = metadata_of(item or {}).get("managedFields")
    return [_owner(entry) for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _owner(entry: dict[str, Any]) -> Owner:
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


def _fields_v1(paths: Iterable[Path]) -> dict[str, Any]:
    """Parity: a path that others go on from is marked by a dot, one that ends there by nothing."""
    fields: dict[str, Any] = {}
    ends = sorted(paths)
    inner = {path[:length] for path in ends for length in range(1, len(path))}
    for path in ends:
        node = fields
        for key in path:
            node = node.setdefault(key, {})
        if path in inner:
            node["."] = {}
    return fields


def with_owners(item: dict[str, Any], owners: Iterable[Owner]) -> dict[str, Any]:
    """The object with these owners, and no others."""
    entries = [_entry(owner) for owner in sorted(owners, key=_entry_order) if owner.paths]
    metadata = {key: value for key, value in metadata_of(item).items() if key != "managedFields"}
    return {**item, "metadata": metadata | ({"managedFields": entries} if entries else {})}


def _entry_order(owner: Owner) -> tuple[str, ...]:
    """Parity: upstream sorts entries so, which keeps an object the same when nothing changed."""
    return owner.operation, owner.time, owner.manager, owner.api_version, owner.subresource


def _entry(owner: Owner) -> dict[str, Any]:
    """One owner as it is written."""
    entry: dict[str, Any] = {"manager": owner.manager, "operation": owner.operation, "apiVersion": owner.api_version}
    entry |= {"time": owner.time} if owner.time else {}
    entry |= {"fieldsType": "FieldsV1", "fieldsV1": _fields_v1(owner.paths)}
    return entry | ({"subresource": owner.subresource} if owner.subresource else {})


def metadata_of(item: dict[str, Any]) -> dict[str, Any]:
    """The metadata, empty if it is not of the right form: configurations are read before they are validated."""
    metadata = item.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def bare(item: dict[str, Any]) -> dict[str, Any]:
    """The object without its managedFields."""
    metadata = metadata_of(item)
    if "managedFields" not in metadata:
        return item
    return {**item, "metadata": {key: value for key, value in metadata.items() if key != "managedFields"}}
