"""A log of what changed: rows of the node table, stored objects, pools of devices. Kept answers are refreshed from it."""

from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")


class ChangeLog(Generic[T]):
    """Items in the order in which they changed. A reader keeps a position and later asks what came since.

    The log keeps only the recent past: a reader that stayed away too long gets None and starts over.
    """

    LIMIT = 16384
    """Changes that are kept at most; beyond that the older half goes. Three changes of each of 5,000 nodes fit in."""

    def __init__(self) -> None:
        self._items: list[T] = []
        self._start = 0
        self.end = 0
        """The position after the last change."""

    def note(self, item: T) -> None:
        """Append an item. When the log has more than LIMIT items, the older half is dropped, and readers that are behind have
        to start over."""
        self._items.append(item)
        self.end += 1
        if len(self._items) > self.LIMIT:
            half = self.LIMIT // 2
            del self._items[:half]
            self._start += half

    def forget(self) -> None:
        """Anything may have changed: all readers have to start over."""
        self.end += 1
        self._items, self._start = [], self.end

    def since(self, position: int) -> list[T] | None:
        """The items that changed since `position`, each item once, in the order of its first change; None: the log no longer
        reaches back so far."""
        if position < self._start:
            return None
        recent = self._items[position - self._start :]
        return recent if len(recent) < 2 else list(dict.fromkeys(recent))


class RowLog:
    """A log of rows of the node table, as an array: readers take what came since as it is, without a copy."""

    LIMIT = ChangeLog.LIMIT

    def __init__(self) -> None:
        self._rows: NDArray[np.intp] = np.zeros(256, np.intp)
        self._length = 0
        self._start = 0
        self.end = 0
        """The position after the last change."""

    def note(self, row: int) -> None:
        """Append a row. At LIMIT rows the older half is dropped, and readers that are behind have to start over."""
        if self._length >= self.LIMIT:
            self._keep_last(self.LIMIT // 2)
        elif self._length == len(self._rows):
            self._keep_last(self._length)
        self._rows[self._length] = row
        self._length += 1
        self.end += 1

    def note_all(self) -> None:
        """All rows changed: all readers have to start over."""
        self.end += 1
        self._start, self._length = self.end, 0

    def rows_since(self, position: int) -> NDArray[np.intp] | None:
        """The rows that changed since `position`, in this order, with repetitions; None: no longer known.

        Do not write to it.
        """
        return None if position < self._start else self._rows[position - self._start : self._length]

    def since(self, position: int) -> list[int] | None:
        """The rows that changed since `position`, each once; None: no longer known."""
        rows = self.rows_since(position)
        return None if rows is None else list(dict.fromkeys(rows.tolist()))

    def _keep_last(self, count: int) -> None:
        """Go on in a new array, because readers may still hold parts of the old one."""
        rows = np.zeros(min(max(2 * count, 256), self.LIMIT), np.intp)
        rows[:count] = self._rows[self._length - count : self._length]
        self._start += self._length - count
        self._rows, self._length = rows, count


class Follower:
    """Reads several logs of rows at once, each from where it left off."""

    def __init__(self, *logs: RowLog) -> None:
        self._logs = logs
        self._positions = [0] * len(logs)

    def news(self) -> list[int] | None:
        """The rows touched since the last call in any of the logs, each once, ascending; None when that is not known."""
        rows = self.peek()
        self._positions = [log.end for log in self._logs]
        return rows

    def pass_over(self) -> None:
        """Skip all rows that were touched up to now: `news` will not report them."""
        self._positions = [log.end for log in self._logs]

    def peek(self) -> list[int] | None:
        """Return the rows that `news` would return, without moving forward: `news` still reports them."""
        rows: list[int] = []
        for log, position in zip(self._logs, self._positions, strict=True):
            if position == log.end:
                continue
            touched = log.since(position)
            if touched is None:
                return None
            rows = sorted({*rows, *touched}) if rows else sorted(touched)
        return rows
