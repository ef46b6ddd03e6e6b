"""The form of every answer: a value with a summary, tables, and plain data for programs.

One description of the tables serves the terminal, notebooks and reports; data frames have tables of their own, with
numbers. The plain data is the published form of the answer (`published.py`).

The page of an answer has the summary first, then plots, then the tables, those with details last. It is complete in
itself: a content security policy forbids scripts, and everything that would come from elsewhere.

The answers of several clusters to one question stand side by side, with a column for the cluster in every table.
"""

import base64
import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, ClassVar

from mooring.answers.form.data_table import DataTable, data_table
from mooring.answers.form.plots import plot_html
from mooring.answers.form.published import Form, Published
from mooring.answers.form.report_parts import AnswerPlot, AnswerTable, safe, table_html, visible
from mooring.inputs.input_errors import InputError
from mooring.kit.words import count

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


# ---- The style of a report: light, dark where the reader prefers that, and plain on paper.


_LIGHT = """--page:#fff;--text:#1b1f24;--muted:#57606a;--line:#d0d7de;--band:#f4f6f8;
--c0:#0072b2;--c1:#b84700;--c2:#007a5a;--c3:#a0408a;--c4:#7a5c00;--c5:#555b61"""
_DARK = """--page:#10151a;--text:#e6e9ec;--muted:#a3adb8;--line:#38424d;--band:#182028;
--c0:#56b4e9;--c1:#ff9d5c;--c2:#3ddbb0;--c3:#e79fd3;--c4:#e6c34a;--c5:#c8ccd0"""
"""Colours after Okabe and Ito, whose colours the colour-blind can tell apart; a test knows their contrast to the page."""
_DASHES = ("none", "7 3", "2 3", "9 3 2 3", "4 4", "12 4")
"""Curves differ on paper without colours, too."""


def _series(number: int, dashes: str) -> str:
    line = f"svg .line.c{number}{{stroke:var(--c{number});stroke-dasharray:{dashes}}}"
    fill = f"svg .bar.c{number},svg .band.c{number}{{fill:var(--c{number})}}"
    return f"{line}\n{fill}"


STYLE = f"""
:root{{color-scheme:light dark;{_LIGHT}}}
@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}
body{{margin:0 auto;max-width:76rem;padding:1.5rem;background:var(--page);color:var(--text);
font:16px/1.5 system-ui,sans-serif;overflow-wrap:break-word}}
h1{{font-size:1.6rem;margin:0}}
h2{{font-size:1.2rem;margin:2rem 0 .5rem;border-bottom:1px solid var(--line)}}
a{{color:var(--c0)}}
code{{font-family:ui-monospace,monospace;font-size:.9em}}
.made,.more{{color:var(--muted);font-size:.875rem}}
.summary p{{margin:.25rem 0}}
.summary p:first-child{{font-size:1.15rem;font-weight:600}}
nav ul{{display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;padding:0;list-style:none}}
.plots{{display:grid;grid-template-columns:repeat(auto-fit,minmax(min(30rem,100%),1fr));gap:1.5rem}}
figure{{margin:0;break-inside:avoid}}
figcaption,caption{{font-weight:600;text-align:left;padding:.5rem 0;font-size:1rem}}
svg{{display:block;width:100%;max-width:44rem;height:auto;font:13px system-ui,sans-serif}}
svg text{{fill:var(--text)}}
svg .end{{text-anchor:end}}
svg .middle{{text-anchor:middle}}
svg .grid{{stroke:var(--line)}}
svg .axis{{stroke:var(--muted)}}
svg .line{{fill:none;stroke-width:2}}
svg .band{{fill-opacity:.18}}
{chr(10).join(_series(number, dashes) for number, dashes in enumerate(_DASHES))}
.scroll{{overflow-x:auto;margin:1rem 0}}
table{{border-collapse:collapse;font-size:.875rem;font-variant-numeric:tabular-nums}}
th,td{{padding:.25rem .75rem .25rem 0;text-align:left;vertical-align:top;min-width:3rem;max-width:48rem;
border-bottom:1px solid var(--line)}}
thead th{{color:var(--muted);white-space:nowrap}}
tbody th{{font-weight:400}}
tbody tr:nth-child(even){{background:var(--band)}}
.number{{text-align:right;white-space:nowrap}}
@media print{{
:root{{color-scheme:light;{_LIGHT}}}
body{{max-width:none;padding:0;font-size:10pt}}
nav{{display:none}}
.plots{{grid-template-columns:1fr 1fr}}
.scroll{{overflow:visible}}
table{{font-size:8pt}}
th,td{{overflow-wrap:anywhere;padding-right:.4rem;min-width:0}}
thead th,.number{{white-space:normal}}
thead{{display:table-header-group}}
tr{{break-inside:avoid}}
}}
"""


