"""One client's watch: what it starts with, and a line for each write from then on.

Lines are made once for all watchers that see a write in the same way, and wait here in bytes until the transport takes
them; a client that reads too slowly is closed, and can resume from the last version it saw.
"""

import random
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain

import msgspec

from mooring.api.api_errors import field_forbidden, invalid, version_too_large
from mooring.api.json_objects import JsonObject
from mooring.api.kinds.events import is_event, stored_form
from mooring.api.selector_text import ObjectSelector
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.server import forms
from mooring.apiserver.server.forms import Include, WantedMedia, table_of_one, wanted
from mooring.apiserver.server.request import Request, Target
from mooring.apiserver.server.verbs import selector_of, version_asked
from mooring.apiserver.store import EventType, StoreWrite, TooNew
from mooring.apiserver.watch import Event, Watcher, opening

MIN_TIMEOUT_S, MAX_TIMEOUT_S = 1800, 3600
"""Parity: a watch without a timeout ends after a random time between these, so that not all clients come back at once.
"""
BOOKMARK_S = 60
"""As kube-apiserver, about once a minute."""
MAX_WAITING_BYTES = 64 * 1024 * 1024
"""A client that lags further behind is closed: it can come back and resume where it was."""
CHUNK_BYTES = 256 * 1024
"""About how much a client is sent at once: a few milliseconds of work, between which others are answered."""

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class WatchResponse:
    """The lines of one watch. They wait here until the transport takes them; `wake` is called when one comes."""

    api: ResourceApi
    watcher: Watcher
    form: WantedMedia
    include: Include
    timeout_s: float
    has_bookmarks: bool
    wake: Callable[[], None] = lambda: None
    lines: deque[bytes] = field(default_factory=deque)
    """The lines since the watch began that were not taken yet."""
    waiting_bytes: int = 0
    """How much that is."""
    is_over: bool = False
    """Nothing more will come: an ERROR was sent, or the client was too slow."""
    is_behind: bool = False
    """The client was too slow: what waits for it was thrown away, so it must not go on from there."""
    _opening: Iterator[bytes] = field(default_factory=lambda: iter(()))
    """The lines that go before all `lines`."""
    _is_headed: bool = True
    """Whether the next line of a table still has to name the columns."""
    _stop: Callable[[], None] = lambda: None
    """Ends the listening."""

    def open(self, version: int, send_initial: bool) -> None:
        """Raises 504 for a version that is not there yet."""
        try:
            events = opening(self.api.store, self.watcher, version, send_initial)
        except TooNew as refusal:
            raise version_too_large(refusal.version, refusal.current) from None
        first = next(events, None)
        if first is not None:
            # The first line of a table has its columns, so it is written before any other can be.
            self._opening = chain((self._line(first),), map(self._line, events))
            self.is_over = first["type"] == "ERROR"
        if not self.is_over:
            self._stop = self.api.store.listen(self._hear, (self.watcher.resource.storage,))

    def close(self) -> None:
        """Stop listening, and drop what waits."""
        self._stop()
        self._stop = lambda: None
        self.is_over = True
        self._clear()

    def take(self) -> bytes:
        """The next lines, some CHUNK_BYTES of them; nothing if none waits."""
        taken, size_bytes = [], 0
        while size_bytes < CHUNK_BYTES and (line := next(self._opening, b"") or self._next_line()):
            taken.append(line)
            size_bytes += len(line)
        return b"".join(taken)

    def _next_line(self) -> bytes:
        """The line that has waited longest."""
        if not self.lines:
            return b""
        line = self.lines.popleft()
        self._count(-len(line))
        return line

    def _count(self, added_bytes: int) -> None:
        """Bytes of this watcher and of all of them together."""
        self.waiting_bytes += added_bytes
        self.api.backlog.count(self, added_bytes)

    def _clear(self) -> None:
        self._opening = iter(())
        self.lines.clear()
        self._count(-self.waiting_bytes)

    def bookmark(self) -> None:
        """Add a line that says up to which version everything was sent."""
        self._add(self._line(self.watcher.bookmark(self.api.store.version)))

    def _hear(self, write: StoreWrite) -> None:
        """Add the line of a write. The first line of a table names its columns, so it cannot be shared with other
        watchers."""
        change = self.watcher.type_of(write)
        if change is None:
            return
        if self._is_headed and self.form.form == "table":
            self._add(self._line(self.watcher.event(write, change)))
            return
        seen_as = (self.watcher.resource.api_version, change, self.form, self.include)
        line = write.lines.get(seen_as)
        if line is None:
            line = write.lines[seen_as] = self._line_of(write, change)
        self._add(line)

    def _line_of(self, write: StoreWrite, change: EventType) -> bytes:
        """The line of a write. Hot: most watchers get the object as it is stored, which is JSON already."""
        resource, item = self.watcher.resource, write.object
        is_present = change != "DELETED" or write.type == "DELETED"
        is_plain = self.form.form == "object" and not is_event(resource) and is_present
        if is_plain and (item.get("apiVersion"), item.get("kind")) == (resource.api_version, resource.kind):
            return b'{"type":"%s","object":%s}\n' % (change.encode(), write.body)
        return self._line(self.watcher.event(write, change))

    def _add(self, line: bytes) -> None:
        """One more line to send."""
        self.lines.append(line)
        self._count(len(line))
        if self.waiting_bytes > MAX_WAITING_BYTES:
            self.give_up()
        self.wake()

    def give_up(self) -> None:
        """The client is too slow: drop what waits for it, and end the watch."""
        self.is_behind = True
        self.close()
        self.wake()

    def _line(self, event: Event) -> bytes:
        shown = event["object"] if event["type"] == "ERROR" else self._shown(event["object"])
        return _encode({"type": event["type"], "object": shown}) + b"\n"

    def _shown(self, item: JsonObject) -> JsonObject:
        """The object in the form that the client asked for."""
        if self.form.form == "table":
            headed, self._is_headed = self._is_headed, False
            if "name" not in item["metadata"]:  # a bookmark has no row
                return {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"], "rows": []}
            now_ns = self.api.clock.now_ns()
            return table_of_one(self.watcher.resource, item, now_ns, self.include, headed)
        return forms.metadata_of(item) if self.form.form == "metadata" else item


def begin_watch(api: ResourceApi, target: Target, request: Request) -> WatchResponse:
    """A watch with its opening lines in it."""
    send_initial = _sends_initial(request)
    timeout_s = request.number("timeoutSeconds") or random.uniform(MIN_TIMEOUT_S, MAX_TIMEOUT_S)
    resource = target.resource
    matches = _matcher(target, selector_of(target, request))
    watcher = Watcher(resource, target.namespace, matches)
    watch = WatchResponse(
        api, watcher, wanted(request.accept), forms.included(request), timeout_s, request.flag("allowWatchBookmarks")
    )
    watch.open(0 if send_initial else version_asked(request), send_initial)
    return watch


def _matcher(target: Target, selector: ObjectSelector) -> Callable[[JsonObject], bool]:
    """The predicate of the watch. Selectors apply to the stored form."""
    if target.name:  # `GET .../pods/p?watch=true`
        return lambda seen: seen["metadata"]["name"] == target.name and selector.matches(seen)
    if selector.is_empty:
        return lambda _: True
    if target.resource.group == "events.k8s.io":
        return lambda seen: selector.matches(stored_form(target.resource, seen))
    return selector.matches


def _sends_initial(request: Request) -> bool:
    """Whether the client wants all objects first, with a bookmark behind them. Raises 422 for combinations that make no
    sense."""
    asked, match = "sendInitialEvents" in request.query, request.query.get("resourceVersionMatch", "")
    fault = ""
    if asked and match != "NotOlderThan":
        fault = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    elif not asked and match:
        fault = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    if fault:
        raise invalid("ListOptions", "", [field_forbidden("resourceVersionMatch", fault)], "meta.k8s.io")
    return asked and request.flag("sendInitialEvents")
