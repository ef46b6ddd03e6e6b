"""The figures of a run, by which configurations are compared; and where the pods of each run are, side by side."""

import base64
import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.answers.form.data_table import in_snake_case, percent_of
from mooring.answers.form.plots import COLOURS
from mooring.answers.form.published import ADDED, Count, Form, Number
from mooring.answers.form.report_parts import AnswerPlot, BarPlot, CurvePlot, Unit, wait_labels
from mooring.kit.bounded_reading import BadGzip, inflated
from mooring.sim.day import DayReport
from mooring.sim.gauge import MAIN

QUANTILES = (0.5, 0.95, 0.99, 1.0)
"""The quantiles of the fields of WaitFigures, in their order."""


class FigureStruct(Form, frozen=True, omit_defaults=False):
    """Figures are plain data: a public interface, and what a results file keeps."""


class WaitFigures(FigureStruct, frozen=True):
    """Time from arrival to binding, over the pods that were bound; null if there are none."""

    p50_seconds: float | None = None
    p95_seconds: float | None = None
    p99_seconds: float | None = None
    max_seconds: float | None = None


class PriorityFigures(FigureStruct, frozen=True):
    """The pods of one priority."""

    priority: int
    bound: Count
    pending: Count
    preempted: Count
    waits: WaitFigures


class GroupFigures(FigureStruct, frozen=True):
    """The pod groups, each as one."""

    placed: Count
    """How many got nodes for as many pods as they need."""
    pending: Count
    waits: WaitFigures
    """From the arrival of the last pod that a group needs until so many are bound; null if no group was placed."""


class UseFigures(FigureStruct, frozen=True):
    """The requested share of what is allocatable. Where all pods arrive at once, both are the share of schedulable nodes at
    the end, as `mooring simulate` tells it. Over time they are shares of all nodes, because cordons come and go."""

    mean: float
    """The mean over time."""
    peak: float
    """The highest mean of a sixtieth of the time."""


class RunCurves(FigureStruct, frozen=True):
    """Sixty spans of a day. Each value is the mean of its span."""

    edges_seconds: list[float]
    """When the spans begin, and when the last one ends."""
    utilisation: dict[str, list[float]]
    """By resource (cpu, memory): the requested share of what is allocatable."""
    pending: list[float]
    """Pods that wait."""


class RunFigures(FigureStruct, frozen=True):
    """All figures of a run."""

    pods: Count
    """How many pods arrived, or were pending at the beginning."""
    placed: Count
    """How many of these pods were bound, and not preempted later."""
    pending: Count
    """How many have no node in the end."""
    preempted: Count
    """How many pods were preempted, of these and of those that ran before."""
    attempts: Count
    simulated_seconds: float
    waits: WaitFigures
    waits_by_priority: list[PriorityFigures]
    """The highest priority first."""
    utilisation: dict[str, UseFigures]
    """By resource: the requested share of what is allocatable."""
    fragmentation: dict[str, float | None]
    """By resource: the share of what is free that the pods of the cluster and of the arrivals cannot use, because it is on
    nodes where they do not fit; the mean over their shapes, weighted by the number of pods. Over time: the mean of some 32
    moments. Null if nothing is free or there are no such pods."""
    nodes_used: Count
    """How many nodes had, at least once, a pod that does not belong to a DaemonSet."""
    node_hours: float | None
    """How long nodes had such pods, over all nodes; null where all pods arrive at once."""
    cost: float
    """In the unit that `costUnit` says: of these hours, or of an hour of the nodes in use; without prices the number of
    nodes used."""
    notes: list[str] = msgspec.field(default_factory=list)
    """Sentences that a reader of the figures should know."""
    wait_counts: Annotated[list[int], ADDED] = msgspec.field(default_factory=list)
    """Bound pods by the time from arrival to binding: up to 10 ms, 100 ms, 1 s, 10 s, 1 min, 10 min, 1 h, 6 h, and more.
    Groups after the last one that has pods are left out."""
    curves: Annotated[RunCurves | None, ADDED] = None
    """The course of the run in sixty spans; null where all pods arrive at once."""
    groups: GroupFigures | msgspec.UnsetType = msgspec.UNSET
    """The pod groups, each as one. Only where the scheduler heeds pod groups, and there are any."""


