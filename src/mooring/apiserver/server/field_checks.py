"""`fieldValidation`: what a client is told of fields that the kind does not have. They are never stored."""

import re

from mooring.apiserver.patches.merge_keys import compact
from mooring.apiserver.schema.fields import type_of
from mooring.apiserver.schema.pruning import pruned
from mooring.apiserver.schema.strict import (
    apply_error,
    check_declared,
    duplicates,
    faults_in_body,
    is_known,
    json_patch_faults,
    patch_error,
    strict_error,
    unknown_fields,
    warning_headers,
    yaml_duplicates,
)
from mooring.apiserver.schema.typed_values import check_typed
from mooring.apiserver.server.media import PROTOBUF, YAML
from mooring.apiserver.server.request import Request
from mooring.model.api_errors import bad_request
from mooring.model.decode import decode
from mooring.model.json_objects import JSON_PATCH, STRATEGIC_MERGE_PATCH, JsonObject, media_type
from mooring.model.kind_spec import KindSpec
from mooring.model.validation.validate import amount_warnings

_CHOICES = ("Strict", "Warn", "Ignore")
_BYTES_AS_TEXT = re.compile(rb'(?:memory|ephemeral-storage)"?\s*:\s*"?[0-9.]+[num.]')
"""Hot: hardly any body has such an amount, and to search for it takes microseconds."""
Headers = list[tuple[str, str]]


def check_body(request: Request, resource: KindSpec, item: JsonObject) -> tuple[JsonObject, Headers]:
    """The object of a body without unknown fields, and the warnings about them. Raises 400 where the client is strict."""
    policy, media = _policy(request), media_type(request.content_type)
    _check_types(resource, item)
    if policy == "Ignore" or media == PROTOBUF:  # numbers that nobody knows are skipped already
        return _known(resource, item), []
    if media == YAML:
        lines, faults = yaml_duplicates(request.body), sorted(unknown_fields(resource, item))
    else:
        lines, faults = [], faults_in_body(resource, request.body, item)
    if policy == "Strict" and (lines or faults):
        raise strict_error(resource, faults, lines)
    return _known(resource, item), _warnings([*lines, *faults, *_odd_amounts(request, resource, item)])


def check_patched(
    request: Request, resource: KindSpec, patched: JsonObject, shown: object
) -> tuple[JsonObject, Headers]:
    """The same for an object after a patch; `shown` is what a refusal quotes."""
    policy, media = _policy(request), media_type(request.content_type)
    _check_types(resource, patched)
    if policy == "Ignore":
        return _known(resource, patched), []
    twice = json_patch_faults(request.body) if media == JSON_PATCH else duplicates(request.body)
    faults = [*twice, *sorted(unknown_fields(resource, patched))]
    if policy == "Strict" and faults:
        raise patch_error(compact(shown), faults)
    return _known(resource, patched), _warnings(faults)


def check_applied(request: Request, resource: KindSpec, configuration: JsonObject) -> Headers:
    """Server-side apply takes no unknown fields, whatever was asked for."""
    policy = _policy(request)
    _check_types(resource, configuration)
    check_declared(resource, configuration)
    lines = [] if policy == "Ignore" else yaml_duplicates(request.body)
    if lines and policy == "Strict":
        raise apply_error(lines)
    return _warnings(lines)


def quotes_patch(content_type: str) -> bool:
    """Whether a refusal quotes the patch, not what it leads to."""
    return media_type(content_type) == STRATEGIC_MERGE_PATCH


def says_kind(resource: KindSpec, item: JsonObject) -> bool:
    """Whether a body says of itself that it is of this kind, or says nothing. Raises 400 where it says it in no words."""
    said: JsonObject = {key: item[key] for key in ("apiVersion", "kind") if key in item}
    _check_types(resource, said)
    kind: str = said.get("kind", resource.kind)
    return kind == resource.kind


def _check_types(resource: KindSpec, item: JsonObject) -> None:
    check_typed(type_of(resource), item, resource.kind, resource.version)


def _policy(request: Request) -> str:
    policy = request.query.get("fieldValidation") or "Warn"
    if policy not in _CHOICES:
        raise bad_request(f"fieldValidation: must be one of {', '.join(_CHOICES)}, not {policy!r}")
    return policy


def _known(resource: KindSpec, item: JsonObject) -> JsonObject:
    return item if is_known(resource, item) else pruned(resource, item)


def _odd_amounts(request: Request, resource: KindSpec, item: JsonObject) -> list[str]:
    """`memory: 512m` is half a byte: a kube-apiserver accepts it with a warning."""
    if not _BYTES_AS_TEXT.search(request.body):
        return []
    typed, _ = decode(resource.kind, item)
    return [] if typed is None else [str(warning) for warning in amount_warnings(typed)]


def _warnings(faults: list[str]) -> Headers:
    return [("Warning", header) for header in warning_headers(faults)]
