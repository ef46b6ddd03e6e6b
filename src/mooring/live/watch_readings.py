"""What metrics tell of watches: how they ended, and for how long there was none."""

from collections.abc import Sequence

from mooring.apiclient.reflectors.reflector import Reflector
from mooring.kit.metrics import MetricRegistry


def read_watches(reflectors: Sequence[Reflector], registry: MetricRegistry) -> None:
    """Have the watches of these resources read when someone looks."""
    records = {reflector.watched.name: reflector.record for reflector in reflectors}

    def forget() -> None:
        for record in records.values():
            record.clear()

    registry.counter("mooring_watches_ended_total").read_from(
        lambda: [((name, end.value), count) for name, record in records.items() for end, count in record.ends.items()],
        forget,
    )
    registry.counter("mooring_watch_gap_seconds_total").read_from(
        lambda: [((name,), record.gap_s()) for name, record in records.items()]
    )
