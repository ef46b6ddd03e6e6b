"""Structured logs on top of the standard logging module: a message, keys with values, and a verbosity (klog's V).

V(0) is always shown; higher numbers are for debugging. Code writes to a `Log`. Loggers of the standard module write into
the same stream, so that libraries need no adapter.
"""

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal, TextIO, get_args

import msgspec

from mooring.kit.log_formats import JsonFormat, ObjectRef, TextFormat, verbosity_of

__all__ = ["FORMATS", "Log", "LogFormat", "Logs", "ObjectRef", "carrying", "check_format", "start_logs"]

LogFormat = Literal["text", "json"]
FORMATS: tuple[LogFormat, ...] = get_args(LogFormat)

_MAX_VERBOSITY = logging.INFO - 1
"""The lowest level is 1: in the standard module, level 0 means "use the parent's level"."""

_carried: ContextVar[Mapping[str, Any]] = ContextVar("mooring_log_keys")
_NO_KEYS: Mapping[str, Any] = {}


@contextmanager
def carrying(**keys: Any) -> Iterator[None]:
    """Add these keys to every line inside, also in tasks that start inside: `with carrying(pod=…, attempt=…)`.

    Lines of libraries get them too, so that a connection error names the pod that it delays.
    """
    token = _carried.set({**_carried.get(_NO_KEYS), **keys})
    try:
        yield
    finally:
        _carried.reset(token)


class Log(msgspec.Struct, frozen=True):
    """What one part of the program writes to. Deriving one with more keys is cheap, and so is a line that is not shown."""

    logger: logging.Logger
    keys: Mapping[str, Any] = msgspec.field(default_factory=dict)
    name: str = ""

    def with_keys(self, **keys: Any) -> "Log":
        return msgspec.structs.replace(self, keys={**self.keys, **keys})

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
            extra={"context_keys": self.keys, "call_keys": keys, "logger_name": self.name},
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
    handler.addFilter(_add_carried)
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


def _add_carried(record: logging.LogRecord) -> bool:
    carried = _carried.get(_NO_KEYS)
    if carried:
        vars(record)["context_keys"] = {**carried, **getattr(record, "context_keys", _NO_KEYS)}
    return True
