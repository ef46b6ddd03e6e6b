"""Timestamps and durations as values of CEL, exact to the nanosecond, in Go's notation."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from mooring.cel.library import Overload, member, plain
from mooring.cel.values import DURATION, MAX_INT64, MIN_INT64, OVERFLOW, TIMESTAMP, Extension, Fault, Type
from mooring.kit.go_durations import parse_go_duration

SECOND = 1_000_000_000
"""In nanoseconds, the unit of both types."""
_MOMENT = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})T([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,9}))?(Z|[+-][0-9]{2}:[0-9]{2})"
)
_FIRST, _LAST = -62135596800 * SECOND, 253402300800 * SECOND
"""0001-01-01 and the end of the year 9999: the range of google.protobuf.Timestamp."""


@dataclass(frozen=True, slots=True)
class CelDuration(Extension):
    """A span of time, positive or negative."""

    nanoseconds: int
    type: ClassVar[Type] = DURATION

    def order(self) -> int:
        return self.nanoseconds


@dataclass(frozen=True, slots=True)
class Timestamp(Extension):
    """A moment."""

    nanoseconds: int
    """Since 1970."""
    type: ClassVar[Type] = TIMESTAMP

    def order(self) -> int:
        return self.nanoseconds


def read_duration(text: str) -> CelDuration | Fault:
    """`duration(text)`, such as `1h30m`, `-1.5s` or `0`."""
    try:
        return CelDuration(parse_go_duration(text))
    except ValueError:
        return Fault(f'time: invalid duration "{text}"')


def read_timestamp(text: str) -> Timestamp | Fault:
    """`timestamp(text)` in RFC 3339. datetime has only microseconds, so that the fraction is added separately."""
    found = _MOMENT.fullmatch(text)
    bad = Fault(f'parsing time "{text}" as "2006-01-02T15:04:05Z07:00": cannot parse')
    if found is None:
        return bad
    try:
        moment = datetime(*map(int, found.groups()[:6]), tzinfo=UTC)  # type: ignore[misc, arg-type]
    except ValueError:
        return bad
    zone = found[8]
    offset = 0 if zone == "Z" else int(zone[0] + "1") * (int(zone[1:3]) * 3600 + int(zone[4:]) * 60)
    whole = moment - datetime(1970, 1, 1, tzinfo=UTC)
    seconds = whole.days * 86400 + whole.seconds - offset
    return Timestamp(seconds * SECOND + int((found[7] or "").ljust(9, "0")))


def shown_timestamp(moment: Timestamp) -> str:
    """In RFC 3339 and UTC; the fraction has as many digits as it needs."""
    seconds, rest = divmod(moment.nanoseconds, SECOND)
    base = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    fraction = f".{rest:09}".rstrip("0") if rest else ""
    return f"{base.year:04}-{base:%m-%dT%H:%M:%S}{fraction}Z"


def shown_duration(span: CelDuration) -> str:
    """In seconds, as CEL writes durations: `90s`, `1.5s`."""
    sign = "-" if span.nanoseconds < 0 else ""
    seconds, rest = divmod(abs(span.nanoseconds), SECOND)
    return f"{sign}{seconds}{f'.{rest:09}'.rstrip('0') if rest else ''}s"


def span_of(nanoseconds: int) -> CelDuration | Fault:
    """Go's time.Duration has 64 bits: 292 years."""
    return CelDuration(nanoseconds) if MIN_INT64 <= nanoseconds <= MAX_INT64 else OVERFLOW


def _moment(nanoseconds: int) -> Timestamp | Fault:
    return Timestamp(nanoseconds) if _FIRST <= nanoseconds < _LAST else OVERFLOW


def _plus(made: Callable[[int], Any]) -> Callable[[Any, Any], Any]:
    return lambda one, other: made(one.nanoseconds + other.nanoseconds)


def _minus(made: Callable[[int], Any]) -> Callable[[Any, Any], Any]:
    return lambda one, other: made(one.nanoseconds - other.nanoseconds)


