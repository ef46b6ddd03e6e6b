"""A dry run says what it would do with every pod, and where another scheduler does something else."""

import asyncio
import logging

import msgspec
import numpy as np
import pytest

from build import a_node, a_pod
from mooring.drivers.driver import input_of
from mooring.drivers.dry_run import DryRun, TiedNodes
from mooring.drivers.event_writer import EventWriter
from mooring.drivers.live_driver import LiveDriver
from mooring.drivers.status_writer import StatusWriter
from mooring.framework import config
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.kit.logs import Log
from mooring.model.meta import Condition, KubeObject
from mooring.model.pod import Pod
from mooring.state.scheduler_assembly import build_scheduler
from recording_server import Time
from silent_writer import SilentWriter

NO_ROOM = (
    "0/1 nodes are available: 1 Insufficient cpu. "
    "preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling."
)


class Stage(logging.Handler):
    """A scheduler on a dry run, and the lines that it logs."""

    def __init__(self, verbosity: int = 1) -> None:
        super().__init__()
        self.lines: list[str] = []
        logger = logging.Logger("dry run", logging.INFO - verbosity)
        logger.addHandler(self)
        clock, timing, writer = VirtualClock(1_800_000_000 * NS_PER_S), Time().timing(), SilentWriter()
        self.scheduler = build_scheduler(config.default(), clock)
        events = EventWriter(writer, clock, clock, "host", timing)
        self.driver = LiveDriver(self.scheduler, clock, writer, events, StatusWriter(writer, clock), timing)
        self.dry_run = DryRun(Log(logger))
        self.driver.report = self.dry_run.report

    def added(self, item: KubeObject) -> None:
        self._changed(None, item)

    def updated(self, old: KubeObject, new: KubeObject) -> None:
        self._changed(old, new)

    def removed(self, item: KubeObject) -> None:
        self._changed(item, None)

    def _changed(self, old: KubeObject | None, new: KubeObject | None) -> None:
        self.dry_run.saw(old, new)
        self.scheduler.handle(input_of(old, new))
        self.driver.wake()

    def emit(self, record: logging.LogRecord) -> None:
        keys = vars(record)["call_keys"]
        self.lines.append(" ".join((record.getMessage(), *(f"{key}={value}" for key, value in keys.items()))))

    def rest(self) -> list[str]:
        """All that can be done at this moment, and the lines that it led to."""

        async def run() -> None:
            driving = asyncio.create_task(self.driver.run())
            for _ in range(300):
                await asyncio.sleep(0)
            driving.cancel()

        asyncio.run(run())
        lines, self.lines = self.lines, []
        return lines


def pending(name: str, cpu: str = "1", priority: int = 0) -> Pod:
    metadata = {"uid": f"uid-{name}", "resourceVersion": "1"}
    return a_pod(name, cpu=cpu, metadata=metadata, schedulerName="default-scheduler", priority=priority)


def bound(pod: Pod, node: str) -> Pod:
    return msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name=node))


def test_a_pod_that_was_pending_before_is_reported_though_its_status_says_so_already() -> None:
    stage, pod = Stage(), pending("big", cpu="64")
    pod.status.conditions = [Condition(type="PodScheduled", status="False", reason="Unschedulable", message=NO_ROOM)]
    stage.added(a_node("n", cpu="4"))
    stage.added(pod)
    assert stage.rest() == [f"Would not schedule pod pod=default/big reason={NO_ROOM}"]


def test_a_bind_is_what_it_would_do_and_not_what_it_did() -> None:
    stage = Stage(verbosity=9)
    stage.added(a_node("n"))
    stage.added(pending("p"))
    assert stage.rest() == ["Would bind pod to node pod=default/p node=n"]


def test_victims_are_named() -> None:
    stage = Stage()
    stage.added(a_node("n", cpu="1"))
    stage.added(bound(pending("low", cpu="1", priority=0), "n"))
    stage.added(pending("high", cpu="1", priority=5))
    waits, preempts = sorted(stage.rest())
    assert waits.startswith("Would not schedule pod pod=default/high")
    assert preempts.startswith("Would preempt pod pod=default/low node=n reason=Preempted by pod")


