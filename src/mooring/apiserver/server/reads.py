"""Getting and listing: versions, selectors, pages."""

import base64
import binascii

import msgspec

from mooring.api import api_errors as errors
from mooring.api.json_objects import JsonObject
from mooring.api.selector_text import ObjectSelector, parse_selectors
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.server.forms import answer_many, answer_one, check_form_asked
from mooring.apiserver.server.request import Answer, Request, Target
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
