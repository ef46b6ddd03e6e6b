"""Deletes what is not needed any more: objects whose owners are all gone, pods that no other controller deletes, and old
events. The garbage collector also serves foreground and orphan deletion.

Foreground: the owner stays, with a finalizer, until the dependents that block it are gone. Orphan: the dependents lose
the reference, then the owner goes. Upstream builds the same graph from watches of all kinds.
"""

from collections.abc import Iterable

from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import RESOURCES
from mooring.api.kinds.events import EVENT
from mooring.apiserver.admission.object_meta import FOREGROUND, ORPHAN, Propagation
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite, key_of
from mooring.controllers.cluster_writes import (
    EVENT_STORE,
    EVENTS,
    GONE,
    NODE_STORE,
    POD_STORE,
    PODS,
    REPLACED,
    change_metadata,
    delete_object,
    lift,
)
from mooring.controllers.control_loop import Controller, NodePodsController
from mooring.controllers.index import Index
from mooring.kit.clock import NS_PER_S
from mooring.model.pod_spec import FINISHED_PHASES
from mooring.rules.conditions import disruption_target, with_condition

_COLLECTED: dict[str, KindSpec] = {r.storage: r for r in RESOURCES.values() if r.storage != EVENT.storage}
"""By storage: everything but events, which have no owners and are many."""

_NONE: dict[Key, None] = {}


def task_of(storage: str, key: Key) -> Key:
    """A key that also holds the storage, because objects of all kinds are synced here."""
    return f"{storage} {key[0]}", key[1]


class Garbage(Controller):
    """Knows which uids exist and what depends on whom, so that a deletion costs as much as there are dependents."""

    name = "garbage"
    storages = tuple(_COLLECTED)
    follows_custom = True

    def __init__(self, api: ResourceApi) -> None:
        super().__init__(api)
        self._living: set[str] = set()
        """The uids of all objects."""
        self._dependents: dict[str, dict[Key, None]] = {}
        """By uid of the owner: the tasks of its dependents."""
        self._waiting: dict[str, Key] = {}
        """Owners in foreground deletion, by uid."""

    # ---- hearing

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """Hot: a write that neither adds nor removes nor changes owners is recognised by two comparisons."""
        meta, before = write.object["metadata"], write.before
        owners = meta.get("ownerReferences", ())
        if write.type == "DELETED":
            return self._forget(write, meta, owners)
        if before is not None:
            held = before["metadata"].get("ownerReferences", ())
            if not meta.get("deletionTimestamp") and (owners is held or owners == held):
                return ()
            self._unfile(write, held)
        self._living.add(meta["uid"])
        return self._file(write, meta, owners)

    def _file(self, write: StoreWrite, meta: JsonObject, owners: Iterable[JsonObject]) -> Iterable[Key]:
        """Note the owners. An object has to be synced if one of its owners is gone or waits for it."""
        task = task_of(write.storage, write.key)
        is_stray = False
        for owner in owners:
            self._dependents.setdefault(owner["uid"], {})[task] = None
            is_stray = is_stray or owner["uid"] not in self._living or owner["uid"] in self._waiting
        if meta.get("deletionTimestamp"):
            return (task,) if _is_asked(meta) else ()
        return (task,) if is_stray else ()

    def _forget(self, write: StoreWrite, meta: JsonObject, owners: Iterable[JsonObject]) -> list[Key]:
        """The object is gone: its dependents may be garbage now, and an owner that waited for it may go."""
        self._living.discard(meta["uid"])
        self._waiting.pop(meta["uid"], None)
        self._unfile(write, owners)
        # Owners in foreground deletion that waited for this object may go now.
        waiting = [self._waiting[owner["uid"]] for owner in owners if owner["uid"] in self._waiting]
        return [*waiting, *self._dependents.get(meta["uid"], ())]

    def _unfile(self, write: StoreWrite, owners: Iterable[JsonObject]) -> None:
        task = task_of(write.storage, write.key)
        for owner in owners:
            filed = self._dependents.get(owner["uid"], {})
            filed.pop(task, None)
            if not filed:
                self._dependents.pop(owner["uid"], None)

    # ---- collecting

    def sync(self, key: Key) -> int | None:
        """Do what the present state of the object asks for: a judgement, orphaning, or foreground deletion."""
        resource, item = self._find(key)
        if item is None:
            return None
        meta = item["metadata"]
        if not meta.get("deletionTimestamp"):
            self._judge(resource, item)
        elif ORPHAN in meta.get("finalizers", ()):
            self._set_free(resource, item)
        elif FOREGROUND in meta.get("finalizers", ()):
            self._wait(resource, item, key)
        return None

    def _find(self, task: Key) -> tuple[KindSpec, JsonObject | None]:
        """The kind and the object of a task; None: it is gone."""
        storage, _, namespace = task[0].partition(" ")
        resource = _COLLECTED.get(storage) or self._api.kinds.stored().get(storage)
        if resource is None:  # its definition is gone, and all its objects with it
            return PODS, None
        return resource, self._api.find(resource, namespace, task[1])

    def _judge(self, resource: KindSpec, item: JsonObject) -> None:
        """Keep an object as long as one of its owners exists, and drop references to the others; delete it if none is
        left."""
        owners = item["metadata"].get("ownerReferences", ())
        staying = [owner for owner in owners if owner["uid"] in self._living and owner["uid"] not in self._waiting]
        if len(staying) == len(owners):
            return
        if staying:
            change_metadata(self._api, resource, item, ownerReferences=staying)
            return
        # Foreground deletion goes down the tree: a dependent that has dependents itself waits for them too.
        is_awaited = any(owner["uid"] in self._waiting for owner in owners)
        has_dependents = bool(self._dependents.get(item["metadata"]["uid"]))
        propagation: Propagation = "Foreground" if is_awaited and has_dependents else "Background"
        delete_object(self._api, resource, item, propagation, accepted=(GONE,))

    def _set_free(self, resource: KindSpec, owner: JsonObject) -> None:
        """Orphan deletion: take the reference off all dependents, then let the owner go."""
        uid = owner["metadata"]["uid"]
        for task in list(self._dependents.get(uid, _NONE)):
            kind, item = self._find(task)
            if item is not None:
                left = [held for held in item["metadata"]["ownerReferences"] if held["uid"] != uid]
                change_metadata(self._api, kind, item, ownerReferences=left)
        lift(self._api, resource, owner, ORPHAN)

    def _wait(self, resource: KindSpec, owner: JsonObject, task: Key) -> None:
        """Foreground deletion: delete the dependents; the owner goes when none is left that blocks it."""
        uid = owner["metadata"]["uid"]
        self._waiting[uid] = task
        blocking = 0
        for dependent in list(self._dependents.get(uid, _NONE)):
            kind, item = self._find(dependent)
            if item is None:
                continue
            if not item["metadata"].get("deletionTimestamp"):
                self._judge(kind, item)
                _, item = self._find(dependent)
            blocking += item is not None and _blocks(item, uid)
        if not blocking:
            lift(self._api, resource, owner, FOREGROUND)


