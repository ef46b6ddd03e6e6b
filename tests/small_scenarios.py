"""Scenarios of a few objects in JSON, and the answer of `mooring conform decide` to their last pod."""

import json
from typing import Any

from mooring.sim.conform import decide

Json = dict[str, Any]


def a_node(name: str, zone: str = "z", **allocatable: str) -> Json:
    labels = {"kubernetes.io/hostname": name, "zone": zone}
    amounts = {"cpu": "4", "memory": "8Gi", "pods": "110"} | allocatable
    return {"kind": "Node", "metadata": {"name": name, "labels": labels}, "status": {"allocatable": amounts}}


def a_pod(name: str, node: str = "", status: Json | None = None, labels: Json | None = None, **spec: Any) -> Json:
    containers = [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]
    placed = {"nodeName": node} if node else {}
    return {
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "labels": labels or {}},
        "spec": {"schedulerName": "default-scheduler", "containers": containers} | placed | spec,
        "status": status or {},
    }


def requesting(**amounts: str) -> list[Json]:
    return [{"name": "c", "image": "i", "resources": {"requests": amounts}}]


def step(*objects: Json, config: Json | None = None) -> Json:
    """The answer to the last of the objects, which is a pod without a node."""
    return steps(*objects, pods=[objects[-1]["metadata"]["name"]], config=config)[0]


def steps(*objects: Json, pods: list[str], config: Json | None = None, gates: str = "") -> list[Json]:
    """The answers to these pods, attempted in this order."""
    names = [f"default/{name}" for name in pods]
    scenario = {"name": "s", "config": config, "featureGates": gates, "objects": objects, "pods": names}
    found: list[Json] = decide(json.dumps(scenario).encode())["steps"]
    return found
