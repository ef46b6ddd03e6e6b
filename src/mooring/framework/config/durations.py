"""Durations as Go writes them (`1h0m0s`, `2.5s`): the form they have in configuration files and in error texts."""

from dataclasses import dataclass
from typing import Any

from mooring.kit.go_durations import UNITS_NS, parse_go_duration

_SECOND_NS = UNITS_NS["s"]
_LONGEST_SPAN_NS = 10 * 366 * 24 * 3600 * _SECOND_NS
"""Ten years: the latest time of an arrival. Times in nanoseconds then fit into 64 bits with room to spare."""


@dataclass(frozen=True, slots=True, order=True)
class Duration:
    """A span of time in whole nanoseconds, like Go's: a configuration can be read and written back without a change."""

    nanoseconds: int = 0

    @property
    def seconds(self) -> float:
        return self.nanoseconds / _SECOND_NS

    @classmethod
    def of_seconds(cls, seconds: int) -> "Duration":
        return cls(seconds * _SECOND_NS)

    @classmethod
    def parse(cls, text: str) -> "Duration":
        """Parse a duration as Go's ParseDuration does. Raises ValueError with Go's text."""
        return cls(parse_go_duration(text))

    def __str__(self) -> str:
        """As Go writes it: `1h0m0s`, `2.5s`, `100ms`. Below a second the unit is the largest that gives a number of
        at least 1."""
        size = abs(self.nanoseconds)
        sign = "-" if self.nanoseconds < 0 else ""
        if size == 0:
            return "0s"
        if size < _SECOND_NS:
            return sign + _show_fraction(size)
        seconds, below_ns = divmod(size, _SECOND_NS)
        minutes, seconds = divmod(seconds, 60)
        hours, minutes = divmod(minutes, 60)
        text = f"{_decimal(seconds * _SECOND_NS + below_ns, _SECOND_NS)}s"
        if hours or minutes:
            text = f"{minutes}m{text}"
        return f"{sign}{hours}h{text}" if hours else sign + text


def _show_fraction(size_ns: int) -> str:
    """A duration below one second."""
    for unit, unit_ns in (("ms", 1_000_000), ("µs", 1_000)):
        if size_ns >= unit_ns:
            return f"{_decimal(size_ns, unit_ns)}{unit}"
    return f"{size_ns}ns"


def _decimal(size_ns: int, unit_ns: int) -> str:
    """The exact quotient, without trailing zeros."""
    whole, below = divmod(size_ns, unit_ns)
    digits = str(below).rjust(len(str(unit_ns)) - 1, "0").rstrip("0")
    return f"{whole}.{digits}" if digits else str(whole)


def parse_duration(value: Any) -> int | None:
    """Nanoseconds of a number of seconds or of a duration as Go writes it; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        found = round(float(value) * _SECOND_NS)
    except (ValueError, OverflowError):
        try:
            found = Duration.parse(str(value).strip()).nanoseconds
        except ValueError:
            return None
    return found if 0 <= found <= _LONGEST_SPAN_NS else None
