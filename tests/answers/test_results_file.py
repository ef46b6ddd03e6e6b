"""The file of results: rows that are written survive, torn ones are dropped, and other files are refused."""

import csv
import os
import re
import sys
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from mooring.answers.experiments import results_file
from mooring.answers.experiments.compared_run import RunResult
from mooring.answers.experiments.comparing import COLUMNS, CompareRows
from mooring.answers.experiments.figures import PriorityFigures, RunFigures, UseFigures, WaitFigures, pack
from mooring.answers.experiments.results_file import ResultsFile, UnusableResults
from mooring.answers.experiments.results_file import open_results as open_rows
from mooring.answers.experiments.run_plan import RunPlan
from mooring.framework import config as configuration
from mooring.kit.version import VERSION

PLAN = RunPlan("a,b\nc", "a", configuration.default(), (("seed", 2**62),), seed=2**62)


def open_results(path: str | None, wanted: Collection[str]) -> ResultsFile[RunPlan, RunResult]:
    return open_rows(path, wanted, CompareRows())


def a_result(pending: int) -> RunResult:
    waits = WaitFigures(0.1 + 0.2, 1 / 3, None, 1e300)
    figures = RunFigures(
        *(3, 2, pending, 0, 5, 0.005, waits, [PriorityFigures(7, 2, 1, 0, waits)], {"cpu": UseFigures(1 / 3, 0.5)}),
        *({"cpu": None, "memory": 0.1}, 1, None, 2.5, ['a "note", with é']),
    )
    return RunResult(figures, pack({"ns/p": "n", "ns/q": None}), "digest")


