"""The verbs on objects: a GET gets or lists, with versions, selectors and pages. POST, PUT, PATCH and DELETE read the
body, check its fields, and hand it to ResourceApi.
"""

import base64
import binascii
import re
from typing import Any

import msgspec

from mooring.api import api_errors as errors
from mooring.api.api_errors import ApiError, field_unsupported, invalid, unsupported_media_type
from mooring.api.decode import decode
from mooring.api.fields import ANYTHING, pruned, type_of
from mooring.api.json_objects import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    PATCHES,
    PROTOBUF,
    STRATEGIC_MERGE_PATCH,
    YAML,
    JsonObject,
    check_size,
    media_type,
)
from mooring.api.kind_spec import KindSpec
from mooring.api.patches.json_patch import apply_json_patch, apply_merge_patch
from mooring.api.patches.merge_keys import compact
from mooring.api.patches.strategic_merge import apply_strategic_merge_patch
from mooring.api.schema import strict
from mooring.api.schema.typed_values import check_typed, conforms
from mooring.api.selector_text import ObjectSelector, parse_selectors
from mooring.api.validate import amount_warnings
from mooring.apiserver.resource_api import Change, ResourceApi
from mooring.apiserver.server.forms import answer_many, answer_one, check_form_asked
from mooring.apiserver.server.request import (
    Answer,
    Request,
    Target,
    by_whom,
    check_not_forced,
    deletion,
    read_json,
    read_object,
    read_yaml,
)
from mooring.apiserver.store import Key, Page, TooNew, TooOld

_TOKEN_VERSION = "meta.k8s.io/v1"
"""Parity: tokens have upstream's form, though clients must not look into them."""
_VERSION_DIGITS = 19
"""As many digits as always fit 64 bits."""
_MATCHES = ("", "NotOlderThan", "Exact")
"""The values of `resourceVersionMatch`."""


class ContinueToken(msgspec.Struct):
    """The place at which to continue a list, and the version."""

    v: str
    rv: int
    start: str


def get(api: ResourceApi, target: Target, request: Request) -> Answer:
    """GET of one object."""
    item = api.get(target.resource, target.namespace, target.name)
    return answer_one(request, target.resource, item, api.clock.now_ns())


def listing(api: ResourceApi, target: Target, request: Request) -> Answer:
    """GET of a collection. Parity: how many are left is only said where no selector was given."""
    check_form_asked(request)
    selector = selector_of(target, request)
    page = _page(api, target, request, selector)
    metadata: JsonObject = {"resourceVersion": str(page.version)}
    if page.after is not None:
        metadata["continue"] = _encode(page.version, page.after, target)
        if selector.is_empty:
            metadata["remainingItemCount"] = page.remaining
    return answer_many(request, target.resource, page.items, metadata, api.clock.now_ns())


def selector_of(target: Target, request: Request) -> ObjectSelector:
    """The selectors of a request by labels and fields; events are selected by the names that the core group gives their
    fields."""
    return parse_selectors(
        request.query.get("labelSelector", ""), request.query.get("fieldSelector", ""), target.resource.field_labels
    )


def version_asked(request: Request) -> int:
    """The version in the query. 0 stands for any, and for none. Raises 422."""
    text = request.query.get("resourceVersion", "")
    why = ""
    if text and not (text.isascii() and text.isdecimal()):
        why = "invalid syntax"
    elif len(text) > _VERSION_DIGITS:
        why = "value out of range"
    if why:
        fault = errors.field_invalid("resourceVersion", text, f'strconv.ParseUint: parsing "{text}": {why}')
        raise errors.invalid("ListOptions", "", [fault], "meta.k8s.io")
    return int(text or 0)


