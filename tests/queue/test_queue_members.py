"""Pod groups in the queue (v1.37, 5.3 and 5.4): members wait, back off and are taken as one."""

import pytest
from member_rig import GATED, A, B, C, Queue

from gangs import a_group, a_member
from mooring.cluster.pods.pod_groups import GroupName, name_of
from mooring.kit.clock import NS_PER_S
from mooring.model.pod import Pod
from mooring.model.workloads import PodGroup
from mooring.queue.backoff import BackoffRule
from mooring.queue.entry import QueuedPod, group_entry, new_entry
from mooring.queue.queue import AlreadyQueued


def test_members_join_the_group_wherever_it_waits() -> None:
    world = Queue(A, B)
    assert world.where(A, B) == ["active", "active"]
    assert world.queue.pending_counts()["active"] == 2
    assert world.end(world.pop(), "rejected", "a", "b") == "backoff"
    world.queue.add(C)
    world.check()
    assert world.where(A, B, C) == ["backoff"] * 3
    assert world.queue.pending_counts()["backoff"] == 3


def test_all_members_are_taken_at_once_and_count_as_one_cycle() -> None:
    world = Queue(A, B)
    group = world.pop()
    assert [entry.key for entry in group.entries] == [A.key, B.key]
    assert repr(group) == "QueuedGroup(podgroup/default/gang, attempts=1, members=2)"
    assert (world.queue.attempts, group.attempts, [e.attempts for e in group.entries]) == (1, 1, [1, 1])
    assert world.queue.is_in_flight(A.id) and world.queue.is_in_flight(B.id)
    assert world.where(A, B) == [None, None] and world.queue.pop() is None


def test_members_are_tried_by_priority_then_attempts_then_time_then_name() -> None:
    named = {"new": (0, 0, 5), "old": (0, 0, 4), "tried": (0, 2, 9), "high": (1, 0, 9), "also": (0, 0, 5)}
    entries = {}
    for name, (priority, attempts, time_ns) in named.items():
        entries[name] = new_entry(a_member(name, priority=priority), time_ns)
        entries[name].attempts = attempts
    first, *others = entries.values()
    group = group_entry(GroupName("default/gang"), first)
    for entry in others:
        group.add(entry)
    assert [entry.pod.name for entry in group.entries] == ["high", "tried", "old", "also", "new"]


def test_pods_without_their_group_are_incomplete_until_it_comes() -> None:
    world = Queue(A, groups=())
    assert world.where(A) == ["incomplete"]
    assert world.queue.pending_counts()["incomplete"] == 1
    changed = a_member("a", labels={"x": "y"})
    world.queue.update(A, changed)
    assert world.queue.get(A.key) is not None and world.queue.where(A.key) == "incomplete"
    world.cluster.put(a_group())
    assert world.queue.groups is not None
    world.queue.groups.group_added(GroupName("default/gang"))
    world.check()
    assert world.where(A) == ["active"]
    assert world.pop().entries[0].pod is changed


def test_a_member_that_comes_is_told_where_it_waits() -> None:
    world = Queue(groups=())
    assert world.queue.add(A) == "incomplete"
    assert world.stories == ["waits for its pod group to be complete: a group object is missing"]
    world = Queue(A)
    group, before = world.pop(), len(world.stories)
    assert world.queue.add(B) == "pending"
    assert world.stories[before:] == ["waits for the end of the attempt of its pod group"]
    assert world.end(group, "success") == "active"
    assert (world.queue.add(C), world.where(B, C)) == ("active", ["active", "active"])


def test_all_places_of_a_member_are_told() -> None:
    world = Queue(A, a_member("lost", "nowhere"))
    assert world.queue.all_with("default/lost") == ["incomplete"]
    assert world.queue.all_with(A.key) == ["active"]
    world.pop()
    world.queue.add(B)
    assert (world.queue.all_with(A.key), world.queue.all_with(B.key)) == ([], ["pending"])


def test_a_member_that_changes_before_it_came_is_added() -> None:
    world = Queue(A)
    assert world.queue.update(None, B) == "active"
    world.check()
    assert [entry.key for entry in world.pop().entries] == [A.key, B.key]


@pytest.mark.parametrize(
    "new",
    [
        pytest.param(a_member("a", metadata={"uid": "uid-other"}), id="another pod of its name"),
        pytest.param(a_member("a", "other"), id="the pod in another group"),
    ],
)
def test_a_member_that_is_another_one_now_begins_anew(new: Pod) -> None:
    world = Queue(A, B, groups=(a_group(), a_group("other")))
    assert world.end(world.pop(), "rejected", "a", "b") == "backoff"
    world.clock.advance_ns(NS_PER_S)
    world.queue.update(A, new)
    world.check()
    entry = world.queue.get(A.key)
    assert entry is not None
    assert (entry.pod, entry.attempts) == (new, 0)
    assert world.queue.groups is not None
    entity = world.queue.groups.entity_of(new)
    assert entity is not None and [each.pod for each in entity.entries if each.key == A.key] == [new]


def test_a_group_that_is_deleted_leaves_its_pods_incomplete() -> None:
    world = Queue(A, B)
    assert world.queue.groups is not None
    world.cluster.remove(PodGroup, "default/gang")
    world.queue.groups.group_removed(name_of(a_group()), name_of(a_group()), ["default/gang"])
    world.check()
    assert world.where(A, B) == ["incomplete", "incomplete"]
    world.queue.delete(A)
    assert world.where(A, B) == [None, "incomplete"]


def test_a_group_that_is_deleted_in_its_cycle_leaves_its_pending_pods_incomplete() -> None:
    world = Queue(A)
    group = world.pop()
    world.queue.add(B)
    assert world.where(B) == ["pending"]
    world.cluster.remove(PodGroup, "default/gang")
    assert world.queue.groups is not None
    world.queue.groups.group_removed(name_of(a_group()), name_of(a_group()), ["default/gang"])
    assert world.where(B) == ["incomplete"]
    assert world.end(group, "success") is None


