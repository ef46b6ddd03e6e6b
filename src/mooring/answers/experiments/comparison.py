"""The answer of `mooring compare`: runs side by side, and the pods that go to other nodes."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar

from msgspec import Meta, to_builtins

from mooring.answers.experiments.figures import (
    ALL_COMPARED,
    COMPARED,
    SHARES,
    BestRuns,
    RunFigures,
    best_runs,
    column_of,
    course_plots,
    flat_figures,
    in_column,
)
from mooring.answers.experiments.run_plan import RunPlan
from mooring.answers.form.answer import AnswerPlot, AnswerTable, ClusterAnswer
from mooring.answers.form.data_table import Columns, DataTable, Row, data_table, percent_of
from mooring.answers.form.published import Count, Form, Number
from mooring.answers.form.report_parts import BarPlot, Unit
from mooring.kit.words import count, some
from mooring.model.quantity import show_percent
from mooring.sim.results import show_seconds

# ---- The tables of `to_frame` for a comparison: a row for each run, with columns for differences to the first.


NODES, PRICE_AN_HOUR, PRICE_OF_TIME = "nodes", "price an hour", "price"
"""The unit of costs without prices, and that of the costs of an hour."""
_DECIMAL = (*SHARES, "waits.", "groups.waits.", "nodeHours", "cost")
"""How paths of figures that are not whole numbers begin."""

Run = tuple[RunPlan, RunFigures, int | None]
"""A run with its figures, and how many pods have another node than in the first run; None if only digests are known."""


def run_table(runs: Sequence[Run], cost_unit: str) -> DataTable:
    """A row for each run. Figures that no run has are left out, and so are costs that are only numbers of nodes."""
    flat = [flat_figures(figures) for _, figures, _ in runs]
    paths = [path for path in ALL_COMPARED if any(each[path] is not None for each in flat)]
    paths = [path for path in paths if path != "cost" or cost_unit != NODES]
    varied = [*dict.fromkeys(name for plan, _, _ in runs for name, _ in plan.vary if name not in ("seed", "load"))]
    columns: dict[str, type] = {"run": str, "config": str, "seed": int, "load": float, **dict.fromkeys(varied, object)}
    columns |= {"pods": int, **{_column(path, cost_unit): _kind(path) for path in paths}, "moved": int}
    columns |= {f"{_column(path, cost_unit)}_difference": _kind(path) for path in paths}
    return data_table(columns, (_row(run, each, flat[0], paths, varied) for run, each in zip(runs, flat, strict=True)))


def _row(
    run: Run,
    own: Mapping[str, float | None],
    first: Mapping[str, float | None],
    paths: Sequence[str],
    varied: Sequence[str],
) -> Row:
    (plan, figures, moved), values = run, {path: in_column(path, own[path]) for path in paths}
    differences = (_minus(values[path], in_column(path, first[path])) for path in paths)
    chosen = dict(plan.vary)
    return (
        *(plan.name, plan.config_name, plan.seed, plan.load, *(chosen.get(name) for name in varied)),
        *(figures.pods, *values.values(), moved, *differences),
    )


def _column(path: str, cost_unit: str) -> str:
    if path == "cost":
        return "cost_per_hour" if cost_unit == PRICE_AN_HOUR else "cost"
    return column_of(path)


def _kind(path: str) -> type:
    return float if path.startswith(_DECIMAL) else int


def _minus(value: float | None, first: float | None) -> float | None:
    return None if value is None or first is None else value - first


def wait_table(figures: Mapping[str, RunFigures]) -> DataTable:
    """A row for each run and priority: how long pods waited."""
    times = dict.fromkeys(("p50_seconds", "p95_seconds", "p99_seconds", "max_seconds"), float)
    columns: Columns = {"run": str, "priority": int, "bound": int, "pending": int, "preempted": int, **times}
    rows = (
        (name, each.priority, each.bound, each.pending, each.preempted, *(getattr(each.waits, time) for time in times))
        for name, own in figures.items()
        for each in own.waits_by_priority
    )
    return data_table(columns, rows)


def use_table(figures: Mapping[str, RunFigures]) -> DataTable:
    """A row for each run and resource: the requested share of what is allocatable."""
    rows = (
        (name, resource, percent_of(use.mean), percent_of(use.peak))
        for name, own in figures.items()
        for resource, use in own.utilisation.items()
    )
    return data_table({"run": str, "resource": str, "mean_percent": float, "peak_percent": float}, rows)


RUNS_SHOWN = 6
"""With more runs than this the nodes of pods are shown only on request: each run is a column."""
MAIN = (
    "placed",
    "pending",
    "preempted",
    "attempts",
    "waits.p50Seconds",
    "waits.p99Seconds",
    "groups.placed",
    "groups.pending",
    "groups.waits.p50Seconds",
    "groups.waits.maxSeconds",
    "utilisation.cpu.mean",
    "utilisation.memory.mean",
    "fragmentation.cpu",
    "fragmentation.memory",
    "nodesUsed",
    "nodeHours",
    "cost",
)
"""The figures of the first table; another one, on request, has all."""
DRAWN = (
    ("Requested share, on average", Unit.SHARE, ("utilisation.cpu.mean", "utilisation.memory.mean")),
    ("Time from arrival to binding", Unit.SECONDS, ("waits.p50Seconds", "waits.p95Seconds", "waits.p99Seconds")),
    ("Free room that pods cannot use", Unit.SHARE, ("fragmentation.cpu", "fragmentation.memory")),
    ("Pods without a node, and preempted pods", Unit.NUMBER, ("pending", "preempted")),
    ("Pod groups without nodes", Unit.NUMBER, ("groups.pending",)),
    ("Time until pod groups were placed", Unit.SECONDS, ("groups.waits.p50Seconds", "groups.waits.maxSeconds")),
    ("Nodes in use", Unit.NUMBER, ("nodesUsed",)),
    ("Cost", Unit.NUMBER, ("cost",)),
)
"""The plots of a report."""


class ComparedRunForm(Form, frozen=True):
    """A run with its figures."""

    name: str
    """Unique among the runs."""
    config: str
    """The configuration: the name of its file, default or cluster."""
    config_digest: str
    """Equal for configurations that are equal with all defaults."""
    seed: int | None
    """Decides among nodes with the same score. Null: the lowest name is taken."""
    load: Annotated[Number, Meta(extra_json_schema={"exclusiveMinimum": 0})]
    """How many pods arrive, as a multiple of those that are given."""
    vary: dict[str, Any]
    """The values that --vary set in this run, by path."""
    figures: RunFigures
    difference: dict[str, Number | None]
    """By figure: this run minus the first one. Null where one of them does not have the figure."""
    moved: Count | None
    """How many pods have another node than in the first run, of the pods that both have. Null if only digests are kept."""
    placements_digest: str
    """Equal for runs that place the same pods on the same nodes."""


class PlacementDifferenceForm(Form, frozen=True):
    """A pod whose nodes differ between runs that have the pod."""

    pod: str
    """namespace/name"""
    nodes: dict[str, str | None]
    """By name of the run: the node of the pod. Null where the pod is pending or preempted, or where the run does not have it,
    because its load is another one."""


class ComparisonForm(Form, frozen=True):
    """Runs of the same cluster under several configurations, seeds and loads."""

    runs: Annotated[list[ComparedRunForm], Meta(min_length=2)]
    """The runs, the first configuration first. Differences are to the first run."""
    placements_differ: bool
    """Whether the placements of two runs with the same load differ."""
    differing: Count | None
    """How many pods have different nodes. Null if the runs have so many pods that only digests of placements are kept."""
    differences: list[PlacementDifferenceForm]
    """The pods whose nodes differ between runs that have the pod, by name. Cut at 1,000,000 nodes in all; a note says so."""
    best: dict[str, BestRuns]
    """By figure: the best value and the runs that have it. Less is better, except for placed, groups.placed and
    utilisation."""
    cost_unit: Annotated[str, Meta(extra_json_schema={"enum": [NODES, PRICE_AN_HOUR, PRICE_OF_TIME]})]
    """The meaning of `cost`: the number of nodes used, the price of an hour of the nodes used, or the price of the time
    that nodes were in use."""
    notes: list[str]


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A run with its figures."""

    plan: RunPlan
    figures: RunFigures
    placements_digest: str
    moved: int | None

    def published(self, first: "ComparedRun") -> ComparedRunForm:
        """The run in its published form, with the difference to the first one."""
        plan, vary = self.plan, json.loads(json.dumps(dict(self.plan.vary), default=str))
        how = (plan.name, plan.config_name, plan.config_digest, plan.seed, plan.load, vary)
        return ComparedRunForm(*how, self.figures, self.difference(first), self.moved, self.placements_digest)

    def difference(self, first: "ComparedRun") -> dict[str, float | None]:
        """By figure: this run minus the first; None where one of them has no such figure. Figures of pod groups are left out
        where neither run has groups."""
        own, other = flat_figures(self.figures), flat_figures(first.figures)
        pairs = {path: (own[path], other[path]) for path in ALL_COMPARED}
        pairs = {path: pair for path, pair in pairs.items() if path in COMPARED or pair != (None, None)}
        return {path: _minus(a, b) for path, (a, b) in pairs.items()}


