"""Bounds beside the policies of a study: no policy exceeds them, and small ones can be counted by hand."""

import sys
from pathlib import Path
from typing import Any

import pandas
import pytest

import mooring
from mooring.answers.study import study_bound
from mooring.answers.study.study_file import StudyError, read_study
from mooring.answers.study.study_plan import plan_study
from mooring.answers.study.study_run import StudyExperiment
from mooring.answers.study.studying import run_study
from tiny_studies import PODS, a_study

ROOT = Path(__file__).parents[2]
HEAD = PODS.splitlines()[0] + "\n"
CLUSTER = """\
apiVersion: v1
kind: Node
metadata: {name: half}
status: {allocatable: {cpu: "10", memory: 64Gi, pods: "9"}}
---
apiVersion: v1
kind: Pod
metadata: {name: there, namespace: default}
spec: {nodeName: half, containers: [{name: c, resources: {requests: {cpu: "3"}}}]}
---
apiVersion: v1
kind: Node
metadata: {name: tainted}
spec: {taints: [{key: a, effect: NoSchedule}]}
status: {allocatable: {cpu: "10", memory: 64Gi, pods: "9"}}
"""


def test_no_policy_exceeds_the_bound_of_its_pods(tmp_path: Path) -> None:
    metrics = ["placed", {"allocated": "cpu"}, {"allocated": "memory"}, {"allocated": "alibabacloud.com/gpu-milli"}]
    study = a_study(tmp_path, loads=[0.5, 1.5], metrics=metrics)
    frame = mooring.study(study, processes=1, bound=True).to_frame()
    bounds = frame[frame["policy"] == "Optimal"].set_index(["load", "seed"])
    assert len(bounds) == 6 and bounds["placed"].isna().all() and {*bounds["bound"]} <= {"exact", "relaxation"}
    for _, row in frame[frame["policy"] != "Optimal"].iterrows():
        bound = bounds.loc[(row["load"], row["seed"])]
        assert row["bound"] is pandas.NA and row["pods"] == bound["pods"]
        for column in ("allocated_cpu_percent", "allocated_memory_percent", "allocated_gpu_milli_percent"):
            assert 0 < row[column] <= bound[column] <= 100


def test_a_large_run_has_a_relaxation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = a_study(tmp_path, seeds=2)
    chosen: dict[str, Any] = {"only": {"policy": ["Optimal"]}, "processes": 1, "bound": True}
    exact = run_study(study, **chosen)
    monkeypatch.setattr(study_bound, "EXACT_PODS", 0)
    relaxed = run_study(study, **chosen)
    column = "allocated_cpu_percent"
    assert [each.bound for each in (*exact.results, *relaxed.results)] == [*["exact"] * 2, *["relaxation"] * 2]
    for one, other in zip(exact.results, relaxed.results, strict=True):
        assert (one.values[column] or 0) <= (other.values[column] or 0) <= 100
    assert relaxed.summary()[1] == "Optimal is a bound that no placement of the pods exceeds: relaxation in 2 runs."


def test_pods_and_taints_of_the_cluster_count(tmp_path: Path) -> None:
    """7 of 20 CPUs are free for pods of 3: two fit, beside the 3 that are taken. The other node has a taint."""
    study = a_study(tmp_path, seeds=1, metrics=[{"allocated": "cpu"}])
    (tmp_path / "cluster.yaml").write_text(CLUSTER)
    (tmp_path / "pods.csv").write_text(HEAD + "".join(f"p-{i},3000,1,0,0,,0,,\n" for i in range(5)))
    study["clusters"] = [{"name": "c", "manifests": str(tmp_path / "cluster.yaml")}]
    answer = run_study(study, processes=1, bound=True)
    assert [result.values for result in answer.results] == [{"allocated_cpu_percent": 45.0}] * 3
    assert [result.bound for result in answer.results] == ["", "", "exact"]