def test_members_that_come_in_the_cycle_wait_for_its_end() -> None:
    world = Queue(A)
    group = world.pop()
    world.queue.add(B)
    assert world.where(B) == ["pending"] and world.queue.pending_counts()["pending"] == 1
    changed = a_member("b", labels={"x": "y"})
    assert world.queue.update(B, changed) == "pending"
    world.clock.advance_ns(5)
    assert world.end(group, "success") == "active"
    again = world.pop()
    assert ([entry.pod for entry in again.entries], again.timestamp_ns) == ([changed], world.clock.now_ns())


def test_after_a_success_members_that_are_left_over_are_next() -> None:
    world = Queue(A, B)
    group = world.pop()
    began_ns = group.timestamp_ns
    group.unschedulable_count = 4
    world.clock.advance_ns(NS_PER_S)
    assert world.end(group, "success", "b") == "active"
    again = world.pop()
    assert (again.timestamp_ns, again.unschedulable_count, again.attempts) == (began_ns, 0, 2)


@pytest.mark.parametrize(("outcome", "counts"), [("rejected", (1, 0)), ("error", (0, 1))])
def test_a_group_that_failed_backs_off_whatever_happens_meanwhile(outcome: str, counts: tuple[int, int]) -> None:
    world = Queue(A, B)
    group = world.pop()
    world.queue.activate([A])  # events during the attempt play no part
    assert world.end(group, outcome, "a", "b") == "backoff"
    assert (group.unschedulable_count, group.consecutive_errors) == counts
    assert not world.queue.has_next(), "an idle scheduler does not take it early"
    world.clock.advance_ns(2 * NS_PER_S)
    world.queue.flush_backoff()
    assert world.where(A, B) == ["active", "active"]


def test_a_group_without_members_that_are_left_is_gone() -> None:
    world = Queue(A)
    assert world.end(world.pop(), "success") is None
    assert world.queue.entries() == []


def test_one_gated_member_gates_the_group() -> None:
    world = Queue(A, GATED)
    assert world.where(A, GATED) == ["gated", "gated"]
    entry = world.queue.get(A.key)
    assert entry is not None and world.queue.gate_of(entry) == "waiting for scheduling gates: [wait]"
    world.queue.update(GATED, a_member("g"))
    world.check()
    assert world.where(A, GATED) == ["active", "active"]


def test_a_gated_member_that_is_deleted_leaves_the_group_where_it_is() -> None:
    """Parity: the gates are not asked again. An event or the flush has to move the group."""
    world = Queue(A, GATED)
    world.queue.delete(GATED)
    world.check()
    assert world.where(A) == ["gated"]
    world.queue.activate([A])
    assert world.where(A) == ["active"]


def test_the_entity_goes_with_its_last_member() -> None:
    world = Queue(A, B)
    world.queue.delete(A)
    world.queue.delete(B)
    world.check()
    assert world.queue.pop() is None


def test_activation_of_one_member_activates_the_group() -> None:
    world = Queue(A, B)
    assert world.end(world.pop(), "rejected", "a", "b") == "backoff"
    world.queue.activate([B])
    world.check()
    assert world.where(A, B) == ["active", "active"]


def test_the_nomination_of_a_member_follows_its_status() -> None:
    world = Queue(A, B)
    nominated = a_member("b", status={"nominatedNodeName": "n1"})
    for old, new, nominations in ((B, nominated, {"uid-b": "n1"}), (nominated, B, {})):
        assert world.queue.update(old, new) == "active"
        assert world.queue.nominations.promised() == nominations
        world.check()


def test_a_group_is_flushed_as_one() -> None:
    world = Queue(A, GATED)
    world.clock.advance_ns(301 * NS_PER_S)
    world.queue.flush_unschedulable()
    world.check()
    assert world.where(A, GATED) == ["gated", "gated"], "the gate still holds it back"
    entry = world.queue.get(A.key)
    assert entry is not None and not entry.was_flushed


def test_a_member_that_is_queued_twice_is_refused() -> None:
    world = Queue(A)
    entry = world.queue.get(A.key)
    assert entry is not None
    with pytest.raises(AlreadyQueued, match="Pod default/a is already present in the active queue"):
        world.queue.add_unschedulable(entry)


def test_groups_are_ordered_by_the_priority_of_the_root() -> None:
    groups = (a_group("low", priority=1), a_group("high", priority=9))
    world = Queue(groups=groups)
    world.queue.add(a_member("a", "low", priority=100))
    world.queue.add(a_member("b", "high", priority=0))
    assert [world.pop().root.name for _ in range(2)] == ["high", "low"]


@pytest.mark.parametrize(("size", "seconds"), [(1, 10), (2, 14), (4, 20), (100, 100)])
def test_v137_5_3_the_longest_backoff_grows_with_the_root_of_the_size(size: int, seconds: int) -> None:
    members = [new_entry(a_member(f"m{i}"), 0) for i in range(size)]
    group = group_entry(GroupName("default/gang"), members[0])
    for entry in members[1:]:
        group.add(entry)
    group.unschedulable_count = 20
    assert BackoffRule(NS_PER_S, 10 * NS_PER_S).until_ns(group) == seconds * NS_PER_S


def test_where_groups_are_not_heeded_a_member_is_a_pod() -> None:
    world = Queue(A, heeds_groups=False)
    entry = world.queue.pop()
    assert isinstance(entry, QueuedPod)
    entry.reject_by(["NodeResourcesFit"])
    assert world.queue.add_unschedulable(entry) == "unschedulable"
