"""The mirror of one resource: takes the lines and pages of a server, and calls a listener for what they change.

It does no I/O: the reflector reads from the server and feeds the mirror, and tests feed it directly.
"""

from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from mooring.api.api_errors import bad_request, expired
from mooring.apiclient.reflectors.known import Change, Known, Listen, is_later, tell
from mooring.apiclient.reflectors.watch_lines import BOOKMARK, LineDecoder, MalformedObject
from mooring.apiclient.reflectors.watched import Watched
from mooring.model.pod import Pod

Report = Callable[[str, Exception | None], None]

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

    def __init__(self, watched: Watched, listen: Listen, report: Report) -> None:
        self.statistics = Statistics()
        self.version = ""
        """The latest version seen: a watch can continue from it."""
        self.has_synced = False
        """Whether the listener has got a complete list."""
        self.is_in_doubt = False
        """Whether an event may be missing, so that only a new list shows the state of the cluster."""
        self._watched = watched
        self._listen = listen
        self._report = report
        self._decoder: LineDecoder[Any] = LineDecoder(watched.struct)
        self.known = self._nothing_known()
        self._arriving: Known[Any] | None = None
        """The list that is being read."""
        self._told_unreadable: set[str] = set()

    @property
    def is_listing(self) -> bool:
        return self._arriving is not None

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
            whose = f"{self._watched.name} {key}" if key else self._watched.name
            self._report(f"{whose}: skipped, because it cannot be decoded: {fault}", None)

    def _tell(self, change: Change[Any]) -> None:
        try:
            tell(self._listen, change)
        except Exception as fault:  # a fault in one object must not stop the others
            item = change[1] or change[0]
            assert item is not None
            self._report(f"{self._watched.name} {item.key}: the scheduler could not process a change", fault)

    def _nothing_known(self) -> Known[Any]:
        return Known(Pod.inherit if self._watched.struct is Pod else None)
