"""Upstream's log lines of the queue (v1.37, 21), word for word: which moves have a line, and from which verbosity on."""

import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from build import a_node, a_pod
from gangs import GROUP_GATES, a_composite, a_group, a_member
from mooring.drivers.simulated_driver import START_NS, Driver
from mooring.framework import config
from mooring.kit.clock import VirtualClock
from mooring.kit.logs import JsonFormat, Log, TextFormat
from mooring.plugins import in_tree
from mooring.scheduler.observer import SchedulerListeners
from mooring.state.scheduler_assembly import build_scheduler

HEAD = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
MOVED = '"Entity moved to an internal scheduling queue" type="pod" entity="default/p"'


class Lines(logging.Handler):
    """The lines of a log, without time and place."""

    def __init__(self) -> None:
        super().__init__(level=1)
        self.found: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.found.append(TextFormat(1).format(record).partition("] ")[2].strip())


class LoggedQueue:
    """A scheduler on a virtual clock with a log of this verbosity; None: it has none."""

    def __init__(self, logger: logging.Logger, verbosity: int | None, **gates: bool) -> None:
        self.lines = Lines()
        logger.addHandler(self.lines)
        logger.setLevel(logging.INFO - (verbosity or 0))
        clock = VirtualClock(START_NS)
        gates = {**GROUP_GATES, **gates}
        listeners = SchedulerListeners(log=None if verbosity is None else Log(logger))
        settings = config.from_object(HEAD, feature_gates=gates)
        self.scheduler = build_scheduler(settings, clock, in_tree(), listeners=listeners, gates=gates)
        self.driver = Driver(clock, self.scheduler, with_versions=True)

    def create(self, *items: Any) -> None:
        for item in items:
            self.driver.create(item)

    def said(self) -> list[str]:
        """The lines since the last question."""
        found, self.lines.found = self.lines.found, []
        return found


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    made = logging.Logger("queue under test")
    yield made
    made.handlers.clear()


def a_plain(name: str = "p", **more: Any) -> Any:
    return a_pod(name, schedulerName="default-scheduler", metadata={"uid": f"uid-{name}"}, **more)


def test_the_way_of_a_pod(logger: logging.Logger) -> None:
    queue = LoggedQueue(logger, 5)
    queue.create(a_plain(cpu="4"))
    assert queue.said() == [f'{MOVED} event="UnscheduledPodAdd" queue="Active"']
    queue.create(a_node("n", cpu="2"))
    queue.driver.settle()
    failed = (
        '"Pod moved to an internal scheduling queue" pod="default/p" event="ScheduleAttemptFailure" queue="Unschedulable" '
        'schedulingCycle=1 hint=0 unschedulable plugins={"NodeResourcesFit":{}}'
    )
    assert queue.said() == [failed]
    queue.driver.update(a_node("n", cpu="3"))
    skipped = '"Event is not making entity schedulable" type="pod" entity="default/p" event="NodeUpdateNodeAllocatable"'
    assert queue.said() == [skipped]
    queue.driver.update(a_node("n", cpu="4"))
    assert queue.said() == [f'{MOVED} event="NodeUpdateNodeAllocatable" queue="Backoff"']
    for _ in range(2):
        queue.driver.advance_second()
    assert queue.said() == [f'{MOVED} event="BackoffComplete" queue="Active"']


def test_a_pod_that_a_gate_holds_back(logger: logging.Logger) -> None:
    queue = LoggedQueue(logger, 5)
    queue.create(a_plain(schedulingGates=[{"name": "g"}]))
    gated = '"Entity moved to an internal scheduling queue, because it is gated" type="pod" entity="default/p"'
    assert queue.said() == [f'{gated} event="UnscheduledPodAdd" queue="Unschedulable"']


def test_events_during_an_attempt(logger: logging.Logger) -> None:
    queue = LoggedQueue(logger, 5)
    queue.create(a_plain())
    entry = queue.scheduler.core.queue.pop()
    assert entry is not None
    queue.said()
    queue.create(a_node("n"))
    assert queue.said() == ['"Event received while entities are in flight" event="NodeAdd"']


def test_the_way_of_a_group(logger: logging.Logger) -> None:
    queue = LoggedQueue(logger, 5)
    queue.create(a_node("n", cpu="1"), a_member("a"), a_group(min_count=2, uid="g"))
    waits = "waiting for one or more parent pod group objects to be observed"
    moved, root = "Entity moved to an internal scheduling queue", 'rootType="podgroup" root="default/gang"'
    gated = f'"{moved}, because it is gated" type="podgroup" entity="default/gang"'
    complete = (
        "was added to the root group and its pods were attempted to be moved from incompletePodGroupPods to the queue"
    )
    assert queue.said() == [
        f'"Pod with pod group added to incompletePodGroupPods, {waits}" podGroup="gang" pod="default/a"',
        f'"Pod was added to root group as the first member pod" {root} pod="default/a"',
        f'{gated} event="UnscheduledPodAdd" queue="Unschedulable"',
        f'"Pod Group {complete}" {root} podGroup="default/gang" podsLen=1',
        f'{gated} event="scheduling.k8s.io/PodGroupAdd" queue="Unschedulable"',
    ]
    queue.create(a_member("b"))
    assert queue.said() == [
        f'"Pod added to existing root group info" {root} pod="default/b" queue="Unschedulable"',
        f'"{moved}" type="podgroup" entity="default/gang" event="UnscheduledPodAdd" queue="Active"',
    ]
    queue.driver.attempt_once()
    found = queue.said()
    pending = "Pod added to pending pod group pods, waiting for its root group to be requeued"
    assert [line for line in found if pending in line] == [f'"{pending}" {root} pod="default/{name}"' for name in "ab"]
    assert found[-2] == (
        '"Pod group moved to an internal scheduling queue" podGroup="default/gang" event="ScheduleAttemptFailure" '
        'queue="Backoff" schedulingCycle=1 unschedulable plugins={}'
    )


