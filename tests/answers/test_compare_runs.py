"""Runs of a comparison: the figures of one, what their digest depends on, and what workers do with them."""

import json
import pickle
import sys
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import pytest

from build import a_node, a_pod
from mooring.answers.compare import workers
from mooring.answers.compare import workers as dask_workers
from mooring.answers.compare.comparing import compare
from mooring.answers.compare.figures import RunFigures, UseFigures, WaitFigures
from mooring.answers.compare.run import RunInputs, RunResult, run_once
from mooring.answers.compare.run_plan import RunPlan
from mooring.answers.compare.workers import RunFault
from mooring.api.validation.problem import Problem
from mooring.framework import config as configuration
from mooring.inputs.arrivals import arrivals_of
from mooring.inputs.input_errors import InputError
from mooring.inputs.load_plan import read_load_plan
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.kit.version import VERSION
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod


def a_plan(name: str) -> RunPlan:
    return RunPlan(name, "cluster", configuration.default(), (), None, 1.0)


# ---- one run


def at_once(*items: KubeObject, **rest: Any) -> RunResult:
    return run_once(RunInputs(items, **rest), a_plan("run"))


def pending(name: str, **rest: Any) -> Pod:
    return a_pod(name, schedulerName="default-scheduler", **rest)


def test_the_figures_of_pods_that_arrive_at_once() -> None:
    nodes = [a_node(f"n-{i}", cpu="4", memory="8Gi") for i in range(2)]
    pods = [pending("a", cpu="3", priority=1), pending("b", cpu="3"), pending("c", cpu="3")]
    figures = at_once(*nodes, *pods, prices={"n-0": 1.5, "n-1": 2.0}).figures
    assert (figures.pods, figures.placed, figures.pending, figures.preempted) == (3, 2, 1, 0)
    assert [(each.priority, each.bound, each.pending, each.preempted) for each in figures.waits_by_priority] == [
        (1, 1, 0, 0),
        (0, 1, 1, 0),
    ]
    assert figures.utilisation["cpu"] == UseFigures(0.75, 0.75)
    assert (figures.nodes_used, figures.node_hours, figures.cost, figures.curves) == (2, None, 3.5, None)
    assert figures.fragmentation["cpu"] == 1.0, "one cpu is free on each node, and every pod wants three"
    assert sum(figures.wait_counts) == 2


def test_without_prices_the_cost_is_the_number_of_nodes() -> None:
    assert at_once(a_node("n"), pending("p", cpu="1")).figures.cost == 1.0


def test_the_pods_of_a_run_are_those_without_a_node() -> None:
    items: list[KubeObject] = [a_node("n"), pending("p"), pending("q", nodeName="n")]
    assert RunInputs(items).pods_per_run() == 1
    assert not RunInputs(items).is_day and RunInputs(items, []).is_day


def test_the_digest_of_inputs_changes_with_each_of_them() -> None:
    items: list[KubeObject] = [a_node("n"), pending("p")]
    digests = [
        RunInputs(items).digest("1"),
        RunInputs(items).digest("2"),
        RunInputs(items[:1]).digest("1"),
        RunInputs(items, []).digest("1"),
        RunInputs(items, until_ns=1).digest("1"),
        RunInputs(items, prices={"n": 1.0}).digest("1"),
        RunInputs(items, gates={"GenericWorkload": True}).digest("1"),
    ]
    assert len({*digests}) == len(digests) and {len(each) for each in digests} == {16}
    assert RunInputs([*items]).digest("1") == digests[0]


# ---- workers


class _Half:
    """Stands for `run_once`: a run that tells half of its way, and ends with its plan."""

    def __call__(self, inputs: Any, plan: RunPlan, on_progress: Any = None) -> Any:
        if plan.name == "bad":
            raise InputError([Problem("", "first"), Problem("", "second")])
        if on_progress is not None:
            on_progress(1, 2)
            on_progress(5, 2)
            on_progress(0, 0)
        return a_result(plan.name)


def a_result(name: str) -> RunResult:
    return RunResult(RunFigures(0, 0, 0, 0, 0, 0.0, WaitFigures(), [], {}, {}, 0, None, 0.0), "", name)


@pytest.fixture
def halves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "run_once", _Half())


@pytest.mark.usefixtures("halves")
def test_runs_here_tell_how_far_they_are() -> None:
    told: list[tuple[float, int]] = []
    found = list(workers.run_here(RunInputs([]), [a_plan("a"), a_plan("b")], lambda *done: told.append(done)))
    assert found == [(0, a_result("a")), (1, a_result("b"))] and told == [
        (0.5, 2),
        (1, 2),
        (1, 2),
        (1.5, 2),
        (2, 2),
        (2, 2),
    ]


@pytest.mark.usefixtures("halves")
def test_a_worker_process_notes_its_share_and_that_it_is_done(monkeypatch: pytest.MonkeyPatch) -> None:
    shares = [0.0, 0.0]
    monkeypatch.setattr(workers, "_own", [(RunInputs([]), shares)])
    assert (workers._run(1, a_plan("b")), shares) == (a_result("b"), [0.0, 1.0])
    with pytest.raises(RunFault, match="^first\nsecond$"):
        workers._run(0, a_plan("bad"))
    assert shares == [0.0, 1.0]


