"""The page of a node, and pods as lists and as pages: those that wait, with what for; those that have a node; and what
happened to one."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from heapq import nsmallest
from itertools import islice
from typing import Literal, TypeVar

import msgspec

from mooring.answers.trial.node_prices import NO_PRICES, node_price
from mooring.cluster.columns.facts import amounts_on
from mooring.dashboard.slices import Sliced
from mooring.dashboard.views.node_map import is_ready
from mooring.dashboard.views.pending_pods import (
    QueuedOrBinding,
    Whereabouts,
    message_of,
    moment_text,
    pending_pod,
    pending_pods,
    waits_for,
    waits_since_ns,
    written_moment_ns,
)
from mooring.dashboard.views.scheduling_flow import PodStories
from mooring.inputs.offers.price_list import PriceList
from mooring.kit.clock import in_millis
from mooring.model.pod import Pod
from mooring.model.quantity import show_amount
from mooring.scheduler.scheduler import Scheduler

# ---- The page of one node: what it has, what is free, and which pods are on it.


MAX_ENTRIES = 500
"""Largest number of entries of a list or a map on a page. A total tells how many there are."""


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
    price: float | None = None
    """The price of an hour; null if none is known."""
    price_unit: str = ""


def node_page(scheduler: Scheduler, name: str, prices: PriceList = NO_PRICES) -> NodePage | None:
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
        [_resource("pods", int(table.pod_count[row]), int(table.allowed_pods[row])), *_resources(scheduler, row)],
        [_pod_on_node(pod) for pod in pods],
        len(table.pods_on[row]),
        node_price(node, prices),
        prices.unit,
    )


def _resources(scheduler: Scheduler, row: int) -> list[ShownResource]:
    """The resources that a node has or pods hold there."""
    nodes = scheduler.cluster.nodes
    amounts = islice(amounts_on(nodes.nodes[row], nodes.pods_on[row]).items(), MAX_ENTRIES)
    return [_resource(name, held, room) for name, (held, room) in amounts if held or room]


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
    """The resources that a pod holds on a node, as quantities."""
    held = islice(pod.shape.held.items(), MAX_ENTRIES)
    return {name: show_amount(name, amount) for name, (amount, _) in held if amount}


# ---- Lines of a story as the page of a pod shows them: the kind of what happened, and the sentence.
#
# Queue and loop tell sentences (`queue/places.py`, `scheduler/`); their beginnings say what happened.


What = Literal[
    "queued",
    "popped",
    "placed",
    "unschedulable",
    "backoff",
    "moved",
    "permit",
    "preBind",
    "nominated",
    "bound",
    "evicted",
    "gated",
    "error",
    "deleted",
    "note",
]


class ShownLine(msgspec.Struct, frozen=True):
    """One line of a timeline."""

    time: str
    what: What
    detail: str


_KINDS: tuple[tuple[str, What], ...] = (
    (r"added to the active queue", "queued"),
    (r"taken (for attempt|from the queue)", "popped"),
    (r"goes to ", "placed"),
    (r"is bound to ", "bound"),
    (r"is not scheduled: ", "unschedulable"),
    (r"unschedulable, ", "unschedulable"),
    (r"failed with an error, .*to backoff", "error"),
    (r".* to backoff until [0-9:]+$", "backoff"),
    (r".* to the active queue$", "moved"),
    (r"has room on .* and waits for ", "permit"),
    (r"has room on .*, where .* has work to do first", "preBind"),
    (r"preempts ", "nominated"),
    (r"is preempted by ", "evicted"),
    (r"gated by ", "gated"),
    (r"deleted from the queue", "deleted"),
)
"""The first that matches counts; `note` is for all others, such as what extenders say."""
_PATTERNS = tuple((re.compile(pattern, re.DOTALL), what) for pattern, what in _KINDS)


def shown_line(time_ns: int, text: str) -> ShownLine:
    return ShownLine(in_millis(time_ns), what_of(text), text)


@lru_cache(maxsize=1024)
def what_of(text: str) -> What:
    return next((what for pattern, what in _PATTERNS if pattern.match(text)), "note")


T = TypeVar("T")
_STEP = 500
"""Pods between two yields."""


class ShownPod(msgspec.Struct, frozen=True, rename="camel"):
    """A pod in a list."""

    namespace: str
    name: str
    queue: Whereabouts
    since: str
    """When it was created, or came into the queue."""
    attempts: int = 0
    message: str = ""
    plugins: Sequence[str] = ()
    waits_for: Sequence[str] = ()
    backoff_until: str | None = None
    gates: Sequence[str] = ()
    nominated_node: str = ""
    node: str = ""
    priority: int = 0


class PodPage(ShownPod, frozen=True, rename="camel"):
    """`GET api/pods/NAMESPACE/NAME`."""

    profile: str = ""
    labels: Mapping[str, str] = {}
    requests: Mapping[str, str] = {}
    phase: str = ""
    timeline: Sequence[ShownLine] = ()


class PodList(msgspec.Struct, frozen=True):
    """`GET api/pods`."""

    pods: Sequence[ShownPod]
    total: int
    """How many pods match."""


@dataclass(frozen=True, slots=True)
class PodQuery:
    """A choice among the pods that wait, or among those that have a node."""

    is_bound: bool = False
    namespace: str = ""
    text: str = ""
    """Part of `namespace/name`."""
    limit: int = 100

    def matches(self, pod: Pod) -> bool:
        return (not self.namespace or pod.namespace == self.namespace) and self.text in pod.key


def pod_list(scheduler: Scheduler, query: PodQuery) -> Sliced[PodList]:
    """The pods that a query asks for, oldest first."""
    if query.is_bound:
        on_nodes = (pod for pods in list(scheduler.cluster.nodes.pods_on) for pod in pods)
        placed, total = yield from _oldest(on_nodes, query.matches, _created, query.limit)
        return PodList([_bound(pod) for pod in placed], total)
    waiting, total = yield from _oldest(
        pending_pods(scheduler), lambda each: query.matches(each.pod), _waits_since, query.limit
    )
    return PodList([_pending(scheduler, each) for each in waiting], total)


def _oldest(
    items: Iterator[T], matches: Callable[[T], bool], age: Callable[[T], tuple[int, str]], limit: int
) -> Sliced[tuple[list[T], int]]:
    """The first by age of the items that match, and how many match."""
    oldest: list[T] = []
    total = 0
    while batch := list(islice(items, _STEP)):
        found = list(filter(matches, batch))
        total += len(found)
        oldest = nsmallest(limit, [*oldest, *found], age)
        yield
    return oldest, total


def _created(pod: Pod) -> tuple[int, str]:
    """A pod without a time is older than all others, as far as anyone knows."""
    return written_moment_ns(pod.metadata.creation_timestamp) or 0, pod.key


def _waits_since(pending: QueuedOrBinding) -> tuple[int, str]:
    return waits_since_ns(pending), pending.entry.key


# ---- one pod


def pod_page(scheduler: Scheduler, stories: PodStories | None, namespace: str, name: str) -> Sliced[PodPage | None]:
    """A pod that the scheduler knows, or that it knew and whose story is kept; None: neither."""
    key = f"{namespace}/{name}"
    lines = (yield from stories.of(key)) if stories is not None else []
    timeline = [shown_line(*line) for line in lines]
    pod = scheduler.pods.get(key)
    if pod is None:
        return PodPage(namespace, name, "gone", timeline[0].time, timeline=timeline) if timeline else None
    pod = scheduler.placed(pod.id) or pod
    pending = pending_pod(scheduler, pod)
    shown = _bound(pod) if pending is None else _pending(scheduler, pending)
    return PodPage(
        **msgspec.structs.asdict(shown),
        profile=pod.spec.scheduler_name,
        labels=dict(islice(pod.labels.items(), MAX_ENTRIES)),
        requests=shown_requests(pod),
        phase=pod.status.phase,
        timeline=timeline,
    )


def _pending(scheduler: Scheduler, pending: QueuedOrBinding) -> ShownPod:
    """Row of a pending pod for the page: its queue, since when it waits, the number of attempts, and the plugins that
    rejected it."""
    pod, entry, core = pending.pod, pending.entry, scheduler.core
    binding = core.bindings.get(entry.uid)
    until = in_millis(scheduler.backoff_ends_ns(entry)) if pending.queue == "backoff" else None
    return ShownPod(
        pod.namespace,
        pod.name,
        pending.queue,
        in_millis(waits_since_ns(pending)),
        entry.attempts,
        message_of(pending),
        list(entry.rejectors[:MAX_ENTRIES]),
        waits_for(scheduler, pending)[:MAX_ENTRIES],
        until,
        [gate.name for gate in islice(pod.spec.scheduling_gates or (), MAX_ENTRIES)],
        core.queue.nominations.node_of(entry.uid) or "",
        "" if binding is None else binding.node_name,
        pod.priority,
    )


def _bound(pod: Pod) -> ShownPod:
    """A pod on a node, or one for which another scheduler is responsible."""
    since = moment_text(pod.metadata.creation_timestamp)
    place: Whereabouts = "bound" if pod.spec.node_name else "other"
    return ShownPod(pod.namespace, pod.name, place, since, node=pod.spec.node_name, priority=pod.priority)
