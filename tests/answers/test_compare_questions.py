"""What a comparison is asked with, which runs it makes for that and where; and what it refuses before it makes any."""

import csv
import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from build import a_node, a_pod
from mooring.answers.experiments import comparing, workers
from mooring.answers.experiments.compared_run import RunInputs, RunResult, run_once
from mooring.answers.experiments.comparing import compare, comparison_of, config_name
from mooring.answers.experiments.comparison import Comparison
from mooring.answers.experiments.run_plan import RunPlan, UnusablePlan, digest_of, plan_runs
from mooring.framework import config as configuration
from mooring.framework.config import ConfigError
from mooring.framework.contract.plain import NodeView, PlainPlugin
from mooring.framework.profile.registry import load_file
from mooring.inputs.arrivals import arrivals_of
from mooring.inputs.input_errors import InputError
from mooring.inputs.load_plan import read_load_plan
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.state.scheduler_assembly import all_plugins

HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
DEFAULT = configuration.default()
ENTRY: dict[str, Any] = {"at": "1s", "count": 2, "cpu": "1", "memory": "1Gi", "run": "5s"}
SEEDS = {"seed": [1, 2]}


def pending(name: str, **rest: Any) -> Pod:
    return a_pod(name, schedulerName="default-scheduler", **rest)


def a_loaded(*items: KubeObject, **rest: Any) -> LoadedCluster:
    return LoadedCluster(items, DEFAULT, **rest)


ONE = a_loaded(a_node("n"), pending("p", cpu="1"))


def names(answer: Comparison) -> list[str]:
    return [run.plan.name for run in answer.runs]


# ---- configurations


def test_configurations_are_named_by_pairs_files_places_and_words(tmp_path: Path) -> None:
    file = tmp_path / "my.own.yaml"
    file.write_text(json.dumps({**HEADER, "parallelism": 5}))
    own = msgspec.structs.replace(DEFAULT, parallelism=7)
    cluster = LoadedCluster(ONE.objects, msgspec.structs.replace(DEFAULT, parallelism=3))
    answer = compare(cluster, [("first", own), own, str(file), file, "cluster", "default", ("last", "cluster")])
    assert names(answer) == ["first", "config-2", "my.own", "my.own (2)", "cluster", "default", "last"]
    assert [run.plan.config.parallelism for run in answer.runs] == [7, 7, 5, 5, 3, 16, 3]


def test_without_a_configuration_that_of_the_cluster_counts() -> None:
    cluster = LoadedCluster(ONE.objects, msgspec.structs.replace(DEFAULT, parallelism=3))
    answer = compare(cluster, vary=SEEDS)
    assert names(answer) == ["cluster seed=1", "cluster seed=2"]
    assert {run.plan.config.parallelism for run in answer.runs} == {3}
    assert names(compare(cluster, {}, vary=SEEDS)) == names(answer), "no names are no configurations"


@pytest.mark.parametrize(
    ("path", "name"),
    [("default", "default"), ("cluster", "cluster"), ("a/cluster", "cluster"), ("a/b.c.yaml", "b.c"), ("x", "x")],
)
def test_a_file_is_known_by_its_name_without_folder_and_ending(path: str, name: str) -> None:
    assert config_name(path) == name


# ---- loads and times


def test_arrivals_may_be_read_already_and_there_may_be_none() -> None:
    read = arrivals_of([ENTRY], ONE.objects)
    assert [run.figures.pods for run in compare(ONE, vary=SEEDS, arrivals=read).runs] == [3, 3]
    empty = compare(ONE, vary=SEEDS, arrivals=[])
    assert [run.figures.pods for run in empty.runs] == [1, 1]
    assert [run.figures.node_hours is None for run in empty.runs] == [False, False], "a day on which nobody arrives"


@pytest.mark.parametrize("until", [90, 90.0, "90", "90s", "1m30s"])
def test_a_day_ends_when_it_is_told(until: float | str) -> None:
    answer = compare(ONE, vary=SEEDS, arrivals=[{**ENTRY, "at": "60s"}, {**ENTRY, "at": "91s"}], until=until)
    assert [(run.figures.simulated_seconds, run.figures.pods) for run in answer.runs] == [(90.0, 3), (90.0, 3)]


