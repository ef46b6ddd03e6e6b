"""NoExecute taints drive pods away: at once, later, or never, and not if they are lifted in time."""

from typing import Any

import pytest

from living_cluster import LivingCluster
from mooring.controllers.nodes.node_lifecycle import tolerated_s
from mooring.model.node import Taint


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


# ---- tolerations that compare numbers


def with_level(operator: str, value: str, seconds: int | None = None) -> dict[str, Any]:
    limit = {} if seconds is None else {"tolerationSeconds": seconds}
    return {"tolerations": [{"key": "level", "operator": operator, "value": value, "effect": "NoExecute", **limit}]}


def set_level(cluster: LivingCluster, level: str) -> None:
    written = [{"key": "level", "value": level, "effect": "NoExecute"}]
    cluster.change("nodes", "node", lambda node: {**node, "spec": {**node["spec"], "taints": written}})


def comparing(is_on: bool = True) -> LivingCluster:
    cluster = LivingCluster(gates={"TaintTolerationComparisonOperators": is_on})
    cluster.node("node")
    return cluster


@pytest.mark.parametrize(
    ("operator", "level", "stays"),
    [("Lt", "4", True), ("Lt", "5", False), ("Gt", "6", True), ("Gt", "5", False), ("Gt", "high", False)],
)
def test_a_pod_stays_beside_a_level_that_it_tolerates(operator: str, level: str, stays: bool) -> None:
    cluster = comparing()
    cluster.pod(node="node", **with_level(operator, "5"))
    set_level(cluster, level)
    cluster.wait(3600)
    assert is_leaving(cluster) is not stays


def test_a_pod_goes_when_the_level_crosses_its_limit() -> None:
    cluster = comparing()
    cluster.pod(node="node", **with_level("Lt", "5"))
    set_level(cluster, "4")
    assert not is_leaving(cluster)
    set_level(cluster, "6")
    assert is_leaving(cluster)


def test_comparing_tolerations_run_out_too() -> None:
    cluster = comparing()
    cluster.pod(node="node", **with_level("Lt", "5", 60))
    set_level(cluster, "4")
    cluster.wait(59)
    assert not is_leaving(cluster)
    cluster.wait(1)
    assert is_leaving(cluster)


def test_a_pod_from_before_the_gate_was_switched_off_goes() -> None:
    pod = {"spec": with_level("Lt", "5")}
    taints = [Taint("level", "4", "NoExecute")]
    assert tolerated_s(pod, taints, compares=True) is None
    assert tolerated_s(pod, taints) == 0
