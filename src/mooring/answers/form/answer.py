"""The form of every answer: a value with a summary, tables, and plain data for programs.

One description of the tables serves the terminal, notebooks and reports; data frames have tables of their own, with numbers.
The plain data is the published form of the answer (`published.py`).
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any, ClassVar

from mooring.answers.form.data_table import DataTable
from mooring.answers.form.published import Published
from mooring.answers.form.report_page import ReportContent, page_html
from mooring.answers.form.report_parts import AnswerPlot, AnswerTable, table_html, visible
from mooring.inputs.input_errors import InputError

__all__ = ["API_VERSION", "AnswerPlot", "AnswerTable", "ClusterAnswer"]

API_VERSION = "answers.mooring.dev/v1"
"""The version of the plain data of all answers."""
ROWS_OF_HTML = 100
"""How many rows of a table a notebook shows."""


class ClusterAnswer(Published, ABC):
    """The answer to a question."""

    kind: ClassVar[str]
    """The name of the form of `to_dict`, such as `Explanation`."""
    yes_if: ClassVar[str] = ""
    """The attribute that says whether the answer is yes; empty for an answer that is neither yes nor no."""

    @property
    def exit_status(self) -> int:
        """The exit status of a command with this answer: 1 if the answer is no, for scripts."""
        return int(bool(self.yes_if) and not getattr(self, self.yes_if))

    @property
    def side_notes(self) -> Sequence[str]:
        """Sentences that a command prints beside the answer, on standard error."""
        return ()

    @abstractmethod
    def summary(self) -> list[str]:
        """The answer in a few sentences: the outcome first."""

    @abstractmethod
    def tables(self) -> list[AnswerTable]:
        """The details, the most important first."""

    def report_tables(self) -> list[AnswerTable]:
        """The tables of a report: also what the commands print in another form."""
        return self.tables()

    def plots(self) -> list[AnswerPlot]:
        """The plots of a report, the most important first."""
        return []

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain data, in the form that docs/schemas describes: what `-o json` prints."""
        return {"apiVersion": API_VERSION, "kind": self.kind, **self.content()}

    @abstractmethod
    def data_tables(self) -> Mapping[str, DataTable]:
        """The tables of `to_frame` by name; the first one is what the answer is about."""

    def to_frame(self, table: str | None = None) -> Any:
        """A table of numbers and names as a pandas DataFrame: the one with this name, or the first one that docs/answers.md
        lists for the answer. Units are in the names of columns. Raises InputError for a name that the answer does not have.
        Needs pandas."""
        tables = self.data_tables()
        if table is not None and table not in tables:
            raise InputError(f"to_frame: no table {table!r}; this answer has {', '.join(tables)}")
        return tables[next(iter(tables)) if table is None else table].frame()

    def __repr__(self) -> str:
        lines = self.summary()
        return f"<{self.kind}: {lines[0] if lines else 'nothing to say'}>"

    def to_html(self, *, notes: Sequence[str] = (), made: str = "", command: str = "") -> str:
        """A web page with the summary, plots and all tables: one document without scripts, for a browser or a printer."""
        heading = re.sub("(?<=[a-z])([A-Z])", lambda found: f" {found[1].lower()}", self.kind)
        content = ReportContent(heading, self.summary(), self.report_tables(), self.plots(), notes, made, command)
        return page_html(content)

    def _repr_html_(self) -> str:
        """For notebooks: the summary and the tables, cut."""
        parts = [f"<p>{escape(visible(line))}</p>" for line in self.summary()]
        shown = [table.brief() for table in self.tables() if table.rows and not table.is_detail]
        parts += [table_html(table, ROWS_OF_HTML, "tables() has all") for table in shown]
        return "\n".join(parts)
