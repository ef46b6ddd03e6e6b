"""Stories: which moments belong to which attempt, and that memory is bounded."""

from typing import Any

import pytest

from build import a_node, a_pod
from mooring.drivers.simulated_driver import START_NS, Driver
from mooring.framework import config
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import Registration
from mooring.framework.contract.points import PermitPlugin, Wait
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.pod import Pod
from mooring.scheduler.observer import SchedulerListeners
from mooring.sim import results
from mooring.sim.results import Stories, show_time
from mooring.state.scheduler_assembly import all_plugins, build_scheduler

HEADER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
ENABLED = {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Patience"}]}}}]}


class Patience(PermitPlugin):
    """Holds pods that carry the label for 20 seconds."""

    name = "Patience"

    def permit(self, cycle: SchedulingContext, node_name: str) -> Wait | None:
        return Wait(20) if "patient" in cycle.pod.labels else None

    def events(self) -> list[Registration]:
        return []


class Told:
    """A cluster whose stories are listened to."""

    def __init__(self, only: str | None = None) -> None:
        registry = all_plugins()
        registry.register(Patience)
        clock = VirtualClock(START_NS)
        self.stories = Stories(clock, only)
        scheduler = build_scheduler(
            config.from_object(HEADER | ENABLED), clock, registry, listeners=SchedulerListeners(tell=self.stories.tell)
        )
        self.stories.follow(scheduler)
        self.driver = Driver(clock, scheduler, with_versions=True)

    def of(self, name: str) -> list[str]:
        return [str(moment) for moment in self.stories.of(f"default/{name}").moments]

    def jump(self, seconds: float) -> None:
        self.driver.jump(START_NS + round(seconds * NS_PER_S))
        self.driver.settle()


def pending(name: str, **rest: Any) -> Pod:
    return a_pod(name, schedulerName="default-scheduler", **rest)


def test_a_pod_is_woken_and_placed_in_its_second_attempt() -> None:
    told = Told()
    told.driver.create(a_node("n", cpu="2"))
    told.driver.create(a_pod("old", cpu="2", nodeName="n", priority=9))
    told.driver.create(pending("p", cpu="1"))
    told.driver.settle()
    told.jump(5)
    told.driver.delete("Pod", "default/old")
    told.driver.settle()
    assert told.of("p") == [
        "00:00:00.000 added to the active queue",
        "00:00:00.001 attempt 1 (cycle 1): taken from the queue",
        "00:00:00.001 attempt 1 (cycle 1): is not scheduled: 0/1 nodes are available: 1 Insufficient cpu. "
        "preemption: 0/1 nodes are available: "
        "1 No preemption victims found for incoming pod.",
        "00:00:00.001 attempt 1 (cycle 1): unschedulable, rejected by NodeResourcesFit",
        "00:00:05.000 moved by AssignedPodDelete to the active queue",
        "00:00:05.001 attempt 2 (cycle 2): taken from the queue",
        "00:00:05.001 attempt 2 (cycle 2): goes to n, the only choice",
        "00:00:05.001 attempt 2 (cycle 2): is bound to n",
    ]


def test_a_wait_on_permit_belongs_to_its_attempt_whatever_is_tried_meanwhile() -> None:
    told = Told()
    told.driver.create(a_node("n"))
    told.driver.create(pending("slow", labels={"patient": ""}))
    told.driver.create(pending("quick"))
    told.driver.settle()
    for waiting in told.driver.scheduler.core.services.waiting:
        waiting.allow("Patience")
    told.jump(3)
    assert told.of("slow")[2:] == [
        "00:00:00.001 attempt 1 (cycle 1): goes to n, the only choice",
        "00:00:00.001 attempt 1 (cycle 1): has room on n and waits for Patience (at most 20 s)",
        "00:00:03.000 attempt 1 (cycle 1): is bound to n",
    ]
    assert told.of("quick")[-1] == "00:00:00.002 attempt 1 (cycle 2): is bound to n"


def test_the_end_of_a_wait_belongs_to_its_attempt() -> None:
    told = Told()
    told.driver.create(a_node("n"))
    told.driver.create(pending("slow", labels={"patient": ""}))
    told.driver.settle()
    told.jump(21)
    assert told.of("slow")[-2:] == [
        "00:00:21.000 attempt 1 (cycle 1): is not scheduled: 0/1 nodes are available: "
        "1 rejected due to timeout after waiting 20s at plugin Patience.",
        "00:00:21.000 attempt 1 (cycle 1): unschedulable, rejected by Patience",
    ]


def test_preemption_is_told_on_both_sides() -> None:
    told = Told()
    told.driver.create(a_node("n", cpu="2"))
    told.driver.create(pending("small", cpu="2", priority=1))
    told.driver.settle()
    told.driver.create(pending("urgent", cpu="2", priority=9))
    told.driver.settle()
    assert told.of("small")[-2:] == [
        "00:00:00.001 attempt 1 (cycle 1): is bound to n",
        "00:00:00.002 is preempted by default/urgent and leaves n",
    ], "that it leaves is no part of its own attempt"
    urgent = told.of("urgent")
    assert urgent[2] == "00:00:00.002 attempt 1 (cycle 2): preempts default/small on n"
    assert urgent[-1] == "00:00:00.003 attempt 2 (cycle 3): is bound to n"
    assert "before its backoff was over, as nothing else waits" in urgent[-3]


def test_a_gated_pod_has_a_story_without_attempts() -> None:
    told = Told()
    told.driver.create(pending("p", schedulingGates=[{"name": "wait"}]))
    told.driver.settle()
    assert told.of("p") == ["00:00:00.000 gated by SchedulingGates: waiting for scheduling gates: [wait]"]


def test_only_the_pod_that_is_asked_for_is_remembered() -> None:
    told = Told("default/b")
    told.driver.create(a_node("n"))
    for name in "abc":
        told.driver.create(pending(name))
    told.driver.settle()
    assert [len(told.of(name)) for name in "abc"] == [0, 4, 0]


def test_memory_is_bounded_for_each_pod_and_in_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "MOMENTS", 3)
    monkeypatch.setattr(results, "PODS", 2)
    told = Told()
    for name in "abc":
        for i in range(5):
            told.stories.tell(a_pod(name), f"moment {i}")
    story = told.stories.of("default/a")
    assert [moment.text for moment in story.moments] == ["moment 2", "moment 3", "moment 4"]
    assert story.left_out == 2
    assert [len(told.of(name)) for name in "abc"] == [3, 3, 0]


@pytest.mark.parametrize(
    ("time_ns", "shown"),
    [
        pytest.param(0, "00:00:00.000", id="the beginning"),
        pytest.param(4_002_999_999, "00:00:04.002", id="rounded down to milliseconds"),
        pytest.param(100 * 3600 * NS_PER_S + 61 * NS_PER_S, "100:01:01.000", id="days are hours"),
    ],
)
def test_times_are_shown_since_the_beginning(time_ns: int, shown: str) -> None:
    assert show_time(time_ns) == shown
