"""Indexes over objects of one storage, kept up to date with every write: by owner, by node, and by the labels that
decide which workload may adopt an object."""

from collections.abc import Callable, Collection, Iterator

from mooring.api.json_objects import JsonObject
from mooring.apiserver.store import Key, Store, StoreWrite, key_of

Marks = Callable[[JsonObject], Collection[str]]
"""Function that returns the marks under which an index files an object. It must depend on the object only, so that the marks
of an old version find its entries."""


class Index:
    """Objects of one storage by the marks that a function gives them: upstream's indexers of informers."""

    def __init__(self, store: Store, storage: str, marks: Marks) -> None:
        self._marks = marks
        self._files: dict[str, dict[Key, JsonObject]] = {}
        for write in store.additions(storage):
            self._observe(write)
        store.listen(self._observe, (storage,))

    def __getitem__(self, mark: str) -> list[JsonObject]:
        """The objects under a mark, in the order in which they were filed there."""
        return list(self._files.get(mark, {}).values())

    def count(self, mark: str) -> int:
        """How many objects are under a mark, without a copy."""
        return len(self._files.get(mark, ()))

    def __bool__(self) -> bool:
        """Whether anything is filed at all."""
        return bool(self._files)

    def _observe(self, write: StoreWrite) -> None:
        """Refile an object. Marks that stay keep the place of the object in the order."""
        before = self._marks(write.before) if write.before is not None else ()
        after = self._marks(write.object) if write.type != "DELETED" else ()
        # A mark that stays is not removed first: the object keeps its place, so the order is that of arrival.
        for mark in before:
            if mark not in after:
                filed = self._files[mark]
                filed.pop(write.key, None)
                if not filed:
                    del self._files[mark]
        for mark in after:
            self._files.setdefault(mark, {})[write.key] = write.object


def manager_of(item: JsonObject) -> JsonObject | None:
    """The reference to the owner that is the controller; None: the object is an orphan."""
    for owner in item["metadata"].get("ownerReferences", ()):
        if owner.get("controller"):
            found: JsonObject = owner
            return found
    return None


def owner_uid(item: JsonObject) -> str:
    """The uid of the owner that is its controller; empty: it has none."""
    owner = manager_of(item)
    return owner["uid"] if owner is not None else ""


def by_controller(item: JsonObject) -> Collection[str]:
    uid = owner_uid(item)
    return (uid,) if uid else ()


def by_node(pod: JsonObject) -> Collection[str]:
    node = pod["spec"].get("nodeName")
    return (node,) if node else ()


# ---- Orphans, objects without a controller, and the workloads that may adopt them: found by labels, without a walk
# over all.


class Orphans:
    """Objects of one storage without a controller, by namespace and by each of their labels."""

    def __init__(self, store: Store, storage: str) -> None:
        self._index = Index(store, storage, _label_marks)

    def candidates(self, namespace: str, equal: dict[str, str]) -> list[JsonObject]:
        """Orphans that may have these labels: all that share the rarest of them. Without labels, all of the namespace.
        The caller checks its whole selector."""
        marks = [_mark(namespace, *pair) for pair in equal.items()] or [_mark(namespace)]
        return self._index[min(marks, key=self._index.count)]


class Adopters:
    """Workloads of one storage by a label that their pods must have: those that may adopt an orphan."""

    def __init__(self, store: Store, storage: str) -> None:
        self._index = Index(store, storage, _wanted_marks)

    def of(self, orphan: JsonObject) -> Iterator[Key]:
        """Workloads that may want this object; their selectors decide."""
        if not self._index:
            return
        for mark in _all_marks(orphan):
            yield from map(key_of, self._index[mark])


def equal_labels(workload: JsonObject) -> dict[str, str]:
    """Labels that the selector of a workload requires by value. ReplicationControllers have a plain map as selector."""
    selector = workload["spec"].get("selector") or {}
    if workload.get("kind") == "ReplicationController":
        return dict(selector)
    return dict(selector.get("matchLabels", {}))


def _label_marks(item: JsonObject) -> Collection[str]:
    """An object with a controller is filed under nothing: it is no orphan."""
    return () if owner_uid(item) else _all_marks(item)


def _all_marks(item: JsonObject) -> list[str]:
    """The marks of a namespace and of each label of an object in it."""
    metadata = item["metadata"]
    namespace = metadata.get("namespace", "")
    return [_mark(namespace), *(_mark(namespace, *pair) for pair in metadata.get("labels", {}).items())]


def _wanted_marks(workload: JsonObject) -> Collection[str]:
    """One label is enough to find the workload: the first by name. A selector of expressions alone is filed under its
    namespace."""
    namespace = workload["metadata"].get("namespace", "")
    first = sorted(equal_labels(workload).items())[:1]
    return (_mark(namespace, *first[0]) if first else _mark(namespace),)


def _mark(namespace: str, key: str = "", value: str = "") -> str:
    return f"{namespace}/{key}={value}"
