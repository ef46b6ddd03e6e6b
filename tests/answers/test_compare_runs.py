"""Runs of a comparison: the figures of one, what their digest depends on, and what workers do with them."""

import json
import pickle
import signal
import sys
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import msgspec
import pytest

from build import a_node, a_pod
from mooring.answers.experiments import compared_run, workers
from mooring.answers.experiments import workers as dask_workers
from mooring.answers.experiments.compared_run import HOUR_NS, RunInputs, RunResult, run_once
from mooring.answers.experiments.comparing import compare
from mooring.answers.experiments.figures import RunFigures, UseFigures, WaitFigures, placements_digest, unpack
from mooring.answers.experiments.run_plan import RunPlan
from mooring.answers.experiments.workers import RunFault
from mooring.api.validation.problem import Problem
from mooring.framework import config as configuration
from mooring.framework.config import ConfigError
from mooring.inputs.arrivals import PlannedChange, arrivals_of
from mooring.inputs.input_errors import InputError
from mooring.inputs.load_plan import read_load_plan
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.inputs.offers.price_list import PriceList
from mooring.kit.version import VERSION
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.workloads import ReplicationController, Service
from mooring.sim.fragmentation import FragmentationGauge
from mooring.state.scheduler_assembly import all_plugins


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
    figures = at_once(*nodes, *pods, prices=PriceList({"n-0": 1.5, "n-1": 2.0})).figures
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
        RunInputs(items, prices=PriceList({"n": 1.0})).digest("1"),
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
    monkeypatch.setattr(compared_run, "run_once", _Half())


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
    monkeypatch.setattr(workers, "of_this_worker", [(RunInputs([]), shares)])
    assert (workers.run_in_worker(1, a_plan("b")), shares) == (a_result("b"), [0.0, 1.0])
    with pytest.raises(RunFault, match="^first\nsecond$"):
        workers.run_in_worker(0, a_plan("bad"))
    assert shares == [1e-9, 1.0], "it has begun"


def test_results_of_worker_processes_come_in_the_order_of_their_plans() -> None:
    futures = [Future[RunResult]() for _ in range(3)]
    for i, future in enumerate(futures):
        future.set_result(a_result(str(i)))
    told: list[str] = []
    places = {future: i for i, future in reversed([*enumerate(futures)])}
    found = list(workers.as_done(places, lambda: told.append("told")))
    assert found == [(i, a_result(str(i))) for i in range(3)] and told == ["told"]


def test_new_processes_do_not_see_the_script() -> None:
    script = sys.modules["__main__"]
    with workers.without_main():
        assert sys.modules["__main__"] is not script and not hasattr(sys.modules["__main__"], "__file__")
    assert sys.modules["__main__"] is script


@pytest.mark.usefixtures("halves")
def test_a_worker_of_dask_reads_inputs_once_and_refuses_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    sent, read = pickle.dumps(RunInputs([])), {"old": RunInputs([])}
    monkeypatch.setattr(dask_workers, "_read_inputs", read)
    assert dask_workers.run_in_dask_worker(sent, "x", VERSION, a_plan("a")) == a_result("a")
    assert [*read] == ["x"]
    first = read["x"]
    dask_workers.run_in_dask_worker(sent, "x", VERSION, a_plan("b"))
    assert read["x"] is first
    dask_workers.run_in_dask_worker(sent, "y", VERSION, a_plan("b"))
    assert [*read] == ["y"]
    told = f"^a worker of Dask has Mooring {VERSION}, and this is 0: install the same version$"
    with pytest.raises(RunFault, match=told):
        dask_workers.run_in_dask_worker(b"", "x", "0", a_plan("a"))


class _Future:
    """Stands for a future of Dask."""

    def __init__(self, fault: Exception | None) -> None:
        self._fault = fault

    def result(self) -> str:
        if self._fault is not None:
            raise self._fault
        return "done"