def _page(api: ResourceApi, target: Target, request: Request, selector: ObjectSelector) -> Page:
    """The part of the list that is asked for. Raises 400, 410, 422, and 504 for a version that there is not yet."""
    matches = None if selector.is_empty else selector.matches
    limit, version = request.number("limit") or 0, version_asked(request)
    token, match = request.query.get("continue", ""), _match(request)
    after: Key | None = None
    at: int | None = None
    if token:
        if version:
            raise errors.bad_request("specifying resource version is not allowed when using continue")
        at, after = _decode(token, target)
    elif match == "Exact":
        at = version
    elif request.query.get("resourceVersion") == "0":
        limit = 0  # Parity: what comes from the cache comes whole.
    if version > api.store.version:
        raise errors.version_too_large(version, api.store.version)
    try:
        return api.store.page(target.resource.storage, target.namespace, matches, max(limit, 0), after, at)
    except TooOld as refusal:
        raise _too_old(api, refusal, after, target) from None
    except TooNew as refusal:
        raise errors.version_too_large(refusal.version, refusal.current) from None


def _too_old(api: ResourceApi, refusal: TooOld, after: Key | None, target: Target) -> errors.ApiError:
    """Parity: a token that is too old is answered with one by which the client can continue, at the present version."""
    if after is None:
        return errors.version_too_old(refusal.version, refusal.oldest)
    return errors.expired(errors.CONTINUE_EXPIRED, _encode(api.store.version, after, target))


def _match(request: Request) -> str:
    """How the version is meant. Raises 422 for combinations that make no sense."""
    match = request.query.get("resourceVersionMatch", "")
    if not match:
        return ""
    fault = None
    if match not in _MATCHES:
        fault = errors.field_unsupported("resourceVersionMatch", match, ("Exact", "NotOlderThan"))
    elif not request.query.get("resourceVersion"):
        fault = errors.field_forbidden(
            "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
        )
    elif match == "Exact" and request.query["resourceVersion"] == "0":
        fault = errors.field_forbidden(
            "resourceVersionMatch", 'resourceVersionMatch "exact" is forbidden for resourceVersion "0"'
        )
    elif request.query.get("continue"):
        fault = errors.field_forbidden(
            "resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided"
        )
    if fault is not None:
        raise errors.invalid("ListOptions", "", [fault], "meta.k8s.io")
    return match


def _encode(version: int, after: Key, target: Target) -> str:
    """Parity: the key goes without the namespace where the list is of one namespace."""
    start = f"{after[0]}/{after[1]}" if target.resource.namespaced and not target.namespace else f"/{after[1]}"
    token = ContinueToken(_TOKEN_VERSION, version, f"{start}\0")
    return base64.urlsafe_b64encode(msgspec.json.encode(token)).decode().rstrip("=")


def _decode(text: str, target: Target) -> tuple[int, Key]:
    """Version and key of a token. Clients must not look into tokens, but one may send any text: 400."""
    try:
        decoded = base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
        token = msgspec.json.decode(decoded, type=ContinueToken)
    except (binascii.Error, ValueError, msgspec.MsgspecError) as fault:
        raise errors.bad_request(f"invalid continue token: continue key is not valid: {fault}") from None
    namespace, slash, name = token.start.removesuffix("\0").rpartition("/")
    if token.v != _TOKEN_VERSION or not slash or token.rv < 0 or (namespace and target.namespace):
        raise errors.bad_request("invalid continue token: continue key is not valid: it is of another list")
    return token.rv, (namespace or target.namespace, name)


# ---- `fieldValidation`: what the server says of fields that the kind does not have. The server never stores them.


_CHOICES = ("", "Ignore", "Strict", "Warn")
"""The policies that a client may ask for: neither, an error, or warnings, which is the default."""
_OPTIONS = {"POST": "CreateOptions", "PUT": "UpdateOptions"}
"""By method: what a refusal of a parameter says is invalid."""
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
        lines = strict.yaml_duplicates(request.body)
        faults = [] if known is item else sorted(strict.told_faults(resource, item))
    elif known is item and not strict.has_repeats(request.body, item):
        lines, faults = [], []
    else:
        lines, faults = [], strict.told_faults(resource, request.body)
    if policy == "Strict" and (lines or faults):
        raise strict.strict_error(resource, faults, lines)
    return known, _warnings([*lines, *faults, *_odd_amounts(request, resource, item)])


