"""Every table, sentence and plot of a comparison whose runs have all figures, pod groups included; written by hand."""

from typing import Any

import msgspec
import pytest

from mooring.answers.experiments.comparison import ComparedRun, Comparison, PlacementDifference
from mooring.answers.experiments.figures import (
    GroupFigures,
    RunCurves,
    RunFigures,
    UseFigures,
    WaitFigures,
    course_plots,
    wait_figures,
)
from mooring.answers.experiments.run_plan import RunPlan
from mooring.answers.form.report_parts import BarPlot, CurvePlot, Unit
from mooring.framework import config as configuration

CONFIG = configuration.default()


def all_of(number: int) -> RunFigures:
    """A run in which every figure is this number."""
    each = float(number)
    waits, use = WaitFigures(each, each, each, each), UseFigures(each, each)
    return RunFigures(
        pods=number,
        placed=number,
        pending=number,
        preempted=number,
        attempts=number,
        simulated_seconds=each,
        waits=waits,
        waits_by_priority=[],
        utilisation={"cpu": use, "memory": use},
        fragmentation={"cpu": each, "memory": each},
        nodes_used=number,
        node_hours=each,
        cost=each,
        groups=GroupFigures(number, number, waits),
    )


def a_run(name: str, figures: RunFigures, moved: int | None = 0, **vary: Any) -> ComparedRun:
    return ComparedRun(
        RunPlan(name, "own", CONFIG, tuple(vary.items()), vary.get("seed"), vary.get("load", 1.0)), figures, "d", moved
    )


def a_comparison(unit: str = "price") -> Comparison:
    return Comparison([a_run("low", all_of(1)), a_run("high", all_of(3), 2)], [], 2, unit)


# ---- printed

COUNT, TIME, SHARE = ("1", "3 (+2)"), ("1.0s", "3.0s (+2.0s)"), ("100.0%", "300.0% (+200.0)")
EVERY = [
    ("run", "low", "high"),
    ("placed", *COUNT),
    ("pending", *COUNT),
    ("preempted", *COUNT),
    ("attempts", *COUNT),
    ("wait p50", *TIME),
    ("wait p95", *TIME),
    ("wait p99", *TIME),
    ("wait max", *TIME),
    ("cpu mean", *SHARE),
    ("cpu peak", *SHARE),
    ("memory mean", *SHARE),
    ("memory peak", *SHARE),
    ("cpu fragmented", *SHARE),
    ("memory fragmented", *SHARE),
    ("nodes used", *COUNT),
    ("node hours", *COUNT),
    ("cost", *COUNT),
    ("groups placed", *COUNT),
    ("groups pending", *COUNT),
    ("group wait p50", *TIME),
    ("group wait p95", *TIME),
    ("group wait p99", *TIME),
    ("group wait max", *TIME),
    ("moved", 0, 2),
]
MAIN = [
    *("run", "placed", "pending", "preempted", "attempts", "wait p50", "wait p99"),
    *("groups placed", "groups pending", "group wait p50", "group wait max"),
    *("cpu mean", "memory mean", "cpu fragmented", "memory fragmented", "nodes used", "node hours", "cost", "moved"),
]


def test_the_detailed_table_has_every_figure_and_the_first_one_the_main_ones() -> None:
    main, _, every, *_ = a_comparison().tables()
    assert [*zip(every.columns, *every.rows, strict=True)] == EVERY
    cells = {title: row for title, *row in EVERY}
    assert [*main.columns] == MAIN
    assert [*zip(*main.rows, strict=True)] == [tuple(cells[title]) for title in MAIN]


