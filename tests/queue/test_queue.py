"""The operations of the queue: every row of the transition table, order, counters and what is said."""

from typing import Any

import pytest
from queue_rig import (
    NODE_ADD,
    NODE_CONDITION,
    NODE_LABEL,
    PROFILE,
    Rig,
    a_filter,
    a_pending,
)

from mooring.framework.contract.events import ASSIGNED_POD_DELETE
from mooring.kit.clock import NS_PER_S
from mooring.queue.queue import AlreadyQueued

GATED: dict[str, Any] = {"schedulingGates": [{"name": "a"}]}


# ---- Add


def test_a_new_pod_becomes_active() -> None:
    rig = Rig()
    rig.add(a_pending())
    assert (rig.where(), rig.queue.counters.incoming) == ("active", {("active", "UnscheduledPodAdd"): 1})
    rig.end()


def test_a_new_pod_that_a_gate_holds_back_is_parked() -> None:
    rig = Rig()
    rig.add(a_pending(**GATED))
    assert (rig.where(), rig.queue.pop()) == ("gated", None)
    assert rig.queue.counters.incoming == {("unschedulable", "UnscheduledPodAdd"): 1}
    assert rig.queue.counters.unschedulable == {("Gate", PROFILE): 1}
    assert rig.queue.pending_counts() == {"active": 0, "backoff": 0, "unschedulable": 0, "gated": 1}
    rig.end()


def test_adding_a_pod_again_takes_it_from_wherever_it_was() -> None:
    rig = Rig()
    rig.unschedulable(a_pending("parked"))
    rig.unschedulable(a_pending("backoff"))
    rig.queue.wake(NODE_ADD, admits=lambda pod: pod.name == "backoff")
    assert (rig.where("parked"), rig.where("backoff")) == ("unschedulable", "backoff")
    rig.add(a_pending("parked"), a_pending("backoff"))
    assert rig.queue.pending_counts() == {"active": 2, "backoff": 0, "unschedulable": 0, "gated": 0}
    rig.end()


def test_v137_5_2_4_a_gate_takes_an_active_pod_back() -> None:
    rig = Rig()
    rig.add(a_pending())
    assert rig.queue.add(a_pending(**GATED)) == "gated"
    assert rig.queue.pop() is None
    rig.end()


# ---- Pop and done


def test_pods_are_taken_by_priority_then_by_age_then_as_they_came() -> None:
    rig = Rig()
    rig.add(a_pending("z"), a_pending("a"), a_pending("important", 10))
    rig.clock.advance_ns(1)
    rig.add(a_pending("late"))
    assert [rig.pop().pod.name for _ in range(4)] == ["important", "z", "a", "late"]
    assert rig.queue.pop() is None
    assert rig.queue.attempts == 4


def test_a_nanosecond_of_age_counts_even_where_seconds_cannot_show_it() -> None:
    rig = Rig()
    rig.clock.advance_ns(1_770_000_000 * 10**9)
    rig.unschedulable(older := a_pending("older"))
    rig.clock.advance_ns(1)
    rig.unschedulable(newer := a_pending("newer"))
    rig.queue.activate([newer, older])
    assert [rig.pop().pod.name for _ in range(2)] == ["older", "newer"]


def test_a_popped_pod_is_in_flight_until_it_is_done() -> None:
    rig = Rig()
    rig.add(a_pending())
    entry = rig.pop()
    assert (rig.where(), rig.queue.is_in_flight(entry.uid), entry.attempts) == (None, True, 1)
    rig.queue.done(entry.uid)
    rig.queue.done(entry.uid)
    assert (rig.where(), rig.queue.is_in_flight(entry.uid), rig.queue.entries()) == (None, False, [])
    rig.end()


def test_an_idle_scheduler_takes_rejected_pods_out_of_backoff() -> None:
    rig = Rig()
    rig.unschedulable(a_pending())
    rig.queue.wake(NODE_ADD)
    assert (rig.where(), rig.queue.has_next()) == ("backoff", True)
    assert rig.pop().attempts == 2
    assert rig.queue.counters.incoming["active", "PopFromBackoffQ"] == 1
    rig.end()


