"""When a pod that NodeResourcesFit rejected is worth another attempt: what it requests may have become free."""

from collections.abc import Callable
from typing import cast

from mooring.cluster.claims.serving_classes import IMPLICIT_PREFIX
from mooring.cluster.cluster import Cluster
from mooring.framework.events import NODE, POD, Action, Change, ClusterEvent, Registration
from mooring.model.devices import DeviceClass
from mooring.model.kinds.devices import DEVICE_CLASS
from mooring.model.names import is_scalar_resource
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.quantity import parse_or, to_amount, to_milli_amount
from mooring.plugins.hints import has_place, is_itself, new_node_of, nodes_of, pods_of

_PODS = ClusterEvent(POD, Action.DELETE | Action.UPDATE_POD_SCALE_DOWN)
_NODES = ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE)
_DEVICE_CLASSES = ClusterEvent(DEVICE_CLASS.event, Action.ADD | Action.UPDATE)

Delegates = Callable[[Cluster, str], bool]
"""Whether DynamicResources provides a resource that the node itself has none of."""


def fit_events(devices_serve_requests: bool) -> tuple[Registration, ...]:
    """What the plugin registers; the flag is the gate DRAExtendedResource."""
    delegates = has_device_class if devices_serve_requests else _has_none

    def after_node(pod: Pod, change: Change) -> bool:
        return node_has_more(pod, change, delegates)

    always = (Registration(_PODS, pod_gave_way), Registration(_NODES, after_node))
    return (*always, Registration(_DEVICE_CLASSES, class_serves)) if devices_serve_requests else always


def pod_gave_way(pod: Pod, change: Change) -> bool:
    """Whether a pod left, or shrank in a resource that the waiting pod requests; itself it need only have shrunk."""
    old, new = pods_of(change)
    assert old is not None
    if new is None:
        return has_place(old)
    if is_itself(pod, change):
        return True
    if not new.spec.node_name:
        return False
    before, now = old.shape.held, new.shape.held
    return any(
        amount and before.get(name, (0, 0))[0] > now.get(name, (0, 0))[0] for name, amount in pod.shape.request.items()
    )


def node_has_more(pod: Pod, change: Change, delegates: Delegates) -> bool:
    """Whether the pod would fit on the node if it were empty, and the node is new or grew in what the pod needs.

    Parity: resources that the profile ignores are not ignored here.
    """
    (old, _), new = nodes_of(change), new_node_of(change)
    request = {name: amount for name, amount in pod.shape.request.items() if amount}

    def is_delegated(name: str) -> bool:
        return is_scalar_resource(name) and not _allocatable(new, name) and delegates(change.cluster, name)

    fits = _allocatable(new, "pods") > 0 and all(
        amount <= _allocatable(new, name) or is_delegated(name) for name, amount in request.items()
    )
    if not fits or old is None:
        return fits
    return any(_allocatable(new, name) > _allocatable(old, name) for name in ("pods", *request)) or any(
        is_delegated(name) for name in request
    )


def class_serves(pod: Pod, change: Change) -> bool:
    """Whether a device class came to serve a resource that the pod requests."""
    old, new = cast("DeviceClass | None", change.old), cast("DeviceClass", change.new)
    served, request = new.spec.extended_resource_name, pod.shape.request
    if old is None and IMPLICIT_PREFIX + new.name in request:
        return True
    if old is not None and old.spec.extended_resource_name == served:
        return False
    return served is not None and served in request


def has_device_class(cluster: Cluster, resource: str) -> bool:
    """Whether devices of some class serve an extended resource."""
    return cluster.serving_classes.get(resource) is not None


def _has_none(cluster: Cluster, resource: str) -> bool:
    return False


def _allocatable(node: Node, name: str) -> int:
    """In units of the node table."""
    text = (node.status.allocatable or {}).get(name)
    if text is None:
        return 0
    nano = parse_or(text, 0)
    return to_milli_amount(nano) if name == "cpu" else to_amount(nano)