def group_figures(groups: Sequence[tuple[bool, float | None]]) -> GroupFigures | msgspec.UnsetType:
    """The figures of groups, which come with whether they were placed, and how long they waited: None for one that ran
    before."""
    if not groups:
        return msgspec.UNSET
    placed = [waited_s for is_placed, waited_s in groups if is_placed]
    waits = wait_figures([waited_s for waited_s in placed if waited_s is not None])
    return GroupFigures(len(placed), len(groups) - len(placed), waits)


def wait_figures(waited_s: Sequence[float]) -> WaitFigures:
    if not len(waited_s):
        return WaitFigures()
    found = np.quantile(waited_s, QUANTILES)
    return WaitFigures(*(round(float(value), 9) for value in found))


# ---- figures side by side

Better = Callable[[Iterable[float]], float]
"""`max` where more is better, `min` where less is."""
_WAITS = {f"waits.{name}Seconds": (f"WAIT {name.upper()}", min) for name in ("p50", "p95", "p99", "max")}
COMPARED: Mapping[str, tuple[str, Better]] = {
    "placed": ("PLACED", max),
    "pending": ("PENDING", min),
    "preempted": ("PREEMPTED", min),
    "attempts": ("ATTEMPTS", min),
    **_WAITS,
    "utilisation.cpu.mean": ("CPU MEAN", max),
    "utilisation.cpu.peak": ("CPU PEAK", max),
    "utilisation.memory.mean": ("MEMORY MEAN", max),
    "utilisation.memory.peak": ("MEMORY PEAK", max),
    "fragmentation.cpu": ("CPU FRAGMENTED", min),
    "fragmentation.memory": ("MEMORY FRAGMENTED", min),
    "nodesUsed": ("NODES USED", min),
    "nodeHours": ("NODE HOURS", min),
    "cost": ("COST", min),
}
"""Path of a figure -> its title, and which of several values is the best."""
GROUPS_COMPARED: Mapping[str, tuple[str, Better]] = {
    "groups.placed": ("GROUPS PLACED", max),
    "groups.pending": ("GROUPS PENDING", min),
    **{f"groups.{path}": (f"GROUP {title}", better) for path, (title, better) in _WAITS.items()},
}
"""Path of a figure -> its title and the best value, for runs with pod groups."""
ALL_COMPARED: Mapping[str, tuple[str, Better]] = {**COMPARED, **GROUPS_COMPARED}


def flat_figures(figures: RunFigures, paths: Iterable[str] = ALL_COMPARED) -> dict[str, float | None]:
    """The figures that runs are compared by, by path; None for one that the run does not have."""
    written = msgspec.to_builtins(figures)
    return {path: _at(written, path) for path in paths}


def _at(written: object, path: str) -> float | None:
    for step in path.split("."):
        written = written.get(step) if isinstance(written, dict) else None
    return written if isinstance(written, int | float) else None


SHARES = ("utilisation.", "fragmentation.")
"""How paths of figures that are shares begin. Columns have them in percent."""


def column_of(path: str) -> str:
    """The name of the column of a figure in data frames and results of studies."""
    return in_snake_case(path) + ("_percent" if path.startswith(SHARES) else "")


def in_column(path: str, value: float | None) -> float | None:
    return percent_of(value) if path.startswith(SHARES) else value


class BestRuns(Form, frozen=True):
    """The best value of a figure, and the runs that have it."""

    value: Number
    runs: list[str]


def best_runs(figures: Mapping[str, RunFigures]) -> dict[str, BestRuns]:
    """For each figure the best value, and the runs that have it; without figures that no run has."""
    flat = {name: flat_figures(each) for name, each in figures.items()}
    best: dict[str, BestRuns] = {}
    for path, (_, better) in ALL_COMPARED.items():
        values = {name: value for name, each in flat.items() if (value := each[path]) is not None}
        if values:
            top = better(values.values())
            best[path] = BestRuns(top, [name for name, value in values.items() if value == top])
    return best


