"""What should not happen to a queue: it is found by its check, and no fault of a plugin loses a pod."""

from collections.abc import Callable
from typing import Any, NamedTuple
from unittest import mock

import pytest
from queue_rig import NODE_ADD, ByPriority, Rig, a_pending, lose

from mooring.kit.heap import KeyedHeap
from mooring.model.pod import Pod
from mooring.queue.nominations import Nominations


def places(rig: Rig) -> Any:
    return rig.queue.places


def a_full_rig() -> Rig:
    """One pod in each place; their names say where."""
    rig = Rig()
    rig.unschedulable(a_pending("parked"))
    rig.add(a_pending("gated", schedulingGates=[{"name": "wait"}]))
    rig.add(a_pending("backoff"))
    rig.fail(rig.pop())
    rig.add(a_pending("active"))
    assert [rig.where(name) for name in ("active", "backoff", "parked", "gated")] == [
        *("active", "backoff", "unschedulable", "gated")
    ]
    assert rig.queue.check() == []
    return rig


def entry(rig: Rig, name: str) -> Any:
    return rig.queue.get(f"default/{name}")


SPOILED: dict[str, tuple[Callable[[Rig], object], list[str]]] = {
    "gated and active": (
        lambda rig: setattr(entry(rig, "active"), "gating_plugin", "Gate"),
        ["default/active: active, but gated"],
    ),
    "active without a beginning": (
        lambda rig: setattr(entry(rig, "active"), "initial_attempt_ns", None),
        ["default/active: active, but it never became so"],
    ),
    "active and in backoff": (
        lambda rig: places(rig).active.push(entry(rig, "backoff")),
        ["default/backoff: active, and in another place too"],
    ),
    "active and parked": (
        lambda rig: places(rig).active.push(entry(rig, "parked")),
        ["default/parked: active, and in another place too"],
    ),
    "parked and in backoff": (
        lambda rig: places(rig).backoff.push(entry(rig, "parked")),
        ["default/parked: in backoff, and unschedulable too"],
    ),
    "a heap": (
        lambda rig: lose(places(rig).active, entry(rig, "active")),
        ["active heap: default/active is not in it"],
    ),
}


@pytest.mark.parametrize("case", SPOILED)
def test_the_check_finds_what_is_wrong(case: str) -> None:
    spoil, problems = SPOILED[case]
    rig = a_full_rig()
    spoil(rig)
    assert rig.queue.check() == problems


def test_the_check_looks_everywhere() -> None:
    rig = a_full_rig()
    entry(rig, "backoff").backoff_until_ns = None
    places(rig).unschedulable.gated += 1
    rig.queue.counters.kept_events["NodeAdd"] += 1
    rig.queue.nominations.check = lambda: ["nominations: a fault"]  # type: ignore[method-assign]
    assert rig.queue.check() == [
        "default/backoff: in backoff without an end",
        "unschedulable: 2 pods are counted as gated",
        "in flight: 1 events are counted, 0 are there",
        "nominations: a fault",
    ]


def test_a_pod_in_both_backoff_heaps_is_reported_and_put_right() -> None:
    rig = Rig()
    rig.add(a_pending())
    failed = rig.pop()
    rig.fail(failed)
    places(rig).backoff.errors.remove(failed.key)
    places(rig).backoff.rejected.push(failed)
    assert places(rig).to_backoff(failed, "Test") == "backoff"
    assert rig.reports == [("pod default/pod was in both backoff heaps", None)]
    assert rig.queue.check() == []


# ---- faults


class Fault(Exception):
    pass


def test_a_pod_that_cannot_be_sorted_comes_last_and_is_reported() -> None:
    fault = Fault("no idea")

    def sort_key(self: Any, pod: Pod, queued_at: float) -> Any:
        if pod.name.startswith("odd"):
            raise fault
        return -pod.priority, queued_at

    with mock.patch.object(ByPriority, "sort_key", sort_key):
        rig = Rig()
        rig.add(a_pending("odd1", priority=9), a_pending("low"), a_pending("high", priority=5))
        rig.at(1)
        rig.add(a_pending("odd2", priority=9))
        assert rig.reports == [
            (f"QueueSort of plugin ByPriority failed on pod default/{name}", fault) for name in ("odd1", "odd2")
        ]
        assert [rig.pop().pod.name for _ in range(4)] == ["high", "low", "odd1", "odd2"]
        assert rig.queue.check() == []


@pytest.mark.parametrize("name", ["backoff", "parked", "gated"])
def test_a_move_that_fails_leaves_the_pod_where_it_is(name: str) -> None:
    rig = a_full_rig()
    rig.gate.objects_to = lambda pod: False
    where = rig.where(name)
    with mock.patch.object(KeyedHeap, "push", side_effect=Fault), pytest.raises(Fault):
        rig.queue.activate((entry(rig, name).pod,))
    assert rig.where(name) in (where, "unschedulable")
    assert rig.where("active") == "active"
    rig.queue.activate((entry(rig, name).pod,))
    assert rig.where(name) == "active" and rig.queue.check() == []


def test_a_parked_pod_that_cannot_back_off_stays_parked() -> None:
    rig = a_full_rig()
    unschedulable = entry(rig, "parked")
    with mock.patch.object(KeyedHeap, "push", side_effect=Fault), pytest.raises(Fault):
        places(rig).to_backoff(unschedulable, "Test")
    assert rig.where("parked") == "unschedulable" and rig.queue.check() == []


