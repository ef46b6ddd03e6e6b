"""Questions about who somebody is and what they may do. In this cluster everybody who gets in may do everything."""

from mooring.apiserver.schema.fields import type_of
from mooring.apiserver.schema.typed_values import check_typed
from mooring.apiserver.server.bodies import read_object
from mooring.apiserver.server.request import Answer, Request
from mooring.apiserver.server.routes import Target
from mooring.model.json_objects import JsonObject

USER: JsonObject = {"username": "mooring-admin", "groups": ["system:masters", "system:authenticated"]}
_EVERYTHING: JsonObject = {
    "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
    "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    "incomplete": False,
}


def review(target: Target, request: Request, token: str) -> Answer:
    """`token` is the one by which this server is entered; empty if it is open to all."""
    resource = target.resource
    body = read_object(request.body, request.content_type, resource.kind)
    check_typed(type_of(resource), body, resource.kind, resource.version)
    status = _status(resource.plural, body.get("spec") or {}, token)
    shown = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": {}, "spec": body.get("spec") or {}}
    return Answer(201, shown | {"status": status})


def _status(plural: str, spec: JsonObject, token: str) -> JsonObject:
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
