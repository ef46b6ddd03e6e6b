"""Lines of CSV that spreadsheets and programs read alike: no cell is a formula, no cell ends a line, and none hides anything.

A spreadsheet runs a cell that begins with `=`, `+`, `-` or `@`. Such a text gets an apostrophe in front, which spreadsheets
take for the mark of a text; `cell_text` takes it off again. Numbers stay numbers, also negative ones.
"""

import csv
import io
import re
from collections.abc import Iterable

from mooring.kit.shown_text import json_escape, replaced

_FORMULA = re.compile(r"'* *[=+\-@]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_QUOTED = re.compile(r"'+ *[=+\-@]")


def csv_line(cells: Iterable[object]) -> str:
    """The cells as one line of CSV, with its line end. Hidden characters are escaped as in JSON."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow([_cell(str(cell)) for cell in cells])
    return out.getvalue()


def cell_text(cell: str) -> str:
    """The text of a cell that `csv_line` wrote."""
    return cell[1:] if _QUOTED.match(cell) else cell


def _cell(text: str) -> str:
    shown = replaced(text, json_escape)
    return f"'{shown}" if _FORMULA.match(shown) and not _NUMBER.fullmatch(shown) else shown
