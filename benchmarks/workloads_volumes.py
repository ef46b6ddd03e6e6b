"""Throughput scenarios with volumes, in the form of those of tests/conformance/workloads.py.

usage: workloads_volumes.py bound|delayed|local NODES PENDING

bound:   each pod has a claim with a CSI volume that is bound to it and can be used in one zone; nodes have limits.
delayed: each pod has a claim that waits for it; a driver that reports its room will make the volume.
local:   each pod has a claim that waits for it; each node has local volumes, enough for all.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

JsonObject = dict[str, Any]

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
CAPACITY = {"pods": "110", "cpu": "4", "memory": "32Gi"}
DRIVER, CLASS, NAMESPACE = "csi.example.com", "disks", "sched-1"
LIMIT = 39
"""Volumes that the driver attaches to a node."""


def an_object(kind: str, name: str, api_version: str = "v1", **content: Any) -> JsonObject:
    metadata = {"name": name, "uid": f"uid-{kind}-{name}", "resourceVersion": "1", **content.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def a_node(index: int) -> JsonObject:
    name = f"node-{index:05d}"
    metadata = {"labels": {HOST: name, ZONE: zone(index)}}
    return an_object("Node", name, metadata=metadata, spec={}, status={"capacity": CAPACITY, "allocatable": CAPACITY})


def a_csi_node(index: int) -> JsonObject:
    driver = {"name": DRIVER, "nodeID": f"{index}", "allocatable": {"count": LIMIT}}
    return an_object("CSINode", f"node-{index:05d}", "storage.k8s.io/v1", spec={"drivers": [driver]})


def a_pod(name: str, claim: str) -> JsonObject:
    requests = {"cpu": "100m", "memory": "500Mi"}
    container = {"name": "pause", "image": "registry.example/pause:3.10", "resources": {"requests": requests}}
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    spec = {"schedulerName": "default-scheduler", "containers": [container], "volumes": volumes}
    return an_object("Pod", name, metadata={"namespace": NAMESPACE}, spec=spec, status={"phase": "Pending"})


def a_claim(name: str, volume: str = "") -> JsonObject:
    spec = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": CLASS,
        **({"volumeName": volume} if volume else {}),
    }
    metadata: JsonObject = {"namespace": NAMESPACE}
    if volume:
        metadata["annotations"] = {"pv.kubernetes.io/bind-completed": "yes"}
    status = {"phase": "Bound" if volume else "Pending"}
    return an_object("PersistentVolumeClaim", name, metadata=metadata, spec=spec, status=status)


def a_volume(name: str, label: str, value: str, claim: str = "") -> JsonObject:
    expression = {"key": label, "operator": "In", "values": [value]}
    spec: JsonObject = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": CLASS,
        "csi": {"driver": DRIVER, "volumeHandle": name},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
    }
    if claim:
        uid = f"uid-PersistentVolumeClaim-{claim}"
        spec["claimRef"] = {"namespace": NAMESPACE, "name": claim, "uid": uid}
    return an_object("PersistentVolume", name, spec=spec, status={"phase": "Bound" if claim else "Available"})


def a_class(mode: str, provisioner: str = DRIVER) -> JsonObject:
    return an_object("StorageClass", CLASS, "storage.k8s.io/v1", provisioner=provisioner, volumeBindingMode=mode)


def a_capacity(index: int) -> JsonObject:
    content = {
        "metadata": {"namespace": "kube-system"},
        "storageClassName": CLASS,
        "capacity": "100Gi",
        "nodeTopology": {"matchLabels": {HOST: f"node-{index:05d}"}},
    }
    return an_object("CSIStorageCapacity", f"room-{index:05d}", "storage.k8s.io/v1", **content)


def zone(index: int) -> str:
    return f"zone{index % 3 + 1}"


def bound(nodes: int, names: list[str]) -> Iterator[JsonObject]:
    yield a_class("Immediate")
    yield from (a_csi_node(i) for i in range(nodes))
    for i, name in enumerate(names):
        yield a_volume(f"vol-{name}", ZONE, zone(i), name)
        yield a_claim(name, f"vol-{name}")


def delayed(nodes: int, names: list[str]) -> Iterator[JsonObject]:
    yield a_class("WaitForFirstConsumer")
    yield an_object("CSIDriver", DRIVER, "storage.k8s.io/v1", spec={"storageCapacity": True})
    yield from (a_csi_node(i) for i in range(nodes))
    yield from (a_capacity(i) for i in range(nodes))
    yield from (a_claim(name) for name in names)


def local(nodes: int, names: list[str]) -> Iterator[JsonObject]:
    yield a_class("WaitForFirstConsumer", "kubernetes.io/no-provisioner")
    for i in range(max(nodes, 2 * len(names))):
        yield a_volume(f"local-{i:06d}", HOST, f"node-{i % nodes:05d}")
    yield from (a_claim(name) for name in names)


WORKLOADS = {"bound": bound, "delayed": delayed, "local": local}


def scenario(workload: str, nodes: int, pending: int) -> JsonObject:
    names = [f"new-{i:05d}" for i in range(pending)]
    objects = [an_object("Namespace", NAMESPACE), *(a_node(i) for i in range(nodes))]
    objects += WORKLOADS[workload](nodes, names)
    objects += [a_pod(name, name) for name in names]
    title = f"volumes-{workload}-{nodes}n-{pending}p"
    return {"name": title, "config": None, "objects": objects, "pods": [f"{NAMESPACE}/{name}" for name in names]}


def main(arguments: list[str]) -> None:
    if len(arguments) != 3 or arguments[0] not in WORKLOADS or not all(text.isdigit() for text in arguments[1:]):
        sys.exit(__doc__)
    json.dump(scenario(arguments[0], int(arguments[1]), int(arguments[2])), sys.stdout, separators=(",", ":"))


if __name__ == "__main__":
    main(sys.argv[1:])
