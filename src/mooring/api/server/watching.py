"""One client's watch: what it starts with, and a line for each write from then on."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

import msgspec

from mooring.api.access import Api
from mooring.api.errors import field_forbidden, invalid, version_too_large
from mooring.api.event_forms import shown_form, stored_form
from mooring.api.selector_text import ObjectSelector
from mooring.api.server import forms
from mooring.api.server.media import Wanted, wanted
from mooring.api.server.reading import selector_of, version_asked
from mooring.api.server.request import Request
from mooring.api.server.routes import Target
from mooring.api.store import JsonObject, TooNew, Write
from mooring.api.tables.tables import Include, table_of_one
from mooring.api.watch import Event, Watcher, opening

MIN_TIMEOUT_S, MAX_TIMEOUT_S = 1800, 3600
BOOKMARK_S = 60
MAX_WAITING_BYTES = 64 * 1024 * 1024
"""A client that lags further behind is let go: it can come back and start where it was."""

_encode = msgspec.json.Encoder().encode


@dataclass(slots=True)
class Watch:
    """Lines wait here until the transport takes them; `wake` is called when the first one comes."""

    api: Api
    watcher: Watcher
    form: Wanted
    include: Include
    timeout_s: float
    has_bookmarks: bool
    wake: Callable[[], None] = lambda: None
    lines: list[bytes] = field(default_factory=list)
    waiting_bytes: int = 0
    is_over: bool = False
    """Nothing more will come: an ERROR was sent, or the client was too slow."""
    is_behind: bool = False
    """The client was too slow: what waits for it was thrown away, so it must not go on from there."""
    _is_headed: bool = True
    _stop: Callable[[], None] = lambda: None

    def open(self, version: int, send_initial: bool) -> None:
        """Raises 504 for a version that is not there yet."""
        try:
            events = opening(self.api.store, self.watcher, version, send_initial)
        except TooNew as refusal:
            raise version_too_large(refusal.version, refusal.current) from None
        for event in events:
            self._add(self._line(event))
            self.is_over |= event["type"] == "ERROR"
        if not self.is_over:
            self._stop = self.api.store.listen(self._hear, (self.watcher.resource.storage,))

    def close(self) -> None:
        self._stop()
        self._stop = lambda: None
        self.is_over = True

    def take(self) -> bytes:
        taken = b"".join(self.lines)
        self.lines, self.waiting_bytes = [], 0
        return taken

    def bookmark(self) -> None:
        self._add(self._line(self.watcher.bookmark(self.api.store.version)))

    def _hear(self, write: Write) -> None:
        type = self.watcher.type_of(write)
        if type is None:
            return
        if self._is_headed and self.form.form == "table":
            self._add(self._line(self.watcher.event(write, type)))
            return
        seen_as = (self.watcher.resource.api_version, type, self.form, self.include)
        line = write.lines.get(seen_as)
        if line is None:
            line = write.lines[seen_as] = self._line(self.watcher.event(write, type))
        self._add(line)

    def _add(self, line: bytes) -> None:
        self.lines.append(line)
        self.waiting_bytes += len(line)
        if self.waiting_bytes > MAX_WAITING_BYTES:
            self.lines.clear()
            self.close()
            self.is_behind = True
        self.wake()

    def _line(self, event: Event) -> bytes:
        shown = event["object"] if event["type"] == "ERROR" else self._shown(event["object"])
        return _encode({"type": event["type"], "object": shown}) + b"\n"

    def _shown(self, item: JsonObject) -> JsonObject:
        if self.form.form == "table":
            headed, self._is_headed = self._is_headed, False
            if "name" not in item["metadata"]:  # a bookmark has no row
                return {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": item["metadata"], "rows": []}
            now_ns = self.api.clock.now_ns()
            return table_of_one(self.watcher.resource, item, now_ns, self.include, headed)
        return forms.metadata_of(item) if self.form.form == "metadata" else item


def begin_watch(api: Api, target: Target, request: Request) -> Watch:
    """A watch with its opening lines in it."""
    send_initial = _sends_initial(request)
    timeout_s = request.number("timeoutSeconds") or random.uniform(MIN_TIMEOUT_S, MAX_TIMEOUT_S)
    resource = target.resource
    matches = _matcher(target, selector_of(target, request))
    watcher = Watcher(resource, target.namespace, matches, partial(shown_form, resource))
    watch = Watch(
        api,
        watcher,
        wanted(request.accept),
        forms.included(request),
        timeout_s,
        request.flag("allowWatchBookmarks"),
    )
    watch.open(0 if send_initial else version_asked(request), send_initial)
    return watch


def _matcher(target: Target, selector: ObjectSelector) -> Callable[[JsonObject], bool]:
    """Selectors speak of the stored form."""
    if target.name:  # `GET .../pods/p?watch=true`
        return lambda seen: seen["metadata"]["name"] == target.name and selector.matches(seen)
    if selector.is_empty:
        return lambda _: True
    if target.resource.group == "events.k8s.io":
        return lambda seen: selector.matches(stored_form(target.resource, seen))
    return selector.matches


def _sends_initial(request: Request) -> bool:
    asked, match = "sendInitialEvents" in request.query, request.query.get("resourceVersionMatch", "")
    fault = ""
    if asked and match != "NotOlderThan":
        fault = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    elif not asked and match:
        fault = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    if fault:
        raise invalid("ListOptions", "", [field_forbidden("resourceVersionMatch", fault)], "meta.k8s.io")
    return asked and request.flag("sendInitialEvents")