def test_groups_and_members_that_change_and_go(logger: logging.Logger) -> None:
    queue = LoggedQueue(logger, 5)
    queue.create(a_group(min_count=3, uid="g"), a_member("a"), a_member("b"))
    queue.said()
    queue.driver.update(a_group(min_count=4, uid="g"))
    root = 'rootType="podgroup" root="default/gang"'
    gone = "deleted from root group, decomposed and enqueued pods to incompletePodGroupPods"
    assert (
        f'"Pod Group in the scheduling queue was updated for the root group" {root} podGroup="default/gang"'
        in queue.said()
    )
    queue.driver.delete("Pod", "default/b")
    assert f'"Pod deleted from existing root group info" {root} pod="default/b"' in queue.said()
    queue.driver.delete("PodGroup", "default/gang")
    assert f'"Pod group {gone}" {root} podGroup="default/gang" pods=1' in queue.said()
    queue.driver.delete("Pod", "default/a")
    assert '"Pod deleted from incompletePodGroupPods" pod="default/a" podGroup="gang"' in queue.said()


def test_a_line_of_json_names_a_group_by_namespace_and_name(logger: logging.Logger) -> None:
    queue = LoggedQueue(logger, 5)
    written: list[str] = []
    queue.lines.emit = lambda record: written.append(JsonFormat().format(record))  # type: ignore[method-assign]
    queue.create(a_group(min_count=2, uid="g"), a_member("a"))
    first, *_ = (line for line in map(json.loads, written) if "first member" in line["msg"])
    root, pod = ({"name": name, "namespace": "default"} for name in ("gang", "a"))
    assert (first["rootType"], first["root"], first["pod"]) == ("podgroup", root, pod)


def test_groups_and_members_that_go_during_the_attempt(logger: logging.Logger) -> None:
    queue = LoggedQueue(logger, 5)
    queue.create(a_node("n"), a_group(uid="g"), a_member("a"))
    assert queue.scheduler.core.queue.pop() is not None
    queue.create(a_member("b"), a_member("c"))
    queue.said()
    queue.driver.delete("Pod", "default/b")
    pending = "Pod belonging to a root group got deleted from pending pod group info"
    assert f'"{pending}" rootType="podgroup" root="default/gang" pod="default/b"' in queue.said()
    queue.driver.delete("PodGroup", "default/gang")
    gone = "Pod group deleted, decomposed and enqueued pending pods for the pod group to incompletePodGroupPods"
    assert f'"{gone}" podGroup="default/gang" pods=1' in queue.said()


def test_composite_groups(logger: logging.Logger) -> None:
    queue = LoggedQueue(logger, 5, TopologyAwareWorkloadScheduling=True, CompositePodGroup=True)
    both = 'rootType="podgroup" root="default/all"'
    queue.create(
        a_composite("all"), a_group("one", uid="1", parentCompositePodGroupName="all"), a_member("a", group="one")
    )
    queue.said()
    queue.driver.update(a_composite("all", priority=3))
    updated = '"Composite Pod Group in the scheduling queue was updated for the root group"'
    assert queue.said() == [f'{updated} {both} compositePodGroup="default/all"']
    queue.create(a_group("two", uid="2", parentCompositePodGroupName="all"))
    assert queue.said()[0] == f'"Pod Group added to the existing root group" {both} podGroup="default/two"'
    queue.driver.delete("CompositePodGroup", "default/all")
    what = "decomposed and enqueued pods in the composite pod group subtree to incompletePodGroupPods"
    gone = f'"Composite pod group deleted from the root group, {what}" {both} compositePodGroup="default/all" pods=1'
    assert gone in queue.said()


def test_a_composite_group_that_comes_last_and_goes_during_the_attempt(logger: logging.Logger) -> None:
    queue = LoggedQueue(logger, 5, TopologyAwareWorkloadScheduling=True, CompositePodGroup=True)
    queue.create(a_group("one", uid="1", parentCompositePodGroupName="all"), a_member("a", group="one"))
    queue.said()
    queue.create(a_composite("all"))
    both = 'rootType="podgroup" root="default/all"'
    moved = (
        "was added to the root group and its pods were attempted to be moved from incompletePodGroupPods to the queue"
    )
    assert f'"Composite Pod Group {moved}" {both} compositePodGroup="default/all" podsLen=1' in queue.said()
    assert queue.scheduler.core.queue.pop() is not None
    queue.create(a_member("b", group="one"))
    queue.said()
    queue.driver.delete("CompositePodGroup", "default/all")
    what = "enqueued pending pods in the composite pod group subtree to incompletePodGroupPods"
    gone = f'"Composite pod group deleted from the root group, {what}" {both} compositePodGroup="default/all" pods=1'
    assert gone in queue.said()


@pytest.mark.parametrize(("verbosity", "lines"), [(None, 0), (0, 0), (2, 0), (3, 1), (4, 1), (5, 3)])
def test_which_verbosity_has_which_lines(logger: logging.Logger, verbosity: int | None, lines: int) -> None:
    queue = LoggedQueue(logger, verbosity)
    queue.create(a_plain())
    queue.driver.settle()
    assert len(queue.said()) == lines
