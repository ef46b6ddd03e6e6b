"""Durations as Go writes them, `1h30m`, `-1.5s` or `0`: Go's time.ParseDuration."""

import re

UNITS_NS = {
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
_MAX_INT64 = (1 << 63) - 1
"""The longest duration that Go's int64 of nanoseconds holds: about 292 years."""
_LONGEST = 1000
"""The longest text that is read, in characters: Python raises for numbers of more than 4,300 digits."""
_PART = re.compile(r"([0-9]*)(\.[0-9]*)?([^0-9.]*)")
"""A number and what follows it up to the next number: the unit, known or not."""


def parse_go_duration(text: str) -> int:
    """The nanoseconds. Raises ValueError with Go's text.

    | text   | nanoseconds       |
    | 1m30s  | 90_000_000_000    |
    | 1.5ms  | 1_500_000         |
    | 15     | missing unit      |
    """
    rest = text[1:] if text[:1] in ("-", "+") else text
    if rest == "0":
        return 0
    total = 0
    for part in _PART.finditer(rest[:_LONGEST]):
        if part[0] or not rest:
            total += _part_ns(part, text)
    if total > _MAX_INT64 or len(rest) > _LONGEST:
        raise ValueError(f'time: invalid duration "{text}"')
    return -total if text.startswith("-") else total


def _part_ns(part: re.Match[str], text: str) -> int:
    """One number with its unit, in nanoseconds."""
    whole, fraction, unit = part[1], (part[2] or "")[1:], part[3]
    if not whole and not fraction:
        raise ValueError(f'time: invalid duration "{text}"')
    if not unit:
        raise ValueError(f'time: missing unit in duration "{text}"')
    if unit not in UNITS_NS:
        raise ValueError(f'time: unknown unit "{unit}" in duration "{text}"')
    scale: int = 10 ** len(fraction)
    return int(whole + fraction) * UNITS_NS[unit] // scale
