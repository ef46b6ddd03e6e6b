"""The answer of a comparison, word for word, of figures that are written by hand."""

from typing import Any

import msgspec
import pytest

from mooring.answers.experiments.compared_run import RunInputs, RunResult
from mooring.answers.experiments.comparing import comparison_of
from mooring.answers.experiments.comparison import ComparedRun, Comparison, PlacementDifference
from mooring.answers.experiments.figures import (
    GroupFigures,
    PriorityFigures,
    RunFigures,
    UseFigures,
    WaitFigures,
    group_figures,
    wait_figures,
)
from mooring.answers.experiments.run_plan import RunPlan
from mooring.answers.form.data_table import DataTable
from mooring.framework import config as configuration

CONFIG = configuration.default()
FIRST = RunFigures(
    pods=10,
    placed=8,
    pending=2,
    preempted=1,
    attempts=12,
    simulated_seconds=60.0,
    waits=WaitFigures(1.0, 2.0, 3.0, 4.0),
    waits_by_priority=[PriorityFigures(5, 8, 2, 1, WaitFigures(1.0, 2.0, 3.0, 4.0))],
    utilisation={"cpu": UseFigures(0.5, 0.75), "memory": UseFigures(0.25, 0.5)},
    fragmentation={"cpu": 0.125, "memory": None},
    nodes_used=4,
    node_hours=2.5,
    cost=7.5,
)
SECOND = msgspec.structs.replace(
    FIRST,
    placed=10,
    pending=0,
    waits=WaitFigures(1.0, 2.0, 2.5, 4.0),
    utilisation={"cpu": UseFigures(0.625, 0.75), "memory": UseFigures(0.25, 0.5)},
    nodes_used=5,
    cost=8.25,
)


def a_plan(name: str, load: float = 1.0, **vary: Any) -> RunPlan:
    return RunPlan(name, "cluster", CONFIG, tuple(vary.items()), vary.get("seed"), load)


def a_run(name: str, figures: RunFigures, moved: int | None = 0, digest: str = "d", **plan: Any) -> ComparedRun:
    return ComparedRun(a_plan(name, **plan), figures, digest, moved)


def a_comparison(unit: str = "price", **rest: Any) -> Comparison:
    runs = [a_run("one", FIRST, seed=1, percent=5), a_run("two", SECOND, 1, "e", seed=2)]
    differences = [PlacementDifference("default/p", ["n-1", None])]
    return Comparison(runs, differences, 1, unit, **rest)


def values(table: DataTable) -> list[dict[str, object]]:
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


# ---- what is told


def test_the_summary_names_the_best_runs_and_the_notes() -> None:
    assert a_comparison(notes=["said"]).summary() == [
        "2 runs of 10 pods: 1 pod has different nodes.",
        "Best in placed (10), pending (0), wait p99 (2.5s), cpu mean (62.5%): two.",
        "Best in nodes used (4), cost (7.5): one.",
        "Note: said.",
    ]


def test_costs_that_are_numbers_of_nodes_are_not_told() -> None:
    answer = a_comparison("nodes")
    assert not any("cost" in line for line in answer.summary())
    assert not any("cost" in column for table in answer.tables() for column in table.columns)
    assert "Cost" not in [plot.title for plot in answer.plots()]
    assert not any("cost" in column for column in answer.data_tables()["runs"].columns)


@pytest.mark.parametrize(
    ("differing", "digests", "told"),
    [
        (0, "dd", "every pod has the same node in all of them"),
        (1, "de", "1 pod has different nodes"),
        (2, "de", "2 pods have different nodes"),
        (None, "de", "the placements differ"),
        (None, "dd", "the placements are the same"),
    ],
)
def test_the_outcome_of_placements(differing: int | None, digests: str, told: str) -> None:
    runs = [a_run(f"run {i}", FIRST, None, digest) for i, digest in enumerate(digests)]
    answer = Comparison(runs, [], differing)
    assert answer.summary() == [f"2 runs of 10 pods: {told}."]
    assert answer.is_different == (told.endswith(("nodes", "differ")))


def test_digests_of_runs_with_other_loads_are_not_compared() -> None:
    runs = [a_run("one", FIRST, None, "d", load=1.0), a_run("two", FIRST, None, "e", load=2.0)]
    assert not Comparison(runs, [], None).is_different
    assert Comparison([*runs, a_run("three", FIRST, None, "f", load=2.0)], [], None).is_different


def test_runs_with_digests_only_moved_some_pods_or_none() -> None:
    runs = [a_run("one", FIRST, None, "d"), a_run("two", FIRST, None, "d"), a_run("three", FIRST, None, "e")]
    assert [row[-1] for row in Comparison(runs, [], None).tables()[0].rows] == ["-", "-", "some"]


