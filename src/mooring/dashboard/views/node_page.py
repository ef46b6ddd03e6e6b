"""The page of one node: what it has, what is free, and which pods are on it."""

from collections.abc import Mapping, Sequence
from itertools import islice

import msgspec

from mooring.cluster.columns.facts import amounts_on
from mooring.dashboard.views.moments import moment_text
from mooring.dashboard.views.node_map import is_ready
from mooring.model.pod import Pod
from mooring.model.quantity import show_amount
from mooring.scheduler.scheduler import Scheduler

MAX_ENTRIES = 500
"""Of a list or a map; a total says how many there are."""


class ShownTaint(msgspec.Struct, frozen=True):
    key: str
    value: str
    effect: str


class ShownResource(msgspec.Struct, frozen=True):
    """Amounts as quantities; `share` is the requested part of what is allocatable, above 1 where more is requested."""

    name: str
    allocatable: str
    requested: str
    free: str
    share: float


class PodOnNode(msgspec.Struct, frozen=True):
    namespace: str
    name: str
    priority: int
    requests: Mapping[str, str]
    phase: str
    since: str
    """When it started there, or was created; empty if neither is known."""


class NodePage(msgspec.Struct, frozen=True, rename="camel"):
    """`GET api/nodes/NAME`."""

    name: str
    labels: Mapping[str, str]
    labels_total: int
    taints: Sequence[ShownTaint]
    unschedulable: bool
    ready: bool
    resources: Sequence[ShownResource]
    pods: Sequence[PodOnNode]
    total: int
    """How many pods are on the node."""


def node_page(scheduler: Scheduler, name: str) -> NodePage | None:
    """None: there is no such node."""
    table = scheduler.cluster.nodes
    row = table.row_book.get(name)
    node = None if row is None else table.nodes[row]
    if row is None or node is None:
        return None
    pods = sorted(islice(table.pods_on[row], MAX_ENTRIES), key=lambda pod: (-pod.priority, pod.key))
    return NodePage(
        node.name,
        dict(islice(node.labels.items(), MAX_ENTRIES)),
        len(node.labels),
        [ShownTaint(taint.key, taint.value, taint.effect) for taint in node.taints[:MAX_ENTRIES]],
        node.spec.unschedulable,
        is_ready(node),
        [*_pods_as_resource(int(table.pod_count[row]), int(table.allowed_pods[row])), *_resources(scheduler, row)],
        [_pod_on_node(pod) for pod in pods],
        len(table.pods_on[row]),
    )


def _resources(scheduler: Scheduler, row: int) -> list[ShownResource]:
    """What a node has or pods hold there, by resource."""
    nodes = scheduler.cluster.nodes
    amounts = islice(amounts_on(nodes.nodes[row], nodes.pods_on[row]).items(), MAX_ENTRIES)
    return [_resource(name, held, room) for name, (held, room) in amounts if held or room]


def _pods_as_resource(count: int, allowed: int) -> list[ShownResource]:
    return [_resource("pods", count, allowed)]


def _resource(name: str, held: int, room: int) -> ShownResource:
    share = held / room if room else float(held > 0)
    free = max(room - held, 0)
    return ShownResource(
        name, show_amount(name, room), show_amount(name, held), show_amount(name, free), round(share, 4)
    )


def _pod_on_node(pod: Pod) -> PodOnNode:
    since = moment_text(pod.status.start_time or pod.metadata.creation_timestamp)
    return PodOnNode(pod.namespace, pod.name, pod.priority, shown_requests(pod), pod.status.phase or "Pending", since)


def shown_requests(pod: Pod) -> dict[str, str]:
    """What a pod holds on a node, as quantities."""
    held = islice(pod.shape.held.items(), MAX_ENTRIES)
    return {name: show_amount(name, amount) for name, (amount, _) in held if amount}
