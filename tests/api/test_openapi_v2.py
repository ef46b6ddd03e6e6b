"""The OpenAPI v2 document: complete in itself, and of the form that each client asks for."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from asking import ask
from cluster_api import an_api
from mooring.api.kinds import RESOURCES
from mooring.api.schema.openapi import V2_PROTOBUF as PROTOBUF

PATH = "/openapi/v2"
KUBECTL_ACCEPTS = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


def the_document() -> Any:
    reply = ask(an_api(), "GET", PATH)
    assert (reply.code, reply.content_type) == (200, "application/json")
    return json.loads(json.dumps(reply.body))


def everything_in(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key, inner
            yield from everything_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from everything_in(inner)


def test_the_document_is_complete_and_of_its_version() -> None:
    document = the_document()
    assert (document["swagger"], document["info"]["title"]) == ("2.0", "Kubernetes")
    for key, value in everything_in(document):
        assert key not in ("oneOf", "allOf", "requestBody", "components"), "v2 does not know these"
        if key == "$ref":
            assert value.removeprefix("#/definitions/") in document["definitions"]
    for item in document["paths"].values():
        for operation in item.values():
            parameters = operation if isinstance(operation, list) else operation["parameters"]
            assert all(p["in"] == "body" or "type" in p for p in parameters)
            assert all(("schema" in p) == (p["in"] == "body") for p in parameters)


def test_every_served_kind_can_be_patched_with_validation() -> None:
    patched = {
        tuple(item["patch"]["x-kubernetes-group-version-kind"][key] for key in ("group", "version", "kind")): item
        for item in the_document()["paths"].values()
        if "patch" in item
    }
    assert patched.keys() == {(r.group, r.version, r.kind) for r in RESOURCES.values()}
    for item in patched.values():
        assert "fieldValidation" in {parameter["name"] for parameter in item["patch"]["parameters"]}
        assert "application/merge-patch+json" in item["patch"]["consumes"]


def test_a_field_has_its_type_and_the_rules_of_its_merging() -> None:
    spec = the_document()["definitions"]["io.k8s.api.core.v1.PodSpec"]
    containers = spec["properties"]["containers"]
    assert containers["items"] == {"$ref": "#/definitions/io.k8s.api.core.v1.Container"}
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert spec["required"] == ["containers"]


@pytest.mark.parametrize("accept", [KUBECTL_ACCEPTS, PROTOBUF, f"application/json;q=0.5, {KUBECTL_ACCEPTS}"])
def test_whoever_names_protobuf_gets_it(accept: str) -> None:
    reply = ask(an_api(), "GET", PATH, accept=accept)
    assert (reply.code, reply.content_type) == (200, PROTOBUF)
    assert reply.body == b"\n\x032.0\x12\x12\n\nKubernetes\x12\x041.37"


def test_other_forms_cannot_be_had() -> None:
    assert ask(an_api(), "GET", PATH, accept="text/html").code == 406
    assert ask(an_api(), "GET", PATH, accept="*/*").content_type == "application/json"
