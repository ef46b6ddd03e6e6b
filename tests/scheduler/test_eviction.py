"""Preemption is carried out: who is evicted, who steps back, and when the preemptor may come again."""

from typing import Any

from build import a_node, a_pod
from mooring.framework import config
from mooring.framework.contract.context import FitError
from mooring.framework.contract.intents import Evict, PatchStatus, Record
from mooring.framework.contract.points import Handle, Nomination, NoRoom, PostFilterPlugin
from mooring.framework.contract.status import curable
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.pod import Pod
from mooring.scheduler.evict import evict
from mooring.scheduler.inputs import EvictionAnswered, ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.scheduler.scheduler import Scheduler
from mooring.state.scheduler_assembly import build_scheduler

CONFIG = config.from_object(
    {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": "default-scheduler"}],
    }
)
GATE = "waiting for the preemption for this pod to be finished"


class Watcher(PostFilterPlugin):
    """Notes what it is told of evictions."""

    name = "Watcher"

    def __init__(self) -> None:
        super().__init__(None, Handle())
        self.told: list[str] = []

    def post_filter(self, failure: FitError) -> NoRoom:
        return NoRoom(curable())

    def eviction_began(self, pod: Pod) -> None:
        self.told.append(f"began for {pod.name}")

    def eviction_ended(self, pod: Pod) -> None:
        self.told.append(f"ended for {pod.name}")


def our_pod(name: str, priority: int, cpu: str = "1", leaves: bool = False, **more: Any) -> Pod:
    metadata = {"uid": f"uid-{name}", "resourceVersion": "1"}
    if leaves:
        metadata |= {"resourceVersion": "2", "deletionTimestamp": "2026-02-01T00:00:00Z"}
    return a_pod(name, cpu=cpu, priority=priority, metadata=metadata, schedulerName="default-scheduler", **more)


def a_victim(name: str, leaves: bool = False) -> Pod:
    return our_pod(name, 1, "2", leaves, nodeName="n1")


V1, V2 = a_victim("v1"), a_victim("v2")
HIGH = our_pod("high", 9, "4")


def a_scheduler(*pods: Pod) -> Scheduler:
    scheduler = build_scheduler(CONFIG, VirtualClock(1_000 * NS_PER_S))
    scheduler.handle(ObjectAdded(a_node("n1", cpu="4")))
    for pod in pods:
        scheduler.handle(ObjectAdded(pod))
    return scheduler


def after_preemption() -> Scheduler:
    """The node was full of two victims; both are to leave for a pod that needs all of it."""
    scheduler = a_scheduler(V1, V2, HIGH)
    assert scheduler.attempt() is not None
    return scheduler


def evictions(scheduler: Scheduler) -> list[str]:
    return [intent.victim.name for intent in scheduler.core.outbox.intents if isinstance(intent, Evict)]


def cleared(scheduler: Scheduler) -> list[str]:
    return [
        intent.pod.name
        for intent in scheduler.core.outbox.intents
        if isinstance(intent, PatchStatus) and intent.condition is None and intent.nominated_node_name == ""
    ]


def gate_of(scheduler: Scheduler) -> tuple[str | None, str]:
    entry = scheduler.core.queue.get(HIGH.key)
    return scheduler.core.queue.where(HIGH.key), "" if entry is None else entry.gating_message


def test_victims_are_to_leave_and_the_preemptor_is_nominated() -> None:
    scheduler = after_preemption()
    intents = scheduler.take_intents()
    evicts = [intent for intent in intents if isinstance(intent, Evict)]
    assert sorted(intent.victim.name for intent in evicts) == ["v1", "v2"]
    assert {intent.preemptor.name for intent in evicts} == {"high"}
    assert {(c.type, c.status, c.reason, c.message) for c in (intent.condition for intent in evicts)} == {
        (
            "DisruptionTarget",
            "True",
            "PreemptionByScheduler",
            "default-scheduler: preempting to accommodate a higher priority pod",
        )
    }
    assert [intent.nominated_node_name for intent in intents if isinstance(intent, PatchStatus)] == ["n1"]
    assert scheduler.core.queue.nominations.node_of(HIGH.id) == "n1"
    assert gate_of(scheduler) == ("unschedulable", "")