def test_another_scheduler_is_compared() -> None:
    stage = Stage()
    stage.added(a_node("n", cpu="4"))
    stage.added(a_node("m", cpu="1"))
    pods = [pending("same", cpu="2"), pending("other", cpu="2"), pending("big", cpu="64"), pending("gone", cpu="32")]
    for pod in pods:
        stage.added(pod)
    assert len(stage.rest()) == 4
    same, other, big, gone = pods
    stage.updated(same, bound(same, "n"))
    stage.updated(other, bound(other, "m"))
    stage.updated(big, bound(big, "m"))
    stage.removed(gone)
    told = stage.rest()
    assert told[:2] == [
        "Another scheduler bound pod to the same node pod=default/same node=n",
        "Another scheduler bound pod to a different node pod=default/other node=m wouldBind=n",
    ]
    assert told[2].startswith(
        "Another scheduler bound a pod that this scheduler would not schedule pod=default/big node=m reason=0/2 nodes"
    )
    stage.dry_run.finish()
    assert stage.rest() == [
        "Dry run finished sameNode=1 tiedNode=0 differentNode=1 boundThoughUnschedulableHere=1 wouldBind=0 wouldNotSchedule=0"
    ]


def test_the_same_outcome_is_reported_once() -> None:
    stage = Stage()
    stage.added(a_node("n", cpu="4"))
    stage.added(pending("big", cpu="64"))
    assert len(stage.rest()) == 1
    stage.added(pending("small"))
    stage.updated(a_node("n", cpu="4"), a_node("n", cpu="5"))
    assert stage.rest() == ["Would bind pod to node pod=default/small node=n"]


def test_a_node_with_the_same_score_is_tied_and_not_different() -> None:
    stage = Stage()
    stage.dry_run.watch(stage.scheduler)
    for name, cpu in (("n1", "4"), ("n2", "4"), ("small", "2")):
        stage.added(a_node(name, cpu=cpu))
    pod, other = pending("p"), pending("q")
    stage.added(pod)
    assert stage.rest() == ["Would bind pod to node pod=default/p node=n1"]
    stage.updated(pod, bound(pod, "n2"))
    assert stage.rest() == [
        "Another scheduler bound pod to a tied node, which has the same score pod=default/p node=n2 wouldBind=n1"
    ]
    stage.added(other)
    (would,) = stage.rest()
    assert would.startswith("Would bind pod to node pod=default/q node=n")
    stage.updated(other, bound(other, "small"))
    assert stage.rest()[0].startswith("Another scheduler bound pod to a different node pod=default/q node=small")
    stage.dry_run.finish()
    assert "sameNode=0 tiedNode=1 differentNode=1" in stage.rest()[0]


def test_ties_of_pods_that_are_gone_are_forgotten() -> None:
    stage = Stage()
    stage.dry_run.watch(stage.scheduler)
    stage.added(a_node("n1"))
    stage.added(a_node("n2"))
    pods = [pending(f"p-{i}") for i in range(3)]
    for pod in pods:
        stage.added(pod)
    stage.rest()
    for pod in pods[1:]:
        stage.removed(pod)
    assert stage.dry_run.check() == []
    for pod in pods:
        stage.dry_run.saw(pod, bound(pod, "n1"))
        stage.dry_run.saw(pod, bound(pod, "n2"))
    assert stage.dry_run.compared.total() == 1, "there is an opinion of the one pod that was not removed"


@pytest.mark.parametrize("rows", [{0}, {0, 7}, {3, 8}, {1, 6, 9, 15}, {2, 16, 23}])
def test_tied_rows_are_found_and_no_others(rows: set[int]) -> None:
    is_tied = np.array([row in rows for row in range(24)])
    tied = TiedNodes("n", np.packbits(is_tied).tobytes())
    assert {row for row in range(40) if tied.has(row)} == rows
