"""Backoff: durations, ends, and the two heaps."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from queue_rig import a_pending, lose

from mooring.kit.clock import NS_PER_S
from mooring.queue.backoff import BackoffQueue, BackoffRule, duration_ns, floor_ns
from mooring.queue.entry import QueuedEntity, QueuedPod, new_entry

S = NS_PER_S
RULE = BackoffRule(1 * S, 10 * S)
EXACT = BackoffRule(1 * S, 10 * S, window_ns=1)


def an_entry(
    name: str = "pod", *, at_s: float = 0, rejections: int = 0, errors: int = 0, priority: int = 0
) -> QueuedPod:
    entry = new_entry(a_pending(name, priority), round(at_s * S))
    entry.unschedulable_count, entry.consecutive_errors = rejections, errors
    if not errors:
        entry.reject_by(["Fit"])
    return entry


@pytest.mark.parametrize(
    ("initial_s", "max_s", "seconds"),
    [
        pytest.param(1, 10, [0, 1, 2, 4, 8, 10, 10, 10], id="the defaults double up to the maximum"),
        pytest.param(1, 8, [0, 1, 2, 4, 8, 8], id="a power of two is reached exactly"),
        pytest.param(10, 10, [0, 10, 10], id="initial and maximum alike"),
        pytest.param(5, 3, [0, 3, 3], id="the maximum wins over a greater initial backoff"),
        pytest.param(0, 10, [0, 0, 0, 0], id="doubling nothing is nothing"),
        pytest.param(3, 0, [0, 0, 0], id="no maximum, no backoff"),
    ],
)
def test_durations(initial_s: int, max_s: int, seconds: list[int]) -> None:
    assert [duration_ns(count, initial_s * S, max_s * S) // S for count in range(len(seconds))] == seconds


@given(st.integers(1, 10_000), st.integers(1, 100 * S), st.integers(1, 1000 * S))
def test_durations_never_exceed_the_maximum_and_never_fall(count: int, initial_ns: int, max_ns: int) -> None:
    shorter, longer = duration_ns(count, initial_ns, max_ns), duration_ns(count + 1, initial_ns, max_ns)
    assert 0 < shorter <= longer <= max_ns


@pytest.mark.parametrize(("rule", "end_s"), [(RULE, 1), (EXACT, 1.2)], ids=["whole seconds are rounded down", "exact"])
def test_the_end_of_a_backoff(rule: BackoffRule, end_s: float) -> None:
    assert rule.until_ns(an_entry(at_s=0.2, rejections=1)) == round(end_s * S)


@pytest.mark.parametrize(
    ("rule", "now_s", "holds"),
    [
        (RULE, 0.9, True),
        (RULE, 1.0, True),
        (RULE, 1.999999999, True),
        (RULE, 2.0, False),
        (EXACT, 1.2, True),
        (EXACT, 1.200000001, False),
    ],
)
def test_a_pod_backs_off_through_the_window_in_which_it_ends(rule: BackoffRule, now_s: float, holds: bool) -> None:
    entry = an_entry(at_s=0.2, rejections=1)
    assert rule.holds(entry, round(now_s * S)) is holds
    assert (rule.release_ns(entry) <= round(now_s * S)) is not holds


def test_errors_count_before_rejections() -> None:
    assert RULE.until_ns(an_entry(rejections=5, errors=2)) == 2 * S
    assert RULE.until_ns(an_entry(rejections=3, errors=0)) == 4 * S


def test_who_never_failed_does_not_back_off() -> None:
    assert not RULE.holds(an_entry(), 0)


def test_without_a_maximum_no_one_backs_off() -> None:
    assert not BackoffRule(1 * S, 0).holds(an_entry(rejections=3), 0)


def test_the_end_is_worked_out_once_until_it_is_voided() -> None:
    entry = an_entry(rejections=1)
    assert RULE.until_ns(entry) == 1 * S
    entry.unschedulable_count = 3
    assert RULE.until_ns(entry) == 1 * S
    entry.backoff_until_ns = None
    assert RULE.until_ns(entry) == 4 * S


def test_floor_of_a_window() -> None:
    assert [floor_ns(time_ns, 10) for time_ns in (0, 9, 10, 19)] == [0, 0, 10, 10]


def order(entry: QueuedEntity) -> int:
    return -entry.entries[0].pod.priority


def test_within_a_window_the_order_of_the_queue_decides() -> None:
    queue = BackoffQueue(RULE, order)
    for entry in (
        an_entry("low", at_s=3.1, rejections=1, priority=1),
        an_entry("high", at_s=4.0, rejections=1, priority=100),
        an_entry("middle", at_s=3.9, rejections=1, priority=50),
    ):
        assert queue.push(entry)
    assert [entry.entries[0].pod.name for entry in queue] == ["middle", "low", "high"]


def test_errors_leave_by_time_alone_and_never_early() -> None:
    queue = BackoffQueue(RULE, order)
    queue.push(an_entry("low", at_s=3.1, errors=1, priority=1))
    queue.push(an_entry("high", at_s=3.2, errors=1, priority=100))
    assert queue.pop_early() is None
    assert [entry.entries[0].pod.name for entry in queue.pop_complete(5 * S)] == ["low", "high"]


def test_without_the_order_of_the_queue_the_first_to_come_leaves_first() -> None:
    queue = BackoffQueue(RULE, None)
    queue.push(an_entry("low", at_s=3.1, rejections=1, priority=1))
    queue.push(an_entry("high", at_s=3.2, rejections=1, priority=100))
    assert [entry.entries[0].pod.name for entry in queue] == ["low", "high"]


def test_complete_backoffs_leave_and_the_next_release_is_known() -> None:
    queue = BackoffQueue(RULE, order)
    assert queue.next_release_ns() is None
    queue.push(an_entry("first", at_s=0, rejections=1))
    queue.push(an_entry("error", at_s=1, errors=1))
    queue.push(an_entry("last", at_s=2, rejections=2))
    assert queue.next_release_ns() == 2 * S
    assert [entry.entries[0].pod.name for entry in queue.pop_complete(3 * S)] == ["first", "error"]
    assert (len(queue), queue.next_release_ns()) == (1, 5 * S)


def test_a_pod_is_never_in_both_heaps() -> None:
    queue = BackoffQueue(RULE, order)
    entry = an_entry(errors=1)
    assert queue.push(entry)
    entry.reject_by(["Fit"])
    assert queue.check() == ["default/pod: among the errors, but rejected by plugins"]
    assert not queue.push(entry)
    assert (len(queue), len(queue.rejected), queue.check()) == (1, 1, [])


def test_a_change_of_content_moves_a_pod_but_not_its_end() -> None:
    queue = BackoffQueue(RULE, order)
    entry = an_entry("low", rejections=1, priority=1)
    queue.push(an_entry("high", rejections=1, priority=100))
    queue.push(entry)
    entry.pod = a_pending("low", 1000)
    queue.update(entry)
    assert [each.entries[0].pod.name for each in queue] == ["low", "high"]
    assert entry.backoff_until_ns == 1 * S


def test_removing() -> None:
    queue = BackoffQueue(RULE, order)
    for entry in (rejected := an_entry("a", rejections=1)), (error := an_entry("b", errors=1)):
        queue.push(entry)
        assert (entry.key in queue, queue.get(entry.key)) == (True, entry)
    assert (queue.remove(rejected.key), queue.remove(error.key), queue.remove("c")) == (rejected, error, None)
    assert len(queue) == 0


def test_a_backoff_that_is_doubled_stays_exact_up_to_the_maximum() -> None:
    assert [duration_ns(count, 5, 11) for count in (0, 1, 2, 3)] == [0, 5, 10, 11]


def test_a_change_of_content_leaves_an_error_among_the_errors() -> None:
    queue = BackoffQueue(RULE, order)
    queue.push(entry := an_entry(errors=1))
    queue.update(entry)
    assert (len(queue.rejected), len(queue.errors)) == (0, 1)


FAULTS: dict[str, tuple[Callable[[BackoffQueue, QueuedPod], object], list[str]]] = {
    "the heaps": (lambda queue, entry: lose(queue.rejected, entry), ["backoff heap: default/pod is not in it"]),
    "nobody rejected it": (
        lambda queue, entry: entry.reject_by([]),
        ["default/pod: among the rejected, but no plugin rejected it"],
    ),
    "both heaps": (
        lambda queue, entry: queue.errors.push(entry),
        [
            "default/pod: among the errors, but rejected by plugins",
            "default/pod: in both backoff heaps",
        ],
    ),
    "no end": (
        lambda queue, entry: setattr(entry, "backoff_until_ns", None),
        ["default/pod: in backoff without an end"],
    ),
}


@pytest.mark.parametrize("case", FAULTS)
def test_the_check_finds_what_is_wrong(case: str) -> None:
    spoil, problems = FAULTS[case]
    queue = BackoffQueue(RULE, order)
    queue.push(entry := an_entry(rejections=1))
    assert queue.check() == []
    spoil(queue, entry)
    assert queue.check() == problems


def test_the_check_looks_into_the_heap_of_errors_too() -> None:
    queue = BackoffQueue(RULE, order)
    queue.push(entry := an_entry(errors=1))
    lose(queue.errors, entry)
    assert queue.check() == ["backoff heap: default/pod is not in it"]


def test_an_error_that_a_gate_objects_to_is_in_order() -> None:
    queue = BackoffQueue(RULE, order)
    queue.push(entry := an_entry(errors=1))
    entry.unschedulable_plugins = ("Gate",)
    assert queue.check() == ["default/pod: among the errors, but rejected by plugins"]
    entry.gating_plugin = "Gate"
    assert queue.check() == []
