"""A data directory that has lost what was acknowledged: it is told, nothing is touched, and only who accepts it goes on."""

import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from forked_commands import run_mooring
from mooring.apiserver.journal import FORMAT, Journal, JournalError, JournalMark, JournalRecord, LossError, read_record
from mooring.apiserver.store import Store, version_of

MAPS = "/configmaps"
COUNT = 20
"""How many commits the directory of these tests has: each adds one object, so that one more version is there."""

WRITER = """
import os, sys
from pathlib import Path
from mooring.apiserver.journal import Journal
journal = Journal(Path(sys.argv[1]))
store = journal.open_store()
for number in range(int(sys.argv[2])):
    name = f"o{number:02d}"
    item = {"metadata": {"name": name, "namespace": "default"}, "data": {"filler": name * 2000}}
    store.create("/configmaps", ("default", name), item)
os._exit(1)
"""
"""Ends as by kill -9: its write-ahead log stays behind."""

Damage = Callable[[Path], None]


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("killed")
    done = subprocess.run([sys.executable, "-c", WRITER, str(directory), str(COUNT)], check=False)
    assert done.returncode == 1
    assert (directory / "mooring.db-wal").stat().st_size > COUNT * 8000
    return directory


@pytest.fixture
def home(killed: Path, tmp_path: Path) -> Path:
    """A directory that a killed process has left behind, to be damaged."""
    return Path(shutil.copytree(killed, tmp_path / "home"))


def names(store: Store) -> list[str]:
    return sorted(item["metadata"]["name"] for item in store.all(MAPS))


def files(directory: Path) -> dict[str, bytes]:
    """But for files without content, and for that by which SQLite's processes share memory: they are made each time."""
    found = {path.name: path.read_bytes() for path in directory.iterdir() if path.is_file()}
    return {name: data for name, data in found.items() if data and not name.endswith("-shm")}


def change(path: Path, at: float, data: bytes = b"\xff" * 16) -> None:
    """Overwrite a part of a file, at a share of its length."""
    place = int(path.stat().st_size * at)
    with path.open("r+b") as file:
        file.seek(place)
        file.write(data)


def query(directory: Path, statement: str, *values: object) -> None:
    database = sqlite3.connect(directory / "mooring.db")
    database.execute(statement, values)
    database.commit()
    database.close()


def test_what_a_killed_process_leaves_is_whole(home: Path) -> None:
    journal = Journal(home)
    store = journal.open_store()
    assert (names(store), store.version, journal.losses) == ([f"o{i:02d}" for i in range(COUNT)], COUNT, [])
    journal.close()