def _in_zone(moment: Timestamp, zone: str) -> datetime:
    """The moment in a zone, which is a name (`Europe/Berlin`) or an offset (`+02:00`)."""
    base = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=moment.nanoseconds // 1000)
    fixed = re.fullmatch(r"([+-]?)([0-9]{2}):([0-9]{2})", zone)
    if fixed is not None:
        shift = timedelta(hours=int(fixed[2]), minutes=int(fixed[3]))
        return base - shift if fixed[1] == "-" else base + shift
    return base.astimezone(ZoneInfo(zone or "UTC"))


def _part(read: Callable[[datetime], int]) -> Callable[..., Any]:
    """A part of a moment, such as its hour, in UTC or in a named zone."""

    def part(moment: Timestamp, zone: str = "UTC") -> int | Fault:
        try:
            return read(_in_zone(moment, zone))
        except (ZoneInfoNotFoundError, ValueError, OSError):
            return Fault(f"unknown time zone {zone}")

    return part


# CEL counts months, days of the month (getDayOfMonth) and of the year from 0, and Sunday is day 0 of the week.
_PARTS: dict[str, Callable[[datetime], int]] = {
    "getFullYear": lambda at: at.year,
    "getMonth": lambda at: at.month - 1,
    "getDayOfYear": lambda at: at.timetuple().tm_yday - 1,
    "getDayOfMonth": lambda at: at.day - 1,
    "getDate": lambda at: at.day,
    "getDayOfWeek": lambda at: at.isoweekday() % 7,
    "getHours": lambda at: at.hour,
    "getMinutes": lambda at: at.minute,
    "getSeconds": lambda at: at.second,
    "getMilliseconds": lambda at: at.microsecond // 1000,
}
_SPANS = {"getHours": 3600 * SECOND, "getMinutes": 60 * SECOND, "getSeconds": SECOND, "getMilliseconds": 10**6}


def _in_units(unit: int) -> Callable[[CelDuration], int]:
    """A duration in whole units, rounded towards zero."""
    return lambda span: abs(span.nanoseconds) // unit * (1 if span.nanoseconds >= 0 else -1)


TIMES: tuple[Overload, ...] = (
    plain("string_to_duration", "duration", "string", "duration", read_duration),
    plain("duration_to_duration", "duration", "duration", "duration", lambda span: span),
    plain("int64_to_duration", "duration", "int", "duration", CelDuration),
    plain("string_to_timestamp", "timestamp", "string", "timestamp", read_timestamp),
    plain("timestamp_to_timestamp", "timestamp", "timestamp", "timestamp", lambda at: at),
    plain("int64_to_timestamp", "timestamp", "int", "timestamp", lambda seconds: _moment(seconds * SECOND)),
    plain("duration_to_int64", "int", "duration", "int", lambda span: span.nanoseconds),
    plain("timestamp_to_int64", "int", "timestamp", "int", lambda at: at.nanoseconds // SECOND),
    plain("duration_to_string", "string", "duration", "string", shown_duration),
    plain("timestamp_to_string", "string", "timestamp", "string", shown_timestamp),
    plain("add_duration_duration", "_+_", "duration, duration", "duration", _plus(span_of)),
    plain("add_duration_timestamp", "_+_", "duration, timestamp", "timestamp", _plus(_moment)),
    plain("add_timestamp_duration", "_+_", "timestamp, duration", "timestamp", _plus(_moment)),
    plain("subtract_duration_duration", "_-_", "duration, duration", "duration", _minus(span_of)),
    plain("subtract_timestamp_duration", "_-_", "timestamp, duration", "timestamp", _minus(_moment)),
    plain("subtract_timestamp_timestamp", "_-_", "timestamp, timestamp", "duration", _minus(span_of)),
    *(member(f"timestamp_{name}", name, "timestamp", "int", _part(read)) for name, read in _PARTS.items()),
    *(member(f"timestamp_{name}_tz", name, "timestamp, string", "int", _part(read)) for name, read in _PARTS.items()),
    *(member(f"duration_{name}", name, "duration", "int", _in_units(unit)) for name, unit in _SPANS.items()),
)  # fmt: skip