def test_a_figure_that_only_one_run_has_is_shown_without_a_difference() -> None:
    bare = msgspec.structs.replace(all_of(1), fragmentation={"cpu": None, "memory": None}, groups=msgspec.UNSET)
    for runs, cells in (
        ((a_run("bare", bare), a_run("full", all_of(3))), ("-", "300.0%")),
        ((a_run("full", all_of(3)), a_run("bare", bare)), ("300.0%", "-")),
    ):
        table = Comparison([*runs]).tables()[2]
        found = {title: row for title, *row in zip(table.columns, *table.rows, strict=True)}
        assert found["cpu fragmented"] == [*cells]
        difference = runs[1].published(runs[0]).content()["difference"]
        assert difference["fragmentation.cpu"] is None and difference["groups.placed"] is None
        assert difference["cost"] == runs[1].figures.cost - runs[0].figures.cost


def test_numbers_have_two_decimals_at_most_and_no_zeros_at_the_end() -> None:
    figures = [msgspec.structs.replace(all_of(1), cost=cost) for cost in (10.0, 10.5, 7.126, 100.0)]
    answer = Comparison([a_run(str(i), each) for i, each in enumerate(figures)], cost_unit="price")
    table = answer.tables()[0]
    place = table.columns.index("cost")
    assert [row[place] for row in table.rows] == ["10", "10.5 (+0.5)", "7.13 (-2.87)", "100 (+90)"]


def test_differences_below_a_billionth_are_noise() -> None:
    first = a_run("first", msgspec.structs.replace(all_of(1), cost=0.1))
    for cost, expected in ((0.1 + 2e-10, 0.0), (0.3, 0.2), (0.1 + 2e-9, 2e-9)):
        run = a_run("other", msgspec.structs.replace(all_of(1), cost=cost))
        assert run.published(first).content()["difference"]["cost"] == expected


def test_waits_are_kept_to_the_nanosecond() -> None:
    assert wait_figures([1 / 3]).p50_seconds == 0.333333333


def test_the_summary_counts_the_pods_of_the_largest_run_and_names_six_figures() -> None:
    assert a_comparison("nodes").summary() == [
        "2 runs of 3 pods: 2 pods have different nodes.",
        "Best in placed (3), cpu mean (300.0%), cpu peak (300.0%), memory mean (300.0%), memory peak (300.0%), "
        "groups placed (3): high.",
        "Best in pending (1), preempted (1), attempts (1), wait p50 (1.0s), wait p95 (1.0s), wait p99 (1.0s) "
        "and 10 more: low.",
    ]
    assert Comparison([a_run("high", all_of(3)), a_run("low", all_of(1))]).summary()[0].startswith("2 runs of 3 pods: ")


def test_a_figure_that_several_runs_lead_has_no_winner() -> None:
    runs = [a_run("one", all_of(1)), a_run("two", all_of(1))]
    assert Comparison(runs).summary() == ["2 runs of 1 pod: every pod has the same node in all of them."]
    best = Comparison(runs, cost_unit="price").tables()[3]
    assert len(best.rows) == 23 and {row[2] for row in best.rows} == {"one, two"}
    assert best.rows[-1] == ("group wait max", "1.0s", "one, two") and best.rows[16] == ("cost", "1", "one, two")


# ---- drawn


def test_every_drawing_of_figures() -> None:
    counts, values = [1, 3], [1.0, 3.0]
    names = ["low", "high"]
    assert a_comparison().plots() == [
        BarPlot("Requested share, on average", names, {"cpu mean": values, "memory mean": values}, Unit.SHARE),
        BarPlot(
            "Time from arrival to binding",
            names,
            {"wait p50": values, "wait p95": values, "wait p99": values},
            Unit.SECONDS,
        ),
        BarPlot(
            "Free room that pods cannot use", names, {"cpu fragmented": values, "memory fragmented": values}, Unit.SHARE
        ),
        BarPlot(
            "Pods without a node, and preempted pods", names, {"pending": counts, "preempted": counts}, Unit.NUMBER
        ),
        BarPlot("Pod groups without nodes", names, {"groups pending": counts}, Unit.NUMBER),
        BarPlot(
            "Time until pod groups were placed",
            names,
            {"group wait p50": values, "group wait max": values},
            Unit.SECONDS,
        ),
        BarPlot("Nodes in use", names, {"nodes used": counts}, Unit.NUMBER),
        BarPlot("Cost", names, {"cost": values}, Unit.NUMBER),
        BarPlot("Pods with another node than under low", names, {"pods": [0.0, 2.0]}, Unit.NUMBER),
    ]


