"""Pod groups with claims in the embedded cluster, from the first pod to the end of the group."""

from typing import Any

import pytest

from mooring.embedded.embedded_cluster import EmbeddedSettings
from mooring.framework import config
from virtual_cluster import VirtualCluster

API = "/apis/resource.k8s.io/v1"
CLAIMS = f"{API}/namespaces/default/resourceclaims"
TEMPLATES = f"{API}/namespaces/default/resourceclaimtemplates"
GROUPS = "/apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups"
PODS = "/api/v1/namespaces/default/pods"
GATES = {"GenericWorkload": True, "DRAWorkloadResourceClaims": True}
ASKED = {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}}
JsonObject = dict[str, Any]


def a_cluster(**gates: bool) -> VirtualCluster:
    """Two nodes, and two devices on the first."""
    chosen = gates or GATES
    cluster = VirtualCluster(EmbeddedSettings(config.default(feature_gates=chosen), gates=chosen))
    for name in ("a", "b"):
        cluster.node(name, cpu="32")
    spec = {
        "driver": "gpu.example.com",
        "nodeName": "a",
        "pool": {"name": "a", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "d0"}, {"name": "d1"}],
    }
    cluster.ask("POST", f"{API}/resourceslices", {"metadata": {"name": "a"}, "spec": spec})
    cluster.ask("POST", f"{API}/deviceclasses", {"metadata": {"name": "gpu"}, "spec": {}})
    return cluster


def claim(cluster: VirtualCluster, name: str) -> None:
    cluster.ask("POST", CLAIMS, {"metadata": {"name": name}, "spec": ASKED})


def group(cluster: VirtualCluster, policy: JsonObject, *claims: JsonObject) -> str:
    """Its uid."""
    spec = {"schedulingPolicy": policy, "resourceClaims": [*claims]}
    made = cluster.ask("POST", GROUPS, {"metadata": {"name": "gang"}, "spec": spec})
    uid: str = made["metadata"]["uid"]
    return uid


def member(cluster: VirtualCluster, name: str, *claims: JsonObject) -> str:
    made = cluster.pod(name, resourceClaims=[*claims], schedulingGroup={"podGroupName": "gang"})
    uid: str = made["metadata"]["uid"]
    return uid


def users(cluster: VirtualCluster, name: str) -> list[str]:
    status = cluster.ask("GET", f"{CLAIMS}/{name}").get("status", {})
    return [each["uid"] for each in status.get("reservedFor", ())]


def named(name: str) -> JsonObject:
    return {"name": name, "resourceClaimName": name}


def end(cluster: VirtualCluster, path: str) -> None:
    cluster.ask("DELETE", path, gracePeriodSeconds="0")
    cluster.wait(60)


def test_a_claim_of_the_group_and_a_claim_of_its_pods_from_beginning_to_end() -> None:
    cluster = a_cluster()
    claim(cluster, "own")
    claim(cluster, "groups")
    uid = group(cluster, {"basic": {}}, named("groups"))
    first = member(cluster, "one", named("own"), named("groups"))
    cluster.wait(5)
    assert (users(cluster, "own"), users(cluster, "groups")) == ([first], [uid])
    second = member(cluster, "two", named("own"), named("groups"))
    cluster.wait(5)
    assert (users(cluster, "own"), users(cluster, "groups")) == ([first, second], [uid])
    assert (cluster.place("one"), cluster.place("two")) == ("a", "a")
    end(cluster, f"{PODS}/one")
    assert (users(cluster, "own"), users(cluster, "groups")) == ([second], [uid])
    end(cluster, f"{PODS}/two")
    assert (users(cluster, "own"), users(cluster, "groups")) == ([], [uid])
    end(cluster, f"{GROUPS}/gang")
    assert users(cluster, "groups") == []
    assert "allocation" not in cluster.ask("GET", f"{CLAIMS}/groups").get("status", {})


def test_a_claim_that_the_cluster_makes_for_a_gang_serves_all_members() -> None:
    cluster = a_cluster()
    cluster.ask("POST", TEMPLATES, {"metadata": {"name": "t"}, "spec": {"spec": ASKED}})
    entry = {"name": "shared", "resourceClaimTemplateName": "t"}
    uid = group(cluster, {"gang": {"minCount": 3}}, entry)
    for name in ("one", "two", "three"):
        member(cluster, name, entry)
    cluster.wait(5)
    assert {cluster.place(name) for name in ("one", "two", "three")} == {"a"}
    (made,) = cluster.ask("GET", CLAIMS)["items"]
    assert users(cluster, made["metadata"]["name"]) == [uid]
    for name in ("one", "two", "three"):
        end(cluster, f"{PODS}/{name}")
    end(cluster, f"{GROUPS}/gang")
    assert cluster.ask("GET", CLAIMS)["items"] == []


@pytest.mark.parametrize("gates", [{}, {"GenericWorkload": True}], ids=["defaults", "groups"])
def test_without_the_gate_claims_are_the_pods(gates: dict[str, bool]) -> None:
    cluster = a_cluster(**(gates or {"GenericWorkload": False}))
    claim(cluster, "groups")
    group(cluster, {"basic": {}}, named("groups"))
    assert "resourceClaims" not in cluster.ask("GET", f"{GROUPS}/gang")["spec"]
    pods = {member(cluster, name, named("groups")) for name in ("one", "two")}
    cluster.wait(5)
    assert set(users(cluster, "groups")) == pods
