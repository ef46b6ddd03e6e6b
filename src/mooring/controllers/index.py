"""Objects of one storage by something they have: pods by owner, by node. Kept up to date with every write."""

from collections.abc import Callable, Collection

from mooring.apiserver.store import Key, Store, StoreWrite
from mooring.model.json_objects import JsonObject

Marks = Callable[[JsonObject], Collection[str]]


class Index:
    """What to file an object under is for `marks` to say; it must depend on the object only."""

    def __init__(self, store: Store, storage: str, marks: Marks) -> None:
        self._marks = marks
        self._files: dict[str, dict[Key, JsonObject]] = {}
        for write in store.additions(storage):
            self._hear(write)
        store.listen(self._hear, (storage,))

    def __getitem__(self, mark: str) -> list[JsonObject]:
        """In the sequence in which they came to be filed there."""
        return list(self._files.get(mark, {}).values())

    def count(self, mark: str) -> int:
        return len(self._files.get(mark, ()))

    def __bool__(self) -> bool:
        """Whether anything is filed at all."""
        return bool(self._files)

    def _hear(self, write: StoreWrite) -> None:
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
