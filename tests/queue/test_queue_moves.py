"""What moves pods: events, updates, deletions and activation."""

from typing import Any

import pytest
from queue_rig import (
    GATES_ELIMINATED,
    NODE_ADD,
    NODE_CONDITION,
    NODE_LABEL,
    NODE_TAINT,
    POD_DELETE,
    POD_LABEL,
    POD_TOLERATION,
    PROFILE,
    Rig,
    a_filter,
    a_gate,
    a_pending,
    a_profile,
)

from build import a_node
from mooring.framework.contract.events import (
    ASSIGNED_POD_DELETE,
    EVERYTHING,
    POD,
    TARGET_POD,
    UNSCHEDULABLE_TIMEOUT,
    Action,
    ClusterEvent,
)

GATED: dict[str, Any] = {"schedulingGates": [{"name": "a"}]}


# ---- Wake


@pytest.mark.parametrize(
    ("at_s", "place"), [(1.9, "backoff"), (2.0, "active")], ids=["still backing off", "backed off"]
)
def test_a_woken_pod_backs_off_or_becomes_active(at_s: float, place: str) -> None:
    rig = Rig()
    rig.unschedulable(a_pending())
    rig.at(at_s)
    rig.queue.wake(NODE_ADD)
    assert (rig.where(), rig.queue.counters.incoming[place, "NodeAdd"]) == (place, 1)
    rig.end()


def test_a_pod_whose_pending_plugin_is_served_becomes_active_though_it_should_back_off() -> None:
    rig = Rig(a_filter("Permit", NODE_LABEL))
    rig.unschedulable(a_pending(), pending=["Permit"])
    rig.queue.wake(NODE_LABEL)
    assert rig.where() == "active"
    rig.end()


def test_a_hint_that_says_no_leaves_the_pod() -> None:
    rig = Rig()
    rig.fit.answer = False
    rig.unschedulable(a_pending())
    rig.queue.wake(NODE_ADD)
    assert (rig.where(), rig.fit.asked) == ("unschedulable", ["pod"])


def test_only_pods_whose_rejectors_listen_are_looked_at() -> None:
    rig = Rig(other := a_filter("Other", NODE_LABEL))
    rig.unschedulable(a_pending("a"), "Fit")
    rig.unschedulable(a_pending("b"), "Other")
    rig.unschedulable(a_pending("c"), "Fit", "Other")
    rig.queue.wake(ASSIGNED_POD_DELETE)
    assert (rig.fit.asked, other.asked) == (["a", "c"], [])
    assert [rig.where(name) for name in "abc"] == ["backoff", "unschedulable", "backoff"]


def test_who_does_not_pass_the_check_of_the_waker_is_left() -> None:
    rig = Rig()
    rig.unschedulable(a_pending("low", 1))
    rig.unschedulable(a_pending("high", 10))
    rig.queue.wake(ASSIGNED_POD_DELETE, admits=lambda pod: pod.priority <= 5)
    assert (rig.where("low"), rig.where("high")) == ("backoff", "unschedulable")
    assert rig.fit.asked == ["low"]


def test_events_do_not_touch_active_and_backing_off_pods() -> None:
    rig = Rig()
    rig.add(a_pending("error"))
    rig.fail(rig.pop())
    rig.add(a_pending("active"))
    rig.queue.wake(NODE_ADD)
    rig.queue.wake(UNSCHEDULABLE_TIMEOUT)
    assert (rig.where("error"), rig.where("active")) == ("backoff", "active")
    assert rig.fit.asked == []


def test_a_wildcard_wakes_everyone() -> None:
    rig = Rig()
    rig.unschedulable(a_pending("rejected"))
    rig.add(a_pending("gated", **GATED))
    rig.gate.objects_to = lambda pod: False
    rig.queue.wake(UNSCHEDULABLE_TIMEOUT)
    assert (rig.where("rejected"), rig.where("gated")) == ("backoff", "active")
    rig.end()


def test_a_gated_pod_is_looked_at_only_for_events_of_its_gate() -> None:
    rig = Rig()
    rig.add(a_pending())
    entry = rig.pop()
    rig.queue.wake(NODE_ADD)
    rig.gate.objects_to = lambda pod: True
    rig.reject(entry, "Fit")
    asked = list(rig.fit.asked)
    rig.gate.objects_to = lambda pod: False
    rig.queue.wake(NODE_ADD)
    assert (rig.where(), rig.fit.asked) == ("gated", asked)
    rig.queue.wake(GATES_ELIMINATED)
    assert (rig.where(), rig.gate.asked) == ("backoff", ["pod"])
    rig.end()


