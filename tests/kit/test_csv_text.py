"""CSV that spreadsheets do not run, and that programs read as it was."""

import csv
import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mooring.kit.shown_text import cell_text, csv_line

CELLS = [
    ("=1+1", "'=1+1"),
    ('=HYPERLINK("x")', '\'=HYPERLINK("x")'),
    ("+cmd|' /C calc'!A0", "'+cmd|' /C calc'!A0"),
    ("-2+3", "'-2+3"),
    ("@SUM(A1)", "'@SUM(A1)"),
    ("  =1", "'  =1"),
    ("\t=1", "\\t=1"),
    ("\r=1", "\\r=1"),
    ("-5", "-5"),
    ("+5", "+5"),
    (-0.25, "-0.25"),
    ("-1e-07", "-1e-07"),
    ("a=b", "a=b"),
    ("two\nlines", "two\\nlines"),
    ("\x1b[2J\u202e\ud800", "\\u001b[2J\\u202e\\ud800"),
]


@pytest.mark.parametrize(("value", "cell"), CELLS)
def test_a_cell_is_no_formula_and_one_line(value: object, cell: str) -> None:
    line = csv_line([value, "x"])
    assert line.endswith("\n") and "\n" not in line[:-1]
    assert [*csv.reader(io.StringIO(line))] == [[cell, "x"]]


@given(st.text(st.characters(min_codepoint=32, max_codepoint=126)) | st.text("'=+-@ 1e.", max_size=5))
def test_what_is_written_is_read_again(text: str) -> None:
    [[cell]] = csv.reader(io.StringIO(csv_line([text]))) if text else [[""]]
    assert cell_text(cell) == text
