"""The course of compared runs: curves of several runs in one drawing, and how long pods waited."""

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from page_reading import plots_of, read_page

from build import a_node
from mooring.answers.experiments.comparing import compare
from mooring.answers.experiments.figures import RunCurves, RunFigures, WaitFigures, course_plots, on_edges
from mooring.answers.form.report_parts import BandPlot, BarPlot, CurvePlot
from mooring.framework import config as configuration
from mooring.inputs.loaded_cluster import LoadedCluster

ARRIVALS: list[dict[str, Any]] = [
    {"at": 0, "every": "1m", "until": "20m", "name": "job", "cpu": "1", "memory": "1Gi", "run": "5m"},
    {"at": "2m", "count": 5, "name": "big", "cpu": "3", "run": "30m"},
]
CLUSTER = LoadedCluster([a_node(f"n-{i}", cpu="4", memory="8Gi") for i in range(3)], configuration.default())


def figures(curves: RunCurves | None, wait_counts: list[int]) -> RunFigures:
    return RunFigures(0, 0, 0, 0, 0, 0.0, WaitFigures(), [], {}, {}, 0, None, 0.0, [], wait_counts, curves)


def test_a_report_has_the_curves_of_all_runs() -> None:
    answer = compare(CLUSTER, vary={"load": [0.5, 1]}, arrivals=ARRIVALS, processes=1)
    names = [run.plan.name for run in answer.runs]
    drawn = {plot.title: plot for plot in answer.plots()}
    for title in ("Requested cpu over time", "Requested memory over time", "Waiting pods over time"):
        plot = drawn[title]
        assert isinstance(plot, CurvePlot) and [*plot.curves] == names
        assert len(plot.edges_s) == max(map(len, plot.curves.values())) + 1
    bars = drawn["Pods by the time from arrival to binding"]
    assert isinstance(bars, BarPlot)
    bound = [sum(each.bound for each in run.figures.waits_by_priority) for run in answer.runs]
    assert [sum(value or 0 for value in bars.bars[name]) for name in names] == bound
    assert {*drawn} <= {*plots_of(read_page(answer.to_html()))}


def test_the_curves_are_those_of_the_day() -> None:
    (first, _) = compare(CLUSTER, vary={"seed": [1, 2]}, arrivals=ARRIVALS, processes=1).runs
    curves = first.figures.curves
    assert curves is not None and curves.edges_seconds[-1] == first.figures.simulated_seconds
    lengths = [end - begin for begin, end in zip(curves.edges_seconds, curves.edges_seconds[1:], strict=False)]
    for resource, use in first.figures.utilisation.items():
        shares = curves.utilisation[resource]
        mean = sum(map(float.__mul__, shares, lengths)) / sum(lengths)
        assert mean == pytest.approx(use.mean, abs=1e-3) and max(shares) == pytest.approx(use.peak, abs=1e-4)


def test_pods_that_arrive_at_once_have_no_curves_but_times() -> None:
    answer = compare(CLUSTER, vary={"seed": [1, 2]}, processes=1)
    assert [run.figures.curves for run in answer.runs] == [None, None]
    assert not [plot for plot in answer.plots() if isinstance(plot, CurvePlot)]


def test_a_drawing_has_as_many_runs_as_can_be_told_apart() -> None:
    curves = RunCurves([0.0, 1.0], {"cpu": [0.5]}, [1.0])
    plots = course_plots({f"run-{i}": figures(curves, [1, 2]) for i in range(8)})
    assert [plot.title for plot in plots] == [
        "Requested cpu over time, the first 6 of 8 runs",
        "Waiting pods over time, the first 6 of 8 runs",
        "Pods by the time from arrival to binding, the first 6 of 8 runs",
    ]


def test_runs_of_an_earlier_version_have_none() -> None:
    curves = RunCurves([0.0, 1.0], {"cpu": [0.5]}, [1.0])
    plots = course_plots({"old": figures(None, []), "new": figures(curves, [3])})
    drawn = [plot for plot in plots if not isinstance(plot, BandPlot)]
    assert [[*(plot.curves if isinstance(plot, CurvePlot) else plot.bars)] for plot in drawn] == [["new"]] * 3
    assert course_plots({"old": figures(None, [])}) == []


def at(edges_s: Sequence[float], values: Sequence[float], moment_s: float) -> float | None:
    """The plain form: the value of the span that has the moment."""
    for begin_s, end_s, value in zip(edges_s, edges_s[1:], values, strict=False):
        if begin_s <= moment_s < end_s:
            return value
    return None


@given(st.lists(st.sets(st.integers(1, 30), min_size=1), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_stairs_over_more_edges_are_the_same_stairs(own: list[set[int]], random: Any) -> None:
    curves = [([0.0, *map(float, sorted(edges))], [random.random() for _ in edges]) for edges in own]
    edges_s = sorted({edge for mine, _ in curves for edge in mine})
    for mine, values in curves:
        drawn = on_edges(edges_s, mine, values)
        for half in range(61):
            assert at(edges_s, drawn, half / 2) == at(mine, values, half / 2)