def test_a_gated_pod_that_its_gate_still_holds_back_stays_and_comes_in_anew() -> None:
    rig = Rig()
    rig.add(a_pending(**GATED))
    rig.queue.wake(GATES_ELIMINATED)
    assert rig.where() == "gated"
    label = GATES_ELIMINATED.label
    assert rig.queue.counters.incoming == {
        ("unschedulable", "UnscheduledPodAdd"): 1,
        ("unschedulable", label): 1,
    }
    rig.end()


def test_a_rejector_that_is_no_plugin_can_be_served() -> None:
    rig = Rig(other_rejectors={"Extender": EVERYTHING})
    rig.unschedulable(a_pending(), "Extender")
    rig.queue.wake(NODE_CONDITION)
    assert rig.where() == "backoff"


def test_a_hint_that_fails_wakes_the_pod() -> None:
    rig = Rig()
    rig.fit.answer = ValueError("broken")
    rig.unschedulable(a_pending())
    rig.queue.wake(NODE_ADD)
    assert (rig.where(), len(rig.reports)) == ("backoff", 1)


def test_hints_see_the_change() -> None:
    rig = Rig()
    rig.unschedulable(a_pending())
    rig.queue.wake(NODE_ADD, None, node := a_node("n1"))
    change = rig.fit.changes[-1]
    assert (change.old, change.new) == (None, node)


def test_v137_4_5_taints_do_not_wake_pods_whose_plugin_waits_for_new_nodes() -> None:
    rig = Rig()
    rig.unschedulable(a_pending())
    rig.queue.wake(NODE_TAINT)
    assert (rig.where(), rig.fit.asked) == ("unschedulable", [])


def test_each_profile_has_its_own_listeners() -> None:
    one, two = a_filter("Fit", NODE_ADD), a_filter("Fit", NODE_LABEL)
    rig = Rig(profiles={PROFILE: a_profile(one), "second": a_profile(two, name="second")})
    rig.unschedulable(a_pending("a"))
    rig.unschedulable(a_pending("b", schedulerName="second"))
    rig.queue.wake(NODE_LABEL)
    assert (rig.where("a"), rig.where("b"), one.asked) == ("unschedulable", "backoff", [])
    assert rig.queue.counters.unschedulable == {("Fit", PROFILE): 1, ("Fit", "second"): 1}


# ---- Update


def test_an_active_pod_is_replaced_and_moves_to_its_new_turn() -> None:
    rig = Rig()
    rig.add(old := a_pending("a"), a_pending("b", 1))
    assert rig.queue.update(old, new := a_pending("a", 2)) == "active"
    assert rig.pop().pod is new
    rig.end()


def test_a_pod_in_backoff_is_replaced_and_stays() -> None:
    rig = Rig()
    entry = rig.unschedulable(old := a_pending())
    rig.queue.wake(NODE_ADD)
    until_ns = entry.backoff_until_ns
    assert rig.queue.update(old, new := a_pending(labels={"a": "1"})) == "backoff"
    assert (entry.pod, entry.backoff_until_ns) == (new, until_ns)
    rig.end()


@pytest.mark.parametrize(
    ("at_s", "answer", "place"), [(0, True, "backoff"), (5, True, "active"), (5, False, "unschedulable")]
)
def test_an_update_wakes_a_parked_pod_if_a_rejector_says_so(at_s: float, answer: bool, place: str) -> None:
    rig = Rig()
    rig.gate.answer = answer
    rig.gate.objects_to = lambda pod: False
    entry = rig.unschedulable(old := a_pending(**GATED), "Gate")
    rig.at(at_s)
    assert rig.queue.update(old, new := a_pending()) == place
    assert (entry.pod, rig.gate.asked) == (new, ["pod"])
    rig.end()


def test_an_update_that_helps_is_of_no_use_while_a_gate_holds_the_pod_back() -> None:
    rig = Rig(second := a_gate("Second", POD_DELETE))
    second.objects_to = lambda pod: True
    rig.add(old := a_pending(**GATED))
    assert rig.queue.update(old, a_pending()) == "gated"
    assert rig.queue.entries()[0].gating_plugin == "Second"
    assert rig.queue.counters.incoming == {("unschedulable", "UnscheduledPodAdd"): 1}
    rig.end()


def test_an_update_reaches_a_gated_pod_though_its_gate_did_not_register_it() -> None:
    rig = Rig(labels := a_filter("Labels", POD_LABEL))
    rig.add(old := a_pending())
    entry = rig.pop()
    rig.queue.update(old, new := a_pending(labels={"a": "1"}))
    rig.gate.objects_to = lambda pod: True
    entry.pod = new
    assert rig.reject(entry, "Labels") == "gated"
    rig.gate.objects_to = lambda pod: False
    assert rig.queue.update(new, a_pending()) == "backoff"
    assert labels.asked == ["pod", "pod"]
    rig.end()


