"""From a request to its answer. Whatever a client sends, it gets an answer, and a refusal is always a Status."""

from collections.abc import Callable
from dataclasses import replace

from mooring.apiserver.identity import prefix_of
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.server import reading, subresources, writing
from mooring.apiserver.server.documents import document
from mooring.apiserver.server.forms import check_form_asked
from mooring.apiserver.server.request import Answer, Request, refusal
from mooring.apiserver.server.reviews import review
from mooring.apiserver.server.routes import Target, target_of
from mooring.apiserver.server.watching import WatchResponse, begin_watch
from mooring.apiserver.server.yaml_limits import check_yaml
from mooring.model.api_errors import ApiError, method_not_supported
from mooring.model.kinds import REQUESTS
from mooring.model.kinds.pods import BINDING

Handler = Callable[[ResourceApi, Target, Request], Answer]

_COLLECTION: dict[str, Handler] = {
    "GET": reading.listing,
    "POST": writing.create,
    "DELETE": writing.delete_all,
}
_OBJECT: dict[str, Handler] = {
    "GET": reading.get,
    "PUT": writing.replace,
    "PATCH": writing.patch,
    "DELETE": writing.delete,
}
_PART: dict[str, Handler] = {"GET": reading.get, "PUT": writing.replace, "PATCH": writing.patch}
_PARTS: dict[str, dict[str, Handler]] = {
    "binding": {"POST": subresources.post_binding},
    "eviction": {"POST": subresources.post_eviction},
    "finalize": {"PUT": writing.replace},
    "log": {"GET": subresources.get_log},
    "scale": {"GET": subresources.get_scale, "PUT": subresources.put_scale, "PATCH": subresources.patch_scale},
}
"""Subresources that are not read and written like `status`."""

_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}


def answer(api: ResourceApi, request: Request, address: str = "", token: str = "") -> Answer | WatchResponse:
    """`address` is where clients reach the server, `token` how they get in."""
    try:
        return _answer(api, _without_prefix(api, request), address, token)
    except ApiError as error:
        return refusal(error)


def _answer(api: ResourceApi, request: Request, address: str, token: str) -> Answer | WatchResponse:
    target = target_of(request.path)
    if target is None:
        subresources.refuse_stream(request.path)
        found = document(api, request, address) if request.method in ("GET", "HEAD") else None
        return found or Answer(404, "404 page not found\n", "text/plain; charset=utf-8")
    check_yaml(request)
    if target.resource in REQUESTS:
        return _posted(api, target, request, token)
    if request.method == "GET" and not target.subresource and "watch" in request.query and request.flag("watch"):
        return begin_watch(api, target, request)
    handler = _handlers(target).get(request.method)
    is_homeless = request.method == "POST" and target.resource.namespaced and not target.namespace
    if handler is None or is_homeless or (request.method == "DELETE" and _is_unserved_bulk(target)):
        raise method_not_supported(
            target.resource.plural, _VERBS.get(request.method, request.method.lower()), target.resource.group
        )
    if target.subresource != "log":  # which is text, whatever the client would rather have
        check_form_asked(request)
    return handler(api, target, request)


def _without_prefix(api: ResourceApi, request: Request) -> Request:
    """A request for this cluster and no other, as a usual one. The id of another cluster leads to no path."""
    prefix = f"{prefix_of(api.cluster_id)}/"
    return replace(request, path=request.path[len(prefix) - 1 :]) if request.path.startswith(prefix) else request


def _handlers(target: Target) -> dict[str, Handler]:
    if target.subresource:
        return _PARTS.get(target.subresource, _PART)
    return _OBJECT if target.name else _COLLECTION


def _is_unserved_bulk(target: Target) -> bool:
    return not target.name and "deletecollection" not in target.resource.verbs


def _posted(api: ResourceApi, target: Target, request: Request, token: str) -> Answer:
    if request.method != "POST" or target.name:
        raise method_not_supported(
            target.resource.plural, _VERBS.get(request.method, request.method.lower()), target.resource.group
        )
    if target.resource is BINDING:
        return subresources.post_binding(api, target, request)
    return review(target, request, token)