def test_a_node_is_open_if_one_of_the_configurations_says_so(tmp_path: Path) -> None:
    """GpuShare knows models of GPUs and the other configuration does not: with it alone, pods can use one of two nodes."""
    study = a_study(tmp_path, seeds=1, metrics=[{"allocated": "alibabacloud.com/gpu-milli"}])
    (tmp_path / "nodes.csv").write_text(
        "sn,cpu_milli,memory_mib,gpu,model\nn-0,64000,262144,2,T4\nn-1,64000,262144,2,P100\n"
    )
    (tmp_path / "pods.csv").write_text(HEAD + "".join(f"p-{i},1000,1024,1,1000,P100,0,,\n" for i in range(4)))
    study["workloads"][0].pop("until")
    examples = ROOT / "examples" / "gpu_sharing"
    sharing = {"name": "share", "config": str(examples / "policies" / "best-fit.yaml"), "plugins": [str(examples)]}
    for configurations, found in (([sharing], [50.0, 50.0]), ([sharing, {"name": "plain"}], [50.0, 100.0, 100.0])):
        answer = run_study({**study, "configurations": configurations}, processes=1, bound=True)
        assert [result.values["allocated_gpu_milli_percent"] for result in answer.results] == found


def test_bounds_are_in_the_results_once_for_all_policies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, results = a_study(tmp_path, seeds=2), tmp_path / "r.csv"
    assert len(run_study(study, results=results, processes=1).results) == 4
    made: list[str] = []
    real = StudyExperiment.run

    def noted(self: StudyExperiment, plan: Any, tell: Any = None) -> Any:
        made.append(plan.name)
        return real(self, plan, tell)

    monkeypatch.setattr(StudyExperiment, "run", noted)
    first = run_study(study, results=results, processes=1, bound=True)
    assert made == ["c w Optimal 1 1", "c w Optimal 2 1"]
    again = run_study(study, results=results, processes=1, bound=True)
    assert len(made) == 2 and [*again.results] == [*first.results]
    study["configurations"].append({"name": "more", "ties": "name"})
    run_study(study, results=results, processes=1, bound=True, only={"seed": ["1"], "policy": ["packed"]})
    assert made[2:] == ["c w Optimal 1 1"], "filters of another configuration may open nodes"


def test_the_bound_has_a_column_and_a_bar_and_no_star(tmp_path: Path) -> None:
    answer = run_study(a_study(tmp_path, seeds=8), processes=1, bound=True)
    tables = {table.title.partition(":")[0]: table for table in answer.tables()}
    assert tables["placed"].columns == ("workload", "spread", "packed")
    assert tables["allocated_cpu_percent"].columns == ("workload", "spread", "packed", "Optimal")
    (row,) = tables["allocated_cpu_percent"].rows
    assert "*" not in str(row[-1])
    (summary,) = (each for each in answer.published().summaries if each.policy == "Optimal")
    assert (summary.metric, summary.p_value, summary.runs) == ("allocated_cpu_percent", None, 8)
    assert answer.published().runs[-1].bound in ("exact", "relaxation") and answer.published().runs[0].bound is None
    assert "Optimal" in answer.to_html()


def test_what_has_no_bound_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    over_time = [{"name": "w", "pods": str(tmp_path / "pods.csv"), "format": "openb"}]
    for change, told in (
        ({"metrics": ["placed"]}, "--bound: no metric is `allocated` at the end; add one, such as {allocated: cpu}"),
        (
            {"workloads": over_time, "metrics": [{"allocated": "cpu"}]},
            "--bound: no workload arrives one-by-one; others have no bound",
        ),
        (
            {"configurations": [{"name": "Optimal"}]},
            "--bound: a configuration has the name Optimal, which the bound has; write another name",
        ),
    ):
        with pytest.raises(StudyError) as caught:
            plan_study(read_study(a_study(tmp_path, **change)), None, bound=True)
        assert str(caught.value) == told
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(StudyError, match=r"^--bound needs SciPy: pip install 'mooring\[plan\]'$"):
        run_study(a_study(tmp_path), bound=True)
