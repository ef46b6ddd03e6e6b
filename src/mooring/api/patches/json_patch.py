"""JSON Patch (RFC 6902) as kube-apiserver applies it: a list of operations, of which all apply or none.

Nothing is changed in place: the result is a new document that shares what the operations did not touch.
"""

import json
import re
from collections.abc import Callable
from typing import Any

from mooring.api.errors import (
    ApiError,
    field_invalid,
    invalid,
    request_entity_too_large,
    shallow_enough,
    undecodable,
    unprocessable,
)

OPERATION_LIMIT = 10_000
COPY_LIMIT_BYTES = 3 * 1024 * 1024
"""How much all copy operations of a patch may add; without it a short patch grows a document beyond all bounds."""

_DECODING = "error decoding patch: "
_INDEX = re.compile(r"[+-]?[0-9]{1,18}")
_ABSENT = object()

Edit = Callable[[Any, str], Any]
"""From a container and the key in it to the container that takes its place."""


class _Misfit(Exception):
    """An operation that does not fit the document. The text is for our own log: clients are not told."""


def apply_json_patch(document: dict[str, Any], patch: object) -> dict[str, Any]:
    """The document after all operations. Raises ApiError: 400 not a patch, 413 too long, 422 does not fit."""
    with shallow_enough():
        return _apply(document, _operations(patch))


def equal(one: Any, other: Any) -> bool:
    """Equality of JSON data. Python's own takes true, 1 and 1.0 for the same."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(value, other[key]) for key, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return type(one) is type(other) and bool(one == other)


def _operations(patch: object) -> list[dict[str, Any]]:
    if patch is None:
        return []
    if not isinstance(patch, list):
        raise undecodable(patch, "value of type []handlers.jsonPatchOp", _DECODING)
    if len(patch) > OPERATION_LIMIT:
        raise request_entity_too_large(
            f"The allowed maximum operations in a JSON patch is {OPERATION_LIMIT}, got {len(patch)}"
        )
    return [_operation(line) for line in patch]


def _operation(line: object) -> dict[str, Any]:
    """One line of the patch, with texts where there must be texts; whether it makes sense is found when it is applied."""
    if line is None:
        return {}
    if not isinstance(line, dict):
        raise undecodable(line, "value of type handlers.jsonPatchOp", _DECODING)
    for name in ("op", "path", "from"):
        if not isinstance(line.get(name, ""), str | None):
            raise undecodable(line[name], f"struct field jsonPatchOp.{name} of type string", _DECODING)
    return line


def _apply(document: dict[str, Any], operations: list[dict[str, Any]]) -> dict[str, Any]:
    current: Any = document
    copied_bytes = 0
    for operation in operations:
        try:
            if operation.get("op") == "copy":
                copied_bytes += _size_bytes(_value_at(current, _pointer(operation, "from")))
                _check_copied(copied_bytes)
            current = _step(current, operation)
        except _Misfit as fault:
            raise unprocessable() from fault
    if not isinstance(current, dict):
        raise _not_an_object(current)
    return current


def _not_an_object(result: object) -> ApiError:
    shown = json.dumps(result, separators=(",", ":"))
    return invalid("", "", [field_invalid("patch", shown, "the patched document is not an object")])


def _check_copied(copied_bytes: int) -> None:
    if copied_bytes > COPY_LIMIT_BYTES:
        raise _Misfit(f"the copy operations add {copied_bytes} bytes, {COPY_LIMIT_BYTES} are allowed")


def _size_bytes(value: object) -> int:
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(errors="replace"))


def _step(document: Any, operation: dict[str, Any]) -> Any:
    value = operation.get("value")
    match operation.get("op"):
        case "add":
            return _rewritten(document, _pointer(operation), _adding(value))
        case "remove":
            return _rewritten(document, _pointer(operation), _removed)
        case "replace":
            return _replaced(document, _pointer(operation), value)
        case "move":
            origin = _pointer(operation, "from")
            moved = _value_at(document, origin)
            return _rewritten(_rewritten(document, origin, _removed), _pointer(operation), _adding(moved))
        case "copy":
            return _rewritten(document, _pointer(operation), _adding(_value_at(document, _pointer(operation, "from"))))
        case "test":
            return _tested(document, operation)
        case unknown:
            raise _Misfit(f"Unexpected kind: {unknown or 'unknown'}")


def _replaced(document: Any, pointer: list[str], value: Any) -> Any:
    """Parity: a key that is absent from an object is replaced all the same; kube-apiserver leaves out empty fields,
    so that clients cannot know which are there."""
    if pointer:
        return _rewritten(document, pointer, _setting(value))
    if not isinstance(value, dict | list):
        raise _Misfit("replace operation value must be object or array")
    return value


def _tested(document: Any, operation: dict[str, Any]) -> Any:
    if not equal(_known_at(document, _pointer(operation)), operation.get("value")):
        raise _Misfit(f"testing value {operation.get('path')} failed")
    return document


def _known_at(document: Any, pointer: list[str]) -> Any:
    """Parity: to a test, the last key may be absent from an object, which then counts as null."""
    if not pointer:
        return document
    container = _value_at(document, pointer[:-1])
    return container.get(pointer[-1]) if isinstance(container, dict) else _child(container, pointer[-1])


# Pointers (RFC 6901)


def _pointer(operation: dict[str, Any], name: str = "path") -> list[str]:
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
    for key in pointer:
        document = _child(document, key)
    return document


def _child(container: Any, key: str) -> Any:
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


# Edits


def _rewritten(document: Any, pointer: list[str], edit: Edit) -> Any:
    """The document with one container edited: that one and those around it are copied, all others are shared."""
    if not pointer:
        raise _Misfit("doc is missing path: ")
    around = [document]
    for key in pointer[:-1]:
        around.append(_child(around[-1], key))
    if not isinstance(around[-1], dict | list):
        raise _Misfit(f"doc is missing path: /{'/'.join(pointer)}")
    for key in reversed(pointer):
        fresh = edit(around.pop(), key)
        edit = _setting(fresh)
    return fresh


def _setting(value: Any) -> Edit:
    def edit(container: Any, key: str) -> Any:
        if isinstance(container, dict):
            return container | {key: value}
        position = _index(key, len(container))
        return [*container[:position], value, *container[position + 1 :]]

    return edit


def _adding(value: Any) -> Edit:
    def edit(container: Any, key: str) -> Any:
        if isinstance(container, dict):
            return container | {key: value}
        position = len(container) if key == "-" else _index(key, len(container) + 1)
        return [*container[:position], value, *container[position:]]

    return edit


def _removed(container: Any, key: str) -> Any:
    if isinstance(container, dict):
        if key not in container:
            raise _Misfit(f"Unable to remove nonexistent key: {key}")
        return {name: value for name, value in container.items() if name != key}
    position = _index(key, len(container))
    return [*container[:position], *container[position + 1 :]]
