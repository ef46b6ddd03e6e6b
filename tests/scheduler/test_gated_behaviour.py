"""Feature gates of the scheduler as a whole, on and off."""

import pytest

from build import a_node, a_pod
from mooring.framework import config
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.intents import Bind, PatchStatus
from mooring.framework.contract.points import PermitPlugin, Wait
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.plugins import in_tree
from mooring.scheduler.inputs import ObjectAdded, ObjectUpdated, TimePassed
from mooring.state.scheduler_assembly import all_plugins, build_scheduler


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


class Doorkeeper(PermitPlugin):
    """Lets every pod wait."""

    name = "Doorkeeper"

    def permit(self, context: SchedulingContext, node_name: str) -> Wait:
        return Wait(10)


@pytest.mark.parametrize("is_on", [True, False])
def test_the_status_of_a_pod_that_waits_names_its_node(is_on: bool) -> None:
    """When its time is up, a nomination that was written is taken back; where none was, there is nothing to take."""
    clock, registry = VirtualClock(1_000 * NS_PER_S), in_tree()
    registry.register(Doorkeeper)
    profile = {"schedulerName": "default-scheduler", "plugins": {"permit": {"enabled": [{"name": "Doorkeeper"}]}}}
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    gates = {"NominatedNodeNameForExpectation": is_on}
    scheduler = build_scheduler(config.from_object({**head, "profiles": [profile]}), clock, registry, gates=gates)
    scheduler.handle(ObjectAdded(a_node("n")))
    scheduler.handle(ObjectAdded(a_pod("p", schedulerName="default-scheduler", metadata={"uid": "u"})))
    scheduler.attempt()
    named = [each.nominated_node_name for each in scheduler.take_intents() if isinstance(each, PatchStatus)]
    assert named == (["n"] if is_on else [])
    clock.advance_ns(11 * NS_PER_S)
    scheduler.handle(TimePassed())
    scheduler.release_waiting()
    (patch,) = [each for each in scheduler.take_intents() if isinstance(each, PatchStatus)]
    assert patch.nominated_node_name == ("" if is_on else None)
