"""Objects on disk: what was written is there again, whatever happened to the process."""

import os
import signal
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from forked_commands import run_mooring
from full_databases import full_databases
from mooring.api.api_errors import ApiError
from mooring.apiserver.journal import RECORD, Journal, JournalError, JournalMark, JournalRecord, read_record
from mooring.apiserver.store import Store

MAPS, PODS = "/configmaps", "/pods"


def an_object(name: str, **content: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, **content}


def contents(store: Store) -> dict[str, list[dict[str, Any]]]:
    return {storage: sorted(store.all(storage), key=lambda item: item["metadata"]["name"]) for storage in (MAPS, PODS)}


def put(store: Store, name: str, number: int, storage: str = MAPS) -> None:
    key = ("default", name)
    if store.find(storage, key) is None:
        store.create(storage, key, an_object(name, data={"n": number}))
    else:
        store.update(storage, key, an_object(name, data={"n": number}))


def test_a_store_is_the_same_after_a_restart(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    store = journal.open_store()
    for number in range(20):
        put(store, f"o{number % 7}", number, MAPS if number % 2 else PODS)
    store.delete(MAPS, ("default", "o3"))
    before, version = contents(store), store.version
    journal.close()
    again = Journal(tmp_path)
    reopened = again.open_store()
    assert (contents(reopened), reopened.version) == (before, version)
    put(reopened, "new", 1)
    assert reopened.version == version + 1, "versions go on where they were"
    again.close()


def test_a_version_is_kept_even_when_nothing_else_is(tmp_path: Path) -> None:
    """Or a version would be given twice, and a client's watch would go on from the wrong one."""
    journal = Journal(tmp_path)
    store = journal.open_store()
    put(store, "a", 1)
    store.delete(MAPS, ("default", "a"))
    journal.close()
    again = Journal(tmp_path)
    assert again.open_store().version == 2
    again.close()


def test_what_was_before_a_restart_cannot_be_watched(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    put(journal.open_store(), "a", 1)
    journal.close()
    again = Journal(tmp_path)
    store = again.open_store()
    assert store.since(1) == []
    with pytest.raises(Exception, match="too old resource version: 0"):
        store.since(0)
    again.close()


def test_text_of_all_kinds_comes_back(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    texts = {"snow": "\N{SNOWMAN}", "nothing": "", "zero": "\0", "quote": '"\\', "big": "x" * 1_000_000}
    journal.open_store().create(MAPS, ("default", "a"), an_object("a", data=texts, number=2**60, half=0.5))
    journal.close()
    again = Journal(tmp_path)
    (item,) = again.open_store().all(MAPS)
    assert (item["data"], item["number"], item["half"]) == (texts, 2**60, 0.5)
    again.close()


WRITER = """
import os, sys
from pathlib import Path
from mooring.apiserver.journal import Journal
journal = Journal(Path(sys.argv[1]))
store = journal.open_store()
for number in range(1, 1_000_000):
    for name in ("a", "b"):
        key, item = ("default", name), {"metadata": {"name": name, "namespace": "default"}, "n": number}
        if store.find("/configmaps", key) is None:
            store.create("/configmaps", key, item)
        else:
            store.update("/configmaps", key, item)
    if number % 3:
        print(number, flush=True)
    if number == int(sys.argv[2]):
        os._exit(1)
"""
"""Writes two objects with the same number, then says so; each third time it says nothing."""


def check_last(directory: Path, told: int) -> None:
    """At least what was told is there, and writes are there in their order."""
    journal = Journal(directory)
    store = journal.open_store()
    found = {item["metadata"]["name"]: item["n"] for item in store.all(MAPS)}
    assert found["a"] >= found["b"] >= max(told, found["a"] - 1)
    assert store.version == found["a"] + found["b"]
    journal.close()


@pytest.mark.parametrize("last", [4, 6])
def test_what_was_written_survives_an_end_without_goodbye(tmp_path: Path, last: int) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WRITER, str(tmp_path), str(last)], stdout=subprocess.PIPE, text=True, check=False
    )
    assert done.returncode == 1
    told = int(done.stdout.split()[-1])
    assert told == (4 if last == 4 else 5)
    check_last(tmp_path, told)


def test_what_was_written_survives_being_killed(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), "0"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for _ in range(50):
        told = int(process.stdout.readline())
    process.send_signal(signal.SIGKILL)
    told = max([told, *map(int, process.stdout.read().split())])
    process.wait()
    process.stdout.close()
    check_last(tmp_path, told)


def test_only_one_can_use_a_directory(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    code = "import sys; from pathlib import Path; from mooring.apiserver.journal import Journal; Journal(Path(sys.argv[1]))"
    done = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert f"JournalError: {tmp_path}/mooring.db: another process uses this directory" in done.stderr
    journal.close()
    Journal(tmp_path).close()


def up(directory: Path) -> tuple[int, str]:
    """`mooring up` on a directory that cannot be used: how it ends, and what it says."""
    done = run_mooring("up", "-q", "--port", "0", "--data-dir", directory, "--exec", "true")
    assert "Traceback" not in done.stderr
    return done.returncode, done.stderr


@pytest.mark.slow
def test_the_command_says_why_a_directory_cannot_be_used(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "used")
    assert up(tmp_path / "used") == (
        2,
        f"{tmp_path}/used/mooring.db: another process uses this directory\n",
    )
    journal.close()


def test_a_directory_is_locked_within_a_process_too(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    with pytest.raises(JournalError, match=r"/mooring\.db: another process uses this directory$"):
        Journal(tmp_path)
    journal.close()


def test_what_is_deleted_stays_deleted_and_sums_go_on_over_many_starts(tmp_path: Path) -> None:
    """Each start verifies what the one before has left: objects, sums, versions."""
    expected: set[str] = set()
    for number in range(4):
        journal = Journal(tmp_path)
        store = journal.open_store()
        assert {item["metadata"]["name"] for item in store.all(MAPS)} == expected
        put(store, f"o{number}", number)
        put(store, f"o{number}", number + 10)
        if number:
            store.delete(MAPS, ("default", f"o{number - 1}"))
        expected = {f"o{number}"}
        journal.close()


def test_each_write_is_one_commit_that_is_noted_beside_the_database(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    store = journal.open_store()
    first = read_record(tmp_path / RECORD)
    assert first == JournalMark(1, 0, 0)
    put(store, "a", 1)
    put(store, "b", 1)
    second = read_record(tmp_path / RECORD)
    assert second is not None and (second.commit, second.version) == (3, 2) and second.total
    store.delete(MAPS, ("default", "a"))
    store.delete(MAPS, ("default", "b"))
    assert read_record(tmp_path / RECORD) == JournalMark(5, 4, 0), "of nothing the sum is nothing"
    journal.close()


@pytest.mark.parametrize("statement", [1, 2, 3, 4], ids=["the begin", "the object", "the facts", "the commit"])
def test_a_commit_that_fails_in_the_middle_has_not_happened(tmp_path: Path, statement: int) -> None:
    with full_databases() as opened:
        journal = Journal(tmp_path)
    store = journal.open_store()
    opened[0].refuses = {opened[0].count + statement}
    with pytest.raises(
        ApiError, match=r"/mooring\.db cannot be written: database or disk is full; free space on the disk"
    ):
        put(store, "a", 1)
    assert (store.all(MAPS), store.version) == ([], 0)
    put(store, "b", 1)
    journal.close()
    again = Journal(tmp_path)
    assert contents(again.open_store()) == contents(store)
    again.close()


def test_a_record_that_cannot_be_written_is_written_with_the_next_commit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write is in the database already, so it has happened."""
    journal = Journal(tmp_path)
    store = journal.open_store()

    def fail(self: JournalRecord, mark: JournalMark) -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr(JournalRecord, "write", fail)
    put(store, "a", 1)
    monkeypatch.undo()
    assert read_record(tmp_path / RECORD) == JournalMark(1, 0, 0)
    store.delete(MAPS, ("default", "a"))
    assert read_record(tmp_path / RECORD) == JournalMark(3, 2, 0)
    journal.close()
    Journal(tmp_path).close()


def test_how_the_database_is_set_up(tmp_path: Path) -> None:
    """In the log before it is answered, without waiting for the disk, and shared with nobody."""
    with full_databases() as opened:
        journal = Journal(tmp_path)
    settings = ("journal_mode", "synchronous", "locking_mode", "wal_autocheckpoint")
    found = [opened[0].execute(f"PRAGMA {name}").fetchone()[0] for name in settings]
    assert found == ["wal", 1, "exclusive", 4000]
    journal.close()


def test_a_journal_that_is_closed_holds_no_file_open(tmp_path: Path) -> None:
    held = set(os.listdir("/proc/self/fd"))
    journal = Journal(tmp_path)
    journal.close()
    assert set(os.listdir("/proc/self/fd")) <= held


def test_a_database_without_tables_is_a_new_one(tmp_path: Path) -> None:
    """What a process leaves that is killed while it makes the file."""
    database = sqlite3.connect(tmp_path / "mooring.db")
    database.execute("PRAGMA user_version = 7")
    database.close()
    assert (tmp_path / "mooring.db").stat().st_size
    journal = Journal(tmp_path)
    assert journal.open_store().version == 0
    journal.close()


def test_a_database_with_a_hole_in_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    store = journal.open_store()
    for number in range(500):
        put(store, f"o{number}", number)
    journal.close()
    size = journal.path.stat().st_size
    with journal.path.open("r+b") as file:
        file.seek(size // 2)
        file.write(os.urandom(size // 4))
    with pytest.raises(JournalError, match="mooring.db"):
        Journal(tmp_path).open_store()


def test_a_database_of_another_version(tmp_path: Path) -> None:
    Journal(tmp_path).close()
    database = sqlite3.connect(tmp_path / "mooring.db")
    database.execute("UPDATE facts SET value = 99 WHERE name = 'format'")
    database.commit()
    database.close()
    with pytest.raises(JournalError, match=r"/mooring\.db was written by another version of Mooring \(format 99\)$"):
        Journal(tmp_path)


def test_a_directory_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(JournalError, match="mooring.db: "):
        Journal(tmp_path / "file" / "inner")


def test_only_the_owner_can_read_the_files(tmp_path: Path) -> None:
    """Secrets are objects too."""
    old = os.umask(0)
    try:
        journal = Journal(tmp_path / "new")
        put(journal.open_store(), "a", 1)
    finally:
        os.umask(old)
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "new").iterdir()}
    assert modes["mooring.db"] == 0o600
    assert set(modes.values()) == {0o600}
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o700
    journal.close()


def test_a_write_that_fails_has_not_happened_and_the_next_ones_succeed(tmp_path: Path) -> None:
    with full_databases() as opened:
        journal = Journal(tmp_path)
    faults: list[str] = []
    journal.on_fault = faults.append
    store = journal.open_store()
    put(store, "a", 1)
    before = contents(store)
    opened[0].execute("PRAGMA query_only = 1")
    for name in ("a", "b", "b"):
        with pytest.raises(ApiError, match="cannot be written: "):
            put(store, name, 2)
    assert contents(store) == before
    opened[0].execute("PRAGMA query_only = 0")
    put(store, "b", 2)
    assert [bool(fault) for fault in faults] == [True, False], "a failure is told once, and its end"
    journal.close()
    again = Journal(tmp_path)
    assert contents(again.open_store()) == contents(store)
    again.close()
