"""The two formats of a log line: klog's text, and JSON. Both are those of kube-scheduler, because operators grep and
parse them.

Values come from outside (names, error texts of servers), so that every format escapes what could forge a line or control
a terminal, and replaces what looks like a credential.
"""

import json
import logging
import re
import traceback
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from mooring.kit.json_text import json_bytes
from mooring.kit.shown_text import quoted, shown, shown_json

Keys = Mapping[str, Any]

HIDDEN = "--- HIDDEN ---"
"""What the log shows instead of a credential."""
_SECRET_KEY = re.compile(r"token|password|passwd|secret|authorization|credential|private.?key", re.IGNORECASE)
_SECRET_TEXT = re.compile(
    r"(?i)\bauthorization['\"]?\s*[:=]\s*['\"]?\S+(?:[ \t]+[^\s'\"]+)?"
    r"|\b(?:bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}|-----BEGIN [A-Z ]*PRIVATE KEY-----.*",
    re.DOTALL,
)

_LETTERS = ((logging.CRITICAL, "F"), (logging.ERROR, "E"), (logging.WARNING, "W"))
_PLAIN = (bool, int, float, type(None))


class ObjectRef(msgspec.Struct, frozen=True):
    """An object by its name: `ns/name` in text, two fields in JSON (klog.KRef)."""

    name: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    def fields(self) -> dict[str, str]:
        return {"name": self.name, "namespace": self.namespace} if self.namespace else {"name": self.name}


def verbosity_of(level: int) -> int:
    """V(n) is the standard level INFO - n, so that DEBUG lines of libraries count as V(10)."""
    return max(0, logging.INFO - level)


class TextFormat(logging.Formatter):
    """`I1115 07:17:46.000123    4711 bind.py:42] "Successfully bound pod to node" pod="default/web" node="n1"`."""

    def __init__(self, pid: int) -> None:
        super().__init__()
        self._pid = pid

    def format(self, record: logging.LogRecord) -> str:
        moment = datetime.fromtimestamp(record.created)
        place = shown(f"{record.filename}:{max(record.lineno, 0)}")  # the file of a plugin may have any name
        header = f"{_letter(record.levelno)}{moment:%m%d %H:%M:%S.%f} {self._pid:>7} {place}] "
        values = _without_doubles(_named(record), _context_keys(record), _error_keys(record), _call_keys(record))
        return (
            header
            + quoted(_free_of_secrets(record.getMessage()))
            + "".join(f" {key}{_text_value(value)}" for key, value in values.items())
        )


class JsonFormat(logging.Formatter):
    """`{"ts":1794725323569.8752,"caller":"scheduler/bind.py:42","msg":"…","v":2,"pod":{"name":…}}`; errors have no `v`."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {"ts": record.created * 1000, **_named(record), "caller": _caller(record)}
        line["msg"] = _free_of_secrets(record.getMessage())
        is_error = record.levelno >= logging.ERROR
        verbosity = {} if is_error else {"v": verbosity_of(record.levelno)}
        values = _without_doubles(_context_keys(record), verbosity, _error_keys(record), _call_keys(record))
        line |= {key: _json_value(value) for key, value in values.items() if key not in line}
        return shown_json(json_bytes(line).decode())


def one_line(text: str) -> str:
    """Text of errors for a terminal or a plain log, on one line and without what looks like a credential."""
    return shown(_free_of_secrets(text))


def _letter(level: int) -> str:
    return next((letter for least, letter in _LETTERS if level >= least), "I")


def _caller(record: logging.LogRecord) -> str:
    return f"{'/'.join(record.pathname.replace(chr(92), '/').split('/')[-2:])}:{max(record.lineno, 0)}"


# ---- the keys of a line, in the order of klog: logger name, context, error, call


def _named(record: logging.LogRecord) -> Keys:
    name = getattr(record, "logger_name", "")
    return {"logger": name} if name else {}


def _context_keys(record: logging.LogRecord) -> Keys:
    keys: Keys = getattr(record, "context_keys", {})
    return keys


def _call_keys(record: logging.LogRecord) -> Keys:
    keys: Keys = getattr(record, "call_keys", {})
    return keys


def _error_keys(record: logging.LogRecord) -> Keys:
    """An exception as `err`. One that a library logged has its traceback too; `Log.error` is for expected errors."""
    if not record.exc_info or record.exc_info[1] is None:
        return {}
    error = record.exc_info[1]
    keys = {"err": str(error) or type(error).__name__}
    if error.__traceback__ is not None and not hasattr(record, "call_keys"):
        keys["stacktrace"] = "".join(traceback.format_exception(error))
    return keys


def _without_doubles(*groups: Keys) -> dict[str, Any]:
    """Parity: the last value of a key wins; if it is the same as before, the key keeps its earlier place."""
    found: dict[str, Any] = {}
    for group in groups:
        for key, value in group.items():
            if key in found and found[key] != value:
                del found[key]
            found[key] = HIDDEN if _SECRET_KEY.search(key) and value else value
    return found


def _free_of_secrets(text: str) -> str:
    """Replace what looks like a credential. Callers must not log secrets; this is the second line of defence."""
    return _SECRET_TEXT.sub(HIDDEN, text)


# ---- values


def _text_value(value: Any) -> str:
    if isinstance(value, _PLAIN) or (isinstance(value, Iterable) and not isinstance(value, (str, bytes))):
        return f"={_plain_json(value)}"
    text = _free_of_secrets(_told(value))
    return _in_lines(text) if "\n" in text else f"={quoted(text)}"


def _in_lines(text: str) -> str:
    """klog's form of a value of several lines. A tab indents each line and a space the end, so that no line of the value
    can look like its end."""
    return "=<\n" + "".join(f"\t{_visible(line)}\n" for line in text.removesuffix("\n").split("\n")) + " >"


def _visible(line: str) -> str:
    """A line with everything escaped that controls terminals. Tabs stay: they only indent."""
    return "\t".join(map(shown, line.split("\t")))


def _plain_json(value: Any) -> str:
    try:
        text = json.dumps(_json_value(value), ensure_ascii=False, separators=(",", ":"), default=_told)
        return shown_json(_free_of_secrets(text))
    except (TypeError, ValueError) as error:
        return quoted(f"<internal error: {error}>")


def _json_value(value: Any) -> Any:
    if isinstance(value, _PLAIN):
        return value
    if isinstance(value, ObjectRef):
        return value.fields()
    if isinstance(value, Mapping):
        return {str(key): HIDDEN if _SECRET_KEY.search(str(key)) else _json_value(item) for key, item in value.items()}
    if isinstance(value, (set, frozenset)):
        return [_json_value(item) for item in sorted(value, key=str)]
    if isinstance(value, Iterable) and not isinstance(value, (str, bytes)):
        return [_json_value(item) for item in value]
    return _free_of_secrets(_told(value))


def _told(value: Any) -> str:
    """A value as text. Logging must not fail, even if the value's `__str__` raises."""
    try:
        return value.decode(errors="backslashreplace") if isinstance(value, bytes) else str(value)
    except Exception as error:
        return f"<panic: {type(error).__name__}>"
