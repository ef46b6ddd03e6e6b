"""Durations as Go writes them (`1h0m0s`, `2.5s`): the form they have in configuration files and in error texts."""

import re
from dataclasses import dataclass
from typing import Any

_UNIT_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "μs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
"""Go accepts both Unicode spellings of the micro sign."""
_SECOND_NS = _UNIT_NS["s"]
_MAX_INT64 = (1 << 63) - 1
"""The longest duration that Go's int64 of nanoseconds holds: about 292 years."""
_LONGEST_SPAN_NS = 10 * 366 * 24 * 3600 * _SECOND_NS
"""Ten years: the latest time of an arrival. Times in nanoseconds then fit into 64 bits with room to spare."""
_PART = re.compile(r"([0-9]*)(\.[0-9]*)?([^0-9.]*)")
"""A number and what follows it up to the next number: the unit, known or not."""


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
        """Parse a duration as Go's ParseDuration does. Raises ValueError with Go's text.

        | text   | nanoseconds       |
        | 1m30s  | 90_000_000_000    |
        | 1.5ms  | 1_500_000         |
        | 15     | missing unit      |
        """
        sign = -1 if text.startswith("-") else 1
        rest = text[1:] if text[:1] in ("-", "+") else text
        if rest == "0":
            return cls(0)
        if not rest:
            raise ValueError(f'time: invalid duration "{text}"')
        total = 0
        while rest:
            part = _PART.match(rest)
            assert part is not None, "the pattern matches the empty text"
            total += _part_ns(part, text)
            rest = rest[part.end() :]
        if total > _MAX_INT64:
            raise ValueError(f'time: invalid duration "{text}"')
        return cls(sign * total)

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


def _part_ns(part: re.Match[str], text: str) -> int:
    """One number with its unit, in nanoseconds."""
    whole, fraction, unit = part[1], (part[2] or "")[1:], part[3]
    if not whole and not fraction:
        raise ValueError(f'time: invalid duration "{text}"')
    if not unit:
        raise ValueError(f'time: missing unit in duration "{text}"')
    if unit not in _UNIT_NS:
        raise ValueError(f'time: unknown unit "{unit}" in duration "{text}"')
    scale: int = 10 ** len(fraction)
    return int(whole + fraction) * _UNIT_NS[unit] // scale


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