# ---- The course of runs in one drawing: requested shares and waiting pods over time, and how long pods waited.


DIGITS = 4
"""The decimals of shares and counts in a curve: finer than a plot can show. A results file has a row of them for each run."""


def curves_of(report: DayReport) -> RunCurves | None:
    """The spans of the day; None if there are none, because no time passed."""
    if not report.spans:
        return None
    edges_s = [*(span.from_s for span in report.spans), report.simulated_s]
    shares = {
        name: [round(span.used[name], DIGITS) for span in report.spans] for name in MAIN if name in report.mean_used
    }
    return RunCurves(edges_s, shares, [round(span.pending, DIGITS) for span in report.spans])


def course_plots(runs: Mapping[str, RunFigures]) -> list[AnswerPlot]:
    """By name of the run. Those without curves are left out: all pods arrived at once, or an earlier version ran them."""
    drawn = {name: figures.curves for name, figures in runs.items() if figures.curves is not None}
    shown, first = dict([*drawn.items()][:COLOURS]), _first(len(drawn))
    over_time: list[AnswerPlot] = [
        _together(f"Requested {resource} over time{first}", Unit.SHARE, shown, shares)
        for resource in MAIN
        if (
            shares := {name: each.utilisation[resource] for name, each in shown.items() if resource in each.utilisation}
        )
    ]
    waiting = {name: each.pending for name, each in shown.items()}
    over_time += [_together(f"Waiting pods over time{first}", Unit.NUMBER, shown, waiting)] if shown else []
    return [*over_time, *_waits(runs)]


def _first(number: int) -> str:
    return f", the first {COLOURS} of {number} runs" if number > COLOURS else ""


def _together(
    title: str, unit: Unit, curves: Mapping[str, RunCurves], values: Mapping[str, Sequence[float]]
) -> CurvePlot:
    """Stairs over the edges of all curves: no value is averaged anew, and the curve of a short run ends before the others."""
    edges_s = sorted({edge for name in values for edge in curves[name].edges_seconds})
    return CurvePlot(
        title,
        edges_s,
        {name: on_edges(edges_s, curves[name].edges_seconds, each) for name, each in values.items()},
        unit,
    )


def on_edges(edges_s: Sequence[float], own_s: Sequence[float], values: Sequence[float]) -> list[float]:
    """Stairs over more edges, which have all of its own, and none before the first of them.

    | edges 0 1 2 3, own 0 2, values 5 | 5 5 |
    """
    found, span = [], 0
    for begin_s, _ in pairwise(edges_s):
        while span < len(values) and own_s[span + 1] <= begin_s:
            span += 1
        if span == len(values):
            break
        found.append(values[span])
    return found


def _waits(runs: Mapping[str, RunFigures]) -> list[AnswerPlot]:
    counted = {name: figures.wait_counts for name, figures in runs.items() if any(figures.wait_counts)}
    if not counted:
        return []
    shown = dict([*counted.items()][:COLOURS])
    groups = max(len(counts) for counts in shown.values())
    bars = {
        name: [float(count) for count in [*counts, *[0] * (groups - len(counts))]] for name, counts in shown.items()
    }
    title = f"Pods by the time from arrival to binding{_first(len(counted))}"
    return [BarPlot(title, wait_labels(groups), bars)]


Placements = Mapping[str, str | None]
"""Pod -> its node; None for a pod that has none in the end, because it is pending or was preempted. Of the pods that ran
before, only those that were preempted."""

PLACEMENTS = 200_000
"""Of runs with more pods only a digest of the placements is kept: they differ or not, but nobody says which."""

_NO_POD = -1
"""In columns: a pod that this run does not have, because it has another load."""
_BLOCK = 1 << 22
"""How many numbers of the table are looked at together."""
_LARGEST_BYTES = 128 << 20
"""The most that placements of a results file may have when they are unpacked: so many pods with the longest names."""


