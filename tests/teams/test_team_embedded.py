"""TeamQueues on the embedded cluster: victims take their time to leave, and controllers make others instead of them."""

from typing import Any

from team_queues import TeamQueues

from mooring.embedded.embedded_cluster import EmbeddedSettings
from mooring.framework import config
from mooring.plugins import in_tree
from team_stage import a_team, configured
from virtual_cluster import VirtualCluster

CONTAINER = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}


def a_cluster(*teams: dict[str, Any]) -> VirtualCluster:
    registry = in_tree()
    registry.register(TeamQueues)
    cluster = VirtualCluster(EmbeddedSettings(config.from_object(configured(*teams)), registry))
    for team in teams:
        cluster.ask("POST", "/api/v1/namespaces", {"metadata": {"name": team["name"]}})
    return cluster


def deploy(cluster: VirtualCluster, team: str, name: str, replicas: int) -> None:
    metadata = {"labels": {"app": name}, "annotations": {"mooring.dev/stop-seconds": "20"}}
    template = {"metadata": metadata, "spec": {"containers": [CONTAINER]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "template": template}
    path = f"/apis/apps/v1/namespaces/{team}/deployments"
    cluster.ask("POST", path, {"metadata": {"name": name}, "spec": spec})


def pods_of(cluster: VirtualCluster, team: str) -> list[dict[str, Any]]:
    return [pod for pod in cluster.api.store.all("/pods") if pod["metadata"]["namespace"] == team]


def on_nodes(cluster: VirtualCluster, team: str) -> int:
    return sum(bool(pod["spec"].get("nodeName")) for pod in pods_of(cluster, team))


def leaving(cluster: VirtualCluster, team: str) -> int:
    return sum("deletionTimestamp" in pod["metadata"] for pod in pods_of(cluster, team))


def test_quota_is_given_back_once_while_victims_terminate() -> None:
    cluster = a_cluster(a_team("a", "2"), a_team("b", "2"))
    cluster.node("n-1", cpu="4")
    deploy(cluster, "a", "flood", 5)
    cluster.wait(10)
    assert (on_nodes(cluster, "a"), len(pods_of(cluster, "a"))) == (4, 5)
    deploy(cluster, "b", "owner", 1)
    cluster.wait(2)
    assert leaving(cluster, "a") == 1
    deploy(cluster, "b", "more", 3)
    most = 0
    for _ in range(20):
        cluster.wait(1)
        most = max(most, leaving(cluster, "a"))
        assert on_nodes(cluster, "a") - leaving(cluster, "a") >= 2, "the quota of a"
    assert most == 2
    cluster.wait(120)
    assert (on_nodes(cluster, "a"), on_nodes(cluster, "b")) == (2, 2)
    assert (len(pods_of(cluster, "a")), len(pods_of(cluster, "b"))) == (5, 4), "the others wait"


def test_the_quota_is_borrowed_again_when_it_is_not_needed() -> None:
    cluster = a_cluster(a_team("a", "2"), a_team("b", "2"))
    cluster.node("n-1", cpu="4")
    deploy(cluster, "b", "owner", 2)
    deploy(cluster, "a", "flood", 5)
    cluster.wait(30)
    assert (on_nodes(cluster, "a"), on_nodes(cluster, "b")) == (2, 2)
    cluster.ask("DELETE", "/apis/apps/v1/namespaces/b/deployments/owner")
    cluster.wait(120)
    assert (on_nodes(cluster, "a"), on_nodes(cluster, "b")) == (4, 0)


def run_pod(cluster: VirtualCluster, team: str, name: str, cpu: str, **spec: Any) -> None:
    container = {**CONTAINER, "resources": {"requests": {"cpu": cpu}}}
    metadata = {"name": name, "annotations": {"mooring.dev/stop-seconds": "20"}}
    body = {"metadata": metadata, "spec": {"containers": [container], **spec}}
    cluster.ask("POST", f"/api/v1/namespaces/{team}/pods", body)


def test_what_leaves_for_one_team_is_not_to_spare_for_another() -> None:
    cluster = a_cluster(a_team("a", "2"), a_team("b", "2"), a_team("c", "2"))
    for name in ("n-1", "n-2"):
        cluster.node(name, cpu="2")
    for name in ("a-1", "a-2"):
        run_pod(cluster, "a", name, "2")
    cluster.wait(5)
    run_pod(cluster, "b", "b-1", "1")
    cluster.wait(5)
    run_pod(cluster, "c", "c-1", "2")
    cluster.wait(5)
    assert leaving(cluster, "a") == 1
    cluster.wait(120)
    assert [on_nodes(cluster, team) for team in "abc"] == [1, 1, 0]


def test_a_team_reclaims_up_to_its_quota_while_its_pods_wait_for_victims() -> None:
    """The second pod of `b` was admitted on borrowed quota: it reclaims nothing."""
    cluster = a_cluster(a_team("a", "0"), a_team("b", "1"), a_team("c", "3"))
    cluster.node("n-1", cpu="2")
    for name in ("a-1", "a-2"):
        run_pod(cluster, "a", name, "1")
    cluster.wait(5)
    for name in ("b-1", "b-2"):
        run_pod(cluster, "b", name, "1")
    cluster.wait(15)
    assert leaving(cluster, "a") == 1
    cluster.wait(120)
    assert [on_nodes(cluster, team) for team in "ab"] == [1, 1]
