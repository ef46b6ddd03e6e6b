"""Databases that refuse statements, as those on a full disk do: `with full_databases() as opened: Journal(folder)`."""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

FULL = sqlite3.OperationalError("database or disk is full")


class FullDatabase:
    """A database that refuses statements as it is told to."""

    def __init__(self, real: sqlite3.Connection) -> None:
        self._real = real
        self.refuses: set[int] = set()
        """The numbers of the statements that fail, counted from 0; -1: all that write."""
        self.count = -1
        """The number of the last statement."""

    @property
    def in_transaction(self) -> bool:
        return self._real.in_transaction

    def execute(self, statement: str, *values: Any) -> Any:
        self.count += 1
        if self.count in self.refuses or (-1 in self.refuses and statement != "ROLLBACK"):
            raise FULL
        return self._real.execute(statement, *values)

    def executemany(self, statement: str, rows: Any) -> Any:
        return self._real.executemany(statement, rows)

    def close(self) -> None:
        self._real.close()


@contextmanager
def full_databases() -> Iterator[list[FullDatabase]]:
    """The databases that are opened for writing while this lasts. They refuse nothing until they are told to."""
    opened: list[FullDatabase] = []
    connect = sqlite3.connect

    def connected(path: Any, **options: Any) -> Any:
        real = connect(path, **options)
        if options.get("uri"):  # to read only
            return real
        opened.append(FullDatabase(real))
        return opened[-1]

    with mock.patch.object(sqlite3, "connect", connected):
        yield opened
