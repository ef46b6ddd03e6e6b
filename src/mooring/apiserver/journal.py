"""Objects on disk: a SQLite database beside the store, written ahead, so that no acknowledged write is lost.

The store calls the journal with each write before it makes it. So what a client, a watcher or a controller knows is on disk,
a process that is killed at any moment finds it there again, and a write that the disk refuses has not happened. After each
commit a record beside the database notes which commit it was: `read_contents` compares the two.
"""

import os
import sqlite3
import struct
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import msgspec

from mooring.api.api_errors import internal_error
from mooring.api.json_objects import JsonObject
from mooring.apiserver.store import Store, StoreWrite, key_of, version_of

# ---- The content of a data directory, and whether it is what was acknowledged: read without changing a byte of it.
#
# SQLite replays a damaged write-ahead log up to the damage and says nothing of what came after. So each commit is
# numbered, each object has a checksum, the sum of those is part of every commit, and what was acknowledged last is
# noted outside of the database. A commit that was not acknowledged yet may be missing: that is what a killed process
# leaves.


FORMAT = 2
"""The present format of the database."""
OLD_FORMAT = 1
"""The format without checksums and commit numbers: nothing can be said of what it should hold."""
DATABASE, RECORD = "mooring.db", "mooring.acknowledged"
LOCK_WAIT_S = 0.5
"""A process that was just killed may hold its lock for a moment."""

Place = tuple[str, str, str]
"""Storage, namespace, name."""

_SLOT = struct.Struct("<QQQ")
"""Commit, version, sum; a checksum of the three follows. There are two, so that one is whole while the other is written."""
_CHECK = struct.Struct("<I")
_SLOT_BYTES = _SLOT.size + _CHECK.size
_NO_ROOM = ("SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_IOERR_SHMOPEN", "SQLITE_IOERR_SHMMAP")
"""The faults of a full disk: SQLite writes an index of the log even to read. Nothing is lost, so it is no damage."""
_MOST_TOLD = 5
"""How many faults of one sort are listed."""

_decode = msgspec.json.Decoder().decode


class JournalError(Exception):
    """The directory cannot be used (any more). The text says why."""


class LossError(JournalError):
    """The directory is damaged: some acknowledged writes are not there any more."""


@dataclass(frozen=True, slots=True)
class JournalMark:
    """The state after a commit: its number, the version of the store, and the sum of the checksums of all objects.

    A checksum has 32 bits, so that the sum of two billion of them fits the 63 that SQLite has for it.
    """

    commit: int = 0
    version: int = 0
    total: int = 0


@dataclass(slots=True)
class Contents:
    """The content that was read. With faults, it is the rest."""

    mark: JournalMark = JournalMark()
    format: int = FORMAT
    is_new: bool = False
    objects: dict[Place, bytes] = field(default_factory=dict)
    items: list[tuple[str, JsonObject]] = field(default_factory=list)
    sums: dict[Place, int] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def checksum(place: Place, body: bytes) -> int:
    """The checksum of an object and its place: a body under another name is another object."""
    return zlib.crc32(body, zlib.crc32("\0".join(place).encode()))


# ---- what was acknowledged


class JournalRecord:
    """The last acknowledged commit, in a file of two slots that are written in turn."""

    def __init__(self, path: Path, mode: int) -> None:
        """Opens the file, or makes it. Raises OSError."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, mode)

    def write(self, mark: JournalMark) -> None:
        """Overwrite the older of the two slots. It is not synced: it must survive the process, not the machine."""
        slot = _SLOT.pack(mark.commit, mark.version, mark.total)
        os.pwrite(self._file, slot + _CHECK.pack(zlib.crc32(slot)), mark.commit % 2 * _SLOT_BYTES)

    def close(self) -> None:
        os.close(self._file)


def read_record(path: Path) -> JournalMark | None:
    """The later of the slots that are whole; None: there is none. Raises OSError."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    marks = [mark for at in (0, _SLOT_BYTES) if (mark := _slot(data[at : at + _SLOT_BYTES])) is not None]
    return max(marks, key=lambda mark: mark.commit, default=None)


def _slot(data: bytes) -> JournalMark | None:
    """One slot; None if it is not whole."""
    if len(data) < _SLOT_BYTES or _CHECK.unpack(data[_SLOT.size :])[0] != zlib.crc32(data[: _SLOT.size]):
        return None
    return JournalMark(*_SLOT.unpack(data[: _SLOT.size]))


# ---- what is there


def read_contents(directory: Path) -> Contents:
    """All that the directory holds, and what is wrong with it. Raises JournalError where it cannot be told, OSError."""
    path = directory / DATABASE
    acknowledged = read_record(directory / RECORD)
    contents = Contents(is_new=True)
    if path.exists() and path.stat().st_size:
        contents = Contents()
        _read_database(path, contents)
    contents.faults += _missing(contents, acknowledged, directory / RECORD)
    if contents.faults:
        contents.mark = _beyond(contents, acknowledged or JournalMark())
    return contents


