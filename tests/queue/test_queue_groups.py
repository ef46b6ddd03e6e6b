"""Group objects that come and go while their members wait, activation of groups, and queues that take over from others."""

import pytest
from member_rig import GATED, A, B, C, Queue
from queue_rig import NODE_ADD, Rig

from build import a_node
from gangs import GROUP_GATES, a_composite, a_group, a_member
from mooring.cluster.cluster import Cluster
from mooring.cluster.pods.pod_groups import GroupName, name_of
from mooring.framework.contract.events import Change
from mooring.kit.clock import NS_PER_S
from mooring.model.pod import Pod
from mooring.model.workloads import PodGroup
from mooring.queue.entry import QueuedPod, group_entry, new_entry
from mooring.queue.group_queue import GroupQueue
from mooring.queue.hints import ObservedEvent, QueueingStrategy

GANG = GroupName("default/gang")
ALL_GATES = {**GROUP_GATES, "CompositePodGroup": True, "TopologyAwareWorkloadScheduling": True}


def groups_of(world: Queue) -> GroupQueue:
    assert world.queue.groups is not None
    return world.queue.groups


def drop_group(world: Queue, name: str, root: str, *leaves: str) -> None:
    """The PodGroup goes. `root` was above it with these PodGroups."""
    world.cluster.remove(PodGroup, f"default/{name}")
    is_composite = root != name
    groups_of(world).group_removed(
        GroupName(f"default/{name}"), GroupName(f"default/{root}", is_composite), [f"default/{leaf}" for leaf in leaves]
    )
    world.check()


def a_tree() -> tuple[Queue, Pod, Pod, Pod]:
    """Two groups below one root, with members `a` and `b` in the first and `c` in the second."""
    world = Queue(groups=(), gates=ALL_GATES)
    world.cluster.put(a_composite("all"))
    for name in ("one", "two"):
        world.cluster.put(a_group(name, parentCompositePodGroupName="all"))
    members = a_member("a", "one"), a_member("b", "one"), a_member("c", "two")
    for pod in members:
        world.queue.add(pod)
    world.check()
    return world, *members


def test_members_of_a_group_that_goes_leave_and_the_others_of_the_root_stay() -> None:
    world, a, b, c = a_tree()
    drop_group(world, "one", "all", "one", "two")
    assert world.where(a, b, c) == ["incomplete", "incomplete", "active"]
    assert world.queue.pending_counts() == {
        "active": 1,
        "backoff": 0,
        "unschedulable": 0,
        "gated": 0,
        "incomplete": 2,
        "pending": 0,
    }
    assert [entry.pod for entry in world.pop().entries] == [c]


def test_only_pending_members_of_the_group_that_goes_are_incomplete() -> None:
    world, a, b, c = a_tree()
    group = world.pop()
    assert world.end(group, "success") is None
    for pod in (a, c):
        world.queue.add(pod)
    again = world.pop()
    late = a_member("late", "one"), a_member("later", "two")
    for pod in late:
        world.queue.add(pod)
    drop_group(world, "one", "all", "one", "two")
    assert world.where(*late) == ["incomplete", "pending"]
    assert world.end(again, "success") == "active"
    assert world.where(*late) == ["incomplete", "active"]
    assert world.where(b) == [None]


def test_a_group_without_a_root_that_goes_changes_nothing() -> None:
    world = Queue(A)
    groups_of(world).group_removed(name_of(a_group("other")), None, ["default/gang"])
    assert world.where(A) == ["active"]
    world.check()


def test_a_group_that_is_not_complete_brings_nobody_in() -> None:
    world = Queue(a_member("a", "one"), groups=(), gates=ALL_GATES)
    world.cluster.put(a_group("one", parentCompositePodGroupName="all"))
    groups_of(world).group_added(GroupName("default/one"))
    assert world.where(a_member("a", "one")) == ["incomplete"]
    world.check()


def test_members_of_other_groups_stay_incomplete() -> None:
    other = a_member("o", "other")
    world = Queue(A, B, other, groups=())
    assert world.queue.pending_counts()["incomplete"] == 3
    world.queue.delete(A)
    assert world.where(A, B, other) == [None, "incomplete", "incomplete"]
    world.cluster.put(a_group())
    groups_of(world).group_added(GANG)
    world.check()
    assert world.where(A, B, other) == [None, "active", "incomplete"]


def test_activation_says_whether_it_changed_anything() -> None:
    world = Queue(A)
    assert not groups_of(world).activate(A), "it is active"
    assert not groups_of(world).activate(a_member("x", "unknown")), "its group is not there"
    group = world.pop()
    assert not groups_of(world).activate(A), "its attempt is under way"
    world.end(group, "rejected", "a")
    assert groups_of(world).activate(A)
    assert world.where(A) == ["active"]
    gated = Queue(GATED)
    assert not groups_of(gated).activate(GATED), "the gate holds it back"
    assert gated.where(GATED) == ["gated"]
    gated.check()


def test_an_error_after_rejections_counts_beside_them_and_a_rejection_ends_errors() -> None:
    world = Queue(A)
    group = world.pop()
    counts = []
    for outcome in ("rejected", "rejected", "error", "error", "rejected", "success"):
        world.end(group, outcome, "a")
        counts.append((group.unschedulable_count, group.consecutive_errors))
        world.clock.advance_ns(30 * NS_PER_S)
        world.queue.flush_backoff()
        assert world.pop() is group
    assert counts == [(1, 0), (2, 0), (2, 1), (2, 2), (3, 0), (0, 0)]