def check_patched(
    request: Request, resource: KindSpec, patched: JsonObject, shown: object
) -> tuple[JsonObject, Headers]:
    """Check an object after a patch, as `check_body` does; `shown` is what a refusal quotes."""
    policy, media = _policy(request), media_type(request.content_type)
    known = _checked(resource, patched)
    if policy == "Ignore":
        return known, []
    twice = strict.json_patch_faults(request.body) if media == JSON_PATCH else strict.duplicates(request.body)
    faults = [*twice, *([] if known is patched else sorted(strict.told_faults(resource, patched)))]
    if policy == "Strict" and faults:
        raise strict.patch_error(compact(shown), faults)
    return known, _warnings(faults)


def check_applied(request: Request, resource: KindSpec, configuration: JsonObject) -> Headers:
    """Warnings about a configuration that is applied. Server-side apply accepts no unknown fields, whatever the client
    asked for. Raises 400, 500."""
    policy = _policy(request)
    if _checked(resource, configuration) is not configuration:
        raise strict.undeclared(resource, configuration)
    lines = [] if policy == "Ignore" else strict.yaml_duplicates(request.body)
    if lines and policy == "Strict":
        raise strict.apply_error(lines)
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
    return item if strict.is_known(resource, item) else pruned(resource, item)


def _policy(request: Request) -> str:
    """The policy that the client asked for. Raises 422 for anything else."""
    policy = request.query.get("fieldValidation", "")
    if policy not in _CHOICES:
        fault = field_unsupported("fieldValidation", policy, _CHOICES)
        raise invalid(_OPTIONS.get(request.method, "PatchOptions"), "", [fault], "meta.k8s.io")
    return policy or "Warn"


def _odd_amounts(request: Request, resource: KindSpec, item: JsonObject) -> list[str]:
    """`memory: 512m` is half a byte: a kube-apiserver accepts it with a warning."""
    if not _BYTES_AS_TEXT.search(request.body):
        return []
    typed, _ = decode(resource.kind, item)
    return [] if typed is None else [str(warning) for warning in amount_warnings(typed)]


def _warnings(faults: list[str]) -> Headers:
    return [("Warning", header) for header in strict.warning_headers(faults)]


_PATCHERS = {
    JSON_PATCH: apply_json_patch,
    MERGE_PATCH: apply_merge_patch,
    STRATEGIC_MERGE_PATCH: apply_strategic_merge_patch,
}
"""By content type."""
_LARGE_BYTES = 256 * 1024
"""Bodies of this size and more are checked for whether the result can be stored, before more work is done with it."""


def create(api: ResourceApi, target: Target, request: Request) -> Answer:
    """POST of an object."""
    given, warnings = _body(request, target.resource)
    made = api.create(target.resource, target.namespace, given, by_whom(request, "CreateOptions"))
    return _shown(api, target.resource, made, request, 201, warnings)


def replace(api: ResourceApi, target: Target, request: Request) -> Answer:
    """PUT of an object or of a part of one."""
    given, warnings = _body(request, target.resource)
    by = by_whom(request, "UpdateOptions")
    made = api.change(target.resource, target.namespace, target.name, lambda _: given, by, target.subresource)
    return _shown(api, target.resource, made, request, 200, warnings)


def patch(api: ResourceApi, target: Target, request: Request) -> Answer:
    """PATCH, by its content type."""
    media = media_type(request.content_type)
    if media == APPLY_PATCH:
        return _apply(api, target, request)
    warnings: Headers = []
    change = patcher(request, target.resource, warnings)
    check_not_forced(request)
    by = by_whom(request)
    made = api.change(target.resource, target.namespace, target.name, change, by, target.subresource)
    return _shown(api, target.resource, made, request, 200, warnings)