def test_results_of_worker_processes_come_in_the_order_of_their_plans() -> None:
    futures = [Future[RunResult]() for _ in range(3)]
    for i, future in enumerate(futures):
        future.set_result(a_result(str(i)))
    told: list[str] = []
    places = {future: i for i, future in reversed([*enumerate(futures)])}
    found = list(workers._as_done(places, lambda: told.append("told")))
    assert found == [(i, a_result(str(i))) for i in range(3)] and told == ["told"]


def test_new_processes_do_not_see_the_script() -> None:
    script = sys.modules["__main__"]
    with workers._without_main():
        assert sys.modules["__main__"] is not script and not hasattr(sys.modules["__main__"], "__file__")
    assert sys.modules["__main__"] is script


@pytest.mark.usefixtures("halves")
def test_a_worker_of_dask_reads_inputs_once_and_refuses_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    sent, read = pickle.dumps(RunInputs([])), {"old": RunInputs([])}
    monkeypatch.setattr(dask_workers, "_read_inputs", read)
    assert dask_workers._run_sent(sent, "x", VERSION, a_plan("a")) == a_result("a")
    assert [*read] == ["x"]
    first = read["x"]
    dask_workers._run_sent(sent, "x", VERSION, a_plan("b"))
    assert read["x"] is first
    dask_workers._run_sent(sent, "y", VERSION, a_plan("b"))
    assert [*read] == ["y"]
    told = f"^a worker of Dask has Mooring {VERSION}, and this is 0: install the same version$"
    with pytest.raises(RunFault, match=told):
        dask_workers._run_sent(b"", "x", "0", a_plan("a"))


class _Future:
    """Stands for a future of Dask."""

    def __init__(self, fault: Exception | None) -> None:
        self._fault = fault

    def result(self) -> str:
        if self._fault is not None:
            raise self._fault
        return "done"


def test_faults_of_dask_workers_are_told() -> None:
    result: Any = dask_workers._result(_Future(None))
    assert result == "done"
    with pytest.raises(RunFault, match="^a worker of Dask failed: KeyError: 'x'$"):
        dask_workers._result(_Future(KeyError("x")))
    with pytest.raises(RunFault, match="^as it is$"):
        dask_workers._result(_Future(RunFault("as it is")))


class _Dask:
    """Stands for the package of Dask: a client that runs what it is given at once."""

    loop = "the loop"

    def __init__(self) -> None:
        self.options: list[dict[str, object]] = []

    def Client(self, address: str, **options: object) -> "_Dask":
        self.options.append({"address": address, **options})
        return self

    def __enter__(self) -> "_Dask":
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def scatter(self, items: list[bytes], **options: object) -> list[bytes]:
        self.options.append(options)
        return items

    def submit(self, function: Any, *given: Any, **options: object) -> "_Call":
        return _Call(function, given, options)

    def as_completed(self, futures: list[Any], loop: object) -> list[Any]:
        assert loop == self.loop
        return futures[::-1]


@pytest.mark.usefixtures("halves")
def test_runs_on_dask_are_told_as_they_are_done(monkeypatch: pytest.MonkeyPatch) -> None:
    dask, told = _Dask(), list[tuple[float, int]]()
    monkeypatch.setattr(dask_workers, "_distributed", lambda: dask)
    plans = [a_plan("a"), a_plan("b")]
    found = list(dask_workers.run_on_dask(RunInputs([]), plans, lambda *done: told.append(done), "tcp://x", "digest"))
    assert found == [(1, a_result("b")), (0, a_result("a"))] and told == [(1, 2), (2, 2)]
    assert dask.options == [
        {"address": "tcp://x", "timeout": 10, "set_as_default": False},
        {"broadcast": True, "hash": False},
    ]


class _Call:
    """Stands for a future: it makes its call when it is asked for the result."""

    def __init__(self, function: Any, given: tuple[Any, ...], options: dict[str, object]) -> None:
        assert options == {"pure": False}, "equal runs are not one"
        self._function, self._given = function, given

    def result(self) -> Any:
        return self._function(*self._given)


# ---- inputs


ENTRY: dict[str, Any] = {"at": "1s", "count": 2, "cpu": "1", "memory": "1Gi", "run": "5s"}


def test_the_pods_of_arrivals_say_what_people_run() -> None:
    inputs = RunInputs([a_node("n"), pending("p", cpu="2")], arrivals_of([ENTRY], []))
    shapes, notes = inputs.shapes
    assert ([shape.count for shape in shapes], notes) == ([2, 1], [])


def test_a_generated_load_is_scaled() -> None:
    inputs = RunInputs(
        [], load_plan=read_load_plan({"pods": 10, "over": "1m", "templates": 2, "nodes": [{"name": "g", "count": 1}]})
    )
    assert [sum(inputs.generated(load).counts()) for load in (1, 2, 0.5)] == [10, 20, 5]
    assert inputs.pods_per_run() == 10


def test_arrivals_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "arrivals.json"
    file.write_text(json.dumps([ENTRY]))
    cluster = LoadedCluster([a_node("n")], configuration.default())
    answer = compare(cluster, vary={"seed": [1, 2]}, arrivals=file)
    assert [run.figures.pods for run in answer.runs] == [2, 2]
