"""GangScheduling: who is held back, who waits, and in which words."""

import msgspec
import pytest

from build import FreshValues, a_cluster, a_node, a_pod
from gangs import GangWorld, a_group, a_member
from hinting import wakes
from mooring.api.kinds.scheduling import POD_GROUP
from mooring.cluster.cluster import Cluster
from mooring.cluster.pods.pod_groups import GroupName, PodGroups
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import ASSIGNED_POD_ADD, UNSCHEDULED_POD_ADD, Action, ClusterEvent
from mooring.framework.contract.group_points import PlacementProgress, PodGroupContext
from mooring.framework.contract.points import Handle, SchedulerServices, Wait
from mooring.framework.contract.status import Code, PluginError, Rejection, curable, final
from mooring.model.pod import Pod
from mooring.model.workloads import PodGroup
from mooring.plugins.group_plugins import GangScheduling

NO_GROUP = final('waiting for pods\'s pod group "gang" to appear in scheduling queue')
TOO_FEW = final("waiting for minCount pods from a gang to appear in scheduling queue")
WAIT = Wait(300, "waiting for minCount pods from a gang to be scheduled")
GROUP_ADD = ClusterEvent(POD_GROUP.event, Action.ADD)


def the_services(*pods: Pod, min_count: int | None = 3, has_group: bool = True) -> SchedulerServices:
    """The services of a scheduler that knows these pods; those with a node are on it."""
    cluster = a_cluster(a_node("n1"), *([a_group(min_count=min_count)] if has_group else []))
    cluster.groups = PodGroups()
    for pod in pods:
        cluster.groups.add(pod)
    return SchedulerServices(cluster=cluster)


def plugin_at(services: SchedulerServices) -> GangScheduling:
    return GangScheduling(None, Handle(services=services))


def a_context(pod: Pod, services: SchedulerServices) -> SchedulingContext:
    return SchedulingContext(pod, services.cluster or Cluster(), 0, FreshValues())


A, B, C = a_member("a"), a_member("b"), a_member("c")
ON_A_NODE = a_member("d", nodeName="n1")


def test_a_pod_without_a_group_is_not_held_back() -> None:
    assert plugin_at(the_services(has_group=False)).pre_enqueue(a_pod()) is None


def test_a_pod_waits_for_its_group() -> None:
    assert plugin_at(the_services(A, B, C, has_group=False)).pre_enqueue(A) == NO_GROUP


def test_a_group_of_that_name_elsewhere_does_not_count() -> None:
    services = the_services(A, B, C, has_group=False)
    assert services.cluster is not None
    services.cluster.put(a_group(min_count=1, namespace="elsewhere"))
    assert plugin_at(services).pre_enqueue(A) == NO_GROUP


def test_a_pod_waits_for_the_rest_of_its_gang() -> None:
    elsewhere = a_member("x", namespace="elsewhere")
    assert plugin_at(the_services(A, B, elsewhere, a_member("y", "other"))).pre_enqueue(A) == TOO_FEW


def test_enough_members_are_let_in_wherever_they_are() -> None:
    assert plugin_at(the_services(A, B, C)).pre_enqueue(A) is None
    assert plugin_at(the_services(A, B, ON_A_NODE)).pre_enqueue(A) is None


def test_a_basic_group_needs_no_number() -> None:
    assert plugin_at(the_services(A, min_count=None)).pre_enqueue(A) is None


def test_nobody_is_held_back_where_groups_are_not_kept() -> None:
    services = the_services(has_group=False)
    assert services.cluster is not None
    services.cluster.groups = None
    assert plugin_at(services).pre_enqueue(A) is None
    assert plugin_at(services).permit(a_context(A, services), "n1") is None


def test_permit_has_no_objection_outside_of_gangs() -> None:
    services = the_services(A, min_count=None)
    assert plugin_at(services).permit(a_context(A, services), "n1") is None
    assert plugin_at(services).permit(a_context(a_pod(), services), "n1") is None


def test_permit_fails_without_the_group() -> None:
    services = the_services(A, has_group=False)
    text = "^failed to get podGroup default/gang: pod group object not found for pod group default/gang$"
    with pytest.raises(PluginError, match=text):
        plugin_at(services).permit(a_context(A, services), "n1")


def assumed(services: SchedulerServices, *pods: Pod) -> SchedulerServices:
    assert services.cluster is not None and services.cluster.groups is not None
    for pod in pods:
        services.cluster.groups.assume(pod)
    return services


def test_a_gang_that_is_not_complete_waits_and_calls_for_the_others() -> None:
    services = assumed(the_services(A, B, C), A, B)
    called: list[str] = []
    services = msgspec.structs.replace(services, activate=lambda pods: called.extend(pod.name for pod in pods))
    assert plugin_at(services).permit(a_context(B, services), "n1") == WAIT
    assert called == ["c"]


