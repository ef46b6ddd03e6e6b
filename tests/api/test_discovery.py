"""Discovery, against what a real kube-apiserver announces for the kinds that are served here too."""

import json
from pathlib import Path
from typing import Any

import pytest

from mooring.api.kinds import RESOURCES
from mooring.api.schema import discovery
from mooring.kit.version import VERSION

RECORDED: dict[str, list[dict[str, Any]]] = json.loads((Path(__file__).parent / "data/discovery.json").read_text())
PATHS = [path for path in RECORDED if path.startswith("/")]


@pytest.mark.parametrize("path", PATHS)
def test_the_kinds_of_a_group_are_announced_as_upstream_does(path: str) -> None:
    made = discovery.document(path)
    assert made is not None
    assert made["resources"] == RECORDED[path]
    assert made["groupVersion"] == path.removeprefix("/apis/").removeprefix("/api/")


def test_only_the_core_list_goes_without_api_version() -> None:
    assert [path for path in PATHS if "apiVersion" not in (discovery.document(path) or {})] == ["/api/v1"]


def test_the_aggregated_form_of_the_core_group() -> None:
    made = discovery.document("/api", aggregated=True)
    assert made is not None
    assert (made["kind"], made["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    (version,) = made["items"][0]["versions"]
    assert (made["items"][0]["metadata"], version["version"], version["freshness"]) == ({}, "v1", "Current")
    recorded = RECORDED["aggregated /api"]
    names = {line["resource"] for line in recorded}
    assert [line for line in version["resources"] if line["resource"] in names] == recorded


def test_the_aggregated_form_of_the_other_groups_names_them() -> None:
    made = discovery.document("/apis", aggregated=True)
    assert made is not None
    kinds = {
        (item["metadata"]["name"], version["version"], line["resource"])
        for item in made["items"]
        for version in item["versions"]
        for line in version["resources"]
    }
    assert {key for key in RESOURCES if key[0]} <= kinds


def test_the_versions_of_the_core_group() -> None:
    assert discovery.document("/api", address="127.0.0.1:26543") == {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "127.0.0.1:26543"}],
    }


def test_one_group() -> None:
    version = {"groupVersion": "apps/v1", "version": "v1"}
    group = {"name": "apps", "versions": [version], "preferredVersion": version}
    assert discovery.document("/apis/apps") == {"kind": "APIGroup", "apiVersion": "v1"} | group
    listed = discovery.document("/apis")
    assert listed is not None
    assert (listed["kind"], listed["apiVersion"]) == ("APIGroupList", "v1")
    assert group in listed["groups"]


def test_v137_1_1_a_group_with_three_versions_prefers_the_stable_one() -> None:
    group = discovery.document("/apis/scheduling.k8s.io")
    assert group is not None
    assert [version["version"] for version in group["versions"]] == ["v1", "v1beta1", "v1alpha3"]
    assert group["preferredVersion"]["version"] == "v1"
    kinds = {
        version: [
            line["kind"] for line in (discovery.document(f"/apis/scheduling.k8s.io/{version}") or {})["resources"]
        ]
        for version in ("v1", "v1beta1", "v1alpha3")
    }
    assert kinds == {
        "v1": ["PriorityClass"],
        "v1beta1": ["PodGroup", "PodGroup", "Workload"],
        "v1alpha3": ["CompositePodGroup", "CompositePodGroup", "PodGroup", "PodGroup", "Workload"],
    }
    assert discovery.document("/apis/scheduling.k8s.io/v1alpha2") is None


def test_every_listed_group_has_its_document() -> None:
    for group in (discovery.document("/apis") or {})["groups"]:
        for version in group["versions"]:
            assert discovery.document(f"/apis/{version['groupVersion']}") is not None


def test_the_version_is_that_of_the_emulated_release_and_names_this_program() -> None:
    made = discovery.document("/version")
    assert made is not None
    assert (made["major"], made["minor"], made["gitVersion"]) == ("1", "37", f"v1.37.0+mooring-{VERSION}")


@pytest.mark.parametrize("path", ["/", "/apis/nope", "/apis/nope/v1", "/api/v2", "/apis//v1", "/api/v1/pods"])
def test_a_path_that_is_not_there(path: str) -> None:
    assert discovery.document(path) is None