@pytest.mark.parametrize("until", ["soon", -1, True])
def test_a_time_that_is_none_is_refused(until: Any) -> None:
    with pytest.raises(UnusablePlan) as caught:
        compare(ONE, vary=SEEDS, until=until)
    assert str(caught.value) == (
        f"until: Invalid value: {until!r}: must be seconds, or a duration such as 90s, 15m, 24h"
    )


def test_a_plan_may_be_read_already(tmp_path: Path) -> None:
    plan = {"pods": 4, "over": "1m", "templates": 1, "nodes": [{"name": "g", "count": 1}]}
    file = tmp_path / "plan.yaml"
    file.write_text(json.dumps(plan))
    for generate in (plan, file, read_load_plan(plan)):
        answer = compare(a_loaded(), vary=SEEDS, generate=generate)
        assert [run.figures.pods for run in answer.runs] == [4, 4]


# ---- prices


def test_prices_may_be_in_a_file_and_say_what_costs_are(tmp_path: Path) -> None:
    file = tmp_path / "prices.yaml"
    file.write_text("n: 1.5\n")
    for prices in (file, str(file), {"n": 1.5}):
        answer = compare(ONE, vary=SEEDS, prices=prices)
        assert (answer.cost_unit, answer.runs[0].figures.cost) == ("price an hour", 1.5)
    day = compare(ONE, vary=SEEDS, prices={"n": 1.5}, arrivals=[], until="2h")
    assert day.cost_unit == "price" and day.runs[0].figures.cost == pytest.approx(3, abs=0.001)
    free = compare(ONE, vary=SEEDS, arrivals=[], until="2h")
    assert (free.cost_unit, free.runs[0].figures.cost) == ("nodes", 1.0)


def test_what_is_missing_is_told_before_a_run_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "run_here", None)
    with pytest.raises(InputError, match=r"^prices: no price for 1 node: n; "):
        compare(ONE, vary=SEEDS, prices={})
    unknown = {**HEADER, "profiles": [{"plugins": {"filter": {"enabled": [{"name": "Unknown"}]}}}]}
    with pytest.raises(ConfigError) as caught:
        compare(ONE, {"good": "default", "bad": unknown})
    assert caught.value.source == "bad"


# ---- where runs are made


