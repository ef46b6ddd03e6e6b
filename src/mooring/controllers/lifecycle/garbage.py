"""The garbage collector: deletes objects whose owners are all gone, and serves foreground and orphan deletion.

Foreground: the owner stays, with a finalizer, until the dependents that block it are gone. Orphan: the dependents lose
the reference, then the owner goes. Upstream builds the same graph from watches of all kinds.
"""

from collections.abc import Iterable, Sequence

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import RESOURCES
from mooring.api.kinds.events import EVENT
from mooring.apiserver.admission.object_meta import FOREGROUND, ORPHAN, Deletion, Propagation
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_writes import lift

_COLLECTED: dict[str, KindSpec] = {r.storage: r for r in RESOURCES.values() if r.storage != EVENT.storage}
"""By storage: everything but events, which have no owners and are many."""

_NONE: dict[Key, None] = {}


def task_of(storage: str, key: Key) -> Key:
    """A key that also holds the storage, because objects of all kinds are synced here."""
    return f"{storage} {key[0]}", key[1]


class Garbage:
    """Knows which uids exist and what depends on whom, so that a deletion costs as much as there are dependents."""

    name = "garbage"
    storages: Sequence[str] = tuple(_COLLECTED)
    rest_ns = 0

    def __init__(self, api: ResourceApi) -> None:
        self._api = api
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
        """What the present state of the object asks for: a judgement, orphaning, or foreground deletion."""
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
        resource = _COLLECTED[storage]
        return resource, self._api.find(resource, namespace, task[1])

    def _judge(self, resource: KindSpec, item: JsonObject) -> None:
        """Keep an object as long as one of its owners exists, and drop references to the others; delete it if none is
        left."""
        owners = item["metadata"].get("ownerReferences", ())
        staying = [owner for owner in owners if owner["uid"] in self._living and owner["uid"] not in self._waiting]
        if len(staying) == len(owners):
            return
        if staying:
            self._own(resource, item, staying)
            return
        # Foreground deletion goes down the tree: a dependent that has dependents itself waits for them too.
        is_awaited = any(owner["uid"] in self._waiting for owner in owners)
        has_dependents = bool(self._dependents.get(item["metadata"]["uid"]))
        self._delete(resource, item, "Foreground" if is_awaited and has_dependents else "Background")

    def _set_free(self, resource: KindSpec, owner: JsonObject) -> None:
        """Orphan deletion: take the reference off all dependents, then let the owner go."""
        uid = owner["metadata"]["uid"]
        for task in list(self._dependents.get(uid, _NONE)):
            kind, item = self._find(task)
            if item is not None:
                self._own(kind, item, [held for held in item["metadata"]["ownerReferences"] if held["uid"] != uid])
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

    def _own(self, resource: KindSpec, item: JsonObject, owners: list[JsonObject]) -> None:
        """Replace the owner references of an object."""
        meta = item["metadata"]
        self._api.change(
            resource,
            meta.get("namespace", ""),
            meta["name"],
            lambda held: {**held, "metadata": {**held["metadata"], "ownerReferences": owners}},
        )

    def _delete(self, resource: KindSpec, item: JsonObject, propagation: Propagation) -> None:
        """Delete this very object: the uid protects one that was created under the same name since."""
        meta = item["metadata"]
        how = Deletion(propagation=propagation, uid=meta["uid"])
        try:
            self._api.delete(resource, meta.get("namespace", ""), meta["name"], how)
        except ApiError as refusal:
            if refusal.code != 404:
                raise


def _is_asked(meta: JsonObject) -> bool:
    """Whether the deletion needs the garbage collector."""
    finalizers = meta.get("finalizers", ())
    return FOREGROUND in finalizers or ORPHAN in finalizers


def _blocks(item: JsonObject, owner_uid: str) -> bool:
    """Whether the owner has to wait for this dependent (blockOwnerDeletion)."""
    owners = item["metadata"].get("ownerReferences", ())
    return any(owner["uid"] == owner_uid and owner.get("blockOwnerDeletion") for owner in owners)
