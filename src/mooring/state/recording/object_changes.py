"""What changed between two forms of an object, field by field, and the object with these changes.

Most updates change a few fields of a status: a heartbeat of a node, the node name of a pod. So only these are written.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any, get_type_hints

import msgspec
from msgspec.structs import astuple, replace

from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodSpec

Changes = dict[str, Any]
"""By field of the object: a value, or for a part that both forms have (metadata, spec, status) the values of its fields.
Names are those of JSON."""


def changes_between(old: KubeObject, new: KubeObject) -> Changes:
    """What must be set in `old` to make it `new`."""
    if isinstance(old, Pod) and isinstance(new, Pod):
        return _pod_changes(old, new)
    changes: Changes = {}
    for name, before, after in _differing(old, new):
        if isinstance(after, msgspec.Struct) and type(before) is type(after):
            changes[name] = _fields_between(before, after)
        else:
            changes[name] = [after]
    return changes


def _pod_changes(old: Pod, new: Pod) -> Changes:
    """Hot: most updates of a pod change its version, its node or its status, and a bind its labels (topology labels of the
    node). Whether all the rest is equal is one comparison of structs; to look at each field takes six times as long. A
    status is written as a whole, because that is quicker than to look for what changed in it, and most of it changes at
    once."""
    changes: Changes = {}
    before, after = old.metadata, new.metadata
    if before is not after:
        if replace(after, resource_version=before.resource_version, labels=before.labels) == before:
            changes["metadata"] = {"resourceVersion": after.resource_version}
            if before.labels != after.labels:
                changes["metadata"]["labels"] = after.labels
        else:
            changes["metadata"] = _fields_between(before, after)
    if old.spec is not new.spec:
        if is_same_but_for_node(old.spec, new.spec):
            changes["spec"] = {"nodeName": new.spec.node_name}
        else:
            changes["spec"] = _fields_between(old.spec, new.spec)
    if old.status is not new.status and old.status != new.status:
        changes["status"] = [new.status]
    return changes


def is_same_but_for_node(one: PodSpec, other: PodSpec) -> bool:
    """Whether two specs differ in their nodes at most."""
    return replace(other, node_name=one.node_name) == one


def _fields_between(old: msgspec.Struct, new: msgspec.Struct) -> dict[str, Any]:
    """The fields that differ, with their new values."""
    return {name: after for name, _, after in _differing(old, new)}


def _differing(old: msgspec.Struct, new: msgspec.Struct) -> Iterator[tuple[str, Any, Any]]:
    """The fields that differ: their names in JSON, and their values in both."""
    for pair in zip(new.__struct_encode_fields__, astuple(old), astuple(new), strict=True):
        if pair[1] is not pair[2] and pair[1] != pair[2]:
            yield pair


def with_changes(old: KubeObject, changes: dict[str, msgspec.Raw]) -> KubeObject:
    """The object after the changes, which are JSON by field. A list of one item is a whole value."""
    values: dict[str, Any] = {}
    for name, written in _names(type(old)):
        if written in changes:
            values[name] = _changed(type(old), name, getattr(old, name), changes[written])
    new: KubeObject = replace(old, **values)
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
    return replace(before, **values)


_RAW_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])


@cache
def _names(struct: type[msgspec.Struct]) -> tuple[tuple[str, str], ...]:
    """The fields of a struct: their names in Python and in JSON."""
    return tuple(zip(struct.__struct_fields__, struct.__struct_encode_fields__, strict=True))


@cache
def _decoder(struct: type[msgspec.Struct], name: str) -> Any:
    """Reads a list with one value of the field."""
    kind = get_type_hints(struct)[name]
    return msgspec.json.Decoder(list[kind])  # type: ignore[valid-type]
