"""Throughput scenarios beside those of tests/conformance/workloads.py, in the same form.

usage: workloads_more.py preemption NODES PLACED PENDING

preemption: nodes of 4 CPUs that are full of pods with 900m, and pods of a higher priority that ask for 3 CPUs.
"""

import json
import sys
from typing import Any

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
CAPACITY = {"pods": "110", "cpu": "4", "memory": "32Gi"}


def a_node(index: int) -> dict[str, Any]:
    name = f"node-{index:05d}"
    metadata = {"name": name, "uid": f"uid-{name}", "labels": {HOST: name, ZONE: f"zone{index % 3 + 1}"}}
    status = {"capacity": CAPACITY, "allocatable": CAPACITY}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status}


def a_pod(name: str, namespace: str, cpu: str, **spec: Any) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": "500Mi"}
    container = {"name": "pause", "image": "registry.example/pause:3.10", "resources": {"requests": requests}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}"},
        "spec": {"schedulerName": "default-scheduler", "containers": [container], **spec},
        "status": {"phase": "Running" if "nodeName" in spec else "Pending"},
    }


def preemption(nodes: int, placed: int, pending: int) -> dict[str, Any]:
    """The scenario; pods that run are dealt out to the nodes in turn."""
    objects: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in ("sched-0", "sched-1")
    ]
    objects += [a_node(i) for i in range(nodes)]
    objects += [a_pod(f"init-{i:05d}", "sched-0", "900m", nodeName=f"node-{i % nodes:05d}") for i in range(placed)]
    names = [f"new-{i:05d}" for i in range(pending)]
    objects += [a_pod(name, "sched-1", "3", priority=1000) for name in names]
    title = f"preemption-{nodes}n-{placed}i-{pending}p"
    return {"name": title, "config": None, "objects": objects, "pods": [f"sched-1/{name}" for name in names]}


def main(arguments: list[str]) -> None:
    if len(arguments) != 4 or arguments[0] != "preemption" or not all(text.isdigit() for text in arguments[1:]):
        sys.exit(__doc__)
    json.dump(preemption(*map(int, arguments[1:])), sys.stdout, separators=(",", ":"))


if __name__ == "__main__":
    main(sys.argv[1:])
