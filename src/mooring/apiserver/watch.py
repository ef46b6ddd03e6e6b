"""Turns the writes of the store into the events of one watcher, which sees one namespace and what a selector picks.

To such a watcher an object that starts to match appears and one that stops matching disappears, whatever really
happened to it. Nothing here waits or sends: the server asks for the opening events, then translates write by write.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import chain
from typing import Literal, Protocol, TypedDict

from mooring.api.api_errors import ApiError, version_too_old
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds.events import shown_form
from mooring.apiserver.store import EventType, Store, StoreWrite, TooOld

INITIAL_END = "k8s.io/initial-events-end"
"""The annotation of the bookmark that ends the initial events; clients wait for it."""


class Event(TypedDict):
    """One line of a watch."""

    type: Literal["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]
    object: JsonObject


@dataclass(frozen=True, slots=True)
class Watcher:
    """One client's watch of a resource. An empty namespace stands for all. `matches` sees objects in the resource's form:
    the two groups of events share their objects."""

    resource: KindSpec
    namespace: str = ""
    matches: Callable[[JsonObject], bool] = lambda _: True

    def translate(self, write: StoreWrite) -> Event | None:
        """The event that a write is to this watcher; None if it does not see the write."""
        change = self.type_of(write)
        return None if change is None else self.event(write, change)

    def type_of(self, write: StoreWrite) -> EventType | None:
        """The type of event that a write is to this watcher.

        before matches   after matches   event
        no               yes             ADDED
        yes              yes             MODIFIED
        yes              no, or gone     DELETED: the content before, at the version of the write
        no               no, or gone     none
        """
        if write.storage != self.resource.storage:
            return None
        was_seen = self._picked(write.before) is not None
        if write.type != "DELETED" and self._picked(write.object) is not None:
            return "MODIFIED" if was_seen else "ADDED"
        return "DELETED" if was_seen else None

    def event(self, write: StoreWrite, change: EventType) -> Event:
        """The event of a write: the same for every watcher of the resource for which it has this type."""
        if change == "DELETED":
            assert write.before is not None
            return {"type": change, "object": self._shown(_at_version(write.before, write.version))}
        return {"type": change, "object": self._shown(write.object)}

    def _shown(self, item: JsonObject) -> JsonObject:
        return stamped(shown_form(self.resource, item), self.resource)

    def initial(self, store: Store) -> Iterator[Event]:
        """The present objects, as if it were just added: as of this call, however late the events are asked for."""
        return self._added(store.page(self.resource.storage, self.namespace).items)

    def _added(self, items: list[JsonObject]) -> Iterator[Event]:
        """Each object that the watcher sees, as an event."""
        for item in items:
            seen = self._picked(item)
            if seen is not None:
                yield {"type": "ADDED", "object": stamped(seen, self.resource)}

    def bookmark(self, version: int, ends_initial: bool = False) -> Event:
        """Says that all up to a version has been sent; `ends_initial` marks the end of the initial events."""
        metadata: JsonObject = {"resourceVersion": str(version)}
        if ends_initial:
            metadata["annotations"] = {INITIAL_END: "true"}
        return {"type": "BOOKMARK", "object": stamped({"metadata": metadata}, self.resource)}

    def _picked(self, item: JsonObject | None) -> JsonObject | None:
        """The object as this watcher sees it; None if it does not."""
        if item is None or (self.namespace and item["metadata"].get("namespace") != self.namespace):
            return None
        seen = shown_form(self.resource, item)
        return seen if self.matches(seen) else None


def opening(store: Store, watcher: Watcher, version: int = 0, send_initial: bool = False) -> Iterator[Event]:
    """The events that a watch starts with. The caller must translate every write from then on, without a pause between the
    two.

    The events are made as they are asked for, from what there is now: a client that reads slowly costs no memory.

    Version 0 (or none): everything there is. `send_initial`: the same, and a bookmark that says so. Any other version: what
    happened since, or an ERROR (after which the watch is over) if that is no longer known. Raises TooNew.
    """
    if send_initial:
        return chain(watcher.initial(store), (watcher.bookmark(store.version, ends_initial=True),))
    if not version:
        return watcher.initial(store)
    try:
        writes = store.since(version, watcher.resource.storage)
    except TooOld as refusal:
        return iter((failure(version_too_old(refusal.version, refusal.oldest)),))
    return (event for past in writes if (event := watcher.translate(past.write())) is not None)


def failure(refusal: ApiError) -> Event:
    """An event after which the watch is over."""
    return {"type": "ERROR", "object": refusal.status()}


def stamped(item: JsonObject, resource: KindSpec) -> JsonObject:
    """An object that names its kind: stored ones need not, as the items of a list do not."""
    said = {"kind": resource.kind, "apiVersion": resource.api_version}
    return said | item | said


def _at_version(item: JsonObject, version: int) -> JsonObject:
    """The object as if it had another version."""
    return {**item, "metadata": {**item["metadata"], "resourceVersion": str(version)}}


# ---- backlog


MAX_BACKLOG_BYTES = 256 * 1024 * 1024
"""As much as four watchers that each use up their own limit. Beyond it the watcher that is furthest behind is closed.
"""


class Waiting(Protocol):
    """A watcher for which lines wait."""

    waiting_bytes: int

    def give_up(self) -> None:
        """Drop what waits: it counts no longer, and the client must start again."""


@dataclass(slots=True)
class Backlog:
    """Counts what waits for all watchers together: each has a limit of its own, but there may be many of them."""

    limit_bytes: int = MAX_BACKLOG_BYTES
    total_bytes: int = 0
    waiting: dict[int, Waiting] = field(default_factory=dict)
    """The watchers for which something waits, by id."""

    def count(self, watcher: Waiting, added_bytes: int) -> None:
        """More waits for a watcher, or less (negative)."""
        self.total_bytes += added_bytes
        if watcher.waiting_bytes:
            self.waiting[id(watcher)] = watcher
        else:
            self.waiting.pop(id(watcher), None)
        while self.total_bytes > self.limit_bytes:
            max(self.waiting.values(), key=lambda waiting: waiting.waiting_bytes).give_up()