class Made:
    """Makes runs in this process, and remembers who was asked to make how many."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, cores: int | None = 4) -> None:
        self.asked: list[tuple[Any, ...]] = []
        monkeypatch.setattr(workers, "run_here", self._here)
        monkeypatch.setattr(workers, "run_in_processes", self._in_processes)
        monkeypatch.setattr(workers, "run_on_dask", self._on_dask)
        monkeypatch.setattr(os, "cpu_count", lambda: cores)

    def _here(self, inputs: RunInputs, plans: Sequence[RunPlan], on_progress: Any) -> Iterator[tuple[int, RunResult]]:
        self.asked.append(("here", len(plans)))
        return self._made(plans)

    def _in_processes(
        self, inputs: RunInputs, plans: Sequence[RunPlan], on_progress: Any, processes: int
    ) -> Iterator[tuple[int, RunResult]]:
        self.asked.append(("processes", len(plans), processes))
        return self._made(plans)

    def _on_dask(
        self, inputs: RunInputs, plans: Sequence[RunPlan], on_progress: Any, address: str, digest: str
    ) -> Iterator[tuple[int, RunResult]]:
        self.asked.append(("dask", len(plans), address, digest))
        return self._made(plans)

    def _made(self, plans: Sequence[RunPlan]) -> Iterator[tuple[int, RunResult]]:
        yield from ((i, run_once(RunInputs(ONE.objects), plan)) for i, plan in reversed([*enumerate(plans)]))


def test_many_pods_are_worth_processes_and_few_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(monkeypatch)
    for pods in (2499, 2500):
        compare(a_loaded(), vary=SEEDS, generate={"pods": pods, "over": "1h", "nodes": [{"name": "g", "count": 1}]})
    assert made.asked == [("here", 2), ("processes", 2, 4)], "from 5,000 pods in all"


@pytest.mark.parametrize("cores", [1, None])
def test_a_machine_with_one_core_makes_all_runs_in_one_process(
    cores: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Made(monkeypatch, cores)
    compare(a_loaded(), vary=SEEDS, generate={"pods": 9000, "over": "1h", "nodes": [{"name": "g", "count": 1}]})
    assert made.asked == [("here", 2)]


def test_a_number_of_processes_is_heeded(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(monkeypatch)
    for processes in (1, 2, 3):
        compare(ONE, vary=SEEDS, processes=processes)
    assert made.asked == [("here", 2), ("processes", 2, 2), ("processes", 2, 3)]


def test_dask_gets_the_digest_of_the_inputs(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Made(monkeypatch)
    for prices in ({"n": 1}, {"n": 2}):
        compare(ONE, vary=SEEDS, dask="tcp://x", prices=prices)
    (*first, one), (*second, two) = made.asked
    assert first == second == ["dask", 2, "tcp://x"]
    assert len(one) == len(two) == 16 and one != two


class Own(PlainPlugin):
    name = "Own"

    def filter(self, pod: Pod, node: NodeView) -> str | None:
        return None


def test_plugins_of_this_process_stay_in_it_and_those_of_files_do_not(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    made = Made(monkeypatch)
    here, from_file = all_plugins(), all_plugins()
    here.register(Own)
    note = "the runs were made in one process, because plugins are not from files"
    for processes, notes in ((None, [note]), (2, [note]), (1, [])):
        assert compare(a_loaded(*ONE.objects, registry=here), vary=SEEDS, processes=processes).notes == notes
    assert made.asked == [("here", 2)] * 3
    with pytest.raises(UnusablePlan) as caught:
        compare(a_loaded(*ONE.objects, registry=here), vary=SEEDS, dask="tcp://x")
    assert str(caught.value) == "dask: plugins must come from files, because other machines do not have the classes"
    file = tmp_path / "own.py"
    file.write_text(
        "from mooring.framework.contract.plain import PlainPlugin\n"
        "class Own(PlainPlugin):\n"
        "    name = 'Own'\n"
        "    def filter(self, pod, node): pass\n"
    )
    load_file(from_file, str(file))
    answer = compare(a_loaded(*ONE.objects, registry=from_file), vary=SEEDS, processes=2)
    assert made.asked[3:] == [("processes", 2, 2)] and answer.notes == []


# ---- results that are kept


def test_a_sweep_makes_the_runs_that_its_file_lacks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made, notes, file = Made(monkeypatch), list[str](), tmp_path / "r.csv"
    first = compare(ONE, vary=SEEDS, results=file, on_note=notes.append)
    assert notes == []
    more = compare(ONE, vary={"seed": [3, 1, 4, 2]}, results=file, on_note=notes.append)
    assert notes == [f"2 of 4 runs are in {file} already"]
    assert names(more) == [f"cluster seed={seed}" for seed in (3, 1, 4, 2)]
    again = compare(ONE, vary=SEEDS, results=str(file), dask="tcp://nobody", on_note=notes.append)
    assert again.to_dict() == first.to_dict() and notes[1:] == [f"2 of 2 runs are in {file} already"]
    assert made.asked == [("here", 2), ("here", 2)], "the third time nobody is asked"
    with file.open() as text:
        rows = [(row["name"], row["seed"]) for row in csv.DictReader(text)]
    assert rows == [(f"cluster seed={seed}", str(seed)) for seed in (2, 1, 4, 3)], (
        "in the order in which they were made"
    )
    compare(ONE, vary=SEEDS, results=file, until="1s")
    assert made.asked[2:] == [("here", 2)], "the file has no runs of other inputs"


def test_runs_tell_how_far_they_are() -> None:
    told: list[tuple[float, int]] = []
    compare(ONE, vary=SEEDS, on_progress=lambda *done: told.append(done))
    assert told[-1] == (2, 2) and {total for _, total in told} == {2}


# ---- side by side


def test_so_many_pods_are_compared_and_of_more_only_digests(monkeypatch: pytest.MonkeyPatch) -> None:
    for limit, differing in ((2, 0), (1, None)):
        monkeypatch.setattr(comparing, "COMPARED_NODES", limit)
        answer = compare(ONE, ["default", "default"])
        assert answer.differing == differing, "two runs of one pod"
        assert [run.moved for run in answer.runs] == ([0, 0] if differing == 0 else [None, None])


def test_a_list_of_differences_that_is_whole_needs_no_note(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = a_loaded(a_node("n"), *(pending(f"p-{i}", cpu="3") for i in range(2)))
    off = {**HEADER, "profiles": [{"plugins": {"multiPoint": {"disabled": [{"name": "NodeResourcesFit"}]}}}]}
    for limit, listed, notes in ((2, ["default/p-1"], []), (1, [], ["differences has 0 of 1 pods"])):
        monkeypatch.setattr(comparing, "LISTED_NODES", limit)
        answer = compare(cluster, {"on": "default", "off": off})
        assert ([each.pod for each in answer.differences], answer.notes) == (listed, notes)
        assert answer.differing == 1


def test_runs_without_pods_have_the_same_nodes() -> None:
    answer = compare(a_loaded(a_node("n")), vary=SEEDS)
    assert answer.summary() == ["2 runs of 0 pods: every pod has the same node in all of them."]


@pytest.mark.parametrize(
    ("saying", "told"),
    [
        (1, "run 0: said"),
        (3, "run 0, run 1, run 2: said"),
        (4, "run 0, run 1, run 2, ...: said"),
        (5, "said"),
    ],
)
def test_a_note_names_the_first_three_runs_that_say_it_unless_all_do(saying: int, told: str) -> None:
    figures = run_once(RunInputs([]), RunPlan("x", "x", DEFAULT)).figures
    said = msgspec.structs.replace(figures, notes=["said"])
    plans = [RunPlan(f"run {i}", "x", DEFAULT) for i in range(5)]
    results = [RunResult(said if i < saying else figures, "", "d") for i in range(5)]
    assert comparison_of(RunInputs([]), plans, results, []).notes[0] == told


# ---- plans


def a_refusal(configs: int = 1, **vary: Any) -> str:
    with pytest.raises(UnusablePlan) as caught:
        plan_runs([(f"c{i}", DEFAULT) for i in range(configs)], vary)
    return str(caught.value)


def test_seeds_and_loads_have_limits() -> None:
    highest = 2**63 - 1
    plans = plan_runs([("a", DEFAULT)], {"seed": [0, highest], "load": [0.001, 1000]})
    assert [(plan.seed, plan.load) for plan in plans] == [
        *((0, 0.001), (0, 1000.0), (highest, 0.001), (highest, 1000.0)),
    ]
    assert a_refusal(seed=[1, 2**63]) == f"seed: {2**63} is no seed: write whole numbers from 0"
    assert a_refusal(seed=[1.0, 2]) == "seed: 1.0 is no seed: write whole numbers from 0"
    for load in (1000.5, True, "2", -1):
        assert a_refusal(load=[1, load]) == f"load: {load!r} is no load: write numbers above 0, up to 1000"


def test_a_product_of_configurations_and_values_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mooring.answers.experiments.run_plan.MAX_RUNS", 6)
    assert len(plan_runs([("a", DEFAULT), ("b", DEFAULT)], {"seed": [1, 2, 3]})) == 6
    assert a_refusal(2, seed=[1, 2, 3, 4]) == "8 runs are more than 6: vary less"
    assert a_refusal(7) == "7 runs are more than 6: vary less"


def test_values_without_any_are_told_by_their_path() -> None:
    assert a_refusal(2, parallelism=[]) == "parallelism: no values; write some: parallelism=1,2"


def test_runs_are_named_by_the_last_step_of_a_path_and_by_the_value_as_it_is_written() -> None:
    path = "profiles.0.pluginConfig.NodeResourcesFit.scoringStrategy.resources"
    resources = [[{"name": "cpu", "weight": 1}], [{"name": "memory", "weight": 2}]]
    plans = plan_runs([("a", DEFAULT)], {path: resources, "parallelism": [3]})
    assert [plan.name for plan in plans] == [
        'a resources=[{"name": "cpu", "weight": 1}] parallelism=3',
        'a resources=[{"name": "memory", "weight": 2}] parallelism=3',
    ]
    assert {plan.config_name for plan in plans} == {"a"} and {plan.load for plan in plans} == {1.0}
    assert [plan.seed for plan in plans] == [None, None]


def test_a_digest_is_that_of_compact_json_with_sorted_keys() -> None:
    """Rows of results files are known by it, also those that an earlier version wrote."""
    expected = hashlib.sha256(b'{"a":"x","b":[1,null]}').hexdigest()[:16]
    assert digest_of({"b": [1, None], "a": "x"}) == digest_of({"a": "x", "b": [1, None]}) == expected
    assert digest_of([1 + 2j]) == digest_of(["(1+2j)"])
