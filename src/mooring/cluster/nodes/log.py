"""A log of touched rows: whoever kept an answer learns which rows to ask about again."""


class TouchLog:
    """Rows in the order in which they were touched. A reader keeps a position and later asks what came since.

    Only the recent past is kept: a reader that stayed away too long is told to start over.
    """

    LIMIT = 16384

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._start = 0

    @property
    def end(self) -> int:
        """The position after the last touch."""
        return self._start + len(self._rows)

    def note(self, row: int) -> None:
        self._rows.append(row)
        if len(self._rows) > self.LIMIT:
            half = self.LIMIT // 2
            del self._rows[:half]
            self._start += half

    def since(self, position: int) -> list[int] | None:
        """The rows touched since `position`, each once, ascending; None when that is no longer known."""
        if position < self._start:
            return None
        recent = self._rows[position - self._start :]
        return recent if len(recent) < 2 else sorted(set(recent))


class Follower:
    """Reads several logs at once, each from where it left off."""

    def __init__(self, *logs: TouchLog) -> None:
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
            rows = sorted({*rows, *touched}) if rows else touched
        return rows
