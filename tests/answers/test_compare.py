"""Comparisons: what is the same under the same configuration, and that it does not matter who makes the runs."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings

from build import a_node, a_pod
from how_many import IS_SOAK, examples
from mooring.answers.experiments import compared_run
from mooring.answers.experiments.compared_run import run_once
from mooring.answers.experiments.comparing import compare
from mooring.answers.experiments.comparison import Comparison
from mooring.answers.experiments.run_plan import UnusablePlan
from mooring.answers.experiments.workers import RunFault
from mooring.framework import config as configuration
from mooring.framework.config import ConfigError
from mooring.framework.contract.plain import NodeView, PlainPlugin
from mooring.inputs.arrivals import arrivals_of
from mooring.inputs.loaded_cluster import LoadedCluster, load
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.sim.day import Day
from mooring.sim.simulation import Simulation
from mooring.state.scheduler_assembly import all_plugins
from random_clusters import clusters

ROOT = Path(__file__).parent.parent.parent
SCHEMA = json.loads((ROOT / "docs" / "schemas" / "compare.v1.json").read_text())
HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
STRATEGY = "profiles.0.pluginConfig.NodeResourcesFit.scoringStrategy.type"
BOTH = {STRATEGY: ["LeastAllocated", "MostAllocated"]}
FEW: list[dict[str, Any]] = [{"at": "1s", "count": 2, "cpu": "1", "memory": "1Gi", "run": "5s"}]
ARRIVALS: list[dict[str, Any]] = [
    {"at": 0, "every": "1m", "until": "20m", "name": "job", "cpu": "1", "memory": "1Gi", "run": "5m"},
    {"at": "2m", "count": 3, "name": "big", "cpu": "3", "priority": 10, "run": "30m"},
]


def a_loaded(*items: KubeObject) -> LoadedCluster:
    return LoadedCluster(items, configuration.default())


def pending(name: str, **rest: Any) -> Pod:
    return a_pod(name, schedulerName="default-scheduler", **rest)


SMALL = a_loaded(
    *(a_node(f"n-{i}", cpu="4", memory="8Gi") for i in range(4)),
    *(pending(f"p-{i}", cpu="1", memory="1Gi") for i in range(6)),
    pending("giant", cpu="64"),
)


@pytest.fixture(autouse=True)
def every_answer_has_the_documented_form(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each comparison of these tests is validated."""
    made: list[Comparison] = []
    init = Comparison.__init__

    def remember(self: Comparison, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        made.append(self)

    monkeypatch.setattr(Comparison, "__init__", remember)
    yield
    for answer in made[:20]:
        jsonschema.validate(json.loads(json.dumps(answer.to_dict(), allow_nan=False)), SCHEMA)


def content(cluster: LoadedCluster, configs: Any = (), **rest: Any) -> dict[str, Any]:
    return compare(cluster, configs, **rest).to_dict()


# ---- properties


@pytest.mark.slow
@settings(max_examples=examples(15), deadline=None)
@given(clusters())
def test_a_configuration_compared_with_itself_differs_in_nothing(cluster: LoadedCluster) -> None:
    for arrivals in (None, FEW):
        answer = compare(cluster, ["default", "default"], arrivals=arrivals)
        assert answer.differences == [] and not answer.is_different
        first, second = answer.to_dict()["runs"]
        assert second["name"] == "default (2)"
        assert not any(second["difference"].values())
        assert {**first, "name": "", "config": ""} == {**second, "name": "", "config": ""}


@pytest.mark.slow
@settings(max_examples=examples(15), deadline=None)
@given(clusters())
def test_each_run_is_what_a_simulation_with_its_configuration_says(cluster: LoadedCluster) -> None:
    answer = compare(cluster, vary=BOTH)
    expected: dict[str, dict[str, str | None]] = {}
    for run in answer.runs:
        report = Simulation(cluster.objects, run.plan.config).run()
        figures = run.figures
        assert (figures.pods, figures.placed) == (len(report.pods), len(report.placed))
        assert (figures.pending, figures.preempted) == (len(report.pending), len(report.preempted))
        assert figures.nodes_used == sum(node.pods > 0 for node in report.nodes)
        nodes = {pod.key: pod.spec.node_name or None for pod in cluster.pods()}
        nodes |= {result.pod.key: result.node or None for result in report.pods}
        expected[run.plan.name] = nodes | {gone.pod.key: None for gone in report.preempted}
    one, other = expected.values()
    assert [(each.pod, each.nodes) for each in answer.differences] == [
        (pod, [one[pod], other[pod]]) for pod in sorted(one) if one[pod] != other[pod]
    ]
    assert [run.moved for run in answer.runs] == [0, len(answer.differences)]


@pytest.mark.slow
def test_a_day_is_what_the_same_day_alone_says() -> None:
    answer = compare(SMALL, vary=BOTH, arrivals=ARRIVALS, until="25m")
    for run in answer.runs:
        report = Day(SMALL.objects, arrivals_of(ARRIVALS, SMALL.objects), run.plan.config).run(25 * 60 * 10**9)
        figures = run.figures
        assert (figures.attempts, figures.pending) == (report.attempts, report.pending)
        assert figures.simulated_seconds == report.simulated_s == 1500
        assert {name: use.mean for name, use in figures.utilisation.items()} == report.mean_used
        for waits, each in zip(report.waits, figures.waits_by_priority, strict=True):
            assert (waits.priority, len(waits.waited_s)) == (each.priority, each.bound)
            assert each.waits.p95_seconds == pytest.approx(waits.quantile_s(0.95))
    assert answer.is_different


SWEEP: dict[str, Any] = {"vary": {**BOTH, "seed": [1, 2], "load": [0.5, 1.5]}, "arrivals": ARRIVALS}


@pytest.mark.slow
def test_one_process_and_two_have_the_same_results() -> None:
    assert content(SMALL, **SWEEP, processes=1) == content(SMALL, **SWEEP, processes=2)


@pytest.mark.slow
def test_a_script_without_a_guard_can_use_processes(tmp_path: Path) -> None:
    """The usual way to start processes runs such a script again in each of them."""
    script = tmp_path / "script.py"
    script.write_text(
        "import mooring\n"
        f"cluster = mooring.load({str(ROOT / 'examples' / 'cluster.yaml')!r})\n"
        "print(cluster.compare(vary={'seed': [1, 2]}, processes=2))\n"
    )
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True)
    assert re.fullmatch(r"<Comparison: 2 runs of 12 pods: .*>\n", ran.stdout), ran.stdout + ran.stderr


