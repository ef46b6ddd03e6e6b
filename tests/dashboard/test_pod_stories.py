"""Stories of pods: bounded, and each line of a kind that the page knows."""

from hypothesis import given
from hypothesis import strategies as st

from build import a_node, a_pod
from dashboard_stage import StagedSource
from mooring.dashboard.views.pod_stories import MAX_TEXT, PodStories
from mooring.dashboard.views.story_kinds import what_of

LINES = st.lists(st.tuples(st.integers(0, 9), st.text(max_size=30)), max_size=200)


@given(LINES, st.integers(1, 6), st.integers(1, 5), st.integers(400, 3000))
def test_stories_stay_within_their_limits(
    told: list[tuple[int, str]], max_pods: int, max_lines: int, max_bytes: int
) -> None:
    stories = PodStories(lambda: 7, max_pods, max_lines, max_bytes)
    everything: dict[str, list[str]] = {}
    for number, text in told:
        pod = a_pod(f"p{number}")
        stories.tell(pod, text)
        everything.setdefault(pod.key, []).append(text)
        assert stories.check() == []
        kept = [text for _, text in stories.of(pod.key)]
        assert kept, "the pod that something happened to last has its story"
        assert everything[pod.key][-len(kept) :] == kept


def test_the_pods_that_something_happened_to_last_are_kept() -> None:
    stories = PodStories(lambda: 7, max_pods=2)
    for name in ("a", "b", "a", "c"):
        stories.tell(a_pod(name), "x")
    assert [len(stories.of(f"default/{name}")) for name in "abc"] == [2, 0, 1]


def test_bytes_are_bounded_however_much_plugins_say() -> None:
    stories = PodStories(lambda: 7, max_bytes=100_000)
    for i in range(1000):
        stories.tell(a_pod(f"p{i}"), f"{i}" * 5000)
    assert stories.check() == []
    assert len(stories) < 100
    assert {len(text) for _, text in stories.of("default/p999")} == {MAX_TEXT}


# ---- kinds


def a_busy_day() -> StagedSource:
    """Pods that are placed, rejected, woken, gated, preempted and deleted."""
    source = StagedSource(a_node("n", cpu="4"), a_pod("small", cpu="1"), a_pod("low", cpu="3", priority=1))
    source.driver.settle()
    source.add(
        a_pod("high", cpu="3", priority=10),
        a_pod("huge", cpu="50"),
        a_pod("gated", schedulingGates=[{"name": "g"}]),
    )
    source.driver.settle()
    source.add(a_node("m", cpu="60"))
    for _ in range(20):
        source.driver.advance_second()
        source.driver.settle()
    source.driver.delete("Pod", "default/gated")
    return source


def test_every_line_of_a_busy_day_has_a_kind() -> None:
    source = a_busy_day()
    assert source.stories is not None
    told = [
        what_of(text)
        for name in ("small", "low", "high", "huge", "gated")
        for _, text in source.stories.of(f"default/{name}")
    ]
    expected = "queued popped placed unschedulable backoff nominated evicted bound gated deleted"
    assert set(told) == set(expected.split())


def test_lines_of_waits_errors_and_extenders() -> None:
    assert what_of("moved by NodeAdd to the active queue") == "moved"
    assert what_of("backoff over, to the active queue") == "moved"
    assert what_of("has room on n and waits for Gang (at most 5 s)") == "permit"
    assert what_of("has room on n, where VolumeBinding has work to do first") == "preBind"
    assert what_of("failed with an error, to backoff until 12:00:04") == "error"
    assert what_of("sent back with its group, to backoff until 12:00:04") == "backoff"
    assert what_of("extender http://e: no") == "note"
