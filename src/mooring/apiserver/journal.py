"""Objects on disk: a SQLite database beside the store, written ahead, so that no acknowledged write is lost.

The store calls the journal with each write before it makes it. So what a client, a watcher or a controller knows is on disk,
a process that is killed at any moment finds it there again, and a write that the disk refuses has not happened. After each
commit a record beside the database notes which commit it was: `journal_reading` compares the two.
"""

import sqlite3
from collections.abc import Callable
from contextlib import suppress
from itertools import count
from pathlib import Path

from mooring.api.api_errors import internal_error
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
        """The losses, where they are accepted."""
        self.fault = ""
        """Why the last write failed; empty: it did not."""
        self.on_fault: Callable[[str], None] = lambda fault: None
        """Called when `fault` changes."""
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
        facts = ("format", FORMAT, "commit", mark.commit, "version", mark.version, "total", mark.total)
        self._database.execute("INSERT OR REPLACE INTO facts VALUES (?, ?), (?, ?), (?, ?), (?, ?)", facts)

    def open_store(self) -> Store:
        """The store as it was at the last write. Every write to it from now on is kept."""
        store = Store.restored(self._version, self._items)
        self._items = []
        store.keep = self._keep
        return store

    def _keep(self, write: StoreWrite) -> None:
        """Commit one write. Raises ApiError 500 where the disk refuses it; then the journal is as before."""
        try:
            self._commit(write)
        except (sqlite3.Error, OSError) as fault:
            with suppress(sqlite3.Error):
                self._database.execute("ROLLBACK")
            self._note(f"{self.path} cannot be written: {fault}")
            raise internal_error(
                f"the write is not stored, because {self.path} cannot be written: {fault}; free space on the disk, then "
                "try again"
            ) from None
        self._note("")

    def _commit(self, write: StoreWrite) -> None:
        """One transaction, then the record. `_mark` and `_sums` change only when the transaction is on disk.

        Hot: a commit takes 60 µs, without waiting for the disk.
        """
        place: Place = (write.storage, *write.key)
        is_kept = write.type != "DELETED"
        new_sum = checksum(place, write.body) if is_kept else 0
        total = self._mark.total + new_sum - self._sums.get(place, 0)
        mark = JournalMark(self._mark.commit + 1, write.version, total)
        database = self._database
        if database.in_transaction:  # a transaction that failed, and whose end failed too
            database.execute("ROLLBACK")
        database.execute("BEGIN IMMEDIATE")
        if is_kept:
            database.execute("INSERT OR REPLACE INTO objects VALUES (?, ?, ?, ?, ?)", (*place, write.body, new_sum))
        else:
            database.execute("DELETE FROM objects WHERE storage = ? AND namespace = ? AND name = ?", place)
        self._write_facts(mark)
        database.execute("COMMIT")
        self._mark = mark
        if is_kept:
            self._sums[place] = new_sum
        else:
            self._sums.pop(place, None)
        self._acknowledge(mark)

    def _acknowledge(self, mark: JournalMark) -> None:
        """Note the commit beside the database. It is on disk whether or not this succeeds, and the next one is noted again: a
        record that is behind only means that a loss of the last commits would not be seen."""
        with suppress(OSError):
            self._record.write(mark)

    def _note(self, fault: str) -> None:
        """Report the first of many failures, and the first success after them."""
        if bool(fault) != bool(self.fault):
            self.fault = fault
            self.on_fault(fault)

    def close(self) -> None:
        """Let go of the files."""
        self._record.close()
        self._database.close()
