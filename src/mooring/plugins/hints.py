"""What the hints of several plugins ask about a change."""

from typing import cast

from mooring.framework.events import Change
from mooring.model.node import Node
from mooring.model.pod import Pod


def pods_of(change: Change) -> tuple[Pod | None, Pod | None]:
    """The pod before and after; at least one of them is there."""
    return cast("Pod | None", change.old), cast("Pod | None", change.new)


def nodes_of(change: Change) -> tuple[Node | None, Node | None]:
    """The node before and after; at least one of them is there."""
    return cast("Node | None", change.old), cast("Node | None", change.new)


def new_node_of(change: Change) -> Node:
    """The node as it is now: for events that are never removals."""
    return cast("Node", change.new)


def is_itself(pod: Pod, change: Change) -> bool:
    """Whether it is the waiting pod that was added or updated."""
    new = cast("Pod | None", change.new)
    return new is not None and new.id == pod.id


def has_place(pod: Pod) -> bool:
    """Whether the pod is on a node, or one was promised to it. Others take nothing from anybody."""
    return bool(pod.spec.node_name or pod.status.nominated_node_name)
