"""The part of a recording that a question is about: from a time on, until a time."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from mooring.framework.config.durations import parse_duration
from mooring.kit.clock import in_seconds, moment_ns
from mooring.state.recording.reading import RecordedRun


class UnusableSpan(ValueError):
    """A time that cannot be understood, or times that contradict each other; the text says why."""


@dataclass(frozen=True, slots=True)
class RecordedSpan:
    """None: from the first step on, until the last one."""

    from_ns: int | None = None
    until_ns: int | None = None


def began_ns(runs: Sequence[RecordedRun]) -> int:
    """When the first of the runs begins, as far as it is still there; 0 if no segment can be read."""
    return min((segment.header.started_ns for run in runs for segment in run.segments), default=0)


def span_of(runs: Sequence[RecordedRun], begin: str | None, end: str | None) -> RecordedSpan:
    """The span of two texts, each a time or a duration since the beginning of the recording. Raises UnusableSpan."""
    start_ns = began_ns(runs)
    from_ns = None if begin is None else moment_of(begin, start_ns, "--from")
    until_ns = None if end is None else moment_of(end, start_ns, "--until")
    if until_ns is not None and until_ns < start_ns:
        raise UnusableSpan(f"--until {end}: the recording begins later, at {in_seconds(start_ns)}")
    if from_ns is not None and until_ns is not None and until_ns < from_ns:
        raise UnusableSpan(f"--until {end}: this is before --from {begin}")
    return RecordedSpan(from_ns, until_ns)


def moment_of(text: str, start_ns: int, option: str) -> int:
    """A time in RFC 3339, or a duration since `start_ns`. Raises UnusableSpan."""
    passed_ns = parse_duration(text)
    found = start_ns + passed_ns if passed_ns is not None else _written_ns(text)
    if found is None:
        example = in_seconds(start_ns)
        raise UnusableSpan(
            f"{option} {text}: neither a time such as {example} nor a duration from the beginning such as 10m"
        )
    return found


def _written_ns(text: str) -> int | None:
    """A time with its zone; None for anything else."""
    try:
        return moment_ns(text) if datetime.fromisoformat(text).tzinfo is not None else None
    except (ValueError, OverflowError):
        return None
