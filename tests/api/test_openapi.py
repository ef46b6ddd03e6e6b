"""OpenAPI: what kubectl looks for before it sends a manifest, explains a kind or merges, looked for in the same way."""

from collections.abc import Iterator
from typing import Any

import pytest

from mooring.api.fields import descriptions, fields_of, table
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import REQUESTS, RESOURCES
from mooring.api.schema import openapi

SCHEMAS = "#/components/schemas/"


def made(path: str) -> dict[str, Any]:
    document = openapi.document(path)
    assert document is not None
    return document


def schemas(path: str) -> dict[str, Any]:
    found: dict[str, Any] = made(path)["components"]["schemas"]
    return found


def identity(resource: KindSpec) -> dict[str, str]:
    return {"group": resource.group, "version": resource.version, "kind": resource.kind}


def patch_of(resource: KindSpec) -> dict[str, Any]:
    """kubectl's way: follow the index to the group's document, and take the PATCH that names the kind."""
    path = resource.path.removeprefix("/")
    assert openapi.index()["paths"][path]["serverRelativeURL"].startswith(f"/openapi/v3/{path}?hash=")
    patches: list[dict[str, Any]] = [item["patch"] for item in made(path)["paths"].values() if "patch" in item]
    (found,) = (patch for patch in patches if patch["x-kubernetes-group-version-kind"] == identity(resource))
    return found


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        yield from (inner for key, inner in value.items() if key == "$ref")
        value = list(value.values())
    if isinstance(value, list):
        for inner in value:
            yield from references(inner)


def explained(path: str, kind: str, *fields: str) -> dict[str, Any]:
    """The schema that `kubectl explain <kind>.<fields>` comes to."""
    known = schemas(path)
    (schema,) = (
        schema
        for schema in known.values()
        if any(line["kind"] == kind for line in schema.get("x-kubernetes-group-version-kind", ()))
    )
    for field in fields:
        schema = schema["properties"][field]
        schema = schema.get("items") or schema.get("additionalProperties") or schema
        (schema,) = schema.get("allOf", [schema])
        schema = known[schema["$ref"].removeprefix(SCHEMAS)] if "$ref" in schema else schema
    return dict(schema)


@pytest.mark.parametrize("resource", RESOURCES.values(), ids=lambda resource: f"{resource.group}/{resource.plural}")
def test_every_kind_takes_validation_dry_runs_and_strategic_merges(resource: KindSpec) -> None:
    patch = patch_of(resource)
    assert {"fieldValidation", "dryRun"} <= {line["name"] for line in patch["parameters"] if line["in"] == "query"}
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]


@pytest.mark.parametrize("path", openapi.index()["paths"])
def test_a_document_has_all_that_it_refers_to(path: str) -> None:
    needed = {name.removeprefix(SCHEMAS) for name in references(made(path))}
    assert needed | {openapi.PATCH} == set(schemas(path))


@pytest.mark.parametrize("resource", [*RESOURCES.values(), *REQUESTS], ids=lambda r: f"{r.group}/{r.plural}")
def test_every_kind_has_a_schema(resource: KindSpec) -> None:
    path = resource.path.removeprefix("/")
    found = [line.get("x-kubernetes-group-version-kind") for line in schemas(path).values()]
    assert found.count([identity(resource)]) == 1


def test_the_paths_are_those_that_are_served() -> None:
    core, storage, access = made("api/v1"), made("apis/storage.k8s.io/v1"), made("apis/authorization.k8s.io/v1")
    assert list(core["paths"]["/api/v1/namespaces/{namespace}/pods"]) == ["parameters", "post"]
    assert list(core["paths"]["/api/v1/nodes/{name}"]) == ["parameters", "put", "patch"]
    assert "/apis/storage.k8s.io/v1/storageclasses/{name}" in storage["paths"]
    assert list(access["paths"]["/apis/authorization.k8s.io/v1/subjectaccessreviews"]) == ["post"]
    assert not any(path.endswith("{name}") for path in access["paths"])


