"""Text of others for readers: nothing in it controls a terminal, ends a line, hides, or changes the order of what is shown.

Names, messages and paths come from tenants, plugins and servers. A value is escaped where it enters a line, a table cell or a
log record, so that the line ends and styles of the program itself stay. This module has the rule of what is hidden; every
sink (terminal, logs, JSON, YAML, HTML) has one function that applies it, in the form that its readers know.
"""

import json
import re
from collections.abc import Callable

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
