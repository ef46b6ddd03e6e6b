"""Dependents go with their owners, before them, or not at all, as the deletion asks."""

from typing import Any

import pytest

from living_cluster import LivingCluster
from mooring.api.json_objects import JsonObject
from mooring.apiserver.admission.object_meta import Deletion, Propagation
from mooring.controllers.lifecycle.garbage import FinishedPods, Garbage


@pytest.fixture
def cluster() -> LivingCluster:
    return LivingCluster(lambda api: [Garbage(api)])


def owned_by(*owners: JsonObject, blocks: bool = False) -> dict[str, Any]:
    """Metadata of a dependent."""
    references = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        for owner in owners
    ]
    return {"ownerReferences": [{**reference, "blockOwnerDeletion": blocks} for reference in references]}


def a_map(cluster: LivingCluster, name: str, *owners: JsonObject, blocks: bool = False, **metadata: Any) -> JsonObject:
    return cluster.create("configmaps", name, {"metadata": {**owned_by(*owners, blocks=blocks), **metadata}})


def left(cluster: LivingCluster) -> set[str]:
    return {item["metadata"]["name"] for item in cluster.api.store.all("/configmaps")}


def owners_of(cluster: LivingCluster, name: str) -> list[str]:
    references = cluster.get("configmaps", name)["metadata"].get("ownerReferences", ())
    return [reference["name"] for reference in references]


def test_a_whole_family_goes_with_its_head(cluster: LivingCluster) -> None:
    head = a_map(cluster, "head")
    child = a_map(cluster, "child", head)
    a_map(cluster, "grandchild", child)
    a_map(cluster, "stranger")
    cluster.delete("configmaps", "head")
    assert left(cluster) == {"stranger"}


def test_one_owner_that_stays_is_enough_and_the_other_is_forgotten(cluster: LivingCluster) -> None:
    first, second = a_map(cluster, "first"), a_map(cluster, "second")
    a_map(cluster, "child", first, second)
    cluster.delete("configmaps", "first")
    assert left(cluster) == {"second", "child"}
    assert owners_of(cluster, "child") == ["second"]
    cluster.delete("configmaps", "second")
    assert left(cluster) == set()


def test_a_dependent_that_comes_after_its_owner_went_goes_too(cluster: LivingCluster) -> None:
    owner = a_map(cluster, "owner")
    cluster.delete("configmaps", "owner")
    a_map(cluster, "late", owner)
    assert left(cluster) == set()


def test_an_owner_of_the_same_name_is_not_the_owner(cluster: LivingCluster) -> None:
    a_map(cluster, "child", a_map(cluster, "owner"))
    cluster.api.store.delete("/configmaps", ("default", "owner"))
    a_map(cluster, "owner")
    assert left(cluster) == {"owner"}


def test_orphans_stay_without_an_owner(cluster: LivingCluster) -> None:
    a_map(cluster, "child", a_map(cluster, "owner"))
    cluster.delete("configmaps", "owner", Deletion(propagation="Orphan"))
    assert left(cluster) == {"child"}
    assert owners_of(cluster, "child") == []


def test_foreground_waits_for_those_that_block(cluster: LivingCluster) -> None:
    owner = a_map(cluster, "owner")
    a_map(cluster, "slow", owner, blocks=True, finalizers=["example.com/slow"])
    a_map(cluster, "quick", owner, blocks=True)
    cluster.delete("configmaps", "owner", Deletion(propagation="Foreground"))
    assert left(cluster) == {"owner", "slow"}
    cluster.change("configmaps", "slow", lambda item: {**item, "metadata": {**item["metadata"], "finalizers": []}})
    assert left(cluster) == set()


@pytest.mark.parametrize("propagation", ["Foreground", "Background"])
def test_foreground_does_not_wait_for_those_that_do_not_block(cluster: LivingCluster, propagation: Propagation) -> None:
    owner = a_map(cluster, "owner")
    a_map(cluster, "slow", owner, finalizers=["example.com/slow"])
    cluster.delete("configmaps", "owner", Deletion(propagation=propagation))
    assert left(cluster) == {"slow"}
    assert "deletionTimestamp" in cluster.get("configmaps", "slow")["metadata"]


def test_foreground_goes_down_the_generations(cluster: LivingCluster) -> None:
    head = a_map(cluster, "head")
    child = a_map(cluster, "child", head, blocks=True)
    a_map(cluster, "slow", child, blocks=True, finalizers=["example.com/slow"])
    cluster.delete("configmaps", "head", Deletion(propagation="Foreground"))
    assert left(cluster) == {"head", "child", "slow"}
    cluster.change("configmaps", "slow", lambda item: {**item, "metadata": {**item["metadata"], "finalizers": []}})
    assert left(cluster) == set()


def test_who_joins_an_owner_that_already_waits_goes_too(cluster: LivingCluster) -> None:
    owner = a_map(cluster, "owner")
    a_map(cluster, "slow", owner, blocks=True, finalizers=["example.com/slow"])
    cluster.delete("configmaps", "owner", Deletion(propagation="Foreground"))
    a_map(cluster, "late", owner)
    assert left(cluster) == {"owner", "slow"}


def test_pods_of_a_node_that_is_gone_are_removed_after_a_while() -> None:
    cluster = LivingCluster()
    cluster.node("node")
    cluster.pod(node="node", metadata={"finalizers": ["example.com/look"]})
    cluster.pod("unlucky", node="never-there")
    cluster.delete("nodes", "node")
    cluster.wait(39)
    assert (cluster.phase(), cluster.phase("unlucky")) == ("Running", "Pending")
    cluster.wait(1)
    assert (cluster.phase(), cluster.phase("unlucky")) == ("Failed", "gone")
    assert cluster.condition("pods", "pod", "DisruptionTarget") == "True DeletionByPodGC"
    assert "deletionTimestamp" in cluster.get("pods", "pod")["metadata"]


def test_a_node_that_comes_back_in_time_keeps_its_pods() -> None:
    cluster = LivingCluster()
    cluster.node("node")
    cluster.pod(node="node")
    cluster.delete("nodes", "node")
    cluster.wait(30)
    cluster.node("node")
    cluster.wait(600)
    assert cluster.phase() == "Running"
    cluster.delete("nodes", "node")
    cluster.wait(39)
    assert cluster.phase() == "Running", "the next time is counted anew"


def test_only_so_many_finished_pods_are_kept_and_the_oldest_go() -> None:
    cluster = LivingCluster(lambda api: [FinishedPods(api, most=2)])
    for i in range(5):
        cluster.pod(f"pod-{i}")
        phase = "Running" if i == 1 else "Succeeded"
        cluster.change("pods", f"pod-{i}", lambda pod, phase=phase: {**pod, "status": {"phase": phase}}, "status")  # type: ignore[misc]
        cluster.wait(1)
    cluster.wait(30)
    assert {pod["metadata"]["name"] for pod in cluster.api.store.all("/pods")} == {"pod-1", "pod-3", "pod-4"}