def test_a_kind_can_be_explained_down_to_its_plain_values() -> None:
    assert explained("api/v1", "Pod", "spec")["required"] == ["containers"]
    assert "livenessProbe" in explained("api/v1", "Pod", "spec", "containers")["properties"]
    assert explained("api/v1", "Pod", "spec", "containers", "env", "value") == {"type": "string"}
    assert "matchLabels" in explained("apis/apps/v1", "Deployment", "spec", "selector")["properties"]
    assert explained("api/v1", "Node", "status", "capacity") == {"oneOf": [{"type": "string"}, {"type": "number"}]}
    assert explained("apis/batch/v1", "Job", "status", "startTime")["format"] == "date-time"


def test_how_lists_are_merged() -> None:
    spec = schemas("api/v1")["io.k8s.api.core.v1.PodSpec"]["properties"]
    meta = schemas("api/v1")["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"]["properties"]
    rules = {key.removeprefix("x-kubernetes-"): value for key, value in spec["volumes"].items() if key[0] == "x"}
    assert rules == {
        "list-type": "map",
        "list-map-keys": ["name"],
        "patch-merge-key": "name",
        "patch-strategy": "merge,retainKeys",
    }
    assert spec["tolerations"]["x-kubernetes-list-type"] == "atomic"
    assert "x-kubernetes-patch-strategy" not in spec["tolerations"]
    assert spec["nodeSelector"]["x-kubernetes-map-type"] == "atomic"
    assert meta["finalizers"]["x-kubernetes-list-type"] == "set"
    assert meta["finalizers"]["x-kubernetes-patch-strategy"] == "merge"


def test_what_is_replaced_or_retained_besides_lists() -> None:
    deployment = schemas("apis/apps/v1")["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]
    budget = schemas("apis/policy/v1")["io.k8s.api.policy.v1.PodDisruptionBudgetSpec"]["properties"]
    assert deployment["strategy"] == {
        "allOf": [{"$ref": f"{SCHEMAS}io.k8s.api.apps.v1.DeploymentStrategy"}],
        "description": "How old pods are replaced: RollingUpdate or Recreate.",
        "x-kubernetes-patch-strategy": "retainKeys",
    }
    assert budget["selector"]["x-kubernetes-patch-strategy"] == "replace"


def test_schemas_are_named_like_upstreams() -> None:
    assert "io.k8s.api.core.v1.Pod" in schemas("api/v1")
    assert "io.k8s.api.scheduling.v1.PriorityClass" in schemas("apis/scheduling.k8s.io/v1")
    assert "io.k8s.apimachinery.pkg.api.resource.Quantity" in schemas("api/v1")


def test_the_hash_is_that_of_the_content() -> None:
    paths = openapi.index()["paths"]
    assert paths == openapi.index()["paths"]
    assert len({line["serverRelativeURL"].partition("?")[2] for line in paths.values()}) == len(paths)


def test_documents_are_made_once() -> None:
    assert openapi.document("api/v1") is openapi.document("api/v1")


def test_a_document_that_is_not_there() -> None:
    assert openapi.document("apis/nope/v1") is None


def test_every_description_is_of_a_field_that_there_is() -> None:
    for name, field in descriptions():
        assert name in table().types, name
        assert not field or field in fields_of(name), (name, field)
    assert all(text.endswith(".") and text[0].isupper() for text in descriptions().values())


def test_explain_finds_the_descriptions() -> None:
    schemas = (openapi.document("api/v1") or {})["components"]["schemas"]
    pod_spec = schemas["io.k8s.api.core.v1.PodSpec"]
    assert pod_spec["description"].startswith("What is to run in a pod")
    assert pod_spec["properties"]["affinity"] == {
        "allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.Affinity"}],
        "description": "Rules about nodes and about other pods, required or preferred.",
    }
