"""`fieldValidation`: what the server says of fields that the kind does not have. The server never stores them."""

import re

from mooring.api.api_errors import bad_request
from mooring.api.decode import decode
from mooring.api.json_objects import JSON_PATCH, STRATEGIC_MERGE_PATCH, JsonObject, media_type
from mooring.api.kind_spec import KindSpec
from mooring.api.patches.merge_keys import compact
from mooring.api.schema.fields import ANYTHING, pruned, type_of
from mooring.api.schema.strict import (
    apply_error,
    duplicates,
    faults_in_body,
    has_repeats,
    is_known,
    json_patch_faults,
    patch_error,
    strict_error,
    undeclared,
    unknown_fields,
    warning_headers,
    yaml_duplicates,
)
from mooring.api.schema.typed_values import check_typed, conforms
from mooring.api.validate import amount_warnings
from mooring.apiserver.server.forms import PROTOBUF, YAML
from mooring.apiserver.server.request import Request

_CHOICES = ("Strict", "Warn", "Ignore")
"""What a client may ask for: an error, warnings (the default), or neither."""
_BYTES_AS_TEXT = re.compile(rb'(?:memory|ephemeral-storage)"?\s*:\s*"?[0-9.]+[num.]')
"""Hot: hardly any body has such an amount, and to search for it takes microseconds."""
Headers = list[tuple[str, str]]
"""Headers of an answer, as (name, value)."""


def check_body(request: Request, resource: KindSpec, item: JsonObject) -> tuple[JsonObject, Headers]:
    """The object of a body without unknown fields, and the warnings about them. Raises 400 where the client is strict."""
    policy, media = _policy(request), media_type(request.content_type)
    known = _checked(resource, item)
    if policy == "Ignore" or media == PROTOBUF:  # the decoder has skipped unknown numbers already
        return known, []
    if media == YAML:
        lines, faults = yaml_duplicates(request.body), [] if known is item else sorted(unknown_fields(resource, item))
    elif known is item and not has_repeats(request.body, item):
        lines, faults = [], []
    else:
        lines, faults = [], faults_in_body(resource, request.body)
    if policy == "Strict" and (lines or faults):
        raise strict_error(resource, faults, lines)
    return known, _warnings([*lines, *faults, *_odd_amounts(request, resource, item)])


def check_patched(
    request: Request, resource: KindSpec, patched: JsonObject, shown: object
) -> tuple[JsonObject, Headers]:
    """The same for an object after a patch; `shown` is what a refusal quotes."""
    policy, media = _policy(request), media_type(request.content_type)
    known = _checked(resource, patched)
    if policy == "Ignore":
        return known, []
    twice = json_patch_faults(request.body) if media == JSON_PATCH else duplicates(request.body)
    faults = [*twice, *([] if known is patched else sorted(unknown_fields(resource, patched)))]
    if policy == "Strict" and faults:
        raise patch_error(compact(shown), faults)
    return known, _warnings(faults)


def check_applied(request: Request, resource: KindSpec, configuration: JsonObject) -> Headers:
    """Warnings about a configuration that is applied. Server-side apply accepts no unknown fields, whatever the client
    asked for. Raises 400, 500."""
    policy = _policy(request)
    if _checked(resource, configuration) is not configuration:
        raise undeclared(resource, configuration)
    lines = [] if policy == "Ignore" else yaml_duplicates(request.body)
    if lines and policy == "Strict":
        raise apply_error(lines)
    return _warnings(lines)


def quotes_patch(content_type: str) -> bool:
    """Whether a refusal quotes the patch, and not the object that it leads to."""
    return media_type(content_type) == STRATEGIC_MERGE_PATCH


def says_kind(resource: KindSpec, item: JsonObject) -> bool:
    """Whether a body says that it is of this kind, or says nothing. Raises 400 where kind or apiVersion is not text."""
    kind = item.get("kind", resource.kind)
    if kind == resource.kind and type(item.get("apiVersion", "")) is str:
        return True
    said: JsonObject = {key: item[key] for key in ("apiVersion", "kind") if key in item}
    check_typed(type_of(resource), said, resource.kind, resource.version)
    return bool(kind == resource.kind)


def _checked(resource: KindSpec, item: JsonObject) -> JsonObject:
    """The object itself if it has only fields of its kind, else one without the others. Raises 400 for a wrong type.

    Hot: nearly every object conforms, and one pass says so.
    """
    holds = type_of(resource)
    if holds != ANYTHING and conforms(holds, item):
        return item
    check_typed(holds, item, resource.kind, resource.version)
    return item if is_known(resource, item) else pruned(resource, item)


def _policy(request: Request) -> str:
    """What the client asked for. Raises 400 for anything else."""
    policy = request.query.get("fieldValidation") or "Warn"
    if policy not in _CHOICES:
        raise bad_request(f"fieldValidation: must be one of {', '.join(_CHOICES)}, not {policy!r}")
    return policy


def _odd_amounts(request: Request, resource: KindSpec, item: JsonObject) -> list[str]:
    """`memory: 512m` is half a byte: a kube-apiserver accepts it with a warning."""
    if not _BYTES_AS_TEXT.search(request.body):
        return []
    typed, _ = decode(resource.kind, item)
    return [] if typed is None else [str(warning) for warning in amount_warnings(typed)]


def _warnings(faults: list[str]) -> Headers:
    return [("Warning", header) for header in warning_headers(faults)]
