"""What an update of a pod or a node amounts to: the cluster events that it is broken down into.

Each event is a reason why some plugin may change its mind. What no plugin could care for yields no event, so that a
heartbeat wakes nobody.
"""

from collections.abc import Mapping

from mooring.framework.events import ASSIGNED_POD, NODE, UNSCHEDULABLE_POD, Action, ClusterEvent
from mooring.model.node import Node
from mooring.model.pod import Pod, ResourceList
from mooring.model.quantity import parse, to_milli
from mooring.model.requests import held_requests


def pod_events(old: Pod, new: Pod) -> list[ClusterEvent]:
    """The events of a pod's update, in upstream's order; a change that has no event of its own is a plain Update."""
    checks = (
        (Action.UPDATE_POD_LABEL, old.labels != new.labels),
        (Action.UPDATE_POD_SCALE_DOWN, _shrank(old, new)),
        (Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, _gates_opened(old, new)),
        # Parity: tolerations are counted, not compared.
        (Action.UPDATE_POD_TOLERATION, len(old.spec.tolerations or ()) != len(new.spec.tolerations or ())),
        (Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM, _claims_of(old) != _claims_of(new)),
    )
    resource = ASSIGNED_POD if new.spec.node_name else UNSCHEDULABLE_POD
    actions = [action for action, happened in checks if happened] or [Action.UPDATE]
    return [ClusterEvent(resource, action) for action in actions]


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


def _shrank(old: Pod, new: Pod) -> bool:
    """Whether the pod holds less of something, or no longer names it."""
    if old.shape is new.shape:
        return False  # Hot: nearly every update is one of status, and two look-ups cost less than adding up twice
    now = held_requests(new)
    return any(name not in now or to_milli(now[name]) < to_milli(nano) for name, nano in held_requests(old).items())


def _gates_opened(old: Pod, new: Pod) -> bool:
    """Whether the last gate is gone; one of several is not enough."""
    return bool(old.spec.scheduling_gates) and not new.spec.scheduling_gates


def _claims_of(pod: Pod) -> tuple[object, object]:
    """The resource claims that were made for the pod."""
    return pod.status.resource_claim_statuses or [], pod.status.extended_resource_claim_status


def _same_amounts(one: ResourceList | None, other: ResourceList | None) -> bool:
    """Whether two lists name the same amounts, however they are written: 1 cpu is 1000m."""
    one, other = one or {}, other or {}
    return one == other or (
        one.keys() == other.keys() and all(parse(text) == parse(other[name]) for name, text in one.items())
    )


def _conditions_of(node: Node) -> Mapping[str, str]:
    """Type -> status: heartbeats and reasons are no change."""
    return {condition.type: condition.status for condition in node.status.conditions or ()}
