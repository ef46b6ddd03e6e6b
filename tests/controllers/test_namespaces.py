"""Namespaces are furnished when they begin and emptied before they end; events go after an hour."""

import pytest

from living_cluster import LivingCluster
from mooring.apiserver.admission.object_meta import Deletion
from mooring.controllers.cluster_writes import PODS
from mooring.controllers.lifecycle.garbage import EventExpiry


@pytest.fixture
def cluster() -> LivingCluster:
    return LivingCluster()


def test_every_namespace_has_its_account_and_certificate(cluster: LivingCluster) -> None:
    cluster.create("namespaces", "team")
    for namespace in ("default", "kube-system", "team"):
        assert cluster.find("serviceaccounts", "default", namespace)
        assert cluster.find("configmaps", "kube-root-ca.crt", namespace)


def test_what_is_deleted_of_it_comes_back(cluster: LivingCluster) -> None:
    old = cluster.get("serviceaccounts", "default")["metadata"]["uid"]
    cluster.delete("serviceaccounts", "default")
    assert cluster.get("serviceaccounts", "default")["metadata"]["uid"] != old


def test_a_namespace_goes_after_all_that_is_in_it(cluster: LivingCluster) -> None:
    cluster.node("node")
    cluster.create("namespaces", "team")
    pod = {"spec": {"nodeName": "node", "containers": [{"name": "main", "image": "x"}]}}
    cluster.create("pods", "pod", pod, "team")
    cluster.create("secrets", "secret", namespace="team")
    cluster.delete("namespaces", "team")
    assert cluster.status("namespaces", "team")["phase"] == "Terminating"
    assert cluster.find("secrets", "secret", "team") is None
    assert cluster.find("pods", "pod", "team"), "it has a second to stop"
    cluster.wait(3)
    assert cluster.find("pods", "pod", "team") is None
    assert cluster.find("namespaces", "team") is None
    assert [item for item in cluster.api.store.all("/configmaps") if item["metadata"]["namespace"] == "team"] == []


def test_the_pods_of_a_namespace_go_first(cluster: LivingCluster) -> None:
    cluster.create("namespaces", "team")
    cluster.create("pods", "pod", {"spec": {"containers": [{"name": "main", "image": "x"}]}}, "team")
    gone: list[str] = []
    cluster.api.store.listen(lambda write: gone.append(write.storage) if write.type == "DELETED" else None)
    cluster.delete("namespaces", "team")
    cluster.wait(3)
    assert gone[0] == "/pods"
    assert {"/configmaps", "/serviceaccounts"} < {*gone}
    assert gone[-1] == "/namespaces"


def test_a_large_namespace_goes_too(cluster: LivingCluster) -> None:
    cluster.create("namespaces", "team")
    for i in range(1200):
        made = {"metadata": {"name": f"p{i}"}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
        cluster.api.create(PODS, "team", made)
    cluster.delete("namespaces", "team", Deletion(propagation="Background"))
    cluster.wait(1)
    assert cluster.find("namespaces", "team") is None
    assert cluster.api.store.count("/pods") == 0


def test_a_finalizer_in_it_holds_the_namespace(cluster: LivingCluster) -> None:
    cluster.create("namespaces", "team")
    cluster.create("secrets", "secret", {"metadata": {"finalizers": ["example.com/hold"]}}, "team")
    cluster.delete("namespaces", "team")
    cluster.wait(60)
    assert cluster.find("namespaces", "team") is not None


def an_event(cluster: LivingCluster, name: str) -> None:
    cluster.create("events", name, {"involvedObject": {"kind": "Pod", "name": "x", "namespace": "default"}})


def names(cluster: LivingCluster) -> set[str]:
    return {event["metadata"]["name"] for event in cluster.api.store.all("events")}


def test_events_go_an_hour_after_their_last_write() -> None:
    cluster = LivingCluster(lambda api: [EventExpiry(api)])
    an_event(cluster, "repeated")
    an_event(cluster, "old")
    cluster.wait(1800)
    an_event(cluster, "young")
    cluster.change("events", "repeated", lambda event: {**event, "count": 2})
    cluster.wait(1799)
    assert names(cluster) == {"old", "repeated", "young"}
    cluster.wait(1)
    assert names(cluster) == {"repeated", "young"}
    cluster.wait(1800)
    assert names(cluster) == set()
    an_event(cluster, "new")
    cluster.wait(3600)
    assert names(cluster) == set()


def test_the_oldest_events_go_where_there_are_too_many() -> None:
    cluster = LivingCluster(lambda api: [EventExpiry(api, most=3)])
    for i in range(5):
        an_event(cluster, f"event-{i}")
    assert names(cluster) == {"event-2", "event-3", "event-4"}
