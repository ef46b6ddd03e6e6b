"""`--html FILE`: the answer of a command as a web page, for all commands that have it."""

import os
import shlex
import stat
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, NoReturn, TypeVar

import click

from mooring.answers.form.answer import ClusterAnswer
from mooring.api.validation.problem import Problem
from mooring.cli.refusal import refuse
from mooring.kit.private_files import write_private

F = TypeVar("F", bound=Callable[..., Any])

_HTML = click.option(
    "--html",
    metavar="FILE",
    help="Also write the answer as a web page: one file with tables and plots, without scripts.",
)


@dataclass(frozen=True, slots=True)
class ReportFile:
    """The file of a report, if there is to be one."""

    path: Path | None

    def write(self, answer: ClusterAnswer, notes: Sequence[str] = ()) -> None:
        """Write the file at once: readers see the old report or the new one. Refuses a file that cannot be written."""
        if self.path is None:
            return
        made = f"Made by mooring {version('mooring')} on {datetime.now(UTC):%Y-%m-%d at %H:%M} UTC"
        page = answer.to_html(notes=notes, made=made, command=_command())
        try:
            write_private(self.path, page.encode())
        except OSError as error:
            _refuse(self.path, error.strerror or str(error))


def writes_report(command: F) -> F:
    """The option --html of a command: it gets the file as an argument, `report`. A file that cannot be written is refused
    before the work begins."""

    def with_report(*, html: str | None, **rest: Any) -> Any:
        return command(report=ReportFile(None if html is None else _checked(html)), **rest)

    with_report.__doc__, with_report.__name__ = command.__doc__, command.__name__
    with_report.__click_params__ = getattr(command, "__click_params__", [])  # type: ignore[attr-defined]
    return _HTML(with_report)  # type: ignore[return-value]


def _checked(path: str) -> Path:
    """The file that will be replaced: the target of a symbolic link, not the link."""
    try:
        target = Path(path).resolve()
        if target.exists() and not stat.S_ISREG(target.stat().st_mode):
            _refuse(path, "it is not a file")
        handle, scratch = tempfile.mkstemp(dir=target.parent)
        os.close(handle)
        os.unlink(scratch)  # a command that is killed while it works leaves nothing behind
    except (OSError, ValueError) as error:
        _refuse(path, (error.strerror if isinstance(error, OSError) else None) or str(error))
    return target


def _refuse(path: str | Path, reason: str) -> NoReturn:
    refuse(Problem("", f"cannot be written: {reason}", file=str(path)))


def _command() -> str:
    """The command line, if this is the program and not a test or a notebook."""
    name = Path(sys.argv[0]).name if sys.argv else ""
    return shlex.join(["mooring", *sys.argv[1:]]) if name in ("mooring", "__main__.py") else ""
