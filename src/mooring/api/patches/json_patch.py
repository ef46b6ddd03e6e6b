"""JSON Patch (RFC 6902) and JSON Merge Patch (RFC 7386) as kube-apiserver applies them.

A JSON Patch is a list of operations, of which all apply or none. A merge patch is a document of the same form, in which
null removes. The document that comes in is not changed. For a JSON Patch, a container is copied before its first
change, and later changes go to that copy, so that a patch of many operations takes time for what it says, not for what
it is applied to. Only positions in lists cost more: to insert an item moves those behind it.
"""

import json
import re
from typing import Any

from mooring.api import api_errors as errors
from mooring.api.json_objects import JsonObject, check_depth

OPERATION_LIMIT = 10_000
"""As kube-apiserver."""
COPY_LIMIT_BYTES = 3 * 1024 * 1024
"""How much all copy operations of a patch may add, as kube-apiserver: without a limit a short patch grows a document
without bound."""

_DECODING = "error decoding patch: "
_INDEX = re.compile(r"[+-]?[0-9]{1,18}")
"""A position in a list; more digits than fit an int64 are none."""
_ABSENT = object()


class _Misfit(Exception):
    """An operation that does not fit the document. Parity: the answer does not say why, so the text is only for a log."""


def apply_json_patch(document: JsonObject, patch: object) -> JsonObject:
    """The document after all operations. Raises ApiError: 400 not a patch, 413 too long, 422 does not fit."""
    with errors.shallow_enough():
        return _apply(document, _operations(patch))


