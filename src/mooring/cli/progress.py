"""A progress bar for what takes longer than a second, on standard error and only where someone watches."""

import sys
import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

PATIENCE_S = 1.0


class LateBar:
    """Call it with (done, total); the bar appears when a second has passed and the end is not reached."""

    def __init__(self, what: str) -> None:
        self._what = what
        self._begin = time.monotonic()
        self._bar: Progress | None = None
        self._watched = sys.stderr.isatty()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None:
            if not self._watched or time.monotonic() - self._begin < PATIENCE_S:
                return
            columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._bar.start()
            self._bar.add_task(self._what, total=total)
        self._bar.update(self._bar.task_ids[0], completed=done, total=total)