def test_the_first_event_of_an_update_that_helps_is_enough() -> None:
    rig = Rig(labels := a_filter("Labels", POD_LABEL, POD_TOLERATION))
    rig.unschedulable(old := a_pending(), "Labels")
    rig.queue.update(old, a_pending(labels={"a": "1"}, tolerations=[{"key": "a"}]))
    assert (rig.where(), labels.asked) == ("backoff", ["pod"])
    assert rig.queue.counters.incoming["backoff", "TargetPodUpdatePodLabel"] == 1


def test_each_event_of_an_update_is_tried_until_one_helps() -> None:
    rig = Rig(tolerations := a_filter("Tolerations", POD_TOLERATION))
    rig.unschedulable(old := a_pending(), "Tolerations")
    rig.queue.update(old, a_pending(labels={"a": "1"}, tolerations=[{"key": "a"}]))
    assert (rig.where(), tolerations.asked) == ("backoff", ["pod"])


def test_without_the_old_pod_the_queued_one_serves() -> None:
    rig = Rig(a_filter("Labels", POD_LABEL))
    entry = rig.unschedulable(a_pending(), "Labels")
    assert rig.queue.update(None, new := a_pending(labels={"a": "1"})) == "backoff"
    assert entry.pod is new


def test_v137_4_1_an_update_in_flight_counts_for_all_pods_in_flight() -> None:
    """Parity: events are kept in one list for all pods in flight, and hints for the pod itself do not ask whose it is."""
    rig = Rig(own := a_filter("Own", ClusterEvent(TARGET_POD, Action.UPDATE_POD_LABEL)))
    rig.add(updated := a_pending("updated"), a_pending("other"))
    entries = [rig.pop(), rig.pop()]
    rig.queue.update(updated, a_pending("updated", labels={"a": "b"}))
    assert [rig.reject(entry, "Own") for entry in entries] == ["backoff", "backoff"]
    assert own.asked == ["updated", "other"]


def test_v137_4_1_an_update_of_a_waiting_pod_is_not_announced_to_others() -> None:
    rig = Rig(own := a_filter("Own", ClusterEvent(POD, Action.UPDATE)))
    rig.unschedulable(updated := a_pending("updated"), "Own")
    rig.unschedulable(a_pending("other"), "Own")
    rig.queue.update(updated, a_pending("updated", labels={"a": "b"}))
    assert (own.asked, rig.where("updated"), rig.where("other")) == (["updated"], "backoff", "unschedulable")
    rig.end()


def test_without_the_old_pod_an_update_in_flight_is_unspecific() -> None:
    rig = Rig()
    rig.add(a_pending())
    rig.pop()
    rig.queue.update(None, a_pending())
    assert +rig.queue.counters.in_flight_events == {"PodPopped": 1, "TargetPodUpdate": 1}


def test_an_update_that_concerns_no_rejector_leaves_a_parked_pod_but_replaces_it() -> None:
    rig = Rig()
    entry = rig.unschedulable(old := a_pending())
    assert rig.queue.update(old, new := a_pending(labels={"a": "1"})) == "unschedulable"
    assert entry.pod is new
    assert rig.queue.counters.incoming["unschedulable", "TargetPodUpdatePodLabel"] == 0
    rig.end()


def test_an_update_of_a_pod_in_flight_is_kept_for_its_return() -> None:
    rig = Rig()
    rig.add(old := a_pending())
    entry = rig.pop()
    gated = a_pending(**GATED)
    assert rig.queue.update(gated, old) is None
    assert rig.reject(entry, "Gate") == "backoff"
    rig.end()


def test_v137_5_2_3_an_update_of_an_unknown_pod_adds_it() -> None:
    rig = Rig()
    assert rig.queue.update(a_pending(), a_pending()) == "active"
    assert rig.queue.counters.incoming == {("active", "UnscheduledPodAdd"): 1}
    assert rig.queue.update(a_pending("b", **GATED), a_pending("b", **GATED)) == "gated"
    rig.end()


def test_a_pod_replaced_by_another_of_its_name_is_known_by_its_new_uid() -> None:
    rig = Rig()
    rig.add(old := a_pending(uid="old"))
    rig.queue.update(old, a_pending(uid="new"))
    rig.pop()
    assert (rig.queue.is_in_flight("new"), rig.queue.is_in_flight("old")) == (True, False)


# ---- Delete


