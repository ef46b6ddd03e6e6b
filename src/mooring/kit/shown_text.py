"""Text of others for readers: nothing in it controls a terminal, ends a line, hides, or changes the order of what is shown.

Names, messages and paths come from tenants, plugins and servers. A value is escaped where it enters a line, a table cell or a
log record, so that the line ends and styles of the program itself stay. This module has the rule of what is hidden; every
sink (terminal, logs, CSV, JSON, YAML, HTML, URLs) has one function that applies it, in the form that its readers know.
"""

import csv
import io
import json
import re
from collections.abc import Callable, Iterable
from typing import Any

import msgspec
import yaml

_ESCAPES = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}
_QUOTED = {"\\": r"\\", '"': r"\""}
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180d\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U00013441\U00013442\U0001d159"
    "\U000e0100-\U000e01ef]"
)
"""Characters that Unicode calls letters, marks or symbols, but that have no shape: fillers, joiners and variation selectors.
`str.isprintable` knows all other hidden ones: controls, formats (bidirectional, zero width, tags), separators, halves of
surrogate pairs, private use. web/src/text/visible.ts has the same set; tests/kit/hidden_characters.json lists it."""


def is_shown(text: str) -> bool:
    """Whether a reader sees every character of the text, on one line and in its order."""
    return text.isprintable() and (text.isascii() or not _BLANK.search(text))


def replaced(text: str, escape: Callable[[str], str]) -> str:
    """The text with every hidden character in the form that `escape` gives it."""
    return text if is_shown(text) else "".join(c if is_shown(c) else escape(c) for c in text)


def shown(text: str) -> str:
    r"""The text on one line, for terminals and plain text; hidden characters are escaped as in Go: `\n`, `\x1b`, `\u202e`."""
    return replaced(text, escaped)


def quoted(text: str) -> str:
    """The text in double quotes, as Go's strconv.Quote and %q write it."""
    if is_shown(text) and '"' not in text and "\\" not in text:
        return f'"{text}"'
    return '"' + "".join(_QUOTED.get(c) or shown(c) for c in text) + '"'


def escaped(letter: str) -> str:
    """A character as Go escapes it in a string."""
    if letter in _ESCAPES:
        return _ESCAPES[letter]
    code = ord(letter)
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def shown_json(text: str) -> str:
    """JSON text with the same meaning, in which hidden characters are escaped. Line ends between the tokens stay.

    JSON has to escape only the first 32 characters; others control terminals too (C1), end lines, or hide.
    """
    return "\n".join(replaced(line, json_escape) for line in text.split("\n"))


def json_escape(letter: str) -> str:
    """A character as JSON escapes it in a string."""
    return json.dumps(letter)[1:-1]


# ---- CSV that spreadsheets and programs read alike: no cell is a formula, ends a line, or hides anything
#
# A spreadsheet runs a cell that begins with `=`, `+`, `-` or `@`. Such a text gets an apostrophe in front, which
# spreadsheets take for the mark of a text; `cell_text` takes it off again. Numbers stay numbers, also negative ones.


_FORMULA = re.compile(r"'* *[=+\-@]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_QUOTED_FORMULA = re.compile(r"'+ *[=+\-@]")


def csv_line(cells: Iterable[object]) -> str:
    """The cells as one line of CSV, with its line end. Hidden characters are escaped as in JSON."""
    out = io.StringIO()
    csv.writer(out, lineterminator="\n").writerow([_cell(str(cell)) for cell in cells])
    return out.getvalue()


def cell_text(cell: str) -> str:
    """The text of a cell that `csv_line` wrote."""
    return cell[1:] if _QUOTED_FORMULA.match(cell) else cell


def _cell(text: str) -> str:
    shown = replaced(text, json_escape)
    return f"'{shown}" if _FORMULA.match(shown) and not _NUMBER.fullmatch(shown) else shown


# ---- documents as JSON and YAML, for readers at a terminal and for programs


def json_document(document: Any) -> str:
    """The document as indented JSON."""
    return shown_json(json.dumps(document, indent=2, ensure_ascii=False))


def yaml_document(document: Any, sort_keys: bool = False) -> str:
    """The document as YAML, with a line end."""
    text = yaml.dump(document, Dumper=_ShownDumper, sort_keys=sort_keys, allow_unicode=True)
    return "\n".join(replaced(line, escaped) for line in text.split("\n"))


class _ShownDumper(yaml.SafeDumper):
    """Writes text with hidden characters in double quotes, where YAML has the escapes of `escaped`."""


def _represented(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, None if is_shown(text) else '"')


_ShownDumper.add_representer(str, _represented)


# ---- text that is no proper Unicode: a plugin may say anything


_encode = msgspec.json.Encoder(enc_hook=str).encode


def json_bytes(document: Any) -> bytes:
    """The document as JSON without line ends. Half characters (lone surrogates) are escaped; unknown values are texts."""
    try:
        return _encode(document)
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(document, enc_hook=str), separators=(",", ":")).encode()


def whole_characters(text: str) -> str:
    """A text of HTTP in which U+FFFD stands for bytes that are no UTF-8. aiohttp has surrogates there, and text that has one
    cannot be encoded again."""
    return text.encode(errors="surrogateescape").decode(errors="replace")


# ---- URLs: passwords are written before the host, and tokens in the query


def shown_url(url: str) -> str:
    """The URL without user info, query and fragment.

    The text is cut, not parsed: a URL that is wrong must not show its password either.

    | url                          | shown              |
    | http://u:p@host:1/path?k=v#x | http://host:1/path |
    | u:p@host                     | host               |
    """
    head = url.partition("#")[0].partition("?")[0]
    scheme, separator, rest = head.partition("://")
    if not separator:
        return head.rpartition("@")[2]
    return f"{scheme.rpartition('@')[2]}{separator}{rest.rpartition('@')[2]}"