def test_the_printed_tables() -> None:
    main, moved, every, best, waits, use = a_comparison().tables()
    assert (main.title, main.is_detail) == ("Runs, with the difference to the first", False)
    assert [*zip(main.columns, *main.rows, strict=True)] == [
        ("run", "one", "two"),
        ("placed", "8", "10 (+2)"),
        ("pending", "2", "0 (-2)"),
        ("preempted", "1", "1"),
        ("attempts", "12", "12"),
        ("wait p50", "1.0s", "1.0s"),
        ("wait p99", "3.0s", "2.5s (-500ms)"),
        ("cpu mean", "50.0%", "62.5% (+12.5)"),
        ("memory mean", "25.0%", "25.0%"),
        ("cpu fragmented", "12.5%", "12.5%"),
        ("nodes used", "4", "5 (+1)"),
        ("node hours", "2.5", "2.5"),
        ("cost", "7.5", "8.25 (+0.75)"),
        ("moved", 0, 1),
    ]
    assert (moved.title, moved.columns, moved.rows, moved.is_detail) == (
        "Pods with different nodes",
        ("pod", "one", "two"),
        [("default/p", "n-1", "-")],
        False,
    )
    assert (every.title, len(every.columns), every.is_detail) == ("All figures", 18, True)
    assert (best.title, best.columns, best.is_detail) == ("Best by figure", ("figure", "value", "runs"), True)
    assert best.rows[0] == ("placed", "10", "two") and best.rows[2] == ("preempted", "1", "one, two")
    assert (waits.title, waits.is_detail) == ("Waiting times by priority", True)
    assert waits.columns == ("run", "priority", "bound", "p50", "p95", "p99", "max", "pending", "preempted")
    assert waits.rows[0] == ("one", 5, 8, "1.0s", "2.0s", "3.0s", "4.0s", 2, 1)
    assert (use.title, use.columns, use.is_detail) == ("Utilisation", ("run", "resource", "mean", "peak"), True)
    assert use.rows[:2] == [("one", "cpu", "50.0%", "75.0%"), ("one", "memory", "25.0%", "50.0%")]


@pytest.mark.parametrize(("runs", "is_detail"), [(6, False), (7, True)])
def test_the_nodes_of_more_than_six_runs_are_shown_on_request(runs: int, is_detail: bool) -> None:
    answer = Comparison([a_run(f"run {i}", FIRST) for i in range(runs)])
    assert answer.tables()[1].is_detail is is_detail


def test_the_content() -> None:
    content = a_comparison(notes=["said"]).content()
    runs = content.pop("runs")
    best = content.pop("best")
    assert content == {
        "placementsDiffer": True,
        "differing": 1,
        "differences": [{"pod": "default/p", "nodes": {"one": "n-1", "two": None}}],
        "costUnit": "price",
        "notes": ["said"],
    }
    assert best["placed"] == {"value": 10, "runs": ["two"]}
    assert best["attempts"] == {"value": 12, "runs": ["one", "two"]}
    assert "fragmentation.memory" not in best and "groups.placed" not in best
    figures, difference = runs[1].pop("figures"), runs[1].pop("difference")
    assert runs[1] == {
        "name": "two",
        "config": "cluster",
        "configDigest": a_plan("two").config_digest,
        "seed": 2,
        "load": 1.0,
        "vary": {"seed": 2},
        "moved": 1,
        "placementsDigest": "e",
    }
    assert (figures["placed"], figures["waits"]["p99Seconds"]) == (10, 2.5)
    changed = {path: value for path, value in difference.items() if value}
    assert changed == {
        "placed": 2,
        "pending": -2,
        "waits.p99Seconds": -0.5,
        "utilisation.cpu.mean": 0.125,
        "nodesUsed": 1,
        "cost": 0.75,
    }
    assert difference["fragmentation.memory"] is None and "groups.placed" not in difference


def test_the_data_tables_have_percentages_and_differences() -> None:
    tables = a_comparison("price an hour").data_tables()
    one, two = values(tables["runs"])
    assert [*two.items()][:7] == [
        ("run", "two"),
        ("config", "cluster"),
        ("seed", 2),
        ("load", 1.0),
        ("percent", None),
        ("pods", 10),
        ("placed", 10),
    ]
    assert (one["percent"], two["utilisation_cpu_mean_percent"], two["moved"]) == (5, 62.5, 1)
    assert (two["cost_per_hour"], two["cost_per_hour_difference"], two["utilisation_cpu_mean_percent_difference"]) == (
        8.25,
        0.75,
        12.5,
    )
    kinds = tables["runs"].columns
    assert (kinds["placed"], kinds["waits_p50_seconds"], kinds["node_hours"]) == (int, float, float)
    assert values(tables["pods"]) == [
        {"pod": "default/p", "run": "one", "node": "n-1"},
        {"pod": "default/p", "run": "two", "node": None},
    ]
    times = {"p50_seconds": 1.0, "p95_seconds": 2.0, "p99_seconds": 3.0, "max_seconds": 4.0}
    assert values(tables["waits"])[0] == {
        "run": "one",
        "priority": 5,
        "bound": 8,
        "pending": 2,
        "preempted": 1,
        **times,
    }
    assert values(tables["utilisation"])[0] == {
        "run": "one",
        "resource": "cpu",
        "mean_percent": 50.0,
        "peak_percent": 75.0,
    }


