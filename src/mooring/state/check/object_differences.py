"""Differences between what a running scheduler believes and what a scheduler that was built now says.

Objects are compared by their versions, and so is where pods are: in the queue, in flight, being bound, assumed,
nominated; and what bindings hold.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeVar, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.cluster import Cluster, object_in
from mooring.cluster.columns.labels import LabelColumn, ValueColumn
from mooring.cluster.nodes.table import NodeTable
from mooring.model.devices import ResourceClaim
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.storage import PersistentVolume, PersistentVolumeClaim
from mooring.scheduler.core import Core
from mooring.scheduler.scheduler import Scheduler

# ---- Rows of two node tables that stand for the same node. Nodes come in another order, so they have other rows.


EncodedColumn = LabelColumn | ValueColumn[Any]


class RowPairs:
    """The rows that both tables have, pair by pair. Good until one of the tables changes."""

    def __init__(self, running: NodeTable, fresh: NodeTable) -> None:
        self.names = [name for name in running.row_book if name in fresh.row_book]
        count = len(self.names)
        self.running: NDArray[np.intp] = np.fromiter(map(running.row_book.__getitem__, self.names), np.intp, count)
        self.fresh: NDArray[np.intp] = np.fromiter(map(fresh.row_book.__getitem__, self.names), np.intp, count)

    def unequal(self, running: NDArray[Any], fresh: NDArray[Any]) -> Iterator[tuple[str, Any, Any]]:
        """The nodes for which two columns differ, with both values."""
        ours, theirs = running.take(self.running), fresh.take(self.fresh)
        for place in (ours != theirs).nonzero()[0].tolist():
            yield self.names[place], ours[place].item(), theirs[place].item()


class RowPairing:
    """Keeps the pairs until one of the tables changes."""

    def __init__(self, running: NodeTable, fresh: NodeTable) -> None:
        self._tables = running, fresh
        self._stamp: tuple[int, ...] = ()
        self._pairs: RowPairs | None = None

    def now(self) -> RowPairs:
        stamp = tuple(end for table in self._tables for end in (table.touches.end, table.node_set_version))
        if self._pairs is None or stamp != self._stamp:
            self._stamp, self._pairs = stamp, RowPairs(*self._tables)
        return self._pairs


def in_codes_of(fresh: EncodedColumn, running: EncodedColumn) -> NDArray[np.int64]:
    """The codes of the running column as codes of the fresh one, -1 for values that it does not have."""
    book = {value: code for code, value in enumerate(fresh.values)}
    codes = np.array([book.get(value, -1) for value in running.values], np.int64)
    return codes.take(running.codes)


DifferenceKind = Literal[
    "object",
    "row",
    "port",
    "tally",
    "volume",
    "device",
    "nomination",
    "group",
    "queue",
    "assumed",
    "answer",
    "stranded",
    "watch",
]
"""Subject of a difference. The words are label values of a metric, and docs/run.md explains them."""

KINDS: tuple[DifferenceKind, ...] = get_args(DifferenceKind)

T = TypeVar("T")

BATCH = 100
"""Items that are compared one by one before others may work: up to a millisecond."""
_LONGEST = 300
"""Characters of a story: a selector, or the values of an object, may be of any length."""


class StateDifference(msgspec.Struct, frozen=True):
    """A value that the running scheduler believes, and what a fresh one says instead. Two differences with the same `place`
    are the same fault, seen twice."""

    kind: DifferenceKind
    about: type[KubeObject] | None
    """The kind of the object that it is about; None: it is about none, as `name` says."""
    name: str
    """The key of the object, or what else it is about."""
    what: str
    """Which value of it."""
    believed: str
    fresh: str

    @property
    def place(self) -> tuple[DifferenceKind, type[KubeObject] | None, str, str]:
        return self.kind, self.about, self.name, self.what

    @property
    def subject(self) -> str:
        return self.name if self.about is None else f"{self.about.__name__} {self.name}"

    def __str__(self) -> str:
        return f"{self.subject}: {self.what}: believed {cut(self.believed)}, fresh {cut(self.fresh)}"


Findings = Iterator[StateDifference | None]
"""Differences one by one; None: a moment at which others may work. Between two of them both sides may change, in step."""


def cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 4]} ..."


def in_batches(items: Iterable[T], look: Callable[[T], Iterable[StateDifference]]) -> Findings:
    """Look at each item. They are those of a moment that may be past: `look` must not rely on their being there."""
    for count, item in enumerate(items, 1):
        yield from look(item)
        if count % BATCH == 0:
            yield None
    yield None


# ---- objects, by their versions


def compare_objects(running: Cluster, fresh: Cluster) -> Findings:
    """Compare the objects that plugins look up, and nodes."""
    kinds: list[type[KubeObject]] = [*running.objects, Node]
    for kind in kinds:
        yield from _compare_kind(kind, running, fresh)


def _compare_kind(kind: type[KubeObject], running: Cluster, fresh: Cluster) -> Findings:
    def look(key: str) -> Iterator[StateDifference]:
        return _unequal(kind, key, "version", object_in(running, kind, key), object_in(fresh, kind, key))

    ours, theirs = (each.nodes.row_book if kind is Node else each.objects[kind] for each in (running, fresh))
    yield from in_batches(list(ours.keys() | theirs.keys()), look)


def _unequal(
    kind: type[KubeObject], key: str, what: str, believed: KubeObject | None, fresh: KubeObject | None
) -> Iterator[StateDifference]:
    if believed is not fresh and version_of(believed) != version_of(fresh):
        yield StateDifference("object", kind, key, what, version_of(believed), version_of(fresh))


def version_of(item: KubeObject | None) -> str:
    """Identity and version of an object, in words."""
    return (
        "there is none"
        if item is None
        else f"{item.metadata.resource_version or 'unversioned'} of {item.uid or item.key}"
    )


UNCONFIRMED = "binding"
"""Name of the difference of a pod that is assumed, is not being bound, and is not seen on its node. While a watch is late,
this difference is expected."""


def compare_pods(running: Scheduler, fresh: Scheduler) -> Findings:
    """The pods that the watch shows, and as they are counted on nodes."""
    for pods in (running.pods, fresh.pods):
        yield from in_batches(
            list(pods), lambda key: _unequal(Pod, key, "version", running.pods.get(key), fresh.pods.get(key))
        )
    yield from in_batches(fresh.core.cache.pod_ids(), lambda pod_id: _counted(pod_id, running, fresh))


def _counted(pod_id: str, running: Scheduler, fresh: Scheduler) -> Iterator[StateDifference]:
    """A pod that is seen on a node is counted there as it is seen. That it is counted at all is compared by row."""
    ours, theirs = running.placed(pod_id), fresh.placed(pod_id)
    if ours is None or theirs is None or fresh.core.cache.is_assumed(pod_id):
        return
    if running.core.cache.is_assumed(pod_id):
        yield _about(theirs, "assumed", "node", f"assumed on {ours.spec.node_name}", f"on {theirs.spec.node_name}")
    else:
        yield from _unequal(Pod, ours.key, "version on its node", ours, theirs)


def _about(pod: Pod, kind: DifferenceKind, what: str, believed: str, fresh: str) -> StateDifference:
    return StateDifference(kind, Pod, pod.key, what, believed, fresh)


# ---- the queue


def compare_queue(running: Scheduler, fresh: Scheduler) -> Findings:
    """Every pod of ours without a node is in exactly one place of the queue, or holds room on a node; no other is queued."""
    yield from in_batches(list(fresh.pods), lambda key: _membership(running.core, fresh.pods.get(key)))
    yield from in_batches([entry.key for entry in running.queued_pods()], lambda key: _entry(key, running, fresh))
    yield from in_batches(running.core.queue.in_flight.uids(), lambda uid: _flight(uid, running.core))


def _membership(core: Core, pod: Pod | None) -> Iterator[StateDifference]:
    """A pod of ours without a node, or with a deferred resize, that is in no place, or in several."""
    is_resize = pod is not None and core.cluster.is_resize(pod)
    if pod is None or (pod.spec.node_name and not is_resize) or pod.spec.scheduler_name not in core.runners:
        return
    places: list[str] = list(core.queue.all_with(pod.key))
    if core.cache.has(pod.id) and not is_resize:
        places.append("assumed")
    # Parity: a pod that is being deleted is taken from the queue and not put back.
    if len(places) > 1 or not (places or pod.is_terminating or _is_suspended(core, pod.id)):
        yield _about(pod, "queue", "places", ", ".join(places) or "none", "one")


def _is_suspended(core: Core, pod_id: str) -> bool:
    """Whether an attempt of the pod waits for extenders."""
    return core.extender_calls.suspension is not None and core.queue.is_in_flight(pod_id)


def _entry(key: str, running: Scheduler, fresh: Scheduler) -> Iterator[StateDifference]:
    """A queued pod that is gone, has a node, or is queued in an older version."""
    entry, pod = running.queued(key), fresh.pods.get(key)
    if entry is None:
        return
    if pod is None or pod.id != entry.uid:
        yield _about(entry.pod, "queue", "pod", f"{entry.uid} waits", "there is no such pod")
    elif pod.spec.node_name and not running.cluster.is_resize(pod):
        yield _about(pod, "queue", "pod", "waits for a node", f"is on {pod.spec.node_name}")
    elif version_of(entry.pod) != version_of(pod):
        yield _about(pod, "queue", "version", version_of(entry.pod), version_of(pod))


def _flight(uid: str, core: Core) -> Iterator[StateDifference]:
    """Between two inputs a pod is in flight only while it waits on Permit, or for extenders."""
    entry = core.queue.in_flight.entry(uid)
    if entry is not None and uid not in core.bindings and core.extender_calls.suspension is None:
        yield _about(entry.pod, "queue", "attempt", "under way", "over")


# ---- nominations


def compare_nominations(running: Scheduler, fresh: Scheduler) -> Findings:
    """Only pods that wait for a node are nominated to one."""
    yield from in_batches(running.core.queue.nominations.pod_ids(), lambda uid: _nomination(uid, running, fresh))


def _nomination(uid: str, running: Scheduler, fresh: Scheduler) -> Iterator[StateDifference]:
    """A nomination whose room is on another node, or of a pod that is gone or has a node."""
    node, load = running.core.queue.nominations.node_of(uid), running.nominated.node_of(uid)
    nominated = running.nominated.get(uid)
    if node is None and load is None:
        return
    if nominated is None or node != load:
        yield StateDifference(
            "nomination", None, uid, "node", f"nominated to {node}, its room is on {load}", "the same node"
        )
        return
    pod = fresh.pods.get(nominated.key)
    if pod is None or pod.id != uid:
        yield StateDifference("nomination", Pod, nominated.key, "pod", f"nominated to {node}", "there is no such pod")
    elif pod.spec.node_name or running.core.cache.is_assumed(uid):
        where = pod.spec.node_name or "assumed"
        yield StateDifference("nomination", Pod, pod.key, "pod", f"nominated to {node}", f"has a node: {where}")


# ---- assumed pods, and what bindings hold


def compare_assumed(running: Scheduler, fresh: Scheduler) -> Findings:
    """A pod is assumed while it is being bound, and until the watch shows it on its node."""
    core = running.core
    yield from in_batches(core.cache.assumed_ids(), lambda uid: _assumed(uid, core, fresh))
    yield from in_batches(list(core.bindings), lambda uid: _bound(uid, core, fresh))
    yield from _reservations(core)


def _assumed(uid: str, core: Core, fresh: Scheduler) -> Iterator[StateDifference]:
    """An assumed pod that is on no node, does not exist, or that nothing is binding."""
    pod = core.cache.get(uid)
    if pod is None:
        if core.cache.is_assumed(uid):
            yield StateDifference("assumed", None, uid, "pod", "assumed", "on no node")
        return
    if uid in core.bindings or not core.cache.is_assumed(uid):
        return
    known = fresh.pods.get(pod.key)
    if known is None or known.id != uid:
        yield _about(pod, "assumed", "pod", f"assumed on {pod.spec.node_name}", "there is no such pod")
    elif not known.spec.node_name:
        yield _about(pod, "assumed", UNCONFIRMED, f"assumed on {pod.spec.node_name}", "neither bound nor being bound")


def _bound(uid: str, core: Core, fresh: Scheduler) -> Iterator[StateDifference]:
    """A binding whose pod holds no room."""
    binding = core.bindings.get(uid)
    known = fresh.pods.get(binding.pod.key) if binding is not None else None
    if binding is None or known is None or known.id != uid or known.is_terminating:
        return
    if not core.cache.has(uid):
        yield _about(binding.pod, "assumed", "room", "none", f"being bound to {binding.node_name}")


def _reservations(core: Core) -> Findings:
    """Devices that are about to be allocated, and volumes that are about to be bound, belong to pods that are being bound."""
    pods = [binding.pod for binding in core.bindings.values()]
    owners, named = {pod.uid for pod in pods}, {key for pod in pods for key in _device_claims(pod)}
    for claim in core.cluster.claims.pending_claims():
        if not core.cluster.claims.is_in_doubt(claim.uid or claim.key) and not _is_wanted(claim, owners, named):
            yield StateDifference(
                "device", ResourceClaim, claim.key, "pending", "about to be allocated", "no pod is bound with it"
            )
    wanted = {key for pod in pods for key in _volume_claims(pod)}
    for key in core.cluster.storage.assumed_claims() - wanted:
        yield StateDifference(
            "volume", PersistentVolumeClaim, key, "assumed", "about to be bound", "no pod is bound with it"
        )
    for name, key in core.cluster.storage.assumed_volumes().items():
        if key not in wanted:
            yield StateDifference("volume", PersistentVolume, name, "assumed", f"for {key}", "no pod is bound with it")
    yield None


def _is_wanted(claim: ResourceClaim, owners: set[str], named: set[str]) -> bool:
    return claim.key in named or any(owner.uid in owners for owner in claim.metadata.owner_references or ())


def _device_claims(pod: Pod) -> Iterable[str]:
    names = (entry.resource_claim_name for entry in pod.spec.resource_claims or ())
    made = (status.resource_claim_name for status in pod.status.resource_claim_statuses or ())
    return (f"{pod.namespace}/{name}" for name in (*names, *made) if name)


def _volume_claims(pod: Pod) -> Iterable[str]:
    for volume in pod.spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            yield f"{pod.namespace}/{volume.persistent_volume_claim.claim_name}"
        elif volume.ephemeral is not None:
            yield f"{pod.namespace}/{pod.name}-{volume.name}"