@pytest.fixture(params=["csv", "parquet"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / f"r.{request.param}")


def test_what_is_written_is_there_again(path: str) -> None:
    with open_results(path, {"x", "y"}) as file:
        assert file.done == {}
        file.write("x", PLAN, a_result(1))
        file.write("y", PLAN, a_result(2))
    for _ in range(2):
        with open_results(path, {"x", "y", "z"}) as file:
            assert file.done == {"x": a_result(1), "y": a_result(2)}
    with open_results(path, {"y"}) as file:
        assert file.done == {"y": a_result(2)}, "rows of other sweeps stay in the file and out of memory"


def test_a_row_has_columns_for_readers(tmp_path: Path) -> None:
    with open_results(str(tmp_path / "r.csv"), ()) as file:
        file.write("x", PLAN, a_result(1))
    with (tmp_path / "r.csv").open() as text:
        [row] = csv.DictReader(text)
    assert [*row] == [*COLUMNS]
    shown = (
        "run",
        "name",
        "config",
        "seed",
        "load",
        "vary",
        "version",
        "pending",
        "waits.p95Seconds",
        "waits.p99Seconds",
    )
    assert [row[name] for name in shown] == [
        *("x", "a,b\\nc", "a", "4611686018427387904", "1.0", '{"seed": 4611686018427387904}', VERSION, "1"),
        *("0.3333333333333333", ""),
    ]


def test_a_file_that_is_torn_anywhere_has_the_rows_before(tmp_path: Path) -> None:
    whole = tmp_path / "whole.csv"
    with open_results(str(whole), ()) as file:
        file.write("x", PLAN, a_result(1))
        end_of_first = whole.stat().st_size
        file.write("y", PLAN, a_result(2))
    text = whole.read_bytes()
    for size in range(0, len(text) + 1, 7):
        torn = tmp_path / "torn.csv"
        torn.write_bytes(text[:size])
        with open_results(str(torn), {"x", "y"}) as file:
            assert [*file.done] == ["x", "y"][: (size >= end_of_first) + (size == len(text))]
            for digest, pending in (("x", 1), ("y", 2)):
                if digest not in file.done:
                    file.write(digest, PLAN, a_result(pending))
        assert torn.read_bytes() == text, "the sweep that goes on leaves the same file"


def test_other_files_are_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "other.csv"
    path.write_text("pod,node\na,b\n")
    with pytest.raises(UnusableResults) as caught:
        open_results(str(path), ())
    assert str(caught.value) == f"{path}: has other columns than `mooring compare` writes; choose another file"
    assert path.read_text() == "pod,node\na,b\n"
    with pytest.raises(UnusableResults, match="^/nowhere/r.csv: cannot be written: No such file or directory$"):
        open_results("/nowhere/r.csv", ())


def test_a_file_that_another_sweep_writes_is_refused(tmp_path: Path) -> None:
    path = str(tmp_path / "r.csv")
    with (
        open_results(path, ()),
        pytest.raises(UnusableResults, match=r"r\.csv: another process writes it; choose another"),
    ):
        open_results(path, ())
    with open_results(path, ()) as file:
        assert file.done == {}


def test_a_row_that_somebody_changed_is_refused_with_its_number(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    with open_results(str(path), ()) as file:
        file.write("x", PLAN, a_result(1))
        file.write("y", PLAN, a_result(1))
    path.write_text(path.read_text().replace('""placed"":2', '""placed"":true'))
    with pytest.raises(
        UnusableResults, match=r"r\.csv: row 2: cannot be read: Expected `int`, got `bool`.* remove the row"
    ):
        open_results(str(path), {"y"})


def test_parquet_without_pyarrow_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UnusableResults) as caught:
        open_results(str(tmp_path / "r.parquet"), ())
    assert str(caught.value) == (
        f"{tmp_path}/r.parquet: Parquet needs pyarrow, which is not installed: pip install pyarrow, "
        "or choose a file that ends in .csv"
    )
    assert [*tmp_path.iterdir()] == []


def test_a_parquet_sweep_that_is_interrupted_keeps_its_rows(tmp_path: Path) -> None:
    path = str(tmp_path / "r.parquet")
    with pytest.raises(KeyboardInterrupt), open_results(path, ()) as file:
        file.write("x", PLAN, a_result(1))
        raise KeyboardInterrupt
    assert [each.name for each in tmp_path.iterdir()] == ["r.parquet.rows.csv"]
    with open_results(path, {"x"}) as file:
        assert file.done == {"x": a_result(1)}
    assert [each.name for each in tmp_path.iterdir()] == ["r.parquet"]
    [row] = parquet.read_table(path).to_pylist()
    assert (row["seed"], row["load"], row["pending"], row["waits.p99Seconds"]) == (2**62, 1.0, 1.0, None)


# ---- files beyond the limits


LIMITS = "has more than 2 rows or 4,096 MiB, the limits for such a file; choose another file"


def test_a_file_with_too_many_bytes_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    path.touch()
    os.truncate(path, results_file.MAX_BYTES + 1)  # sparse: it takes no room on the disk
    with pytest.raises(UnusableResults) as error:
        open_results(str(path), ())
    limit = "the file has more than 4,096 MiB, the limit for such a file"
    assert str(error.value) == f"{path}: cannot be read: {limit}; choose another file"


def test_a_csv_file_with_too_many_rows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.csv"
    path.write_text("\n".join([",".join(COLUMNS), *["," * (len(COLUMNS) - 1)] * 3, ""]))
    open_results(str(path), ()).__exit__(None)
    monkeypatch.setattr(results_file, "MAX_ROWS", 2)
    with pytest.raises(UnusableResults) as error:
        open_results(str(path), ())
    assert str(error.value) == f"{path}: {LIMITS}"


def test_a_parquet_file_with_too_many_rows_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results_file, "MAX_ROWS", 2)
    path = tmp_path / "r.parquet"
    parquet.write_table(pyarrow.table({"run": ["a", "b", "c"]}), path)
    with pytest.raises(UnusableResults) as error:
        open_results(str(path), ())
    assert str(error.value) == f"{path}: {LIMITS}"


