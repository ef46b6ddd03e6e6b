"""Timelines: pods through the seconds, with the clock's ticks flushing the queue as in service.

Unless a test pops, the scheduler is busy with other pods all the time.
"""

import pytest
from queue_rig import GATES_ELIMINATED, NODE_ADD, POD_DELETE, Rig, a_filter, a_gate, a_pending

from mooring.framework.contract.events import ASSIGNED_POD_DELETE
from mooring.kit.clock import NS_PER_S


def test_a_pod_that_fits_leaves_nothing_behind() -> None:
    rig = Rig()
    rig.add(a_pending())
    assert rig.where() == "active"
    entry = rig.pop()
    rig.at(0.1)
    rig.queue.done(entry.uid)
    assert (rig.queue.entries(), set(rig.queue.pending_counts().values())) == ([], {0})
    assert +rig.queue.counters.in_flight_events == {}
    rig.end()


def test_a_pod_woken_within_its_backoff_is_popped_at_once_if_nothing_else_waits() -> None:
    rig = Rig()
    rig.add(a_pending())
    entry = rig.pop()
    rig.at(0.2)
    assert rig.reject(entry, "Fit") == "unschedulable"
    rig.at(0.9)
    rig.queue.wake(NODE_ADD)
    assert (rig.where(), entry.backoff_until_ns) == ("backoff", 1 * NS_PER_S)
    assert rig.pop() is entry
    rig.end()


def test_a_pod_woken_within_its_backoff_waits_for_the_tick_after_its_end_if_the_scheduler_is_busy() -> None:
    rig = Rig()
    rig.add(a_pending())
    rig.at(0.2)
    rig.reject(rig.pop(), "Fit")
    rig.at(0.9)
    rig.queue.wake(NODE_ADD)
    rig.at(1.999)
    assert rig.where() == "backoff"
    rig.at(2.0)
    assert rig.where() == "active"
    rig.end()


@pytest.mark.parametrize(("at_s", "place"), [(1.5, "backoff"), (2.0, "active")])
def test_a_pod_backs_off_through_the_second_in_which_its_backoff_ends(at_s: float, place: str) -> None:
    rig = Rig()
    rig.add(a_pending())
    rig.at(0.2)
    rig.reject(rig.pop(), "Fit")
    rig.at(at_s)
    rig.queue.wake(NODE_ADD)
    assert rig.where() == place
    rig.at(2.0)
    assert rig.where() == "active"
    rig.end()


def test_a_node_that_comes_during_an_attempt_is_not_missed() -> None:
    rig = Rig()
    rig.add(a_pending())
    rig.at(0.1)
    entry = rig.pop()
    rig.at(0.2)
    rig.queue.wake(NODE_ADD)
    rig.at(0.3)
    assert rig.reject(entry, "Fit") == "backoff"
    assert entry.backoff_until_ns == 1 * NS_PER_S
    assert rig.pop() is entry
    rig.end()


def test_a_pod_that_nothing_wakes_is_flushed_after_five_minutes() -> None:
    rig = Rig()
    rig.add(a_pending())
    entry = rig.pop()
    rig.at(10)
    rig.reject(entry, "Fit")
    rig.at(300)
    assert rig.where() == "unschedulable"
    rig.at(329.9)
    assert rig.where() == "unschedulable"
    rig.at(330)
    assert (rig.where(), rig.queue.counters.flushed) == ("active", 1)
    rig.end()


def test_a_pod_that_fails_again_and_again_waits_longer_and_longer() -> None:
    rig = Rig()
    rig.add(a_pending())
    for fails_s, end_s, out_s in [(0, 1, 2), (2, 4, 5), (5, 9, 10), (10, 18, 19), (19, 29, 30), (30, 40, 41)]:
        rig.at(fails_s)
        entry = rig.pop()
        rig.queue.wake(NODE_ADD)
        assert rig.reject(entry, "Fit") == "backoff"
        assert entry.backoff_until_ns == end_s * NS_PER_S
        rig.at(out_s - 0.001)
        assert rig.where() == "backoff"
        rig.at(out_s)
        assert rig.where() == "active"
    rig.end()


def test_errors_wait_even_if_nothing_else_does_and_count_apart_from_rejections() -> None:
    rig = Rig()
    rig.add(a_pending())
    entry = rig.pop()
    rig.at(0.4)
    assert rig.fail(entry) == "backoff"
    assert (entry.consecutive_errors, entry.backoff_until_ns, rig.queue.pop()) == (1, 1 * NS_PER_S, None)
    rig.at(2.0)
    assert rig.pop() is entry
    rig.at(2.1)
    rig.fail(entry)
    assert entry.backoff_until_ns == 4 * NS_PER_S
    rig.at(4.9)
    assert rig.where() == "backoff"
    rig.at(5.0)
    assert rig.pop() is entry
    rig.at(5.1)
    assert rig.reject(entry, "Fit") == "unschedulable"
    assert (entry.unschedulable_count, entry.consecutive_errors) == (1, 0)
    rig.at(6.0)
    rig.queue.wake(NODE_ADD)
    assert (rig.where(), entry.backoff_until_ns) == ("backoff", 6 * NS_PER_S)
    rig.end()


