"""OpenAPI: what kubectl looks for before it sends a manifest, looked for in the same way."""

import pytest

from mooring.api import openapi
from mooring.api.resources import RESOURCES, Resource


def parameters_of_patch(resource: Resource) -> set[str]:
    """kubectl's way: follow the index to the group's document, and take the PATCH that names the kind."""
    path = resource.path.removeprefix("/")
    assert openapi.index()["paths"][path]["serverRelativeURL"].startswith(f"/openapi/v3/{path}?hash=")
    made = openapi.document(path)
    assert made is not None
    wanted = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    patches = [item["patch"] for item in made["paths"].values() if "patch" in item]
    (found,) = (patch for patch in patches if patch["x-kubernetes-group-version-kind"] == wanted)
    return {parameter["name"] for parameter in found["parameters"] if parameter["in"] == "query"}


@pytest.mark.parametrize("resource", RESOURCES.values(), ids=lambda resource: f"{resource.group}/{resource.plural}")
def test_every_kind_takes_validation_and_dry_runs(resource: Resource) -> None:
    assert {"fieldValidation", "dryRun"} <= parameters_of_patch(resource)


def test_the_paths_are_those_that_are_served() -> None:
    core, storage = openapi.document("api/v1"), openapi.document("apis/storage.k8s.io/v1")
    assert core is not None
    assert storage is not None
    assert list(core["paths"]["/api/v1/namespaces/{namespace}/pods"]) == ["post"]
    assert list(core["paths"]["/api/v1/nodes/{name}"]) == ["put", "patch"]
    assert "/apis/storage.k8s.io/v1/storageclasses/{name}" in storage["paths"]


def test_kubectl_is_not_led_to_merge_by_empty_schemas() -> None:
    core = openapi.document("api/v1")
    assert core is not None
    assert all("requestBody" not in item.get("patch", {}) for item in core["paths"].values())


def test_schemas_are_named_like_upstreams() -> None:
    core, scheduling = openapi.document("api/v1"), openapi.document("apis/scheduling.k8s.io/v1")
    assert core is not None
    assert scheduling is not None
    assert "io.k8s.api.core.v1.Pod" in core["components"]["schemas"]
    assert list(scheduling["components"]["schemas"]) == ["io.k8s.api.scheduling.v1.PriorityClass"]


def test_the_hash_is_that_of_the_content() -> None:
    paths = openapi.index()["paths"]
    assert paths == openapi.index()["paths"]
    assert len({line["serverRelativeURL"].partition("?")[2] for line in paths.values()}) == len(paths)


def test_a_document_that_is_not_there() -> None:
    assert openapi.document("apis/nope/v1") is None
