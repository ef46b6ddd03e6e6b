"""What changed in a pod, as the events that plugins register for."""

from mooring.framework.events import ASSIGNED_POD, UNSCHEDULABLE_POD, Action, ClusterEvent
from mooring.model.pod import Pod
from mooring.model.quantity import to_milli
from mooring.model.requests import held_requests


def pod_events(old: Pod, new: Pod) -> list[ClusterEvent]:
    """The events that an update of a pod amounts to, in the order in which they are to be heard; at least one.

    Parity: losing one of several gates, or beginning to terminate, is an unspecific update.
    """
    resource = ASSIGNED_POD if new.spec.node_name else UNSCHEDULABLE_POD
    actions = [action for action, happened in _CHANGES if happened(old, new)]
    return [ClusterEvent(resource, action) for action in actions or (Action.UPDATE,)]


def _labels_changed(old: Pod, new: Pod) -> bool:
    return old.labels != new.labels


def _shrank(old: Pod, new: Pod) -> bool:
    """Whether the pod holds less of some resource. Sums are made only if one of their parts changed."""
    if old.shape is new.shape or _resources(old) == _resources(new):
        return False
    before, after = held_requests(old), held_requests(new)
    return any(name not in after or to_milli(after[name]) < to_milli(amount) for name, amount in before.items())


def _resources(pod: Pod) -> tuple[object, ...]:
    spec, status = pod.spec, pod.status
    return (
        *(spec.containers, spec.init_containers, spec.resources, spec.overhead),
        *(status.container_statuses, status.init_container_statuses, status.conditions),
        *(status.resources, status.allocated_resources),
    )


def _gates_vanished(old: Pod, new: Pod) -> bool:
    return bool(old.spec.scheduling_gates) and not new.spec.scheduling_gates


def _tolerations_changed(old: Pod, new: Pod) -> bool:
    """Parity: tolerations can only be added, so their number tells."""
    return len(old.spec.tolerations or ()) != len(new.spec.tolerations or ())


def _claims_changed(old: Pod, new: Pod) -> bool:
    return (old.status.resource_claim_statuses or [], old.status.extended_resource_claim_status) != (
        new.status.resource_claim_statuses or [],
        new.status.extended_resource_claim_status,
    )


_CHANGES = (
    (Action.UPDATE_POD_LABEL, _labels_changed),
    (Action.UPDATE_POD_SCALE_DOWN, _shrank),
    (Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED, _gates_vanished),
    (Action.UPDATE_POD_TOLERATION, _tolerations_changed),
    (Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM, _claims_changed),
)
