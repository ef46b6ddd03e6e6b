"""A request and its answer, whatever carries them, and what the path of a request means."""

import json
import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from mooring.api import api_errors as errors
from mooring.api.json_objects import (
    APPLY_PATCH,
    JSON,
    MAX_DEPTH,
    OFFERED,
    PROTOBUF,
    YAML,
    JsonObject,
    check_body_depth,
    media_type,
)
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds.nodes import NAMESPACE
from mooring.api.schema.protobuf import MalformedError, UnknownKindError, decode
from mooring.api.schema.typed_values import check_typed
from mooring.apiserver.admission.object_meta import Deletion, Propagation
from mooring.apiserver.resource_api import KindTable, Requester
from mooring.kit.yaml_reader import TooDeep, TooManyAliases, YamlFault, YamlLimits, keep_last, read_document

_TRUE = {"true", "1", "True", "TRUE", "t", "T", ""}
"""The texts that Go reads as true; an empty value is one that was named without `=`."""
_FALSE = {"false", "0", "False", "FALSE", "f", "F"}
"""The texts that Go reads as false."""
_WHOLE = re.compile(r"[+-]?[0-9]{1,18}")
"""Numbers that fit 64 bits, in ASCII: int() accepts more."""


@dataclass(frozen=True, slots=True)
class Request:
    """`path` is unquoted; of a query parameter that is given several times the first counts."""

    method: str
    path: str
    query: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    content_type: str = ""
    accept: str = ""
    user_agent: str = ""
    bearer: str = ""
    """The token that the client sent, if any."""

    def flag(self, name: str) -> bool:
        """A parameter that is true or false; false where it is missing. Raises 400."""
        text = self.query.get(name, "false")
        if text in _TRUE or text in _FALSE:
            return text in _TRUE
        raise errors.bad_request(f"{name}: {text!r} is neither true nor false")

    def number(self, name: str) -> int | None:
        """A parameter that is a whole number; None where it is missing. Raises 400."""
        text = self.query.get(name, "")
        if not text:
            return None
        if not _WHOLE.fullmatch(text):
            raise errors.bad_request(f"{name}: {text!r} is not a whole number")
        return int(text)


@dataclass(slots=True)
class Answer:
    """`body` is turned into JSON unless it is text or bytes already."""

    code: int
    body: Any
    content_type: str = "application/json"
    headers: list[tuple[str, str]] = field(default_factory=list)


def refusal(error: errors.ApiError) -> Answer:
    """An error as an answer: a Status."""
    headers = [("Retry-After", str(error.retry_after_s))] if error.retry_after_s else []
    return Answer(error.code, error.status(), headers=headers)


# ---- paths


@dataclass(frozen=True, slots=True)
class Target:
    """The meaning of a path: a collection, an object, or a part of one. An empty name stands for the collection, an empty
    namespace for all of them."""

    resource: KindSpec
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def target_of(path: str, kinds: KindTable) -> Target | None:
    """The target of a path; None: no resource is there.

    | /api/v1/nodes/n1                               | a node         |
    | /api/v1/namespaces/default                     | a namespace    |
    | /api/v1/namespaces/default/pods                | the pods in it |
    | /apis/apps/v1/namespaces/a/deployments/b/scale | a part         |
    """
    match path.strip("/").split("/"):
        case ["api", version, *rest]:
            return _target(("", version), rest, kinds)
        case ["apis", group, version, *rest]:
            return _target((group, version), rest, kinds)
    return None


def _target(within: tuple[str, str], parts: list[str], kinds: KindTable) -> Target | None:
    """The part of a path behind group and version, which are `within`."""
    if not all(parts):
        return None  # or `namespaces//pods`, with a name forgotten, would be the pods of all namespaces
    namespace = ""
    is_within = parts[:1] == ["namespaces"] and len(parts) > 2
    if is_within and not (within[0] == "" and parts[2] in NAMESPACE.subresources):
        namespace, parts = parts[1], parts[2:]
    if not 1 <= len(parts) <= 3:
        return None
    plural, name, subresource = (*parts, "", "")[:3]
    resource = kinds.find(*within, plural)
    if resource is None or (namespace and not resource.namespaced):
        return None
    if name and resource.namespaced and not namespace:
        return None
    if subresource and subresource not in resource.subresources:
        return None
    return Target(resource, namespace, name, subresource)


# ---- bodies: JSON, YAML and protobuf. A body that cannot be read is refused in kube-apiserver's words
#
# A body is decoded once; its depth is checked with it, so that all code behind can recurse. YAML is checked before it
# is read, because its parser crashes on deep nesting and a small document may stand for an endless one.


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
        raise errors.unsupported_media_type((*OFFERED, PROTOBUF))
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
        raise errors.bad_request(f"error decoding patch: {_json_fault(body)}") from None


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
        raise errors.bad_request(f"error converting YAML to JSON: yaml: {_yaml_fault(fault)}") from None


def _unrecognized(kind: str, why: str, body: bytes) -> errors.ApiError:
    """The refusal of a body that is no object of this kind, with the beginning of the body."""
    shown = body[:_SHOWN_BYTES].decode(errors="replace") + (" ..." if len(body) > _SHOWN_BYTES else "")
    return errors.bad_request(f"the object provided is unrecognized (must be of type {kind}): {why} ({shown})")


