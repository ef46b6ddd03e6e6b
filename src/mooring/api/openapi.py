"""The least OpenAPI with which `kubectl apply`, `create` and `replace` work while validation is on.

kubectl 1.27 and later only asks whether the PATCH of a kind takes `fieldValidation` (then the server validates) and
`dryRun`; it does not need the schemas of kinds that it knows itself. So `kubectl explain` has nothing to explain.
"""

import hashlib
from collections.abc import Iterator

import msgspec

from mooring.api.resources import RESOURCES, Resource
from mooring.api.store import JsonObject

ROOT = "/openapi/v3"

_QUERY = ("dryRun", "fieldManager", "fieldValidation", "force")


def index() -> JsonObject:
    """`/openapi/v3`: where the document of each group and version is, with a hash by which kubectl caches it."""
    return {"paths": {path: {"serverRelativeURL": f"{ROOT}/{path}?hash={_hash(path)}"} for path in _paths()}}


def document(path: str) -> JsonObject | None:
    """The document behind `/openapi/v3/<path>`, such as `api/v1` or `apis/apps/v1`; None if there is none."""
    kinds = [resource for resource in RESOURCES.values() if resource.path == f"/{path}"]
    if not kinds:
        return None
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": "v1.36.4"},
        "paths": {url: item for resource in kinds for url, item in _operations(resource)},
        "components": {"schemas": {_schema_name(resource): _schema(resource) for resource in kinds}},
    }


def _paths() -> list[str]:
    return list(dict.fromkeys(resource.path.strip("/") for resource in RESOURCES.values()))


def _hash(path: str) -> str:
    return hashlib.sha512(msgspec.json.encode(document(path))).hexdigest().upper()


def _operations(resource: Resource) -> Iterator[tuple[str, JsonObject]]:
    """The paths of a collection and of one object, each with the operations whose parameters kubectl looks at."""
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    collection = f"{resource.path}{scope}/{resource.plural}"
    yield collection, {"post": _operation(resource, "post")}
    yield f"{collection}/{{name}}", {verb: _operation(resource, verb) for verb in ("put", "patch")}


def _operation(resource: Resource, action: str) -> JsonObject:
    """No requestBody on purpose: one that named strategic merge would make kubectl diff by schemas that are empty."""
    return {
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": _identity(resource),
        "parameters": [
            {"name": name, "in": "query", "schema": {"type": "boolean" if name == "force" else "string"}}
            for name in _QUERY
            if action == "patch" or name != "force"
        ],
        "responses": {"200": {"description": "OK"}},
    }


def _schema(resource: Resource) -> JsonObject:
    """Any object at all: what may stand in it is for the server to say."""
    return {"type": "object", "x-kubernetes-group-version-kind": [_identity(resource)]}


def _schema_name(resource: Resource) -> str:
    """`io.k8s.api.core.v1.Pod`: named like upstream's, by the first part of the group."""
    return f"io.k8s.api.{resource.group.split('.')[0] or 'core'}.{resource.version}.{resource.kind}"


def _identity(resource: Resource) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}
