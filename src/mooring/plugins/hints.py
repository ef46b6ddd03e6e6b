"""Questions about a change that the queueing hints of several plugins ask.

A hint gets the waiting pod and a Change (old object, new object), and says whether the change may let the pod pass the
plugin that rejected it. A wrong no leaves the pod unschedulable for up to five minutes; a wrong yes costs one attempt.
"""

from typing import cast

from mooring.framework.contract.events import Change, EventKeys
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


ITSELF = EventKeys(lambda pod: (pod.id,), lambda change: () if change.new is None else (cast("Pod", change.new).id,))
"""The keys of hints that say no unless `is_itself` says yes."""


def has_place(pod: Pod) -> bool:
    """Whether the pod is on a node, or nominated to one. Other pods use no resources, so their changes help no other
    pod."""
    return bool(pod.spec.node_name or pod.status.nominated_node_name)
