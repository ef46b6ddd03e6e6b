"""What we know of one resource: takes the lines and pages of a server, tells a listener what they change. No I/O."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from mooring.apiclient.reflectors.known import ChangeListener, Known, ObjectChange, is_later, tell
from mooring.apiclient.reflectors.watch_lines import BOOKMARK, LineDecoder, MalformedObject
from mooring.apiclient.reflectors.watched import Watched
from mooring.model.api_errors import bad_request, expired
from mooring.model.pod import Pod

Report = Callable[[str, Exception | None], None]

SLICE = 256
"""How many changes of a list are told before others get their turn on the event loop."""

MAX_TOLD = 1000
"""Objects that cannot be read and are reported one by one; whoever has more knows by then."""


@dataclass(slots=True)
class Statistics:
    lists: int = 0
    """Lists that were begun, streamed ones included."""
    relists: int = 0
    """Those that were completed after the first."""
    watches: int = 0
    """Streams that were begun, those of streamed lists included."""
    events: int = 0
    """Lines of streams, whatever they say."""
    delivered: int = 0
    """Of those, what a watch told: changes and bookmarks, but neither errors nor what came twice, late or as garbage."""
    ignored: int = 0
    """Events that came twice or late."""
    malformed: int = 0
    silences: int = 0


class Mirror:
    """The objects of one resource. It is either reading a list, which counts once it is complete, or following a watch.

    The rules by which events count are those of `Known`.
    """

    def __init__(self, watched: Watched, listener: ChangeListener, report: Report) -> None:
        self.statistics = Statistics()
        self.version = ""
        """The latest that was seen, from which a watch can go on."""
        self.has_synced = False
        """Whether the listener was told of a whole list."""
        self.is_in_doubt = False
        """Whether a stream may have kept something from us, so that only a list can tell how things are."""
        self._watched = watched
        self._listener = listener
        self._report = report
        self._decoder: LineDecoder[Any] = LineDecoder(watched.struct)
        self.known = self._nothing_known()
        self._arriving: Known[Any] | None = None
        """The list that is being read."""
        self._told_unreadable: set[str] = set()

    @property
    def is_listing(self) -> bool:
        return self._arriving is not None

    # Lists

    def begin_list(self) -> None:
        """A list that had begun before is dropped."""
        self._arriving = self._nothing_known()
        self.is_in_doubt = False

    def take_page(self, page: bytes) -> str:
        """Returns the version of the list. Raises Unreadable, and ApiError for a Status."""
        assert self._arriving is not None
        version, items = self._decoder.page(page)
        for item in items:
            if isinstance(item, MalformedObject):
                self._skip(item)
            else:
                self._arriving.objects[item.key] = item
        return version

    def complete(self, version: str, not_older_than: str) -> Iterator[None]:
        """A list is whole: tell how it differs from what was known. Pauses where others may have a turn.

        Raises 410 for a list that is older than what was asked for: it would take back what was told.
        """
        listed = self._arriving
        assert listed is not None
        if not_older_than and is_later(not_older_than, version):
            raise expired(f"the list is of version {version}, older than {not_older_than}, which was seen before")
        for count, change in enumerate(self.known.replace(listed, version), start=1):
            self._tell(change)
            if count % SLICE == 0:
                yield
        self._told_unreadable &= listed.unreadable
        self.version, self._arriving = version, None
        self.statistics.relists += self.has_synced
        self.has_synced = True

    # Watches

    def take(self, line: bytes) -> str:
        """Take in one line. Returns the version of the list that it completes, if it does.

        Raises ApiError for an ERROR event, and where a server turns out to know nothing of streaming lists.
        """
        self.statistics.events += 1
        try:
            event = self._decoder.event(line)
        except MalformedObject as fault:
            self._skip(fault)
            return ""
        version = event.object.metadata.resource_version or ""
        if event.type == BOOKMARK:
            return self._pass_bookmark(version, event.ends_initial_list)
        if self._arriving is not None:
            self._arriving.take(event.type, event.object)
            return ""
        change = self.known.take(event.type, event.object)
        if not self._advance(version) and change is not None:
            self.is_in_doubt = True  # events come out of order: some before this one may be yet to come
        if change is None:
            self.statistics.ignored += 1
        else:
            self.statistics.delivered += 1
            self._tell(change)
        return ""

    def _pass_bookmark(self, version: str, ends_initial_list: bool) -> str:
        if self._arriving is None:
            self.statistics.delivered += 1
            self._advance(version)
            return ""
        if not ends_initial_list or not version:
            raise bad_request("a streaming list has bookmarks before its end: the server does not know of such lists")
        return version

    def _advance(self, version: str) -> bool:
        is_advance = bool(version) and is_later(version, self.version)
        if is_advance:
            self.version = version
        return is_advance

    # What goes wrong

    def _skip(self, fault: MalformedObject) -> None:
        """An object cannot be read: as far as we know it is as it was."""
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
            self._report(f"{whose}: skipped, because it cannot be read: {fault}", None)

    def _tell(self, change: ObjectChange[Any]) -> None:
        try:
            tell(self._listener, change)
        except Exception as fault:  # one object must not keep us from hearing of all others
            item = change.new or change.old
            assert item is not None
            self._report(f"{self._watched.name} {item.key}: a change could not be taken in", fault)

    def _nothing_known(self) -> Known[Any]:
        return Known(Pod.inherit if self._watched.struct is Pod else None)
