"""How the command line refuses input: one line for each problem on standard error, and exit status 2. Never a traceback."""

import logging
import sys
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NoReturn

from mooring.cli.terminal import BAD_INPUT, tell, traceback_lines
from mooring.framework.contract import status
from mooring.framework.contract.status import describe
from mooring.inputs.input_errors import problem_line, problems_of


def refuse(*problems: object) -> NoReturn:
    """Print the problems, each on one line of limited length, and exit."""
    for problem in problems:
        tell(problem_line(problem), err=True)
    sys.exit(BAD_INPUT)


@contextmanager
def refusals(source: str = "configuration", plugin_files: Sequence[str] = ()) -> Iterator[None]:
    """Turn the errors of wrong input into refusals; `source` is the file of the configuration, for messages.

    Plugins of users may raise anything, so with `plugin_files` every exception is a refusal that names the line of the
    plugin. Without them, an unknown exception is a bug of Mooring and is raised.
    """
    try:
        yield
    except (Exception, SystemExit) as fault:
        if problems := problems_of(fault, source):
            refuse(*problems)
        line = _line_of(fault, plugin_files)
        if not line and isinstance(fault, SystemExit):
            raise  # the command ends, as it should
        describe(fault)  # logs the traceback
        if not line and not plugin_files:
            raise
        text = f"{type(fault).__name__}: {fault}" if str(fault) else type(fault).__name__
        refuse(f"{line or ', '.join(plugin_files) + ': cannot be used'}: {text}")


def refuse_file(path: object, fault: OSError | ValueError) -> NoReturn:
    """Refuse a file that cannot be written. A name with a NUL raises ValueError."""
    refuse(f"{path}: cannot be written: {getattr(fault, 'strerror', None) or fault}")


@contextmanager
def writing(path: object) -> Iterator[None]:
    """Refuse a file that the block cannot write."""
    try:
        yield
    except OSError as fault:
        refuse_file(path, fault)


class _TracebackTeller(logging.Handler):
    """Prints records with their tracebacks to standard error."""

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        tell(record.getMessage(), *(traceback_lines(error) if error is not None else ()), err=True)


@contextmanager
def tracebacks(shown: bool) -> Iterator[None]:
    """If `shown`, print the traceback of each exception of a plugin, once for each line that raises."""
    if not shown:
        yield
        return
    handler = _TracebackTeller()
    seen: set[tuple[object, ...]] = set()

    def is_new(record: logging.LogRecord) -> bool:
        frames = traceback.extract_tb(record.exc_info[2]) if record.exc_info else []
        place = (record.exc_info and record.exc_info[0], *((frame.filename, frame.lineno) for frame in frames[-1:]))
        was_seen = place in seen
        seen.add(place)
        return not was_seen

    handler.addFilter(is_new)
    status.log.addHandler(handler)
    status.log.setLevel(status.TRACEBACK_LEVEL)
    try:
        yield
    finally:
        status.log.removeHandler(handler)
        status.log.setLevel(logging.NOTSET)


def _line_of(fault: BaseException, plugin_files: Sequence[str]) -> str:
    """The innermost line of a plugin file in the traceback; empty if there is none."""
    frames = [f for f in traceback.extract_tb(fault.__traceback__) if f.filename in plugin_files]
    return f"{frames[-1].filename}, line {frames[-1].lineno}" if frames else ""