def placements_digest(placements: Placements) -> str:
    """A digest that is equal for equal nodes, in whatever order pods were placed."""
    total = hashlib.sha256()
    for pod, node in sorted(placements.items()):
        total.update(f"{pod} {node or ''}\n".encode())
    return total.hexdigest()[:16]


def pack(placements: Placements) -> str:
    """As a cell of a results file: some 3 bytes for each pod."""
    by_node: dict[str, list[str]] = {}
    for pod, node in placements.items():
        by_node.setdefault(node or "", []).append(pod)
    return base64.b64encode(zlib.compress(json.dumps(by_node).encode(), 6)).decode()


def unpack(cell: str) -> dict[str, str | None]:
    """Empty if the cell is. Raises ValueError for a cell that is not packed placements."""
    if not cell:
        return {}
    try:
        by_node: Any = json.loads(inflated(base64.b64decode(cell, validate=True), _LARGEST_BYTES))
    except BadGzip as error:
        raise ValueError("the placements are not complete") from error
    if not isinstance(by_node, dict):
        raise ValueError("the placements are not complete")
    return {pod: node or None for node, pods in by_node.items() for pod in pods}


class PlacementTable:
    """A column of nodes for each run. Nodes are numbers, so that a hundred runs of 100,000 pods take 40 MB."""

    def __init__(self, before: Mapping[str, str]) -> None:
        """`before` has the nodes of the pods that ran already; runs name only those of them that they preempted."""
        self._before = before
        self._pods: dict[str, int] = {}
        self._nodes: dict[str | None, int] = {}
        self._names: list[str | None] = []
        """None, which stands for no node, has a number as well."""
        self._columns: list[NDArray[np.int32]] = []

    def add(self, placements: Placements) -> None:
        """The next run."""
        pods, number = self._pods, self._number
        for pod in placements:
            pods.setdefault(pod, len(pods))
        column = np.full(len(pods), _NO_POD, np.int32)
        column[[pods[pod] for pod in placements]] = [number(node) for node in placements.values()]
        self._columns.append(column)

    def _number(self, node: str | None) -> int:
        found = self._nodes.setdefault(node, len(self._nodes))
        if found == len(self._names):
            self._names.append(node)
        return found

    def _blocks(self) -> Iterator[tuple[int, NDArray[np.int32]]]:
        """Runs x pods, a block of pods at a time, each with the place of its first pod. A pod that a run does not name is
        where it was before, or not there."""
        before = [self._number(self._before[pod]) if pod in self._before else _NO_POD for pod in self._pods]
        size = max(_BLOCK // len(self._columns), 1)
        for begin in range(0, len(before), size):
            block = np.tile(np.array(before[begin : begin + size], np.int32), (len(self._columns), 1))
            for row, column in zip(block, self._columns, strict=True):
                part = column[begin : begin + size]
                np.copyto(row[: len(part)], part, where=part != _NO_POD)
            yield begin, block

    def moved(self) -> list[int]:
        """For each run how many pods have another node than in the first run, of the pods that both have."""
        counts = np.zeros(len(self._columns), np.int64)
        for _, block in self._blocks():
            both = (block != _NO_POD) & (block[:1] != _NO_POD)
            counts += np.count_nonzero(both & (block != block[:1]), axis=1)
        return [int(count) for count in counts]

    def differences(self, most: int) -> tuple[int, list[tuple[str, list[str | None]]]]:
        """How many pods have nodes that differ between the runs that have the pod; and `most` of them, by name, each with
        its node in each run."""
        keys, found = [*self._pods], list[tuple[str, list[int]]]()
        count = 0
        for begin, block in self._blocks():
            there = block != _NO_POD
            highest = np.where(there, block, np.iinfo(np.int32).min).max(0)
            lowest = np.where(there, block, np.iinfo(np.int32).max).min(0)
            places = np.flatnonzero(highest > lowest).tolist()
            count += len(places)
            found += ((keys[begin + place], block[:, place].tolist()) for place in places[: most - len(found)])
        return count, [(pod, self._shown(column)) for pod, column in sorted(found)]

    def _shown(self, column: Sequence[int]) -> list[str | None]:
        return [self._names[number] if number >= 0 else None for number in column]
