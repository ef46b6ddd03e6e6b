"""The page of an answer: the summary first, then plots, then the tables, those with details last.

The file is complete in itself: a content security policy forbids scripts, and everything that would come from elsewhere.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mooring.answers.form.html_tables import table_html
from mooring.answers.form.html_text import safe
from mooring.answers.form.plots import plot_html
from mooring.answers.form.report_parts import AnswerPlot, AnswerTable
from mooring.answers.form.report_style import STYLE, style_hash

MOST_ROWS = 1000
"""Of a table: what a browser shows at once, and what somebody may still print."""
WHERE_ALL = "-o json has all"


@dataclass(frozen=True, slots=True)
class ReportContent:
    """What the page shows."""

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
