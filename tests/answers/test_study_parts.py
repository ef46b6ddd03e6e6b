"""The parts of a study: its file, runs and rows; means and plots of results that are counted by hand; and its notebook."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from mooring.answers.form.report_parts import BandPlot, BarPlot
from mooring.answers.study.study_answer import StudyAnswer
from mooring.answers.study.study_file import MAX_SEEDS, Study, StudyError, read_study
from mooring.answers.study.study_inputs import Digests, StudyInputs, arriving_pods, fitted_load
from mooring.answers.study.study_metrics import MetricFault, at_column, function_of
from mooring.answers.study.study_plan import StudyPlan, plan_study
from mooring.answers.study.study_run import StudyExperiment, StudyResult
from mooring.answers.study.studying import StudyRows, notebook_text, run_study
from mooring.framework.config.settings import as_object
from mooring.inputs.trace_reader import TracePods
from mooring.kit.version import VERSION
from tiny_studies import HEADER, PODS, a_study

ARRIVE = "one-by-one, over-time, at-once"
TABLE = {"name": "w", "pods": "p.csv", "format": "openb"}


def a_small_study(**fields: Any) -> dict[str, Any]:
    return {**HEADER, "clusters": [{"name": "c", "manifests": "c.yaml"}], **fields}


def told(fields: dict[str, Any]) -> list[str]:
    with pytest.raises(StudyError) as caught:
        read_study(a_small_study(**fields))
    return [str(problem) for problem in caught.value.problems]


# ---- the file


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"apiVersion": ""}, "apiVersion: Required value: mooring.dev/v1"),
        (
            {"clusters": [{"name": "a b", "manifests": "c"}]},
            'clusters[0].name: Invalid value: "a b": must be a name of letters, digits, hyphens, dots and underscores',
        ),
        (
            {"clusters": [{"name": "c", "manifests": 5}]},
            "clusters[0].manifests: Invalid value: 5: must be a file or folder, or a list of them",
        ),
        (
            {"clusters": [{"name": "c", "manifests": ["a", 5]}]},
            "clusters[0].manifests: Invalid value: a list: must be a file or folder, or a list of them",
        ),
        (
            {"clusters": [{"manifests": "c.yaml", "format": "openb"}]},
            "clusters[0].format: manifests have no format; remove it",
        ),
        (
            {"clusters": [{"nodes": "n.csv"}]},
            "clusters[0].format: Required value: a format of nodes, one of: openb, pai-tasks, pai-instances, "
            "azure-packing, google-2019",
        ),
        (
            {"clusters": [{"nodes": "n.csv", "format": "openb", "manifests": "c"}]},
            "clusters[0]: has nodes, manifests; write one of nodes, manifests, recording",
        ),
        ({"workloads": [{"format": "openb"}]}, "workloads[0].format: the pending pods have no format; remove it"),
        (
            {"workloads": [{"arrive": "late"}]},
            f'workloads[0].arrive: Invalid value: "late": must be one of: {ARRIVE}',
        ),
        (
            {"workloads": [{"arrive": "over-time"}]},
            f"workloads[0].arrive: over-time needs a source of pods; write one of {ARRIVE} that suits",
        ),
        (
            {"workloads": [{**TABLE, "arrive": "at-once"}]},
            f"workloads[0].arrive: at-once places the pending pods of the cluster; write one of {ARRIVE} that suits",
        ),
        *(
            (
                {"workloads": [{**TABLE, "arrive": "one-by-one", "until": {"percent": percent}}]},
                f"workloads[0].until.percent: Invalid value: {percent}: must be above 0, up to 10000",
            )
            for percent in (0.0, 10000.5)
        ),
        (
            {"workloads": [{"name": "w", "arrivals": "a.yaml", "fit": {}}]},
            "workloads[0].fit: is drawn from a table of pods; write pods and format",
        ),
        *(
            (
                {"workloads": [{**TABLE, "fit": {"pods": pods}}]},
                f"workloads[0].fit.pods: Invalid value: {pods}: must be from 1 to 1000000",
            )
            for pods in (0, 1_000_001)
        ),
        (
            {"workloads": [{"generate": 5}]},
            "workloads[0].generate: Invalid value: 5: must be a file, or a plan as an object",
        ),
        ({"loads": []}, "loads: Required value: at least one load, such as 1.0"),
        ({"loads": [1, 1]}, "loads[1]: Invalid value: 1.0: must be above 0, up to 1000, and not given twice"),
        ({"loads": [1000.5]}, "loads[0]: Invalid value: 1000.5: must be above 0, up to 1000, and not given twice"),
        (
            {"parameters": {"seed": 1}},
            "parameters.seed: seed is the name of a part of a run; choose another name",
        ),
        ({"parameters": {"a": [1]}}, "parameters.a: Invalid value: a list: must be a text, a number or null"),
        (
            {"parameters": {"folder": "x"}, "configurations": [{"set": {"a": [{"b": "{foldr}"}]}}]},
            "configurations[0].set[0].b: {foldr} is no parameter; did you mean {folder}?",
        ),
        (
            {"configurations": [{"config": "{seed}"}]},
            "configurations[0].config: {seed} is no parameter; add it to parameters",
        ),
        (
            {"metrics": [{"allocated": "cpu", "python": "a:b"}]},
            "metrics[0]: has allocated and python; write one of allocated, fragmented, python",
        ),
        *(
            (
                {"metrics": [{"allocated": "cpu", "at": at}]},
                "metrics[0].at: has percentages that are twice there, or not above 0; correct them",
            )
            for at in ([0], [5, 5], [10001])
        ),
        (
            {"metrics": [{"python": "own.py:1x"}]},
            'metrics[0].python: Invalid value: "own.py:1x": must be FILE:FUNCTION, such as metrics.py:stranded',
        ),
        (
            {"metrics": [5]},
            "metrics[0]: is no metric: Expected `object`, got `int`; write a name, or an object with allocated, "
            "fragmented or python",
        ),
    ],
)
def test_what_cannot_be_used_is_told(fields: dict[str, Any], problem: str) -> None:
    assert problem in told(fields)


def test_names_of_figures_are_listed_where_none_is_near() -> None:
    (problem,) = told({"metrics": ["xyzzy"]})
    assert problem.startswith('metrics[0]: "xyzzy" is no metric; the metrics are placed, pending, ')
    assert problem.endswith(", and objects")
    with pytest.raises(StudyError, match="^--set x: the study has no such parameter; the parameters are none$"):
        read_study(a_small_study(), {"x": 1})


@pytest.mark.parametrize(
    ("written", "seeds"),
    [
        (3, (1, 2, 3)),
        ([5, 0], (5, 0)),
        (" 2..4 ", (2, 3, 4)),
        ("4..4", (4,)),
        ([2**63 - 1], (2**63 - 1,)),
        (MAX_SEEDS, tuple(range(1, MAX_SEEDS + 1))),
        (f"1..{MAX_SEEDS}", tuple(range(1, MAX_SEEDS + 1))),
        *((each, None) for each in (0, -1, True, [], [True], [-1], [2**63], "5..4", 1.5, "a", None)),
        *((each, None) for each in (MAX_SEEDS + 1, f"1..{MAX_SEEDS + 1}", f"0..{10**17}", [1, "2"])),
    ],
    ids=lambda value: str(value)[:12],
)
def test_seeds_are_a_number_a_list_or_a_range(written: Any, seeds: tuple[int, ...] | None) -> None:
    if seeds is not None:
        assert read_study(a_small_study(seeds=written)).seeds == seeds
    else:
        (problem,) = told({"seeds": written})
        assert problem.endswith("must be a number of seeds, a list of different whole numbers, or a text such as 1..10")


def test_what_is_not_written_has_a_name_and_a_default(tmp_path: Path) -> None:
    (tmp_path / "own.study.yaml").write_text(
        json.dumps(
            {
                **HEADER,
                "about": "why",
                "parameters": {"share": {"default": 7}},
                "clusters": [
                    {"recording": "day/"},
                    {"nodes": "n.csv.gz", "format": "openb"},
                    {"manifests": ["a/x.v1.json", "b.yaml"]},
                ],
                "workloads": [
                    {"pods": "p.csv.zst", "format": "openb", "types": "t.csv"},
                    {"generate": {"pods": 1}},
                    {"generate": "plan.yaml", "name": "file"},
                    {"arrivals": "later.yml", "ends": "1h"},
                    {"recording": "day"},
                    {},
                ],
                "configurations": [{}, {"config": "b.yaml", "plugins": ["p.py"], "set": {"a.b": "{share}-{seed}"}}],
                "run": {"processes": 3},
            }
        )
    )
    study = read_study(tmp_path / "own.study.yaml")
    assert [each.name for each in study.clusters] == ["day", "n", "x.v1"]
    assert [(each.name, each.arrive) for each in study.workloads] == [
        *(("p", "over-time"), ("generate", "over-time"), ("file", "over-time"), ("later", "over-time")),
        *(("day", "over-time"), ("pending", "at-once")),
    ]
    assert study.clusters[2].manifests == [str(tmp_path / "a" / "x.v1.json"), str(tmp_path / "b.yaml")]
    table, _, file, later, *_ = study.workloads
    assert (table.types, file.generate) == (str(tmp_path / "t.csv"), str(tmp_path / "plan.yaml"))
    assert (later.arrivals, later.ends, table.has_moments) == (str(tmp_path / "later.yml"), "1h", False)
    plain, own = study.configurations
    assert (plain.name, plain.ties, own.name, own.plugins) == ("default", "seed", "b", [str(tmp_path / "p.py")])
    assert own.set == {"a.b": "7-{seed}"} and study.parameters == {"share": 7}
    assert (study.name, study.about, study.processes, study.seeds, study.loads) == ("own.study", "why", 3, (1,), (1.0,))
    assert study.columns == [
        *("placed", "pending", "preempted", "waits_p50_seconds", "waits_p99_seconds"),
        *("utilisation_cpu_mean_percent", "utilisation_memory_mean_percent", "nodes_used", "cost"),
    ]
    assert (study.policy(1), study.policy(None), study.configuration(0)) == ("b", "Optimal", plain)
    empty = read_study(a_small_study())
    assert (empty.workloads[0].name, empty.configurations[0].name) == ("pending", "default")
    assert empty.name == "" and empty.processes is None


def test_columns_of_metrics_are_named_by_what_they_measure() -> None:
    until = {**TABLE, "arrive": "one-by-one", "until": {"percent": 10_000}}
    metrics: list[Any] = [
        "nodesUsed",
        "utilisation.memory.mean",
        {"allocated": "alibabacloud.com/gpu-milli"},
        {"allocated": "cpu", "at": [50, 12.5, 10_000]},
        {"fragmented": "memory", "at": [1], "column": "own"},
        {"python": "sub/own.py:mine"},
    ]
    study = read_study(a_small_study(workloads=[until], metrics=metrics))
    assert study.columns == [
        *("nodes_used", "utilisation_memory_mean_percent", "allocated_gpu_milli_percent"),
        *("allocated_cpu_at_12_5", "allocated_cpu_at_50", "allocated_cpu_at_10000", "own_1", "mine"),
    ]
    assert study.metrics[-1].of == f"{Path('sub/own.py').absolute()}:mine"
    assert [each.is_bounded for each in study.metrics] == [False, False, True, False, False, False]
    assert at_column("a", 2.25) == "a_2_25"


# ---- the runs


def three_by_two() -> Study:
    return read_study(
        a_small_study(
            clusters=[{"name": "c", "manifests": "c.yaml"}, {"name": "d", "manifests": "d.yaml"}],
            workloads=[{**TABLE, "name": "u", "arrive": "one-by-one"}, {"name": "v"}],
            configurations=[{"name": "a"}, {"name": "b"}],
            seeds="7..8",
            loads=[0.5, 2],
            metrics=[{"allocated": "cpu"}],
        )
    )


def test_runs_vary_by_seed_first_and_by_cluster_last() -> None:
    study = three_by_two()
    expected = [
        f"{cluster} {workload} {policy} {seed} {load}"
        for cluster in "cd"
        for workload in "uv"
        for policy in ("a", "b", *(["Optimal"] if workload == "u" else []))
        for load in ("0.5", "2")
        for seed in (7, 8)
    ]
    plans = plan_study(study, bound=True)
    assert [plan.name for plan in plans] == expected
    assert [plan.name for plan in plan_study(study)] == [name for name in expected if "Optimal" not in name]
    assert plans[1] == StudyPlan("c u a 8 0.5", 0, 0, 0, 8, 0.5) and plans[8].config is None
    chosen = {"cluster": ["d"], "seed": ["8..8"], "load": ["2"], "policy": ["b"]}
    assert [plan.name for plan in plan_study(study, chosen)] == ["d u b 8 2", "d v b 8 2"]
    assert [plan.name for plan in plan_study(study, chosen, bound=True)] == [
        "d u b 8 2",
        "d u Optimal 8 2",
        "d v b 8 2",
    ]
    assert [plan.name for plan in plan_study(study, {"seed": ["7..8"], **chosen, "workload": ["v"]})] == ["d v b 8 2"]


@pytest.mark.parametrize(
    ("only", "message"),
    [
        ({"xyzzy": ["a"]}, "--only xyzzy: no such choice; write one of cluster, workload, policy, seed, load"),
        ({"load": ["3"]}, "--only load=3: the study has no such load; it has 0.5, 2"),
        ({"seed": ["7..9"]}, "--only seed=9: the study has no such seed; it has 7, 8"),
        ({"seed": ["8..7"]}, "--only leaves no run of the study: choose values that belong together"),
        ({"policy": ["Optimal"]}, "--only policy=Optimal: the study has no such policy; it has a, b"),
        ({"workload": []}, "--only leaves no run of the study: choose values that belong together"),
    ],
)
def test_a_choice_that_leaves_nothing_is_told(only: dict[str, list[str]], message: str) -> None:
    with pytest.raises(StudyError) as caught:
        plan_study(three_by_two(), only)
    assert str(caught.value) == message


def test_twenty_of_the_values_that_there_are_are_told_and_there_is_a_most_of_runs() -> None:
    many = read_study(a_small_study(seeds=21))
    with pytest.raises(StudyError) as caught:
        plan_study(many, {"seed": ["x"]})
    assert str(caught.value).endswith("it has " + ", ".join(str(seed) for seed in range(1, 21)))
    huge = read_study(a_small_study(seeds=MAX_SEEDS, configurations=[{"name": f"c{i}"} for i in range(11)]))
    with pytest.raises(StudyError, match="^1100000 runs are more than 100000: write a smaller study$"):
        plan_study(huge)


# ---- the answer


def an_answer() -> StudyAnswer:
    """Two workloads, two configurations and their bound, three seeds. The last run of v under b failed."""
    one = {**TABLE, "arrive": "one-by-one", "until": {"percent": 100}}
    metrics = ["placed", {"allocated": "cpu"}, {"allocated": "cpu", "at": [50, 100], "column": "at"}]
    study = read_study(
        a_small_study(
            workloads=[{**one, "name": "u"}, {**one, "name": "v"}],
            configurations=[{"name": "a"}, {"name": "b"}],
            seeds=3,
            metrics=metrics,
            parameters={"p": 5},
        )
    )
    placed = {"u a": (10, 12, 14), "u b": (13, 15, 17.5), "v a": (1, 1, 1), "v b": (1, 3)}
    plans = plan_study(replace(study, name="s"), bound=True)
    results = []
    for plan in plans:
        values = placed.get(plan.name[2:5])
        at = plan.seed - 1
        if values is None:
            results.append(StudyResult({"placed": None, "allocated_cpu_percent": 90.5}, 20, bound="exact"))
        elif at < len(values):
            own = {
                "placed": values[at],
                "allocated_cpu_percent": 0.125 * plan.seed,
                "at_50": 25 + plan.seed,
                "at_100": None,
            }
            results.append(StudyResult(own, 20))
        else:
            results.append(StudyResult({}, failed="no luck"))
    return StudyAnswer(replace(study, name="s"), plans, results, ["a note"])


def test_means_and_differences_are_those_that_are_counted_by_hand() -> None:
    found = {(each.workload, each.policy, each.metric): each for each in an_answer().summaries()}
    first, second = found["u", "a", "placed"], found["u", "b", "placed"]
    assert (first.mean, first.deviation, first.difference, first.p_value) == (12.0, 2.0, None, None)
    assert second.mean == pytest.approx(45.5 / 3) and second.differences == [3, 3, 3.5]
    # Of eight choices of signs, only all three up and all three down are as far from 0.
    assert second.difference == pytest.approx(9.5 / 3) and second.p_value == 0.25
    short, bound = found["v", "b", "placed"], found["v", "Optimal", "allocated_cpu_percent"]
    assert (short.by_seed, short.mean, short.differences, short.difference, short.p_value) == (
        {1: 1, 2: 3},
        2,
        [0, 2],
        1,
        1.0,
    )
    assert (bound.mean, bound.deviation, bound.p_value) == (90.5, 0, None) and bound.difference == pytest.approx(90.25)
    assert ("v", "Optimal", "placed") not in found and ("u", "a", "at_100") not in found
    lone = replace(short, by_seed={9: 4.0})
    assert (lone.deviation, lone.difference, lone.p_value) == (None, None, None)


def test_the_answer_in_words_and_tables() -> None:
    answer = an_answer()
    assert answer.summary() == [
        "18 runs of the study s: 1 failed.",
        "Why: no luck.",
        "Optimal is a bound that no placement of the pods exceeds: exact in 6 runs.",
        "Note: a note.",
    ]
    tables = answer.tables()
    title = ": mean ± standard deviation over seeds; * differs from a (p < 0.05)"
    assert [table.title for table in tables] == [
        *(f"{name}{title}" for name in ("placed", "allocated_cpu_percent", "at_50", "at_100")),
        *("Runs that failed", "All runs"),
    ]
    assert [table.is_detail for table in tables] == [False, False, True, True, False, True]
    assert (tables[0].columns, [*tables[0].rows]) == (
        ("workload", "a", "b"),
        [("u", "12 ± 2", "15.17 ± 2.25"), ("v", "1 ± 0", "2 ± 1.41")],
    )
    assert tables[1].columns == ("workload", "a", "b", "Optimal")
    assert next(iter(tables[1].rows)) == ("u", "0.25 ± 0.125", "0.25 ± 0.125", "90.5 ± 0")
    assert [*tables[3].rows] == [] and [*tables[4].rows] == [("c v b 3 1", "no luck")]
    runs = [*tables[5].rows]
    assert tables[5].columns == (
        *("cluster", "workload", "policy", "seed", "load", "pods", "placed", "allocated_cpu_percent"),
        *("at_50", "at_100", "bound", "failed"),
    )
    assert runs[5] == ("c", "u", "b", 3, 1.0, 20, "17.5", "0.375", "28", "-", "", "")
    assert runs[6] == ("c", "u", "Optimal", 1, 1.0, 20, "-", "90.5", "-", "-", "exact", "")
    assert runs[14] == ("c", "v", "b", 3, 1.0, None, "-", "-", "-", "-", "", "no luck")


def test_an_answer_of_two_bounds_that_is_whole() -> None:
    answer = an_answer()
    results = [each if not each.failed else StudyResult({"placed": 1.0}, 1) for each in answer.results]
    results[-1] = replace(results[-1], bound="relaxation")
    whole = StudyAnswer(replace(answer.study, name=""), answer.plans, results)
    assert whole.summary() == [
        "18 runs of the study without a name: all were made.",
        "Optimal is a bound that no placement of the pods exceeds: exact in 5 runs and relaxation in 1 run.",
    ]


def test_stars_are_for_differences_that_chance_does_not_make() -> None:
    study = read_study(
        a_small_study(configurations=[{"name": "a"}, {"name": "b"}], seeds=6, loads=[1, 2], metrics=["placed"])
    )
    plans = plan_study(study)
    results = [StudyResult({"placed": 10 * plan.load + (plan.config or 0) * (plan.load == 1)}, 5) for plan in plans]
    (table, *_) = StudyAnswer(study, plans, results).tables()
    assert [*table.rows] == [("pending load=1", "10 ± 0", "11 ± 0 *"), ("pending load=2", "20 ± 0", "20 ± 0")]


def test_plots_have_bars_for_ends_and_bands_for_moments() -> None:
    plots = an_answer().plots()
    bands = [plot for plot in plots if isinstance(plot, BandPlot)]
    bars = [plot for plot in plots if isinstance(plot, BarPlot)]
    assert len(bands) + len(bars) == len(plots)
    assert [(plot.title, plot.labels) for plot in bars] == [
        ("placed, mean over seeds", ["u", "v"]),
        ("allocated_cpu_percent, mean over seeds", ["u", "v"]),
    ]
    assert bars[0].bars == {"a": [12.0, 1.0], "b": [pytest.approx(45.5 / 3), 2.0]}
    assert [*bars[1].bars] == ["a", "b", "Optimal"]
    assert [plot.title for plot in bands] == ["at, u: mean and 95 % confidence", "at, v: mean and 95 % confidence"]
    first = bands[0]
    assert (first.points, first.point_title) == ((50, 100), "percent asked for by the pods that have arrived")
    # Three values 26, 27, 28: the deviation is 1, and Student's t for two degrees of freedom 4.303.
    assert first.curves == {name: [(27.0, pytest.approx(4.303 / 3**0.5)), None] for name in "ab"}


def test_the_answer_as_data() -> None:
    answer = an_answer()
    tables = answer.data_tables()
    runs, summaries = ([*tables[name].rows] for name in ("runs", "summaries"))
    assert runs[0] == ("c", "u", "a", 1, 1.0, 20, 10, 0.125, 26, None, None, None)
    assert runs[6] == ("c", "u", "Optimal", 1, 1.0, 20, None, 90.5, None, None, "exact", None)
    assert summaries[1] == (
        "c",
        "u",
        "b",
        1.0,
        "placed",
        3,
        pytest.approx(45.5 / 3),
        pytest.approx(2.254625),
        pytest.approx(9.5 / 3),
        0.25,
    )
    form = msgspec.to_builtins(answer.published())
    assert (form["study"], form["digest"], form["parameters"], form["failed"]) == (
        "s",
        answer.study.digest,
        {"p": "5"},
        1,
    )
    assert form["runs"][0]["values"] == {"placed": 10, "allocated_cpu_percent": 0.125, "at_50": 26, "at_100": None}
    assert [form["runs"][i]["failed"] for i in (0, 14)] == [None, "no luck"]
    assert [form["runs"][i]["bound"] for i in (0, 6)] == [None, "exact"]
    assert [type(form["runs"][i]["values"]["placed"]) for i in (0, 5)] == [int, float] and form["notes"] == ["a note"]


# ---- the rows and the notebook


def a_read_study(folder: Path, **fields: Any) -> Study:
    return read_study(a_study(folder, **fields))


def test_a_row_is_read_as_it_was_written(tmp_path: Path) -> None:
    study = replace(a_read_study(tmp_path, seeds=1), parameters={"b": 1, "a": "x"})
    digests = Digests(study, "1")
    rows, (plan, *_) = StudyRows(study, digests), plan_study(study)
    result = StudyResult({**dict.fromkeys(study.columns), "placed": 3.0}, 20)
    row = rows.row("d", plan, result)
    assert [*row] == [*rows.columns]
    behind = {"study": study.digest, "configuration": digests.config(plan), "parameters": '{"a": "x", "b": 1}'}
    own = {"run": "d", "cluster": "c", "workload": "w", "policy": "spread", "seed": 1, "load": 1.0, "pods": 20}
    assert {**row, **own, **behind, "failed": "", "bound": "", "placed": 3.0, "mooring": VERSION} == row
    assert rows.kept(row) == result
    as_text = {name: "" if value is None else str(value) for name, value in row.items()}
    assert rows.kept(as_text) == result
    failed = rows.row("d", plan, StudyResult({}, failed="no luck", bound="exact"))
    assert rows.kept(failed) == StudyResult(dict.fromkeys(study.columns), None, "no luck", "exact")
    again = StudyRows(study, digests, True)
    assert (again.kept(failed), again.kept(row)) == (None, result)
    assert rows.numbers == {"seed": int, "load": float, "pods": int, **dict.fromkeys(study.columns, float)}
    assert rows.command == "mooring study"


def test_the_notebook_word_for_word(tmp_path: Path) -> None:
    study = replace(a_read_study(tmp_path), name="s", about="Why it is made.")
    written = json.loads(notebook_text(study, str(tmp_path / "r.Parquet"), tmp_path / "deep" / "er"))
    assert (written["nbformat"], written["nbformat_minor"]) == (4, 5)
    assert written["metadata"] == {
        "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
        "language_info": {"name": "python"},
    }
    assert [cell["id"] for cell in written["cells"]] == [f"cell-{i}" for i in range(8)]
    assert ["".join(cell["source"]) for cell in written["cells"]] == [
        "# Study s\n\nWhy it is made.\n\nA row of `runs` is a run; docs/laboratory.md has its columns.",
        "import pandas\n\nruns = pandas.read_parquet('../../r.Parquet')\nruns.head()",
        "Runs that failed, with the reason.",
        'runs[runs["failed"].notna() & runs["failed"].ne("")][["workload", "policy", "seed", "failed"]]',
        "Mean and standard deviation over the seeds, by workload and configuration.",
        'metric = \'placed\'\nruns.pivot_table(metric, "workload", "policy", ["mean", "std"])',
        "The difference to spread, paired by seed.",
        'by_seed = runs.pivot_table(metric, ["workload", "seed"], "policy")\n'
        "by_seed.sub(by_seed['spread'], axis=0).groupby(\"workload\").mean()",
    ]
    code: dict[str, Any] = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
    markdown = {"cell_type": "markdown", "metadata": {}}
    shapes = [{key: value for key, value in cell.items() if key not in ("id", "source")} for cell in written["cells"]]
    assert shapes == [markdown, code] * 4
    plain = json.loads(notebook_text(replace(study, about=""), "r.csv", "."))
    assert "".join(plain["cells"][0]["source"]).startswith("# Study s\n\nA row")
    assert "pandas.read_csv('r.csv')" in "".join(plain["cells"][1]["source"])


# ---- digests, and what is loaded


def test_a_digest_changes_with_all_that_a_run_depends_on_and_with_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "plugin"
    (folder / "__pycache__").mkdir(parents=True)
    (folder / "a.py").write_text("A = 1\n")
    (folder / "__pycache__" / "a.pyc").write_text("x")
    (tmp_path / "own.py").write_text("def f(run): return 1\n")
    metrics: list[Any] = ["placed", {"python": f"{tmp_path}/own.py:f"}]

    def digests(**changes: Any) -> dict[str, str]:
        study = a_study(tmp_path, metrics=metrics)
        study["configurations"][0]["plugins"] = [str(folder)]
        study.update(changes)
        read = read_study(study)
        made = Digests(read, "1")
        return {plan.name.replace("renamed", "spread"): made.of(plan) for plan in plan_study(read)}

    before = digests()
    assert len({*before.values()}) == len(before) == 6
    assert digests() == before
    renamed = a_study(tmp_path)["configurations"]
    renamed[0] = {"name": "renamed", "plugins": [str(folder)]}
    assert digests(configurations=renamed) == before, "names are not content"
    (folder / "__pycache__" / "a.pyc").write_text("y")
    assert digests() == before, "nor is what Python compiled"
    (folder / "b.py").write_text("B = 1\n")
    after = digests()
    assert {name for name in before if before[name] != after[name]} == {f"c w spread {seed} 1" for seed in (1, 2, 3)}
    (tmp_path / "own.py").write_text("def f(run): return 2\n")
    assert not {*digests().values()} & {*after.values()}, "a function of a metric is part of all runs"
    read = a_read_study(tmp_path)
    made, other = Digests(read, "1"), Digests(read, "2")
    plans = plan_study(read)
    assert made.common != other.common and made.of_all(plans) != made.of_all(plans[1:])
    bound = StudyPlan("", 0, 0, None, 1, 1.0)
    assert made.config(bound) not in (made.config(plans[0]), made.config(plans[3]))
    missing = read_study(a_small_study())
    with pytest.raises(StudyError, match=r"^.*/c\.yaml: cannot be read: No such file or directory$"):
        Digests(missing, "1").of_all(plan_study(missing))


def weights(study: Study, **changes: Any) -> Any:
    inputs = StudyInputs(study)
    plan = replace(plan_study(study)[0], **changes)
    profile = as_object(inputs.config(plan, None))
    return profile["parallelism"], profile["percentageOfNodesToScore"]


def test_values_of_a_configuration_are_filled_in_for_each_run(tmp_path: Path) -> None:
    own = {"name": "own", "set": {"parallelism": "{seed}", "percentageOfNodesToScore": 50}}
    study = a_read_study(tmp_path, configurations=[own], seeds=[7, 8])
    assert (weights(study), weights(study, seed=8)) == ((7, 50), (8, 50))
    odd = a_read_study(tmp_path, configurations=[{"name": "own", "set": {"parallelizm": 1}}])
    with pytest.raises(StudyError, match="^configuration own: set: .*parallelizm"):
        weights(odd)
    bad = {"name": "own", "set": {"profiles[0].schedulerName": ["{cluster}", {"a": "{workload}-{workload.pods}"}]}}
    with pytest.raises(ValueError, match="schedulerName"):
        weights(a_read_study(tmp_path, configurations=[bad]))


def test_a_workload_that_ends_at_no_time_is_told(tmp_path: Path) -> None:
    table = {"name": "day", "pods": str(tmp_path / "pods.csv"), "format": "openb"}
    with pytest.raises(StudyError) as caught:
        run_study(a_study(tmp_path, workloads=[{**table, "ends": "soon"}], metrics=["placed"]), processes=1)
    assert str(caught.value) == "workload day: ends: 'soon' is no duration: write seconds, or 90s, 15m, 24h"
    study = a_study(
        tmp_path, workloads=[{**table, "ends": "45s"}, table | {"name": "all"}], metrics=["placed"], seeds=1
    )
    (cut, _, whole, _) = run_study(study, processes=1).results
    assert (cut.values["placed"], whole.values["placed"]) == (5, 20), "a pod comes every ten seconds"


def test_how_many_pods_a_run_has_is_guessed() -> None:
    def guess(*workloads: Any) -> int:
        return StudyInputs(read_study(a_small_study(workloads=[*workloads]))).pods_of_a_run()

    assert guess() == 500 and guess(TABLE) == 5000
    assert guess({"generate": {"pods": 7000}}) == 7000 and guess(TABLE, {"generate": {"pods": 10}}) == 5000


# ---- what arrives


def a_table(tmp_path: Path, **fields: Any) -> tuple[StudyInputs, StudyPlan]:
    study = a_read_study(tmp_path, **fields)
    return StudyInputs(study), plan_study(study)[0]


@pytest.mark.parametrize(
    ("until", "message"),
    [
        ({"resource": "example.com/x"}, "workload w: until: no node has example.com/x"),
        ({"resource": "ephemeral-storage"}, "workload w: until: no node has ephemeral-storage"),
    ],
)
def test_a_workload_until_a_resource_that_is_not_there(tmp_path: Path, until: dict[str, Any], message: str) -> None:
    table = {"name": "w", "pods": str(tmp_path / "pods.csv"), "format": "openb", "arrive": "one-by-one", "until": until}
    (result, *_) = run_study(a_study(tmp_path, workloads=[table], seeds=1, metrics=["placed"]), processes=1).results
    assert result.failed == message


def test_a_load_is_drawn_from_pods_with_their_requests_and_run_times(tmp_path: Path) -> None:
    inputs, plan = a_table(tmp_path)
    given = inputs.workload(plan.workload, plan.cluster).pods
    assert given is not None
    drawn, again, other = (fitted_load(given, 200, seed) for seed in (1, 1, 2))
    assert drawn == again != other and len(drawn) == 200
    assert drawn.names[:2] == ["fitted-0", "fitted-1"] and drawn.at_ns[0] == 0
    assert {*zip(drawn.which, drawn.run_ns, strict=True)} == {*zip(given.which, given.run_ns, strict=True)}
    assert {*np.diff(drawn.at_ns).tolist()} == {*np.diff(given.at_ns).tolist()}
    lone = TracePods(given.templates, ["x"], [0], [5], [None])
    assert fitted_load(lone, 3, 1).at_ns == [0, 0, 0] and fitted_load(lone, 3, 1).which == [0, 0, 0]
    nothing = TracePods(given.templates)
    assert fitted_load(nothing, 3, 1) is nothing


def test_a_load_of_all_pods_is_a_share_of_them_in_another_order(tmp_path: Path) -> None:
    workload = {"name": "w", "pods": str(tmp_path / "pods.csv"), "format": "openb", "arrive": "one-by-one"}
    inputs, plan = a_table(tmp_path, workloads=[workload], metrics=["placed"])
    read = inputs.workload(0, 0)
    cluster: Any = None  # it is asked only where a resource ends the run

    def names(load: float, seed: int = 1) -> list[str]:
        return [pod.name for pod in arriving_pods(read, replace(plan, load=load, seed=seed), cluster)]

    whole = names(1)
    assert sorted(whole) == sorted(f"p-{i}" for i in range(20)) and whole != names(1, 2)
    assert names(0.25) == whole[:5] and names(1.5)[:20] == whole and len(names(1.5)) == 30
    drawn = names(1.5)[20:]
    assert [name.partition("-again-")[2] for name in drawn] == [str(i) for i in range(20, 30)]
    assert {name.partition("-again-")[0] for name in drawn} <= {*whole}


# ---- functions of users


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "{file}: cannot be read: No such file or directory"),
        ("def f(:\n", "{file}: cannot be loaded: SyntaxError: "),
        ("1 / 0\n", "{file}: cannot be loaded: ZeroDivisionError: "),
        ("f = 5\n", "{file}: has no function f"),
    ],
)
def test_a_file_of_a_metric_that_cannot_be_loaded(tmp_path: Path, content: str | None, message: str) -> None:
    file = tmp_path / "own.py"
    if content is not None:
        file.write_text(content)
    with pytest.raises(MetricFault) as caught:
        function_of(str(file), "f")
    assert str(caught.value).startswith(message.format(file=file))


def test_a_function_of_a_metric_that_fails_is_the_failure_of_the_run(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "assert __name__ == 'mooring_metric'\n"
        "def raises(run): raise KeyError('x')\n"
        "def whole(run): return 7\n"
        "def truth(run): return True\n"
    )

    def value(name: str) -> StudyResult:
        metrics = [{"python": f"{tmp_path}/own.py:{name}"}]
        study = a_read_study(tmp_path, metrics=metrics, seeds=1, configurations=[])
        return StudyExperiment(study).run(plan_study(study)[0])

    assert value("raises").failed == f"{tmp_path}/own.py: raises: KeyError: 'x' ({tmp_path}/own.py, line 2)"
    assert value("truth").failed == f"{tmp_path}/own.py: truth returned true: return a number or None"
    assert value("whole").values == {"whole": 7}


def test_a_run_that_fails_without_words_says_so(tmp_path: Path) -> None:
    study = a_read_study(tmp_path)
    (plan, *_) = plan_study(study)
    experiment = StudyExperiment(study)
    assert experiment.failed(plan, " \n").failed == "the run failed"
    assert experiment.failed(plan, "a\n  b").failed == "a b"


def test_figures_of_nodes_are_those_of_the_end(tmp_path: Path) -> None:
    """Two pods of half a node each, packed on one of the six nodes, which costs 3."""
    (tmp_path / "prices.yaml").write_text("".join(f"n-{i}: 3\n" for i in range(6)))
    study = a_study(tmp_path, seeds=1, metrics=["nodesUsed", "cost", "attempts", "utilisation.cpu.mean"])
    (tmp_path / "pods.csv").write_text(
        PODS.splitlines()[0] + "\n" + "".join(f"p-{i},4000,1,0,0,,0,,\n" for i in range(2))
    )
    study["clusters"][0]["prices"] = str(tmp_path / "prices.yaml")
    study["workloads"][0].pop("until")
    (spread, packed) = run_study(study, processes=1).results
    assert packed.values == {
        "nodes_used": 1,
        "cost": 3.0,
        "attempts": 2,
        "utilisation_cpu_mean_percent": pytest.approx(100 / 6),
    }
    assert (spread.values["nodes_used"], spread.values["cost"]) == (2, 6.0)
    del study["clusters"][0]["prices"]
    assert run_study(study, processes=1).results[0].values["cost"] == 2.0, "without prices, a node costs 1"