@pytest.mark.parametrize("moved", [0, None], ids=["no pod moved", "only digests are known"])
def test_pods_that_do_not_move_are_not_drawn(moved: int | None) -> None:
    answer = Comparison([a_run("low", all_of(1), moved), a_run("high", all_of(3), moved)])
    assert not any("another node" in plot.title for plot in answer.plots())


def with_course(curves: RunCurves | None, *wait_counts: int) -> RunFigures:
    return msgspec.structs.replace(all_of(1), curves=curves, wait_counts=[*wait_counts])


def test_the_course_of_runs_of_different_lengths() -> None:
    short = RunCurves([0.0, 10.0, 20.0], {"cpu": [0.25, 0.5], "memory": [0.1, 0.2]}, [1.0, 2.0])
    long = RunCurves([0.0, 15.0, 30.0], {"cpu": [0.75, 1.0]}, [3.0, 4.0])
    drawn = course_plots({"short": with_course(short, 1), "long": with_course(long, 0, 2, 3)})
    edges = [0.0, 10.0, 15.0, 20.0, 30.0]
    assert drawn == [
        CurvePlot(
            "Requested cpu over time",
            edges,
            {"short": [0.25, 0.5, 0.5], "long": [0.75, 0.75, 1.0, 1.0]},
            Unit.SHARE,
        ),
        CurvePlot("Requested memory over time", [0.0, 10.0, 20.0], {"short": [0.1, 0.2]}, Unit.SHARE),
        CurvePlot(
            "Waiting pods over time", edges, {"short": [1.0, 2.0, 2.0], "long": [3.0, 3.0, 4.0, 4.0]}, Unit.NUMBER
        ),
        BarPlot(
            "Pods by the time from arrival to binding",
            ["up to 10 ms", "up to 100 ms", "up to 1 s"],
            {"short": [1.0, 0.0, 0.0], "long": [0.0, 2.0, 3.0]},
            Unit.NUMBER,
        ),
    ]


def test_six_runs_are_drawn_together_and_of_seven_the_first_six() -> None:
    curves = RunCurves([0.0, 1.0], {"cpu": [0.5]}, [1.0])
    for runs, ending in ((6, ""), (7, ", the first 6 of 7 runs")):
        cpu, waiting, bars = course_plots({f"run {i}": with_course(curves, 1) for i in range(runs)})
        assert isinstance(cpu, CurvePlot) and isinstance(waiting, CurvePlot) and isinstance(bars, BarPlot)
        assert [plot.title for plot in (cpu, waiting, bars)] == [
            f"Requested cpu over time{ending}",
            f"Waiting pods over time{ending}",
            f"Pods by the time from arrival to binding{ending}",
        ]
        first = [f"run {i}" for i in range(6)]
        assert [*cpu.curves] == [*waiting.curves] == [*bars.bars] == first


def test_runs_in_which_no_pod_was_bound_have_no_bars_of_waits() -> None:
    assert course_plots({"one": with_course(None, 0, 0), "two": with_course(None)}) == []


# ---- as data

