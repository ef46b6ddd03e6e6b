"""Nodes that do not exist yet: like a template, or like a node of the cluster with its drivers and devices."""

from collections.abc import Iterable, Iterator

import msgspec

from mooring.model.devices import ResourceSlice
from mooring.model.meta import KubeObject
from mooring.model.names import HOSTNAME
from mooring.model.node import Node, NodeSpec, NodeStatus
from mooring.model.storage import CSINode

STATE_TAINTS = "node.kubernetes.io/"
"""Taints with this prefix tell the state of one node: cordoned, not ready, short of memory. A new node has none."""


def node_like(template: Node, name: str) -> Node:
    """A new node: labels, taints and amounts of the template, but not what tells the state of that one node."""
    taints = [taint for taint in template.taints if not taint.key.startswith(STATE_TAINTS)]
    metadata = msgspec.structs.replace(
        template.metadata,
        name=name,
        uid=f"node-{name}",
        resource_version=None,
        labels={**template.labels, HOSTNAME: name},
        creation_timestamp=None,
        owner_references=None,
    )
    status = NodeStatus(
        allocatable=template.status.allocatable,
        capacity=template.status.capacity,
        declared_features=template.status.declared_features,
    )
    return Node(metadata=metadata, spec=NodeSpec(taints=taints or None), status=status)


def equipment_of(name: str, objects: Iterable[KubeObject]) -> Iterator[KubeObject]:
    """The CSI drivers and the devices of a node, among these objects."""
    for item in objects:
        if (isinstance(item, CSINode) and item.name == name) or (
            isinstance(item, ResourceSlice) and item.spec.node_name == name
        ):
            yield item


def equipped(item: KubeObject, name: str) -> KubeObject:
    """A CSINode or ResourceSlice of a node, for a new node with this name."""
    own = name
    if isinstance(item, ResourceSlice):
        own = f"{item.name}-{name}"
        pool = msgspec.structs.replace(item.spec.pool, name=f"{item.spec.pool.name}-{name}")
        spec = msgspec.structs.replace(item.spec, node_name=name, pool=pool)
        item = msgspec.structs.replace(item, spec=spec)
    metadata = msgspec.structs.replace(item.metadata, name=own, uid="", owner_references=None)
    renamed: KubeObject = msgspec.structs.replace(item, metadata=metadata)
    return renamed
