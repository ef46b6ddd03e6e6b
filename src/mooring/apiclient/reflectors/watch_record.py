"""How the watches of one resource ended, and for how long there was none: what an operator is shown of them."""

from collections import Counter
from enum import StrEnum

from mooring.apiclient.reflectors.silence import Silent
from mooring.apiclient.reflectors.watch_faults import is_expired
from mooring.apiclient.throttle import Timing


class WatchEnd(StrEnum):
    """Why a watch ended; the values are those of a metric's label."""

    AFTER_EVENTS = "after_events"
    """The server or the network ended it after events: servers do so all the time, and it is resumed at once."""
    WITHOUT_EVENTS = "without_events"
    """The same, but the watch told nothing."""
    SILENT = "silent"
    """Nothing came, not even bookmarks, so we ended it."""
    EXPIRED = "expired"
    """The server no longer keeps the history that we asked for; a list follows."""
    FAILED = "failed"
    """The server refused it, or could not be reached, or a streamed list broke off."""


def end_by(fault: Exception) -> WatchEnd:
    """What an exception that ends a watch stands for, if it is more than the end of a connection."""
    if isinstance(fault, Silent):
        return WatchEnd.SILENT
    return WatchEnd.EXPIRED if is_expired(fault) else WatchEnd.FAILED


class WatchRecord:
    """Counts ends, and the seconds from each until the server has answered the next watch.

    The time before the first answer counts as well. A pause that goes on is counted up to now.
    """

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self.ends: Counter[WatchEnd] = Counter()
        self._gap_s = 0.0
        self._gap_since_s: float | None = timing.monotonic_s()
        """None while there is a watch."""

    @property
    def is_watching(self) -> bool:
        return self._gap_since_s is None

    def answered(self) -> None:
        """The server has begun to answer. May be told again."""
        self._gap_s = self.gap_s()
        self._gap_since_s = None

    def ended(self, end: WatchEnd) -> None:
        self.ends[end] += 1
        if self._gap_since_s is None:
            self._gap_since_s = self._timing.monotonic_s()

    def gap_s(self) -> float:
        """Seconds without a watch, all in all."""
        since_s = self._gap_since_s
        return self._gap_s if since_s is None else self._gap_s + self._timing.monotonic_s() - since_s

    def clear(self) -> None:
        """Count anew."""
        self.ends.clear()
        self._gap_s = 0.0
        if self._gap_since_s is not None:
            self._gap_since_s = self._timing.monotonic_s()
