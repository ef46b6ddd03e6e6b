"""Feature gates of the scheduler as a whole, on and off."""

import pytest

from build import a_node, a_pod
from mooring.framework import config
from mooring.framework.intents import Bind
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.scheduler.assembly import all_plugins, build_scheduler
from mooring.scheduler.inputs import ObjectAdded, ObjectUpdated, TimePassed


@pytest.mark.parametrize("is_on", [True, False])
def test_an_idle_scheduler_takes_pods_out_of_backoff_early(is_on: bool) -> None:
    """The pod is rejected, and an event lets it back off for a second. Nothing else waits."""
    clock = VirtualClock(1_000 * NS_PER_S)
    gates = {"SchedulerPopFromBackoffQ": is_on}
    scheduler = build_scheduler(config.default(), clock, all_plugins(), gates=gates)
    scheduler.handle(ObjectAdded(a_node("n", cpu="1")))
    scheduler.handle(ObjectAdded(a_pod("big", cpu="2", schedulerName="default-scheduler", metadata={"uid": "u"})))
    assert scheduler.attempt() is not None
    scheduler.handle(ObjectUpdated(a_node("n", cpu="1"), a_node("n", cpu="4")))
    assert scheduler.pending_counts()["backoff"] == 1
    assert (scheduler.attempt() is not None) is is_on
    clock.advance_ns(2 * NS_PER_S)
    scheduler.handle(TimePassed())
    assert (scheduler.attempt() is not None) is not is_on
    assert sum(isinstance(intent, Bind) for intent in scheduler.take_intents()) == 1


@pytest.mark.parametrize("is_on", [True, False])
def test_tolerations_compare_numbers(is_on: bool) -> None:
    clock = VirtualClock(1_000 * NS_PER_S)
    gates = {"TaintTolerationComparisonOperators": is_on}
    scheduler = build_scheduler(config.default(), clock, all_plugins(), gates=gates)
    scheduler.handle(ObjectAdded(a_node("n", taints=["level=3:NoSchedule"])))
    tolerations = [{"key": "level", "operator": "Lt", "value": "5"}]
    pod = a_pod("p", tolerations=tolerations, schedulerName="default-scheduler", metadata={"uid": "u"})
    scheduler.handle(ObjectAdded(pod))
    scheduler.attempt()
    assert any(isinstance(intent, Bind) for intent in scheduler.take_intents()) is is_on
