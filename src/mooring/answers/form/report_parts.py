"""The parts of answers, apart from sentences: tables, and series of numbers that can be drawn."""

import math
import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from html import escape

from mooring.kit.shown_text import replaced
from mooring.model.quantity import show_percent
from mooring.sim.results import show_seconds


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

    def without_zeros(self) -> "AnswerTable":
        """The table without columns in which each cell is zero or a dash. The first column says what the rows are about, and
        stays."""
        kept = [i for i in range(len(self.columns)) if not i or any(str(row[i]) not in _ZEROS for row in self.rows)]
        if len(kept) == len(self.columns):
            return self
        columns = tuple(self.columns[i] for i in kept)
        return AnswerTable(self.title, columns, [tuple(row[i] for i in kept) for row in self.rows], self.is_detail)


_ZEROS = {"0", "-", ""}


class Unit(Enum):
    """The unit of the numbers of a plot."""

    NUMBER = "number"
    SHARE = "share"
    """From 0 to 1, shown as percent."""
    SECONDS = "seconds"

    def shown(self, value: float | None) -> str:
        """The number for people; a dash for none."""
        if value is None or not math.isfinite(value):
            return "-"
        if self is Unit.SHARE:
            return show_percent(value)
        return show_seconds(value) if self is Unit.SECONDS else f"{value:,.4f}".rstrip("0").rstrip(".")


@dataclass(frozen=True, slots=True)
class CurvePlot:
    """Values over time. Each is the mean of a span, so curves are drawn as stairs."""

    title: str
    edges_s: Sequence[float]
    """When the spans begin, and when the last one ends: one more than there are values."""
    curves: Mapping[str, Sequence[float]]
    unit: Unit = Unit.NUMBER


@dataclass(frozen=True, slots=True)
class BarPlot:
    """Values side by side: for each label a bar of each name."""

    title: str
    labels: Sequence[str]
    bars: Mapping[str, Sequence[float | None]]
    unit: Unit = Unit.NUMBER


@dataclass(frozen=True, slots=True)
class BandPlot:
    """Means at some points, as lines with a band in which the true mean is likely to be."""

    title: str
    points: Sequence[float]
    point_title: str
    """The meaning of the points."""
    curves: Mapping[str, Sequence[tuple[float, float] | None]]
    """By name: a mean and half of the width of the band for each point; None where there are no values."""


AnswerPlot = CurvePlot | BarPlot | BandPlot

WAIT_LIMITS_S = {
    "10 ms": 0.01,
    "100 ms": 0.1,
    "1 s": 1.0,
    "10 s": 10.0,
    "1 min": 60.0,
    "10 min": 600.0,
    "1 h": 3600.0,
    "6 h": 6 * 3600.0,
}
"""Waiting times differ by many orders of magnitude, so each group is several times as long as the one before."""


def waits_plot(title: str, waited_s: Sequence[float]) -> BarPlot:
    """How many pods waited how long."""
    counts = wait_counts(waited_s) or [0]
    return BarPlot(title, wait_labels(len(counts)), {"pods": [float(count) for count in counts]})


def wait_counts(waited_s: Sequence[float]) -> list[int]:
    """Pods by group, up to the last group that has any."""
    limits_s = [*WAIT_LIMITS_S.values()]
    counts = Counter(bisect_left(limits_s, waited) for waited in waited_s)
    return [counts[i] for i in range(max(counts, default=-1) + 1)]


def wait_labels(groups: int) -> list[str]:
    """The names of the first groups."""
    names = [*WAIT_LIMITS_S]
    return [*(f"up to {name}" for name in names), f"more than {names[-1]}"][:groups]


# ---- Tables as HTML: a caption, heads with their scope, and a limited number of rows.


# ---- Text of users in a page: escaped, of limited length, and with nothing that a reader cannot see.
#
# Names of objects and labels may contain markup, characters that control terminals, and characters that reverse the
# direction of what follows: a reader must not take one name for another.


MOST_CHARACTERS = 500
"""The longest cell or sentence: a message may be megabytes long."""


def safe(text: object, most: int = MOST_CHARACTERS) -> str:
    """The text for the content of an element, or for an attribute in double quotes."""
    return escape(visible(cut(str(text), most)))


def visible(text: str) -> str:
    """The text with characters that have no shape of their own as their number: ⟨U+202E⟩."""
    return replaced(text, lambda letter: f"⟨U+{ord(letter):04X}⟩")


def cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


MOST_COLUMNS = 60
"""A comparison of many runs has a column for each."""
_NUMBER = re.compile(r"-|[-+]?[\d,]+(\.\d+)?(%|ms|s|m\d+s|h\d+m)?( \([-+].*\))?")
"""Cells that stand to the right in their column."""


def table_html(table: AnswerTable, most_rows: int, where_all: str) -> str:
    """The table; `where_all` says where readers find the rows that are left out."""
    columns, rows = table.columns[:MOST_COLUMNS], table.rows[:most_rows]
    kinds = [_kind([row[i] for row in rows]) for i in range(len(columns))]
    heads = "".join(f'<th scope="col"{kind}>{safe(column)}</th>' for column, kind in zip(columns, kinds, strict=True))
    body = "\n".join(_row_html(row, kinds) for row in rows)
    return (
        f"<table>\n<caption>{safe(table.title)}</caption>\n<thead><tr>{heads}</tr></thead>\n"
        f"<tbody>\n{body}\n</tbody>\n</table>{_left_out(table, most_rows, where_all)}"
    )


def _kind(cells: Sequence[object]) -> str:
    """The class of the cells of a column: numbers stand to the right."""
    is_number = cells and all(_NUMBER.fullmatch(str(cell)[:40]) for cell in cells)
    return ' class="number"' if is_number else ""


def _row_html(row: Sequence[object], kinds: Sequence[str]) -> str:
    """The first cell says what the row is about."""
    cells = [f'<th scope="row"{kind}>{safe(cell)}</th>' for cell, kind in zip(row[:1], kinds, strict=False)]
    cells += [f"<td{kind}>{safe(cell)}</td>" for cell, kind in zip(row[1:], kinds[1:], strict=False)]
    return f"<tr>{''.join(cells)}</tr>"


def _left_out(table: AnswerTable, most_rows: int, where_all: str) -> str:
    rows, columns = len(table.rows) - most_rows, len(table.columns) - MOST_COLUMNS
    told = [f"{number:,} more {what}" for number, what in ((rows, "rows"), (columns, "columns")) if number > 0]
    return f'<p class="more">... and {" and ".join(told)}: {safe(where_all)}</p>' if told else ""
