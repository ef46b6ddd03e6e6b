"""The known objects of one kind, kept correct although events may come twice, late, or not at all; and the changes that a
listener gets from them.
"""

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

from mooring.apiclient.reflectors.watch_lines import DELETED
from mooring.model.meta import KubeObject

T = TypeVar("T", bound=KubeObject)


Listen = Callable[[Any, Any], None]
"""Called with every change of an object, in the order in which changes come: its form before and after. Without the first the
object is new; without the second it is deleted, and the first is the last form that the listener got. Both are forms of the
same object: their uids are equal."""

Change = tuple[T | None, T | None]
"""An object before and after. If the uids differ, one object was deleted and another was created under its name.

Hot: there is one for each event; a NamedTuple takes 2,500 instructions more than a struct."""


def tell(listen: Listen, change: Change[T]) -> None:
    """Call the listener for a change, twice if another object has replaced the first."""
    old, new = change
    if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
        listen(old, None)
        old = None
    listen(old, new)


MAX_GRAVES = 4096
"""How many deletions are remembered. Late events come within seconds, so the oldest can be forgotten."""

Inherit = Callable[[T, T], None]
"""(new, old): the new form of an object takes the computed values of the old one."""


class Known(Generic[T]):
    """Objects by key. These rules apply to every event, whatever its type says:

    1. An event counts if its version is later than the known version of that name: that of the object, of its deletion,
       or of the list that did not contain it. Any other event came twice or late, and is ignored. A deletion also counts
       at exactly the known version.
    2. ADDED and MODIFIED mean the same: the object looks like this now. An object with another uid has replaced it.
    3. DELETED means that the name is free, even if the uid differs: then an event in between was lost.
       Of an unknown object only the version is kept, so that a late event does not bring the object back.
    4. Versions that are not numbers cannot be compared: then the event that comes later is later.
    """

    def __init__(self, inherit: Inherit[T] | None = None) -> None:
        self.objects: dict[str, T] = {}
        self.unreadable: set[str] = set()
        """Names of objects that cannot be decoded; `objects` may still have an earlier form."""
        self._graves: dict[str, str | None] = {}
        """The versions of deletions by key, the oldest first."""
        self._listed_at: str | None = None
        """The version of the last complete list. An object that is not known did not exist at that version."""
        self._inherit = inherit

    def take(self, event_type: str, item: T) -> Change[T] | None:
        """The change of an event; None if it changes nothing. Of a DELETED object only the metadata is read."""
        key, version = item.key, item.metadata.resource_version
        old = self.objects.get(key)
        if event_type == DELETED:
            return self._remove(key, version, old)
        if old is None:
            return self._add(key, version, item)
        if not is_later(version, old.metadata.resource_version):
            return None
        return self._put(key, old, item)

    def replace(self, listed: "Known[T]", version: str) -> Iterator[Change[T]]:
        """The changes of a complete list of this version, deletions first. The list counts whatever the versions of its
        objects: a server that was restored from a backup has older ones.

        Objects in the list that cannot be decoded keep their known form.
        """
        self._graves, self._listed_at = listed._graves, version
        for key in [key for key in self.objects if key not in listed.objects and key not in listed.unreadable]:
            yield self.objects.pop(key), None
        for key, item in listed.objects.items():
            old = self.objects.get(key)
            if old is None:
                self.objects[key] = item
                yield None, item
            elif not _is_same(old, item):
                yield self._put(key, old, item)

    def _add(self, key: str, version: str | None, item: T) -> Change[T] | None:
        if not is_later(version, self._graves.get(key, self._listed_at)):
            return None
        self.objects[key] = item
        return None, item

    def _put(self, key: str, old: T, item: T) -> Change[T]:
        self.objects[key] = item
        if self._inherit is not None and old.metadata.uid == item.metadata.uid:
            self._inherit(item, old)
        return old, item

    def _remove(self, key: str, version: str | None, old: T | None) -> Change[T] | None:
        known = self._graves.get(key) if old is None else old.metadata.resource_version
        if version != known and known is not None and not is_later(version, known):
            return None
        self._bury(key, version)
        return None if old is None else (self.objects.pop(key), None)

    def _bury(self, key: str, version: str | None) -> None:
        self.unreadable.discard(key)
        self._graves.pop(key, None)
        self._graves[key] = version
        if len(self._graves) > MAX_GRAVES:
            del self._graves[next(iter(self._graves))]


def _is_same(old: KubeObject, new: KubeObject) -> bool:
    version = new.metadata.resource_version
    return old.metadata.uid == new.metadata.uid and bool(version) and version == old.metadata.resource_version


# ---- resource versions


def is_later(version: str | None, other: str | None) -> bool:
    """Whether `version` comes after `other`.

    Versions are growing numbers (guaranteed since Kubernetes 1.35, and true before). For a server that leaves them out
    or writes something else, what it sends later is later, unless the versions are equal.
    """
    if version == other:
        return not version
    if not version or not other:  # Hot: so is each object of a first list; without this, int() would raise for it
        return True
    try:
        return int(version) > int(other)
    except ValueError:
        return True
