"""The course of runs in one drawing: requested shares and waiting pods over time, and how long pods waited."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

from mooring.answers.compare.figures import RunCurves, RunFigures
from mooring.answers.form.plots import COLOURS
from mooring.answers.form.report_parts import AnswerPlot, BarPlot, CurvePlot, Unit, wait_labels
from mooring.sim.day import DayReport
from mooring.sim.gauge import MAIN

DIGITS = 4
"""Of shares and counts in a curve: finer than a plot can show. A results file has a row of them for each run."""


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
    """The same stairs over more edges, which have all of its own, and none before the first of them.

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