@dataclass(frozen=True, slots=True)
class PlacementDifference:
    """A pod whose node is not the same in all runs that have the pod."""

    pod: str
    nodes: list[str | None]
    """By run; None where the pod has no node in the end, or where the run does not have the pod."""


@dataclass(repr=False)
class Comparison(ClusterAnswer):
    """Several runs of the same cluster."""

    kind: ClassVar[str] = "Comparison"
    form: ClassVar = ComparisonForm

    runs: list[ComparedRun]
    differences: list[PlacementDifference] = field(default_factory=list)
    differing: int | None = 0
    """How many pods differ; more than `differences` has if that was cut. None if only digests are known."""
    cost_unit: str = NODES
    """`nodes`; `price an hour`, of the nodes in use; or `price`, of the time that they were in use."""
    notes: list[str] = field(default_factory=list)

    @property
    def is_different(self) -> bool:
        """Whether the placements of two runs with the same load differ."""
        if self.differing is not None:
            return self.differing > 0
        digests = {(run.plan.load, run.placements_digest) for run in self.runs}
        return len(digests) > len({run.plan.load for run in self.runs})

    def best(self) -> dict[str, dict[str, object]]:
        """By figure: the best value, and the runs that have it."""
        found: dict[str, dict[str, object]] = to_builtins(self._best())
        return found

    def _best(self) -> dict[str, BestRuns]:
        return best_runs({run.plan.name: run.figures for run in self.runs})

    # ---- the form of an answer

    def summary(self) -> list[str]:
        pods = max(run.figures.pods for run in self.runs)
        told = f"{count(len(self.runs), 'run')} of {count(pods, 'pod')}"
        if self.differing is None:
            outcome = "the placements differ" if self.is_different else "the placements are the same"
        elif self.differing:
            outcome = f"{count(self.differing, 'pod')} {'has' if self.differing == 1 else 'have'} different nodes"
        else:
            outcome = "every pod has the same node in all of them"
        return [f"{told}: {outcome}.", *self._winners(), *(f"Note: {note}." for note in self.notes)]

    def _winners(self) -> Iterator[str]:
        """Which run is best by which figures, where one is."""
        by_run: dict[str, list[str]] = {}
        for path, best in self._best().items():
            is_shown = path != "cost" or self.cost_unit != NODES
            if is_shown and len(best.runs) == 1:
                shown = _shown(path, best.value)
                by_run.setdefault(best.runs[0], []).append(f"{ALL_COMPARED[path][0].lower()} ({shown})")
        if len(by_run) <= RUNS_SHOWN:
            for name, figures in by_run.items():
                yield f"Best in {some(figures, 6)}: {name}."

    def tables(self) -> list[AnswerTable]:
        names = [run.plan.name for run in self.runs]
        moved = [(each.pod, *(node or "-" for node in each.nodes)) for each in self.differences]
        return [
            self._figures("Runs, with the difference to the first", MAIN),
            AnswerTable("Pods with different nodes", ("pod", *names), moved, is_detail=len(names) > RUNS_SHOWN),
            self._figures("All figures", tuple(ALL_COMPARED), is_detail=True),
            AnswerTable("Best by figure", ("figure", "value", "runs"), [*self._best_rows()], is_detail=True),
            AnswerTable("Waiting times by priority", _WAIT_COLUMNS, [*self._wait_rows()], is_detail=True),
            AnswerTable("Utilisation", ("run", "resource", "mean", "peak"), [*self._use_rows()], is_detail=True),
        ]

    def plots(self) -> list[AnswerPlot]:
        """Each figure of a drawing for all runs, if a run has any of them."""
        flat = [flat_figures(run.figures) for run in self.runs]
        names = [run.plan.name for run in self.runs]
        plots: list[AnswerPlot] = []
        for title, unit, paths in DRAWN:
            shown = [path for path in paths if path != "cost" or self.cost_unit != NODES]
            bars = {ALL_COMPARED[path][0].lower(): [each[path] for each in flat] for path in shown}
            bars = {name: values for name, values in bars.items() if any(value is not None for value in values)}
            plots += [BarPlot(title, names, bars, unit)] if bars else []
        courses = course_plots({run.plan.name: run.figures for run in self.runs})
        return [*courses, *plots, *self._moved_plot(names)]

    def _moved_plot(self, names: Sequence[str]) -> list[AnswerPlot]:
        moved = [None if run.moved is None else float(run.moved) for run in self.runs]
        return [BarPlot(f"Pods with another node than under {names[0]}", names, {"pods": moved})] if any(moved) else []

    def data_tables(self) -> Mapping[str, DataTable]:
        figures = {run.plan.name: run.figures for run in self.runs}
        moved = (
            (each.pod, name, node) for each in self.differences for name, node in zip(figures, each.nodes, strict=True)
        )
        return {
            "runs": run_table([(run.plan, run.figures, run.moved) for run in self.runs], self.cost_unit),
            "pods": data_table({"pod": str, "run": str, "node": str}, moved),
            "waits": wait_table(figures),
            "utilisation": use_table(figures),
        }

    def published(self) -> ComparisonForm:
        names = [run.plan.name for run in self.runs]
        nodes = ((each.pod, dict(zip(names, each.nodes, strict=True))) for each in self.differences)
        return ComparisonForm(
            [run.published(self.runs[0]) for run in self.runs],
            self.is_different,
            self.differing,
            [PlacementDifferenceForm(*each) for each in nodes],
            self._best(),
            self.cost_unit,
            self.notes,
        )

    # ---- tables

    def _figures(self, title: str, paths: tuple[str, ...], is_detail: bool = False) -> AnswerTable:
        """A row for each run; figures that no run has are left out, and so are costs that are only numbers of nodes."""
        flat = [flat_figures(run.figures) for run in self.runs]
        shown = [path for path in paths if any(each[path] is not None for each in flat)]
        shown = [path for path in shown if path != "cost" or self.cost_unit != NODES]
        rows = [
            (run.plan.name, *(_cell(path, each[path], flat[0][path]) for path in shown), self._moved(run))
            for run, each in zip(self.runs, flat, strict=True)
        ]
        return AnswerTable(title, ("run", *(ALL_COMPARED[path][0].lower() for path in shown), "moved"), rows, is_detail)

    def _moved(self, run: ComparedRun) -> object:
        if run.moved is not None:
            return run.moved
        return "-" if run.placements_digest == self.runs[0].placements_digest else "some"

    def _best_rows(self) -> Iterator[tuple[object, ...]]:
        for path, best in self._best().items():
            yield ALL_COMPARED[path][0].lower(), _shown(path, best.value), some(best.runs)

    def _wait_rows(self) -> Iterator[tuple[object, ...]]:
        for run in self.runs:
            for each in run.figures.waits_by_priority:
                waits = each.waits
                times = (waits.p50_seconds, waits.p95_seconds, waits.p99_seconds, waits.max_seconds)
                shown = (show_seconds(time_s) for time_s in times)
                yield run.plan.name, each.priority, each.bound, *shown, each.pending, each.preempted

    def _use_rows(self) -> Iterator[tuple[object, ...]]:
        for run in self.runs:
            for name, use in run.figures.utilisation.items():
                yield run.plan.name, name, show_percent(use.mean), show_percent(use.peak)


_WAIT_COLUMNS = ("run", "priority", "bound", "p50", "p95", "p99", "max", "pending", "preempted")


# ---- cells


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


_FORMS: Mapping[str, Callable[[float], str]] = {
    "waits": show_seconds,
    "utilisation": show_percent,
    "fragmentation": show_percent,
}
"""How figures are shown, by the first step of their path, or the first one of the figures of groups."""


def _form(path: str) -> Callable[[float], str]:
    return _FORMS.get(path.removeprefix("groups.").partition(".")[0], _number)


def _shown(path: str, value: object) -> str:
    return _form(path)(value) if isinstance(value, int | float) else "-"


def _cell(path: str, value: float | None, first: float | None) -> str:
    """`12 (+3)`: a figure, and how much more it is than that of the first run; shares in percentage points."""
    if value is None or first is None or value == first:
        return _shown(path, value)
    change = value - first
    shown = _form(path)(abs(change)).removesuffix("%")
    return f"{_shown(path, value)} ({'+' if change > 0 else '-'}{shown})"
