"""What the server says of itself: version, health, discovery, OpenAPI, and reviews of a client's identity and permissions.

`/healthz`, `/livez` and `/readyz` run the checks of `CHECKS`; each check also has a path of its own. Every client that
has the token may do everything, so reviews always allow."""

from collections.abc import Set

from mooring.api.json_objects import JsonObject
from mooring.api.schema import discovery, openapi, openapi_v2
from mooring.api.schema.fields import type_of
from mooring.api.schema.typed_values import check_typed
from mooring.apiserver.identity import ROOT as IDENTITY
from mooring.apiserver.identity import identity
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.server.bodies import read_object
from mooring.apiserver.server.forms import wanted
from mooring.apiserver.server.request import Answer, Request, Target
from mooring.kit.shown_text import quoted

_ALIVE = ("ping", "log", "etcd")
CHECKS = {
    "healthz": _ALIVE,
    "livez": _ALIVE,
    "readyz": (*_ALIVE, "etcd-readiness", "informer-sync", "shutdown"),
}
"""By path. They have kube-apiserver's names, because probes exclude them by name."""
STORAGE = frozenset(("etcd", "etcd-readiness"))
"""These fail while the journal cannot be written: a write could not be made durable."""
_TEXT = "text/plain; charset=utf-8"
OPEN_TO_ALL = (*(f"/{name}" for name in CHECKS), "/version")
"""What a client can read without a token, as upstream allows it for probes."""
_PATHS = ["/api", "/apis", "/healthz", "/livez", openapi_v2.PATH, openapi.ROOT, "/readyz", "/version"]
"""What `/` lists."""


def document(api: ResourceApi, request: Request, address: str) -> Answer | None:
    """The document at a path that is no resource's; None: there is none."""
    path = request.path.rstrip("/") or "/"
    if path.startswith(OPEN_TO_ALL) and path != "/version":
        return health(request, api.failing)
    if path == "/":
        return Answer(200, {"paths": _PATHS})
    if path == IDENTITY:
        return Answer(200, identity(api.cluster_id))
    if path == openapi_v2.PATH:
        return _openapi_v2(request)
    if path.startswith(openapi.ROOT):
        found = openapi.index() if path == openapi.ROOT else openapi.document(path.removeprefix(f"{openapi.ROOT}/"))
        return None if found is None else Answer(200, found)
    if path != "/version" and not path.startswith("/api"):
        return None
    is_aggregated = path in ("/api", "/apis") and wanted(request.accept).is_aggregated
    found = discovery.document(path, is_aggregated, address)
    if found is None:
        return None
    return Answer(200, found, discovery.AGGREGATED_TYPE if is_aggregated else "application/json")


def _openapi_v2(request: Request) -> Answer:
    """Raises 406 where neither form will do."""
    if openapi_v2.wants_protobuf(request.accept):
        return Answer(200, openapi_v2.protobuf(), openapi_v2.PROTOBUF)
    wanted(request.accept)
    return Answer(200, openapi_v2.document())


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


USER: JsonObject = {"username": "mooring-admin", "groups": ["system:masters", "system:authenticated"]}
"""The one user that there is."""
_EVERYTHING: JsonObject = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}
"""What that user may do."""


def review(target: Target, request: Request, token: str) -> Answer:
    """The answer to a TokenReview, SubjectAccessReview and their kin. `token` is what clients must bring; empty if the
    server needs none."""
    resource = target.resource
    body = read_object(request.body, request.content_type, resource.kind)
    check_typed(type_of(resource), body, resource.kind, resource.version)
    status = _status(resource.plural, body.get("spec") or {}, token)
    shown = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {}, "spec": body.get("spec") or {}}
    return Answer(201, shown | {"status": status})


def _status(plural: str, spec: JsonObject, token: str) -> JsonObject:
    """By kind of review. Without a token every token is good."""
    match plural:
        case "tokenreviews":
            is_known = not token or spec.get("token") == token
            return {"authenticated": True, "user": USER} if is_known else {"error": "invalid bearer token"}
        case "selfsubjectreviews":
            return {"userInfo": USER}
        case "selfsubjectrulesreviews":
            return _EVERYTHING
        case _:
            return {"allowed": True}
