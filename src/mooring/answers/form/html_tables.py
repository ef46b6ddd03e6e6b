"""Tables as HTML: a caption, heads with their scope, and a limited number of rows."""

import re
from collections.abc import Sequence

from mooring.answers.form.html_text import safe
from mooring.answers.form.report_parts import AnswerTable

MOST_COLUMNS = 60
"""A comparison of many runs has a column for each."""
_NUMBER = re.compile(r"-|[-+]?[\d,]+(\.\d+)?(%|ms|s|m\d+s|h\d+m)?( \([-+].*\))?")
"""What stands to the right in its column."""


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
