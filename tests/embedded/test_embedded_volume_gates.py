"""Gates of volumes in a whole cluster: which volume is preferred, and a volume that moves."""

from typing import Any

import pytest

from mooring.api.json_objects import JsonObject
from mooring.embedded.embedded_cluster import EmbeddedSettings
from mooring.framework import config
from virtual_cluster import VirtualCluster

SCORING = {"StorageCapacityScoring": True}
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"


def a_world(gates: dict[str, bool], **sizes: list[str]) -> VirtualCluster:
    """Nodes by name, with local volumes of these sizes: the class is `ssd`, or what follows a slash."""
    world = VirtualCluster(EmbeddedSettings(config.default(feature_gates=gates), gates=gates))
    for name in ("ssd", "hdd"):
        late = {"provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"}
        world.ask("POST", "/apis/storage.k8s.io/v1/storageclasses", {"metadata": {"name": name}, **late})
    for node, listed in sizes.items():
        labels = {HOST: node, ZONE: f"zone-{node}"}
        world.node(node, "4", metadata={"name": node, "labels": labels})
        for i, size in enumerate(listed):
            world.ask("POST", "/api/v1/persistentvolumes", a_volume(f"{node}-{i}", node, *size.split("/")))
    world.wait(2)
    return world


def affinity(value: str, key: str = HOST) -> JsonObject:
    term = {"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}
    return {"required": {"nodeSelectorTerms": [term]}}


def a_volume(name: str, node: str, size: str, storage_class: str = "ssd") -> JsonObject:
    spec = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class,
        "local": {"path": "/x"},
        "nodeAffinity": affinity(node),
    }
    return {"metadata": {"name": name}, "spec": spec}


def place(world: VirtualCluster, *claims: str) -> str:
    """The node of a pod with claims of a size, each of the class `ssd` or what follows a slash."""
    for i, claim in enumerate(claims):
        size, _, storage_class = claim.partition("/")
        spec = {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": storage_class or "ssd",
            "resources": {"requests": {"storage": size}},
        }
        made = {"metadata": {"name": f"data-{i}"}, "spec": spec}
        world.ask("POST", "/api/v1/namespaces/default/persistentvolumeclaims", made)
    volumes: list[Any] = [
        {"name": f"v{i}", "persistentVolumeClaim": {"claimName": f"data-{i}"}} for i in range(len(claims))
    ]
    world.pod("p", volumes=volumes)
    world.wait(5)
    return world.place("p")


@pytest.mark.parametrize(
    ("sizes", "claims"),
    [
        pytest.param({"n0": ["200Gi"], "n1": ["100Gi"], "n2": ["50Gi"]}, ["20Gi"], id="one claim"),
        pytest.param({"n0": ["100Gi"], "n1": ["200Gi"], "n2": ["50Gi"]}, ["20Gi"], id="whatever its name"),
        pytest.param(
            {"n0": ["200Gi", "200Gi"], "n1": ["100Gi", "100Gi"], "n2": ["100Gi", "50Gi"]},
            ["80Gi", "80Gi"],
            id="two claims",
        ),
        pytest.param(
            {"n0": ["200Gi", "200Gi/hdd"], "n1": ["100Gi", "100Gi/hdd"], "n2": ["100Gi", "50Gi/hdd"]},
            ["80Gi", "80Gi/hdd"],
            id="two classes",
        ),
    ],
)
def test_the_largest_volumes_are_preferred_with_the_gate(sizes: dict[str, list[str]], claims: list[str]) -> None:
    largest = next(name for name, listed in sizes.items() if listed[0] == "200Gi")
    assert place(a_world(SCORING, **sizes), *claims) == largest


def test_sizes_do_not_choose_the_node_without_the_gate() -> None:
    """The gate changes the score: without it two clusters that differ in sizes only choose the same node."""
    off = {"StorageCapacityScoring": False}
    one = a_world(off, n0=["200Gi"], n1=["100Gi"])
    other = a_world(off, n0=["100Gi"], n1=["200Gi"])
    assert place(one, "20Gi") == place(other, "20Gi")


def test_a_pod_follows_a_volume_that_moves() -> None:
    gates = {"MutablePVNodeAffinity": True}
    world = a_world(gates, n0=["10Gi"], n1=[])
    world.ask("PATCH", "/api/v1/nodes/n0", {"spec": {"unschedulable": True}}, "application/merge-patch+json")
    assert place(world, "5Gi") == ""
    held = world.ask("GET", "/api/v1/persistentvolumes/n0-0")
    moved = {**held, "spec": {**held["spec"], "nodeAffinity": affinity("n1")}}
    world.ask("PUT", "/api/v1/persistentvolumes/n0-0", moved)
    world.wait(15)
    assert world.place("p") == "n1"
