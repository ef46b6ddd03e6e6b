"""Dispatch of requests: finds what the path means and which function answers. A refusal is always a Status."""

import re
from collections.abc import Callable, Set
from dataclasses import replace

from mooring.api.api_errors import ApiError, method_not_allowed, no_such_resource
from mooring.api.fields import type_of
from mooring.api.json_objects import JsonObject
from mooring.api.kinds import REQUESTS
from mooring.api.kinds.pods import BINDING
from mooring.api.schema import discovery, openapi
from mooring.api.schema.discovery import IDENTITY_PATH, identity, prefix_of
from mooring.api.schema.typed_values import check_typed
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.server import subresources, verbs
from mooring.apiserver.server.forms import check_form_asked, wanted
from mooring.apiserver.server.request import Answer, Request, Target, check_yaml, read_object, refusal, target_of
from mooring.apiserver.server.watching import WatchResponse, begin_watch
from mooring.apiserver.service_tokens import ADMIN, ISSUER, ServiceTokens
from mooring.kit.shown_text import quoted

# ---- documents of the server: version, health, discovery, OpenAPI, and reviews of a client's identity and permissions
#
# `/healthz`, `/livez` and `/readyz` run the checks of `CHECKS`; each check also has a path of its own. Every client
# that has the token may do everything, so reviews always allow.


_ALIVE = ("ping", "log", "etcd")
CHECKS = {"healthz": _ALIVE, "livez": _ALIVE, "readyz": (*_ALIVE, "etcd-readiness", "informer-sync", "shutdown")}
"""By path. They have kube-apiserver's names, because probes exclude them by name."""
STORAGE = frozenset(("etcd", "etcd-readiness"))
"""These fail while the journal cannot be written: a write could not be made durable."""
_TEXT = "text/plain; charset=utf-8"
OPEN_TO_ALL = (*(f"/{name}" for name in CHECKS), "/version")
"""Paths that a client can read without a token, as upstream allows it for probes."""
_GROUP = re.compile(r"/(?:api|apis/[^/]+)(?=/[^/]+/.)")
"""The path of a group, at the start of a path below one of its versions."""
_PATHS = ["/api", "/apis", "/healthz", "/livez", openapi.V2_ROOT, openapi.ROOT, "/readyz", "/version"]
"""The paths that `/` lists."""


def document(api: ResourceApi, request: Request, address: str) -> Answer | None:
    """The document at a path that is no resource's; None: there is none."""
    path = request.path.rstrip("/") or "/"
    if path.startswith(OPEN_TO_ALL) and path != "/version":
        return health(request, api.failing)
    if path == "/":
        return Answer(200, {"paths": _PATHS})
    if path == IDENTITY_PATH:
        return Answer(200, identity(api.cluster_id))
    if path == openapi.V2_ROOT:
        return _openapi_v2(request)
    if path.startswith(openapi.ROOT):
        documents, custom = api.kinds.documents, api.kinds.custom()
        is_index = path == openapi.ROOT
        found = (
            documents.index(custom) if is_index else documents.document(path.removeprefix(f"{openapi.ROOT}/"), custom)
        )
        return None if found is None else Answer(200, found)
    if path != "/version" and not path.startswith("/api"):
        return None
    is_aggregated = path in ("/api", "/apis") and wanted(request.accept).is_aggregated
    found = discovery.document(path, is_aggregated, address, api.kinds.custom())
    if found is None:
        return None
    return Answer(200, found, discovery.AGGREGATED_TYPE if is_aggregated else "application/json")


def _openapi_v2(request: Request) -> Answer:
    """Raises 406 where neither form will do."""
    if openapi.wants_protobuf(request.accept):
        return Answer(200, openapi.protobuf_v2(), openapi.V2_PROTOBUF)
    wanted(request.accept)
    return Answer(200, openapi.document_v2())


# ---- health


def health(request: Request, failing: Set[str]) -> Answer | None:
    """The answer of a check; None: there is no such check. `failing` names the checks that fail. The reason is in the
    log only, because these paths need no token."""
    name, _, check = request.path.removeprefix("/").partition("/")
    if name not in CHECKS or (request.path != f"/{name}" and check not in CHECKS[name]):
        return None
    if not check:
        return _summary(name, request, failing)
    if check in failing:
        return Answer(500, "internal server error: reason withheld\n", _TEXT)
    return Answer(200, "ok", _TEXT)


def _summary(name: str, request: Request, failing: Set[str]) -> Answer:
    """All checks of one path: `ok` alone, unless the client asks for the list or a check fails."""
    excluded = set(filter(None, request.query.get("exclude", "").split(",")))
    lines = [_line(check, check in excluded, check in failing) for check in CHECKS[name]]
    if unknown := sorted(excluded - set(CHECKS[name])):
        lines.append(f"warn: some health checks cannot be excluded: no matches for {','.join(map(quoted, unknown))}")
    failed = (failing & set(CHECKS[name])) - excluded
    if not failed and "verbose" not in request.query:
        return Answer(200, "ok", _TEXT)
    lines.append(f"{name} check {'failed' if failed else 'passed'}")
    return Answer(500 if failed else 200, "\n".join(lines) + "\n", _TEXT)


def _line(check: str, is_excluded: bool, is_failing: bool) -> str:
    """One check in the list."""
    if is_excluded:
        return f"[+]{check} excluded: ok"
    return f"[-]{check} failed: reason withheld" if is_failing else f"[+]{check} ok"


# ---- reviews


_EVERYTHING: JsonObject = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}
"""The permissions of every user."""


