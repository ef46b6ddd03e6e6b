"""Waits on Permit by themselves: who ends them, when time is up, and in whose words."""

from collections.abc import Callable

import pytest

from build import a_pod
from mooring.framework.contract.waiting import Release, WaitingPod, WaitingPods
from mooring.kit.clock import NS_PER_S

START_NS = 1_000 * NS_PER_S
ALLOWED = Release(is_allowed=True)


def a_wait(**timeouts_s: float) -> tuple[WaitingPods, WaitingPod]:
    waits = WaitingPods()
    return waits, waits.hold(a_pod(nodeName="n1"), "n1", timeouts_s, START_NS)


ENDS: dict[str, tuple[list[Callable[[WaitingPod], object]], Release | None]] = {
    "one of two plugins allows it": ([lambda w: w.allow("P")], None),
    "both plugins allow it": ([lambda w: w.allow("P"), lambda w: w.allow("Q")], ALLOWED),
    "a plugin that it does not wait for allows it": ([lambda w: w.allow("X")], None),
    "a plugin allows it twice": ([lambda w: w.allow("P"), lambda w: w.allow("P")], None),
    "one plugin rejects it": ([lambda w: w.reject("P", "no")], Release("P", "no")),
    "a plugin rejects it after another has allowed it": (
        [lambda w: w.allow("P"), lambda w: w.reject("Q", "no")],
        Release("Q", "no"),
    ),
    "it is preempted": (
        [lambda w: w.preempt("DefaultPreemption", "preempted")],
        Release("DefaultPreemption", "preempted", is_error=True),
    ),
    "the first of two rejections counts": (
        [lambda w: w.reject("P", "a"), lambda w: w.reject("Q", "b")],
        Release("P", "a"),
    ),
    "a rejection stands when all allow it afterwards": (
        [lambda w: w.reject("P", "no"), lambda w: w.allow("P"), lambda w: w.allow("Q")],
        Release("P", "no"),
    ),
    "a pod that may go can be rejected no more": (
        [lambda w: w.allow("P"), lambda w: w.allow("Q"), lambda w: w.reject("P", "no")],
        ALLOWED,
    ),
    "a rejected pod cannot be preempted": (
        [lambda w: w.reject("P", "no"), lambda w: w.preempt("DefaultPreemption", "preempted")],
        Release("P", "no"),
    ),
    "a rejected pod does not time out": (
        [lambda w: w.reject("P", "no"), lambda w: w.expire(START_NS + 60 * NS_PER_S)],
        Release("P", "no"),
    ),
    "time is up": (
        [lambda w: w.expire(START_NS + 10 * NS_PER_S)],
        Release("P", "rejected due to timeout after waiting 10s at plugin P"),
    ),
    "time is not quite up": ([lambda w: w.expire(START_NS + 10 * NS_PER_S - 1)], None),
    "the clock of a plugin that has allowed it stands still": (
        [lambda w: w.allow("P"), lambda w: w.expire(START_NS + 19 * NS_PER_S)],
        None,
    ),
    "the clock of the other plugin goes on": (
        [lambda w: w.allow("P"), lambda w: w.expire(START_NS + 20 * NS_PER_S)],
        Release("Q", "rejected due to timeout after waiting 20s at plugin Q"),
    ),
    "the plugin whose time was up first is named": (
        [lambda w: w.expire(START_NS + 60 * NS_PER_S)],
        Release("P", "rejected due to timeout after waiting 10s at plugin P"),
    ),
}


@pytest.mark.parametrize(("acts", "release"), ENDS.values(), ids=ENDS.keys())
def test_how_a_wait_for_two_plugins_ends(acts: list[Callable[[WaitingPod], object]], release: Release | None) -> None:
    waits, waiting = a_wait(Q=20, P=10)
    for act in acts:
        act(waiting)
    assert waiting.release == release
    assert waits.take_released() == ([] if release is None else [waiting])
    assert len(waits) == (1 if release is None else 0)


LIMITS: dict[str, tuple[float, float, str]] = {
    "ten seconds": (10, 10, "10s"),
    "half a second": (0.5, 0.5, "500ms"),
    "five minutes": (300, 300, "5m0s"),
    "a quarter of an hour": (900, 900, "15m0s"),
    "an hour is cut to a quarter of it": (3600, 900, "15m0s"),
}


@pytest.mark.parametrize(("asked_s", "granted_s", "words"), LIMITS.values(), ids=LIMITS.keys())
def test_how_long_a_plugin_may_make_a_pod_wait(asked_s: float, granted_s: float, words: str) -> None:
    waits, waiting = a_wait(P=asked_s)
    deadline_ns = START_NS + round(granted_s * NS_PER_S)
    assert waits.next_deadline_ns() == deadline_ns
    waits.expire(deadline_ns - 1)
    assert waiting.release is None
    waits.expire(deadline_ns)
    assert waiting.release == Release("P", f"rejected due to timeout after waiting {words} at plugin P")


def test_only_the_call_that_ends_the_wait_is_told_so() -> None:
    _, rejected = a_wait(P=10)
    assert [rejected.reject("P", "a"), rejected.reject("P", "b"), rejected.preempt("D", "c")] == [True, False, False]
    _, preempted = a_wait(P=10)
    assert [preempted.preempt("D", "a"), preempted.preempt("D", "b"), preempted.reject("P", "c")] == [
        True,
        False,
        False,
    ]


def test_pending_plugins_are_those_that_have_not_allowed_the_pod() -> None:
    _, waiting = a_wait(P=10, Q=10, R=10)
    waiting.allow("Q")
    assert waiting.pending_plugins == ["P", "R"]


def test_each_pod_has_its_own_wait() -> None:
    waits = WaitingPods()
    first = waits.hold(a_pod("a"), "n1", {"P": 10}, START_NS)
    second = waits.hold(a_pod("b"), "n1", {"P": 5}, START_NS)
    assert waits.next_deadline_ns() == START_NS + 5 * NS_PER_S
    waits.expire(START_NS + 5 * NS_PER_S)
    assert waits.take_released() == [second]
    assert waits.take_released() == []
    assert (waits.get(first.pod.id), waits.get(second.pod.id)) == (first, None)
    assert waits.next_deadline_ns() == START_NS + 10 * NS_PER_S