def test_faults_of_dask_workers_are_told() -> None:
    result: Any = dask_workers.dask_result(RunInputs([]), a_plan("a"), _Future(None))
    assert result == "done"
    with pytest.raises(RunFault, match="^a worker of Dask failed: KeyError: 'x'$"):
        dask_workers.dask_result(RunInputs([]), a_plan("a"), _Future(KeyError("x")))
    with pytest.raises(RunFault, match="^as it is$"):
        dask_workers.dask_result(RunInputs([]), a_plan("a"), _Future(RunFault("as it is")))


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


# ---- the figures of a day, counted by hand


def a_day(*items: KubeObject, entries: list[dict[str, Any]], hours: float = 2, **rest: Any) -> RunResult:
    inputs = RunInputs(items, arrivals_of(entries, []), until_ns=round(hours * HOUR_NS), **rest)
    return run_once(inputs, a_plan("run"))


HOUR: dict[str, Any] = {"at": 0, "name": "job", "cpu": "2", "memory": "2Gi", "run": "1h"}


def test_the_figures_of_a_day() -> None:
    """Two hours of two nodes: a pod takes half of one of them for an hour, and a giant fits nowhere."""
    nodes = [a_node("large", cpu="4", memory="8Gi"), a_node("small", cpu="1", memory="8Gi")]
    found = a_day(
        *nodes, pending("giant", cpu="64", priority=5), entries=[HOUR], prices=PriceList({"large": 3, "small": 1})
    )
    figures = found.figures
    assert (figures.pods, figures.placed, figures.pending, figures.preempted) == (2, 1, 1, 0)
    assert figures.simulated_seconds == 7200.0
    assert [(each.priority, each.bound, each.pending, each.preempted) for each in figures.waits_by_priority] == [
        (5, 0, 1, 0),
        (0, 1, 0, 0),
    ]
    assert figures.waits.p50_seconds == figures.waits.max_seconds == figures.waits_by_priority[1].waits.p50_seconds
    assert figures.waits_by_priority[0].waits == WaitFigures()
    near = pytest.approx
    assert figures.utilisation["cpu"].mean == near(0.2, abs=1e-4) and figures.utilisation["cpu"].peak == near(
        0.4, abs=1e-4
    )
    assert figures.utilisation["memory"].mean == near(1 / 16, abs=1e-4)
    assert figures.nodes_used == 1
    assert figures.node_hours == near(1, abs=1e-4) and figures.cost == near(3, abs=1e-3)
    assert figures.wait_counts == [1]
    assert figures.notes == [] and figures.groups is msgspec.UNSET
    curves = figures.curves
    assert curves is not None and curves.edges_seconds == [120.0 * i for i in range(61)]
    assert curves.utilisation["cpu"] == near([0.4] * 30 + [0.0] * 30, abs=1e-3)
    assert curves.pending == near([1.0] * 60, abs=1e-3)
    assert unpack(found.placements) == {"default/job-0": "large", "default/giant": None}


def test_fragmentation_of_a_day_is_that_of_its_moments() -> None:
    """Two nodes with one free CPU each are of no use for pods of 2 CPUs; after the pod has gone, only one of four is not."""
    nodes = [a_node("large", cpu="3"), a_node("small", cpu="1")]
    assert a_day(*nodes, entries=[{**HOUR, "run": "9h"}]).figures.fragmentation["cpu"] == 1.0
    assert a_day(*nodes, entries=[{**HOUR, "run": "1s"}]).figures.fragmentation["cpu"] == pytest.approx(0.25, abs=0.001)


def test_fragmentation_of_a_busy_day_is_a_mean_over_time() -> None:
    """A tiny pod comes each minute. For an hour the one large pod leaves two free CPUs, none of which another like it could
    use; then four are free, and one of them is of no use for it."""
    nodes = [a_node("large", cpu="3"), a_node("small", cpu="1")]
    tiny = {"at": 0, "every": "1m", "until": "119m", "name": "tiny", "cpu": "1m", "run": "1s"}
    figures = a_day(*nodes, entries=[HOUR, tiny]).figures
    assert figures.pods == 121
    assert figures.fragmentation["cpu"] == pytest.approx((1 + 1 / 4) / 2 / 121, rel=0.03)