def _is_asked(meta: JsonObject) -> bool:
    """Whether the deletion needs the garbage collector."""
    finalizers = meta.get("finalizers", ())
    return FOREGROUND in finalizers or ORPHAN in finalizers


def _blocks(item: JsonObject, owner_uid: str) -> bool:
    """Whether the owner has to wait for this dependent (blockOwnerDeletion)."""
    owners = item["metadata"].get("ownerReferences", ())
    return any(owner["uid"] == owner_uid and owner.get("blockOwnerDeletion") for owner in owners)


# ---- Pods that no other controller deletes: those whose node is gone, and the oldest of too many finished ones.


QUARANTINE_S = 40
"""How long a node must be gone, as upstream: it may be replaced by one of the same name."""

MOST_FINISHED = 12_500
"""Upstream's --terminated-pod-gc-threshold."""
_FINISHED_TASK: Key = ("", "finished")
"""FinishedPods has one task for all pods."""


class StrandedPods(NodePodsController):
    """Pods whose node does not exist: no kubelet will ever end them."""

    name = "stranded-pods"

    def __init__(self, api: ResourceApi, pods_by_node: Index) -> None:
        super().__init__(api, pods_by_node)
        self._gone_ns: dict[str, int] = {}
        """By node: when it was first found missing."""

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """Pods of a node that is deleted, and pods that are bound to a node that does not exist."""
        if write.storage == NODE_STORE:
            name = write.object["metadata"]["name"]
            if write.type == "ADDED":
                self._gone_ns.pop(name, None)
            pods = self._pods_by_node[name] if write.type == "DELETED" else ()
            return map(key_of, pods)
        node = write.object["spec"].get("nodeName")
        is_placed = node and (write.before is None or write.before["spec"] is not write.object["spec"])
        return (write.key,) if is_placed and write.type != "DELETED" and not self._exists(node) else ()

    def _exists(self, node: str) -> bool:
        return self._api.store.find(NODE_STORE, ("", node)) is not None

    def sync(self, key: Key) -> int | None:
        """Delete the pod if its node has been gone for long enough; otherwise return when that will be."""
        pod = self._api.store.find(POD_STORE, key)
        node = pod["spec"].get("nodeName") if pod is not None else None
        if pod is None or not node or self._exists(node):
            return None
        now_ns = self._api.clock.now_ns()
        due_ns = self._gone_ns.setdefault(node, now_ns) + QUARANTINE_S * NS_PER_S
        if now_ns < due_ns:
            return due_ns
        self._remove(pod)
        return None

    def _remove(self, pod: JsonObject) -> None:
        """Mark the pod failed and disrupted, so that its workload counts it rightly, then delete it without grace: no
        kubelet would confirm."""
        status = pod["status"]
        if status.get("phase") not in FINISHED_PHASES:
            why = disruption_target("DeletionByPodGC", "PodGC: node no longer exists", pod)
            conditions = with_condition(status.get("conditions", ()), why, self._api.now())
            self._api.put_status(PODS, pod, {**status, "phase": "Failed", "conditions": conditions})
        delete_object(self._api, PODS, pod, grace_s=0)