def test_the_plots_have_bars_for_each_run() -> None:
    drawn = {plot.title: plot for plot in a_comparison().plots()}
    assert [*drawn] == [
        "Requested share, on average",
        "Time from arrival to binding",
        "Free room that pods cannot use",
        "Pods without a node, and preempted pods",
        "Nodes in use",
        "Cost",
        "Pods with another node than under one",
    ]
    bars: Any = drawn["Requested share, on average"]
    assert bars.bars == {"cpu mean": [0.5, 0.625], "memory mean": [0.25, 0.25]}
    free: Any = drawn["Free room that pods cannot use"]
    assert free.bars == {"cpu fragmented": [0.125, 0.125]}
    moved: Any = drawn["Pods with another node than under one"]
    assert (moved.labels, moved.bars) == (["one", "two"], {"pods": [0.0, 1.0]})


# ---- figures


def test_waits_are_quantiles() -> None:
    assert wait_figures([]) == WaitFigures()
    assert wait_figures([float(i) for i in range(101)]) == WaitFigures(50.0, 95.0, 99.0, 100.0)


def test_groups_that_ran_before_are_placed_without_a_wait() -> None:
    assert group_figures([]) is msgspec.UNSET
    assert group_figures([(True, None), (True, 3.0), (False, None)]) == GroupFigures(
        2, 1, WaitFigures(3.0, 3.0, 3.0, 3.0)
    )


# ---- runs


def test_notes_of_some_runs_name_them() -> None:
    plans = [a_plan(f"run {i}") for i in range(5)]
    said = msgspec.structs.replace(FIRST, notes=["all", "some"])
    results = [RunResult(said if i < 4 else msgspec.structs.replace(FIRST, notes=["all"]), "", "d") for i in range(5)]
    assert comparison_of(RunInputs([]), plans, results, ["first"]).notes == [
        "first",
        "all",
        "run 0, run 1, run 2, ...: some",
        "there are so many pods that only digests of their placements were kept",
    ]
    assert comparison_of(RunInputs([]), plans[2:], results[2:], []).notes[1] == "run 2, run 3: some"


MORE_IS_BETTER = {
    "placed",
    "utilisation.cpu.mean",
    "utilisation.cpu.peak",
    "utilisation.memory.mean",
    "utilisation.memory.peak",
    "groups.placed",
}


def all_of(number: int) -> RunFigures:
    """A run in which every figure that is compared is this number."""
    waits, use = wait_figures([float(number)]), UseFigures(float(number), float(number))
    return RunFigures(
        pods=number,
        placed=number,
        pending=number,
        preempted=number,
        attempts=number,
        simulated_seconds=1.0,
        waits=waits,
        waits_by_priority=[],
        utilisation={"cpu": use, "memory": use},
        fragmentation={"cpu": float(number), "memory": float(number)},
        nodes_used=number,
        node_hours=float(number),
        cost=float(number),
        groups=GroupFigures(number, number, waits),
    )


def test_more_is_better_of_some_figures_and_less_of_the_others() -> None:
    best = Comparison([a_run("low", all_of(1)), a_run("high", all_of(2))]).best()
    assert len(best) == 23
    assert {path for path, each in best.items() if each["runs"] == ["high"]} == MORE_IS_BETTER
    assert {path for path, each in best.items() if each["runs"] == ["low"]} == {*best} - MORE_IS_BETTER


@pytest.mark.parametrize(("runs", "lines"), [(6, 7), (7, 1)])
def test_the_best_of_more_than_six_runs_are_not_named(runs: int, lines: int) -> None:
    figures = ("pending", "preempted", "attempts", "nodes_used", "node_hours", "cost", "placed")
    better = [msgspec.structs.replace(FIRST, **{name: 99 if name == "placed" else 0}) for name in figures]
    answer = Comparison([a_run(f"run {i}", each) for i, each in enumerate(better[:runs])], cost_unit="price")
    assert len(answer.summary()) == lines
