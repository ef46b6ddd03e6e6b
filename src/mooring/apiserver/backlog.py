"""What waits for all watchers together: each has a bound of its own, but there may be many of them."""

from dataclasses import dataclass, field
from typing import Protocol

MAX_BACKLOG_BYTES = 256 * 1024 * 1024
"""Beyond it the watcher that lags furthest behind is let go, which is four that each use up their own bound."""


class Waiting(Protocol):
    """A watcher for whom lines wait."""

    waiting_bytes: int

    def give_up(self) -> None:
        """Throw away what waits: it counts no longer, and the watcher must start over."""


@dataclass(slots=True)
class Backlog:
    limit_bytes: int = MAX_BACKLOG_BYTES
    total_bytes: int = 0
    _waiting: dict[int, Waiting] = field(default_factory=dict)
    """Those for whom something waits, by id."""

    def count(self, watcher: Waiting, added_bytes: int) -> None:
        """More waits for a watcher, or less."""
        self.total_bytes += added_bytes
        if watcher.waiting_bytes:
            self._waiting[id(watcher)] = watcher
        else:
            self._waiting.pop(id(watcher), None)
        while self.total_bytes > self.limit_bytes:
            max(self._waiting.values(), key=lambda waiting: waiting.waiting_bytes).give_up()
