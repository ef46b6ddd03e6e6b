"""Nodes come alive by themselves, are marked when they fall silent, and carry the taints that they should."""

import pytest

from living_cluster import LivingCluster
from mooring.api.json_objects import JsonObject
from mooring.controllers.cluster_writes import NODES

GRACE_S = 15


@pytest.fixture
def cluster() -> LivingCluster:
    return LivingCluster(tainted=True)


def taints(cluster: LivingCluster, node: str = "node") -> set[str]:
    held = cluster.get("nodes", node)["spec"].get("taints", ())
    return {f"{taint['key'].removeprefix('node.kubernetes.io/')}:{taint['effect']}" for taint in held}


def test_a_new_node_comes_alive(cluster: LivingCluster) -> None:
    cluster.node("node", metadata={"labels": {"kubernetes.io/arch": "arm64"}})
    assert cluster.condition("nodes", "node", "Ready") == "True KubeletReady"
    for pressure in ("MemoryPressure", "DiskPressure", "PIDPressure"):
        assert cluster.condition("nodes", "node", pressure).startswith("False Kubelet")
    node = cluster.get("nodes", "node")
    info = node["status"]["nodeInfo"]
    assert (info["kubeletVersion"], info["architecture"], info["operatingSystem"]) == ("v1.37.0", "arm64", "linux")
    assert [address["type"] for address in node["status"]["addresses"]] == ["InternalIP", "Hostname"]
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "node"
    assert node["status"]["allocatable"]["pods"] == "110"
    assert taints(cluster) == set(), "the taint of new nodes is lifted"


def test_what_a_manifest_says_of_its_node_is_kept(cluster: LivingCluster) -> None:
    addresses = [{"type": "InternalIP", "address": "192.168.7.7"}]
    cluster.node("node", status={"addresses": addresses, "capacity": {"cpu": "2"}, "nodeInfo": {"osImage": "Mine"}})
    status = cluster.status("nodes", "node")
    assert (status["addresses"], status["capacity"]) == (addresses, {"cpu": "2"})
    assert (status["nodeInfo"]["osImage"], status["nodeInfo"]["kubeletVersion"]) == ("Mine", "v1.37.0")


def lease_of(cluster: LivingCluster, node: str = "node") -> JsonObject:
    lease: JsonObject = cluster.get("leases", node, "kube-node-lease")
    return lease


def test_leases_are_renewed(cluster: LivingCluster) -> None:
    cluster.node("node")
    first = lease_of(cluster)["spec"]
    assert (first["holderIdentity"], first["leaseDurationSeconds"]) == ("node", 40)
    cluster.wait(5)
    second = lease_of(cluster)["spec"]["renewTime"]
    cluster.wait(5)
    assert first["renewTime"] < second < lease_of(cluster)["spec"]["renewTime"]


def test_a_lease_goes_with_its_node(cluster: LivingCluster) -> None:
    cluster.node("node")
    cluster.delete("nodes", "node")
    assert cluster.find("leases", "node", "kube-node-lease") is None
    cluster.wait(60)


def test_many_nodes_beat_more_slowly_and_none_is_missed(cluster: LivingCluster) -> None:
    for i in range(1500):
        cluster.api.create(NODES, "", {"metadata": {"name": f"n{i}"}})
    cluster.settle()
    cluster.wait(10)
    before = cluster.api.store.version
    cluster.wait(1)
    assert 100 < cluster.api.store.version - before < 300, "about 200 renewals a second, and nothing else"
    cluster.wait(30)
    assert all(cluster.condition("nodes", f"n{i}", "Ready").startswith("True") for i in range(1500))


def test_a_silent_node_is_unreachable_and_its_pods_are_not_ready(cluster: LivingCluster) -> None:
    cluster.node("node")
    cluster.pod(node="node")
    cluster.annotate("nodes", "node", failed="true")
    cluster.wait(GRACE_S - 6)
    assert cluster.condition("nodes", "node", "Ready") == "True KubeletReady"
    cluster.wait(6)
    assert cluster.condition("nodes", "node", "Ready") == "Unknown NodeStatusUnknown"
    assert cluster.condition("nodes", "node", "MemoryPressure") == "Unknown NodeStatusUnknown"
    assert taints(cluster) == {"unreachable:NoSchedule", "unreachable:NoExecute"}
    assert all(taint["timeAdded"] for taint in cluster.get("nodes", "node")["spec"]["taints"])
    assert cluster.condition("pods", "pod", "Ready").startswith("False")
    assert cluster.phase() == "Running"


def test_recovery_lifts_the_taints_and_makes_the_pods_ready(cluster: LivingCluster) -> None:
    cluster.node("node", spec={"taints": [{"key": "mine", "effect": "NoSchedule"}]})
    cluster.pod(node="node")
    cluster.annotate("nodes", "node", failed="true")
    cluster.wait(60)
    cluster.annotate("nodes", "node", failed="false")
    assert cluster.condition("nodes", "node", "Ready") == "True KubeletReady"
    assert taints(cluster) == {"mine:NoSchedule"}
    assert cluster.condition("pods", "pod", "Ready") == "True"
    cluster.wait(60)
    assert cluster.condition("nodes", "node", "Ready") == "True KubeletReady"


def test_a_cluster_that_was_held_up_loses_no_node(cluster: LivingCluster) -> None:
    """After a pause all is due at once, and nodes must be heard of before they are judged."""
    for i in range(20):
        cluster.node(f"n{i}")
    cluster.clock.advance_ns(3600 * 1_000_000_000)
    cluster.settle()
    assert {cluster.condition("nodes", f"n{i}", "Ready") for i in range(20)} == {"True KubeletReady"}
    assert cluster.events("NodeNotReady") == []


CONDITIONS = {
    "not ready": ("Ready", "False", {"not-ready:NoSchedule", "not-ready:NoExecute"}),
    "short of memory": ("MemoryPressure", "True", {"memory-pressure:NoSchedule"}),
    "short of disk": ("DiskPressure", "True", {"disk-pressure:NoSchedule"}),
    "short of processes": ("PIDPressure", "True", {"pid-pressure:NoSchedule"}),
    "without network": ("NetworkUnavailable", "True", {"network-unavailable:NoSchedule"}),
}


@pytest.mark.parametrize(("type", "status", "expected"), CONDITIONS.values(), ids=CONDITIONS.keys())
def test_taints_follow_conditions(cluster: LivingCluster, type: str, status: str, expected: set[str]) -> None:
    cluster.node("node")

    def post(status: str) -> None:
        def posted(node: JsonObject) -> JsonObject:
            others = [c for c in node["status"]["conditions"] if c["type"] != type]
            return {**node, "status": {**node["status"], "conditions": [*others, {"type": type, "status": status}]}}

        cluster.change("nodes", "node", posted, "status")

    post(status)
    cluster.wait(10)
    assert taints(cluster) == expected
    post("True" if status == "False" else "False")
    assert taints(cluster) == set()


def test_a_cordoned_node_is_tainted(cluster: LivingCluster) -> None:
    cluster.node("node")
    cluster.change("nodes", "node", lambda node: {**node, "spec": {**node["spec"], "unschedulable": True}})
    assert taints(cluster) == {"unschedulable:NoSchedule"}
    cluster.change("nodes", "node", lambda node: {**node, "spec": {**node["spec"], "unschedulable": False}})
    assert taints(cluster) == set()