def test_a_fault_while_a_pod_is_added_or_changed_or_deleted_leaves_the_queue_in_order() -> None:
    rig = a_full_rig()
    newer = a_pending("active", priority=3)
    acts: list[Callable[[], object]] = [
        lambda: rig.queue.add(a_pending("new")),
        lambda: rig.queue.update(entry(rig, "active").pod, newer),
        lambda: rig.queue.delete(newer),
    ]
    for act in acts:
        for name in ("add", "update", "delete"):
            with mock.patch.object(Nominations, name, side_effect=Fault):
                try:
                    act()
                except Fault:
                    assert rig.queue.check() == []
        act()
        assert rig.queue.check() == []
    assert (rig.where("new"), rig.where("active")) == ("active", None)


class Ranked(NamedTuple):
    key: str
    rank: Any


def test_keys_that_cannot_be_compared_leave_the_heap_in_order() -> None:
    heap: KeyedHeap[Ranked] = KeyedHeap(lambda item: item.rank)
    for item in (Ranked("a", 3), Ranked("b", 1), Ranked("c", 2)):
        heap.push(item)
    with pytest.raises(TypeError):
        heap.push(Ranked("d", "text"))
    with pytest.raises(TypeError):
        heap.push(Ranked("a", "text"))
    assert heap.check() == [] and [heap.pop() for _ in range(4)] == [("b", 1), ("c", 2), ("a", 3), None]


def test_a_hint_that_fails_wakes_the_pod() -> None:
    rig = Rig()
    rig.unschedulable(a_pending())
    rig.fit.answer = fault = Fault("boom")
    rig.queue.wake(NODE_ADD)
    assert rig.where() == "backoff"
    assert rig.reports == [("the hint of plugin Fit for NodeAdd failed on pod default/pod", fault)]


# ---- wake-ups


def test_a_gated_pod_that_an_event_does_not_concern_keeps_it_from_no_other() -> None:
    rig = Rig()
    gated = a_pending("gated", schedulingGates=[{"name": "wait"}])
    rig.add(gated)
    entry(rig, "gated").unschedulable_plugins = ("Gate", "Fit")
    places(rig).unschedulable.put(entry(rig, "gated"))
    rig.unschedulable(a_pending("parked"))
    rig.queue.wake(NODE_ADD)
    assert (rig.where("gated"), rig.where("parked")) == ("gated", "backoff")


def test_after_the_strongest_answer_no_more_hints_are_asked() -> None:
    rig = Rig()
    rig.add(a_pending())
    flying = rig.pop()
    for _ in range(3):
        rig.queue.wake(NODE_ADD)
    assert rig.reject(flying, "Fit") == "backoff"
    assert rig.fit.asked == ["pod"], "one yes is all that a pod can get which nobody waits for"
    assert rig.stories[-1] == "pod: rejected by Fit but an event moved it meanwhile, to backoff until 00:00:02"


def test_a_gated_pod_is_reconsidered_when_what_held_it_back_is_over() -> None:
    rig = a_full_rig()
    gated, unschedulable = entry(rig, "gated"), entry(rig, "parked")
    for pod in (a_pending("gated", uid="another"), unschedulable.pod, a_pending("unknown")):
        rig.queue.reconsider(pod)
    assert (rig.where("gated"), rig.where("parked")) == ("gated", "unschedulable"), "none of them is gated"
    rig.queue.reconsider(gated.pod)
    assert rig.where("gated") == "gated", "its gate still objects"
    rig.gate.objects_to = lambda pod: False
    rig.queue.reconsider(gated.pod)
    assert rig.where("gated") == "active" and rig.queue.check() == []


def test_the_next_pod_is_seen_before_it_is_taken() -> None:
    rig = a_full_rig()
    assert places(rig).peek() is entry(rig, "active")
    rig.pop()
    assert places(rig).peek() is None, "a pod that failed with an error is not taken early"
    early = Rig()
    early.unschedulable(a_pending())
    early.queue.wake(NODE_ADD)
    assert early.where() == "backoff" and places(early).peek() is entry(early, "pod")


def test_all_places_of_a_pod_are_told() -> None:
    rig = a_full_rig()
    for name, place in (("active", "active"), ("backoff", "backoff"), ("parked", "unschedulable"), ("gated", "gated")):
        assert places(rig).all_with(f"default/{name}") == [place]
    places(rig).active.push(entry(rig, "parked"))
    assert places(rig).all_with("default/parked") == ["active", "unschedulable"]


@pytest.mark.parametrize("uid", ["uid-parked", "uid-another"])
def test_a_pod_that_is_in_two_places_is_put_right(uid: str) -> None:
    """The entry stays if it is that of the pod. A pod that took its name begins anew."""
    rig = a_full_rig()
    old = entry(rig, "parked")
    places(rig).active.push(old)
    pod = a_pending("parked", uid=uid)
    rig.queue.put_right("default/parked", pod)
    assert places(rig).all_with("default/parked") == ["active"] and rig.queue.check() == []
    assert (entry(rig, "parked") is old) == (uid == "uid-parked") and entry(rig, "parked").pod is pod
    rig.queue.put_right("default/parked", None)
    assert rig.where("parked") is None and rig.queue.check() == []
