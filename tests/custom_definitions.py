"""CustomResourceDefinitions for tests: small ones, with what those of well-known projects use."""

import copy
from typing import Any

from asking import ask
from mooring.apiserver.resource_api import ResourceApi

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"

_PARTS: dict[str, Any] = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {
        "type": "object",
        "required": ["name"],
        "properties": {"name": {"type": "string"}, "size": {"type": "integer", "default": 1}},
    },
}
SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["color"],
    "properties": {
        "color": {"type": "string", "enum": ["red", "green"], "description": "The paint of the widget."},
        "replicas": {"type": "integer", "minimum": 0, "maximum": 10, "default": 1},
        "weight": {"type": "number", "exclusiveMinimum": True, "minimum": 0},
        "port": {"x-kubernetes-int-or-string": True},
        "owner": {"type": "string", "minLength": 2, "maxLength": 5, "pattern": "^[a-z]+$"},
        "since": {"type": "string", "format": "date-time"},
        "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set", "maxItems": 3},
        "parts": _PARTS,
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
        "note": {"type": "string", "nullable": True},
        "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "template": {
            "type": "object",
            "x-kubernetes-embedded-resource": True,
            "x-kubernetes-preserve-unknown-fields": True,
        },
    },
}
"""The spec of a Widget."""


def a_definition(plural: str = "widgets", group: str = "example.com", **spec: Any) -> dict[str, Any]:
    """The definition of a kind with one version; `spec` replaces what it names."""
    kind = plural.removesuffix("s").capitalize()
    names: dict[str, Any] = {"plural": plural, "kind": kind, "shortNames": [plural[:2]], "categories": ["all"]}
    own = {"group": group, "scope": "Namespaced", "names": names, "versions": [a_version()]}
    return copy.deepcopy(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": own | spec,
        }
    )


def a_version(name: str = "v1", spec: dict[str, Any] | None = None, *, is_stored: bool = True, **more: Any) -> Any:
    """A served version. Objects have `spec` and a status in which everything may stand."""
    status = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"type": "object", "properties": {"spec": SPEC if spec is None else spec, "status": status}}
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    return {
        "name": name,
        "served": True,
        "storage": is_stored,
        "schema": {"openAPIV3Schema": schema},
        "subresources": {"status": {}, "scale": {**scale, "labelSelectorPath": ".status.selector"}},
        "selectableFields": [{"jsonPath": ".spec.color"}] if spec is None else [],
        "additionalPrinterColumns": [
            {"name": "Size", "type": "integer", "jsonPath": ".spec.replicas"},
            {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
        **more,
    }


def a_widget(name: str = "w", version: str = "v1", **spec: Any) -> dict[str, Any]:
    own = {"color": "green"} | spec
    return {"apiVersion": f"example.com/{version}", "kind": "Widget", "metadata": {"name": name}, "spec": own}


def with_definition(api: ResourceApi, definition: dict[str, Any] | None = None) -> ResourceApi:
    """The API, after a definition was created."""
    reply = ask(api, "POST", DEFINITIONS, definition or a_definition())
    assert reply.code == 201, reply.body
    return api
