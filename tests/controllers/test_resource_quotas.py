"""ResourceQuotas say what is used, after creations, completions, deletions and changes."""

from typing import Any

import pytest

from mooring.embedded.embedded_cluster import EmbeddedSettings
from virtual_cluster import VirtualCluster

QUOTAS = "/api/v1/namespaces/default/resourcequotas"
DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"


@pytest.fixture
def cluster() -> VirtualCluster:
    cluster = VirtualCluster(EmbeddedSettings())
    cluster.node("node", cpu="16")
    return cluster


def a_quota(cluster: VirtualCluster, **hard: str) -> None:
    written = {name.replace("_", "."): amount for name, amount in hard.items()}
    cluster.ask("POST", QUOTAS, {"metadata": {"name": "quota"}, "spec": {"hard": written}})


def status(cluster: VirtualCluster) -> Any:
    cluster.wait(0.1)
    return cluster.ask("GET", f"{QUOTAS}/quota")["status"]


def test_usage_follows_the_pods(cluster: VirtualCluster) -> None:
    a_quota(cluster, cpu="4", pods="3")
    assert status(cluster) == {"hard": {"cpu": "4", "pods": "3"}, "used": {"cpu": "0", "pods": "0"}}
    cluster.pod("stays", cpu="1")
    cluster.pod("ends", cpu="2", restartPolicy="Never", metadata={"annotations": {"mooring.dev/run-seconds": "5"}})
    assert status(cluster)["used"] == {"cpu": "3", "pods": "2"}
    cluster.wait(5)
    assert status(cluster)["used"] == {"cpu": "1", "pods": "1"}
    cluster.ask("DELETE", "/api/v1/namespaces/default/pods/stays")
    cluster.wait(2)
    assert status(cluster)["used"] == {"cpu": "0", "pods": "0"}
    cluster.merge(f"{QUOTAS}/quota", {"spec": {"hard": {"cpu": None, "count/configmaps": "5"}}})
    assert status(cluster)["used"] == {"pods": "0", "count/configmaps": "1"}  # that of the root certificate


def test_a_deployment_gets_as_many_pods_as_the_quota_allows(cluster: VirtualCluster) -> None:
    a_quota(cluster, pods="3")
    template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "x"}]}}
    spec = {"replicas": 5, "selector": {"matchLabels": {"a": "b"}}, "template": template}
    cluster.ask("POST", DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": spec})
    cluster.wait(5)
    assert status(cluster)["used"] == {"pods": "3"}
    assert len(cluster.api.store.all("/pods")) == 3
    (event, *_) = cluster.events("FailedCreate")
    assert "exceeded quota: quota, requested: pods=1, used: pods=3, limited: pods=3" in event["message"]
    (held,) = cluster.api.store.all("apps/replicasets")
    assert [(c["type"], c["reason"]) for c in held["status"]["conditions"]] == [("ReplicaFailure", "FailedCreate")]
    cluster.merge(f"{QUOTAS}/quota", {"spec": {"hard": {"pods": "5"}}})
    cluster.wait(120)
    assert len(cluster.api.store.all("/pods")) == 5


def test_a_pod_that_is_stuck_ceases_to_count_in_time(cluster: VirtualCluster) -> None:
    a_quota(cluster, pods="3")
    cluster.pod("p", terminationGracePeriodSeconds=10)
    cluster.merge("/api/v1/nodes/node", {"metadata": {"annotations": {"mooring.dev/failed": "true"}}})
    cluster.ask("DELETE", "/api/v1/namespaces/default/pods/p")
    cluster.wait(15)
    assert status(cluster)["used"] == {"pods": "1"}
    cluster.wait(10)
    assert status(cluster)["used"] == {"pods": "0"}
    assert cluster.find("p") is not None
