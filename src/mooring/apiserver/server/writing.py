"""POST, PUT, PATCH and DELETE: reads the body, checks its fields, and hands it to ResourceApi."""

from typing import Any

from mooring.api.api_errors import ApiError, unsupported_media_type
from mooring.api.event_forms import shown_form
from mooring.api.json_objects import (
    APPLY_PATCH,
    JSON_PATCH,
    MERGE_PATCH,
    PATCHES,
    STRATEGIC_MERGE_PATCH,
    JsonObject,
    media_type,
)
from mooring.api.kind_spec import KindSpec
from mooring.api.limits import check_size
from mooring.api.patches.json_patch import apply_json_patch, apply_merge_patch
from mooring.api.patches.strategic_merge import apply_strategic_merge_patch
from mooring.apiserver.resource_api import Change, ResourceApi
from mooring.apiserver.server import forms
from mooring.apiserver.server.bodies import read_json, read_object, read_yaml
from mooring.apiserver.server.field_checks import (
    Headers,
    check_applied,
    check_body,
    check_patched,
    quotes_patch,
    says_kind,
)
from mooring.apiserver.server.forms import wanted
from mooring.apiserver.server.options import by_whom, check_not_forced, deletion
from mooring.apiserver.server.reading import selector_of
from mooring.apiserver.server.request import Answer, Request, Target

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
    if media not in _PATCHERS:
        raise unsupported_media_type(PATCHES)
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
    found = api.store.page(target.resource.storage, target.namespace, selector.matches)
    for item in found.items:
        metadata = item["metadata"]
        try:
            api.delete(target.resource, metadata.get("namespace", ""), metadata["name"], how, by)
        except ApiError as refused:
            if refused.code != 404:
                raise
    metadata = {"resourceVersion": str(api.store.version)}
    form = wanted(request.accept)
    items = [shown_form(target.resource, item) for item in found.items]
    shown = forms.many(target.resource, items, metadata, form, forms.included(request), api.clock.now_ns())
    return Answer(200, shown, form.media)


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
    """The answer in the form that the client asked for."""
    form = wanted(request.accept)
    shown = forms.one(resource, item, form, forms.included(request), api.clock.now_ns())
    return Answer(code, shown, form.media, headers)
