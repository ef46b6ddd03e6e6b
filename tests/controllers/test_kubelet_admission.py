"""A kubelet rejects what its node cannot run, in kube's words, though the pod has its node already."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from living_cluster import LivingCluster
from mooring.api.json_objects import JsonObject
from mooring.apiserver.admission.object_meta import Deletion
from mooring.controllers.nodes.kubelets import KubeletAdmission, NodeLoad, NodeLoads
from mooring.model.shape import ANY_IP


@pytest.fixture
def cluster() -> LivingCluster:
    cluster = LivingCluster()
    node(cluster)
    return cluster


def node(cluster: LivingCluster, name: str = "node", **spec: Any) -> None:
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "5", "ephemeral-storage": "10Gi", "example.com/gpu": "1"}
    item = {"metadata": {"labels": {"disk": "ssd"}}, "spec": spec, "status": {"capacity": capacity}}
    cluster.node(name, **item)


def asking(ports: list[JsonObject] | None = None, **requests: str) -> list[JsonObject]:
    names = {"gpu": "example.com/gpu", "tape": "example.com/tape", "storage": "ephemeral-storage"}
    held = {names.get(name, name): amount for name, amount in requests.items()}
    resources = {"requests": held, "limits": {k: v for k, v in held.items() if "/" in k}}
    return [{"name": "main", "image": "x", "resources": resources, "ports": ports or []}]


def host_port(number: int, **more: Any) -> list[JsonObject]:
    return [{"containerPort": number, "hostPort": number, **more}]


@pytest.mark.parametrize(
    ("spec", "reason", "message"),
    [
        (
            {"containers": asking(cpu="3500m")},
            "OutOfcpu",
            "Node didn't have enough resource: cpu, requested: 3500, used: 1000, capacity: 4000",
        ),
        (
            {"containers": asking(memory="9Gi")},
            "OutOfmemory",
            "Node didn't have enough resource: memory, requested: 9663676416, used: 0, capacity: 8589934592",
        ),
        (
            {"containers": asking(storage="11Gi", memory="1Gi")},
            "OutOfephemeral-storage",
            "Node didn't have enough resource: ephemeral-storage, requested: 11811160064, used: 0, "
            "capacity: 10737418240",
        ),
        (
            {"containers": asking(gpu="2")},
            "OutOfexample.com/gpu",
            "Node didn't have enough resource: example.com/gpu, requested: 2, used: 0, capacity: 1",
        ),
        (
            {"containers": asking(host_port(80))},
            "NodePorts",
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
        ),
        (
            {"nodeSelector": {"disk": "hdd"}},
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        ),
        (
            {"os": {"name": "windows"}},
            "PodOSNotSupported",
            "Failed to admit pod as the OS field doesn't match node OS",
        ),
        (
            {"labels": {"kubernetes.io/os": "windows"}},
            "PodOSSelectorNodeLabelDoesNotMatch",
            "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) and " " not in value else "",
)
def test_what_a_node_cannot_run_is_rejected(
    spec: dict[str, Any], reason: str, message: str, cluster: LivingCluster
) -> None:
    cluster.pod("first", node="node", containers=asking(host_port(80), cpu="1"))
    cluster.pod("pod", node="node", **spec)
    cluster.wait(1)
    status = cluster.status("pods", "pod")
    told = {key: status.get(key) for key in ("phase", "reason", "message")}
    assert told == {"phase": "Failed", "reason": reason, "message": f"Pod was rejected: {message}"}
    assert "containerStatuses" not in status and "podIP" not in status
    assert cluster.condition("pods", "pod", "PodScheduled") == "True"
    assert cluster.events(reason) == [message]
    assert cluster.phase("first") == "Running"


def test_a_node_has_room_for_so_many_pods(cluster: LivingCluster) -> None:
    for i in range(6):
        cluster.pod(f"pod-{i}", node="node")
    cluster.wait(1)
    assert [cluster.phase(f"pod-{i}") for i in range(6)] == ["Running"] * 5 + ["Failed"]
    status = cluster.status("pods", "pod-5")
    assert status["reason"] == "OutOfpods"
    assert status["message"].endswith("enough resource: pods, requested: 1, used: 5, capacity: 5")


def test_a_taint_that_evicts_rejects_as_well(cluster: LivingCluster) -> None:
    """One that only keeps pods from being scheduled does not concern a kubelet."""
    node(cluster, "shut", taints=[{"key": "k", "effect": "NoExecute"}, {"key": "l", "effect": "NoSchedule"}])
    admission = KubeletAdmission(NodeLoads())
    held = cluster.get("nodes", "shut")
    stays = cluster.pod("stays", tolerations=[{"key": "k", "operator": "Exists"}])
    assert admission.rejection_of(stays, held) is None
    assert admission.rejection_of(cluster.pod(), held) == (
        "TaintToleration",
        "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate",
    )


@pytest.mark.parametrize("is_on", [True, False])
def test_a_taint_with_a_number_is_compared_if_the_gate_is_on(is_on: bool) -> None:
    cluster = LivingCluster(gates={"TaintTolerationComparisonOperators": True})
    node(cluster, "level-4", taints=[{"key": "level", "value": "4", "effect": "NoExecute"}])
    pod = cluster.pod(tolerations=[{"key": "level", "operator": "Lt", "value": "5"}])
    rejection = KubeletAdmission(NodeLoads(), compares=is_on).rejection_of(pod, cluster.get("nodes", "level-4"))
    assert (rejection is None) is is_on


def test_resources_that_the_node_does_not_know_are_for_others_to_provide(cluster: LivingCluster) -> None:
    assert cluster.pod(node="node", containers=asking(tape="3"))["status"]["phase"] == "Running"


@pytest.mark.parametrize("how", ["deleted", "finished"])
def test_what_a_pod_had_is_free_when_it_is_over(how: str, cluster: LivingCluster) -> None:
    marks = {"run-seconds": 5} if how == "finished" else {}
    cluster.pod(
        "first", node="node", annotations=marks, containers=asking(host_port(80), cpu="4"), restartPolicy="Never"
    )
    if how == "deleted":
        cluster.delete("pods", "first", Deletion(grace_s=0))
    cluster.wait(6)
    again = cluster.pod("pod", node="node", containers=asking(host_port(80), cpu="4"))
    assert again["status"]["phase"] == "Running"


def test_a_rejected_pod_holds_nothing(cluster: LivingCluster) -> None:
    cluster.pod("big", node="node", containers=asking(cpu="5"))
    cluster.wait(1)
    assert cluster.phase("big") == "Failed"
    assert cluster.pod("pod", node="node", containers=asking(cpu="4"))["status"]["phase"] == "Running"


def test_room_that_comes_in_time_is_used(cluster: LivingCluster) -> None:
    cluster.pod("first", node="node", containers=asking(cpu="4"))
    cluster.pod("pod", node="node", containers=asking(cpu="4"))
    assert cluster.phase() == "Pending"
    cluster.delete("pods", "first", Deletion(grace_s=0))
    cluster.wait(1)
    assert cluster.phase() == "Running"


def test_pods_that_start_slowly_hold_their_place(cluster: LivingCluster) -> None:
    cluster.pod("slow", node="node", annotations={"start-seconds": 60}, containers=asking(cpu="4"))
    cluster.pod("pod", node="node", containers=asking(cpu="1"))
    cluster.wait(1)
    assert cluster.status("pods", "pod")["reason"] == "OutOfcpu"


PORTS = st.tuples(st.sampled_from([ANY_IP, "10.0.0.1", "10.0.0.2"]), st.sampled_from(["TCP", "UDP"]), st.integers(1, 2))


@given(st.lists(PORTS), PORTS)
def test_a_port_is_taken_where_two_addresses_meet(
    held: list[tuple[str, str, int]], wanted: tuple[str, str, int]
) -> None:
    load = NodeLoad()
    load.ports.update(held)
    plain = False
    for ip, protocol, port in held:
        meets = ip == wanted[0] or ip == ANY_IP or wanted[0] == ANY_IP
        plain = plain or (meets and (protocol, port) == wanted[1:])
    assert load.has_port(wanted) == plain
