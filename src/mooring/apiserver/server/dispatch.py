"""From a request to its answer: finds what the path means and which function answers. A refusal is always a Status."""

from collections.abc import Callable
from dataclasses import replace

from mooring.api.api_errors import ApiError, method_not_supported
from mooring.api.kinds import REQUESTS
from mooring.api.kinds.pods import BINDING
from mooring.apiserver.identity import prefix_of
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.server import reading, subresources, writing
from mooring.apiserver.server.bodies import check_yaml
from mooring.apiserver.server.documents import document, review
from mooring.apiserver.server.forms import check_form_asked
from mooring.apiserver.server.request import Answer, Request, Target, refusal, target_of
from mooring.apiserver.server.watching import WatchResponse, begin_watch

Handler = Callable[[ResourceApi, Target, Request], Answer]

_COLLECTION: dict[str, Handler] = {
    "GET": reading.listing,
    "POST": writing.create,
    "DELETE": writing.delete_all,
}
"""By method, for a collection."""
_OBJECT: dict[str, Handler] = {
    "GET": reading.get,
    "PUT": writing.replace,
    "PATCH": writing.patch,
    "DELETE": writing.delete,
}
"""By method, for one object."""
_PART: dict[str, Handler] = {"GET": reading.get, "PUT": writing.replace, "PATCH": writing.patch}
"""By method, for `status` and the subresources that are read and written like it."""
_PARTS: dict[str, dict[str, Handler]] = {
    "binding": {"POST": subresources.post_binding},
    "eviction": {"POST": subresources.post_eviction},
    "finalize": {"PUT": writing.replace},
    "log": {"GET": subresources.get_log},
    "scale": {"GET": subresources.get_scale, "PUT": subresources.put_scale, "PATCH": subresources.patch_scale},
}
"""Subresources that are not read and written like `status`."""

_VERBS = {"GET": "get", "POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}
"""How a refusal names a method."""


def answer(api: ResourceApi, request: Request, address: str = "", token: str = "") -> Answer | WatchResponse:
    """The answer to a request, also where that is a refusal. `address` is where clients reach the server, `token` is
    what they must bring."""
    try:
        request = _without_prefix(api, request)
        target = target_of(request.path)
        if target is None:
            return _page(api, request, address)
        check_yaml(request)
        if target.resource in REQUESTS:
            return _posted(api, target, request, token)
        if request.method == "GET" and not target.subresource and "watch" in request.query and request.flag("watch"):
            return begin_watch(api, target, request)
        return _handler(target, request)(api, target, request)
    except ApiError as error:
        return refusal(error)


def _page(api: ResourceApi, request: Request, address: str) -> Answer:
    """What is served besides resources: discovery, documents, health."""
    subresources.refuse_stream(request.path)
    found = document(api, request, address) if request.method in ("GET", "HEAD") else None
    return found or Answer(404, "404 page not found\n", "text/plain; charset=utf-8")


def _handler(target: Target, request: Request) -> Handler:
    """The function that answers this method at this path. Raises 405, and 406 for a form of answer that the server
    cannot give."""
    handlers = _OBJECT if target.name else _COLLECTION
    if target.subresource:
        handlers = _PARTS.get(target.subresource, _PART)
    handler = handlers.get(request.method)
    is_homeless = request.method == "POST" and target.resource.namespaced and not target.namespace
    if handler is None or is_homeless or (request.method == "DELETE" and _is_unserved_bulk(target)):
        raise _unsupported(target, request)
    if target.subresource != "log":  # which is text, whatever the client would rather have
        check_form_asked(request)
    return handler


def _without_prefix(api: ResourceApi, request: Request) -> Request:
    """A request for this cluster and no other becomes a usual one. With the id of another cluster the path leads
    nowhere: 404."""
    prefix = f"{prefix_of(api.cluster_id)}/"
    return replace(request, path=request.path[len(prefix) - 1 :]) if request.path.startswith(prefix) else request


def _is_unserved_bulk(target: Target) -> bool:
    """Whether a DELETE is for a collection that cannot be deleted at once."""
    return not target.name and "deletecollection" not in target.resource.verbs


def _posted(api: ResourceApi, target: Target, request: Request, token: str) -> Answer:
    """Kinds that are only posted, and never stored: bindings and reviews."""
    if request.method != "POST" or target.name:
        raise _unsupported(target, request)
    if target.resource is BINDING:
        return subresources.post_binding(api, target, request)
    return review(target, request, token)


def _unsupported(target: Target, request: Request) -> ApiError:
    verb = _VERBS.get(request.method, request.method.lower())
    return method_not_supported(target.resource.plural, verb, target.resource.group)