class FinishedPods(Controller):
    """Finished pods are kept for users to read, but only so many."""

    name = "finished-pods"
    storages = (POD_STORE,)
    rest_ns = 20 * NS_PER_S
    """Upstream's period of the pod garbage collector."""

    def __init__(self, api: ResourceApi, most: int = MOST_FINISHED) -> None:
        super().__init__(api)
        self._most = most
        self._finished: set[Key] = set()

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """Count finished pods; only one too many needs a sync."""
        if write.type != "DELETED" and write.object.get("status", {}).get("phase") not in FINISHED_PHASES:
            return ()
        if write.type == "DELETED":
            self._finished.discard(write.key)
            return ()
        self._finished.add(write.key)
        return (_FINISHED_TASK,) if len(self._finished) > self._most else ()

    def sync(self, key: Key) -> int | None:
        """Delete the oldest of too many. The rest of 20 s is upstream's period."""
        excess = len(self._finished) - self._most
        if excess <= 0:
            return None
        found = (self._api.store.find(POD_STORE, key) for key in self._finished)
        pods = sorted((pod for pod in found if pod is not None), key=_age)
        for pod in pods[:excess]:
            delete_object(self._api, PODS, pod, grace_s=0, accepted=(GONE, REPLACED))
        return None


def _age(pod: JsonObject) -> tuple[str, str, str]:
    """The oldest first; names break ties, so that runs can be repeated."""
    meta = pod["metadata"]
    return meta["creationTimestamp"], meta["namespace"], meta["name"]


# ---- Events: they go an hour after their last write, and sooner if there are too many.


KEPT_S = 3600
"""Upstream's --event-ttl."""
MOST_EVENTS = 200_000
"""About 300 MB: a cluster that starts thousands of pods a second would otherwise fill the memory within the hour."""

_MOST_A_STEP = 200
"""Deletions in one sync: more would delay other controllers."""
_EVENTS_TASK: Key = ("", "events")
"""The one key of this controller: it has one task for all events."""


class EventExpiry(Controller):
    """One task for all events: they are kept in the order of their last writes, so the first is always the next to
    expire."""

    name = "event-expiry"
    storages = (EVENT_STORE,)

    def __init__(self, api: ResourceApi, most: int = MOST_EVENTS) -> None:
        super().__init__(api)
        self._most = most
        self._written_ns: dict[Key, int] = {}

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """Only the first event, and one too many, start the task: from then on it plans itself."""
        key = write.key
        self._written_ns.pop(key, None)
        if write.type == "DELETED":
            return ()
        self._written_ns[key] = self._api.clock.now_ns()
        return (_EVENTS_TASK,) if len(self._written_ns) == 1 or len(self._written_ns) > self._most else ()

    def sync(self, key: Key) -> int | None:
        """Delete what is due. Returns when the next event is."""
        now_ns = self._api.clock.now_ns()
        for _ in range(_MOST_A_STEP):
            if not self._written_ns:
                return None
            oldest = next(iter(self._written_ns))
            due_ns = self._written_ns[oldest] + KEPT_S * NS_PER_S
            if due_ns > now_ns and len(self._written_ns) <= self._most:
                return due_ns
            event = self._api.find(EVENTS, *oldest)
            if event is not None:
                delete_object(self._api, EVENTS, event)
            self._written_ns.pop(oldest, None)
        return now_ns


CONTROLLERS = (Garbage, FinishedPods, EventExpiry)
