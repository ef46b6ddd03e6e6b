"""The answer of `mooring compare`: runs side by side, and the pods that go to other nodes."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import msgspec

from mooring.answers.answer import AnswerPlot, AnswerTable, ClusterAnswer
from mooring.answers.compare.curves import course_plots
from mooring.answers.compare.figures import ALL_COMPARED, COMPARED, RunFigures, best_runs, flat_figures
from mooring.answers.compare.run_plan import RunPlan
from mooring.answers.compare.run_tables import NODES, run_table, use_table, wait_table
from mooring.answers.data_table import DataTable, data_table
from mooring.answers.report.parts import BarPlot, Unit
from mooring.model.quantity import show_percent
from mooring.sim.results import show_seconds
from mooring.sim.simulated_cluster import count, some

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


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """A run with its figures."""

    plan: RunPlan
    figures: RunFigures
    placements_digest: str
    moved: int | None
    """How many pods have another node than in the first run; None if only digests are known."""

    def content(self, first: "ComparedRun") -> dict[str, Any]:
        return {
            "name": self.plan.name,
            "config": self.plan.config_name,
            "configDigest": self.plan.config_digest,
            "seed": self.plan.seed,
            "load": self.plan.load,
            "vary": json.loads(json.dumps(dict(self.plan.vary), default=str)),
            "figures": msgspec.to_builtins(self.figures),
            "difference": self.difference(first),
            "moved": self.moved,
            "placementsDigest": self.placements_digest,
        }

    def difference(self, first: "ComparedRun") -> dict[str, float | None]:
        """By figure: this run minus the first; None where one of them has no such figure. Figures of pod groups are left out
        where neither run has groups."""
        own, other = flat_figures(self.figures), flat_figures(first.figures)
        pairs = {path: (own[path], other[path]) for path in ALL_COMPARED}
        pairs = {path: pair for path, pair in pairs.items() if path in COMPARED or pair != (None, None)}
        return {path: None if a is None or b is None else _rounded(a - b) for path, (a, b) in pairs.items()}


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
        for path, best in self.best().items():
            names = best["runs"]
            is_shown = path != "cost" or self.cost_unit != NODES
            if is_shown and isinstance(names, list) and len(names) == 1:
                shown = _shown(path, best["value"])
                by_run.setdefault(names[0], []).append(f"{ALL_COMPARED[path][0].lower()} ({shown})")
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

    def content(self) -> dict[str, Any]:
        names = [run.plan.name for run in self.runs]
        return {
            "runs": [run.content(self.runs[0]) for run in self.runs],
            "placementsDiffer": self.is_different,
            "differing": self.differing,
            "differences": [
                {"pod": each.pod, "nodes": dict(zip(names, each.nodes, strict=True))} for each in self.differences
            ],
            "best": self.best(),
            "costUnit": self.cost_unit,
            "notes": self.notes,
        }

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
        for path, best in self.best().items():
            names = best["runs"]
            assert isinstance(names, list)
            yield ALL_COMPARED[path][0].lower(), _shown(path, best["value"]), some(names)

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


def _rounded(value: float) -> float:
    """Differences of figures without the noise of the last bits."""
    return round(value, 9)


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
