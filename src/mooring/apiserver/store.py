"""Typed storage without I/O: objects under one global version, and a history to watch. Admission compares versions.

Every write gets the next version. A watch sees every write after the version it starts at, in order and without gaps;
the history bounds how far back that can be. Objects are plain JSON data and are never changed in place: a write
replaces the object by another, so readers can keep what they were given.

Every write is serialised once, before anything changes, and goes to the disk first, where there is one: a write that cannot
be stored changes nothing, and listeners get nothing of it.
"""

from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import msgspec

from mooring.api.api_errors import object_too_large
from mooring.api.json_objects import MAX_OBJECT_BYTES, JsonObject, size_of

Key = tuple[str, str]
"""Namespace (empty for kinds without one) and name."""

EventType = Literal["ADDED", "MODIFIED", "DELETED"]
"""As watches name changes."""

HISTORY = 100_000
"""How many writes can be watched back, if they are small enough: the next limit holds as well."""
HISTORY_BYTES = 64 * 1024 * 1024
"""The limit of what the writes of the history hold altogether. An object that is written twice counts twice, as the state
before and after, though the history has it once; so between half of this and all of it is really kept."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class Missing(Exception):
    """There is no such object."""


class Exists(Exception):
    """There is such an object already."""


class TooOld(Exception):
    """The history does not go back that far."""

    def __init__(self, version: int, oldest: int) -> None:
        super().__init__(f"too old resource version: {version} ({oldest})")
        self.version = version
        self.oldest = oldest


class TooNew(Exception):
    """The version has not been given out yet."""

    def __init__(self, version: int, current: int) -> None:
        super().__init__(f"Too large resource version: {version}, current: {current}")
        self.version = version
        self.current = current


@dataclass(frozen=True, slots=True)
class StoreWrite:
    """One change of one object, as listeners get it."""

    version: int
    storage: str
    type: EventType
    key: Key
    object: JsonObject
    """After the change; for a deletion the last content, at the version of the deletion."""
    before: JsonObject | None
    """Before the change; None for an addition."""
    body: bytes = field(default=b"", compare=False, repr=False)
    """`object` as JSON."""
    lines: dict[Any, bytes | None] = field(default_factory=dict, compare=False, repr=False)
    """The lines of watches for it, by how a watcher sees the object: each is written once, for all watchers that see
    the same."""


@dataclass(frozen=True, slots=True)
class PastWrite:
    """A write as the history keeps it: in JSON, which takes a tenth of the memory that objects take."""

    version: int
    storage: str
    type: EventType
    key: Key
    body: bytes
    before: bytes | None

    @property
    def size_bytes(self) -> int:
        return len(self.body) + len(self.before or b"")

    def write(self) -> StoreWrite:
        """The write as listeners got it when it was made."""
        before = None if self.before is None else _decode(self.before)
        return StoreWrite(self.version, self.storage, self.type, self.key, _decode(self.body), before, self.body)


@dataclass(slots=True)
class Page:
    """Part of a list. `after` is the key to go on after; None: this was the end."""

    items: list[JsonObject]
    version: int
    after: Key | None = None
    remaining: int = 0


Listener = Callable[[StoreWrite], None]
"""Called with each write, after the store has it. A listener must not write: those behind it would get the second write
first."""


@dataclass(slots=True)
class Store:
    """All objects of a cluster by storage name (`/pods`, `apps/deployments`, ...)."""

    history_limit: int = HISTORY
    history_bytes: int = HISTORY_BYTES
    version: int = 0
    _objects: dict[str, dict[Key, JsonObject]] = field(default_factory=dict)
    _history: deque[PastWrite] = field(default_factory=deque)
    held_bytes: int = 0
    """The sum of the `size_bytes` of the history."""
    _bodies: dict[tuple[str, Key], bytes] = field(default_factory=dict)
    """The present JSON of each object whose last write is in the history: what the next write of it has as `before`."""
    _forgotten: int = 0
    """The version of the newest write that is no longer in the history."""
    _last_writes: dict[str, int] = field(default_factory=dict)
    _listeners: list[Listener] = field(default_factory=list)
    """Called for every write."""
    _listeners_of: dict[str, list[Listener]] = field(default_factory=dict)
    """Called for the writes of one storage."""
    keep: Listener | None = None
    """Called with each write before the store has it, to make it durable. What it raises ends the write."""

    @classmethod
    def restored(cls, version: int, objects: Iterable[tuple[str, JsonObject]]) -> "Store":
        """A store as it was at a version: its objects, each with the name of its storage. What came before is forgotten."""
        held: dict[str, dict[Key, JsonObject]] = {}
        for storage, item in objects:
            held.setdefault(storage, {})[key_of(item)] = item
        return cls(version=version, _objects=held, _forgotten=version)

    # ---- reading

    def find(self, storage: str, key: Key) -> JsonObject | None:
        return self._objects.get(storage, {}).get(key)

    def get(self, storage: str, key: Key) -> JsonObject:
        """The object. Raises Missing."""
        found = self.find(storage, key)
        if found is None:
            raise Missing
        return found

    def all(self, storage: str) -> list[JsonObject]:
        """Every object of a storage, in no order that means anything."""
        return list(self._objects.get(storage, {}).values())

    def additions(self, storage: str) -> Iterator[StoreWrite]:
        """Every object of a storage as if it were added just now: what a new listener hears first."""
        for key, item in list(self._objects.get(storage, {}).items()):
            yield StoreWrite(self.version, storage, "ADDED", key, item, None)

    def last_write(self, storage: str) -> int:
        """The version of the last write to a storage since it was opened; 0: there was none."""
        return self._last_writes.get(storage, 0)

    def count(self, storage: str) -> int:
        return len(self._objects.get(storage, {}))

    def page(
        self,
        storage: str,
        namespace: str = "",
        matches: Callable[[JsonObject], bool] | None = None,
        limit: int = 0,
        after: Key | None = None,
        at: int | None = None,
    ) -> Page:
        """Objects in the order of their keys, of one namespace or of all, that match; at most `limit` if that is not 0.

        `at` asks for them as they were at that version. Raises TooOld, TooNew.
        """
        objects: Mapping[Key, JsonObject | bytes] = self._objects.get(storage, {})
        if at is not None:
            objects = self._objects_at(storage, at)
        keys = sorted(key for key in objects if not namespace or key[0] == namespace)
        keys = keys[bisect_right(keys, after) :] if after is not None else keys
        version = self.version if at is None else at
        items: list[JsonObject] = []
        for i, key in enumerate(keys):
            held = objects[key]
            item = _decode(held) if isinstance(held, bytes) else held
            if matches is None or matches(item):
                items.append(item)
                if limit and len(items) == limit and i + 1 < len(keys):
                    return Page(items, version, key, len(keys) - i - 1)
        return Page(items, version)

    def _objects_at(self, storage: str, version: int) -> dict[Key, JsonObject | bytes]:
        """The objects at an earlier version: of each one written since, what the first of those writes found, in JSON."""
        objects: dict[Key, JsonObject | bytes] = {**self._objects.get(storage, {})}
        for write in reversed(self.since(version, storage)):
            if write.before is None:
                del objects[write.key]
            else:
                objects[write.key] = write.before
        return objects

    def since(self, version: int, storage: str = "") -> list[PastWrite]:
        """The writes of one storage, or of all, after a version. Raises TooOld, TooNew."""
        if version > self.version:
            raise TooNew(version, self.version)
        if version < self._forgotten:
            raise TooOld(version, self._forgotten)
        return [write for write in self._history_after(version) if not storage or write.storage == storage]

    # ---- writing

    def create(self, storage: str, key: Key, item: JsonObject) -> JsonObject:
        """Add an object. Returns it with its version. Raises Exists."""
        objects = self._objects.setdefault(storage, {})
        if key in objects:
            raise Exists
        return self._commit(storage, key, "ADDED", item, None)

    def update(self, storage: str, key: Key, item: JsonObject) -> JsonObject:
        """Replace an object. A write that changes nothing is none: the object keeps its version. Raises Missing."""
        before = self.get(storage, key)
        if _is_same(item, before):
            return before
        return self._commit(storage, key, "MODIFIED", item, before)

    def delete(self, storage: str, key: Key) -> JsonObject:
        """Remove an object. Returns its last content at the version of the deletion. Raises Missing."""
        before = self.get(storage, key)
        return self._commit(storage, key, "DELETED", before, before)

    def finish(self, storage: str, key: Key, item: JsonObject) -> JsonObject:
        """Replace an object, so that watchers see how it ended, and remove it: both or neither. Returns its last content at
        the version of the deletion. Raises Missing."""
        before = self.get(storage, key)
        if _is_same(item, before):
            return self.delete(storage, key)
        last = _write(self.version + 1, storage, key, "MODIFIED", item, before)
        removal = _write(last.version + 1, storage, key, "DELETED", last.object, last.object)
        if self.keep is not None:
            self.keep(removal)  # the disk needs no object that it removes at once
        try:
            self._make(last)
        finally:  # a listener that fails must not keep an object that is gone on disk
            self._make(removal)
        return removal.object

    def listen(self, listener: Listener, storages: Iterable[str] | None = None) -> Callable[[], None]:
        """Call a listener for every write, or for those of some storages, as it is made. Returns a function that ends
        this."""
        told = [self._listeners]
        if storages is not None:
            told = [self._listeners_of.setdefault(storage, []) for storage in dict.fromkeys(storages)]
        for listeners in told:
            listeners.append(listener)

        def stop() -> None:
            for listeners in told:
                listeners.remove(listener)

        return stop

    def _commit(
        self, storage: str, key: Key, change: EventType, item: JsonObject, before: JsonObject | None
    ) -> JsonObject:
        """Make one write: serialise, check the size and keep, then change, remember and tell. Only what comes before the
        change can fail."""
        write = _write(self.version + 1, storage, key, change, item, before)
        if self.keep is not None:
            self.keep(write)
        self._make(write)
        return write.object

    def _make(self, write: StoreWrite) -> None:
        """Change the objects, and tell listeners."""
        self.version = self._last_writes[write.storage] = write.version
        objects = self._objects.setdefault(write.storage, {})
        if write.type == "DELETED":
            del objects[write.key]
        else:
            objects[write.key] = write.object
        self._remember(write)
        self._tell(write)

    def _remember(self, write: StoreWrite) -> None:
        """Add a write to the history, and drop the oldest ones that no longer fit."""
        place = (write.storage, write.key)
        before = self._bodies.pop(place, None)
        if before is None and write.before is not None:
            before = _encode(write.before)
        past = PastWrite(write.version, write.storage, write.type, write.key, write.body, before)
        if write.type != "DELETED":
            self._bodies[place] = write.body
        self._history.append(past)
        self.held_bytes += past.size_bytes
        while len(self._history) > self.history_limit or self.held_bytes > self.history_bytes:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        """The present JSON of an object goes with its last write: the next write of it encodes the object again."""
        oldest = self._history.popleft()
        self._forgotten = oldest.version
        self.held_bytes -= oldest.size_bytes
        if self._bodies.get((oldest.storage, oldest.key)) is oldest.body:
            del self._bodies[oldest.storage, oldest.key]

    def _tell(self, write: StoreWrite) -> None:
        """Call all listeners, also if one fails: the others must not miss a write. Raises the first fault afterwards."""
        fault: Exception | None = None
        for listener in (*self._listeners, *self._listeners_of.get(write.storage, ())):
            try:
                listener(write)
            except Exception as raised:  # the others must not miss a write because of one
                fault = fault or raised
        write.lines.clear()
        if fault is not None:
            raise fault

    def _history_after(self, version: int) -> Iterator[PastWrite]:
        """Versions in the history have no gaps, so the place of one can be counted."""
        for i in range(max(version - self._forgotten, 0), len(self._history)):
            yield self._history[i]

    def check(self) -> list[str]:
        """The invariants of the history that do not hold. It costs a walk over the history."""
        held = list(self._history)
        problems: list[str] = []
        if [past.version for past in held] != list(range(self._forgotten + 1, self.version + 1)):
            problems.append("history: versions have gaps")
        if self.held_bytes != sum(past.size_bytes for past in held):
            problems.append(f"history: {self.held_bytes} bytes are counted, not what its writes hold")
        last: dict[tuple[str, Key], PastWrite] = {}
        for past in held:
            earlier = last.get(place := (past.storage, past.key))
            if earlier is not None and past.type != "ADDED" and past.before is not earlier.body:
                problems.append(f"history: {place} is held twice at version {past.version}")
            last[place] = past
        present = {place: past.body for place, past in last.items() if self.find(*place) is not None}
        if self._bodies != present:
            problems.append("history: the present JSON is not that of the last writes")
        return problems


def _write(
    version: int, storage: str, key: Key, change: EventType, item: JsonObject, before: JsonObject | None
) -> StoreWrite:
    """A write at a version, serialised. Raises ApiError for an object that is too large."""
    written = {**item, "metadata": {**item.get("metadata", {}), "resourceVersion": str(version)}}
    body = _encode(written)
    if change != "DELETED" and size_of(written, body) > MAX_OBJECT_BYTES:
        raise object_too_large()
    return StoreWrite(version, storage, change, key, written, before, body)


def key_of(item: JsonObject) -> Key:
    """Namespace and name."""
    metadata = item["metadata"]
    return metadata.get("namespace", ""), metadata["name"]


def version_of(item: JsonObject) -> int:
    """The version of an object."""
    return int(item["metadata"]["resourceVersion"])


def _is_same(item: JsonObject, before: JsonObject) -> bool:
    """Whether two objects are equal except for their versions. Hot: usually they differ in the status, and share the
    rest."""
    if item.keys() != before.keys():
        return False
    for key, value in item.items():
        if key != "metadata" and value is not before[key] and value != before[key]:
            return False
    metadata, held = item.get("metadata", {}), before.get("metadata", {})
    return {**metadata, "resourceVersion": ""} == {**held, "resourceVersion": ""}