def _beyond(contents: Contents, acknowledged: JournalMark) -> JournalMark:
    """The mark to go on from after a loss: no version may be given out twice, or watches would go on from the wrong one."""
    versions = [version_of(item) for _, item in contents.items]
    commit = max(contents.mark.commit, acknowledged.commit)
    return JournalMark(commit, max(contents.mark.version, acknowledged.version, *versions))


def _read_database(path: Path, contents: Contents) -> None:
    """Read-only: a connection that may write replays the log into the database when it is closed, and deletes it."""
    database = sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro", uri=True, timeout=LOCK_WAIT_S)
    database.text_factory = lambda data: data.decode(errors="replace")
    try:
        for read in (_read_facts, _read_structure, _read_objects):
            _tolerating(read, database, path, contents)
    finally:
        database.close()


def _tolerating(read: Callable[..., None], database: sqlite3.Connection, path: Path, contents: Contents) -> None:
    """Run one part of the reading. If it fails, others may still succeed: as much as can be read is read."""
    try:
        read(database, path, contents)
    except sqlite3.Error as fault:
        if "locked" in str(fault):
            raise JournalError(f"{path}: another process uses this directory") from None
        if getattr(fault, "sqlite_errorname", "") in _NO_ROOM:
            raise JournalError(f"{path} cannot be opened: the disk is full; free some space, then try again") from None
        text = f"{path} cannot be read: {fault}"
        contents.faults += [text] if text not in contents.faults else []


def _read_facts(database: sqlite3.Connection, path: Path, contents: Contents) -> None:
    """Read the facts that the database has of itself. Raises JournalError for the format of a newer version."""
    if not database.execute("SELECT 1 FROM sqlite_master").fetchone():
        contents.is_new = True  # a process was killed while it made the file
        return
    facts = dict(database.execute("SELECT name, value FROM facts"))
    contents.format = facts.get("format", OLD_FORMAT)
    if contents.format not in (OLD_FORMAT, FORMAT):
        raise JournalError(f"{path} was written by another version of Mooring (format {contents.format})")
    contents.mark = JournalMark(facts.get("commit", 0), facts.get("version", 0), facts.get("total", 0))


def _read_structure(database: sqlite3.Connection, path: Path, contents: Contents) -> None:
    """Read the faults that SQLite finds in its own pages."""
    for (found,) in database.execute(f"PRAGMA quick_check({_MOST_TOLD})"):
        if found != "ok":
            contents.faults.append(f"{path}: {' '.join(str(found).split())}")


def _read_objects(database: sqlite3.Connection, path: Path, contents: Contents) -> None:
    """Every object whose body is what its checksum says."""
    if contents.is_new:
        return
    is_checked, damaged = contents.format == FORMAT, 0
    for place, body, expected in _rows(database, is_checked):
        found = checksum(place, body)
        item = _item(place, body) if not is_checked or found == expected else None
        if item is None:
            damaged += 1
            if damaged <= _MOST_TOLD:
                contents.faults.append(f"{path}: the object {' '.join(filter(None, place))} is damaged")
            continue
        contents.objects[place], contents.sums[place] = body, found
        contents.items.append((place[0], item))
    if damaged > _MOST_TOLD:
        contents.faults.append(f"{path}: {damaged - _MOST_TOLD} more objects are damaged")
    if is_checked and not damaged and sum(contents.sums.values()) != contents.mark.total:
        contents.faults.append(f"{path}: the objects are not those of commit {contents.mark.commit}")


def _rows(database: sqlite3.Connection, is_checked: bool) -> Iterator[tuple[Place, bytes, int]]:
    """The columns of each object. A damaged one may be of any type."""
    place = "CAST(storage AS TEXT), CAST(namespace AS TEXT), CAST(name AS TEXT)"
    columns = f"{place}, CAST(body AS BLOB), {'checksum' if is_checked else '0'}"
    for *found, body, expected in database.execute(f"SELECT {columns} FROM objects"):
        storage, namespace, name = found
        yield (storage, namespace, name), body, expected


def _item(place: Place, body: bytes) -> JsonObject | None:
    """The object; None if that is none, or another than its place says."""
    try:
        item: JsonObject = _decode(body)
        return item if key_of(item) == place[1:] and version_of(item) else None
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _missing(contents: Contents, acknowledged: JournalMark | None, record: Path) -> Iterator[str]:
    """Say which acknowledged commits are missing. The database may be one commit ahead: the record is written after it."""
    mark = contents.mark
    if acknowledged is None:
        if contents.format == FORMAT and mark.commit:
            yield f"{record} is missing or damaged, so whether all that was acknowledged is there cannot be told"
    elif acknowledged.commit > mark.commit:
        yield (
            f"{acknowledged.commit - mark.commit} acknowledged commits are missing: they led to version "
            f"{acknowledged.version}, and the database ends with version {mark.version}"
        )
    elif acknowledged.commit == mark.commit and acknowledged != mark:
        yield f"the database is not what was acknowledged with commit {mark.commit}"


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
