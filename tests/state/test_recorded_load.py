"""What others did to a recorded cluster, and a simulation of it: with the recorded configuration everything happens again."""

import tempfile
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_replayed_days import ENTRIES, SHORT, nodes

from build import a_node, a_pod
from how_many import examples
from mooring.framework import config as configuration
from mooring.inputs.arrivals import Arrival, ListedArrivals, PlannedChange, arrivals_of
from mooring.inputs.recorded_load import RecordedLoad, recorded_load
from mooring.kit.clock import NS_PER_S
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.sim.day import Day
from mooring.sim.simulated_cluster import SimulatedCluster
from mooring.state.recording.run_reading import runs_in
from mooring.state.replay.run_reader import RecordedSpan
from recorded_days import day_recording, record_day

OURS = frozenset(["default-scheduler"])


def load_of(directory: Path, span: RecordedSpan | None = None) -> RecordedLoad:
    return recorded_load(runs_in(directory), OURS, span or RecordedSpan())


def simulated(load: RecordedLoad) -> Day:
    return Day(load.objects, ListedArrivals(load.arrivals, load.changes), configuration.default())


@given(st.lists(ENTRIES, min_size=1, max_size=10), st.integers(1, 4))
@settings(deadline=None, max_examples=examples(20))
def test_the_same_load_gives_the_same_placements(entries: list[dict[str, Any]], node_count: int) -> None:
    named, there = [{"name": f"p{i}", **entry} for i, entry in enumerate(entries)], nodes(node_count)
    with tempfile.TemporaryDirectory() as directory:
        report = record_day(Path(directory), there, arrivals_of(named, there), limits=SHORT, seed=None, until_s=200)
        load = load_of(Path(directory))
    assert load.problems == []
    assert load.placements == report.placements
    again = simulated(load).run(load.over_ns)
    if not report.preempted:  # how long a victim would have run is not known
        assert again.placements == report.placements
        assert again.pending == report.pending


# ---- changes that others make


class Scene:
    """A recorded cluster that tests change by hand."""

    def __init__(self, directory: Path, *objects: KubeObject) -> None:
        self._recording = day_recording(directory, SHORT)
        self._cluster = SimulatedCluster(objects, configuration.default(), record_to=self._recording)
        self.driver = self._cluster.driver
        self.driver.settle()
        self.driver.tick()

    def passes(self, seconds: int) -> None:
        for _ in range(seconds):
            self.driver.advance_second()
            self.driver.settle()

    def arrives(self, name: str, uid: str = "", **values: Any) -> None:
        self.driver.create(
            a_pod(name, schedulerName="default-scheduler", cpu="1", metadata={"uid": uid or name}, **values)
        )
        self.driver.settle()

    def close(self) -> None:
        self._recording.close()


def seconds(items: list[Any]) -> list[int]:
    return [round(item.at_ns / NS_PER_S) for item in items]


def test_nodes_that_come_and_go_are_changes(tmp_path: Path) -> None:
    scene = Scene(tmp_path, a_node("a", cpu="2"))
    scene.passes(5)
    scene.driver.create(a_node("b", cpu="4"))
    scene.passes(5)
    scene.driver.delete("Node", "a")
    scene.passes(5)
    scene.close()
    load = load_of(tmp_path)
    assert [item.name for item in load.objects if isinstance(item, Node)] == ["a"]
    assert [(c.item.name, c.is_removal) for c in load.changes] == [("b", False), ("a", True)]
    assert seconds(load.changes) == [5, 10]
    assert seconds([Arrival(load.over_ns, a_pod("x"), None)]) == [15]


def test_a_pod_runs_as_long_as_it_did_and_a_pending_pod_leaves_when_it_left(tmp_path: Path) -> None:
    scene = Scene(tmp_path, a_node("a", cpu="1"))
    scene.arrives("runs")
    scene.arrives("waits")
    scene.passes(7)
    scene.driver.delete("Pod", "default/waits")
    scene.passes(3)
    scene.driver.delete("Pod", "default/runs")
    scene.passes(1)
    scene.close()
    load = load_of(tmp_path)
    runs, waits = load.arrivals
    assert (runs.pod.name, waits.pod.name, waits.run_ns) == ("runs", "waits", None)
    assert runs.run_ns is not None and round(runs.run_ns / NS_PER_S) == 10
    (leaves,) = load.changes
    assert (leaves.item.name, leaves.is_removal) == ("waits", True)
    assert load.placements == {"default/runs": "a"}


def test_a_victim_of_preemption_stays(tmp_path: Path) -> None:
    scene = Scene(tmp_path, a_node("a", cpu="1"))
    scene.arrives("low")
    scene.passes(3)
    scene.arrives("high", priority=100)
    scene.passes(3)
    scene.close()
    load = load_of(tmp_path)
    assert [(arrival.pod.name, arrival.run_ns) for arrival in load.arrivals] == [("low", None), ("high", None)]
    assert load.placements == {"default/low": "a", "default/high": "a"}
    assert load.changes == []


