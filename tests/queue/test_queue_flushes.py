"""The two flushes, closing, and a queue whose pods stay in backoff until it is over."""

from typing import Any

import pytest
from queue_rig import (
    NODE_ADD,
    Rig,
    a_pending,
)

GATED: dict[str, Any] = {"schedulingGates": [{"name": "a"}]}


def test_completed_backoffs_become_active_without_meeting_the_gates_again() -> None:
    rig = Rig()
    rig.unschedulable(a_pending("rejected"))
    rig.queue.wake(NODE_ADD)
    rig.add(a_pending("error"))
    rig.fail(rig.pop())
    rig.gate.objects_to = lambda pod: True
    rig.gate.seen.clear()
    assert rig.queue.next_release_ns() == 2 * 10**9
    rig.at(1.9)
    assert rig.queue.pending_counts()["backoff"] == 2
    rig.at(2)
    assert rig.queue.pending_counts()["active"] == 2
    assert (rig.gate.seen, rig.queue.next_release_ns()) == ([], None)
    assert rig.queue.counters.incoming["active", "BackoffComplete"] == 2
    rig.end()


@pytest.mark.parametrize(("waited_s", "is_flushed"), [(300, False), (300.000000001, True)])
def test_a_pod_is_flushed_when_it_waited_longer_than_five_minutes(waited_s: float, is_flushed: bool) -> None:
    rig = Rig()
    entry = rig.unschedulable(a_pending())
    rig.at(waited_s, ticks=False)
    rig.queue.flush_unschedulable()
    assert (rig.where(), entry.was_flushed) == ("active" if is_flushed else "unschedulable", is_flushed)
    assert rig.queue.counters.flushed == is_flushed
    rig.end()


def test_a_flushed_pod_still_backs_off() -> None:
    rig = Rig(max_unschedulable_s=0.5)
    rig.unschedulable(a_pending())
    rig.at(0.6)
    rig.queue.flush_unschedulable()
    assert (rig.where(), rig.queue.counters.incoming["backoff", "UnschedulableTimeout"]) == ("backoff", 1)


def test_a_gated_pod_is_looked_at_every_five_minutes_and_does_not_count_as_flushed() -> None:
    rig = Rig()
    rig.add(a_pending(**GATED))
    rig.gate.seen.clear()
    rig.at(1000)
    assert (rig.where(), len(rig.gate.seen), rig.queue.counters.flushed) == ("gated", 3, 0)
    (entry,) = rig.queue.entries()
    assert (entry.was_flushed, entry.flushed_ns) == (False, 990 * 10**9)
    rig.end()


def test_a_flush_is_an_event_for_pods_in_flight_only_if_it_flushed_something() -> None:
    rig = Rig()
    rig.add(a_pending())
    rig.pop()
    rig.at(60)
    assert +rig.queue.counters.in_flight_events == {"PodPopped": 1}


@pytest.mark.parametrize(("placed", "rescued"), [(True, 1), (False, 0)])
def test_a_pod_that_is_placed_after_a_flush_was_rescued(placed: bool, rescued: int) -> None:
    rig = Rig()
    rig.unschedulable(a_pending("waits"))
    rig.at(330)
    rig.queue.done(rig.pop().uid, placed=placed)
    assert (rig.queue.counters.flushed, rig.queue.counters.rescued) == (1, rescued)


def test_a_pod_that_is_rejected_again_after_a_flush_was_not_rescued() -> None:
    rig = Rig()
    entry = rig.unschedulable(a_pending())
    rig.at(330)
    rig.reject(rig.pop(), "Fit")
    assert (entry.was_flushed, rig.queue.counters.rescued) == (False, 0)
    rig.queue.wake(NODE_ADD)
    rig.queue.done(rig.pop().uid)
    assert (rig.queue.counters.flushed, rig.queue.counters.rescued) == (1, 0)


def test_nobody_leaves_backoff_early_when_that_is_turned_off() -> None:
    rig = Rig(pop_from_backoff=False)
    rig.at(0.2)
    rig.unschedulable(a_pending("low", 1))
    rig.queue.wake(NODE_ADD)
    assert (rig.queue.pop(), rig.queue.has_next(), rig.where("low")) == (None, False, "backoff")
    assert rig.queue.next_release_ns() == 1_200_000_001
    rig.at(2)
    assert rig.where("low") == "active"
    rig.end()


def test_gates_are_then_met_on_the_way_out_of_backoff() -> None:
    rig = Rig(pop_from_backoff=False)
    rig.unschedulable(a_pending())
    rig.gate.objects_to = lambda pod: True
    rig.queue.wake(NODE_ADD)
    assert rig.where() == "backoff"
    rig.at(2)
    assert rig.where() == "gated"
    rig.end()


def test_v137_5_2_4_a_pod_that_is_activated_in_backoff_meets_the_gates_too() -> None:
    rig = Rig(pop_from_backoff=False)
    rig.unschedulable(a_pending())
    rig.gate.objects_to = lambda pod: True
    rig.queue.wake(NODE_ADD)
    rig.queue.activate([a_pending()])
    assert rig.where() == "gated"
    rig.end()