def style_hash() -> str:
    """The source of the style for a content security policy: no other style and no style attribute is applied."""
    return f"sha256-{base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()}"


MOST_ROWS = 1000
"""The longest table: what a browser shows at once, and what somebody may still print."""
WHERE_ALL = "-o json has all"


@dataclass(frozen=True, slots=True)
class ReportContent:
    """The content of the page."""

    heading: str
    summary: Sequence[str]
    tables: Sequence[AnswerTable]
    plots: Sequence[AnswerPlot] = ()
    notes: Sequence[str] = ()
    made: str = ""
    """When the report was made, and by what program."""
    command: str = ""
    """The command line that made it."""


def page_html(content: ReportContent) -> str:
    """The page as one document."""
    policy = f"default-src 'none'; style-src '{style_hash()}'; base-uri 'none'; form-action 'none'"
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="referrer" content="no-referrer">
<meta name="color-scheme" content="light dark">
<title>{safe(content.heading)}</title>
<style>{STYLE}</style>
</head>
<body>
{chr(10).join(_body(content))}
</body>
</html>
"""


def _body(content: ReportContent) -> Iterator[str]:
    main = [table for table in content.tables if table.rows and not table.is_detail]
    details = [table for table in content.tables if table.rows and table.is_detail]
    sections = [("plots", "Plots", content.plots), ("tables", "Tables", main), ("details", "Details", details)]
    yield from _header(content)
    yield "<main>"
    yield from _summary(content)
    yield from _contents([(name, title) for name, title, parts in sections if parts])
    for name, title, parts in sections:
        if parts:
            yield f'<section id="{name}" aria-labelledby="{name}-head"><h2 id="{name}-head">{title}</h2>'
            yield from _plots(content.plots) if name == "plots" else map(_table, main if name == "tables" else details)
            yield "</section>"
    yield "</main>"


def _header(content: ReportContent) -> Iterator[str]:
    made = f'<p class="made">{safe(content.made)}</p>' if content.made else ""
    command = f'<p class="made"><code>{safe(content.command, 4000)}</code></p>' if content.command else ""
    yield f"<header><h1>{safe(content.heading)}</h1>{made}{command}</header>"


def _summary(content: ReportContent) -> Iterator[str]:
    yield '<section class="summary" aria-label="Summary">'
    yield from (f"<p>{safe(line, 4000)}</p>" for line in content.summary)
    yield from (f'<p class="more">Note: {safe(note, 4000)}</p>' for note in content.notes)
    yield "</section>"


def _contents(sections: Sequence[tuple[str, str]]) -> Iterator[str]:
    if len(sections) > 1:
        links = "".join(f'<li><a href="#{name}">{title}</a></li>' for name, title in sections)
        yield f'<nav aria-label="Contents"><ul>{links}</ul></nav>'


def _plots(plots: Sequence[AnswerPlot]) -> Iterator[str]:
    yield '<div class="plots">'
    yield from (plot_html(plot, number) for number, plot in enumerate(plots, 1))
    yield "</div>"


def _table(table: AnswerTable) -> str:
    """The table in a region of its own: a wide one is scrolled, also with the keyboard."""
    shown = table_html(table, MOST_ROWS, WHERE_ALL)
    return f'<div class="scroll" tabindex="0" role="region" aria-label="{safe(table.title)}">\n{shown}\n</div>'


CLUSTER = "cluster"


class ClusterAnswerForm(Form, frozen=True):
    """A cluster and its answer, or why it has none."""

    cluster: str
    """The name of its context in the kubeconfig."""
    answer: dict[str, Any] | None = None
    """The answer in the form of the command for one cluster."""
    problem: str = ""
    """Why there is no answer: the cluster was not reached in time, or it has no object of the asked name."""


class SeveralAnswersForm(Form, frozen=True):
    """The answers of several clusters to one question, in the order in which they were named."""

    clusters: Sequence[ClusterAnswerForm]


@dataclass(frozen=True, slots=True)
class AnsweredCluster:
    """A cluster with its answer, or with the problem why there is none."""

    cluster: str
    found: ClusterAnswer | None = None
    problem: str = ""

    @property
    def answer(self) -> dict[str, Any] | None:
        return None if self.found is None else self.found.to_dict()


@dataclass(frozen=True, repr=False)
class SeveralAnswers(ClusterAnswer):
    """The answers of several clusters."""

    kind: ClassVar[str] = "ClusterAnswers"
    form: ClassVar = SeveralAnswersForm
    clusters: Sequence[AnsweredCluster]

    @property
    def exit_status(self) -> int:
        """1 if one of the clusters would give 1, or has no answer."""
        return max((1 if each.found is None else each.found.exit_status for each in self.clusters), default=0)

    @property
    def side_notes(self) -> list[str]:
        return [f"{each.cluster}: {note}" for each in self.clusters if each.found for note in each.found.side_notes]

    def summary(self) -> list[str]:
        silent = sum(each.found is None for each in self.clusters)
        without = f", {silent} without an answer" if silent else ""
        return [f"{count(len(self.clusters), 'cluster')}{without}"]

    def tables(self) -> list[AnswerTable]:
        rows = [
            (each.cluster, each.problem if each.found is None else next(iter(each.found.summary()), "-"))
            for each in self.clusters
        ]
        return [AnswerTable("Clusters", (CLUSTER, "answer"), rows), *_merged(self._tables("tables"))]

    def report_tables(self) -> list[AnswerTable]:
        return [self.tables()[0], *_merged(self._tables("report_tables"))]

    def _tables(self, which: str) -> Iterator[tuple[str, AnswerTable]]:
        for each in self.clusters:
            yield from ((each.cluster, table) for table in (getattr(each.found, which)() if each.found else ()))

    def data_tables(self) -> Mapping[str, DataTable]:
        answers = (
            (each.cluster, each.found.summary()[0] if each.found else None, each.problem) for each in self.clusters
        )
        merged: dict[str, list[tuple[str, DataTable]]] = {}
        for each in self.clusters:
            for name, table in each.found.data_tables().items() if each.found else ():
                merged.setdefault(name, []).append((each.cluster, table))
        clusters = data_table({CLUSTER: str, "answer": str, "problem": str}, answers)
        return {"clusters": clusters, **{name: _joined(tables) for name, tables in merged.items()}}


def _merged(tables: Iterable[tuple[str, AnswerTable]]) -> list[AnswerTable]:
    """One table for all of the same title. A column that a cluster does not have is empty for it."""
    by_title: dict[str, list[tuple[str, AnswerTable]]] = {}
    for cluster, table in tables:
        if table.rows:
            by_title.setdefault(table.title, []).append((cluster, table))
    return [_under(title, found) for title, found in by_title.items()]


def _under(title: str, found: Sequence[tuple[str, AnswerTable]]) -> AnswerTable:
    first = found[0][1]
    columns = [*dict.fromkeys(column for _, table in found for column in table.columns)]
    rows = [
        (cluster, *(cells.get(column, "-") for column in columns))
        for cluster, table in found
        for cells in (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    ]
    is_same = all(table.columns == first.columns for _, table in found)
    return AnswerTable(title, (CLUSTER, *columns), rows, first.is_detail, first.detail_columns if is_same else 0)


def _joined(found: Sequence[tuple[str, DataTable]]) -> DataTable:
    columns = {column: kind for _, table in found for column, kind in table.columns.items()}
    rows = (
        (cluster, *(cells.get(column) for column in columns))
        for cluster, table in found
        for cells in (dict(zip(table.columns, row, strict=True)) for row in table.rows)
    )
    return data_table({CLUSTER: str, **columns}, rows)
