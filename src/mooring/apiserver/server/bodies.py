"""From the bytes of a request to data: JSON, YAML and protobuf. What cannot be read is refused in kube-apiserver's
words.

A body is decoded once; its depth is checked with it, so that all code behind can recurse. YAML is checked before it is
read, because its parser crashes on deep nesting and a small document may stand for an endless one.
"""

import json
from typing import Any

import msgspec

from mooring.api.api_errors import ApiError, bad_request, request_entity_too_large, unsupported_media_type
from mooring.api.json_objects import APPLY_PATCH, JsonObject, media_type
from mooring.api.limits import MAX_DEPTH, check_body_depth
from mooring.api.schema.protobuf import MalformedError, UnknownKindError, decode
from mooring.apiserver.server.forms import JSON, OFFERED, PROTOBUF, YAML
from mooring.apiserver.server.request import Request
from mooring.kit.yaml_reader import TooDeep, TooManyAliases, YamlFault, YamlLimits, keep_last, read_document

MAX_BODY_BYTES = 3 * 1024 * 1024
"""As kube-apiserver."""

_UNREADABLE = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
_SHOWN_BYTES = 30
"""How much of a body a refusal quotes."""


def read_object(body: bytes, content_type: str, kind: str) -> JsonObject:
    """The object in a body that should hold one of this kind."""
    media = media_type(content_type) or JSON
    if media == PROTOBUF:
        item = read_protobuf(body, kind)
        check_body_depth(item, body)
        return item
    if media not in OFFERED:
        raise unsupported_media_type((*OFFERED, PROTOBUF))
    data = read_yaml(body) if media == YAML else _read_json(body, kind)
    if not isinstance(data, dict):
        raise _unrecognized(kind, "couldn't get version/kind; json parse error: an object is needed", body)
    return data


def decode_json(body: bytes) -> Any:
    """Raises ApiError 400 for what is nested too deeply, and one of _UNREADABLE for what is no JSON."""
    data = msgspec.json.decode(body)
    check_body_depth(data, body)
    return data


def _read_json(body: bytes, kind: str) -> Any:
    """JSON that should hold an object of this kind."""
    try:
        return decode_json(body)
    except _UNREADABLE:
        raise _unrecognized(kind, f"couldn't get version/kind; json parse error: {_json_fault(body)}", body) from None


def read_json(body: bytes) -> Any:
    """JSON that may hold anything, such as a patch."""
    try:
        return decode_json(body)
    except _UNREADABLE:
        raise bad_request(f"error decoding patch: {_json_fault(body)}") from None


def read_yaml(body: bytes) -> Any:
    """One YAML document, as data that JSON can express. JSON is YAML too, and quicker read as what it is."""
    try:
        return decode_json(body)
    except _UNREADABLE:
        pass
    try:
        data = read_document(body, keep_last, LIMITS)
        return msgspec.json.decode(msgspec.json.encode(data))  # so that no two places share what an alias stands for
    except (ValueError, TypeError, RecursionError) as fault:
        raise bad_request(f"error converting YAML to JSON: yaml: {_yaml_fault(fault)}") from None


def _unrecognized(kind: str, why: str, body: bytes) -> ApiError:
    """The refusal of a body that is no object of this kind, with the beginning of the body."""
    shown = body[:_SHOWN_BYTES].decode(errors="replace") + (" ..." if len(body) > _SHOWN_BYTES else "")
    return bad_request(f"the object provided is unrecognized (must be of type {kind}): {why} ({shown})")


def _json_fault(body: bytes) -> str:
    """What is wrong with JSON, in the words of Go's decoder."""
    try:
        text = body.decode()
        json.loads(text)
    except UnicodeDecodeError:
        return "invalid UTF-8 in string"
    except RecursionError:
        return "exceeded max depth"
    except json.JSONDecodeError as fault:
        if fault.pos >= len(text.rstrip()) or fault.msg.startswith("Unterminated"):
            return "unexpected end of JSON input"
        wanted = "object key string" if "property name" in fault.msg else "value"
        return f"invalid character {text[fault.pos]!r} looking for beginning of {wanted}"
    except ValueError:
        pass  # Python reads no number of more than 4,300 digits
    return "the number cannot be represented"


def _yaml_fault(fault: Exception) -> str:
    if isinstance(fault, TooDeep):
        return "exceeded max depth"
    if isinstance(fault, TooManyAliases):
        return "document contains excessive aliasing"
    said = fault.error if isinstance(fault, YamlFault) and fault.error is not None else fault
    return " ".join(str(said).split())


# ---- limits of YAML


MAX_YAML_BYTES = 256 * 1024
"""Reading YAML takes some 5 µs a byte, and the server answers no other client meanwhile. kubectl sends JSON, whatever
it read."""
MAX_WEIGHT = MAX_YAML_BYTES
"""How many values a document may stand for once its aliases are written out: more than any has without them."""
LIMITS = YamlLimits(MAX_DEPTH - 1, MAX_WEIGHT)


def check_yaml(request: Request) -> None:
    """Refuse YAML that is too large. The reader refuses what is too deep, or too much once its aliases are written out."""
    if media_type(request.content_type) not in (YAML, APPLY_PATCH) or _is_json(request.body):
        return
    if len(request.body) > MAX_YAML_BYTES:
        raise request_entity_too_large(f"limit is {MAX_YAML_BYTES} for YAML; JSON may be larger")


def _is_json(body: bytes) -> bool:
    """Most of what is sent as YAML is JSON, whose reader has limits of its own."""
    try:
        msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return False
    return True


# ---- protobuf


def read_protobuf(body: bytes, kind: str) -> JsonObject:
    """The object in a body that should hold one of this kind."""
    try:
        return decode(body)
    except MalformedError:
        raise _unreadable_protobuf(body, kind) from None
    except UnknownKindError as fault:
        what = f'{fault.kind} in version "{fault.version}"'
        raise bad_request(f"{what} cannot be handled as a {kind}: {fault}") from None


def _unreadable_protobuf(body: bytes, kind: str) -> ApiError:
    shown = body[:_SHOWN_BYTES].hex() + (" ..." if len(body) > _SHOWN_BYTES else "")
    return bad_request(f"the object provided is unrecognized (must be of type {kind}): unexpected EOF ({shown})")