def test_a_parquet_file_that_expands_beyond_the_limit_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A long text that all rows share is in the file once, and its metadata count it once."""
    monkeypatch.setattr(results_file, "MAX_BYTES", 1 << 20)
    path = tmp_path / "r.parquet"
    parquet.write_table(pyarrow.table({"run": ["a" * 20_000] * 1000}), path)
    assert path.stat().st_size < 1 << 20
    with pytest.raises(UnusableResults, match=r"has more than 1,000,000 rows or 1 MiB"):
        open_results(str(path), ())


def test_as_many_rows_and_bytes_as_the_limits_say_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts are counted in the file, in the rows of it, and in a Parquet file as they are unpacked."""
    path = tmp_path / "r.csv"
    with open_results(str(path), ()) as file:
        file.write("x", PLAN, a_result(1))
        file.write("y", PLAN, a_result(2))
    monkeypatch.setattr(results_file, "MAX_ROWS", 2)
    monkeypatch.setattr(results_file, "MAX_BYTES", path.stat().st_size)
    with open_results(str(path), {"x", "y"}) as file:
        assert [*file.done] == ["x", "y"]
    monkeypatch.setattr(results_file, "MAX_ROWS", 1)
    with pytest.raises(UnusableResults, match="has more than 1 rows or "):
        open_results(str(path), ())


def test_a_parquet_file_within_its_limits_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "r.parquet"
    with open_results(str(path), ()) as file:
        file.write("x", PLAN, a_result(1))
        file.write("y", PLAN, a_result(2))
    monkeypatch.setattr(results_file, "MAX_ROWS", 2)
    monkeypatch.setattr(results_file, "_BATCH_ROWS", 1)
    with open_results(str(path), {"x", "y"}) as file:
        assert [*file.done] == ["x", "y"]
    stated = parquet.ParquetFile(path).metadata.row_group(0).total_byte_size
    monkeypatch.setattr(results_file, "MAX_BYTES", stated - 1)
    with pytest.raises(UnusableResults, match=f"has more than 2 rows or {stated - 1} bytes"):
        open_results(str(path), {"x", "y"})


