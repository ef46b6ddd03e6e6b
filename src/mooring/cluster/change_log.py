"""A log of what changed: rows of the node table, stored objects, pools of devices. Kept answers are refreshed from it."""

from typing import Generic, TypeVar

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
        self._items.append(item)
        self.end += 1
        if len(self._items) > self.LIMIT:
            half = self.LIMIT // 2
            del self._items[:half]
            self._start += half

    def since(self, position: int, most: int | None = None) -> list[T] | None:
        """What changed since `position`, each item once, in the order of its first change; None: no longer known.

        None as well for more than `most` changes, repeated ones included: a reader that would start over then need not
        wait for them to be sorted out.
        """
        if position < self._start or (most is not None and self.end - position > most):
            return None
        recent = self._items[position - self._start :]
        return recent if len(recent) < 2 else list(dict.fromkeys(recent))


class Follower:
    """Reads several logs of rows at once, each from where it left off."""

    def __init__(self, *logs: ChangeLog[int]) -> None:
        self._logs = logs
        self._positions = [0] * len(logs)

    def news(self) -> list[int] | None:
        """The rows touched since the last call in any of the logs, each once, ascending; None when that is not known."""
        rows = self.peek()
        self._positions = [log.end for log in self._logs]
        return rows

    def peek(self) -> list[int] | None:
        """The same, and it stays news."""
        rows: list[int] = []
        for log, position in zip(self._logs, self._positions, strict=True):
            if position == log.end:
                continue
            touched = log.since(position)
            if touched is None:
                return None
            rows = sorted({*rows, *touched}) if rows else sorted(touched)
        return rows
