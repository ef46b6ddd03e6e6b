"""Where the command line writes. All text, JSON and YAML of commands goes through here, to a terminal, a file or a pipe.

Callers hand over lines: what would end a line, control the terminal or hide is escaped (`kit/shown_text.py`). So a name that
a tenant chose forges no line, and a table stays a table. Output that cannot be written ends the program: quietly if its
reader is gone (`| head`), else with one line on standard error.
"""

import os
import re
import shutil
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, Self, TextIO

import click

from mooring.kit.shown_text import shown, shown_json
from mooring.model.quantity import show_percent

if TYPE_CHECKING:
    from rich.progress import Progress

BAD_INPUT = 2
"""The exit status for input that cannot be used, and for output that cannot be written."""
READER_GONE = 141
"""The exit status if nobody reads standard output any more: that of a program which SIGPIPE ends (128 + 13)."""

Block = Sequence[str]
"""Lines that belong together, such as a table with its title."""


# ---- Emphasis, where a terminal shows it.

COLOR = "mooring.color"
"""Where the context of a command keeps the value of --color."""
_CODES = {"bold": "1", "dim": "2", "red": "1;31"}


class StyledLine(str):
    """A line with a style: `bold`, `dim` or `red`, which is bold as well."""

    style: str

    def __new__(cls, text: str, style: str) -> Self:
        line = super().__new__(cls, text)
        line.style = style
        return line


def shows_colors() -> bool:
    """Whether standard output gets colours: what --color says, or else whether it is a terminal and NO_COLOR is not set."""
    context = click.get_current_context(silent=True)
    choice = context.meta.get(COLOR, "auto") if context is not None else "auto"
    if choice != "auto":
        return bool(choice == "always")
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def columns_of_terminal() -> int | None:
    """The width of the terminal that shows standard output; None if none does."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def _painted(line: object, has_colors: bool) -> str:
    """The line, escaped. Its style comes from the program, and is added afterwards."""
    text = shown(str(line))
    if not has_colors or not isinstance(line, StyledLine) or not text:
        return text
    return f"\x1b[{_CODES[line.style]}m{text}\x1b[0m"


def tell(*lines: object, err: bool = False, nl: bool = True) -> None:
    """Write lines to standard output, or to standard error with `err`."""
    has_colors = not err and any(isinstance(line, StyledLine) for line in lines) and shows_colors()
    _write("\n".join(_painted(line, has_colors) for line in lines), err, nl, color=has_colors)


def tell_blocks(blocks: Iterable[Block]) -> None:
    """Write blocks to standard output, with an empty line between them."""
    tell(*spaced(blocks))


def spaced(blocks: Iterable[Block]) -> list[str]:
    """The lines of the blocks, with an empty line between blocks."""
    lines: list[str] = []
    for block in blocks:
        lines += ["", *block] if lines else block
    return lines


def tell_json(document: Any) -> None:
    """Write a document to standard output as indented JSON."""
    from mooring.kit.shown_text import json_document

    _write(json_document(document))


def tell_yaml(document: Any, sort_keys: bool = False) -> None:
    """Write a document to standard output as YAML."""
    from mooring.kit.shown_text import yaml_document  # Hot: YAML takes 40 ms to import

    _write(yaml_document(document, sort_keys), nl=False)


def tell_json_text(text: bytes) -> None:
    """Write JSON to standard output that is already text; it keeps its meaning and its line ends."""
    _write(shown_json(text.decode(errors="replace")), nl=not text.endswith(b"\n"))


def tell_script(text: str) -> None:
    """Write a text of the program itself to standard output as it is."""
    _write(text, nl=False)


def traceback_lines(error: BaseException) -> Iterator[str]:
    """The traceback of an exception. Its message is one line, whatever it has."""
    for part in traceback.format_exception(error):
        text = part.strip("\n")
        yield from map(shown, text.split("\n")) if text.startswith('  File "') else [shown(text)]


def tell_uncaught(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """As `sys.excepthook`, for a bug of Mooring: its message may have text of others."""
    tell(*traceback_lines(error), err=True)


# ---- output that cannot be written


def _write(text: str, err: bool = False, nl: bool = True, color: bool = False) -> None:
    try:
        click.echo(text, err=err, nl=nl, color=color or None)
    except OSError as fault:
        if not err:
            _end(fault)
        _discard(sys.stderr)  # there is no other place to report it, and the answer is on standard output


@contextmanager
def guarded_output() -> Iterator[None]:
    """A context in which click writes by itself: help, versions and errors of usage."""
    try:
        yield
    except click.ClickException as fault:
        # click declares it final, and writes it as it is. Its own line ends and tabs stay: it lists choices with them.
        fault.message = re.sub(r"[^\n\t]+", lambda part: shown(part[0]), fault.message)  # type: ignore[misc]
        raise
    except OSError as fault:
        if traceback.extract_tb(fault.__traceback__)[-1].name == click.echo.__name__:
            _end(fault)
        raise


def open_closed_streams() -> None:
    """Open standard streams that the caller has closed (`>&-`): input is empty, output cannot be written, errors go nowhere.

    Without this, the next file that the program opens would become standard output.
    """
    for name, mode, access in (("stdin", "r", os.O_RDONLY), ("stdout", "w", os.O_RDONLY), ("stderr", "w", os.O_WRONLY)):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, access), mode))


def _discard(stream: TextIO) -> None:
    """Send what is still to be written nowhere: at its end, Python would try again and complain."""
    with suppress(OSError, ValueError):  # a stream of a test has no file
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def _end(fault: OSError) -> NoReturn:
    """End the program after a write to standard output that failed."""
    _discard(sys.stdout)
    if isinstance(fault, BrokenPipeError):
        sys.exit(READER_GONE)
    tell(f"standard output: cannot be written: {fault.strerror or fault}", err=True)
    sys.exit(BAD_INPUT)


# ---- Progress of long work on standard error: a bar on a terminal, a line now and then anywhere else.


PATIENCE_S = 1.0
"""Most simulations are faster than this and show no bar."""
REFRESH_S = 0.1
"""How often the bar is drawn at most."""
LINES_S = 10.0
"""How often a line is written where no terminal shows a bar: rarely enough for a log, often enough to see that it works."""


class LateBar:
    """A progress bar that appears after PATIENCE_S on a terminal; elsewhere a line each LINES_S. Call it with (done, total).

    Hot: it is called for each event of a simulation, so most calls only look at the clock.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._bar: Progress | None = None
        self._watched = sys.stderr.isatty()
        self._begin_s = time.monotonic()
        self._next_s = self._begin_s + (PATIENCE_S if self._watched else LINES_S)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *fault: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        now_s = time.monotonic()
        if now_s < self._next_s:
            return
        self._next_s = now_s + (REFRESH_S if self._watched else LINES_S)
        if self._watched:
            self._draw(done, total)
        else:
            share = show_percent(done / total if total else 1.0)
            taken_s = now_s - self._begin_s
            left = f", about {taken_s * (total - done) / done:.0f} s left" if 0 < done < total else ""
            tell(f"{self._what}: {share} after {taken_s:.0f} s{left}", err=True)

    def _draw(self, done: int, total: int) -> None:
        if self._bar is None:
            # Hot: a twentieth of the time in which a command is imported, and few commands draw a bar.
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._bar.add_task(self._what, total=total)
        self._bar.update(self._bar.task_ids[0], completed=done, total=total)
