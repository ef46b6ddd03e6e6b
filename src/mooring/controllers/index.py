"""Objects of one storage by something they have: pods by owner, by node. Kept up to date with every write."""

from collections.abc import Callable, Collection, Iterator

from mooring.apiserver.store import Key, Store, StoreWrite
from mooring.model.json_objects import JsonObject

Marks = Callable[[JsonObject], Collection[str]]


class Index:
    """What to file an object under is for `marks` to say; it must depend on the object only."""

    def __init__(self, store: Store, storage: str, marks: Marks) -> None:
        self._marks = marks
        self._files: dict[str, dict[Key, JsonObject]] = {}
        for item in store.all(storage):
            self._observe(StoreWrite(store.version, storage, "ADDED", item, None))
        store.listen(self._observe, (storage,))

    def __getitem__(self, mark: str) -> list[JsonObject]:
        """In the sequence in which they came to be filed there."""
        return list(self._files.get(mark, {}).values())

    def count(self, mark: str) -> int:
        return len(self._files.get(mark, ()))

    def __bool__(self) -> bool:
        """Whether anything is filed at all."""
        return bool(self._files)

    def _observe(self, write: StoreWrite) -> None:
        before = self._marks(write.before) if write.before is not None else ()
        after = self._marks(write.object) if write.type != "DELETED" else ()
        for mark in before:
            if mark not in after:
                filed = self._files[mark]
                filed.pop(write.key, None)
                if not filed:
                    del self._files[mark]
        for mark in after:
            self._files.setdefault(mark, {})[write.key] = write.object


def owner_uid(item: JsonObject) -> str:
    """Of the one owner that manages it; empty: nobody does."""
    for owner in item["metadata"].get("ownerReferences", ()):
        if owner.get("controller"):
            uid: str = owner["uid"]
            return uid
    return ""


def by_controller(item: JsonObject) -> Collection[str]:
    uid = owner_uid(item)
    return (uid,) if uid else ()


def by_node(pod: JsonObject) -> Collection[str]:
    node = pod["spec"].get("nodeName")
    return (node,) if node else ()


# ---- Objects that nobody manages, and who would: found by labels, without a look at all of them.


class Orphans:
    """Objects of one storage without a controller, by namespace and by each of their labels."""

    def __init__(self, store: Store, storage: str) -> None:
        self._index = Index(store, storage, _label_marks)

    def candidates(self, namespace: str, equal: dict[str, str]) -> list[JsonObject]:
        """Those that may have these labels: all that share the rarest of them. Without labels, all of the namespace."""
        marks = [_mark(namespace, *pair) for pair in equal.items()] or [_mark(namespace)]
        return self._index[min(marks, key=self._index.count)]


class Adopters:
    """Workloads of one storage by a label that their pods must have: who might adopt an orphan."""

    def __init__(self, store: Store, storage: str) -> None:
        self._index = Index(store, storage, _wanted_marks)

    def of(self, orphan: JsonObject) -> Iterator[Key]:
        """Workloads that may want this object; whether they do is theirs to say."""
        if not self._index:
            return
        metadata = orphan["metadata"]
        namespace = metadata.get("namespace", "")
        for mark in (_mark(namespace), *(_mark(namespace, *pair) for pair in metadata.get("labels", {}).items())):
            for workload in self._index[mark]:
                yield namespace, workload["metadata"]["name"]


def equal_labels(workload: JsonObject) -> dict[str, str]:
    """Labels that the selector of a workload asks for by their value."""
    selector = workload["spec"].get("selector") or {}
    if workload.get("kind") == "ReplicationController":
        return dict(selector)
    return dict(selector.get("matchLabels", {}))


def _label_marks(item: JsonObject) -> Collection[str]:
    if owner_uid(item):
        return ()
    metadata = item["metadata"]
    namespace = metadata.get("namespace", "")
    return [_mark(namespace), *(_mark(namespace, *pair) for pair in metadata.get("labels", {}).items())]


def _wanted_marks(workload: JsonObject) -> Collection[str]:
    namespace = workload["metadata"].get("namespace", "")
    first = sorted(equal_labels(workload).items())[:1]
    return (_mark(namespace, *first[0]) if first else _mark(namespace),)


def _mark(namespace: str, key: str = "", value: str = "") -> str:
    return f"{namespace}/{key}={value}"
