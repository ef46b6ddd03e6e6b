"""What answers consist of, apart from sentences: tables, and series of numbers that can be drawn."""

import math
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from mooring.model.quantity import show_percent
from mooring.sim.results import show_seconds


@dataclass(frozen=True, slots=True)
class AnswerTable:
    """Rows under named columns."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[object, ...]] = field(repr=False)
    is_detail: bool = False
    """Whether it is shown only on request (`-o wide`)."""
    detail_columns: int = 0
    """How many of the last columns are shown only on request."""

    def brief(self) -> "AnswerTable":
        """The table without the columns that are shown only on request."""
        if not self.detail_columns:
            return self
        shown = len(self.columns) - self.detail_columns
        return AnswerTable(self.title, self.columns[:shown], [row[:shown] for row in self.rows], self.is_detail)


class Unit(Enum):
    """What the numbers of a plot are."""

    NUMBER = "number"
    SHARE = "share"
    """From 0 to 1, shown as percent."""
    SECONDS = "seconds"

    def shown(self, value: float | None) -> str:
        """The number for people; a dash for none."""
        if value is None or not math.isfinite(value):
            return "-"
        if self is Unit.SHARE:
            return show_percent(value)
        return show_seconds(value) if self is Unit.SECONDS else f"{value:,.4f}".rstrip("0").rstrip(".")


@dataclass(frozen=True, slots=True)
class CurvePlot:
    """Values over time. Each is the mean of a span, so curves are drawn as stairs."""

    title: str
    edges_s: Sequence[float]
    """When the spans begin, and when the last one ends: one more than there are values."""
    curves: Mapping[str, Sequence[float]]
    unit: Unit = Unit.NUMBER


@dataclass(frozen=True, slots=True)
class BarPlot:
    """Values side by side: for each label a bar of each name."""

    title: str
    labels: Sequence[str]
    bars: Mapping[str, Sequence[float | None]]
    unit: Unit = Unit.NUMBER


AnswerPlot = CurvePlot | BarPlot

WAIT_LIMITS_S = {
    "10 ms": 0.01,
    "100 ms": 0.1,
    "1 s": 1.0,
    "10 s": 10.0,
    "1 min": 60.0,
    "10 min": 600.0,
    "1 h": 3600.0,
    "6 h": 6 * 3600.0,
}
"""Waiting times differ by many orders of magnitude, so each group is several times as long as the one before."""


def waits_plot(title: str, waited_s: Sequence[float]) -> BarPlot:
    """How many pods waited how long."""
    counts = wait_counts(waited_s) or [0]
    return BarPlot(title, wait_labels(len(counts)), {"pods": [float(count) for count in counts]})


def wait_counts(waited_s: Sequence[float]) -> list[int]:
    """Pods by group, up to the last group that has any."""
    limits_s = [*WAIT_LIMITS_S.values()]
    counts = Counter(bisect_left(limits_s, waited) for waited in waited_s)
    return [counts[i] for i in range(max(counts, default=-1) + 1)]


def wait_labels(groups: int) -> list[str]:
    """The names of the first groups."""
    names = [*WAIT_LIMITS_S]
    return [*(f"up to {name}" for name in names), f"more than {names[-1]}"][:groups]
