"""The page of an answer: the summary first, then plots, then the tables, those with details last.

The file is complete in itself: a content security policy forbids scripts, and everything that would come from elsewhere.
"""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from mooring.answers.form.plots import plot_html
from mooring.answers.form.report_parts import AnswerPlot, AnswerTable, safe, table_html

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
