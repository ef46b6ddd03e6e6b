"""Claims that wait for their pod, on the embedded cluster: scheduler and volume controllers work hand in hand."""

from typing import Any

from virtual_cluster import VirtualCluster

CLAIMS, VOLUMES = "/api/v1/namespaces/default/persistentvolumeclaims", "/api/v1/persistentvolumes"
CLASSES = "/apis/storage.k8s.io/v1/storageclasses"
HOST = "kubernetes.io/hostname"


def a_cluster(provisioner: str) -> VirtualCluster:
    cluster = VirtualCluster()
    for name in ("n1", "n2"):
        cluster.node(name, metadata={"name": name, "labels": {HOST: name}})
    body = {"metadata": {"name": "wait"}, "provisioner": provisioner, "volumeBindingMode": "WaitForFirstConsumer"}
    cluster.ask("POST", CLASSES, body)
    return cluster


def claim(cluster: VirtualCluster, name: str) -> None:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "wait",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    cluster.ask("POST", CLAIMS, {"metadata": {"name": name}, "spec": spec})


def local_volume(cluster: VirtualCluster, name: str, node: str) -> None:
    term = {"matchExpressions": [{"key": HOST, "operator": "In", "values": [node]}]}
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "wait",
        "capacity": {"storage": "1Gi"},
        "local": {"path": "/disk"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    cluster.ask("POST", VOLUMES, {"metadata": {"name": name}, "spec": spec})


def user(cluster: VirtualCluster, name: str) -> None:
    cluster.pod(name, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": name}}])


def bound_volume(cluster: VirtualCluster, name: str) -> Any:
    return cluster.ask("GET", f"{CLAIMS}/{name}")["spec"].get("volumeName")


def test_a_volume_is_made_for_the_pod() -> None:
    cluster = a_cluster("example.com/disk")
    claim(cluster, "a")
    cluster.wait(2)
    assert bound_volume(cluster, "a") is None
    user(cluster, "a")
    cluster.wait(3)
    assert cluster.place("a")
    found = cluster.ask("GET", f"{CLAIMS}/a")
    assert found["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == cluster.place("a")
    assert found["spec"]["volumeName"]


def test_local_volumes_decide_where_pods_go() -> None:
    cluster = a_cluster("kubernetes.io/no-provisioner")
    local_volume(cluster, "disk", "n2")
    for name in ("a", "b"):
        claim(cluster, name)
        user(cluster, name)
    cluster.wait(5)
    assert sorted((cluster.place("a"), cluster.place("b"))) == ["", "n2"], "there is a volume for one of them"
    local_volume(cluster, "more", "n1")
    cluster.wait(20)
    assert sorted((cluster.place("a"), cluster.place("b"))) == ["n1", "n2"]
    assert sorted((bound_volume(cluster, "a"), bound_volume(cluster, "b"))) == ["disk", "more"]
    live = cluster.ask("GET", f"{VOLUMES}/disk")
    assert live["spec"]["local"] == {"path": "/disk"}, "what the scheduler does not read is not lost"