def test_the_preemptor_is_gated_until_the_last_victim_is_evicted() -> None:
    scheduler = after_preemption()
    scheduler.handle(ObjectRemoved(V1))
    assert gate_of(scheduler) == ("gated", GATE)
    scheduler.handle(EvictionAnswered(V1, HIGH))
    assert gate_of(scheduler) == ("gated", GATE)
    scheduler.handle(EvictionAnswered(V2, HIGH))
    assert gate_of(scheduler) == ("backoff", "")
    assert scheduler.core.evictions.by_preemptor == {}


def test_a_victim_that_is_seen_to_leave_counts_as_evicted() -> None:
    scheduler = after_preemption()
    scheduler.handle(ObjectRemoved(V1))
    scheduler.handle(ObjectUpdated(V2, a_victim("v2", leaves=True)))
    assert scheduler.core.evictions.by_preemptor == {}
    assert gate_of(scheduler)[0] == "backoff"


def test_each_eviction_is_recorded_on_its_victim() -> None:
    scheduler = after_preemption()
    scheduler.take_intents()
    scheduler.handle(EvictionAnswered(V1, HIGH))
    (record,) = scheduler.take_intents()
    assert record == Record(V1, "Normal", "Preempted", "Preempting", "Preempted by pod uid-high on node n1")


def test_an_eviction_that_fails_activates_the_preemptor_and_is_not_recorded() -> None:
    scheduler = after_preemption()
    scheduler.take_intents()
    scheduler.handle(EvictionAnswered(V1, HIGH, "the server is on fire"))
    assert scheduler.take_intents() == []
    assert gate_of(scheduler) == ("unschedulable", "")
    scheduler.handle(EvictionAnswered(V2, HIGH))
    assert gate_of(scheduler) == ("active", "")
    assert scheduler.core.evictions.by_preemptor == {}


def test_evictions_that_succeed_leave_the_preemptor_to_the_events() -> None:
    scheduler = after_preemption()
    scheduler.handle(EvictionAnswered(V1, HIGH))
    scheduler.handle(EvictionAnswered(V2, HIGH))
    assert gate_of(scheduler) == ("unschedulable", "")
    scheduler.handle(ObjectRemoved(V1))
    scheduler.handle(ObjectRemoved(V2))
    assert gate_of(scheduler)[0] in ("active", "backoff")


def test_an_answer_about_an_eviction_that_is_over_is_recorded_and_moves_nobody() -> None:
    scheduler = after_preemption()
    for victim in (V1, V2):
        scheduler.handle(ObjectRemoved(victim))
    place = gate_of(scheduler)
    scheduler.take_intents()
    scheduler.handle(EvictionAnswered(V2, HIGH))
    assert [type(intent) for intent in scheduler.take_intents()] == [Record]
    assert gate_of(scheduler) == place


def test_victims_that_are_on_their_way_out_are_left_alone() -> None:
    watcher, scheduler = Watcher(), a_scheduler()
    evict(scheduler.core, HIGH, Nomination("n1", (a_victim("v1", leaves=True), V2)), watcher)
    assert evictions(scheduler) == ["v2"]
    scheduler.handle(EvictionAnswered(V2, HIGH))
    assert watcher.told == ["began for high", "ended for high"]


def test_when_all_victims_are_on_their_way_out_nothing_happens() -> None:
    kept = our_pod("kept", 5, status={"nominatedNodeName": "n1"})
    watcher, scheduler = Watcher(), a_scheduler(kept)
    evict(scheduler.core, HIGH, Nomination("n1", (a_victim("v1", leaves=True),)), watcher)
    assert scheduler.take_intents() == []
    assert watcher.told == []
    assert scheduler.core.evictions.by_preemptor == {}


def test_pods_of_lower_priority_lose_their_nomination_to_the_node() -> None:
    lower, equal = (our_pod(f"p{p}", p, status={"nominatedNodeName": "n1"}) for p in (8, 9))
    elsewhere = our_pod("elsewhere", 1, status={"nominatedNodeName": "n2"})
    scheduler = a_scheduler(lower, equal, elsewhere)
    evict(scheduler.core, HIGH, Nomination("n1", (V1,)), Watcher())
    assert cleared(scheduler) == ["p8"]
    assert evictions(scheduler) == ["v1"]
    assert isinstance(scheduler.core.outbox.intents[0], PatchStatus), "before any victim is evicted"
