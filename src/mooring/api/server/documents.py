"""Documents about the server itself: version, health, discovery, OpenAPI."""

from mooring.api.access import Api
from mooring.api.identity import ROOT as IDENTITY
from mooring.api.identity import identity
from mooring.api.schema import discovery, openapi
from mooring.api.server.media import wanted
from mooring.api.server.request import Answer, Request

_HEALTH = ("/healthz", "/livez", "/readyz")
OPEN_TO_ALL = (*_HEALTH, "/version")
"""What can be read without a token."""


def document(api: Api, request: Request, address: str) -> Answer | None:
    """None: there is no such document."""
    path = request.path.rstrip("/") or "/"
    if path in _HEALTH or path.startswith(tuple(f"{health}/" for health in _HEALTH)):
        return Answer(200, "ok", "text/plain; charset=utf-8")
    if path == "/":
        return Answer(200, {"paths": ["/api", "/apis", "/healthz", "/livez", "/openapi/v3", "/readyz", "/version"]})
    if path == IDENTITY:
        return Answer(200, identity(api.cluster_id))
    if path == "/openapi/v2":
        return Answer(200, openapi.EMPTY_V2, openapi.EMPTY_V2_TYPE)
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
