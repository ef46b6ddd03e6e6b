"""Pauses that double with each failure in a row, for things known by a mark."""

from dataclasses import dataclass


@dataclass(slots=True)
class _Row:
    """`failure` is the last one that was counted, by whatever tells it from others."""

    failure: str
    count: int
    due_ns: int


class Retries:
    """When what failed may be tried again."""

    def __init__(self, first_ns: int, last_ns: int) -> None:
        self._first_ns = first_ns
        self._last_ns = last_ns
        self._rows: dict[str, _Row] = {}

    def due_ns(self, mark: str, failure: str, now_ns: int) -> int:
        """Asking again about the same failure changes nothing. After twice the longest pause, all is forgiven."""
        row = self._rows.get(mark)
        if row is not None and row.failure == failure:
            return row.due_ns
        count = 0 if row is None or now_ns - row.due_ns > 2 * self._last_ns else row.count
        pause_ns = min(self._first_ns << min(count - 1, 40), self._last_ns) if count else 0
        self._rows[mark] = _Row(failure, count + 1, now_ns + pause_ns)
        return now_ns + pause_ns