def test_active_pods_come_before_those_in_backoff() -> None:
    rig = Rig()
    rig.unschedulable(a_pending("important", 10))
    rig.queue.wake(NODE_ADD)
    rig.add(a_pending("plain"))
    assert [rig.pop().pod.name for _ in range(2)] == ["plain", "important"]


def test_a_pod_with_an_error_is_not_taken_early() -> None:
    rig = Rig()
    rig.add(a_pending())
    assert rig.fail(rig.pop()) == "backoff"
    assert (rig.queue.has_next(), rig.queue.pop(), rig.where()) == (False, None, "backoff")
    rig.end()


def test_a_pod_that_waits_alone_says_when_its_own_backoff_ends() -> None:
    """One second from its failure, and to the end of the second in which that is: backoffs end in whole seconds."""
    rig = Rig()
    rig.add(a_pending())
    entry = rig.pop()
    rig.fail(entry)
    whole_s = rig.clock.now_ns() // NS_PER_S
    assert rig.queue.backoff_ends_ns(entry) == (whole_s + 2) * NS_PER_S
    rig.end()


def test_a_second_entry_of_a_pod_in_flight_is_dropped_and_reported() -> None:
    rig = Rig()
    rig.add(a_pending("twice"))
    rig.pop()
    rig.add(a_pending("twice"), a_pending("other"))
    assert rig.queue.check() == ["default/twice: queued, but in flight too"]
    assert rig.pop().pod.name == "other"
    assert rig.reports == [
        ("the same pod is tracked in multiple places in the scheduler: default/twice", None),
    ]
    assert rig.queue.check() == []


# ---- Park


def test_a_rejected_pod_waits_for_an_event() -> None:
    rig = Rig()
    entry = rig.unschedulable(a_pending())
    assert rig.where() == "unschedulable"
    assert (entry.unschedulable_count, entry.consecutive_errors) == (1, 0)
    assert rig.queue.counters.incoming["unschedulable", "ScheduleAttemptFailure"] == 1
    assert rig.queue.counters.unschedulable == {("Fit", PROFILE): 1}
    rig.end()


def test_a_pod_whose_cure_came_during_its_attempt_backs_off() -> None:
    rig = Rig()
    rig.add(a_pending())
    entry = rig.pop()
    rig.queue.wake(NODE_ADD)
    assert rig.reject(entry, "Fit") == "backoff"
    rig.end()


def test_events_before_the_attempt_and_events_of_no_use_do_not_count() -> None:
    rig = Rig(a_filter("Other", NODE_LABEL))
    rig.add(a_pending("first"), a_pending("second"))
    first = rig.pop()
    rig.queue.wake(NODE_ADD)
    second = rig.pop()
    rig.queue.wake(NODE_LABEL)
    assert (rig.reject(second, "Fit"), rig.reject(first, "Fit")) == ("unschedulable", "backoff")
    rig.end()


def test_an_event_that_interests_nobody_is_not_kept() -> None:
    rig = Rig()
    rig.add(a_pending())
    rig.pop()
    rig.queue.wake(NODE_CONDITION)
    assert +rig.queue.counters.in_flight_events == {"PodPopped": 1}
    rig.queue.wake(NODE_ADD, admits=lambda pod: False)
    assert +rig.queue.counters.in_flight_events == {"PodPopped": 1, "NodeAdd": 1}


def test_a_pod_whose_pending_plugin_got_its_event_becomes_active() -> None:
    rig = Rig(a_filter("Permit", NODE_LABEL))
    rig.add(a_pending())
    entry = rig.pop()
    rig.queue.wake(NODE_ADD)
    rig.queue.wake(NODE_LABEL)
    assert rig.reject(entry, "Fit", pending=["Permit"]) == "active"
    rig.end()


