"""Schedules as cron writes them, `*/5 9-17 * * mon-fri`: which minutes they mean, in which time zone."""

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
_LONGEST_S = 5 * 366 * 86400
"""A schedule that means no minute in five years (30 February) means none."""
_WINDOWS_S = (60, 3600, 86400, 31 * 86400, 366 * 86400, _LONGEST_S)


class ScheduleError(ValueError):
    """A text that is no schedule, or a time zone that nobody knows."""


@dataclass(frozen=True, slots=True)
class Schedule:
    """The values that each part of a moment may have."""

    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]
    """From 0, Sunday."""
    any_day: bool
    """Whether the days of the month or those of the week are left open: then a day must be in both, or else in one."""
    zone: tzinfo

    def next_ns(self, after_ns: int) -> int | None:
        """The first moment after this one; None: there is none."""
        start = datetime.fromtimestamp(after_ns // NS_PER_S, UTC)
        moment = (start + timedelta(minutes=1)).replace(second=0)
        while (moment - start).total_seconds() <= _LONGEST_S:
            step = self._step(moment.astimezone(self.zone))
            if not step:
                return int(moment.timestamp()) * NS_PER_S
            moment += step
        return None

    def latest_ns(self, after_ns: int, until_ns: int) -> int | None:
        """The last moment after one and not after the other; None: there is none. However long the time between."""
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
        """Zero: this is one. Otherwise how far to go on at least, never past the next."""
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
    """Without a zone it is UTC. Raises ScheduleError."""
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
    try:
        return ZoneInfo(name) if name else UTC
    except (KeyError, ValueError, OSError):
        raise ScheduleError(f"unknown time zone {name}") from None


def _values(text: str, low: int, high: int, names: tuple[str, ...] = ()) -> frozenset[int]:
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
    if text.lower() in names:
        return names.index(text.lower()) + low
    if not text.isdecimal():
        raise ScheduleError(f"failed to parse int from {text}")
    return int(text)
