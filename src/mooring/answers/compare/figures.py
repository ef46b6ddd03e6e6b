"""The figures of a run: what configurations are compared by."""

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec
import numpy as np

QUANTILES = (0.5, 0.95, 0.99, 1.0)
"""Those of the fields of WaitFigures, in their order."""


class FigureStruct(msgspec.Struct, frozen=True, rename="camel"):
    """Figures are plain data: a public interface, and what a results file keeps."""


class WaitFigures(FigureStruct, frozen=True):
    """Time from arrival to binding, over the pods that were bound; None if there are none."""

    p50_seconds: float | None = None
    p95_seconds: float | None = None
    p99_seconds: float | None = None
    max_seconds: float | None = None


class PriorityFigures(FigureStruct, frozen=True):
    """The pods of one priority."""

    priority: int
    bound: int
    pending: int
    preempted: int
    waits: WaitFigures


class GroupFigures(FigureStruct, frozen=True):
    """The pod groups, each as one."""

    placed: int
    """How many got nodes for as many pods as they need."""
    pending: int
    waits: WaitFigures
    """From the arrival of the last pod that a group needs until so many are bound."""


class UseFigures(FigureStruct, frozen=True):
    """The requested share of what is allocatable on all nodes: the mean over time, and the highest mean of a sixtieth of the
    time. Both are the share at the end where all pods arrive at once."""

    mean: float
    peak: float


class RunCurves(FigureStruct, frozen=True):
    """Sixty spans of a day. Each value is the mean of its span."""

    edges_seconds: list[float]
    """When the spans begin, and when the last one ends."""
    utilisation: dict[str, list[float]]
    """The requested share of CPU and memory."""
    pending: list[float]
    """Pods that wait."""


class RunFigures(FigureStruct, frozen=True):
    """All figures of a run."""

    pods: int
    """How many pods arrived, or were pending at the beginning."""
    placed: int
    """Of those: how many were bound, and not preempted later."""
    pending: int
    """How many have no node in the end."""
    preempted: int
    """How many pods were preempted, of these and of those that ran before."""
    attempts: int
    simulated_seconds: float
    waits: WaitFigures
    waits_by_priority: list[PriorityFigures]
    utilisation: dict[str, UseFigures]
    fragmentation: dict[str, float | None]
    """By resource: the share of what is free that the pods that people run cannot use (fragmentation.py)."""
    nodes_used: int
    """How many nodes had, at least once, a pod that does not belong to a DaemonSet."""
    node_hours: float | None
    """How long nodes were in use; None where all pods arrive at once."""
    cost: float
    """In the unit that the comparison names: of these hours, or of an hour of the nodes in use; without prices the number of
    nodes used."""
    notes: list[str] = []
    """What a reader of the figures should know."""
    wait_counts: list[int] = []
    """Bound pods by how long they waited, in the groups of reports (report/parts.py), up to the last one that has any."""
    curves: RunCurves | None = None
    """None where all pods arrive at once."""
    groups: GroupFigures | msgspec.UnsetType = msgspec.UNSET
    """Only where the scheduler heeds pod groups, and there are any."""


def group_figures(groups: Sequence[tuple[bool, float | None]]) -> GroupFigures | msgspec.UnsetType:
    """Of groups, which come with whether they were placed, and how long they waited: None for one that ran before."""
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
COMPARED: Mapping[str, tuple[str, Better]] = {
    "placed": ("PLACED", max),
    "pending": ("PENDING", min),
    "preempted": ("PREEMPTED", min),
    "attempts": ("ATTEMPTS", min),
    "waits.p50Seconds": ("WAIT P50", min),
    "waits.p95Seconds": ("WAIT P95", min),
    "waits.p99Seconds": ("WAIT P99", min),
    "waits.maxSeconds": ("WAIT MAX", min),
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
    "groups.waits.p50Seconds": ("GROUP WAIT P50", min),
    "groups.waits.p95Seconds": ("GROUP WAIT P95", min),
    "groups.waits.p99Seconds": ("GROUP WAIT P99", min),
    "groups.waits.maxSeconds": ("GROUP WAIT MAX", min),
}
"""The same for runs with pod groups."""
ALL_COMPARED: Mapping[str, tuple[str, Better]] = {**COMPARED, **GROUPS_COMPARED}


def flat_figures(figures: RunFigures, paths: Iterable[str] = ALL_COMPARED) -> dict[str, float | None]:
    """The figures that runs are compared by, by path; None for one that the run does not have."""
    written = msgspec.to_builtins(figures)
    return {path: _at(written, path) for path in paths}


def _at(written: object, path: str) -> float | None:
    for step in path.split("."):
        written = written.get(step) if isinstance(written, dict) else None
    return written if isinstance(written, int | float) else None


def best_runs(figures: Mapping[str, RunFigures]) -> dict[str, dict[str, object]]:
    """For each figure the best value, and the runs that have it; without figures that no run has."""
    flat = {name: flat_figures(each) for name, each in figures.items()}
    best: dict[str, dict[str, object]] = {}
    for path, (_, better) in ALL_COMPARED.items():
        values = {name: value for name, each in flat.items() if (value := each[path]) is not None}
        if values:
            top = better(values.values())
            best[path] = {"value": top, "runs": [name for name, value in values.items() if value == top]}
    return best