def _json_fault(body: bytes) -> str:
    """The fault of JSON text, in the words of Go's decoder."""
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
        raise errors.request_entity_too_large(f"limit is {MAX_YAML_BYTES} for YAML; JSON may be larger")


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
        raise errors.bad_request(f"{what} cannot be handled as a {kind}: {fault}") from None


def _unreadable_protobuf(body: bytes, kind: str) -> errors.ApiError:
    shown = body[:_SHOWN_BYTES].hex() + (" ..." if len(body) > _SHOWN_BYTES else "")
    return errors.bad_request(f"the object provided is unrecognized (must be of type {kind}): unexpected EOF ({shown})")


# ---- options: dry run, field manager, and how to delete


_MANAGER_CHARS = 128
"""As kube-apiserver."""
_UNKNOWN_MANAGER = "unknown"
"""For a client that sends no user agent either."""
_PROPAGATIONS: tuple[Propagation, ...] = ("Background", "Foreground", "Orphan")


def by_whom(request: Request, kind: str = "PatchOptions", is_named: bool = False) -> Requester:
    """The writer that a request is from. `is_named`: it must give its name, its user agent does not count."""
    dry_run = request.query.get("dryRun", "")
    _check_dry_run(kind, dry_run)
    manager = request.query.get("fieldManager", "")
    if len(manager) > _MANAGER_CHARS or not manager.isprintable():
        why = f"may not be more than {_MANAGER_CHARS} printable characters"
        raise errors.invalid(kind, "", [errors.field_invalid("fieldManager", manager, why)], "meta.k8s.io")
    if not manager and not is_named:
        manager = request.user_agent.partition("/")[0][:_MANAGER_CHARS] or _UNKNOWN_MANAGER
    return Requester(manager, dry_run == "All", is_client=True)


def check_not_forced(request: Request) -> None:
    """Raises 422: only server-side apply can take fields from other managers."""
    if "force" in request.query:
        fault = errors.field_forbidden("force", "may not be specified for non-apply patch")
        raise errors.invalid("PatchOptions", "", [fault], "meta.k8s.io")


def _check_dry_run(kind: str, *asked: str) -> None:
    """Raises 422 for anything but `All`."""
    for text in asked:
        if text not in ("", "All"):
            raise errors.invalid(kind, "", [errors.field_unsupported("dryRun", text, ("All",))], "meta.k8s.io")


class Preconditions(msgspec.Struct, rename="camel"):
    """Which object a deletion means."""

    uid: str | None = None
    resource_version: str | None = None


class DeleteOptions(msgspec.Struct, rename="camel"):
    """The body of a DELETE, or what an eviction carries along."""

    grace_period_seconds: int | None = None
    propagation_policy: str | None = None
    orphan_dependents: bool | None = None
    preconditions: Preconditions | None = None
    dry_run: list[str] | None = None


def deletion(request: Request) -> tuple[Deletion, Requester]:
    """The options of a deletion from the body if there is one, else from the query, and who deletes."""
    body = read_object(request.body, request.content_type, "DeleteOptions") if request.body.strip() else {}
    options = delete_options(body)
    if not body:
        options.grace_period_seconds = request.number("gracePeriodSeconds")
        options.propagation_policy = request.query.get("propagationPolicy", "")
        if "orphanDependents" in request.query:
            options.orphan_dependents = request.flag("orphanDependents")
    is_dry_run = by_whom(request, "DeleteOptions").is_dry_run or "All" in (options.dry_run or ())
    return how_to_delete(options), Requester(is_dry_run=is_dry_run)


def delete_options(body: JsonObject) -> DeleteOptions:
    """The options in a body. Raises 400, 422."""
    check_typed("meta.DeleteOptions", body, "DeleteOptions", "v1")
    options = msgspec.convert(body, DeleteOptions)
    _check_dry_run("DeleteOptions", *(options.dry_run or ()))
    return options


def how_to_delete(options: DeleteOptions) -> Deletion:
    """The options in the words of admission."""
    expected = options.preconditions or Preconditions()
    return Deletion(
        options.grace_period_seconds, _propagation(options), expected.uid or "", expected.resource_version or ""
    )


def _propagation(options: DeleteOptions) -> Propagation | None:
    """The fate of dependents; None: the default of the kind. `orphanDependents` is its older form. Raises 422."""
    text = options.propagation_policy or ""
    if options.orphan_dependents is not None:
        if text:
            both = "orphanDependents and deletionPropagation cannot be both set"
            raise errors.invalid(
                "DeleteOptions", "", [errors.field_invalid("propagationPolicy", text, both)], "meta.k8s.io"
            )
        return "Orphan" if options.orphan_dependents else "Background"
    if not text:
        return None
    for known in _PROPAGATIONS:
        if known == text:
            return known
    fault = errors.field_unsupported("propagationPolicy", text, ("Foreground", "Background", "Orphan", "nil"))
    raise errors.invalid("DeleteOptions", "", [fault], "meta.k8s.io")
