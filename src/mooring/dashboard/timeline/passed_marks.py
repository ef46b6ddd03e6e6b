"""Places of a recording that moves have passed: a way back begins at one of them instead of at the last recorded state."""

from bisect import bisect_right, insort
from collections.abc import Callable

from mooring.dashboard.timeline.replay_cursor import CursorMark, ReplayCursor

MAX_MARKS = 24
"""For all runs. Each takes some 150 bytes for a pod, and shares the objects."""
NEWEST = 6
"""Of these none is dropped: the next way back is most likely short."""
STEPS = 500
"""At least so many steps lie between two marks: some 0.1 s of a replay."""
STEPS_FOR_A_POD = 0.1
"""More in a large cluster, where a mark takes longer: 50 ms for 30,000 pods."""


class PassedMarks:
    """The marks of one run, in the order of their steps."""

    def __init__(self, min_steps: int = STEPS, max_marks: int = MAX_MARKS) -> None:
        self._min_steps, self._max_marks = min_steps, max_marks
        self._marks: list[CursorMark] = []

    def __len__(self) -> int:
        return len(self._marks)

    def before(self, is_behind: Callable[[CursorMark], bool]) -> CursorMark | None:
        """The last mark that is not behind a place."""
        return next((mark for mark in reversed(self._marks) if not is_behind(mark)), None)

    def pass_by(self, cursor: ReplayCursor) -> None:
        """Take a mark where the cursor is, if none is near."""
        nearest = self._marks[found - 1].steps if (found := bisect_right(self._marks, cursor.steps, key=_steps)) else 0
        apart = max(self._min_steps, int(len(cursor.scheduler.pods) * STEPS_FOR_A_POD))
        if cursor.steps - nearest < apart or (mark := cursor.mark()) is None:
            return
        insort(self._marks, mark, key=_steps)
        if len(self._marks) > self._max_marks:
            self._drop()

    def _drop(self) -> None:
        """Drop the mark that is missed least: the one whose neighbours are closest to each other."""
        marks = self._marks
        gaps = {i: marks[i + 1].steps - marks[i - 1].steps for i in range(1, max(len(marks) - NEWEST, 2))}
        del marks[min(gaps, key=lambda i: gaps[i])]


def _steps(mark: CursorMark) -> int:
    return mark.steps
