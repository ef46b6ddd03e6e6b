"""Moments as text, in the forms of RFC 3339 that APIs write."""

from datetime import UTC, datetime
from functools import lru_cache

from mooring.kit.clock import NS_PER_S


def in_seconds(moment_ns: int) -> str:
    """`2026-11-15T07:17:46Z`: metav1.Time, of which nothing below a second is kept."""
    return f"{_second(moment_ns // NS_PER_S)}Z"


def in_micros(moment_ns: int) -> str:
    """`2026-11-15T07:17:46.000123Z`: metav1.MicroTime, of leases and events."""
    return f"{_second(moment_ns // NS_PER_S)}.{moment_ns % NS_PER_S // 1000:06d}Z"


@lru_cache(maxsize=64)
def _second(moment_s: int) -> str:
    """Hot: there are thousands of events in a second."""
    return f"{datetime.fromtimestamp(moment_s, UTC):%Y-%m-%dT%H:%M:%S}"


def moment_ns(text: str) -> int:
    """The moment that a text names, to the microsecond. Raises ValueError for one that names none."""
    return round(datetime.fromisoformat(text).timestamp() * 1_000_000) * 1000