def test_a_resource_that_comes_later_was_not_requested_before() -> None:
    late = PlannedChange(HOUR_NS, a_node("late", allocatable={"example.com/gpu": 4}))
    inputs = RunInputs([a_node("n")], [], until_ns=2 * HOUR_NS, changes=[late])
    figures = run_once(inputs, a_plan("run")).figures
    assert figures.utilisation["example.com/gpu"] == UseFigures(0.0, 0.0)


def test_shares_of_curves_have_four_digits() -> None:
    figures = a_day(a_node("n", cpu="3"), entries=[{**HOUR, "cpu": "1", "run": "9h"}]).figures
    curves = figures.curves
    assert curves is not None and curves.utilisation["cpu"][1] == 0.3333


def test_a_day_without_time_has_no_curves_and_without_an_end_ends_with_its_last_pod() -> None:
    none = run_once(RunInputs([a_node("n")], [], until_ns=0), a_plan("run")).figures
    assert none.curves is None and none.simulated_seconds == 0
    whole = run_once(RunInputs([a_node("n")], arrivals_of([HOUR], [])), a_plan("run")).figures
    assert whole.simulated_seconds == pytest.approx(3600, abs=0.01)


def horizons(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The likely lengths of the days that are run."""
    found: list[int] = []

    class Gauge(FragmentationGauge):
        def __init__(self, simulated: Any, shapes: Any, horizon_ns: int) -> None:
            found.append(horizon_ns // 10**9)
            super().__init__(simulated, shapes, horizon_ns)

    monkeypatch.setattr("mooring.answers.experiments.compared_run.FragmentationGauge", Gauge)
    return found


def test_a_day_is_likely_to_last_until_its_last_pod_ends_or_as_long_as_it_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = horizons(monkeypatch)
    entries = [{**HOUR, "at": "10s", "run": "15s"}, {"at": "20s", "cpu": "1"}]
    plan = read_load_plan({"pods": 3, "over": "40s", "templates": 1, "nodes": [{"name": "g", "count": 1}]})
    for until_ns in (None, 30 * 10**9):
        run_once(RunInputs([a_node("n")], arrivals_of(entries, []), until_ns=until_ns), a_plan("run"))
        run_once(RunInputs([], load_plan=plan, until_ns=until_ns), a_plan("run"))
        run_once(RunInputs([a_node("n")], [], until_ns=until_ns), a_plan("run"))
    assert found == [25, 40, 0, 30, 30, 30]


def test_pods_at_once_wait_an_hour_or_as_long_as_they_are_told() -> None:
    """The scheduler of a pod that fits nowhere tries it again, so time goes on until there is no more."""
    assert at_once(a_node("n"), pending("p"), until_ns=0).figures.simulated_seconds <= 0.001


def test_a_preempted_pod_of_a_stateful_set_comes_back_under_its_name() -> None:
    owner = {"kind": "StatefulSet", "name": "db", "apiVersion": "apps/v1", "controller": True, "uid": "1"}
    nodes = [a_node("a", labels={"disk": "ssd"}), a_node("b")]
    low = pending("db-0", cpu="4", nodeName="a", priority=0, metadata={"ownerReferences": [owner]})
    alone = pending("alone", cpu="1", nodeName="b", priority=0)
    high = {"at": "1s", "cpu": "4", "name": "high", "priority": 9, "pod": {"spec": {"nodeSelector": {"disk": "ssd"}}}}
    wide = {"at": "9s", "cpu": "4", "name": "wide", "priority": 9}
    free = a_day(*nodes, low, entries=[high])
    assert unpack(free.placements) == {"default/high-0": "a", "default/db-0": "b"}
    assert (free.figures.preempted, free.figures.pending) == (1, 0)
    full = a_day(*nodes, low, alone, entries=[high, wide])
    placed = unpack(full.placements)
    assert placed["default/db-0"] is None, "it waits"
    assert placed["default/alone"] is None, "it is gone: nobody creates it again"


def test_preempted_pods_are_counted_by_their_priority() -> None:
    """At once: the third pod takes the place of the first, which ran before, and none of those that arrived."""
    figures = at_once(
        a_node("n", cpu="4"), pending("low", cpu="4", priority=1), pending("high", cpu="4", priority=5)
    ).figures
    assert [(each.priority, each.bound, each.pending) for each in figures.waits_by_priority] == [(5, 1, 0), (1, 0, 1)]
    assert (figures.pods, figures.placed, figures.pending) == (2, 1, 1)


def test_use_at_the_end_is_that_of_all_nodes_together() -> None:
    nodes = [a_node("a", cpu="4", allocatable={"example.com/gpu": 0}), a_node("b", cpu="12")]
    figures = at_once(*nodes, pending("p", cpu="4")).figures
    assert figures.utilisation["cpu"] == UseFigures(0.25, 0.25)
    assert "example.com/gpu" not in figures.utilisation, "there is none of it"


def test_runs_with_so_many_pods_keep_their_placements_and_with_more_only_the_digest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    items = [a_node("n"), pending("p"), pending("q")]
    digests = set()
    for limit, is_kept in ((2, True), (1, False)):
        monkeypatch.setattr("mooring.answers.experiments.compared_run.PLACEMENTS", limit)
        found = at_once(*items)
        digests.add(found.placements_digest)
        assert bool(found.placements) is is_kept
    assert digests == {placements_digest({"default/p": "n", "default/q": "n"})}


# ---- inputs that runs share


def test_finished_pods_say_nothing_about_what_people_run() -> None:
    done = pending("done", cpu="3", nodeName="n", status={"phase": "Succeeded"})
    plan = read_load_plan({"pods": 6, "over": "1m", "templates": 1, "nodes": [{"name": "g", "count": 1}]})
    shapes, _ = RunInputs([done, pending("p", cpu="7"), pending("q", cpu="7", nodeName="n")]).shapes
    assert [shape.count for shape in shapes] == [2]
    generated, _ = RunInputs([pending("p", cpu="7")], load_plan=plan).shapes
    assert [shape.count for shape in generated] == [6, 1]


def test_the_pods_of_a_run_are_those_that_wait_arrive_and_are_generated() -> None:
    plan = read_load_plan({"pods": 6, "over": "1m", "templates": 1, "nodes": [{"name": "g", "count": 1}]})
    there = [a_node("n"), pending("p"), pending("q", nodeName="n")]
    assert RunInputs(there, arrivals_of([ENTRY], [])).pods_per_run() == 3
    assert RunInputs(there, load_plan=plan).pods_per_run() == 7
    assert RunInputs(there, load_plan=plan).is_day


def test_the_nodes_of_inputs_are_those_that_are_there_come_and_are_generated() -> None:
    plan = read_load_plan({"pods": 6, "over": "1m", "templates": 1, "nodes": [{"name": "g", "count": 2}]})
    changes = [PlannedChange(5, a_node("late")), PlannedChange(7, a_node("n", cpu="9")), PlannedChange(9, pending("p"))]
    given = RunInputs([a_node("n"), pending("p")], [], changes=changes).nodes
    assert [(node.name, (node.status.allocatable or {})["cpu"]) for node in given] == [("n", "9"), ("late", "4")]
    assert [node.name for node in RunInputs([a_node("n")], load_plan=plan).nodes] == ["n", "g-0", "g-1"]


def test_the_digest_changes_with_arrivals_changes_plans_and_plugin_files(tmp_path: Path) -> None:
    file = tmp_path / "plugin.py"
    entries = [ENTRY, {**ENTRY, "at": "2s"}, {**ENTRY, "run": "6s"}, {**ENTRY, "cpu": "2"}]
    inputs = [RunInputs([], arrivals_of([entry], [])) for entry in entries]
    node = a_node("n")
    inputs += [
        RunInputs([], [], changes=[PlannedChange(1, node)]),
        RunInputs([], [], changes=[PlannedChange(2, node)]),
        RunInputs([], [], changes=[PlannedChange(1, node, is_removal=True)]),
        RunInputs([], [], changes=[PlannedChange(1, a_node("m"))]),
    ]
    inputs += [
        RunInputs([], load_plan=read_load_plan({"pods": pods, "over": "1m", "nodes": [{"name": "g", "count": 1}]}))
        for pods in (1, 2)
    ]
    digests = [each.digest("1") for each in inputs]
    for text in ("a = 1", "a = 2"):
        file.write_text(text)
        digests.append(RunInputs([], [], plugin_files=(str(file),)).digest("1"))
    assert len({*digests}) == len(digests) == 12


def test_objects_of_two_kinds_with_the_same_content_are_not_the_same() -> None:
    metadata = a_node("n").metadata
    one, other = Service(metadata=metadata), ReplicationController(metadata=metadata)
    assert msgspec.json.encode(one) == msgspec.json.encode(other)
    assert RunInputs([one]).digest("1") != RunInputs([other]).digest("1")


def test_another_process_builds_the_registry_from_files(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "from mooring.framework.contract.plain import PlainPlugin\n"
        "class Mine(PlainPlugin):\n"
        "    name = 'Mine'\n"
        "    def filter(self, pod, node): pass\n"
    )
    registry = all_plugins()
    inputs = RunInputs(
        [a_node("n")], plugin_files=(str(file),), registry=registry, until_ns=5, prices=PriceList({"n": 1})
    )
    assert inputs.own_registry is registry
    sent: RunInputs = pickle.loads(pickle.dumps(inputs))
    assert sent.registry is None and "Mine" in sent.own_registry and "NodeResourcesFit" in sent.own_registry
    assert (sent.until_ns, sent.prices, [item.name for item in sent.objects]) == (5, PriceList({"n": 1}), ["n"])


# ---- processes


class _Pool:
    """Stands for a pool of processes: it makes each run at once, in this process."""

    made: ClassVar[list["_Pool"]] = []
    fault: ClassVar[Exception | None] = None

    def __init__(self, count: int, context: Any, begin: Any, given: Any) -> None:
        self.count, self.context, self.begin = count, context, begin
        workers.of_this_worker[:] = [given]
        self.submitted: list[int] = []
        self.ended: dict[str, bool] | None = None
        self.made.append(self)

    def submit(self, function: Any, place: int, plan: RunPlan) -> Future[Any]:
        assert sys.modules["__main__"].__dict__.get("__file__") is None, "the script is hidden while processes start"
        self.submitted.append(place)
        future: Future[Any] = Future()
        if self.fault is None:
            future.set_result(function(place, plan))
        else:
            future.set_exception(self.fault)
        return future

    def shutdown(self, **options: bool) -> None:
        self.ended = options


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch, halves: None) -> type[_Pool]:
    monkeypatch.setattr(workers, "ProcessPoolExecutor", _Pool)
    monkeypatch.setattr(workers, "of_this_worker", [])
    monkeypatch.setattr(_Pool, "made", [])
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    return _Pool


@pytest.mark.parametrize(("processes", "plans", "count"), [(2, 3, 2), (3, 2, 2), (9, 9, 4)])
def test_there_are_no_more_processes_than_runs_and_cores(
    processes: int, plans: int, count: int, pool: type[_Pool]
) -> None:
    told: list[tuple[float, int]] = []
    planned = [a_plan(str(i)) for i in range(plans)]
    found = list(workers.run_in_processes(RunInputs([]), planned, lambda *done: told.append(done), processes))
    assert found == [(i, a_result(str(i))) for i in range(plans)] and told == [(plans, plans)]
    (made,) = pool.made
    assert (made.count, made.submitted) == (count, [*range(plans)])
    assert made.ended == {"wait": True, "cancel_futures": True}
    assert made.context.get_start_method() == "forkserver", "a worker has no threads and locks of this process"
    assert made.begin is workers.begin_worker


def test_systems_without_a_fork_server_start_processes_anew(pool: type[_Pool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("multiprocessing.get_all_start_methods", lambda: ["spawn"])
    monkeypatch.setattr("os.cpu_count", lambda: None)
    assert len([*workers.run_in_processes(RunInputs([]), [a_plan("a"), a_plan("b")], lambda *done: None, 2)]) == 2
    (made,) = pool.made
    assert (made.count, made.context.get_start_method()) == (1, "spawn")


def test_a_worker_that_is_killed_is_told(pool: type[_Pool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Pool, "fault", BrokenProcessPool("gone"))
    with pytest.raises(RunFault) as caught:
        list(workers.run_in_processes(RunInputs([]), [a_plan("a"), a_plan("b")], lambda *done: None, 2))
    assert str(caught.value) == "a worker process was killed, perhaps for want of memory: use fewer processes"
    assert pool.made[0].ended is not None


def test_progress_is_told_while_no_run_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    future: Future[RunResult] = Future()
    asked: list[tuple[float, str]] = []

    def wait(futures: set[Future[Any]], timeout_s: float, until: str) -> tuple[set[Future[Any]], set[Future[Any]]]:
        asked.append((timeout_s, until))
        if len(asked) < 3:
            return set(), futures
        future.set_result(a_result("a"))
        return futures, set()

    monkeypatch.setattr(workers, "wait", wait)
    told: list[str] = []
    assert list(workers.as_done({future: 7}, lambda: told.append("told"))) == [(7, a_result("a"))]
    assert asked == [(0.5, "FIRST_COMPLETED")] * 3 and told == ["told"] * 3


class _Shares(list[float]):
    """Shares of runs that remember all that was written."""

    written: ClassVar[list[tuple[Any, float]]] = []

    def __setitem__(self, place: Any, share: Any) -> None:
        self.written.append((place, share))


@pytest.mark.usefixtures("halves")
def test_a_worker_process_notes_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_Shares, "written", [])
    monkeypatch.setattr(workers, "of_this_worker", [(RunInputs([]), _Shares())])
    workers.run_in_worker(3, a_plan("a"))
    assert _Shares.written == [(3, 1e-9), (3, 0.5), (3, 1.0), (3, 1.0), (3, 1.0)]


def test_a_worker_process_prints_to_standard_error_and_ends_with_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    handled: list[tuple[Any, Any]] = []
    started: list[tuple[Any, Any]] = []

    class Thread:
        def __init__(self, target: Any, daemon: bool) -> None:
            self.given = target, daemon

        def start(self) -> None:
            started.append(self.given)

    monkeypatch.setattr("signal.signal", lambda *given: handled.append(given))
    monkeypatch.setattr("threading.Thread", Thread)
    monkeypatch.setattr(sys, "stdout", sys.stdout)
    monkeypatch.setattr(workers, "of_this_worker", [(RunInputs([]), [0.5])])
    inputs = RunInputs([a_node("n")])
    workers.begin_worker(inputs, [0.0])
    assert sys.stdout is sys.stderr and handled == [(signal.SIGINT, signal.SIG_DFL)]
    assert started == [(workers.end_with_parent, True)]
    assert workers.of_this_worker == [(inputs, [0.0])]


def test_a_worker_process_waits_for_the_end_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[object] = []
    monkeypatch.setattr("multiprocessing.connection.wait", done.append)
    monkeypatch.setattr("os._exit", done.append)
    monkeypatch.setattr("multiprocessing.parent_process", lambda: None)
    workers.end_with_parent()
    assert done == []
    monkeypatch.setattr("multiprocessing.parent_process", lambda: SimpleNamespace(sentinel=5))
    workers.end_with_parent()
    assert done == [[5], 1]


def test_faults_of_configurations_name_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object) -> RunResult:
        raise ConfigError("build", ["first", "second"])

    monkeypatch.setattr(compared_run, "run_once", refuse)
    with pytest.raises(RunFault) as caught:
        workers.checked_run(RunInputs([]), a_plan("a"))
    assert str(caught.value) == "a: first\na: second"


@pytest.mark.parametrize("fault", [OSError("no route"), ValueError("no address"), TimeoutError("too late")])
def test_a_dask_scheduler_that_does_not_answer_is_told(fault: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    def client(address: str, **options: object) -> None:
        raise fault

    monkeypatch.setattr(dask_workers, "_distributed", lambda: SimpleNamespace(Client=client))
    with pytest.raises(RunFault) as caught:
        list(dask_workers.run_on_dask(RunInputs([]), [a_plan("a")], lambda *done: None, "tcp://x", "digest"))
    assert str(caught.value) == f"no Dask scheduler answers at tcp://x: {fault}"
