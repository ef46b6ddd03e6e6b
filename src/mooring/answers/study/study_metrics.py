"""Metrics of the runs of a study: figures of `mooring compare`, amounts that are allocated, and functions of users."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import msgspec

from mooring.answers.experiments.figures import ALL_COMPARED, RunFigures, column_of, flat_figures, in_column
from mooring.answers.form.data_table import percent_of
from mooring.api.validation.problem import Problem, show
from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.resource_amounts import NOWHERE
from mooring.framework.contract.status import describe
from mooring.inputs.field_checks import nearest
from mooring.inputs.input_errors import InputError
from mooring.kit.bounded_reading import read_file
from mooring.model.meta import Wire

FIGURES = {column_of(path): path for path in ALL_COMPARED}
"""Column -> path of the figure."""
ALLOCATED, FRAGMENTED, PYTHON, FIGURE = "allocated", "fragmented", "python", "figure"


class MetricEntry(Wire, omit_defaults=True):
    """A metric that needs more than a name: exactly one of `allocated`, `fragmented` and `python`."""

    allocated: str | None = None
    """A resource: the percentage of what all nodes have that pods on nodes request."""
    fragmented: str | None = None
    """A resource: the percentage of what is free that the pods of the workload cannot use, as a mean over their shapes."""
    python: str | None = None
    """FILE:FUNCTION: the function gets the run (docs/laboratory.md) and returns a number or None."""
    at: list[float] = msgspec.field(default_factory=list)
    """For pods that arrive one-by-one: take the metric when the pods that have arrived ask for these percentages of the
    resource of `until`. Empty: at the end."""
    column: str = ""
    """The name of the column; with `at`, its beginning. Empty: made from the metric."""


@dataclass(frozen=True, slots=True)
class Metric:
    """One or more columns of the results."""

    kind: str
    of: str
    """The path of a figure, a resource, or FILE:FUNCTION."""
    column: str
    at: tuple[float, ...] = ()

    @property
    def is_bounded(self) -> bool:
        """Whether there is a bound that no policy exceeds."""
        return self.kind == ALLOCATED and not self.at

    def columns(self) -> list[str]:
        return [at_column(self.column, percent) for percent in self.at] or [self.column]


def at_column(column: str, percent: float) -> str:
    return f"{column}_{percent:g}".replace(".", "_")


def columns_of(metrics: Iterable[Metric]) -> list[str]:
    return [column for metric in metrics for column in metric.columns()]


def metric_of(written: Any, path: str, folder: str) -> Metric | list[Problem]:
    """The metric of an entry of the file, or its problems."""
    if isinstance(written, str):
        return _figure(written, path)
    try:
        entry = msgspec.convert(written, MetricEntry)
    except msgspec.ValidationError as error:
        return [
            Problem(path, f"is no metric: {error}; write a name, or an object with allocated, fragmented or python")
        ]
    there = [kind for kind in (ALLOCATED, FRAGMENTED, PYTHON) if getattr(entry, kind) is not None]
    if len(there) != 1:
        return [Problem(path, f"has {' and '.join(there) or 'no metric'}; write one of allocated, fragmented, python")]
    (kind,) = there
    of: str = getattr(entry, kind)
    if any(not 0 < percent <= 10_000 for percent in entry.at) or len({*entry.at}) < len(entry.at):
        return [Problem(f"{path}.at", "has percentages that are twice there, or not above 0; correct them")]
    if kind == PYTHON:
        file, colon, function = of.rpartition(":")
        if not colon or not function.isidentifier():
            return [Problem(f"{path}.python", show(of), "FILE:FUNCTION, such as metrics.py:stranded")]
        of = f"{os.path.abspath(os.path.join(folder, file))}:{function}"
    return Metric(kind, of, entry.column or _own_column(kind, of, bool(entry.at)), tuple(sorted(entry.at)))


def _own_column(kind: str, of: str, has_moments: bool) -> str:
    if kind == PYTHON:
        return of.rpartition(":")[2]
    short = of.rpartition("/")[2].replace("-", "_")
    return f"{kind}_{short}_at" if has_moments else f"{kind}_{short}_percent"


def _figure(name: str, path: str) -> Metric | list[Problem]:
    """A figure by its path, as `mooring compare` has it, or by its column."""
    column = name if name in FIGURES else next((each for each, known in FIGURES.items() if known == name), None)
    if column is not None:
        return Metric(FIGURE, FIGURES[column], column)
    meant = nearest(name, [*FIGURES, *FIGURES.values()])
    hint = f"did you mean {meant}?" if meant else f"the metrics are {', '.join(FIGURES)}, and objects"
    return [Problem(path, f"{show(name)} is no metric; {hint}")]


# ---- values


class MetricFault(InputError):
    """A function of a user that failed."""


@dataclass(frozen=True, slots=True)
class StudiedRun:
    """A run at its end, or on its way: what a function of a metric gets."""

    cluster: str
    workload: str
    policy: str
    """The name of the configuration."""
    seed: int
    load: float
    figures: RunFigures
    """All figures; on the way, only those of pods."""
    placements: Mapping[str, str | None]
    """Pod (namespace/name) -> its node; None for a pod without one. On the way, and with very many pods, only some are
    there."""
    state: Cluster
    """The cluster with its node table: `state.nodes` is what plugins see (`mooring.plugin.NodeTable`)."""
    fragmented: Callable[[str], float | None]
    """The share of a free resource that pods of the workload cannot use."""

    def allocatable(self, resource: str) -> int:
        """How much of a resource all nodes have: cpu in milli-CPUs, memory in bytes, others in whole units."""
        return amount_in(self.state, resource, is_requested=False)

    def requested(self, resource: str) -> int:
        """How much of it the pods on nodes request."""
        return amount_in(self.state, resource, is_requested=True)


def amount_in(cluster: Cluster, resource: str, is_requested: bool) -> int:
    """How much of a resource all nodes have, or how much the pods on them request, in the units of the node table."""
    nodes = cluster.nodes
    place = nodes.amounts.resource(resource)
    if place == NOWHERE:
        return 0
    matrix = nodes.amounts.requested if is_requested else nodes.amounts.allocatable
    rows = slice(0, nodes.height)
    return int(matrix[place, rows][nodes.alive[rows]].sum())


def values_at(metrics: Sequence[Metric], run: StudiedRun, percent: float | None = None) -> dict[str, float | None]:
    """The columns of the metrics that are taken when pods ask for this percentage; None: at the end. Raises MetricFault."""
    found: dict[str, float | None] = {}
    for metric in metrics:
        if percent is None and not metric.at:
            found[metric.column] = _value(metric, run)
        elif percent in metric.at:
            found[at_column(metric.column, percent)] = _value(metric, run)
    return found


def _value(metric: Metric, run: StudiedRun) -> float | None:
    if metric.kind == FIGURE:
        return in_column(metric.of, flat_figures(run.figures, [metric.of])[metric.of])
    if metric.kind == ALLOCATED:
        room = run.allocatable(metric.of)
        return 100 * run.requested(metric.of) / room if room else None
    if metric.kind == FRAGMENTED:
        return percent_of(run.fragmented(metric.of))
    return _called(metric.of, run)


def _called(of: str, run: StudiedRun) -> float | None:
    """The value of a metric that is a function of a user. Raises MetricFault."""
    file, _, name = of.rpartition(":")
    try:
        found = function_of(file, name)(run)
    except MetricFault:
        raise
    except Exception as error:  # the function of a user may raise anything
        raise MetricFault(f"{file}: {name}: {describe(error)}") from error
    if found is not None and (isinstance(found, bool) or not hasattr(found, "__float__")):
        raise MetricFault(f"{file}: {name} returned {show(found)}: return a number or None")
    return None if found is None else found if isinstance(found, int) else float(found)


@cache
def function_of(file: str, name: str) -> Callable[[StudiedRun], Any]:
    """The function in a file. Raises MetricFault."""
    scope: dict[str, Any] = {"__name__": "mooring_metric", "__file__": file}
    try:
        exec(compile(read_file(file), file, "exec"), scope)
    except OSError as error:
        raise MetricFault(f"{file}: cannot be read: {error.strerror}") from error
    except Exception as error:  # the file of a user may raise anything
        raise MetricFault(f"{file}: cannot be loaded: {describe(error)}") from error
    found = scope.get(name)
    if not callable(found):
        raise MetricFault(f"{file}: has no function {name}")
    return found  # type: ignore[no-any-return]