def patcher(request: Request, resource: KindSpec | None = None, warnings: Headers | None = None) -> Change:
    """The change that a patch is. What it adds is checked against the kind, where one is given."""
    media = media_type(request.content_type)
    accepted = PATCHES if resource is None else resource.patches
    if media not in _PATCHERS or media not in accepted:
        raise unsupported_media_type(accepted)
    apply, body = _PATCHERS[media], read_json(request.body)

    def change(item: JsonObject) -> JsonObject:
        patched: JsonObject = apply(item, body)
        if resource is None or warnings is None:
            return patched
        _check_size(request, resource, patched)
        shown = body if quotes_patch(request.content_type) else patched
        patched, found = check_patched(request, resource, patched, shown)
        warnings.extend(found)
        return patched

    return change


def _apply(api: ResourceApi, target: Target, request: Request) -> Answer:
    """Server-side apply."""
    given: Any = read_yaml(request.body)
    warnings: Headers = []
    if isinstance(given, dict):
        _check_size(request, target.resource, given)
        warnings = check_applied(request, target.resource, given)
    by, force = by_whom(request, is_named=True), request.flag("force")
    made, is_new = api.apply(target.resource, target.namespace, target.name, given, by, force, target.subresource)
    return _shown(api, target.resource, made, request, 201 if is_new else 200, warnings)


def delete(api: ResourceApi, target: Target, request: Request) -> Answer:
    """DELETE of one object. Parity: most kinds answer with a Status, some with the object, and all with it while it
    still exists."""
    how, by = deletion(request)
    resource = target.resource
    item, is_gone = api.delete(resource, target.namespace, target.name, how, by)
    if not is_gone or resource.returns_deleted:
        return _shown(api, resource, item, request, 200, [])
    details = {"name": target.name, "group": resource.group, "kind": resource.plural, "uid": item["metadata"]["uid"]}
    return Answer(200, success({key: value for key, value in details.items() if value}))


def delete_all(api: ResourceApi, target: Target, request: Request) -> Answer:
    """DELETE of the objects of a collection that a selector picks. An object that goes meanwhile does not matter."""
    how, by = deletion(request)
    selector = selector_of(target, request)
    limit = max(request.number("limit") or 0, 0)
    found = api.store.page(target.resource.storage, target.namespace, selector.matches, limit)
    for item in found.items:
        metadata = item["metadata"]
        try:
            api.delete(target.resource, metadata.get("namespace", ""), metadata["name"], how, by)
        except ApiError as refused:
            if refused.code != 404:
                raise
    metadata = {"resourceVersion": str(api.store.version)}
    return answer_many(request, target.resource, found.items, metadata, api.clock.now_ns())


def success(details: JsonObject | None = None, code: int = 0) -> JsonObject:
    """A Status that says that the request succeeded."""
    status: JsonObject = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
    return status | ({"details": details} if details else {}) | ({"code": code} if code else {})


def _body(request: Request, resource: KindSpec) -> tuple[JsonObject, Headers]:
    """The object in a body, with known fields only, and warnings about the others."""
    given = read_object(request.body, request.content_type, resource.kind)
    _check_size(request, resource, given)
    if not says_kind(resource, given):
        return given, []  # admission says what is wrong with it
    return check_body(request, resource, given)


def _check_size(request: Request, resource: KindSpec, item: JsonObject) -> None:
    """Refuse early what the store would refuse in the end. Kinds that hold plain data have a limit of their own."""
    if len(request.body) > _LARGE_BYTES and not resource.limits_own_size:
        check_size(item)


def _shown(
    api: ResourceApi, resource: KindSpec, item: JsonObject, request: Request, code: int, headers: Headers
) -> Answer:
    """The answer in the form that the client asked for, with warnings."""
    answer = answer_one(request, resource, item, api.clock.now_ns(), code)
    answer.headers += headers
    return answer
