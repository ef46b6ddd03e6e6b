"""Structured logs on top of the standard logging module: a message, keys with values, and a verbosity (klog's V).

V(0) is always shown; higher numbers are for debugging. Code writes to a `Log`. Loggers of the standard module write into
the same stream, so that libraries need no adapter.
"""

import json
import logging
import os
import re
import sys
import traceback
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, TextIO, get_args

import msgspec

from mooring.kit.shown_text import json_bytes, quoted, shown, shown_json

# ---- The two formats of a log line: klog's text, and JSON. Both are those of kube-scheduler, because operators grep
# and parse them.
#
# Values come from outside (names, error texts of servers), so that every format escapes what could forge a line or
# control a terminal, and replaces what looks like a credential.


Keys = Mapping[str, Any]

HIDDEN = "--- HIDDEN ---"
"""The text that the log shows instead of a credential."""
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
        """Format a record like klog: level letter, time, process, place in the source, quoted message, and key="value" pairs.
        Secrets are hidden."""
        moment = datetime.fromtimestamp(record.created)
        place = shown(f"{record.filename}:{max(record.lineno, 0)}")  # the file of a plugin may have any name
        letter = next((letter for least, letter in _LETTERS if record.levelno >= least), "I")
        header = f"{letter}{moment:%m%d %H:%M:%S.%f} {self._pid:>7} {place}] "
        values = _without_doubles(_named(record), _error_keys(record), _keys(record))
        return (
            header
            + quoted(_free_of_secrets(record.getMessage()))
            + "".join(f" {key}{_text_value(value)}" for key, value in values.items())
        )


class JsonFormat(logging.Formatter):
    """`{"ts":1794725323569.8752,"caller":"scheduler/bind.py:42","msg":"…","v":2,"pod":{"name":…}}`; errors have no `v`."""

    def format(self, record: logging.LogRecord) -> str:
        """Format a record as one JSON object, with the field names of component-base: `ts` in milliseconds, `caller`, `msg`,
        and `v` for messages below errors. Secrets are hidden."""
        line: dict[str, Any] = {"ts": record.created * 1000, **_named(record), "caller": _caller(record)}
        line["msg"] = _free_of_secrets(record.getMessage())
        is_error = record.levelno >= logging.ERROR
        verbosity = {} if is_error else {"v": verbosity_of(record.levelno)}
        values = _without_doubles(verbosity, _error_keys(record), _keys(record))
        line |= {key: _json_value(value) for key, value in values.items() if key not in line}
        return shown_json(json_bytes(line).decode())


def one_line(text: str) -> str:
    """Text of errors for a terminal or a plain log, on one line and without what looks like a credential."""
    return shown(_free_of_secrets(text))


def _caller(record: logging.LogRecord) -> str:
    return f"{'/'.join(record.pathname.replace(chr(92), '/').split('/')[-2:])}:{max(record.lineno, 0)}"


# ---- the keys of a line, in the order of klog: logger name, context, error, call


def _named(record: logging.LogRecord) -> Keys:
    name = getattr(record, "logger_name", "")
    return {"logger": name} if name else {}


def _keys(record: logging.LogRecord) -> Keys:
    """The keys of the call. Lines of libraries have none."""
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
    """Convert a value of a log record to JSON. Values under keys that look secret are hidden, and sets are sorted."""
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


__all__ = ["FORMATS", "Log", "LogFormat", "Logs", "ObjectRef", "check_format", "start_logs"]

LogFormat = Literal["text", "json"]
FORMATS: tuple[LogFormat, ...] = get_args(LogFormat)

_MAX_VERBOSITY = logging.INFO - 1
"""The lowest level is 1: in the standard module, level 0 means "use the parent's level"."""


class Log(msgspec.Struct, frozen=True):
    """The log of one part of the program. A line that is not shown is cheap."""

    logger: logging.Logger
    name: str = ""

    def named(self, name: str) -> "Log":
        """Names are joined by dots, as in `PreBind.VolumeBinding`."""
        return msgspec.structs.replace(self, name=f"{self.name}.{name}" if self.name else name)

    def shows(self, verbosity: int) -> bool:
        """Whether V(n) is on. Ask before computing values that only a log line needs."""
        return self.logger.isEnabledFor(_level(verbosity))

    def info(self, message: str, /, **keys: Any) -> None:
        self._write(logging.INFO, message, None, keys)

    def v(self, verbosity: int, message: str, /, **keys: Any) -> None:
        """Write a line that is shown at this verbosity and above."""
        level = _level(verbosity)
        if self.logger.isEnabledFor(level):
            self._write(level, message, None, keys)

    def warning(self, message: str, /, **keys: Any) -> None:
        self._write(logging.WARNING, message, None, keys)

    def error(self, message: str, error: BaseException | None = None, /, **keys: Any) -> None:
        self._write(logging.ERROR, message, error, keys)

    def _write(self, level: int, message: str, error: BaseException | None, keys: Mapping[str, Any]) -> None:
        self.logger.log(
            level,
            "%s",
            message,
            exc_info=error,
            stacklevel=3,
            extra={"call_keys": keys, "logger_name": self.name},
        )


class Logs:
    """A started log: its stream, and the verbosity, which can change while the program runs."""

    def __init__(self, logger: logging.Logger, handler: logging.Handler) -> None:
        self._logger = logger
        self._handler = handler

    @property
    def log(self) -> Log:
        return Log(self._logger)

    @property
    def verbosity(self) -> int:
        return verbosity_of(self._logger.level)

    def set_verbosity(self, verbosity: int) -> None:
        """`/debug/flags/v` calls this in a running scheduler."""
        if verbosity < 0:
            raise ValueError(f"verbosity must not be negative: {verbosity}")
        self._logger.setLevel(_level(verbosity))

    def close(self) -> None:
        self._logger.removeHandler(self._handler)
        self._handler.close()


def check_format(written: str) -> LogFormat:
    """The value of `--logging-format`, checked. Raises ValueError for an unknown format."""
    for known in FORMATS:
        if written == known:
            return known
    raise ValueError(f'--logging-format: unsupported log format "{written}"; there are: {", ".join(FORMATS)}')


def start_logs(
    logger: logging.Logger,
    log_format: LogFormat = "text",
    verbosity: int = 0,
    stream: TextIO | None = None,
    pid: int | None = None,
) -> Logs:
    """Send the lines of a logger and of its children to a stream, by default stderr.

    The caller passes the logger (`logging.getLogger("mooring")`). Its lines do not propagate to parents, which would
    write them a second time.
    """
    handler = _Stream(stream or sys.stderr)
    handler.setFormatter(JsonFormat() if log_format == "json" else TextFormat(os.getpid() if pid is None else pid))
    logger.addHandler(handler)
    logger.propagate = False
    logs = Logs(logger, handler)
    logs.set_verbosity(verbosity)
    return logs


class _Stream(logging.StreamHandler[TextIO]):
    """A handler that drops lines that it cannot write."""

    def handleError(self, record: logging.LogRecord) -> None:
        """A closed pipe or a full disk must not stop the scheduler, and there is no other place to report it."""


def _level(verbosity: int) -> int:
    return logging.INFO - min(verbosity, _MAX_VERBOSITY)