@pytest.mark.slow
def test_a_sweep_that_goes_on_has_the_same_results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = content(SMALL, **SWEEP)
    path = tmp_path / "r.csv"
    runs: list[str] = []
    real = run_once

    def interrupted(inputs: Any, plan: Any, on_progress: Any = None) -> Any:
        if len(runs) % 4 == 3:
            runs.append("interrupted")
            raise KeyboardInterrupt
        runs.append(plan.name)
        return real(inputs, plan, on_progress)

    monkeypatch.setattr(compared_run, "run_once", interrupted)
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt):
            compare(SMALL, **SWEEP, results=path)
        path.write_bytes(path.read_bytes() + b"a torn l")
    assert content(SMALL, **SWEEP, results=path) == whole
    names = [name for name in runs if name != "interrupted"]
    assert len(names) == len(set(names)) == 8, "no run was made twice"
    before = path.read_bytes()
    assert content(SMALL, **SWEEP, results=path) == whole
    assert len(runs) == 10 and path.read_bytes() == before


@pytest.mark.slow
def test_rows_of_other_inputs_do_not_count(tmp_path: Path) -> None:
    path = tmp_path / "r.csv"
    one = content(SMALL, vary=BOTH, results=path)
    changes: list[dict[str, Any]] = [{"until": "1s"}, {"prices": {f"n-{i}": 1 for i in range(4)}}, {"arrivals": []}]
    for change in changes:
        content(SMALL, vary=BOTH, results=path, **change)
    content(a_loaded(*SMALL.objects[:-1]), vary=BOTH, results=path)
    assert len(path.read_text().splitlines()) == 11
    assert content(SMALL, vary=BOTH, results=path) == one


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_has_the_same_results(tmp_path: Path) -> None:
    distributed: Any = import_module("distributed")  # it takes a second, so only this test imports it
    how = {"n_workers": 2, "threads_per_worker": 2, "processes": IS_SOAK, "protocol": "tcp", "dashboard_address": None}
    with distributed.LocalCluster(**how) as cluster:
        done: list[float] = []
        found = content(
            SMALL,
            **SWEEP,
            dask=cluster.scheduler_address,
            results=tmp_path / "r.csv",
            on_progress=lambda runs, total: done.append(runs / total),
        )
        assert found == content(SMALL, **SWEEP)
        assert done[-1] == 1 and len(done) == 8
        with pytest.raises(RunFault, match=r"^Pod default/x: metadata\.uid: .*which Pod default/w has"):
            twice = [a_pod("w", metadata={"uid": "u"}, nodeName="n"), a_pod("x", metadata={"uid": "u"}, nodeName="n")]
            compare(a_loaded(*twice), vary=BOTH, dask=cluster.scheduler_address)
    assert content(SMALL, **SWEEP, results=tmp_path / "r.csv") == found


