"""Objects as plain JSON, as the API server stores them, with the fields that no scheduler reads; and media types.

Typed structs (`model/meta.py`) drop unknown fields, so everything that writes an object back works on this form.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from mooring.api.api_errors import bad_request, object_too_large

JsonObject = dict[str, Any]


def value_at(item: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path as it is written; None where any part of the path is missing."""
    found: Any = item
    for name in path.split("."):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found


def at(item: Mapping[str, Any], path: str, otherwise: Any = None) -> Any:
    """The value at a dotted path; `otherwise` where it is missing, null or an empty text, which Go does not tell apart."""
    found = value_at(item, path)
    return otherwise if found is None or found == "" else found


def metadata_of(item: JsonObject) -> JsonObject:
    """The metadata, empty if it is not of the right form: some objects are read before they are validated."""
    metadata = item.get("metadata")
    return metadata if isinstance(metadata, dict) else {}


def fill(target: JsonObject, defaults: Mapping[str, Any]) -> None:
    """Set the fields that are missing. An empty text counts as missing, as it does in upstream's defaulting."""
    for key, value in defaults.items():
        if target.get(key) in (None, ""):
            target[key] = value


# ---- media types


JSON, YAML = "application/json", "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
OFFERED = (JSON, YAML)
"""The types that the embedded server writes. It reads protobuf too, but clients that prefer it also accept JSON."""

APPLY_PATCH = "application/apply-patch+yaml"
JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"
PATCHES = (JSON_PATCH, MERGE_PATCH, STRATEGIC_MERGE_PATCH, APPLY_PATCH)
"""The patches that the API server accepts, in the order in which its error message lists them."""


def media_type(content_type: str) -> str:
    """The type without its parameters: `application/json; charset=utf-8` is JSON."""
    return content_type.partition(";")[0].strip().lower()


# ---- How large and how deeply nested an object may be.
#
# The size is the one that etcd would see, because clients rely on its limit; the depth is a limit of ours, the one
# check that lets all code behind it recurse.


_encode = msgspec.json.Encoder().encode

# ---- size

MAX_OBJECT_BYTES = 1536 * 1024
"""Parity: what etcd takes by default."""
_TAG_BYTES = 2
"""A field's number and the length of what follows, as a rule."""
_NUMBER_BYTES = 3
"""A varint of up to 21 bits; larger numbers are rare enough for an estimate."""
_LONGEST_FIELD_NAME = 64
"""No field of a Kubernetes type has a longer name, so a longer key is data."""
_AS_JSON = "fieldsV1"
"""Stored as the text that it is in JSON."""


def check_size(item: JsonObject) -> int:
    """Refuse an object that the store will refuse, before more work is done for it. Returns its size. Raises ApiError 500."""
    size = size_of(item)
    if size > MAX_OBJECT_BYTES:
        raise object_too_large()
    return size


def size_of(value: Any, body: bytes = b"") -> int:
    """How much room a value takes in etcd, at most; `body` is its JSON, if the caller has it.

    Hot: a value takes less there than in JSON, so most need no estimate.
    """
    written_bytes = len(body or _encode(value))
    return written_bytes if written_bytes <= MAX_OBJECT_BYTES else stored_bytes(value)


def stored_bytes(value: Any) -> int:
    """The size in etcd, which stores most kinds as protobuf: names of fields are numbers there.

    It is an estimate without the table of fields: what looks like the name of a field counts as its number.

    | value                         | bytes |
    | {"image": "nginx"}            | 7     |
    | {"example.com/role": "web"}   | 21    |
    """
    match value:
        case dict():
            return sum(_entry_bytes(key, part) for key, part in value.items())
        case list():
            return sum(_TAG_BYTES + stored_bytes(part) for part in value)
        case str():
            return len(value.encode(errors="surrogatepass"))
        case None:
            return 0
    return _NUMBER_BYTES


def _entry_bytes(key: str, part: Any) -> int:
    if key == _AS_JSON:
        return _TAG_BYTES + len(_encode(part))
    is_field = len(key) <= _LONGEST_FIELD_NAME and key.isidentifier()
    if isinstance(part, list):  # each item has the tag
        return stored_bytes(part)
    return _TAG_BYTES + (0 if is_field else len(key)) + stored_bytes(part)


# ---- depth

MAX_DEPTH = 200
"""Python gives up at 1000 frames, and code that walks objects here takes up to four for each level. No kind that
Kubernetes has is nested more than some thirty levels deep; Go's decoder gives up at 10,000."""


def check_depth(value: Any) -> None:
    """Raises ApiError 400 for data that is nested too deeply. Goes level by level, so that it cannot recurse itself."""
    level = [value] if type(value) in (dict, list) else []
    for _ in range(MAX_DEPTH):
        inner = (part for outer in level for part in (outer.values() if type(outer) is dict else outer))
        level = [part for part in inner if type(part) is dict or type(part) is list]
        if not level:
            return
    raise bad_request("exceeded max depth")


def check_body_depth(value: Any, body: bytes) -> None:
    """`check_depth` for data that was decoded from `body`. Hot: few bodies have as many brackets as would be needed."""
    if body.count(b"{") + body.count(b"[") > MAX_DEPTH:
        check_depth(value)
