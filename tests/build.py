"""Builders of Kubernetes objects for tests: say what matters, leave out the rest.

Whatever is not an argument of its own is given as it stands in a manifest, and lands in the object's spec:
`a_pod(cpu="2", nodeSelector={"disk": "ssd"})`.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from mooring.cluster.cluster import Cluster
from mooring.framework.contract.context import KeptValues
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.shape import PodPart

CPU = 0
"""The place of cpu in the matrices of a node table."""


def a_pod(
    name: str = "pod",
    *,
    namespace: str = "default",
    cpu: str | None = None,
    memory: str | None = None,
    requests: Mapping[str, Any] | None = None,
    labels: Mapping[str, str] | None = None,
    image: str = "",
    host_ports: Any = (),
    metadata: Mapping[str, Any] | None = None,
    status: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Pod:
    """A pod of one container that requests `cpu`, `memory` and `requests`; `containers` in `spec` replaces it.

    Host ports are numbers, or container ports as in a manifest.
    """
    asked = {
        key: value for key, value in {"cpu": cpu, "memory": memory, **(requests or {})}.items() if value is not None
    }
    ports = [{"hostPort": port} if isinstance(port, int) else port for port in host_ports]
    container = {"name": "main", "image": image, "resources": {"requests": asked}, "ports": ports}
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": namespace, "labels": dict(labels or {}), **(metadata or {})},
            "spec": {"containers": [container], **spec},
            "status": dict(status or {}),
        },
        Pod,
    )


def a_node(
    name: str = "node",
    *,
    cpu: str = "4",
    memory: str = "8Gi",
    pods: int = 110,
    labels: Mapping[str, str] | None = None,
    taints: Any = (),
    images: Mapping[str, int] | None = None,
    features: Any = None,
    allocatable: Mapping[str, Any] | None = None,
    **spec: Any,
) -> Node:
    """A node with these resources; `allocatable` adds others. A taint is `key=value:Effect`; images have sizes in bytes."""
    return msgspec.convert(
        {
            "metadata": {"name": name, "labels": dict(labels or {})},
            "spec": {"taints": [a_taint(text) for text in taints], **spec},
            "status": {
                "allocatable": {"cpu": cpu, "memory": memory, "pods": pods, **(allocatable or {})},
                "images": [{"names": [image], "sizeBytes": size} for image, size in (images or {}).items()],
                "declaredFeatures": features,
            },
        },
        Node,
    )


def a_taint(text: str) -> dict[str, str]:
    """`key=value:Effect` or `key:Effect`."""
    pair, _, effect = text.rpartition(":")
    key, _, value = pair.partition("=")
    return {"key": key, "value": value, "effect": effect}


def a_cluster(*items: KubeObject) -> Cluster:
    """A cluster with these objects; a pod is on the node that its `nodeName` says."""
    cluster = Cluster()
    for item in items:
        cluster.put(item)
    return cluster


class FreshValues:
    """For a context that no runner opened: what plugins keep with the parts of a shape."""

    def __init__(self) -> None:
        self.values = {part: KeptValues() for part in PodPart}
