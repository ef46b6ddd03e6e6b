"""What the status of a disruption budget says, as its pods and their owners change."""

from typing import Any

import pytest

from living_cluster import LivingCluster
from mooring.api.json_objects import JsonObject

SELECTOR = {"matchLabels": {"app": "web"}}


@pytest.fixture
def cluster() -> LivingCluster:
    cluster = LivingCluster()
    cluster.node("node")
    return cluster


def own(item: JsonObject) -> dict[str, Any]:
    meta = item["metadata"]
    reference = {"apiVersion": item["apiVersion"], "kind": item["kind"], "name": meta["name"], "uid": meta["uid"]}
    return {"ownerReferences": [{**reference, "controller": True}]}


def a_set(cluster: LivingCluster, replicas: int, metadata: dict[str, Any] | None = None) -> JsonObject:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    spec = {"replicas": replicas, "selector": SELECTOR, "template": template}
    return cluster.create("replicasets", "web", {"metadata": metadata or {}, "spec": spec})


def a_budget(cluster: LivingCluster, **limit: Any) -> None:
    cluster.create("poddisruptionbudgets", "budget", {"spec": {"selector": SELECTOR, **limit}})


def pods(cluster: LivingCluster, ready: int, unready: int = 0, **metadata: Any) -> None:
    for i in range(ready + unready):
        node = "node" if i < ready else ""
        cluster.pod(f"pod-{i}", node=node, labels={"app": "web"}, metadata=metadata)
    cluster.wait(1)


def counts(cluster: LivingCluster) -> tuple[int, int, int, int]:
    """Expected, healthy, desired, allowed."""
    status = cluster.status("poddisruptionbudgets", "budget")
    names = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")
    expected, healthy, desired, allowed = (status[name] for name in names)
    return expected, healthy, desired, allowed


LIMITS = {
    "a number of pods that must stay": ({"minAvailable": 2}, 3, (4, 3, 2, 1)),
    "a part that must stay, of what the owner wants": ({"minAvailable": "30%"}, 8, (8, 3, 3, 0)),
    "a number that may go": ({"maxUnavailable": 2}, 4, (4, 3, 2, 1)),
    "a part that may go": ({"maxUnavailable": "30%"}, 4, (4, 3, 2, 1)),
}


@pytest.mark.parametrize(("limit", "replicas", "expected"), LIMITS.values(), ids=LIMITS.keys())
def test_limits(
    cluster: LivingCluster, limit: dict[str, Any], replicas: int, expected: tuple[int, int, int, int]
) -> None:
    a_budget(cluster, **limit)
    pods(cluster, ready=3, unready=1, **own(a_set(cluster, replicas)))
    assert counts(cluster) == expected
    reason = "True SufficientPods" if expected[3] else "False InsufficientPods"
    assert cluster.condition("poddisruptionbudgets", "budget", "DisruptionAllowed") == reason
    assert cluster.status("poddisruptionbudgets", "budget")["observedGeneration"] == 1


def test_a_budget_made_after_its_pods_counts_them(cluster: LivingCluster) -> None:
    pods(cluster, ready=3)
    a_budget(cluster, minAvailable=1)
    assert counts(cluster) == (3, 3, 1, 2)


def test_pods_that_go_or_are_relabelled_no_longer_count(cluster: LivingCluster) -> None:
    a_budget(cluster, minAvailable=1)
    pods(cluster, ready=3)
    cluster.delete("pods", "pod-0")
    cluster.wait(5)
    assert counts(cluster) == (2, 2, 1, 1)
    cluster.change("pods", "pod-1", lambda pod: {**pod, "metadata": {**pod["metadata"], "labels": {}}})
    cluster.wait(1)
    assert counts(cluster) == (1, 1, 1, 0)


def test_the_scale_is_that_of_the_deployment_above(cluster: LivingCluster) -> None:
    template = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    spec = {"replicas": 10, "selector": SELECTOR, "template": template}
    deployment = cluster.create("deployments", "web", {"spec": spec})
    a_budget(cluster, maxUnavailable=8)
    pods(cluster, ready=3, **own(a_set(cluster, 4, own(deployment))))
    assert counts(cluster) == (10, 3, 2, 1)
    cluster.change("deployments", "web", lambda item: {**item, "spec": {**item["spec"], "replicas": 9}})
    cluster.wait(1)
    assert counts(cluster) == (9, 3, 1, 2)


def test_without_a_scale_nothing_may_go(cluster: LivingCluster) -> None:
    a_budget(cluster, maxUnavailable=1)
    owner = {"apiVersion": "v1", "kind": "Node", "name": "node", "uid": cluster.get("nodes", "node")["metadata"]["uid"]}
    pods(cluster, ready=2, ownerReferences=[{**owner, "controller": True}])
    assert cluster.status("poddisruptionbudgets", "budget")["disruptionsAllowed"] == 0
    assert cluster.condition("poddisruptionbudgets", "budget", "DisruptionAllowed") == "False SyncFailed"


def test_an_evicted_pod_does_not_count_until_two_minutes_have_passed(cluster: LivingCluster) -> None:
    a_budget(cluster, minAvailable=1)
    pods(cluster, ready=3)
    evicted = {"pod-0": cluster.api.now(), "unknown": cluster.api.now()}
    cluster.change(
        *("poddisruptionbudgets", "budget"),
        lambda budget: {**budget, "status": {**budget["status"], "disruptedPods": evicted}},
        "status",
    )
    cluster.wait(1)
    assert counts(cluster) == (3, 2, 1, 1)
    assert set(cluster.status("poddisruptionbudgets", "budget")["disruptedPods"]) == {"pod-0"}
    cluster.wait(120)
    assert counts(cluster) == (3, 3, 1, 2)
    assert "disruptedPods" not in cluster.status("poddisruptionbudgets", "budget")


def test_an_unchanged_budget_is_not_written_again(cluster: LivingCluster) -> None:
    a_budget(cluster, minAvailable=1)
    pods(cluster, ready=2)
    version = cluster.get("poddisruptionbudgets", "budget")["metadata"]["resourceVersion"]
    cluster.annotate("pods", "pod-0", note="x")
    cluster.wait(5)
    assert cluster.get("poddisruptionbudgets", "budget")["metadata"]["resourceVersion"] == version
