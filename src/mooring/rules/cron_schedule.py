"""Schedules as cron writes them, `*/5 9-17 * * mon-fri`: which minutes they mean, in which time zone.

Why not a library: ADR 10.
"""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from zoneinfo import ZoneInfo

from mooring.kit.clock import NS_PER_S

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_DAYS = ("sun", "mon", "tue", "wed", "thu", "fri", "sat")
_SHORTHANDS = {
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
    "@monthly": "0 0 1 * *",
    "@weekly": "0 0 * * 0",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@hourly": "0 * * * *",
}
"""The macros of upstream's cron library."""
_LONGEST_S = 5 * 366 * 86400
"""A schedule without a time in five years (30 February) has none: the search has to end."""
_WINDOWS_S = (60, 3600, 86400, 31 * 86400, 366 * 86400, _LONGEST_S)
"""How far back `latest_ns` looks, in steps: most schedules have a time in the last hour or day."""


class ScheduleError(ValueError):
    """A text that is no schedule, or an unknown time zone."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The values that each part of a time may have."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """0 is Sunday."""
    any_day: bool
    """cron's rule: if the days of the month or of the week are `*`, a day must match both; otherwise one of them is
    enough."""
    zone: tzinfo

    def next_ns(self, after_ns: int) -> int | None:
        """The first time after this one; None: there is none.

        It steps forward by days, hours and minutes in UTC and compares local time, so that changes of daylight saving
        time are right.
        """
        start = datetime.fromtimestamp(after_ns // NS_PER_S, UTC)
        moment = (start + timedelta(minutes=1)).replace(second=0)
        while (moment - start).total_seconds() <= _LONGEST_S:
            step = self._step(moment.astimezone(self.zone))
            if not step:
                return int(moment.timestamp()) * NS_PER_S
            moment += step
        return None

    def latest_ns(self, after_ns: int, until_ns: int) -> int | None:
        """The last time in (after, until]; None: there is none. Its cost does not depend on how long the span is."""
        for window_s in _WINDOWS_S:
            found = self.next_ns(max(after_ns, until_ns - window_s * NS_PER_S))
            if found is not None and found <= until_ns:
                while (later := self.next_ns(found)) is not None and later <= until_ns:
                    found = later
                return found
            if until_ns - window_s * NS_PER_S <= after_ns:
                return None
        return None

    def _step(self, local: datetime) -> timedelta:
        """Zero: this is a time of the schedule. Otherwise a step forward that does not pass the next one."""
        if local.month not in self.months or not self._means_day(local):
            # Clocks are moved at night by an hour or so: the last stretch of a day goes by single hours.
            return timedelta(hours=max(1, 21 - local.hour), minutes=-local.minute)
        if local.hour not in self.hours:
            return timedelta(minutes=60 - local.minute)
        return timedelta() if local.minute in self.minutes else timedelta(minutes=1)

    def _means_day(self, local: datetime) -> bool:
        in_month, in_week = local.day in self.days, local.isoweekday() % 7 in self.weekdays
        return in_month and in_week if self.any_day else in_month or in_week


def parse_schedule(text: str, zone: str = "") -> Schedule:
    """Parse five fields or a macro; UTC without a zone. Raises ScheduleError."""
    parts = _SHORTHANDS.get(text.strip(), text).split()
    if len(parts) != 5:
        raise ScheduleError(f"expected exactly 5 fields, found {len(parts)}: [{' '.join(parts)}]")
    minute, hour, day, month, weekday = parts
    return Schedule(
        _values(minute, 0, 59),
        _values(hour, 0, 23),
        _values(day, 1, 31),
        _values(month, 1, 12, _MONTHS),
        frozenset(value % 7 for value in _values(weekday, 0, 7, _DAYS)),
        day[0] in "*?" or weekday[0] in "*?",
        _zone(zone),
    )


def _zone(name: str) -> tzinfo:
    """The time zone by name. Python raises several kinds of errors for unknown or malformed names."""
    try:
        return ZoneInfo(name) if name else UTC
    except (KeyError, ValueError, OSError):
        raise ScheduleError(f"unknown time zone {name}") from None


def _values(text: str, low: int, high: int, names: tuple[str, ...] = ()) -> frozenset[int]:
    """The values of one field: lists, ranges, steps and names."""
    found: set[int] = set()
    for part in text.split(","):
        span, _, step = part.partition("/")
        first, dash, last = span.partition("-")
        if first in ("*", "?"):
            start, end = low, high
        else:
            start = _value(first, low, names)
            end = _value(last, low, names) if dash else (high if step else start)
        width = _value(step, 1) if step else 1
        if not low <= start <= end <= high or width < 1:
            raise ScheduleError(f"a part of the schedule is out of range ({low}-{high}): {part}")
        found.update(range(start, end + 1, width))
    return frozenset(found)


def _value(text: str, low: int, names: tuple[str, ...] = ()) -> int:
    """A number in the range, or a name that stands for one. Raises ScheduleError."""
    if text.lower() in names:
        return names.index(text.lower()) + low
    if not text.isdecimal():
        raise ScheduleError(f"failed to parse int from {text}")
    return int(text)
