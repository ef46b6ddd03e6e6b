"""Every metric that the scheduler has, with its kind, labels and buckets: upstream's, and some of our own (metrics.txt)."""

from pathlib import Path
from typing import cast

from mooring.kit.metrics import Description, Kind, Stability, exponential

METRICS_FILE = Path(__file__).with_name("metrics.txt")
"""One metric a row, in groups. Its first lines say what the columns are, and which of them are upstream's."""


def parse_row(row: str) -> Description:
    """The metric that a row of metrics.txt describes."""
    name, kind, stability, labels, bounds, text = (cell.strip() for cell in row.split("|"))
    return Description(
        name,
        cast("Kind", kind.rstrip("+")),
        cast("Stability", stability),
        text,
        tuple(labels.split()),
        _bounds(bounds.split()),
        shows_zero=kind.endswith("+"),
    )


def row_of(metric: Description, buckets: str | None = None) -> str:
    """The row of metrics.txt that describes a metric: the inverse of `parse_row`. None: its bounds, one after another."""
    kind = f"{metric.kind}+" if metric.shows_zero else metric.kind
    bounds = " ".join(f"{bound:.12g}" for bound in metric.bounds) if buckets is None else buckets
    cells = (metric.name, kind, metric.stability, " ".join(metric.labels), bounds, metric.help)
    return " | ".join(cells).replace(" |  |", " | |").replace(" |  |", " | |")


def _bounds(words: list[str]) -> tuple[float, ...]:
    if words[:1] != ["exponential"]:
        return tuple(map(float, words))
    start, factor, count = words[1:]
    return exponential(float(start), float(factor), int(count))


def _groups() -> dict[str, tuple[Description, ...]]:
    """The metrics of each group, in the order of the file."""
    groups: dict[str, list[Description]] = {}
    group: list[Description] = []
    for row in METRICS_FILE.read_text().splitlines():
        if row.startswith("["):
            group = groups[row[1 : row.index("]")]] = []
        elif row and not row.startswith("#"):
            group.append(parse_row(row))
    return {name: tuple(metrics) for name, metrics in groups.items()}


_GROUPS = _groups()

POD_GROUPS = _GROUPS.pop("POD_GROUPS")
PLACEMENTS = _GROUPS.pop("PLACEMENTS")
BY_GATE = {
    "SchedulerAsyncAPICalls": _GROUPS.pop("ASYNC_CALLS"),
    "GenericWorkload": POD_GROUPS,
    "TopologyAwareWorkloadScheduling": PLACEMENTS,
}
"""Gate that is off by default -> the metrics that it adds."""

HEALTH = _GROUPS.pop("HEALTH")
RESOURCES = _GROUPS.pop("RESOURCES")
"""Metrics that /metrics/slis and /metrics/resources show."""

CATALOGUE: tuple[Description, ...] = sum(_GROUPS.values(), start=())
"""All metrics that exist with the feature gates at their defaults."""

_BY_NAME = {metric.name: metric for metric in CATALOGUE}
PREEMPTION_ATTEMPTS = _BY_NAME["scheduler_preemption_attempts_total"]
CLAIM_CREATES = _BY_NAME["dynamic_resource_allocation_resourceclaim_creates_total"]
DEVICE_ALLOCATIONS = _BY_NAME["scheduler_dra_bindingconditions_allocations_total"]
DEVICE_WAITS = _BY_NAME["scheduler_dra_bindingconditions_wait_duration_seconds"]