def test_a_group_that_failed_waits_from_the_end_of_its_attempt() -> None:
    world = Queue(A)
    group = world.pop()
    group.was_flushed, group.flushed_ns = True, 5
    world.clock.advance_ns(3 * NS_PER_S)
    assert world.end(group, "rejected", "a") == "backoff"
    assert (group.timestamp_ns, group.was_flushed, group.flushed_ns) == (world.clock.now_ns(), False, 0)
    entry = world.queue.get(A.key)
    assert entry is not None and world.queue.backoff_ends_ns(entry) >= world.clock.now_ns() + NS_PER_S


def test_a_group_counts_as_one_entity_and_members_that_join_it_do_not_count() -> None:
    world = Queue(A, B)
    added = ("active", "UnscheduledPodAdd", "podgroup")
    assert world.queue.counters.incoming_entities == {added: 1}
    world.end(world.pop(), "rejected", "a", "b")
    failed = ("backoff", "ScheduleAttemptFailure", "podgroup")
    assert world.queue.counters.incoming_entities == {added: 1, failed: 1}


def test_an_event_is_worth_to_a_group_what_it_is_to_the_member_that_it_helps_most() -> None:
    rig = Rig()
    rig.fit.answer = False
    rejected, failed = new_entry(a_member("a"), 0), new_entry(a_member("b"), 0)
    rejected.reject_by(["Fit"])
    group = group_entry(GANG, rejected)
    added = ObservedEvent(NODE_ADD, Change(None, a_node("n"), Cluster()), NODE_ADD.label)
    assert rig.queue.hints.strategy_for_entity(group, added) is QueueingStrategy.SKIP
    group.add(failed)
    assert rig.queue.hints.strategy_for_entity(group, added) is QueueingStrategy.AFTER_BACKOFF


def test_the_check_finds_a_group_without_members() -> None:
    world = Queue(A)
    ((key, group),) = groups_of(world).entities.items()
    group.members.clear()
    assert f"{key}: an entity without members" in world.queue.check()


def test_a_pod_group_and_a_composite_one_of_the_same_name_are_two_entities() -> None:
    world = Queue(groups=(a_group("all"),), gates=ALL_GATES)
    world.cluster.put(a_composite("all"))
    world.cluster.put(a_group("leaf", parentCompositePodGroupName="all"))
    world.queue.add(a_member("a", "all"))
    world.queue.add(a_member("b", "leaf"))
    world.check()
    assert list(groups_of(world).entities) == ["podgroup/default/all", "compositepodgroup/default/all"]
    assert [[entry.pod.name for entry in world.pop().entries] for _ in range(2)] == [["a"], ["b"]]


# ---- queues that take over


def a_waiting_world(heeds_groups: bool) -> tuple[Queue, list[Pod]]:
    """Pods, alone and in groups, in every place of the queue, and one in flight."""

    def alone(name: str, **more: object) -> Pod:
        return a_member(name, "", **more)

    world = Queue(heeds_groups=heeds_groups)
    parked, failed, flying = alone("parked"), alone("failed"), alone("flying")
    for pod, rejectors in ((parked, ["NodeResourcesFit"]), (failed, [])):
        world.queue.add(pod)
        entry = world.queue.pop()
        assert isinstance(entry, QueuedPod)
        entry.reject_by(rejectors)
        world.queue.add_unschedulable(entry)
    world.queue.add(flying)
    assert world.queue.pop() is not None
    others = [alone("second", priority=1), alone("first", priority=2), alone("gated", schedulingGates=[{"name": "x"}])]
    members = [a_member("m1"), a_member("m2"), a_member("lost", "nowhere")]
    for pod in (*others, *members):
        world.queue.add(pod)
    world.check()
    return world, [parked, failed, flying, *others, *members]


@pytest.mark.parametrize("heeds_groups", [True, False])
def test_a_queue_that_takes_over_has_all_pods_where_they_were(heeds_groups: bool) -> None:
    world, pods = a_waiting_world(heeds_groups)
    other = Queue(heeds_groups=heeds_groups)
    other.queue.take_over(world.queue.entities_by_place(), world.queue.attempts)
    other.queue.counters.kept_events.update(world.queue.counters.kept_events)
    assert other.where(*pods) == world.where(*pods)
    places = {"active", "backoff", "unschedulable", "gated", None, *(["incomplete"] if heeds_groups else [])}
    assert set(world.where(*pods)) == places, "each place has a pod"
    assert other.queue.pending_counts() == world.queue.pending_counts()
    assert (other.queue.attempts, other.queue.is_in_flight("uid-flying")) == (3, True)
    if heeds_groups:
        assert groups_of(other).check() == []
        assert [each.key for each in groups_of(other).incomplete] == ["default/lost"]
        other.cluster.put(a_group("nowhere"))
        groups_of(other).group_added(GroupName("default/nowhere"))
        assert other.where(pods[-1]) == ["active"]
    taken = []
    while (entry := other.queue.pop()) is not None:
        taken.append([each.pod.name for each in entry.entries])
    assert taken[:2] == [["first"], ["second"]]
    assert ["m1", "m2"] in taken or not heeds_groups
    world.queue.wake(NODE_ADD)
    other.queue.wake(NODE_ADD)
    assert other.where(pods[0]) == world.where(pods[0]) != ["unschedulable"]


def test_members_come_to_a_group_that_was_taken_over() -> None:
    world = Queue(A, B)
    world.end(world.pop(), "rejected", "a", "b")
    other = Queue()
    other.queue.take_over(world.queue.entities_by_place(), world.queue.attempts)
    other.queue.add(C)
    other.check()
    assert other.where(A, B, C) == ["backoff"] * 3
    other.queue.delete(A)
    assert other.where(A, B, C) == [None, "backoff", "backoff"]
    other.check()
