"""Objects on disk: a SQLite database beside the store, written ahead, so that no write is lost that was answered.

Writes gather until `flush`, which commits them all at once. Whoever tells the outside world of a write flushes first;
what was told is then on disk, and a process that is killed at any moment finds it there again.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from mooring.api.store import JsonObject, Store, Write

_SCHEMA = """
CREATE TABLE IF NOT EXISTS objects (
    storage TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (storage, namespace, name)
) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
"""
_FORMAT = 1
_CHECKPOINT_PAGES = 4000
_OWNER_ONLY = 0o600
_LOCK_WAIT_S = 0.5
"""A process that was just killed may take a moment to let go."""

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class JournalError(Exception):
    """The directory cannot be used (any more), and why."""


class Journal:
    """Keeps a store on disk."""

    def __init__(self, directory: Path) -> None:
        """Raises JournalError."""
        self.path = directory / "mooring.db"
        self._pending: dict[tuple[str, str, str], Write] = {}
        """The last write of each object since the last flush: what came between need not be kept."""
        self._version = 0
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.path.touch(mode=_OWNER_ONLY)
            self.path.chmod(_OWNER_ONLY)  # secrets are objects too; SQLite gives its other files the same mode
            self._database = sqlite3.connect(self.path, timeout=_LOCK_WAIT_S, isolation_level=None)
            self._prepare()
        except sqlite3.OperationalError as fault:
            is_locked = "locked" in str(fault)
            why = "another process uses this directory" if is_locked else str(fault)
            raise JournalError(f"{self.path}: {why}") from None
        except (OSError, sqlite3.Error) as fault:
            raise JournalError(f"{self.path}: {fault}") from None

    def _prepare(self) -> None:
        database = self._database
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        database.executescript(_SCHEMA)
        database.execute("BEGIN IMMEDIATE")
        known = dict(database.execute("SELECT name, value FROM facts"))
        if known.setdefault("format", _FORMAT) != _FORMAT:
            raise JournalError(f"{self.path} was written by another version of Mooring (format {known['format']})")
        database.execute("INSERT OR REPLACE INTO facts VALUES ('format', ?)", (_FORMAT,))
        database.execute("COMMIT")
        self._version = known.get("version", 0)

    def open_store(self) -> Store:
        """The store as it was at the last flush. Every write to it from now on is kept."""
        try:
            store = Store.restored(self._version, self._objects())
        except (
            sqlite3.Error,
            ValueError,
            KeyError,
            TypeError,
            AttributeError,
        ) as fault:  # also of an object that is none
            raise JournalError(f"{self.path} cannot be read: {fault}") from None
        store.listen(self._hear)
        return store

    def flush(self) -> None:
        """Commit what was written since the last time: all of it, or else nothing and a JournalError."""
        if not self._pending:
            return
        try:
            self._commit()
        except sqlite3.Error as fault:
            with suppress(sqlite3.Error):
                self._database.execute("ROLLBACK")
            raise JournalError(f"{self.path} cannot be written: {fault}") from None
        self._pending = {}

    def _commit(self) -> None:
        database = self._database
        database.execute("BEGIN IMMEDIATE")
        kept = [(*place, _encode(write.object)) for place, write in self._pending.items() if write.type != "DELETED"]
        gone = [place for place, write in self._pending.items() if write.type == "DELETED"]
        database.executemany("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?)", kept)
        database.executemany("DELETE FROM objects WHERE storage = ? AND namespace = ? AND name = ?", gone)
        database.execute("INSERT OR REPLACE INTO facts VALUES ('version', ?)", (self._version,))
        database.execute("COMMIT")

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self._database.close()

    def _hear(self, write: Write) -> None:
        self._pending[(write.storage, *write.key)] = write
        self._version = write.version

    def _objects(self) -> Iterator[tuple[str, JsonObject]]:
        for storage, body in self._database.execute("SELECT storage, body FROM objects"):
            yield storage, _decode(body)