FRAME: dict[str, tuple[type, object, object]] = {
    "run": (str, "low", "high"),
    "config": (str, "own", "own"),
    "seed": (int, 1, None),
    "load": (float, 0.5, 1.0),
    "a.b": (object, None, 7),
    "pods": (int, 1, 3),
    "placed": (int, 1, 3),
    "pending": (int, 1, 3),
    "preempted": (int, 1, 3),
    "attempts": (int, 1, 3),
    "waits_p50_seconds": (float, 1.0, 3.0),
    "waits_p95_seconds": (float, 1.0, 3.0),
    "waits_p99_seconds": (float, 1.0, 3.0),
    "waits_max_seconds": (float, 1.0, 3.0),
    "utilisation_cpu_mean_percent": (float, 100.0, 300.0),
    "utilisation_cpu_peak_percent": (float, 100.0, 300.0),
    "utilisation_memory_mean_percent": (float, 100.0, 300.0),
    "utilisation_memory_peak_percent": (float, 100.0, 300.0),
    "fragmentation_cpu_percent": (float, 100.0, 300.0),
    "fragmentation_memory_percent": (float, 100.0, 300.0),
    "nodes_used": (int, 1, 3),
    "node_hours": (float, 1.0, 3.0),
    "cost": (float, 1.0, 3.0),
    "groups_placed": (int, 1, 3),
    "groups_pending": (int, 1, 3),
    "groups_waits_p50_seconds": (float, 1.0, 3.0),
    "groups_waits_p95_seconds": (float, 1.0, 3.0),
    "groups_waits_p99_seconds": (float, 1.0, 3.0),
    "groups_waits_max_seconds": (float, 1.0, 3.0),
    "moved": (int, 0, 2),
}


def test_the_frame_of_runs_has_every_figure_and_its_difference_to_the_first() -> None:
    runs = [a_run("low", all_of(1), seed=1, load=0.5), a_run("high", all_of(3), 2, **{"a.b": 7})]
    table = Comparison(runs, [], 2, "price").data_tables()["runs"]
    compared = [*FRAME][6:-1]
    kinds = {name: kind for name, (kind, _, _) in FRAME.items()}
    assert [*table.columns.items()] == [
        *kinds.items(),
        *((f"{name}_difference", kinds[name]) for name in compared),
    ]
    low, high = table.rows
    more = [200.0 if "percent" in name else 2 for name in compared]
    assert low == (*(low for _, low, _ in FRAME.values()), *[0] * len(compared))
    assert high == (*(high for _, _, high in FRAME.values()), *more)


def test_a_frame_lacks_figures_that_no_run_has_and_has_gaps_for_those_that_one_lacks() -> None:
    alone = msgspec.structs.replace(
        all_of(1), node_hours=None, groups=msgspec.UNSET, fragmentation={"cpu": None, "memory": 0.5}
    )
    both = msgspec.structs.replace(alone, fragmentation={"cpu": 0.25, "memory": 0.5})
    table = Comparison([a_run("one", alone), a_run("two", both)]).data_tables()["runs"]
    assert not any(name.startswith(("node_hours", "groups", "cost")) for name in table.columns)
    gaps = [dict(zip(table.columns, row, strict=True)) for row in table.rows]
    assert [row["fragmentation_cpu_percent"] for row in gaps] == [None, 25.0]
    assert [row["fragmentation_cpu_percent_difference"] for row in gaps] == [None, None]
    assert [row["fragmentation_memory_percent_difference"] for row in gaps] == [0.0, 0.0]


def test_frames_of_pods_waits_and_utilisation_have_these_columns() -> None:
    answer = Comparison([a_run("low", all_of(1)), a_run("high", all_of(3))], [PlacementDifference("p", ["n", None])], 1)
    tables = answer.data_tables()
    assert [*tables] == ["runs", "pods", "waits", "utilisation"]
    assert tables["pods"].columns == {"pod": str, "run": str, "node": str}
    assert tables["waits"].columns == {
        "run": str,
        **dict.fromkeys(("priority", "bound", "pending", "preempted"), int),
        **dict.fromkeys(("p50_seconds", "p95_seconds", "p99_seconds", "max_seconds"), float),
    }
    assert tables["utilisation"].columns == {"run": str, "resource": str, "mean_percent": float, "peak_percent": float}
    assert [*tables["utilisation"].rows] == [
        ("low", "cpu", 100.0, 100.0),
        ("low", "memory", 100.0, 100.0),
        ("high", "cpu", 300.0, 300.0),
        ("high", "memory", 300.0, 300.0),
    ]


def test_a_varied_value_that_json_cannot_have_is_written_as_text() -> None:
    run = a_run("one", all_of(1), path=1 + 2j)
    assert run.published(run).content()["vary"] == {"path": "(1+2j)"}
