"""NoExecute taints drive pods away: at once, later, or never, and not if they are lifted in time."""

from typing import Any

import pytest

from living_cluster import LivingCluster


@pytest.fixture
def cluster() -> LivingCluster:
    cluster = LivingCluster()
    cluster.node("node")
    return cluster


def taint(cluster: LivingCluster, *taints: str) -> None:
    written = [{"key": key, "effect": "NoExecute"} for key in taints]
    cluster.change("nodes", "node", lambda node: {**node, "spec": {**node["spec"], "taints": written}})


def tolerating(key: str, seconds: int | None = None) -> dict[str, Any]:
    limit = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"tolerations": [{"key": key, "operator": "Exists", "effect": "NoExecute", **limit}]}


def is_leaving(cluster: LivingCluster, pod: str = "pod") -> bool:
    found = cluster.find("pods", pod)
    return found is None or "deletionTimestamp" in found["metadata"]


def test_a_pod_that_does_not_tolerate_the_taint_goes_at_once(cluster: LivingCluster) -> None:
    cluster.pod(node="node", annotations={"stop-seconds": 20})
    taint(cluster, "broken")
    assert is_leaving(cluster)
    assert cluster.condition("pods", "pod", "DisruptionTarget") == "True DeletionByTaintManager"
    assert cluster.events("TaintManagerEviction") == ["Marking for deletion Pod default/pod"]


def test_a_pod_that_comes_to_a_tainted_node_goes_too(cluster: LivingCluster) -> None:
    taint(cluster, "broken")
    cluster.pod(node="node")
    assert is_leaving(cluster)


def test_a_pod_that_tolerates_it_stays(cluster: LivingCluster) -> None:
    cluster.pod(node="node", **tolerating("broken"))
    taint(cluster, "broken")
    cluster.wait(3600)
    assert not is_leaving(cluster)


def test_one_taint_that_is_not_tolerated_is_enough(cluster: LivingCluster) -> None:
    cluster.pod(node="node", **tolerating("broken"))
    taint(cluster, "broken", "burning")
    assert is_leaving(cluster)


def test_limited_toleration_runs_out(cluster: LivingCluster) -> None:
    cluster.pod(node="node", **tolerating("broken", 60))
    taint(cluster, "broken")
    cluster.wait(59)
    assert not is_leaving(cluster)
    cluster.wait(1)
    assert is_leaving(cluster)


def test_a_taint_lifted_in_time_does_no_harm_and_the_time_starts_anew(cluster: LivingCluster) -> None:
    cluster.pod(node="node", **tolerating("broken", 60))
    taint(cluster, "broken")
    cluster.wait(59)
    taint(cluster)
    cluster.wait(100)
    assert not is_leaving(cluster)
    assert cluster.events("TaintManagerEviction") == ["Cancelling deletion of Pod default/pod"]
    taint(cluster, "broken")
    cluster.wait(59)
    assert not is_leaving(cluster)
    cluster.wait(1)
    assert is_leaving(cluster)


def test_pods_leave_a_dead_node_after_five_minutes_but_stay_until_it_recovers(cluster: LivingCluster) -> None:
    cluster.pod(node="node")
    cluster.annotate("nodes", "node", failed="true")
    cluster.wait(15 + 299)
    assert not is_leaving(cluster)
    cluster.wait(2)
    assert is_leaving(cluster)
    cluster.wait(3600)
    assert cluster.find("pods", "pod") is not None
    cluster.annotate("nodes", "node", failed="false")
    assert cluster.find("pods", "pod") is None