@pytest.mark.slow
def test_no_dask_cluster_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.answers.experiments.workers.CONNECT_S", 0.1)
    with pytest.raises(RunFault, match=r"^no Dask scheduler answers at tcp://127\.0\.0\.1:1: "):
        compare(SMALL, vary=BOTH, dask="tcp://127.0.0.1:1")


# ---- what can be passed


def test_seeds_decide_among_equal_nodes() -> None:
    cluster = a_loaded(*(a_node(f"n-{i}") for i in range(8)), pending("p", cpu="1"))
    answer = compare(cluster, vary={"seed": list(range(10))})
    [moved] = answer.differences
    assert len(set(moved.nodes)) > 3
    assert content(cluster, vary={"seed": [3, 3]})["placementsDiffer"] is False


def test_a_load_scales_arrivals_and_pods_that_one_run_lacks_do_not_differ() -> None:
    cluster = a_loaded(a_node("n", cpu="64", memory="64Gi"))
    answer = compare(cluster, arrivals=ARRIVALS, vary={"load": [0.5, 1, 2]})
    assert [run.figures.pods for run in answer.runs] == [12, 24, 48]
    assert answer.differences == [] and not answer.is_different


@pytest.mark.slow
def test_a_generated_day(tmp_path: Path) -> None:
    plan = {"pods": 60, "over": "1h", "templates": 5, "nodes": [{"name": "g", "count": 3}, {"name": "h", "count": 3}]}
    (tmp_path / "plan.yaml").write_text(json.dumps(plan))
    answer = compare(a_loaded(), generate=plan, vary={**BOTH, "load": [1, 0.5]})
    assert [run.figures.pods for run in answer.runs] == [60, 30, 60, 30]
    assert answer.is_different
    nodes = [run.figures.node_hours for run in answer.runs]
    assert None not in nodes
    again = compare(a_loaded(), generate=tmp_path / "plan.yaml", vary={**BOTH, "load": [1, 0.5]})
    assert again.to_dict() == answer.to_dict()