def test_a_deleted_pod_is_gone_from_wherever_it_was() -> None:
    rig = Rig()
    rig.unschedulable(unschedulable := a_pending("parked"))
    rig.unschedulable(backoff := a_pending("backoff"))
    rig.queue.wake(NODE_ADD, admits=lambda pod: pod.name == "backoff")
    rig.add(active := a_pending("active"), gated := a_pending("gated", **GATED), error := a_pending("error", -1))
    in_flight = rig.pop()
    assert in_flight.pod is active
    rig.fail(rig.pop())
    rig.add(active)
    for pod in (unschedulable, backoff, active, gated, error):
        rig.queue.delete(pod)
        assert rig.where(pod.name) is None
    assert rig.queue.entries() == []
    rig.queue.delete(a_pending("unknown"))
    rig.end()


@pytest.mark.parametrize("place", ["unschedulable", "backoff", "active"])
def test_v137_5_2_5_deleted_pods_are_taken_off_the_gauge_wherever_they_are(place: str) -> None:
    rig = Rig()
    rig.unschedulable(pod := a_pending())
    if place != "unschedulable":
        rig.queue.wake(NODE_ADD)
    if place == "active":
        rig.queue.activate([pod])
    assert (rig.where(), rig.queue.counters.unschedulable) == (place, {("Fit", PROFILE): 1})
    rig.queue.delete(pod)
    assert +rig.queue.counters.unschedulable == {}
    rig.end()


@pytest.mark.parametrize("place", ["unschedulable", "backoff", "active"])
def test_v137_5_2_6_another_pod_of_the_same_name_is_added_afresh(place: str) -> None:
    rig = Rig()
    rig.unschedulable(old := a_pending())
    if place != "unschedulable":
        rig.queue.wake(NODE_ADD)
    if place == "active":
        rig.queue.activate([old])
    rig.queue.update(old, new := a_pending(metadata={"uid": "another"}, cpu="3"))
    assert rig.where() == "active"
    entry = rig.queue.entries()[0]
    assert (entry.pod, entry.uid, entry.attempts, entry.rejectors) == (new, "another", 0, ())
    assert +rig.queue.counters.unschedulable == {}
    rig.end()


def test_v137_20_1_entities_count_where_their_strategy_did_not_send_them() -> None:
    """A rejected pod, and one that is woken into backoff, are where their strategy sends them."""
    rig = Rig()
    rig.unschedulable(pod := a_pending())
    rig.queue.wake(NODE_ADD)
    rig.at(2)
    rig.reject(rig.pop(), "Fit")
    rig.at(60)
    rig.queue.wake(NODE_ADD)
    rig.queue.activate([pod])
    rig.reject(rig.pop(), "Fit")
    rig.queue.activate([pod])
    counters = rig.queue.counters
    assert counters.incoming_entities == {
        ("active", "UnscheduledPodAdd", "pod"): 1,
        ("active", "BackoffComplete", "pod"): 1,
        ("active", "NodeAdd", "pod"): 1,
        ("active", "ForceActivate", "pod"): 1,
    }
    assert counters.incoming["unschedulable", "ScheduleAttemptFailure"] == 3
    assert counters.incoming["backoff", "NodeAdd"] == 1


# ---- Activate


def test_activating_takes_pods_out_of_backoff_and_parking() -> None:
    rig = Rig()
    rig.unschedulable(unschedulable := a_pending("parked"))
    rig.add(error := a_pending("error"))
    rig.fail(rig.pop())
    rig.queue.activate([unschedulable, error, a_pending("unknown")])
    assert (rig.where("parked"), rig.where("error")) == ("active", "active")
    assert rig.queue.counters.incoming["active", "ForceActivate"] == 2
    rig.queue.activate([unschedulable])
    assert rig.queue.counters.incoming["active", "ForceActivate"] == 2
    rig.end()


def test_a_gate_can_hold_back_an_activated_pod_if_it_was_parked() -> None:
    rig = Rig()
    rig.unschedulable(unschedulable := a_pending("parked"))
    rig.add(error := a_pending("error"))
    rig.fail(rig.pop())
    rig.gate.objects_to = lambda pod: True
    rig.queue.activate([unschedulable, error])
    assert (rig.where("parked"), rig.where("error")) == ("gated", "active")
    rig.end()


def test_activating_a_pod_in_flight_concerns_that_pod_alone() -> None:
    rig = Rig()
    rig.add(a_pending("meant"), a_pending("other"))
    meant, other = rig.pop(), rig.pop()
    rig.queue.activate([meant.pod])
    assert +rig.queue.counters.in_flight_events == {"PodPopped": 2, "ForceActivate": 1}
    assert (rig.reject(meant, "Fit"), rig.reject(other, "Fit")) == ("backoff", "unschedulable")
    rig.end()
