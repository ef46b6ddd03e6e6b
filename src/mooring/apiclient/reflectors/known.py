"""The objects of one kind as a watch shows them, kept right though events come twice, late, or not at all."""

from collections.abc import Callable, Iterator
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

from mooring.apiclient.reflectors.watch_lines import DELETED
from mooring.model.meta import KubeObject

# ---- What became of an object, and who wants to know.


T = TypeVar("T", bound=KubeObject)


class ChangeListener(Protocol):
    """Told of every change, in the order in which changes come. A scheduler is one."""

    def added(self, item: Any) -> None: ...

    def updated(self, old: Any, new: Any) -> None:
        """Both are the same object: their uid is equal."""
        ...

    def removed(self, item: Any) -> None:
        """The object is as it was told last."""
        ...


class ObjectChange(NamedTuple, Generic[T]):
    """An object before and after: without `old` it is new, without `new` it is gone.

    Where the uids differ, one object has gone and another has taken its name.
    """

    old: T | None
    new: T | None


def tell(listener: ChangeListener, change: ObjectChange[T]) -> None:
    old, new = change
    if old is None:
        listener.added(new)
    elif new is None:
        listener.removed(old)
    elif old.metadata.uid == new.metadata.uid:
        listener.updated(old, new)
    else:
        listener.removed(old)
        listener.added(new)


MAX_GRAVES = 4096
"""Deletions that are remembered. Events that come late come within seconds, so the oldest can be forgotten."""

Inherit = Callable[[T, T], None]
"""(new, old): the new form of an object takes over what was worked out of the old one."""


class Known(Generic[T]):
    """Objects by key. These rules hold for every event, whatever its type claims:

    1. It counts if its version is later than the one that is known of that name: of the object, of its deletion, or of
       the list on which it was not. Anything else came twice or late, and is ignored. A deletion also counts at the
       very version that is known.
    2. ADDED and MODIFIED mean the same: this is how the object looks now. One with another uid has replaced it.
    3. DELETED means that the name is free, also where the uid is another: we missed how that one came.
       Of an unknown object only the version is kept, so that news of it that come late do not bring it back.
    4. Versions that are no numbers cannot be compared: then what comes later is later.
    """

    def __init__(self, inherit: Inherit[T] | None = None) -> None:
        self.objects: dict[str, T] = {}
        self.unreadable: set[str] = set()
        """Names that are taken by objects which we could not read; they may also be known as they were before."""
        self._graves: dict[str, str | None] = {}
        """Versions at which names became free, the oldest first."""
        self._listed_at: str | None = None
        """The version of the last complete list: what is not known by then was not there by then."""
        self._inherit = inherit

    def take(self, event_type: str, item: T) -> ObjectChange[T] | None:
        """What an event changes; None if nothing. Of a DELETED object no more than the metadata is read."""
        key, version = item.key, item.metadata.resource_version
        old = self.objects.get(key)
        if event_type == DELETED:
            return self._remove(key, version, old)
        if old is None:
            return self._add(key, version, item)
        if not is_later(version, old.metadata.resource_version):
            return None
        return self._put(key, old, item)

    def replace(self, listed: "Known[T]", version: str) -> Iterator[ObjectChange[T]]:
        """What a complete list of this version changes, deletions first: it is right, whatever its objects' versions.

        Objects that are on the list but could not be read stay as they are.
        """
        self._graves, self._listed_at = listed._graves, version
        for key in [key for key in self.objects if key not in listed.objects and key not in listed.unreadable]:
            yield ObjectChange(self.objects.pop(key), None)
        for key, item in listed.objects.items():
            old = self.objects.get(key)
            if old is None:
                self.objects[key] = item
                yield ObjectChange(None, item)
            elif not _is_same(old, item):
                yield self._put(key, old, item)

    def _add(self, key: str, version: str | None, item: T) -> ObjectChange[T] | None:
        if not is_later(version, self._graves.get(key, self._listed_at)):
            return None
        self.objects[key] = item
        return ObjectChange(None, item)

    def _put(self, key: str, old: T, item: T) -> ObjectChange[T]:
        self.objects[key] = item
        if self._inherit is not None and old.metadata.uid == item.metadata.uid:
            self._inherit(item, old)
        return ObjectChange(old, item)

    def _remove(self, key: str, version: str | None, old: T | None) -> ObjectChange[T] | None:
        known = self._graves.get(key) if old is None else old.metadata.resource_version
        if version != known and known is not None and not is_later(version, known):
            return None
        self._bury(key, version)
        return None if old is None else ObjectChange(self.objects.pop(key), None)

    def _bury(self, key: str, version: str | None) -> None:
        self.unreadable.discard(key)
        self._graves.pop(key, None)
        self._graves[key] = version
        if len(self._graves) > MAX_GRAVES:
            del self._graves[next(iter(self._graves))]


def _is_same(old: KubeObject, new: KubeObject) -> bool:
    version = new.metadata.resource_version
    return old.metadata.uid == new.metadata.uid and bool(version) and version == old.metadata.resource_version


# ---- Which of two resource versions is the later one.


def is_later(version: str | None, other: str | None) -> bool:
    """Whether `version` comes after `other`.

    Versions are numbers that grow (promised since Kubernetes 1.35, and true before). A server that leaves them out or
    writes something else is taken at its word: what it says later is later, unless it says the very same.
    """
    if version == other:
        return not version
    try:
        return int(version or "") > int(other or "")
    except ValueError:
        return True