def equal(one: Any, other: Any) -> bool:
    """Equality of JSON data. Python's own takes true, 1 and 1.0 for the same."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return type(one) is type(other) and bool(one == other)


def _operations(patch: object) -> list[JsonObject]:
    """The lines of a patch, each of the right form. Parity: null is a patch without operations."""
    if patch is None:
        return []
    if not isinstance(patch, list):
        raise errors.undecodable(patch, "value of type []handlers.jsonPatchOp", _DECODING)
    if len(patch) > OPERATION_LIMIT:
        raise errors.request_entity_too_large(
            f"The allowed maximum operations in a JSON patch is {OPERATION_LIMIT}, got {len(patch)}"
        )
    return [_operation(line) for line in patch]


def _operation(line: object) -> JsonObject:
    """One line of the patch, with texts where there must be texts; whether it makes sense is found when it is applied."""
    if line is None:
        return {}
    if not isinstance(line, dict):
        raise errors.undecodable(line, "value of type handlers.jsonPatchOp", _DECODING)
    for name in ("op", "path", "from"):
        if not isinstance(line.get(name, ""), str | None):
            raise errors.undecodable(line[name], f"struct field jsonPatchOp.{name} of type string", _DECODING)
    return line


def _apply(document: JsonObject, operations: list[JsonObject]) -> JsonObject:
    """All operations on one document, then the checks that a single operation cannot make."""
    patched = _Patched(document)
    for operation in operations:
        try:
            patched.step(operation)
        except _Misfit as fault:
            raise errors.unprocessable() from fault
    check_depth(patched.document)  # operations can move a part into another again and again
    if not isinstance(patched.document, dict):
        shown = json.dumps(patched.document, separators=(",", ":"))
        raise errors.invalid("", "", [errors.field_invalid("patch", shown, "the patched document is not an object")])
    return patched.document


class _Patched:
    """A document on its way through the operations of a patch."""

    def __init__(self, document: JsonObject) -> None:
        self.document: Any = document
        self._own: dict[int, Any] = {}
        """Copies made here, by id: only those may be changed in place. While they are held, no other object gets their id."""
        self._copied_bytes = 0

    def step(self, operation: JsonObject) -> None:
        """One operation. Raises _Misfit."""
        match operation.get("op"):
            case "add":
                self._add(_pointer(operation), operation.get("value"))
            case "remove":
                _remove(*self._place(_pointer(operation)))
            case "replace":
                self._replace(_pointer(operation), operation.get("value"))
            case "move":
                origin = _pointer(operation, "from")
                moved = _value_at(self.document, origin)
                _remove(*self._place(origin))
                self._add(_pointer(operation), moved)
            case "copy":
                self._add(_pointer(operation), self._copy(_value_at(self.document, _pointer(operation, "from"))))
            case "test":
                self._test(operation)
            case unknown:
                raise _Misfit(f"Unexpected kind: {unknown or 'unknown'}")

    def _copy(self, value: Any) -> Any:
        """A value for a second place, down to the last container, because its first place may change in place."""
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        self._copied_bytes += len(text.encode(errors="replace"))
        if self._copied_bytes > COPY_LIMIT_BYTES:
            raise _Misfit(f"the copy operations add {self._copied_bytes} bytes, {COPY_LIMIT_BYTES} are allowed")
        return json.loads(text)

    def _add(self, pointer: list[str], value: Any) -> None:
        """Set a key, or insert into a list; `-` is behind its last item."""
        container, key = self._place(pointer)
        if isinstance(container, dict):
            container[key] = value
        else:
            container.insert(len(container) if key == "-" else _index(key, len(container) + 1), value)

    def _replace(self, pointer: list[str], value: Any) -> None:
        """Parity: a key that is absent from an object is replaced all the same; kube-apiserver leaves out empty fields,
        so that clients cannot know which are there."""
        if not pointer:
            if not isinstance(value, dict | list):
                raise _Misfit("replace operation value must be object or array")
            self.document = value
            return
        container, key = self._place(pointer)
        container[key if isinstance(container, dict) else _index(key, len(container))] = value

    def _test(self, operation: JsonObject) -> None:
        if not equal(_known_at(self.document, _pointer(operation)), operation.get("value")):
            raise _Misfit(f"testing value {operation.get('path')} failed")

    def _place(self, pointer: list[str]) -> tuple[Any, str]:
        """The container that a pointer leads into, and the key in it. All on the way to it is ours afterwards."""
        if not pointer:
            raise _Misfit("doc is missing path: ")
        container = self.document = self._owned(self.document)
        for key in pointer[:-1]:
            inner = _child(container, key)
            if not isinstance(inner, dict | list):
                raise _Misfit(f"doc is missing path: /{'/'.join(pointer)}")
            place = key if isinstance(container, dict) else _index(key, len(container))
            container[place] = container = self._owned(inner)
        return container, pointer[-1]

    def _owned(self, container: Any) -> Any:
        """A container that may be changed in place: itself if it is a copy already, else a copy."""
        if id(container) in self._own:
            return container
        fresh = container.copy()
        self._own[id(fresh)] = fresh
        return fresh


def _known_at(document: Any, pointer: list[str]) -> Any:
    """Parity: to a test, the last key may be absent from an object, which then counts as null."""
    if not pointer:
        return document
    container = _value_at(document, pointer[:-1])
    return container.get(pointer[-1]) if isinstance(container, dict) else _child(container, pointer[-1])


def _remove(container: Any, key: str) -> None:
    if isinstance(container, dict) and key not in container:
        raise _Misfit(f"Unable to remove nonexistent key: {key}")
    del container[key if isinstance(container, dict) else _index(key, len(container))]


# ---- pointers (RFC 6901)


def _pointer(operation: JsonObject, name: str = "path") -> list[str]:
    """The keys on the way, none for the document itself."""
    text = operation.get(name)
    if text is None:
        raise _Misfit(f"operation missing {name} field")
    if not text:
        return []
    if not text.startswith("/"):
        raise _Misfit(f"doc is missing path: {text}")
    return [key.replace("~1", "/").replace("~0", "~") for key in text[1:].split("/")]


def _value_at(document: Any, pointer: list[str]) -> Any:
    """The value that a pointer leads to. Raises _Misfit."""
    for key in pointer:
        document = _child(document, key)
    return document


def _child(container: Any, key: str) -> Any:
    """The value under one key or position. Raises _Misfit."""
    if isinstance(container, list):
        return container[_index(key, len(container))]
    found = container.get(key, _ABSENT) if isinstance(container, dict) else _ABSENT
    if found is _ABSENT:
        raise _Misfit(f"doc is missing key: {key}")
    return found


def _index(key: str, length: int) -> int:
    """Parity: negative positions count from the end."""
    if not _INDEX.fullmatch(key):
        raise _Misfit(f"value was not a proper array index: '{key}'")
    position = int(key)
    if not -length <= position < length:
        raise _Misfit(f"Unable to access invalid index: {position}")
    return position % length


# ---- JSON Merge Patch


def apply_merge_patch(document: JsonObject, patch: object) -> JsonObject:
    """The document with the patch merged in. Raises ApiError 400 if the patch is no object."""
    if patch is None:
        raise errors.bad_request("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise errors.undecodable(patch, "value of type map[string]interface {}", "error decoding patch: ")
    with errors.shallow_enough():
        return _merged(document, patch)


def _merged(target: object, patch: JsonObject) -> JsonObject:
    """A merge of two maps. Lists are replaced as a whole, and nulls inside them stay: there they are data."""
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merged(result.get(key), value) if isinstance(value, dict) else value
    return result