def test_the_last_one_lets_the_others_go() -> None:
    services = assumed(the_services(A, B, ON_A_NODE, a_member("x", "other")), A, B)
    waiting = {
        pod.name: services.waiting.hold(pod, "n1", {"GangScheduling": 300}, 0) for pod in (A, a_member("x", "other"))
    }
    assert plugin_at(services).permit(a_context(B, services), "n1") is None
    assert {name for name, each in waiting.items() if each.release is not None} == {"a"}


FEASIBLE = {
    "enough have a node": (2, 1, 3, None),
    "a basic group needs one": (None, 0, 1, None),
    "more are needed": (
        3,
        2,
        2,
        Rejection(("minCount (3) is not yet satisfied: 2 scheduled, 2 remaining",), Code.Wait),
    ),
    "too few are left": (3, 1, 1, curable("minCount (3) cannot be satisfied: 1 scheduled, 1 remaining")),
    "a basic group of which none fits": (
        None,
        0,
        0,
        curable("minCount (1) cannot be satisfied: 0 scheduled, 0 remaining"),
    ),
}


@pytest.mark.parametrize(("minimum", "scheduled", "remaining", "expected"), FEASIBLE.values(), ids=FEASIBLE.keys())
def test_v137_13_3_placement_feasible(
    minimum: int | None, scheduled: int, remaining: int, expected: Rejection | None
) -> None:
    services = the_services(A, min_count=minimum)
    assert services.cluster is not None
    group = PodGroupContext(GroupName("default/gang"), [A], services.cluster)
    if expected is None:
        scheduled, remaining = remaining, scheduled
    assert plugin_at(services).placement_feasible(group, PlacementProgress(remaining, scheduled)) == expected


WAKES = {
    "a new member": (UNSCHEDULED_POD_ADD, B, True),
    "a member on a node": (ASSIGNED_POD_ADD, ON_A_NODE, True),
    "a pod of another group": (UNSCHEDULED_POD_ADD, a_member("x", "other"), False),
    "a pod of a group of that name elsewhere": (UNSCHEDULED_POD_ADD, a_member("x", namespace="elsewhere"), False),
    "a pod without a group": (UNSCHEDULED_POD_ADD, a_pod(), False),
    "the group": (GROUP_ADD, a_group(min_count=2), True),
    "another group": (GROUP_ADD, a_group("other"), False),
    "a group of that name elsewhere": (GROUP_ADD, a_group(namespace="elsewhere"), False),
}


@pytest.mark.parametrize(("event", "new", "expected"), WAKES.values(), ids=WAKES.keys())
def test_what_wakes_a_pod_that_is_held_back(event: ClusterEvent, new: Pod, expected: bool) -> None:
    assert wakes(plugin_at(SchedulerServices()), A, event, None, new) is expected


MINIMA = {
    "a lower minimum": (a_group(min_count=3), a_group(min_count=2), True),
    "the same": (a_group(min_count=3), a_group(min_count=3), False),
    "a higher one": (a_group(min_count=3), a_group(min_count=4), False),
    "a basic group": (a_group(), a_group(), False),
    "the minimum of another group": (a_group("other", 3), a_group("other", 2), False),
}


@pytest.mark.parametrize(("old", "new", "expected"), MINIMA.values(), ids=MINIMA.keys())
def test_v137_4_7_only_a_lower_minimum_wakes(old: PodGroup, new: PodGroup, expected: bool) -> None:
    event = ClusterEvent(POD_GROUP.event, Action.UPDATE)
    assert wakes(plugin_at(SchedulerServices()), A, event, old, new) is expected


# ---- in a running scheduler


def test_fewer_members_than_the_minimum_are_gated_until_the_last_one_comes() -> None:
    world = GangWorld()
    world.node("n1", "4")
    world.members("a")
    assert world.place("a") == "incomplete"
    world.group(min_count=3)
    assert (world.place("a"), world.gate("a")) == ("gated", TOO_FEW.message)
    world.members("b")
    assert [world.place(name) for name in "ab"] == ["gated", "gated"]
    world.members("c")
    assert world.where() == dict.fromkeys("abc", "n1")


def test_v137_13_3_a_lower_minimum_lets_a_gated_gang_go() -> None:
    world = GangWorld()
    world.node("n1", "4")
    world.group(min_count=3)
    world.members("a", "b")
    assert [world.place(name) for name in "ab"] == ["gated", "gated"]
    world.driver.update(a_group(min_count=2))
    world.driver.settle()
    assert sorted(world.where()) == ["a", "b"]


def test_members_are_counted_down_when_they_are_deleted() -> None:
    world = GangWorld()
    world.node("n1", "4")
    world.group(min_count=3)
    world.members("a", "b")
    world.delete("b")
    world.members("c")
    assert [world.place(name) for name in "ac"] == ["gated", "gated"]
    world.members("d")
    assert sorted(world.where()) == ["a", "c", "d"]
