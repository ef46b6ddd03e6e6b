"""Kubernetes objects as dictionaries, for tests of answers."""

from typing import Any

Written = dict[str, Any]


def a_node(
    name: str,
    cpu: str = "4",
    memory: str = "8Gi",
    *,
    pods: str = "110",
    zone: str = "",
    labels: dict[str, str] | None = None,
    taints: list[Written] | None = None,
    cordoned: bool = False,
) -> Written:
    own = {"kubernetes.io/hostname": name, **({"topology.kubernetes.io/zone": zone} if zone else {}), **(labels or {})}
    spec: Written = {"taints": taints} if taints else {}
    if cordoned:
        spec["unschedulable"] = True
    allocatable = {"cpu": cpu, "memory": memory, "pods": pods}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": own},
        "spec": spec,
        "status": {"allocatable": allocatable, "capacity": allocatable},
    }


def a_pod(
    name: str,
    cpu: str = "1",
    memory: str = "1Gi",
    *,
    node: str = "",
    labels: dict[str, str] | None = None,
    priority: int | None = None,
    owner: str = "",
    **spec: Any,
) -> Written:
    """`owner` is `Kind/name` of its controller."""
    requests = {"cpu": cpu, "memory": memory}
    metadata: Written = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": labels or {}}
    if owner:
        kind, _, own = owner.partition("/")
        metadata["ownerReferences"] = [
            {"apiVersion": "apps/v1", "kind": kind, "name": own, "uid": f"uid-{own}", "controller": True}
        ]
    if priority is not None:
        spec["priority"] = priority
    if node:
        spec["nodeName"] = node
    containers = [{"name": "main", "image": "registry.example/main:1", "resources": {"requests": requests}}]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"schedulerName": "default-scheduler", "containers": containers, **spec},
        "status": {"phase": "Running" if node else "Pending"},
    }


GROUP_GATES = {"GenericWorkload": True}


def a_pod_group(name: str = "gang", min_count: int | None = None, **spec: Any) -> Written:
    """Without `min_count` its policy is basic."""
    return {
        "apiVersion": "scheduling.k8s.io/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"schedulingPolicy": {"basic": {}} if min_count is None else {"gang": {"minCount": min_count}}, **spec},
    }


def members(number: int, cpu: str = "1", group: str = "gang", **more: Any) -> list[Written]:
    """Pending pods of a group: `gang-0`, `gang-1`, ..."""
    return [a_pod(f"{group}-{i}", cpu, schedulingGroup={"podGroupName": group}, **more) for i in range(number)]
