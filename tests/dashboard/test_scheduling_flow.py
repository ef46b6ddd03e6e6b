"""What passes through a scheduler in a second."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from build import a_node, a_pod
from dashboard_stage import StagedSource
from mooring.dashboard.views.scheduling_flow import FlowCounters, FlowSample, SelfCheckFigures
from mooring.drivers.simulated_driver import Driver
from mooring.framework.config import default
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.kit.metrics import MetricRegistry
from mooring.model.meta import Condition
from mooring.model.pod import Pod
from mooring.scheduler.inputs import ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.scheduler.observer import SchedulerListeners
from mooring.scheduler.scheduler_metrics import SchedulerMetrics
from mooring.state.scheduler_assembly import build_scheduler


def sampled(source: StagedSource) -> FlowSample:
    assert source.flow is not None
    return source.flow.sample(source.self_check())


def test_a_sample_is_what_happened_since_the_last_one() -> None:
    source = StagedSource(a_node("n", cpu="4"), a_pod("a", cpu="1"), a_pod("b", cpu="1"), a_pod("big", cpu="9"))
    source.driver.settle()
    source.clock.advance_ns(NS_PER_S)
    first = msgspec.to_builtins(sampled(source))
    assert (first["bound"], first["seconds"]) == (2, 1.003)
    assert first["attempts"] == {"default-scheduler": {"scheduled": 2, "unschedulable": 1, "error": 0}}
    assert first["selfCheck"] is None
    second = sampled(source)
    assert (second.bound, second.attempts, second.latency, second.seconds) == (0, {}, {}, 0.0)


def test_preemptions_victims_and_evictions_are_counted() -> None:
    source = StagedSource(a_node("n", cpu="4"), a_pod("v1", cpu="2"), a_pod("v2", cpu="2"))
    source.driver.settle()
    source.add(a_pod("high", cpu="4", priority=10))
    source.driver.settle()
    found = sampled(source)
    assert (found.preemptions, found.victims, found.evictions) == (1, 2, 2)


def test_profiles_without_attempts_are_shown_where_they_are_known() -> None:
    counters = FlowCounters(VirtualClock(), ["a", "b"])
    counters.ended("b", "error", 5)
    assert counters.sample().attempts == {
        "a": {"scheduled": 0, "unschedulable": 0, "error": 0},
        "b": {"scheduled": 0, "unschedulable": 0, "error": 1},
    }


def test_the_self_check_is_passed_on() -> None:
    figures = SelfCheckFigures(2, 1, "2026-02-01T00:00:00.000Z")
    sample = msgspec.to_builtins(FlowCounters(VirtualClock()).sample(figures))
    assert sample["selfCheck"] == {"runs": 2, "differences": 1, "last": "2026-02-01T00:00:00.000Z"}


@given(st.lists(st.integers(-5, 10**10), min_size=1, max_size=300))
def test_latencies_agree_with_a_plain_count(durations: list[int]) -> None:
    """So many attempts took no longer than the percentile, and fewer than so many took less."""
    counters = FlowCounters(VirtualClock())
    for each in durations:
        counters.ended("p", "scheduled", each)
    found = counters.sample().latency["p"]
    taken = sorted(round(max(each, 0) / NS_PER_S, 7) for each in durations)
    for share, value in ((0.5, found.p50), (0.99, found.p99)):
        assert sum(each <= value for each in taken) >= share * (len(taken) - 1)
        assert sum(each < value for each in taken) <= share * len(taken)


def test_the_observer_inside_sees_everything() -> None:
    """Metrics are the same with and without the flow around them."""
    texts = []
    for is_watched in (False, True):
        clock = VirtualClock()
        metrics = SchedulerMetrics(clock)
        observer = FlowCounters(clock).around(metrics) if is_watched else metrics
        driver = Driver(clock, build_scheduler(default(), clock, listeners=SchedulerListeners(observer=observer)))
        for item in (a_node("n", cpu="2"), a_pod("a", cpu="2"), a_pod("b", cpu="2", priority=3), a_pod("c", cpu="9")):
            if hasattr(item.spec, "scheduler_name"):
                item.spec.scheduler_name = "default-scheduler"
            driver.create(item)
        driver.settle()
        texts.append(_counts(metrics.registry))
    assert texts[0] == texts[1]
    assert "scheduler_schedule_attempts_total" in texts[0]


def _counts(registry: MetricRegistry) -> str:
    """Without durations of plugins, which the processor's clock measures."""
    return "".join(line for line in registry.text().splitlines(True) if "_seconds" not in line or "_count" in line)


