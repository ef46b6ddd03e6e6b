"""From the bytes of a request to data. What cannot be read is refused in kube-apiserver's words."""

import json
from typing import Any

import msgspec

from mooring.apiserver.nesting import check_body_depth
from mooring.apiserver.server.media import JSON, OFFERED, PROTOBUF, YAML
from mooring.apiserver.server.protobuf import read_protobuf
from mooring.apiserver.server.yaml_limits import LIMITS
from mooring.kit.yaml_reader import TooDeep, TooManyAliases, YamlFault, keep_last, read_document
from mooring.model.api_errors import ApiError, bad_request, unsupported_media_type
from mooring.model.json_objects import JsonObject
from mooring.model.media_types import media_type

MAX_BODY_BYTES = 3 * 1024 * 1024
"""As kube-apiserver."""

_UNREADABLE = (msgspec.DecodeError, RecursionError, UnicodeDecodeError)
_SHOWN_BYTES = 30


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
    try:
        return decode_json(body)
    except _UNREADABLE:
        raise _unrecognized(kind, f"couldn't get version/kind; json parse error: {_json_fault(body)}", body) from None


def read_json(body: bytes) -> Any:
    """JSON of which nobody knows what kind it should be, such as a patch."""
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