def test_a_pod_whose_pending_plugin_got_nothing_backs_off_for_the_other() -> None:
    rig = Rig(permit := a_filter("Permit", NODE_LABEL))
    permit.answer = False
    rig.add(a_pending())
    entry = rig.pop()
    rig.queue.wake(NODE_ADD)
    rig.queue.wake(NODE_LABEL)
    assert rig.reject(entry, "Fit", pending=["Permit"]) == "backoff"
    assert permit.asked == ["pod"]


@pytest.mark.parametrize("rejectors", [["Fit"], []], ids=["rejected", "error"])
def test_without_backoff_a_pod_becomes_active_at_once(rejectors: list[str]) -> None:
    rig = Rig(max_backoff_s=0)
    rig.add(a_pending())
    entry = rig.pop()
    rig.queue.wake(NODE_ADD)
    assert rig.reject(entry, *rejectors) == "active"
    rig.end()


def test_an_error_backs_off_apart_and_counts_apart() -> None:
    rig = Rig()
    rig.add(a_pending())
    entry = rig.pop()
    assert rig.fail(entry) == "backoff"
    assert (entry.consecutive_errors, entry.unschedulable_count) == (1, 0)
    assert rig.queue.counters.unschedulable == {}
    rig.at(2)
    assert rig.reject(rig.pop(), "Fit") == "unschedulable"
    assert (entry.consecutive_errors, entry.unschedulable_count) == (0, 1)
    rig.end()


@pytest.mark.parametrize("rejectors", [["Fit"], []], ids=["rejected", "error"])
def test_a_failed_pod_that_a_gate_now_holds_back_is_gated(rejectors: list[str]) -> None:
    rig = Rig()
    rig.add(a_pending())
    entry = rig.pop()
    rig.queue.wake(NODE_ADD)
    rig.gate.objects_to = lambda pod: True
    assert rig.reject(entry, *rejectors) == "gated"
    assert set(entry.rejectors) == {"Gate", *rejectors}
    rig.end()


def test_a_failed_pod_that_nothing_woke_is_not_put_before_the_gates() -> None:
    rig = Rig()
    rig.add(a_pending())
    entry = rig.pop()
    rig.gate.objects_to = lambda pod: True
    assert rig.reject(entry, "Fit") == "unschedulable"


@pytest.mark.parametrize(
    ("place", "text"),
    [
        ("active", "Pod default/pod is already present in the active queue"),
        ("backoff", "Pod default/pod is already present in the backoff queue"),
        ("unschedulable", "Pod default/pod is already present in unschedulable queue"),
        ("gated", "Pod default/pod is already present in unschedulable queue"),
    ],
)
def test_a_pod_that_is_queued_cannot_be_parked_but_its_attempt_is_over(place: str, text: str) -> None:
    rig = Rig()
    rig.add(a_pending(uid="old"))
    old = rig.pop()
    if place in ("active", "gated"):
        rig.add(a_pending(uid="new", **(GATED if place == "gated" else {})))
    else:
        rig.unschedulable(a_pending(uid="new"))
        if place == "backoff":
            rig.queue.wake(NODE_ADD)
    assert rig.where() == place
    old.reject_by(["Fit"])
    with pytest.raises(AlreadyQueued, match=f"^{text}$"):
        rig.queue.add_unschedulable(old)
    assert (old.unschedulable_count, rig.queue.is_in_flight("old"), rig.where()) == (0, False, place)
    assert rig.queue.check() == []


def test_a_rejected_pod_that_was_not_in_flight_backs_off_and_is_reported() -> None:
    rig = Rig()
    rig.add(a_pending())
    entry = rig.pop()
    rig.queue.done(entry.uid)
    assert rig.reject(entry, "Fit") == "backoff"
    assert [text for text, _ in rig.reports] == [
        "in flight entity isn't found in the scheduling queue. "
        "If you see this error log, it's likely a bug in the scheduler"
    ]