def test_the_texts_of_a_parquet_file_are_counted_to_the_byte(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of exactly so many bytes is read on, and so it is seen that it has other columns."""
    path = tmp_path / "r.parquet"
    parquet.write_table(pyarrow.table({"pod": ["a" * 1000] * 250}), path)
    with parquet.ParquetFile(path) as file:
        size = sum(batch.nbytes for batch in file.iter_batches(100))
        assert size > file.metadata.row_group(0).total_byte_size
    for limit, told in ((size, "is no results file of `mooring compare`: 'run'"), (size - 1, "has more than ")):
        monkeypatch.setattr(results_file, "MAX_BYTES", limit)
        with pytest.raises(UnusableResults, match=told):
            open_results(str(path), ())


# ---- edges of files


def test_the_ending_of_a_name_says_which_file_it_is(tmp_path: Path) -> None:
    for name in ("R.PARQUET", "r.parquet.csv", "r"):
        with open_results(str(tmp_path / name), ()) as file:
            file.write("x", PLAN, a_result(1))
    assert (tmp_path / "R.PARQUET").read_bytes()[:4] == b"PAR1"
    assert (tmp_path / "r.parquet.csv").read_text() == (tmp_path / "r").read_text()


def test_without_a_file_nothing_is_kept() -> None:
    with open_results(None, {"x"}) as file:
        file.write("x", PLAN, a_result(1))
        assert file.done == {}


def test_a_name_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(UnusableResults) as caught:
        open_results("a\0b.csv", ())
    assert re.search(r"b\.csv: cannot be written: (open: )?embedded null (byte|character in path)$", str(caught.value))


def test_a_disk_that_is_full_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    path = str(tmp_path / "r.csv")
    with open_results(path, ()) as file:
        monkeypatch.setattr(os, "fsync", full)
        with pytest.raises(UnusableResults) as caught:
            file.write("x", PLAN, a_result(1))
    assert str(caught.value) == f"{path}: cannot be written: No space left on device"


def test_each_row_is_on_the_disk_before_the_next_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_size))
    path = tmp_path / "r.csv"
    with open_results(str(path), ()) as file:
        for digest in "xy":
            file.write(digest, PLAN, a_result(1))
            assert synced[-1] == path.stat().st_size


def test_long_cells_are_read_and_the_limit_of_the_process_stays(tmp_path: Path) -> None:
    limit = csv.field_size_limit()
    long = RunResult(a_result(1).figures, pack({f"ns/{i * 7919 % 104729}-{i}": "n" for i in range(60_000)}), "d")
    assert len(long.placements) > limit
    with open_results(str(tmp_path / "r.csv"), ()) as file:
        file.write("x", PLAN, long)
    with open_results(str(tmp_path / "r.csv"), {"x"}) as file:
        assert file.done == {"x": long} and csv.field_size_limit() == limit


def test_a_system_without_locks_lets_two_sweeps_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results_file, "fcntl", None)
    path = str(tmp_path / "r.csv")
    with open_results(path, ()), open_results(path, ()) as file:
        file.write("x", PLAN, a_result(1))
    assert len(Path(path).read_text().splitlines()) == 2


def test_placements_that_are_torn_are_told_with_their_row(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    torn = RunResult(a_result(1).figures, a_result(1).placements[:-4], "digest")
    with open_results(str(path), ()) as file:
        file.write("x", PLAN, torn)
    with pytest.raises(UnusableResults) as caught:
        open_results(str(path), {"x"})
    advice = "remove the row, or choose another file"
    assert str(caught.value) == f"{path}: row 1: cannot be read: the placements are not complete; {advice}"
    with open_results(str(path), {"y"}) as file:
        assert file.done == {}, "a row that nobody wants is not looked at"


# ---- Parquet


def test_a_parquet_file_of_somebody_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    parquet.write_table(pyarrow.table({"pod": ["a"]}), path)
    before = path.read_bytes()
    for _ in range(2):
        with pytest.raises(UnusableResults) as caught:
            open_results(str(path), {"x"})
        assert str(caught.value) == f"{path}: is no results file of `mooring compare`: 'run'"
    path.write_bytes(b"no Parquet")
    with pytest.raises(UnusableResults, match=r"r\.parquet: is no results file of `mooring compare`: .*[Pp]arquet"):
        open_results(str(path), {"x"})
    path.write_bytes(before)
    assert path.read_bytes() == before


def test_a_parquet_file_keeps_earlier_rows_once_and_has_types(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    plain = RunPlan("plain", "own", configuration.default())
    for digest, plan in (("x", plain), ("y", PLAN)):
        with open_results(str(path), {"x", "y"}) as file:
            file.write(digest, plan, a_result(1))
    with open_results(str(path), ()):
        pass
    assert [each.name for each in tmp_path.iterdir()] == ["r.parquet"] and path.stat().st_mode & 0o777 == 0o600
    rows: list[dict[str, Any]] = parquet.read_table(path).to_pylist()
    assert [(row["run"], row["name"], row["seed"], row["load"]) for row in rows] == [
        ("x", "plain", None, 1.0),
        ("y", "a,b\\nc", 2**62, 1.0),
    ]
    kinds = {name: type(value) for name, value in rows[1].items() if value is not None}
    texts = {"run", "name", "config", "configDigest", "vary", "version", "placementsDigest", "figures", "placements"}
    assert {name for name, kind in kinds.items() if kind is str} == texts
    assert {name for name, kind in kinds.items() if kind is int} == {"seed"}
    assert kinds["placed"] is kinds["load"] is kinds["nodesUsed"] is float


def test_a_parquet_row_that_cannot_be_read_is_told_and_its_rows_are_free_again(tmp_path: Path) -> None:
    path = tmp_path / "r.parquet"
    torn = RunResult(a_result(1).figures, "!", "digest")
    with open_results(str(path), ()) as file:
        file.write("x", PLAN, torn)
    for _ in range(2):  # a file that were left open would be locked
        with pytest.raises(
            UnusableResults, match=r"r\.parquet.*: cannot be read: .*; remove the row, or choose another"
        ):
            open_results(str(path), {"x"})