def test_a_pod_with_two_gates_becomes_active_when_the_second_goes() -> None:
    rig = Rig()
    both = a_pending(schedulingGates=[{"name": "a"}, {"name": "b"}])
    one, none = a_pending(schedulingGates=[{"name": "b"}]), a_pending()
    rig.add(both)
    rig.at(5)
    assert rig.queue.update(both, one) == "gated"
    assert rig.gate.asked == []
    rig.at(9)
    assert rig.queue.update(one, none) == "active"
    (entry,) = rig.queue.entries()
    assert (entry.initial_attempt_ns, entry.timestamp_ns) == (9 * NS_PER_S, 0)
    rig.end()


def test_a_preemptor_whose_victims_are_still_going_is_gated_and_looked_at_again() -> None:
    preemption = a_gate("Preemption", POD_DELETE)
    preemption.answer = False
    rig = Rig(preemption)
    rig.add(a_pending())
    rig.at(1.0)
    entry = rig.pop()
    preemption.objects_to = lambda pod: True
    rig.at(1.1)
    assert rig.reject(entry, "Fit") == "unschedulable"
    rig.at(1.3)
    rig.queue.wake(ASSIGNED_POD_DELETE)
    assert (rig.where(), entry.gating_plugin) == ("gated", "Preemption")
    preemption.objects_to = lambda pod: False
    rig.queue.wake(NODE_ADD)
    assert rig.where() == "gated"
    rig.at(31.1)
    rig.queue.wake(ASSIGNED_POD_DELETE)
    assert (rig.where(), entry.backoff_until_ns) == ("active", 2 * NS_PER_S)
    rig.end()


def test_a_preemption_that_failed_is_followed_by_an_activation() -> None:
    preemption = a_gate("Preemption", POD_DELETE)
    rig = Rig(preemption)
    entry = rig.unschedulable(a_pending())
    preemption.objects_to = lambda pod: True
    rig.queue.wake(ASSIGNED_POD_DELETE)
    assert rig.where() == "gated"
    preemption.objects_to = lambda pod: False
    rig.queue.activate([entry.pod])
    assert rig.where() == "active"
    rig.end()


def test_a_pod_in_backoff_that_is_updated_stays_there() -> None:
    rig = Rig()
    rig.add(old := a_pending())
    for fails_s in (0, 2, 5, 10):
        rig.at(fails_s)
        entry = rig.pop()
        rig.queue.wake(NODE_ADD)
        rig.reject(entry, "Fit")
    rig.at(12)
    assert rig.queue.update(old, new := a_pending(labels={"a": "1"})) == "backoff"
    assert (entry.pod, entry.backoff_until_ns) == (new, 18 * NS_PER_S)
    assert rig.pop() is entry
    rig.end()


def test_a_flush_counts_as_an_event_for_all_that_are_in_flight() -> None:
    rig = Rig()
    rig.unschedulable(a_pending("old"))
    rig.at(329.9)
    rig.add(a_pending("new"))
    entry = rig.pop()
    rig.at(330)
    assert rig.where("old") == "active"
    rig.at(330.1)
    assert rig.reject(entry, "Fit") == "backoff"
    rig.end()


def test_a_plugin_that_waits_for_an_event_gets_its_pod_back_at_once() -> None:
    rig = Rig(a_filter("Permit", GATES_ELIMINATED))
    rig.add(a_pending())
    rig.at(3.0)
    rig.reject(rig.pop(), pending=["Permit"])
    assert rig.where() == "unschedulable"
    rig.at(3.2)
    rig.queue.wake(GATES_ELIMINATED)
    assert rig.where() == "active"
    rig.end()


def test_without_nodes_pods_fail_with_an_error_that_a_new_node_does_not_cut_short() -> None:
    rig = Rig()
    rig.add(a_pending())
    rig.fail(rig.pop())
    rig.at(0.5)
    rig.queue.wake(NODE_ADD)
    assert (rig.where(), rig.queue.pop()) == ("backoff", None)
    rig.at(2.0)
    assert rig.where() == "active"
    rig.end()


def test_a_pod_deleted_during_its_attempt_does_not_come_back() -> None:
    rig = Rig()
    rig.add(pod := a_pending())
    entry = rig.pop()
    rig.at(0.1)
    rig.queue.delete(pod)
    assert rig.queue.is_in_flight(entry.uid)
    rig.at(0.2)
    rig.queue.done(entry.uid, placed=False)
    assert (rig.where(), rig.queue.is_in_flight(entry.uid)) == (None, False)
    rig.end()


def test_who_is_taken_out_of_backoff_early_goes_by_window_then_by_priority() -> None:
    rig = Rig()
    rig.at(3.1)
    rig.add(a_pending("low", 1))
    rig.reject(rig.pop(), "Fit")
    rig.at(3.5)
    rig.add(a_pending("middle", 50))
    rig.reject(rig.pop(), "Fit")
    rig.at(4.0)
    rig.add(a_pending("high", 100))
    rig.reject(rig.pop(), "Fit")
    rig.queue.wake(NODE_ADD)
    assert [entry.backoff_until_ns for entry in rig.queue.entries()] == [4 * NS_PER_S, 4 * NS_PER_S, 5 * NS_PER_S]
    assert [rig.pop().pod.name for _ in range(3)] == ["middle", "low", "high"]
    rig.end()
