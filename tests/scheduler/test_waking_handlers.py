"""Which changes the scheduler announces to the plugins that rejected pods (v1.37, 4.9)."""

from collections.abc import Sequence

import msgspec
import pytest

from build import a_node, a_pod
from device_building import a_claim, an_allocation
from gangs import a_group
from mooring.api.kinds.devices import RESOURCE_CLAIM
from mooring.api.kinds.scheduling import POD_GROUP
from mooring.framework import config
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import (
    UNSCHEDULABLE_POD,
    UNSCHEDULED_POD_ADD,
    Action,
    Change,
    ClusterEvent,
    Registration,
)
from mooring.framework.contract.points import Codes, FilterPlugin, Rows
from mooring.framework.contract.status import Rejection, curable
from mooring.kit.clock import VirtualClock
from mooring.model.devices import ResourceClaim
from mooring.model.pod import Pod
from mooring.model.workloads import PodGroup
from mooring.plugins import in_tree
from mooring.scheduler.inputs import ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.scheduler.scheduler import Scheduler
from mooring.state.scheduler_assembly import build_scheduler

GROUP_UPDATE = ClusterEvent(POD_GROUP.event, Action.UPDATE)


class Closed(FilterPlugin):
    """Rejects every pod, and waits for other pods and for groups."""

    name = "Closed"
    waits_for: Sequence[ClusterEvent] = (UNSCHEDULED_POD_ADD, GROUP_UPDATE)

    def events(self) -> Sequence[Registration]:
        return [Registration(event) for event in self.waits_for]

    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        return context.nodes.alive[rows].astype("int64")

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        return curable("closed")


class ClosedToClaims(Closed):
    """Waits for claims that go, with their devices as far as the scheduler knows."""

    def events(self) -> Sequence[Registration]:
        return [Registration(ClusterEvent(RESOURCE_CLAIM.event, Action.DELETE), _had_devices)]


def _had_devices(pod: Pod, change: Change) -> bool:
    return isinstance(change.old, ResourceClaim) and change.old.status.allocation is not None


class ClosedAsBefore(Closed):
    """Registers its event under the name of v1.36."""

    waits_for = (ClusterEvent(UNSCHEDULABLE_POD, Action.ADD),)


def our_pod(name: str) -> Pod:
    return a_pod(name, metadata={"uid": name}, schedulerName="default-scheduler")


def rejected_pod(with_groups: bool, plugin: type[Closed] = Closed) -> Scheduler:
    """A scheduler with one pod that the plugin rejected."""
    gates = {"GenericWorkload": with_groups}
    registry = in_tree()
    registry.register(plugin)
    profile = {"plugins": {"filter": {"enabled": [{"name": "Closed"}]}}}
    head = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
    settings = config.from_object({**head, "profiles": [profile]}, feature_gates=gates)
    scheduler = build_scheduler(settings, VirtualClock(), registry, gates=gates)
    scheduler.handle(ObjectAdded(a_node("n1")))
    scheduler.handle(ObjectAdded(our_pod("waits")))
    scheduler.attempt()
    assert scheduler.core.queue.where("default/waits") == "unschedulable"
    return scheduler


@pytest.mark.parametrize("plugin", [Closed, ClosedAsBefore])
@pytest.mark.parametrize("with_groups", [True, False])
def test_a_new_pod_is_announced_only_with_groups(with_groups: bool, plugin: type[Closed]) -> None:
    scheduler = rejected_pod(with_groups, plugin)
    scheduler.handle(ObjectAdded(our_pod("comes")))
    assert scheduler.core.queue.where("default/waits") == ("backoff" if with_groups else "unschedulable")


@pytest.mark.parametrize("is_written", [True, False])
def test_a_claim_that_is_deleted_is_announced_as_it_was_written_last(is_written: bool) -> None:
    """v1.37, 4.7: the watch may not have shown yet that the scheduler allocated it."""
    scheduler = rejected_pod(with_groups=False, plugin=ClosedToClaims)
    scheduler.handle(ObjectAdded(shown := a_claim("c", metadata={"uid": "c", "resourceVersion": "1"})))
    if is_written:
        given = {"allocation": an_allocation("a/d0")}
        scheduler.core.cluster.claims.wrote(a_claim("c", metadata={"uid": "c", "resourceVersion": "2"}, status=given))
    scheduler.handle(ObjectRemoved(shown))
    assert scheduler.core.queue.where("default/waits") == ("backoff" if is_written else "unschedulable")


def versioned(version: str) -> PodGroup:
    group = a_group("g", 2)
    return msgspec.structs.replace(group, metadata=msgspec.structs.replace(group.metadata, resource_version=version))


@pytest.mark.parametrize(("version", "place"), [("1", "unschedulable"), ("2", "backoff")])
def test_a_group_that_is_shown_again_is_no_update(version: str, place: str) -> None:
    scheduler = rejected_pod(with_groups=True)
    scheduler.handle(ObjectAdded(versioned("1")))
    scheduler.handle(ObjectUpdated(versioned("1"), versioned(version)))
    assert scheduler.core.queue.where("default/waits") == place
