"""Tables as HTML: a caption, heads with their scope, and a limited number of rows."""

import re
from collections.abc import Sequence
from html import escape

from mooring.answers.form.report_parts import AnswerTable
from mooring.kit.shown_text import replaced

# ---- Text of users in a page: escaped, of limited length, and with nothing that a reader cannot see.
#
# Names of objects and labels may contain markup, characters that control terminals, and characters that reverse the
# direction of what follows: a reader must not take one name for another.


MOST_CHARACTERS = 500
"""Of one cell or sentence: a message may be megabytes long."""


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
