"""What an update of a pod or a node amounts to: the cluster events that it is broken down into.

Each event is a reason why some plugin may change its mind. The heartbeat of a node is none, so it wakes nobody.
"""

from collections.abc import Mapping

from mooring.framework.events import NODE, Action, ClusterEvent
from mooring.model.node import Node
from mooring.model.pod_spec import ResourceList
from mooring.model.quantity import parse_or
from mooring.queue.hints import pod_events

__all__ = ["node_events", "pod_events"]


def node_events(old: Node, new: Node) -> list[ClusterEvent]:
    """The events of a node's update, in upstream's order; none if nothing changed that a plugin could care for.

    Parity: uncordoning counts as a change of taints, apart from one of the taints themselves; cordoning is no event.
    """
    checks = (
        (Action.UPDATE_NODE_TAINT, old.spec.unschedulable and not new.spec.unschedulable),
        (Action.UPDATE_NODE_ALLOCATABLE, not _same_amounts(old.status.allocatable, new.status.allocatable)),
        (Action.UPDATE_NODE_LABEL, old.labels != new.labels),
        (Action.UPDATE_NODE_TAINT, old.taints != new.taints),
        (Action.UPDATE_NODE_CONDITION, _conditions_of(old) != _conditions_of(new)),
        (Action.UPDATE_NODE_ANNOTATION, (old.metadata.annotations or {}) != (new.metadata.annotations or {})),
        (
            Action.UPDATE_NODE_DECLARED_FEATURE,
            (old.status.declared_features or []) != (new.status.declared_features or []),
        ),
    )
    return [ClusterEvent(NODE, action) for action, happened in checks if happened]


def _same_amounts(one: ResourceList | None, other: ResourceList | None) -> bool:
    """Whether two lists name the same amounts, however they are written: 1 cpu is 1000m."""
    one, other = one or {}, other or {}
    return one == other or (
        one.keys() == other.keys() and all(parse_or(text, 0) == parse_or(other[name], 0) for name, text in one.items())
    )


def _conditions_of(node: Node) -> Mapping[str, str]:
    """Type -> status: heartbeats and reasons are no change."""
    return {condition.type: condition.status for condition in node.status.conditions or ()}
