"""Stories of pods: bounded, and each line of a kind that the page knows."""

from hypothesis import given
from hypothesis import strategies as st

from build import a_node, a_pod
from dashboard_stage import StagedSource
from mooring.dashboard.slices import at_once
from mooring.dashboard.views.page_views import what_of
from mooring.dashboard.views.scheduling_flow import MAX_TEXT, PodStories

LINES = st.lists(st.tuples(st.integers(0, 9), st.text(max_size=200)), max_size=200)


@given(LINES, st.integers(1, 50), st.integers(1, 5), st.integers(200, 1000))
def test_stories_stay_within_their_limits(
    told: list[tuple[int, str]], max_lines: int, max_shown: int, max_long: int
) -> None:
    """What is kept of a pod are its newest lines, in order, against a plain list of everything."""
    stories = PodStories(lambda: 7, max_lines, max_shown, max_long)
    everything: dict[str, list[str]] = {}
    for number, text in told:
        pod = a_pod(f"p{number}")
        stories.tell(pod, text)
        everything.setdefault(pod.key, []).append(text)
        assert stories.check() == []
        assert 1 <= len(stories) <= max_lines
        kept = story(stories, pod.key)
        assert 1 <= len(kept) <= max_shown
        assert everything[pod.key][-len(kept) :] == kept


def story(stories: PodStories, key: str) -> list[str]:
    return [text for _, text in at_once(stories.of(key))]


def test_the_newest_lines_are_kept() -> None:
    stories = PodStories(lambda: 7, max_lines=3, max_shown=2)
    for name in ("a", "b", "a", "a", "c"):
        stories.tell(a_pod(name), "x")
    assert [len(story(stories, f"default/{name}")) for name in "abc"] == [2, 0, 1]


def test_a_story_is_found_in_a_long_journal() -> None:
    stories = PodStories(lambda: 7)
    stories.tell(a_pod("first"), "x")
    for i in range(12_000):
        stories.tell(a_pod("other"), str(i))
    assert story(stories, "default/first") == ["x"]
    assert story(stories, "default/other") == [str(i) for i in range(11_900, 12_000)]


def test_long_texts_are_bounded_however_much_plugins_say() -> None:
    stories = PodStories(lambda: 7, max_long=100_000)
    for i in range(1000):
        stories.tell(a_pod(f"p{i}"), f"{i}" * 5000)
        assert stories.check() == []
    assert len(stories) < 100
    assert [len(text) for text in story(stories, "default/p999")] == [MAX_TEXT]


def test_a_long_text_that_many_pods_have_is_kept_once() -> None:
    stories = PodStories(lambda: 7, max_long=10_000)
    for i in range(1000):
        stories.tell(a_pod(f"p{i}"), "0/5000 nodes are available: " + "no room, " * 100)
    assert len(stories) == 1000


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
        for _, text in at_once(source.stories.of(f"default/{name}"))
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
