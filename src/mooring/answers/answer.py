"""The form of every answer: a value with a summary, tables, and plain data for programs.

One description of the tables serves the terminal, notebooks and data frames. The plain data is a public interface with a
version (docs/schemas): fields may be added, but not renamed or removed.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from importlib import import_module
from typing import Any, ClassVar

API_VERSION = "answers.mooring.dev/v1"
"""The version of the plain data of all answers."""
ROWS_OF_HTML = 100
"""How many rows of a table a notebook shows."""


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """Rows under named columns."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[object, ...]] = field(repr=False)
    is_detail: bool = False
    """Whether it is shown only on request (`-o wide`)."""
    detail_columns: int = 0
    """How many of the last columns are shown only on request."""

    def brief(self) -> "AnswerTable":
        """The table without the columns that are shown only on request."""
        if not self.detail_columns:
            return self
        shown = len(self.columns) - self.detail_columns
        return AnswerTable(self.title, self.columns[:shown], [row[:shown] for row in self.rows], self.is_detail)


class ClusterAnswer(ABC):
    """What a question returns."""

    kind: ClassVar[str]
    """The name of the form of `to_dict`, such as `Explanation`."""

    @abstractmethod
    def summary(self) -> list[str]:
        """The answer in a few sentences: the outcome first."""

    @abstractmethod
    def tables(self) -> list[AnswerTable]:
        """The details, the most important first."""

    @abstractmethod
    def content(self) -> dict[str, Any]:
        """The answer as plain data, without the header."""

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain data, in the form that docs/schemas describes: what `-o json` prints."""
        return {"apiVersion": API_VERSION, "kind": self.kind, **self.content()}

    def to_frame(self, table: int | str = 0) -> Any:
        """A table as a pandas DataFrame: the first one, or the one with this number or title. Needs pandas."""
        tables = self.tables()
        chosen = tables[table] if isinstance(table, int) else next(each for each in tables if each.title == table)
        return import_module("pandas").DataFrame(list(chosen.rows), columns=list(chosen.columns))

    def __repr__(self) -> str:
        lines = self.summary()
        return f"<{self.kind}: {lines[0] if lines else 'nothing to say'}>"

    def _repr_html_(self) -> str:
        """For notebooks: the summary and the tables, cut."""
        parts = [f"<p>{escape(line)}</p>" for line in self.summary()]
        parts += [_table_html(table.brief()) for table in self.tables() if table.rows and not table.is_detail]
        return "\n".join(parts)


def _table_html(table: AnswerTable) -> str:
    heads = "".join(f"<th>{escape(column)}</th>" for column in table.columns)
    rows = "\n".join(_row_html(row) for row in table.rows[:ROWS_OF_HTML])
    left_out = len(table.rows) - ROWS_OF_HTML
    more = f"<p>... and {left_out} more rows: to_frame({table.title!r}) has all</p>" if left_out > 0 else ""
    return f"<table><caption>{escape(table.title)}</caption><tr>{heads}</tr>\n{rows}</table>{more}"


def _row_html(row: tuple[object, ...]) -> str:
    return f"<tr>{''.join(f'<td>{escape(str(cell))}</td>' for cell in row)}</tr>"
