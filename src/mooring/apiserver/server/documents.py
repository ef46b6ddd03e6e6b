"""Documents about the server itself: version, health, discovery, OpenAPI."""

from mooring.apiserver.identity import ROOT as IDENTITY
from mooring.apiserver.identity import identity
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.schema import discovery, openapi, openapi_v2
from mooring.apiserver.server.health import CHECKS, health
from mooring.apiserver.server.media import wanted
from mooring.apiserver.server.request import Answer, Request

OPEN_TO_ALL = (*(f"/{name}" for name in CHECKS), "/version")
"""What can be read without a token."""
_PATHS = ["/api", "/apis", "/healthz", "/livez", openapi_v2.PATH, openapi.ROOT, "/readyz", "/version"]


def document(api: ResourceApi, request: Request, address: str) -> Answer | None:
    """None: there is no such document."""
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
