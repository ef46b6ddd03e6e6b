"""The mirror of one resource: takes the lines and pages of a server, and calls a listener for what they change.

It does no I/O: the reflector reads from the server and feeds the mirror, and tests feed it directly.
"""

from collections.abc import Callable, Iterator
from typing import Any, Generic, TypeVar

import msgspec

from mooring.api.api_errors import bad_request, expired
from mooring.api.kind_spec import KindSpec
from mooring.apiclient.reflectors.watch_streams import BOOKMARK, DELETED, LineDecoder, MalformedObject
from mooring.kit.callbacks import ReportFault
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod

# ---- The known objects of one kind, kept correct although events may come twice, late, or not at all; and the
# changes that a listener gets from them.


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


SLICE = 256
"""How many changes of a list the listener gets before other tasks run: a list of 100,000 pods must not block the lease."""

MAX_TOLD = 1000
"""How many objects that cannot be decoded are reported one by one. More would fill the log and say nothing new."""


class Statistics(msgspec.Struct):
    """Counters for metrics, and for tests that check how often a server is asked."""

    lists: int = 0
    """Lists that were started, streamed ones included."""
    relists: int = 0
    """Lists that were completed after the first."""
    watches: int = 0
    """Streams that were started, those of streamed lists included."""
    events: int = 0
    """Lines of streams, of any kind."""
    delivered: int = 0
    """Events of watches that count: changes and bookmarks, but not errors, nor events that are late or malformed."""
    ignored: int = 0
    """Events that came twice or late."""
    malformed: int = 0
    silences: int = 0


class Mirror:
    """The objects of one resource. It either reads a list, which counts once it is complete, or follows a watch.

    `Known` has the rules for events.
    """

    def __init__(self, spec: KindSpec, listen: Listen, report: ReportFault) -> None:
        self.statistics = Statistics()
        self.version = ""
        """The latest version seen: a watch can continue from it."""
        self.has_synced = False
        """Whether the listener has got a complete list."""
        self.is_in_doubt = False
        """Whether an event may be missing, so that only a new list shows the state of the cluster."""
        self._spec = spec
        self._listen = listen
        self._report = report
        self._decoder: LineDecoder[Any] = LineDecoder(spec.struct, spec.form)
        self.known = self._nothing_known()
        self._arriving: Known[Any] | None = None
        """The list that is being read."""
        self._told_unreadable: set[str] = set()

    @property
    def is_listing(self) -> bool:
        return self._arriving is not None

    def use_version(self, spec: KindSpec) -> None:
        """Read another version of the kind from now on; a list follows."""
        self._spec = spec
        self._decoder = LineDecoder(spec.struct, spec.form)

    # ---- lists

    def begin_list(self) -> None:
        """Start to read a list. A list that is not complete is dropped."""
        self._arriving = self._nothing_known()
        self.is_in_doubt = False

    def take_page(self, page: bytes) -> str:
        """Take a page of a list. Returns the version of the list. Raises Unreadable, and ApiError for a Status."""
        assert self._arriving is not None
        version, items = self._decoder.page(page)
        for item in items:
            if isinstance(item, MalformedObject):
                self._skip(item)
            else:
                self._arriving.objects[item.key] = item
        return version

    def complete(self, version: str, not_older_than: str) -> Iterator[None]:
        """The list is complete: call the listener for its differences to the known objects. Yields every SLICE changes.

        Raises 410 for a list that is older than requested: it would undo changes that the listener has got.
        """
        listed = self._arriving
        assert listed is not None
        if not_older_than and is_later(not_older_than, version):
            raise expired(f"the list has version {version}, older than {not_older_than}, which this client has seen")
        for count, change in enumerate(self.known.replace(listed, version), start=1):
            self._tell(change)
            if count % SLICE == 0:
                yield
        self._told_unreadable &= listed.unreadable
        self.version, self._arriving = version, None
        self.statistics.relists += self.has_synced
        self.has_synced = True

    # ---- watches

    def take(self, line: bytes) -> str:
        """Take one line of a stream. Returns the version of the list that it completes, or an empty text.

        Raises ApiError for an ERROR event, and for a server that does not support streaming lists.
        """
        self.statistics.events += 1
        try:
            event = self._decoder.event(line)
        except MalformedObject as fault:
            self._skip(fault)
            return ""
        item, event_type = event.object, event.type
        if event_type == BOOKMARK:
            return self._pass_bookmark(item.metadata.resource_version or "", event.ends_initial_list)
        if self._arriving is not None:
            self._arriving.take(event_type, item)
            return ""
        change = self.known.take(event_type, item)
        is_advance = self._advance(item.metadata.resource_version or "")
        if change is None:
            self.statistics.ignored += 1
            return ""
        if not is_advance:
            self.is_in_doubt = True  # events come out of order: some before this one may be missing
        self.statistics.delivered += 1
        self._tell(change)
        return ""

    def correct(self, line: bytes) -> None:
        """Take a line that no stream has delivered. The version stays: the watch must not skip what came before the line. A
        list follows when the stream ends, because other lines may be lost as well."""
        event = self._decoder.event(line)
        change = self.known.take(event.type, event.object)
        self.is_in_doubt = True
        if change is not None:
            self._tell(change)

    def _pass_bookmark(self, version: str, ends_initial_list: bool) -> str:
        if self._arriving is None:
            self.statistics.delivered += 1
            self._advance(version)
            return ""
        if not ends_initial_list or not version:
            raise bad_request("a streaming list has a bookmark before its end: the server does not support such lists")
        return version

    def _advance(self, version: str) -> bool:
        if not version or not is_later(version, self.version):
            return False
        self.version = version
        return True

    # ---- faults

    def _skip(self, fault: MalformedObject) -> None:
        """An object cannot be decoded: it keeps its known form. Without a name it may be any object, so a list follows."""
        self.statistics.malformed += 1
        key = fault.key
        if not key:
            self.is_in_doubt = True
        if self._arriving is not None:
            self._arriving.unreadable.add(key)
        elif fault.metadata is not None:
            self.statistics.delivered += self._advance(fault.metadata.resource_version or "")
        if key not in self._told_unreadable and len(self._told_unreadable) < MAX_TOLD:
            self._told_unreadable.add(key)
            whose = f"{self._spec.resource} {key}" if key else self._spec.resource
            self._report(f"{whose}: skipped, because it cannot be decoded: {fault}", None)

    def _tell(self, change: Change[Any]) -> None:
        try:
            tell(self._listen, change)
        except Exception as fault:  # a fault in one object must not stop the others
            item = change[1] or change[0]
            assert item is not None
            self._report(f"{self._spec.resource} {item.key}: the scheduler could not process a change", fault)

    def _nothing_known(self) -> Known[Any]:
        return Known(Pod.inherit if self._spec.struct is Pod else None)
