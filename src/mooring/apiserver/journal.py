"""Objects on disk: a SQLite database beside the store, written ahead, so that no acknowledged write is lost.

Writes gather until `flush`, which commits them all at once. A server flushes before it answers a write or sends it to a
watcher; so what a client knows is on disk, and a process that is killed at any moment finds it there again. After each
commit a record beside the database notes which commit it was: `journal_reading` compares the two.
"""

import sqlite3
from contextlib import suppress
from itertools import count
from pathlib import Path

from mooring.apiserver.journal_reading import (
    DATABASE,
    FORMAT,
    LOCK_WAIT_S,
    RECORD,
    Contents,
    JournalError,
    JournalMark,
    JournalRecord,
    LossError,
    Place,
    checksum,
    read_contents,
)
from mooring.apiserver.store import Store, StoreWrite

__all__ = ["Journal", "JournalError", "LossError"]

_FACTS = "CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID"
"""Format, number of the last commit, version of the store, sum of the checksums."""
_OBJECTS = """
CREATE TABLE objects (
    storage TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL, checksum INTEGER NOT NULL,
    PRIMARY KEY (storage, namespace, name)
) WITHOUT ROWID
"""
_CHECKPOINT_PAGES = 4000
"""16 MiB of log before SQLite copies it into the database: rarer pauses than with its default of 1000 pages."""
_OWNER_ONLY = 0o600
"""Secrets are objects too."""


class Journal:
    """Keeps a store on disk. One process has the directory at a time."""

    def __init__(self, directory: Path, accepts_loss: bool = False) -> None:
        """Raises LossError where acknowledged writes are missing, unless that is accepted, and JournalError.

        Where it is accepted, the damaged files are moved into a directory of their own, and what could be read of them
        is written anew.
        """
        self.directory = directory
        self.path = directory / DATABASE
        self.losses: list[str] = []
        """What was lost, where that is accepted."""
        self._pending: dict[Place, StoreWrite] = {}
        """The last write of each object since the last flush: what came between need not be kept."""
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            contents = read_contents(directory)
            if contents.faults:
                self._accept(contents, accepts_loss)
            self._open(contents)
        except (OSError, sqlite3.Error) as fault:
            raise JournalError(f"{self.path}: {fault}") from None

    def _accept(self, contents: Contents, accepts_loss: bool) -> None:
        """Go on with what is left of a damaged directory, if that is accepted: the damaged files move aside. Raises
        LossError otherwise."""
        if not accepts_loss:
            raise LossError("\n".join(contents.faults))
        aside = next(path for i in count(1) if not (path := self.directory / f"damaged-{i}").exists())
        aside.mkdir(mode=0o700)
        for name in (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", RECORD):
            with suppress(FileNotFoundError):
                (self.directory / name).rename(aside / name)
        left = f"{len(contents.items)} objects are left; the damaged files are in {aside}"
        self.losses = [*contents.faults, left]
        contents.is_new = True

    def _open(self, contents: Contents) -> None:
        """Open the database for writing, and bring it to the present format."""
        self.path.touch(mode=_OWNER_ONLY)
        self.path.chmod(_OWNER_ONLY)  # secrets are objects too; SQLite gives its other files the same mode
        self._database = sqlite3.connect(self.path, timeout=LOCK_WAIT_S, isolation_level=None)
        self._prepare(contents)
        self._mark, self._version, self._sums = contents.mark, contents.mark.version, contents.sums
        if contents.is_new or contents.format != FORMAT:
            self._rewrite(contents)
        self._record = JournalRecord(self.directory / RECORD, _OWNER_ONLY)
        self._record.write(self._mark)
        self._items = contents.items

    def _prepare(self, contents: Contents) -> None:
        """Raises JournalError if another process came between: what was read is not what is there."""
        database = self._database
        database.execute("PRAGMA locking_mode = EXCLUSIVE")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        database.execute(f"PRAGMA wal_autocheckpoint = {_CHECKPOINT_PAGES}")
        database.execute("BEGIN IMMEDIATE")
        database.execute(_FACTS)
        found = dict(database.execute("SELECT name, value FROM facts"))
        database.execute("COMMIT")
        read = (contents.mark.commit, contents.mark.version)
        if not contents.is_new and (found.get("commit", 0), found.get("version", 0)) != read:
            raise JournalError(f"{self.path}: another process has just used this directory; try again")

    def _rewrite(self, contents: Contents) -> None:
        """Write the tables anew with what was read: of a new directory, of an older format, of what damage has left."""
        mark = JournalMark(contents.mark.commit + 1, contents.mark.version, sum(contents.sums.values()))
        database = self._database
        database.execute("BEGIN IMMEDIATE")
        database.execute("DROP TABLE IF EXISTS objects")
        database.execute(_OBJECTS)
        rows = ((*place, body, contents.sums[place]) for place, body in contents.objects.items())
        database.executemany("INSERT INTO objects VALUES (?, ?, ?, ?, ?)", rows)
        self._write_facts(mark)
        database.execute("COMMIT")
        self._mark = mark

    def _write_facts(self, mark: JournalMark) -> None:
        facts = {"format": FORMAT, "commit": mark.commit, "version": mark.version, "total": mark.total}
        self._database.executemany("INSERT OR REPLACE INTO facts VALUES (?, ?)", facts.items())

    def open_store(self) -> Store:
        """The store as it was at the last flush. Every write to it from now on is kept."""
        store = Store.restored(self._version, self._items)
        self._items = []
        store.listen(self._hear)
        return store

    def flush(self) -> None:
        """Commit what was written since the last time: all of it, or else nothing and a JournalError."""
        if not self._pending:
            return
        try:
            self._commit()
        except (sqlite3.Error, OSError) as fault:
            with suppress(sqlite3.Error):
                self._database.execute("ROLLBACK")
            raise JournalError(f"{self.path} cannot be written: {fault}") from None
        self._pending = {}

    def _commit(self) -> None:
        """One transaction, then the record. `_sums` changes only when all is written, so that a commit that failed can
        be repeated."""
        kept = {place: write for place, write in self._pending.items() if write.type != "DELETED"}
        sums = {place: checksum(place, write.body) for place, write in kept.items()}
        lost = sum(self._sums.get(place, 0) for place in self._pending)
        mark = JournalMark(self._mark.commit + 1, self._version, self._mark.total + sum(sums.values()) - lost)
        database = self._database
        database.execute("BEGIN IMMEDIATE")
        rows = [(*place, write.body, sums[place]) for place, write in kept.items()]
        gone = [place for place in self._pending if place not in kept]
        database.executemany("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)", rows)
        database.executemany("DELETE FROM objects WHERE storage = ? AND namespace = ? AND name = ?", gone)
        self._write_facts(mark)
        database.execute("COMMIT")
        self._record.write(mark)
        self._mark = mark
        self._sums.update(sums)
        for place in gone:
            self._sums.pop(place, None)

    def close(self) -> None:
        """Flush, and let go of the files. Raises JournalError where the flush fails."""
        try:
            self.flush()
        finally:
            self._record.close()
            self._database.close()

    def _hear(self, write: StoreWrite) -> None:
        """Note a write for the next flush."""
        self._pending[(write.storage, *write.key)] = write
        self._version = write.version