def test_configurations_are_files_dictionaries_or_names(tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text(json.dumps({**HEADER, "percentageOfNodesToScore": 50}))
    answer = compare(SMALL, ["default", "cluster", tmp_path / "other.yaml", {**HEADER, "parallelism": 3}])
    assert [run.plan.name for run in answer.runs] == ["default", "cluster", "other", "config-4"]
    assert [run.plan.config.percentage_of_nodes_to_score for run in answer.runs] == [0, 0, 50, 0]
    named = compare(SMALL, {"now": "cluster", "then": {**HEADER, "parallelism": 3}})
    assert [run.plan.name for run in named.runs] == ["now", "then"]


def test_prices_make_costs() -> None:
    cluster = a_loaded(
        a_node("cheap", cpu="4", labels={"mooring.dev/price": "0.1"}),
        a_node("dear", cpu="8", labels={"mooring.dev/price": "3"}),
    )
    entry = {"at": "1h", "cpu": "1", "memory": "1Gi", "run": "2h"}
    answer = compare(cluster, vary=BOTH, arrivals=[entry])
    assert answer.cost_unit == "price"
    by_name = {run.plan.name: run.figures for run in answer.runs}
    assert by_name["cluster type=LeastAllocated"].cost == pytest.approx(6), "two hours of the larger node"
    assert by_name["cluster type=MostAllocated"].cost == pytest.approx(0.2)
    assert by_name["cluster type=MostAllocated"].node_hours == pytest.approx(2)
    at_once = compare(a_loaded(*cluster.objects, pending("p", cpu="1")), vary=BOTH, prices={"cheap": 1, "dear": 5})
    assert [run.figures.cost for run in at_once.runs] == [5, 1]
    assert at_once.cost_unit == "price an hour"


def test_preempted_pods_have_no_node_and_others_stay() -> None:
    low = [pending(f"low-{i}", cpu="3", nodeName=f"n-{i}", priority=0) for i in range(2)]
    nodes = [a_node("n-0", cpu="4"), a_node("n-1", cpu="4")]
    cluster = a_loaded(*nodes, *low, pending("high", cpu="2", priority=100))
    off = {**HEADER, "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "DefaultPreemption"}]}}}]}
    answer = compare(cluster, {"on": "default", "off": off})
    assert [run.figures.preempted for run in answer.runs] == [1, 0]
    gone = next(each.pod for each in answer.differences if "low" in each.pod)
    node = f"n-{gone[-1]}"
    assert [(each.pod, each.nodes) for each in answer.differences] == [
        ("default/high", [node, None]),
        (gone, [None, node]),
    ]


class OnlyLast(PlainPlugin):
    name = "OnlyLast"

    def filter(self, pod: Pod, node: NodeView) -> str | None:
        return None if node.name == "n-3" else "not the last"


def test_plugins_that_are_not_in_files_keep_the_runs_in_this_process() -> None:
    registry = all_plugins()
    registry.register(OnlyLast)
    cluster = LoadedCluster(SMALL.objects, configuration.default(), registry)
    own = {**HEADER, "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "OnlyLast"}]}}}]}
    answer = compare(cluster, {"own": own, "default": "default"}, processes=2)
    assert answer.runs[0].figures.placed == 4
    assert answer.notes == ["the runs were made in one process, because plugins are not from files"]
    with pytest.raises(UnusablePlan, match=r"^dask: plugins must come from files"):
        compare(cluster, {"own": own, "default": "default"}, dask="tcp://127.0.0.1:1")


def test_runs_with_too_many_pods_have_digests_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.answers.experiments.compared_run.PLACEMENTS", 3)
    same = compare(SMALL, ["default", "default"])
    assert (same.differing, same.is_different) == (None, False)
    assert same.notes == ["there are so many pods that only digests of their placements were kept"]
    other = compare(SMALL, vary=BOTH)
    assert other.is_different and other.runs[1].moved is None
    assert other.summary()[0] == "2 runs of 7 pods: the placements differ."


def test_long_lists_of_differences_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.answers.experiments.comparing.LISTED_NODES", 4)
    answer = compare(SMALL, vary=BOTH)
    assert answer.differing is not None and answer.differing > 2
    assert len(answer.differences) == 2
    assert answer.notes == [f"differences has 2 of {answer.differing} pods"]


def test_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(UnusablePlan, match="^generate: cannot be used with arrivals; choose one of the two$"):
        compare(SMALL, vary=BOTH, arrivals=[], generate={})
    with pytest.raises(UnusablePlan, match="^until: Invalid value: 'soon': must be seconds, or a duration"):
        compare(SMALL, vary=BOTH, until="soon")
    with pytest.raises(ConfigError) as caught:
        compare(SMALL, vary={STRATEGY: ["LeastAllocated", "Most"]})
    assert caught.value.source == "cluster type=Most"


@pytest.mark.parametrize("processes", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_objects_that_contradict_each_other_are_told_from_worker_processes_too(processes: int) -> None:
    cluster = a_loaded(a_node("n"), *(a_pod(name, metadata={"uid": "u"}, nodeName="n") for name in "ab"))
    with pytest.raises(RunFault, match=r"^Pod default/b: metadata\.uid: Invalid value: \"u\", which Pod default/a has"):
        compare(cluster, vary=BOTH, processes=processes)


# ---- the answer


def test_the_answer_on_the_example() -> None:
    cluster = load(ROOT / "examples" / "cluster.yaml")
    answer = compare(cluster, ["default", ROOT / "examples" / "packed.yaml"])
    assert repr(answer) == "<Comparison: 2 runs of 12 pods: 1 pod has different nodes.>"
    assert answer.summary()[1] == "Best in cpu fragmented (64.8%), memory fragmented (70.0%), nodes used (4): packed."
    figures, moved, *details = answer.tables()
    assert figures.columns[:5] == ("run", "placed", "pending", "preempted", "attempts")
    assert figures.rows[1][-2:] == ("4 (-1)", 1)
    assert moved.rows == [("default/web-3", "a-2", "a-1")]
    assert all(table.is_detail and table.rows for table in details)
    best = answer.to_dict()["best"]
    assert best["nodesUsed"] == {"value": 4, "runs": ["packed"]}
    assert best["pending"] == {"value": 1, "runs": ["default", "packed"]}
    assert "web-3" in answer._repr_html_()