def test_pods_of_another_scheduler_come_with_their_node(tmp_path: Path) -> None:
    scene = Scene(tmp_path, a_node("a", cpu="4"), a_pod("there", nodeName="a", schedulerName="other"))
    pod = a_pod("theirs", cpu="1", schedulerName="other", metadata={"uid": "theirs"})
    scene.driver.create(pod)
    scene.passes(2)
    held = scene.driver.objects["Pod", "default/theirs"]
    assert isinstance(held, Pod)
    scene.driver._replace(held, held.with_node("a"))
    scene.passes(2)
    scene.driver.delete("Pod", "default/theirs")
    scene.passes(1)
    scene.close()
    load = load_of(tmp_path)
    assert load.arrivals == []
    assert [item.key for item in load.objects if isinstance(item, Pod)] == ["default/there"]
    assert [(c.item.key, c.is_removal) for c in load.changes] == [("default/theirs", False), ("default/theirs", True)]
    assert isinstance(load.changes[0].item, Pod) and load.changes[0].item.spec.node_name == "a"


def test_edits_of_pods_count_and_their_status_does_not(tmp_path: Path) -> None:
    scene = Scene(tmp_path, a_node("a", cpu="1"))
    scene.arrives("p")
    held = scene.driver.objects["Pod", "default/p"]
    metadata = msgspec.structs.replace(held.metadata, labels={"app": "web"})
    scene.driver.update(msgspec.structs.replace(held, metadata=metadata))
    scene.passes(1)
    scene.close()
    (change,) = load_of(tmp_path).changes
    assert change.item.labels == {"app": "web"}


def test_a_restart_goes_on_where_the_run_before_ended(tmp_path: Path) -> None:
    first = Scene(tmp_path, a_node("a", cpu="2"), a_node("gone", cpu="2"))
    first.arrives("one")
    first.passes(3)
    held = first.driver.objects["Pod", "default/one"]
    first.close()
    (folder,) = tmp_path.iterdir()
    folder.rename(tmp_path / "20260131T000000Z-0000")  # or else the order of the runs is that of random endings
    # The clock of the second run begins at the same time: its first seconds are those that the first run has told.
    second = Scene(tmp_path, a_node("a", cpu="2"), held)
    second.passes(5)
    second.arrives("two")
    second.passes(2)
    second.close()
    load = load_of(tmp_path)
    assert [arrival.pod.name for arrival in load.arrivals] == ["one", "two"]
    assert [(c.item.name, c.is_removal) for c in load.changes] == [("gone", True)]
    assert seconds(load.arrivals) == [0, 5]


def test_a_part_begins_with_what_was_there(tmp_path: Path) -> None:
    scene = Scene(tmp_path, a_node("a", cpu="1"))
    scene.arrives("old")
    scene.arrives("waiting")
    scene.passes(60)
    scene.close()
    begin_ns = runs_in(tmp_path)[0].segments[0].header.started_ns
    load = load_of(tmp_path, RecordedSpan(begin_ns + 45 * NS_PER_S))
    assert [item.key for item in load.objects if isinstance(item, Pod)] == ["default/old"]
    assert [arrival.pod.key for arrival in load.arrivals] == ["default/waiting"]
    assert 10 <= round(load.over_ns / NS_PER_S) <= 15


# ---- days with changes


def test_a_day_makes_the_changes() -> None:
    late = a_node("late", cpu="2")
    arrivals = [Arrival(0, a_pod("p", cpu="2", metadata={"uid": "p"}, schedulerName="default-scheduler"), None)]
    changes = [
        PlannedChange(30 * NS_PER_S, late),
        PlannedChange(60 * NS_PER_S, a_pod("p", metadata={"uid": "p"}), is_removal=True),
        PlannedChange(70 * NS_PER_S, late, is_removal=True),
    ]
    day = Day([a_node("small", cpu="1")], ListedArrivals(arrivals, changes), configuration.default())
    report = day.run()
    assert report.placements == {"default/p": "late"}
    assert report.simulated_s == pytest.approx(70, abs=1)
    assert (report.pending, report.nodes) == (0, ["small"])


def test_the_next_pod_of_a_name_comes_when_the_last_one_is_gone() -> None:
    def one(uid: str) -> Pod:
        return a_pod("web-0", cpu="1", metadata={"uid": uid}, schedulerName="default-scheduler")

    arrivals = [Arrival(0, one("1"), 100 * NS_PER_S), Arrival(10 * NS_PER_S, one("2"), 20 * NS_PER_S)]
    day = Day([a_node("a", cpu="1")], arrivals, configuration.default())
    report = day.run()
    assert (report.arrived, report.placed, report.finished) == (2, 2, 1)
    assert report.simulated_s == pytest.approx(30, abs=1), "the first one's end is not the second one's"
