"""Throughput scenarios with devices, in the form of those of tests/conformance/workloads.py.

usage: workloads_devices.py selector|template|alternatives|network NODES PENDING

selector:     each node has eight devices; each pod has a claim for one of them, chosen by a selector.
template:     the same with claims that were made from a template for each pod.
alternatives: each claim would rather have two devices of a better kind than one of any.
network:      the devices are in pools that the nodes of a zone share.
"""

import json
import sys
from collections.abc import Iterator
from typing import Any

JsonObject = dict[str, Any]

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
CAPACITY = {"pods": "110", "cpu": "32", "memory": "256Gi"}
DRIVER, CLASS, NAMESPACE = "gpu.example.com", "gpu", "sched-1"
RESOURCE_API = "resource.k8s.io/v1"
ZONES, DEVICES_A_NODE = 10, 8
MODELS = ("a100", "h100")


def an_object(kind: str, name: str, api_version: str = "v1", **content: Any) -> JsonObject:
    metadata = {"name": name, "uid": f"uid-{kind}-{name}", "resourceVersion": "1", **content.pop("metadata", {})}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def a_node(index: int) -> JsonObject:
    name = f"node-{index:05d}"
    metadata = {"labels": {HOST: name, ZONE: f"zone-{index % ZONES}"}}
    return an_object("Node", name, metadata=metadata, spec={}, status={"capacity": CAPACITY, "allocatable": CAPACITY})


def a_device(owner: str, index: int) -> JsonObject:
    attributes = {
        "model": {"string": MODELS[index % len(MODELS)]},
        "uuid": {"string": f"{owner}-{index}"},
        "numa": {"int": index // 4},
        "driverVersion": {"version": "1.2.3"},
    }
    return {"name": f"gpu-{index}", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}


def a_slice(pool: str, count: int, **where: Any) -> JsonObject:
    spec = {
        "driver": DRIVER,
        "pool": {"name": pool, "generation": 1, "resourceSliceCount": 1},
        "devices": [a_device(pool, index) for index in range(count)],
        **where,
    }
    return an_object("ResourceSlice", f"{pool}-gpus", RESOURCE_API, spec=spec)


def zone_slice(zone: int, count: int) -> JsonObject:
    term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": [f"zone-{zone}"]}]}
    return a_slice(f"zone-{zone}", count, nodeSelector={"nodeSelectorTerms": [term]})


def a_class() -> JsonObject:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    return an_object("DeviceClass", CLASS, RESOURCE_API, spec={"selectors": [selector]})


def an_ask(model: str | None, count: int = 1) -> JsonObject:
    ask: JsonObject = {"deviceClassName": CLASS, "allocationMode": "ExactCount", "count": count}
    if model is not None:
        ask["selectors"] = [{"cel": {"expression": f'device.attributes["{DRIVER}"].model == "{model}"'}}]
    return ask


def a_claim(name: str, workload: str, owner: JsonObject) -> JsonObject:
    request: JsonObject = {"name": "gpu", "exactly": an_ask("h100")}
    if workload == "alternatives":
        subs = [{"name": "pair", **an_ask("h100", 2)}, {"name": "any", **an_ask(None)}]
        request = {"name": "gpu", "firstAvailable": subs}
    metadata: JsonObject = {"namespace": NAMESPACE}
    if workload == "template":
        metadata["ownerReferences"] = [
            {"apiVersion": "v1", "kind": "Pod", "name": owner["name"], "uid": owner["uid"], "controller": True}
        ]
    return an_object("ResourceClaim", name, RESOURCE_API, metadata=metadata, spec={"devices": {"requests": [request]}})


def a_pod(name: str, workload: str) -> JsonObject:
    requests = {"cpu": "100m", "memory": "500Mi"}
    container = {"name": "pause", "image": "registry.example/pause:3.10", "resources": {"requests": requests}}
    entry, status = {"name": "gpu", "resourceClaimName": f"{name}-gpu"}, {"phase": "Pending"}
    if workload == "template":
        entry = {"name": "gpu", "resourceClaimTemplateName": "gpu"}
        status["resourceClaimStatuses"] = [{"name": "gpu", "resourceClaimName": f"{name}-gpu"}]  # type: ignore[assignment]
    spec = {"schedulerName": "default-scheduler", "containers": [container], "resourceClaims": [entry]}
    return an_object("Pod", name, metadata={"namespace": NAMESPACE}, spec=spec, status=status)


def objects(workload: str, nodes: int, pods: list[JsonObject]) -> Iterator[JsonObject]:
    yield an_object("Namespace", NAMESPACE)
    yield a_class()
    for index in range(nodes):
        yield a_node(index)
        if workload != "network":
            yield a_slice(f"node-{index:05d}", DEVICES_A_NODE, nodeName=f"node-{index:05d}")
    if workload == "network":
        yield from (zone_slice(zone, nodes * DEVICES_A_NODE // ZONES) for zone in range(ZONES))
    for pod in pods:
        yield a_claim(f"{pod['metadata']['name']}-gpu", workload, pod["metadata"])
    yield from pods


def scenario(workload: str, nodes: int, pending: int) -> JsonObject:
    pods = [a_pod(f"pod-{index:05d}", workload) for index in range(pending)]
    return {
        "name": f"devices-{workload}-{nodes}-{pending}",
        "config": None,
        "objects": list(objects(workload, nodes, pods)),
        "pods": [f"{NAMESPACE}/{pod['metadata']['name']}" for pod in pods],
    }


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("selector", "template", "alternatives", "network"):
        sys.exit(str(__doc__))
    print(json.dumps(scenario(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))))
