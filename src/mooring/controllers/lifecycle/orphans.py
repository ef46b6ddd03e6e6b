"""Objects that nobody manages, and who would: found by labels, without a look at all of them."""

from collections.abc import Collection, Iterator

from mooring.apiserver.store import Key, Store
from mooring.controllers.index import Index, owner_uid
from mooring.model.json_objects import JsonObject


class Orphans:
    """Objects of one storage without a controller, by namespace and by each of their labels."""

    def __init__(self, store: Store, storage: str) -> None:
        self._index = Index(store, storage, _label_marks)

    def candidates(self, namespace: str, equal: dict[str, str]) -> list[JsonObject]:
        """Those that may have these labels: all that share the rarest of them. Without labels, all of the namespace."""
        marks = [_mark(namespace, *pair) for pair in equal.items()] or [_mark(namespace)]
        return self._index[min(marks, key=self._index.count)]


class Seekers:
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