# ---- evictions by others


def a_leaving(pod: Pod, reason: str = "") -> Pod:
    """The pod while it is deleted, with the mark of an eviction."""
    metadata = msgspec.structs.replace(pod.metadata, deletion_timestamp="2026-02-01T00:00:00Z")
    conditions = [Condition(type="DisruptionTarget", status="True", reason=reason)] if reason else None
    return Pod(metadata=metadata, spec=pod.spec, status=msgspec.structs.replace(pod.status, conditions=conditions))


@pytest.mark.parametrize(
    ("reason", "is_cordoned", "owner", "counted"),
    [
        pytest.param("EvictionByEvictionAPI", False, "ReplicaSet", 1, id="the eviction API evicts"),
        pytest.param("DeletionByTaintManager", False, "ReplicaSet", 1, id="a taint evicts"),
        pytest.param("PreemptionByScheduler", False, "ReplicaSet", 0, id="a victim of preemption is counted elsewhere"),
        pytest.param("", True, "ReplicaSet", 1, id="a drain deletes from a cordoned node"),
        pytest.param("", True, "DaemonSet", 0, id="a DaemonSet restarts its pod on a cordoned node"),
        pytest.param("", False, "ReplicaSet", 0, id="someone deletes a pod"),
    ],
)
@pytest.mark.parametrize("is_seen_leaving", [True, False])
def test_evictions_by_others_are_counted_once(
    reason: str, is_cordoned: bool, owner: str, counted: int, is_seen_leaving: bool
) -> None:
    clock = VirtualClock()
    scheduler, counters = build_scheduler(default(), clock), FlowCounters(clock)
    counters.follow(scheduler)
    owners = [{"apiVersion": "apps/v1", "kind": owner, "name": "o", "uid": "o", "controller": True}]
    pod = a_pod("p", nodeName="n", metadata={"uid": "p", "ownerReferences": owners})
    leaving = a_leaving(pod, reason)
    scheduler.handle(ObjectAdded(a_node("n", unschedulable=is_cordoned)))
    scheduler.handle(ObjectAdded(pod))
    if is_seen_leaving:
        scheduler.handle(ObjectUpdated(pod, leaving))
        scheduler.handle(ObjectUpdated(leaving, leaving))
        scheduler.handle(ObjectRemoved(leaving))
        assert counters.sample().evictions == counted
    else:  # without a grace period the pod is gone at once, and the mark may never have been seen
        scheduler.handle(ObjectRemoved(pod))
        assert counters.sample().evictions == (1 if is_cordoned and owner != "DaemonSet" else 0)


def test_pods_that_have_finished_or_had_no_node_are_no_evictions() -> None:
    clock = VirtualClock()
    scheduler, counters = build_scheduler(default(), clock), FlowCounters(clock)
    counters.follow(scheduler)
    scheduler.handle(ObjectAdded(a_node("n", unschedulable=True)))
    waiting = a_pod("w", metadata={"uid": "w"})
    done = a_pod("d", nodeName="n", metadata={"uid": "d"}, status={"phase": "Succeeded"})
    for pod in (waiting, done):
        scheduler.handle(ObjectAdded(pod))
        scheduler.handle(ObjectRemoved(pod))
    assert counters.sample().evictions == 0
