"""What changed between two forms of an object, field by field, and the object with these changes.

Most updates change a few fields of a status: a heartbeat of a node, the node name of a pod. So only these are written.
"""

from collections.abc import Callable
from functools import cache
from operator import attrgetter
from typing import Any, get_type_hints

import msgspec

from mooring.model.meta import KubeObject

Changes = dict[str, Any]
"""By field of the object: a value, or for a part that both forms have (metadata, spec, status) the values of its fields.
Names are those of JSON."""


def changes_between(old: KubeObject, new: KubeObject) -> Changes:
    """What must be set in `old` to make it `new`."""
    changes: Changes = {}
    names, read = _fields(type(new))
    for name, before, after in zip(names, read(old), read(new), strict=True):
        if before is after:
            continue
        if isinstance(after, msgspec.Struct) and type(before) is type(after):
            if inner := _differing(before, after):
                changes[name] = inner
        elif before != after:
            changes[name] = [after]
    return changes


def _differing(old: msgspec.Struct, new: msgspec.Struct) -> dict[str, Any]:
    """The fields that differ, with their new values. Hot: one call reads all fields."""
    names, read = _fields(type(new))
    return {
        name: after
        for name, before, after in zip(names, read(old), read(new), strict=True)
        if before is not after and before != after
    }


def with_changes(old: KubeObject, changes: dict[str, msgspec.Raw]) -> KubeObject:
    """The object after the changes, which are JSON by field. A list of one item is a whole value."""
    values: dict[str, Any] = {}
    for name, written in _names(type(old)):
        if written in changes:
            values[name] = _changed(type(old), name, getattr(old, name), changes[written])
    new: KubeObject = msgspec.structs.replace(old, **values)
    return new


def _changed(struct: type[KubeObject], name: str, before: Any, written: msgspec.Raw) -> Any:
    """One field after its change."""
    if bytes(written).startswith(b"["):
        return _decoder(struct, name).decode(written)[0]
    inner = _RAW_FIELDS.decode(written)
    part: type[msgspec.Struct] = type(before)
    values = {
        field: _decoder(part, field).decode(b"[" + bytes(inner[encoded]) + b"]")[0]
        for field, encoded in _names(part)
        if encoded in inner
    }
    return msgspec.structs.replace(before, **values)


_RAW_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


@cache
def _fields(struct: type[msgspec.Struct]) -> tuple[tuple[str, ...], Callable[[Any], tuple[Any, ...]]]:
    """The names of the fields in JSON, and a function that reads all of them."""
    fields = struct.__struct_fields__
    read = attrgetter(*fields)
    return struct.__struct_encode_fields__, read if len(fields) > 1 else lambda item: (read(item),)


@cache
def _names(struct: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    """The fields of a struct: their names in Python and in JSON."""
    return tuple(zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True))


@cache
def _decoder(struct: type[msgspec.Struct], name: str) -> Any:
    """Reads a list with one value of the field."""
    kind = get_type_hints(struct)[name]
    return msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
