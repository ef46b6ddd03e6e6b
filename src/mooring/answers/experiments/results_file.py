"""A file with a row for each run that is done, so that a sweep goes on where it was interrupted.

A row is written with one call as soon as its run is done, and the file is synced. If the process is killed meanwhile, the
last line may be torn: the next sweep drops it. `run` is a digest of everything that the result depends on: inputs,
configuration, seed, load and the version of Mooring; a run whose digest is there is not run again. The experiment says which
other columns there are (`RowForm`).

Parquet cannot be written row by row: rows go to FILE.rows.csv first, and become FILE when the sweep is done.
"""

import csv
import errno
import io
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from importlib import import_module
from typing import Any, Generic, Protocol, Self, TypeVar

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

from mooring.inputs.input_errors import InputError
from mooring.kit.bounded_reading import MIB, read_stream, shown_bytes
from mooring.kit.private_files import open_private
from mooring.kit.shown_text import cell_text, csv_line

RUN = "run"
"""The column with the digest of a run; the first one."""
_PARQUET = ".parquet"

MAX_ROWS = 1_000_000
"""More runs than a sweep of a year makes."""
MAX_BYTES = 4096 * MIB
"""For the rows of a file: 4 KiB for each of so many. A file beyond the limits is not read."""
_BATCH_ROWS = 100
"""Rows of a Parquet file that are expanded at once: one value of the file may stand for as many long texts."""


class UnusableResults(InputError):
    """A results file that cannot be used; the text says why."""


P = TypeVar("P")
R = TypeVar("R")


P_contra = TypeVar("P_contra", contravariant=True)


class RowForm(Protocol[P_contra, R]):
    """The rows of the results file of an experiment."""

    command: str
    """The command that writes such files, for messages."""
    columns: Sequence[str]
    """The first one is RUN."""
    numbers: Mapping[str, type[float] | type[int]]
    """The columns that are numbers in Parquet."""

    def row(self, digest: str, plan: P_contra, result: R, /) -> Mapping[str, Any]:
        """The row of a run. A value of None is an empty cell."""

    def kept(self, row: Mapping[str, Any], /) -> R | None:
        """The result in a row; None if the run is to be made again. Raises ValueError or TypeError for a row that cannot be
        used."""


class ResultsFile(Generic[P, R]):
    """The runs that are done already, and where rows go; this class keeps nothing. It is a context: leaving it without an
    exception means that the sweep is done."""

    done: dict[str, R]
    """By digest, of the runs that are wanted."""

    def __init__(self) -> None:
        self.done = {}

    def write(self, digest: str, plan: P, result: R) -> None:
        """Keep the result of a run."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Close what is open."""


def open_results(path: str | None, wanted: Collection[str], form: RowForm[P, R]) -> ResultsFile[P, R]:
    """The file with this name, which may be there already; `wanted` are digests of runs. Raises UnusableResults."""
    if path is None:
        return ResultsFile()
    kind = ParquetResults[P, R] if path.lower().endswith(_PARQUET) else CsvResults[P, R]
    return kind(path, wanted, form)


class CsvResults(ResultsFile[P, R]):
    """A CSV file with a header. Raises UnusableResults if it cannot be opened."""

    def __init__(self, path: str, wanted: Collection[str], form: RowForm[P, R]) -> None:
        super().__init__()
        self._path, self._wanted, self._form = path, wanted, form
        try:
            self._file = os.fdopen(open_private(path, os.O_APPEND), "a+b", buffering=0)
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            raise UnusableResults(f"{path}: cannot be written: {reason}") from error
        try:
            self._lock()
            self.done = self._read()
        except BaseException:
            self._file.close()
            raise

    def __exit__(self, *error: object) -> None:
        self._file.close()

    def write(self, digest: str, plan: P, result: R) -> None:
        self.append(self._form.row(digest, plan, result))

    def append(self, row: Mapping[str, Any]) -> None:
        """One call of the system for a row, so that nothing in this process can tear it. Raises UnusableResults."""
        line = _line(["" if row[name] is None else row[name] for name in self._form.columns])
        try:
            if self._file.write(line) < len(line):  # the disk became full within the line, which the next sweep drops
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            os.fsync(self._file.fileno())
        except OSError as error:
            raise UnusableResults(f"{self._path}: cannot be written: {error.strerror}") from error

    def rows(self) -> Iterator[dict[str, str]]:
        """The complete rows. Raises UnusableResults for a file with other columns."""
        text = self._content().decode("utf-8", "replace")
        limit = csv.field_size_limit(max(len(text), 1))
        try:
            for number, row in enumerate(csv.DictReader(io.StringIO(text, newline="")), 1):
                _check_size(self._path, number, len(text))
                yield {name: cell_text(cell or "") for name, cell in row.items() if name is not None}
        finally:
            csv.field_size_limit(limit)

    def _content(self) -> bytes:
        """All that is in the file. Raises UnusableResults."""
        self._file.seek(0)
        try:
            return read_stream(self._file, MAX_BYTES, self._path)
        except OSError as error:
            raise UnusableResults(f"{self._path}: cannot be read: {error.strerror}; choose another file") from error

    def _lock(self) -> None:
        """Two sweeps at once would take each other's rows for torn ones. Closing the file unlocks it."""
        if fcntl is None:
            return
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise UnusableResults(f"{self._path}: another process writes it; choose another file, or wait") from error

    def _read(self) -> dict[str, R]:
        """The runs that are done, after a torn last line is dropped; writes the header of a new file."""
        head = _line(self._form.columns)
        written = self._content()
        if not head.startswith(written[: len(head)]):
            told = f"has other columns than `{self._form.command}` writes; choose another file"
            raise UnusableResults(f"{self._path}: {told}")
        if len(written) < len(head):
            self._file.truncate(0)
            self._file.write(head)
            return {}
        self._file.truncate(written.rfind(b"\n") + 1)
        return self._kept()

    def _kept(self) -> dict[str, R]:
        """The runs that are done. Rows of runs that are to be made again leave the file."""
        numbered = ((f"{self._path}: row {i}", row) for i, row in enumerate(self.rows(), 1))
        wanted = [(row[RUN], _kept(self._form, row, where)) for where, row in numbered if row[RUN] in self._wanted]
        again = {digest for digest, result in wanted if result is None}
        if again:
            self._rewrite([row for row in self.rows() if row[RUN] not in again])
        return {digest: result for digest, result in wanted if result is not None and digest not in again}

    def _rewrite(self, rows: Sequence[Mapping[str, Any]]) -> None:
        """Replace the file by one with these rows at once: whenever the process is killed, one of the two is there."""
        part = f"{self._path}.part"
        before = self._file
        try:
            self._file = os.fdopen(open_private(part, os.O_APPEND), "a+b", buffering=0)
            self._lock()
            self._file.truncate(0)
            self._file.write(_line(self._form.columns))
            for row in rows:
                self.append(row)
            os.replace(part, self._path)
        except OSError as error:
            raise UnusableResults(f"{self._path}: cannot be written: {error.strerror}") from error
        finally:
            before.close()


