"""Progress of long work on standard error: a bar on a terminal, a line now and then anywhere else."""

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from mooring.cli.terminal import tell

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

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
            share = 100 * done / total if total else 100.0
            tell(f"{self._what}: {share:.1f}% after {now_s - self._begin_s:.0f} s", err=True)

    def _draw(self, done: int, total: int) -> None:
        if self._bar is None:
            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._bar.add_task(self._what, total=total)
        self._bar.update(self._bar.task_ids[0], completed=done, total=total)