def truncate_log(home: Path) -> None:
    os.truncate(home / "mooring.db-wal", (home / "mooring.db-wal").stat().st_size // 2)


def replace_by_older(home: Path) -> None:
    """As from a backup that was made without the record."""
    older = home.parent / "older"
    subprocess.run([sys.executable, "-c", WRITER, str(older), "3"], check=False)
    for name in ("mooring.db", "mooring.db-wal"):
        shutil.copy(older / name, home / name)


MISSING: dict[str, tuple[Damage, int]] = {
    "a log with a hole in the middle": (lambda home: change(home / "mooring.db-wal", 0.5), COUNT // 2),
    "a log with a hole at the beginning": (lambda home: change(home / "mooring.db-wal", 0.0), 0),
    "a log that is too short": (truncate_log, COUNT // 2),
    "no log": (lambda home: (home / "mooring.db-wal").unlink(), 0),
    "no database": (lambda home: (home / "mooring.db").unlink(), 0),
    "an older database": (replace_by_older, 3),
}


@pytest.mark.parametrize(("damage", "left"), MISSING.values(), ids=MISSING)
def test_commits_that_were_acknowledged_and_are_missing(home: Path, damage: Damage, left: int) -> None:
    damage(home)
    before = files(home)
    for _ in range(2):
        with pytest.raises(LossError, match=rf"acknowledged commits are missing: they led to version {COUNT}, and "):
            Journal(home)
        assert files(home) == before, "a refusal changes nothing, so that others can have a look"
    journal = Journal(home, accepts_loss=True)
    store = journal.open_store()
    assert abs(len(names(store)) - left) <= 2
    assert store.version == COUNT, "no version is given out twice"
    assert journal.losses[-1] == f"{len(names(store))} objects are left; the damaged files are in {home}/damaged-1"
    assert before.items() <= files(home / "damaged-1").items()
    kept = store.create(MAPS, ("default", "new"), {"metadata": {"name": "new", "namespace": "default"}})
    assert version_of(kept) == COUNT + 1
    held = names(store)
    journal.close()
    again = Journal(home)
    assert (names(again.open_store()), again.losses) == (held, [])
    again.close()


def test_a_commit_that_was_not_acknowledged_may_be_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a process leaves that is killed within a commit, or right after it: whether the commit is whole or not."""
    journal = Journal(tmp_path / "home")
    store = journal.open_store()
    for name in ("a", "b"):
        if name == "b":
            size = (tmp_path / "home" / "mooring.db-wal").stat().st_size
            monkeypatch.setattr(JournalRecord, "write", lambda self, mark: None)
        store.create(MAPS, ("default", name), {"metadata": {"name": name, "namespace": "default"}})
    monkeypatch.undo()
    for cut, left in ((0, ["a", "b"]), (100, ["a"]), (1 << 30, ["a"])):
        copy = Path(shutil.copytree(tmp_path / "home", tmp_path / f"copy-{cut}"))
        log = copy / "mooring.db-wal"
        os.truncate(log, max(log.stat().st_size - cut, size))
        again = Journal(copy)
        assert (names(again.open_store()), again.losses) == (left, [])
        again.close()
    journal.close()


ALTERED: dict[str, tuple[Damage, str, int]] = {
    "an object that was changed": (
        lambda home: query(home, "UPDATE objects SET body = replace(body, 'o03o03', 'o03o04') WHERE name = 'o03'"),
        "the object /configmaps default o03 is damaged$",
        COUNT - 1,
    ),
    "one that is no object": (
        lambda home: query(home, "UPDATE objects SET body = ? WHERE name = 'o03'", b"\xff{"),
        "the object /configmaps default o03 is damaged$",
        COUNT - 1,
    ),
    "many of them": (
        lambda home: query(home, "UPDATE objects SET checksum = 1 WHERE name < 'o12'"),
        "mooring.db: 7 more objects are damaged$",
        COUNT - 12,
    ),
    "one that is gone": (
        lambda home: query(home, "DELETE FROM objects WHERE name = 'o03'"),
        rf"/mooring\.db: the objects are not those of commit {COUNT + 1}$",
        COUNT - 1,
    ),
    "another version": (
        lambda home: query(home, "UPDATE facts SET value = 7 WHERE name = 'version'"),
        f"the database is not what was acknowledged with commit {COUNT + 1}$",
        COUNT,
    ),
    "no record": (
        lambda home: (home / "mooring.acknowledged").unlink(),
        "mooring.acknowledged is missing or damaged, so whether all that was acknowledged is there cannot be told$",
        COUNT,
    ),
    "a record of nothing": (
        lambda home: change(home / "mooring.acknowledged", 0.0, b"\0" * 57),
        "mooring.acknowledged is missing or damaged, ",
        COUNT,
    ),
}


@pytest.mark.parametrize(("damage", "said", "left"), ALTERED.values(), ids=ALTERED)
def test_a_database_that_is_not_what_was_acknowledged(home: Path, damage: Damage, said: str, left: int) -> None:
    damage(home)
    with pytest.raises(LossError, match=said):
        Journal(home)
    journal = Journal(home, accepts_loss=True)
    store = journal.open_store()
    assert (len(names(store)), store.version) == (left, COUNT)
    journal.close()


def test_a_checksum_of_its_own_for_each_place(home: Path) -> None:
    """Two objects that changed places hold what others hold, and add up to the same."""
    query(home, "UPDATE objects SET name = 'x' WHERE name = 'o01'")
    query(home, "UPDATE objects SET name = 'o01' WHERE name = 'o02'")
    query(home, "UPDATE objects SET name = 'o02' WHERE name = 'x'")
    with pytest.raises(LossError, match="o01 is damaged\n.*o02 is damaged$"):
        Journal(home)


def test_half_of_the_database_is_gone(home: Path) -> None:
    Journal(home).close()  # all of the log goes into the database
    change(home / "mooring.db", 0.4, os.urandom(40_000))
    with pytest.raises(LossError, match="mooring.db"):
        Journal(home)
    journal = Journal(home, accepts_loss=True)
    store = journal.open_store()
    assert len(names(store)) < COUNT and store.version == COUNT
    journal.close()


def test_what_is_no_database_at_all(tmp_path: Path) -> None:
    (tmp_path / "mooring.db").write_bytes(b"this is no database" * 1000)
    with pytest.raises(LossError) as refused:
        Journal(tmp_path)
    assert str(refused.value) == f"{tmp_path}/mooring.db cannot be read: file is not a database", "it is said once"
    journal = Journal(tmp_path, accepts_loss=True)
    assert journal.open_store().version == 0
    journal.close()
    Journal(tmp_path).close()


def test_a_structure_that_is_wrong_though_all_objects_can_be_read(home: Path) -> None:
    Journal(home).close()
    with (home / "mooring.db").open("r+b") as file:
        file.seek(36)  # how many pages are free, in the header
        file.write((9).to_bytes(4, "big"))
    with pytest.raises(LossError) as refused:
        Journal(home)
    found = "*** in database main *** Freelist: size is 0 but should be 9"
    assert str(refused.value).startswith(f"{home}/mooring.db: ") and str(refused.value).endswith(found[-31:])
    assert "is damaged" not in str(refused.value)
    journal = Journal(home, accepts_loss=True)
    assert len(names(journal.open_store())) == COUNT
    journal.close()


def test_a_name_that_is_no_text(home: Path) -> None:
    query(home, "UPDATE objects SET name = CAST(x'ff6f' AS TEXT) WHERE name = 'o03'")
    with pytest.raises(LossError, match="the object /configmaps default \N{REPLACEMENT CHARACTER}o is damaged$"):
        Journal(home)


def test_a_record_of_which_one_half_was_being_written(home: Path) -> None:
    """The other half is the commit before, and the database is one ahead of that."""
    last = read_record(home / "mooring.acknowledged")
    assert last == JournalMark(COUNT + 1, COUNT, last.total if last else 0)
    change(home / "mooring.acknowledged", 0.5 * (last.commit % 2), b"\0\0")
    before = read_record(home / "mooring.acknowledged")
    assert before is not None and before.commit == COUNT
    journal = Journal(home)
    assert len(names(journal.open_store())) == COUNT
    journal.close()


def test_a_record_has_the_last_two_commits(tmp_path: Path) -> None:
    record, path = JournalRecord(tmp_path / "record", 0o600), tmp_path / "record"
    for commit in range(1, 6):
        record.write(JournalMark(commit, commit * 10, commit * 100))
        assert read_record(path) == JournalMark(commit, commit * 10, commit * 100)
    record.close()
    whole = path.read_bytes()
    assert len(whole) == 2 * 28
    for half, left in ((0, 5), (28, 4)):
        path.write_bytes(whole[:half] + b"\xff" + whole[half + 1 :])
        found = read_record(path)
        assert found is not None and found.commit == left
    path.write_bytes(whole[28:])
    assert read_record(path) == JournalMark(5, 50, 500), "a file that is too short has the slots that it has"
    path.write_bytes(whole[:27])
    assert read_record(path) is None


def test_five_objects_are_told_and_the_rest_counted(home: Path) -> None:
    query(home, "UPDATE objects SET checksum = 1 WHERE name < 'o12'")
    with pytest.raises(LossError) as refused:
        Journal(home)
    told = [f"{home}/mooring.db: the object /configmaps default o{i:02d} is damaged" for i in range(5)]
    assert str(refused.value).split("\n") == [*told, f"{home}/mooring.db: 7 more objects are damaged"]


def test_six_damaged_objects_are_five_and_one_more(home: Path) -> None:
    query(home, "UPDATE objects SET checksum = 1 WHERE name < 'o06'")
    with pytest.raises(LossError, match="o04 is damaged\n.*: 1 more objects are damaged$"):
        Journal(home)


def test_how_many_commits_are_missing(home: Path) -> None:
    """Of those that came after one that can still be read."""
    journal = Journal(home)
    store = journal.open_store()
    journal.close()
    older = Path(shutil.copytree(home, home.parent / "before"))
    journal = Journal(home)
    store = journal.open_store()
    for name in ("x", "y"):
        store.create(MAPS, ("default", name), {"metadata": {"name": name, "namespace": "default"}})
    journal.close()
    shutil.copy(older / "mooring.db", home / "mooring.db")
    with pytest.raises(LossError) as refused:
        Journal(home)
    ends = f"they led to version {COUNT + 2}, and the database ends with version {COUNT}"
    assert str(refused.value) == f"2 acknowledged commits are missing: {ends}"


def test_a_loss_that_is_accepted_twice_has_two_places(home: Path) -> None:
    for number in (1, 2):
        (home / "mooring.db").unlink()
        journal = Journal(home, accepts_loss=True)
        assert journal.losses[-1].endswith(f"damaged-{number}")
        store = journal.open_store()
        store.create(MAPS, ("default", "a"), {"metadata": {"name": "a", "namespace": "default"}})
        journal.close()


def test_who_accepts_loss_where_there_is_none_loses_nothing(home: Path) -> None:
    journal = Journal(home, accepts_loss=True)
    assert (journal.losses, len(names(journal.open_store()))) == ([], COUNT)
    journal.close()
    assert not (home / "damaged-1").exists()


OLD_SCHEMA = """
CREATE TABLE objects (storage TEXT NOT NULL, namespace TEXT NOT NULL, name TEXT NOT NULL, body BLOB NOT NULL,
    PRIMARY KEY (storage, namespace, name)) WITHOUT ROWID;
CREATE TABLE facts (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO facts VALUES ('format', 1), ('version', 5);
INSERT INTO objects VALUES ('/configmaps', 'default', 'a',
    '{"metadata":{"name":"a","namespace":"default","resourceVersion":"5"}}');
"""


@pytest.mark.parametrize(
    "body",
    [
        '{"metadata":{"name":"b","namespace":"default","resourceVersion":"5"}}',
        '{"metadata":{"name":"a","namespace":"other","resourceVersion":"5"}}',
        '{"metadata":{"name":"a","namespace":"default","resourceVersion":"0"}}',
        '{"metadata":{"name":"a","namespace":"default"}}',
        *("{", "[]", "{}", '{"metadata":null}', "null", "1"),
    ],
)
def test_an_object_of_the_first_edition_that_is_none(tmp_path: Path, body: str) -> None:
    database = sqlite3.connect(tmp_path / "mooring.db")
    database.executescript(OLD_SCHEMA)
    database.execute("UPDATE objects SET body = ?", (body,))
    database.commit()
    database.close()
    with pytest.raises(LossError) as refused:
        Journal(tmp_path)
    assert str(refused.value) == f"{tmp_path}/mooring.db: the object /configmaps default a is damaged"


def test_a_directory_of_the_first_edition_is_taken_over(tmp_path: Path) -> None:
    database = sqlite3.connect(tmp_path / "mooring.db")
    database.executescript(OLD_SCHEMA)
    database.close()
    for _ in range(2):
        journal = Journal(tmp_path)
        store = journal.open_store()
        assert (names(store), store.version, journal.losses) == (["a"], 5, [])
        journal.close()
    database = sqlite3.connect(tmp_path / "mooring.db")
    assert dict(database.execute("SELECT name, value FROM facts"))["format"] == FORMAT
    database.close()


def test_another_process_that_comes_between(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read is not what is there any more, and would be put in its place."""
    connect = sqlite3.connect

    def late(path: Any, **options: Any) -> sqlite3.Connection:
        if not options.get("uri"):  # to write, after all was read
            monkeypatch.undo()
            query(home, "UPDATE facts SET value = value + 1 WHERE name = 'commit'")
        database: sqlite3.Connection = connect(path, **options)
        return database

    monkeypatch.setattr(sqlite3, "connect", late)
    with pytest.raises(JournalError, match="another process has just used this directory; try again$"):
        Journal(home)


# ---- the command


def up(directory: Path, *more: str) -> tuple[int, str]:
    done = run_mooring("up", "-q", "--port", "0", "--nodes", "0", "--data-dir", directory, "--exec", "true", *more)
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


@pytest.mark.slow
def test_the_command_says_what_is_lost_and_what_to_do(home: Path) -> None:
    (home / "mooring.db-wal").unlink()
    ends = f"they led to version {COUNT}, and the database ends with version 0"
    lost = f"{COUNT + 1} acknowledged commits are missing: {ends}\n"
    assert up(home) == (
        3,
        lost + "The data directory is damaged: it has lost writes that `mooring up` acknowledged. Restore the "
        "directory from a backup, or start with --accept-loss to continue with the objects that are left.\n",
    )
    assert up(home, "--accept-loss") == (
        0,
        f"{lost}0 objects are left; the damaged files are in {home}/damaged-1\n",
    )
    assert up(home) == (0, "")