class ParquetResults(CsvResults[P, R]):
    """A Parquet file, made of the CSV file when all is done. Needs pyarrow."""

    def __init__(self, path: str, wanted: Collection[str], form: RowForm[P, R]) -> None:
        try:
            self._arrow, self._parquet = import_module("pyarrow"), import_module("pyarrow.parquet")
        except ImportError as error:
            advice = "pip install pyarrow, or choose a file that ends in .csv"
            raise UnusableResults(f"{path}: Parquet needs pyarrow, which is not installed: {advice}") from error
        self._target = path
        super().__init__(f"{path}.rows.csv", wanted, form)
        self._take_over()

    def __exit__(self, *error: object) -> None:
        if error[0] is None:
            self._finish()
        super().__exit__(*error)
        if error[0] is None:
            os.unlink(self._path)

    def _take_over(self) -> None:
        """The rows of an earlier sweep that is complete."""
        if not os.path.exists(self._target):
            return
        try:
            rows = list(self._earlier_rows())
            there = {row[RUN] for row in self.rows()}
            for row in rows:
                wanted = row[RUN] in self._wanted
                result = _kept(self._form, row, self._target) if wanted else None
                if result is not None:
                    self.done[row[RUN]] = result
                if row[RUN] not in there and (result is not None or not wanted):
                    self.append(row)
        except (OSError, self._arrow.ArrowException, KeyError) as error:
            self._file.close()
            raise UnusableResults(f"{self._target}: is no results file of `{self._form.command}`: {error}") from error
        except UnusableResults:
            self._file.close()
            raise

    def _earlier_rows(self) -> Iterator[dict[str, Any]]:
        """The rows of the Parquet file. Raises UnusableResults for one beyond the limits, before it takes the memory."""
        with self._parquet.ParquetFile(self._target) as file:
            groups = [file.metadata.row_group(i) for i in range(file.metadata.num_row_groups)]
            _check_size(self._target, file.metadata.num_rows, sum(group.total_byte_size for group in groups))
            size = 0
            for batch in file.iter_batches(_BATCH_ROWS):
                size += batch.nbytes
                _check_size(self._target, file.metadata.num_rows, size)
                yield from batch.to_pylist()

    def _finish(self) -> None:
        """Write all rows under another name first, so that the file is always a whole one."""
        rows = [_typed(self._form, row) for row in self.rows()]
        part = f"{self._target}.part"
        os.close(open_private(part))
        self._parquet.write_table(self._arrow.Table.from_pylist(rows), part)
        os.replace(part, self._target)


# ---- rows


def _check_size(path: str, rows: int, size: int) -> None:
    """Raises UnusableResults for a file with more than the limits."""
    if rows > MAX_ROWS or size > MAX_BYTES:
        limits = f"{MAX_ROWS:,} rows or {shown_bytes(MAX_BYTES)}"
        raise UnusableResults(f"{path}: has more than {limits}, the limits for such a file; choose another file")


def _line(cells: Any) -> bytes:
    """A line of CSV, which has no other line end: a crash could leave one of two lines."""
    return csv_line(cells).encode()


def _kept(form: RowForm[Any, R], row: Mapping[str, Any], where: str) -> R | None:
    """The result of a row; None if its run is to be made again. Raises UnusableResults."""
    try:
        return form.kept(row)
    except (ValueError, TypeError) as error:
        raise UnusableResults(f"{where}: cannot be read: {error}; remove the row, or choose another file") from error


def _typed(form: RowForm[Any, Any], row: Mapping[str, str]) -> dict[str, Any]:
    """A row with numbers, for Parquet. An empty cell of a column of numbers is None."""
    numbers = form.numbers
    return {name: (numbers[name](cell) if cell else None) if name in numbers else cell for name, cell in row.items()}