def test_a_failed_pod_starts_anew_in_age_backoff_and_flush() -> None:
    rig = Rig()
    rig.add(a_pending())
    rig.at(3)
    entry = rig.pop()
    entry.backoff_until_ns, entry.was_flushed, entry.flushed_ns = 1, True, 2
    rig.at(4)
    rig.reject(entry, "Fit")
    assert (entry.timestamp_ns, entry.was_flushed, entry.flushed_ns) == (4 * 10**9, False, 0)
    assert entry.initial_attempt_ns == 0
    rig.queue.wake(NODE_ADD)
    assert entry.backoff_until_ns == 5 * 10**9


def test_the_gauge_of_rejected_pods_goes_up_at_the_end_of_an_attempt_and_down_at_the_next() -> None:
    rig = Rig()
    rig.unschedulable(a_pending(), "Fit", "Other")
    gauge = rig.queue.counters.unschedulable
    assert gauge == {("Fit", PROFILE): 1, ("Other", PROFILE): 1}
    rig.queue.wake(NODE_ADD)
    assert +gauge == {("Fit", PROFILE): 1, ("Other", PROFILE): 1}
    entry = rig.pop()
    assert +gauge == {}
    rig.reject(entry, "Fit")
    assert +gauge == {("Fit", PROFILE): 1}
    rig.queue.delete(entry.pod)
    assert +gauge == {}


# ---- What can be seen


def test_entries_are_listed_in_the_order_in_which_they_will_leave() -> None:
    rig = Rig()
    rig.unschedulable(a_pending("parked"))
    rig.unschedulable(a_pending("backoff"))
    rig.queue.wake(NODE_ADD, admits=lambda pod: pod.name == "backoff")
    rig.add(a_pending("error", 9))
    rig.fail(rig.pop())
    rig.add(a_pending("low"), a_pending("high", 5), a_pending("gated", **GATED))
    names = [entry.pod.name for entry in rig.queue.entries()]
    assert names == ["high", "low", "backoff", "error", "parked", "gated"]
    assert rig.queue.pending_counts() == {"active": 2, "backoff": 2, "unschedulable": 1, "gated": 1}
    assert rig.queue.get("default/high") is rig.queue.entries()[0]
    assert rig.queue.pending_counts() == {"active": 2, "backoff": 2, "unschedulable": 1, "gated": 1}


def test_the_story_of_a_pod() -> None:
    rig = Rig()
    rig.at(12 * 3600, ticks=False)
    rig.add(pod := a_pending(**GATED))
    rig.queue.update(pod, pod := a_pending())
    entry = rig.pop()
    rig.reject(entry, "Fit", "Other")
    rig.at(12 * 3600 + 0.5)
    rig.queue.wake(ASSIGNED_POD_DELETE)
    rig.pop()
    rig.fail(entry)
    rig.at(12 * 3600 + 10)
    rig.pop()
    rig.reject(entry, "Fit")
    rig.at(12 * 3600 + 20)
    rig.queue.wake(NODE_ADD)
    rig.pop()
    rig.reject(entry, "Fit")
    rig.queue.activate([pod])
    rig.queue.delete(pod)
    assert rig.stories == [
        "pod: gated by Gate: Gate says no",
        "pod: moved by TargetPodUpdatePodSchedulingGatesEliminated to the active queue",
        "pod: taken for attempt 1",
        "pod: unschedulable, rejected by Fit, Other",
        "pod: moved by AssignedPodDelete to backoff until 12:00:02",
        "pod: taken for attempt 2 before its backoff was over, as nothing else waits",
        "pod: failed with an error, to backoff until 12:00:02",
        "pod: backoff over, to the active queue",
        "pod: taken for attempt 3",
        "pod: unschedulable, rejected by Fit",
        "pod: moved by NodeAdd to the active queue",
        "pod: taken for attempt 4",
        "pod: unschedulable, rejected by Fit",
        "pod: activated, to the active queue",
        "pod: deleted from the queue",
    ]


def test_a_queue_to_which_nobody_listens_works_the_same() -> None:
    rig = Rig(tells=False)
    entry = rig.unschedulable(a_pending())
    rig.queue.wake(NODE_ADD)
    assert rig.pop() is entry
    assert rig.stories == []
