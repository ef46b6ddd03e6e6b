"""Studies: runs by seed, resumed, failed and tried again; on one process or several; and what they are judged by."""

import csv
import os
import pickle
from concurrent.futures.process import BrokenProcessPool
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

import mooring
from mooring.answers.experiments import workers
from mooring.answers.experiments.results_file import UnusableResults
from mooring.answers.study.study_file import read_study
from mooring.answers.study.study_plan import StudyPlan, plan_study
from mooring.answers.study.study_run import StudyExperiment, StudyResult
from mooring.answers.study.studying import run_study
from mooring.inputs.input_errors import InputError
from mooring.kit.version import VERSION
from mooring.model.pod import Pod
from mooring.sim.scenario import OneByOne
from recorded_moments import record_a_minute
from tiny_studies import HEADER, PODS, a_faulty_plugin, a_study


def rows(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return sorted(csv.DictReader(file), key=lambda row: (row["workload"], row["policy"], int(row["seed"])))


def test_a_seed_gives_the_same_row_and_another_seed_another(tmp_path: Path) -> None:
    study = a_study(tmp_path)
    for name in ("one.csv", "two.csv"):
        run_study(study, results=tmp_path / name, processes=1)
    first = rows(tmp_path / "one.csv")
    assert first == rows(tmp_path / "two.csv")
    assert [(row["policy"], row["seed"]) for row in first] == [
        *(("packed", seed) for seed in "123"),
        *(("spread", seed) for seed in "123"),
    ]
    assert len({row["pods"] + row["at_50"] for row in first[:3]}) > 1, "pods come in another order"
    assert {row["failed"] for row in first} == {""}


def test_worker_processes_give_the_same_rows(tmp_path: Path) -> None:
    study = a_study(tmp_path, seeds=[4, 9])
    run_study(study, results=tmp_path / "one.csv", processes=1)
    run_study(study, results=tmp_path / "two.csv", processes=2)
    assert rows(tmp_path / "one.csv") == rows(tmp_path / "two.csv")


def test_a_worker_of_dask_loads_the_files_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_read_inputs", {})
    experiment = StudyExperiment(read_study(a_study(tmp_path)))
    for plan in plan_study(experiment.study, {"seed": ["2"]}):
        here = experiment.run(plan)
        assert (
            here.values["placed"] and workers.run_in_dask_worker(pickle.dumps(experiment), "d", VERSION, plan) == here
        )


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_a_dask_cluster_gives_the_same_rows(tmp_path: Path) -> None:
    distributed: Any = import_module("distributed")  # it takes a second, so only this test imports it
    study = a_study(tmp_path)
    study["configurations"].append(a_faulty_plugin(tmp_path, 'raise RuntimeError("no such luck")'))
    run_study(study, results=tmp_path / "here.csv", processes=1, bound=True)
    how = {"n_workers": 2, "threads_per_worker": 2, "processes": False, "protocol": "tcp", "dashboard_address": None}
    with distributed.LocalCluster(**how) as cluster:
        run_study(study, results=tmp_path / "there.csv", dask=cluster.scheduler_address, bound=True)
    assert rows(tmp_path / "here.csv") == rows(tmp_path / "there.csv")
    assert sum(bool(row["failed"]) for row in rows(tmp_path / "there.csv")) == 3


def test_a_run_is_what_a_plain_loop_counts(tmp_path: Path) -> None:
    """With one resource that matters, and pods of a size that divides what nodes have, the loop needs no scheduler."""
    pods = PODS.splitlines()[0] + "\n" + "".join(f"p-{i},2000,1,0,0,,0,,\n" for i in range(5))
    study = a_study(tmp_path, seeds=1, configurations=[])
    (tmp_path / "pods.csv").write_text(pods)
    answer = run_study(study, processes=1)
    (result,) = answer.results
    asked, at = 0, dict[int, float]()
    while asked < 1.1 * 48000:
        asked += 2000
        for percent in (50, 100):
            if asked >= percent / 100 * 48000:
                at.setdefault(percent, 100 * min(asked, 48000) / 48000)
    assert (result.pods, asked) == (27, 54000)
    assert dict(result.values) == {
        "placed": 24,
        "pending": 3,
        "allocated_cpu_percent": 100.0,
        "at_50": at[50],
        "at_100": at[100],
    }


def test_a_study_that_was_stopped_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a kill leaves the file: some rows, and a part of the next one."""
    study = a_study(tmp_path)
    run_study(study, results=tmp_path / "whole.csv", processes=1)
    whole = (tmp_path / "whole.csv").read_bytes()
    made: list[str] = []
    real = StudyExperiment.run

    def noted(self: StudyExperiment, plan: StudyPlan, tell: Any = None) -> StudyResult:
        made.append(plan.name)
        return real(self, plan, tell)

    monkeypatch.setattr(StudyExperiment, "run", noted)
    ends = [i for i, byte in enumerate(whole) if byte == ord("\n")]
    for kept, end in ((0, ends[0] + 1), (2, ends[2] + 40), (6, len(whole))):
        (tmp_path / "torn.csv").write_bytes(whole[:end])
        made.clear()
        notes: list[str] = []
        answer = run_study(study, results=tmp_path / "torn.csv", processes=1, on_note=notes.append)
        assert (tmp_path / "torn.csv").read_bytes() == whole and len(made) == 6 - kept
        assert notes == ([f"{kept} of 6 runs are in {tmp_path}/torn.csv already"] if kept else [])
        assert answer.summary()[0] == "6 runs of the study without a name: all were made."


def test_another_input_is_another_run(tmp_path: Path) -> None:
    study = a_study(tmp_path, seeds=1)
    run_study(study, results=tmp_path / "r.csv", processes=1)
    (tmp_path / "pods.csv").write_text(PODS.replace("p-1,", "q-1,"))
    run_study(study, results=tmp_path / "r.csv", processes=1)
    assert len(rows(tmp_path / "r.csv")) == 4 and len({row["run"] for row in rows(tmp_path / "r.csv")}) == 4
    (tmp_path / "copy").mkdir()
    run_study(a_study(tmp_path / "copy", seeds=1), results=tmp_path / "r.csv", processes=1)
    assert len(rows(tmp_path / "r.csv")) == 4, "only the content of files counts, not where they are"


# ---- runs that fail


def test_a_plugin_that_raises_is_a_row_with_the_reason(tmp_path: Path) -> None:
    faulty = a_faulty_plugin(tmp_path, 'raise RuntimeError("no such luck")')
    study = a_study(tmp_path, seeds=1)
    study["configurations"].append(faulty)
    answer = run_study(study, results=tmp_path / "r.csv", processes=1)
    failed, *good = rows(tmp_path / "r.csv")
    assert [row["policy"] for row in good] == ["packed", "spread"] and not any(row["failed"] for row in good)
    assert "no such luck" in failed["failed"] and "p-7" in failed["failed"] and failed["placed"] == ""
    assert answer.summary()[0] == "3 runs of the study without a name: 1 failed."
    assert [plan.name for plan, _ in answer.failures] == ["c w faulty 1 1"]


def test_runs_that_failed_are_made_again_on_request(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    faulty = a_faulty_plugin(tmp_path, f'assert os.path.exists("{mark}")')
    study = a_study(tmp_path, seeds=2)
    study["configurations"].append(faulty)
    for name in ("r.csv", "r.parquet"):
        mark.unlink(missing_ok=True)
        path = tmp_path / name
        assert len(run_study(study, results=path, processes=1).failures) == 2
        mark.touch()
        assert len(run_study(study, results=path, processes=1).failures) == 2, "rows stay as they are"
        assert not run_study(study, results=path, processes=1, retry_failed=True).failures
        assert not run_study(study, results=path, processes=1).failures
    assert len(rows(tmp_path / "r.csv")) == 6 and not any(row["failed"] for row in rows(tmp_path / "r.csv"))
    assert sorted(each.name for each in tmp_path.glob("r.*")) == ["r.csv", "r.parquet"]


@pytest.mark.slow
def test_a_worker_that_dies_is_a_row_and_the_others_are_made(tmp_path: Path) -> None:
    study = a_study(tmp_path, seeds=2)
    study["configurations"].append(a_faulty_plugin(tmp_path, "os._exit(9)"))
    run_study(study, results=tmp_path / "r.csv", processes=2)
    found = {(row["policy"], row["seed"]): row["failed"] for row in rows(tmp_path / "r.csv")}
    told = "a worker process was killed, perhaps for want of memory: use fewer processes"
    assert found == {
        **{(policy, seed): "" for policy in ("spread", "packed") for seed in "12"},
        **{("faulty", seed): told for seed in "12"},
    }


def test_a_full_disk_leaves_rows_that_are_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study, path, written = a_study(tmp_path), tmp_path / "r.csv", 0
    real = os.fsync

    def full(descriptor: int) -> None:
        nonlocal written
        written += 1
        if written > 2:
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UnusableResults, match=r"^.*r\.csv: cannot be written: No space left on device$"):
        run_study(study, results=path, processes=1)
    monkeypatch.undo()
    run_study(study, results=path, processes=1)
    assert len({row["run"] for row in rows(path)}) == len(rows(path)) == 6


# ---- metrics


def test_a_function_of_a_user_gets_the_run(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(
        "def free(run):\n"
        "    assert (run.cluster, run.workload, run.policy, run.load) == ('c', 'w', 'spread', 1.0)\n"
        "    on_nodes = sum(len(pods) for pods in run.state.nodes.pods_on)\n"
        "    assert len(run.placements) in (0, on_nodes)\n"
        "    return run.allocatable('cpu') - run.requested('cpu')\n"
        "def nothing(run):\n    return None\n"
        "def text(run):\n    return 'many'\n"
    )
    own = f"{tmp_path}/own.py"
    metrics: list[Any] = [
        "placed",
        {"python": f"{own}:free"},
        {"python": f"{own}:free", "at": [50], "column": "free_at"},
    ]
    study = a_study(tmp_path, seeds=1, configurations=[{"name": "spread"}])
    (result,) = run_study({**study, "metrics": [*metrics, {"python": f"{own}:nothing"}]}, processes=1).results
    assert result.failed == "" and result.values["nothing"] is None
    free, at = result.values["free"], result.values["free_at_50"]
    assert free is not None and at is not None and 0 <= free < 24000 and 22000 <= at <= 24000
    (failed,) = run_study({**study, "metrics": [{"python": f"{own}:text"}]}, processes=1).results
    assert failed.failed == f'{own}: text returned "many": return a number or None'
    with pytest.raises(InputError, match=r"own\.py: has no function missing"):
        run_study({**study, "metrics": [{"python": f"{own}:missing"}]}, processes=1)


def test_runs_over_time_have_the_figures_of_compare(tmp_path: Path) -> None:
    study = a_study(tmp_path, seeds=[1], configurations=[{"name": "spread", "ties": "name"}])
    study["workloads"] = [
        {"name": "trace", "pods": str(tmp_path / "pods.csv"), "format": "openb"},
        {"name": "fitted", "pods": str(tmp_path / "pods.csv"), "format": "openb", "fit": {"pods": 30}},
        {"name": "generated", "generate": {"pods": 12, "over": "1h", "templates": 3}},
    ]
    study["metrics"] = ["placed", "waits_max_seconds", "utilisation_cpu_mean_percent", {"fragmented": "memory"}]
    answer = run_study(study, processes=1)
    assert [(result.pods, result.values["placed"], result.failed) for result in answer.results] == [
        *((20, 20, ""), (30, 30, ""), (12, 12, ""))
    ]
    assert all(0 < (result.values["utilisation_cpu_mean_percent"] or 0) < 100 for result in answer.results)


def test_a_workload_without_the_moments_of_a_metric_is_noted(tmp_path: Path) -> None:
    study = a_study(tmp_path, seeds=1, configurations=[])
    study["workloads"].append({"name": "day", "pods": str(tmp_path / "pods.csv"), "format": "openb"})
    answer = run_study(study, processes=1)
    assert [result.values.get("at_50") is None for result in answer.results] == [False, True]
    told = "at_50, at_100 are empty for day: only one-by-one with `until` has such moments"
    assert answer.notes == [told] and answer.summary()[1] == f"Note: {told}."


def test_a_recording_is_a_cluster_and_a_workload(tmp_path: Path) -> None:
    """The minute has 17 pods that come every 3 s and run for 25 s, one that fits nowhere, and one that preempts."""
    record_a_minute(tmp_path / "recording")
    source = str(tmp_path / "recording")
    study = {
        **HEADER,
        "clusters": [{"recording": source}],
        "workloads": [{"recording": source}, {"name": "other", "generate": {"pods": 5, "over": "1m"}}],
        "configurations": [{"name": "default", "ties": "name"}],
        "metrics": ["placed", "pending", "nodes_used", {"allocated": "cpu"}],
    }
    answer = run_study(study, results=tmp_path / "r.csv", processes=1)
    recorded, other = answer.results
    assert (recorded.failed, recorded.pods, recorded.values["pending"]) == ("", 19, 1)
    assert (other.failed, other.pods) == ("", 5)
    assert [row["cluster"] for row in csv.DictReader((tmp_path / "r.csv").open())] == ["recording"] * 2
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"empty: there is no recording in this directory$"):
        run_study({**study, "clusters": [{"recording": str(tmp_path / "empty")}]}, processes=1)


def test_a_load_scales_what_arrives(tmp_path: Path) -> None:
    study = a_study(tmp_path, seeds=1, configurations=[], loads=[0.5, 1, 2])
    answer = run_study(study, processes=1)
    half, one, two = (result.pods or 0 for result in answer.results)
    assert half < one < two and two == pytest.approx(4 * half, rel=0.2)


# ---- the answer


def test_the_answer_has_means_and_differences_by_seed(tmp_path: Path) -> None:
    answer = mooring.study(a_study(tmp_path), processes=1, only={"policy": ["spread", "packed"], "seed": [1, "2..3"]})
    frame = answer.to_frame()
    assert [*frame.columns] == [
        *("cluster", "workload", "policy", "seed", "load", "pods", "placed", "pending"),
        *("allocated_cpu_percent", "at_50", "at_100", "bound", "failed"),
    ]
    summaries = answer.to_frame("summaries").set_index(["policy", "metric"])
    placed = frame.pivot_table("placed", "seed", "policy")
    assert summaries.loc[("packed", "placed"), "mean"] == pytest.approx(placed["packed"].mean())
    assert summaries.loc[("packed", "placed"), "standard_deviation"] == pytest.approx(placed["packed"].std())
    difference = (placed["packed"] - placed["spread"]).mean()
    assert summaries.loc[("packed", "placed"), "difference"] == pytest.approx(difference)
    page = answer.to_html()
    assert "at, w: mean and 95 % confidence" in page and page.count('class="band') == 2


def test_choices_that_the_study_does_not_have_are_told(tmp_path: Path) -> None:
    study = a_study(tmp_path)
    for only, told in (
        ({"polcy": ["packed"]}, "--only polcy: no such choice; did you mean policy?"),
        ({"policy": ["paked"]}, "--only policy=paked: the study has no such policy; did you mean packed?"),
        ({"seed": [7]}, "--only seed=7: the study has no such seed; it has 1, 2, 3"),
    ):
        with pytest.raises(InputError) as caught:
            mooring.study(study, only=only)
        assert str(caught.value) == told


def test_an_order_is_a_permutation_of_all_pods_before_any_is_drawn_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = a_study(tmp_path, seeds=1, configurations=[])
    placed: list[str] = []
    real = OneByOne.place

    def noted(self: OneByOne, pod: Pod) -> str | None:
        placed.append(pod.name)
        return real(self, pod)

    monkeypatch.setattr(OneByOne, "place", noted)
    run_study(study, processes=1)
    assert sorted(placed[:20]) == sorted(f"p-{i}" for i in range(20)) and placed[:20] != [f"p-{i}" for i in range(20)]
    assert all("-again-" in name for name in placed[20:]) and len({*placed}) == len(placed)


def test_a_worker_that_died_for_another_reason_makes_its_runs_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """One broken pool, and none after it: all plans are made, those that had begun on their own."""
    ran: list[tuple[tuple[int, ...], int]] = []

    class Pool:
        def __init__(self, experiment: Any, plans: Any, shares: Any, context: Any, tell: Any) -> None:
            self.shares = shares

        def run(self, places: list[int], processes: int) -> Any:
            ran.append((tuple(places), processes))
            if len(ran) == 1:
                yield 0, "made"
                self.shares[1] = self.shares[2] = 0.5
                raise BrokenProcessPool("gone")
            yield from ((place, "made") for place in places)

        def run_again(self, place: int) -> str:
            ran.append(((place,), 0))
            return "made alone"

    monkeypatch.setattr(workers, "_WorkerPool", Pool)
    plans: list[Any] = [*range(5)]
    experiment: Any = None
    found: dict[int, str] = dict(workers.run_in_processes(experiment, plans, lambda *done: None, 2))
    assert found == {0: "made", 1: "made alone", 2: "made alone", 3: "made", 4: "made"}
    assert ran == [((0, 1, 2, 3, 4), 2), ((1,), 0), ((2,), 0), ((3, 4), 2)]