def review(target: Target, request: Request, tokens: ServiceTokens) -> Answer:
    """The answer to a TokenReview, SubjectAccessReview and their kin."""
    resource = target.resource
    body = read_object(request.body, request.content_type, resource.kind)
    check_typed(type_of(resource), body, resource.kind, resource.version)
    status = _status(resource.plural, body.get("spec") or {}, request, tokens)
    shown = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {}, "spec": body.get("spec") or {}}
    return Answer(201, shown | {"status": status})


def _status(plural: str, spec: JsonObject, request: Request, tokens: ServiceTokens) -> JsonObject:
    """By kind of review."""
    match plural:
        case "tokenreviews":
            return _token_status(spec, tokens)
        case "selfsubjectreviews":
            user = tokens.user_of(request.bearer)
            return {"userInfo": ADMIN if user is None else user.info}
        case "selfsubjectrulesreviews":
            return _EVERYTHING
        case _:
            return {"allowed": True}


def _token_status(spec: JsonObject, tokens: ServiceTokens) -> JsonObject:
    """Whose token it is. A client may name the audiences that it stands for; otherwise the server is meant."""
    user = tokens.user_of(spec.get("token", ""))
    wanted = spec.get("audiences") or ()
    shared = [audience for audience in wanted or (ISSUER,) if user is not None and audience in user.audiences]
    if user is None or not shared:
        return {"error": "invalid bearer token"}
    return {"authenticated": True, "user": user.info, **({"audiences": shared} if wanted else {})}


def _issue_token(target: Target, request: Request, tokens: ServiceTokens) -> Answer:
    """`serviceaccounts/NAME/token`: what `kubectl create token` posts."""
    body = read_object(request.body, request.content_type, "TokenRequest")
    check_typed("authentication.TokenRequest", body, "TokenRequest", "v1")
    return Answer(201, tokens.issue(target.namespace, target.name, body))


Handler = Callable[[ResourceApi, Target, Request], Answer]

_COLLECTION: dict[str, Handler] = {"GET": verbs.listing, "POST": verbs.create, "DELETE": verbs.delete_all}
"""By method, for a collection."""
_OBJECT: dict[str, Handler] = {"GET": verbs.get, "PUT": verbs.replace, "PATCH": verbs.patch, "DELETE": verbs.delete}
"""By method, for one object."""
_PART: dict[str, Handler] = {"GET": verbs.get, "PUT": verbs.replace, "PATCH": verbs.patch}
"""By method, for `status` and the subresources that are read and written like it."""
TOKEN = "token"
_PARTS: dict[str, dict[str, Handler]] = {
    "binding": {"POST": subresources.post_binding},
    "eviction": {"POST": subresources.post_eviction},
    "finalize": {"PUT": verbs.replace},
    "log": {"GET": subresources.get_log},
    TOKEN: {},
    "scale": {"GET": subresources.get_scale, "PUT": subresources.put_scale, "PATCH": subresources.patch_scale},
}
"""Subresources that are not read and written like `status`."""


def answer(api: ResourceApi, request: Request, address: str = "", token: str = "") -> Answer | WatchResponse:
    """The answer to a request, also where that is a refusal. `address` is where clients reach the server, `token` is
    what they must bring."""
    try:
        request = _without_prefix(api, request)
        target = target_of(request.path, api.kinds)
        if target is None:
            return _page(api, request, address)
        check_yaml(request)
        tokens = ServiceTokens(api, token)
        if target.resource in REQUESTS:
            return _posted(api, target, request, tokens)
        if target.subresource == TOKEN and request.method == "POST":
            return _issue_token(target, request, tokens)
        if request.method == "GET" and not target.subresource and "watch" in request.query and request.flag("watch"):
            return begin_watch(api, target, request)
        return _handler(target, request)(api, target, request)
    except ApiError as error:
        return refusal(error)


def _page(api: ResourceApi, request: Request, address: str) -> Answer:
    """Pages besides resources: discovery, documents, health."""
    subresources.refuse_stream(request.path)
    found = document(api, request, address) if request.method in ("GET", "HEAD") else None
    if found is not None:
        return found
    group = _GROUP.match(request.path)
    if group is not None and discovery.document(group[0], False, address, api.kinds.custom()) is not None:
        raise no_such_resource()
    return Answer(404, "404 page not found\n", _TEXT)


def _handler(target: Target, request: Request) -> Handler:
    """The function that answers this method at this path. Raises 405, and 406 for a form of answer that the server
    cannot give."""
    handlers = _OBJECT if target.name else _COLLECTION
    if target.subresource:
        handlers = _PARTS.get(target.subresource, _PART)
    handler = handlers.get(request.method)
    is_homeless = request.method == "POST" and target.resource.namespaced and not target.namespace
    is_bulk = request.method == "DELETE" and not target.name
    if handler is None or is_homeless or (is_bulk and "deletecollection" not in target.resource.verbs):
        raise method_not_allowed()
    if target.subresource != "log":  # which is text, whatever the client would rather have
        check_form_asked(request)
    return handler


def _without_prefix(api: ResourceApi, request: Request) -> Request:
    """A request for this cluster and no other becomes a usual one. With the id of another cluster the path leads
    nowhere: 404."""
    prefix = f"{prefix_of(api.cluster_id)}/"
    return replace(request, path=request.path[len(prefix) - 1 :]) if request.path.startswith(prefix) else request


def _posted(api: ResourceApi, target: Target, request: Request, tokens: ServiceTokens) -> Answer:
    """Kinds that are only posted, and never stored: bindings and reviews."""
    if request.method != "POST" or target.name:
        raise method_not_allowed()
    if target.resource is BINDING:
        return subresources.post_binding(api, target, request)
    return review(target, request, tokens)
