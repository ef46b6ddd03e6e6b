"""Clusters for questions, as a dump has them: nodes in zones, Deployments with their ReplicaSets and pods, budgets."""

from collections.abc import Iterable, Sequence
from typing import Any

from mooring.inputs.loaded_cluster import LoadedCluster, load

JsonObject = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"


def a_zone_node(name: str, zone: str = "a", cpu: str = "4", **labels: str) -> JsonObject:
    room = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    held = {HOSTNAME: name, ZONE: zone, **labels}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": _meta(name, labels=held),
        "status": {"allocatable": room, "capacity": room, "conditions": [{"type": "Ready", "status": "True"}]},
    }


def a_running_pod(
    name: str, node: str = "", cpu: str = "1", owner: JsonObject | None = None, is_ready: bool = True, **more: Any
) -> JsonObject:
    """A pod of a dump; without a node it is pending. `more` has labels, annotations, and fields of the spec."""
    labels = more.pop("labels", {"app": name})
    meta = _meta(name, labels=labels, namespace="default", annotations=more.pop("annotations", {}))
    if owner is not None:
        meta["ownerReferences"] = [owner]
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    spec = {"containers": [container], "schedulerName": "default-scheduler", "priority": 0, **more}
    status: JsonObject = {"phase": "Pending"}
    if node:
        spec["nodeName"] = node
        ready = {"type": "Ready", "status": "True" if is_ready else "False"}
        status = {"phase": "Running", "conditions": [ready]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status}


def owned_by(kind: str, name: str) -> JsonObject:
    version = "batch/v1" if kind == "Job" else "v1" if kind == "Node" else "apps/v1"
    return {"apiVersion": version, "kind": kind, "name": name, "uid": f"uid-{kind}-{name}", "controller": True}


def a_deployment(name: str, nodes: Sequence[str], cpu: str = "1", **spec: Any) -> list[JsonObject]:
    """A Deployment with a pod on each of these nodes; the empty name stands for a pending pod."""
    labels = {"app": name}
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], **spec}}
    wanted = {"replicas": len(nodes), "selector": {"matchLabels": labels}, "template": template}
    above = {**_meta(f"{name}-rs", namespace="default"), "ownerReferences": [owned_by("Deployment", name)]}
    return [
        _workload("Deployment", _meta(name, "Deployment", namespace="default"), wanted),
        _workload("ReplicaSet", {**above, "uid": f"uid-ReplicaSet-{name}-rs"}, wanted),
        *(
            a_running_pod(f"{name}-{i}", node, cpu, owned_by("ReplicaSet", f"{name}-rs"), labels=labels, **spec)
            for i, node in enumerate(nodes)
        ),
    ]


def a_stateful_set(name: str, nodes: Sequence[str], cpu: str = "1") -> list[JsonObject]:
    labels = {"app": name}
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
    wanted = {"replicas": len(nodes), "selector": {"matchLabels": labels}, "template": template, "serviceName": name}
    return [
        _workload("StatefulSet", _meta(name, "StatefulSet", namespace="default"), wanted),
        *(
            a_running_pod(f"{name}-{i}", node, cpu, owned_by("StatefulSet", name), labels=labels)
            for i, node in enumerate(nodes)
        ),
    ]


def a_daemon_set(name: str, nodes: Iterable[str], cpu: str = "100m", **spec: Any) -> list[JsonObject]:
    labels = {"app": name}
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [container], **spec}}
    wanted = {"selector": {"matchLabels": labels}, "template": template}
    return [
        _workload("DaemonSet", _meta(name, "DaemonSet", namespace="default"), wanted),
        *a_daemon_pods(name, nodes, cpu, **spec),
    ]


def a_daemon_pods(name: str, nodes: Iterable[str], cpu: str = "100m", **spec: Any) -> list[JsonObject]:
    """The pods of a DaemonSet that is not in the dump."""
    return [
        a_running_pod(
            f"{name}-{i}",
            node,
            cpu,
            owned_by("DaemonSet", name),
            labels={"app": name},
            affinity={"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": _only(node)}},
            **spec,
        )
        for i, node in enumerate(nodes)
    ]


def a_budget(name: str, app: str, **spec: Any) -> JsonObject:
    wanted = {"selector": {"matchLabels": {"app": app}}, **spec}
    meta = _meta(name, namespace="default")
    return {"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": meta, "spec": wanted}


def a_cluster(*parts: JsonObject | Sequence[JsonObject]) -> LoadedCluster:
    """The cluster of these objects and lists of objects."""
    return load([item for part in parts for item in ([part] if isinstance(part, dict) else part)])


def _only(node: str) -> JsonObject:
    line = {"key": "metadata.name", "operator": "In", "values": [node]}
    return {"nodeSelectorTerms": [{"matchFields": [line]}]}


def _workload(kind: str, meta: JsonObject, spec: JsonObject) -> JsonObject:
    return {"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": spec}


def _meta(name: str, kind: str = "", **more: Any) -> JsonObject:
    uid = f"uid-{kind}-{name}"
    return {"name": name, "uid": uid, "resourceVersion": "1", "creationTimestamp": "2026-01-01T00:00:00Z", **more}
