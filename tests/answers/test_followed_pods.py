"""The story of a pod, from the steps of a recording one by one: arrivals, changes, and binds that fail."""

from types import SimpleNamespace
from typing import Any

import pytest

from build import a_pod
from mooring.answers.recorded import pod_story
from mooring.answers.recorded.pod_story import PodFacts, PodFollower, PodStory
from mooring.inputs.input_errors import NoSuchPod
from mooring.model.pod import Pod
from mooring.scheduler.inputs import BindAnswered, Input, ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.state.recording.run_reading import RecordedStep
from mooring.state.replay.replayer import ReplayedStep

KEY = "default/p"
OTHER = a_pod("other", metadata={"uid": "uid-other"})


def pod(node: str = "", uid: str = "uid-p", **metadata: Any) -> Pod:
    spec: dict[str, Any] = {"nodeName": node} if node else {}
    return a_pod("p", metadata={"uid": uid, **metadata}, **spec)


class Steps:
    """Shows steps to a follower: one each second, from the first second on."""

    def __init__(self, *known: Pod) -> None:
        self.follower = PodFollower(KEY)
        self._replayer: Any = SimpleNamespace(
            reader=SimpleNamespace(objects={("Pod", each.key): each for each in known})
        )
        self._number = 0

    def step(self, change: Input | None, *outcomes: tuple[str, ...], ours: Any = None) -> "Steps":
        self._number += 1
        self.follower.clock.now = self._number
        recorded = RecordedStep(0, self._number, change, outcomes)
        replayed = ReplayedStep(self._number, recorded, outcomes if ours is None else ours)
        self.follower.look_at("run", self._replayer, replayed)
        return self

    def story(self, from_ns: int = 0) -> PodStory:
        return self.follower.story(from_ns, ["a problem"])

    @property
    def facts(self) -> PodFacts:
        return self.story().facts

    def told(self, from_ns: int = 0) -> list[tuple[int, str]]:
        return [(moment.at_ns, moment.text) for moment in self.story(from_ns).moments]


def test_a_pod_arrives_is_bound_and_leaves() -> None:
    steps = Steps().step(ObjectAdded(OTHER)).step(ObjectAdded(pod()))
    assert steps.facts == PodFacts(2)
    steps.step(None, ("bind", "default/other", "m"), ("bind", KEY, "n"))
    assert steps.facts == PodFacts(2, 3, "n")
    steps.step(ObjectRemoved(OTHER)).step(ObjectRemoved(pod("n")))
    assert steps.facts == PodFacts(2, 3, "n", 5)
    assert steps.told() == [(5, "is gone from the cluster")]
    assert (steps.told(5), steps.told(6)) == ([(5, "is gone from the cluster")], [])
    assert (steps.story().problems, steps.story().pod, steps.story().is_equal) == (["a problem"], KEY, True)


def test_a_pod_that_arrives_on_a_node() -> None:
    steps = Steps().step(ObjectAdded(pod("n")))
    assert (steps.facts, steps.told()) == (PodFacts(1, None, "n"), [(1, "arrives on n")])


def test_a_pod_that_was_there_is_known_with_its_node() -> None:
    assert Steps(pod("n")).step(None).facts == PodFacts(None, None, "n")
    assert Steps(pod()).step(None).facts == PodFacts()
    came = pod("n")
    assert Steps(came).step(ObjectAdded(came)).facts == PodFacts(1, None, "n"), "the first step brings it"
    later = Steps().step(None).step(ObjectAdded(OTHER))
    with pytest.raises(NoSuchPod):
        later.story()


def test_changes_of_the_pod_are_told() -> None:
    ending = pod("n", deletionTimestamp="2026-01-01T00:00:00Z")
    steps = Steps().step(ObjectAdded(pod())).step(ObjectUpdated(pod(), pod("n")))
    assert (steps.facts, steps.told()) == (PodFacts(1, None, "n"), [])
    steps.step(ObjectUpdated(pod("n"), ending)).step(ObjectUpdated(ending, ending))
    assert steps.told() == [(3, "is being deleted")]
    steps.step(ObjectUpdated(OTHER, a_pod("other", nodeName="m")))
    assert steps.facts.node == "n"


def test_a_bind_that_fails_is_told_of_this_pod_alone() -> None:
    steps = Steps().step(BindAnswered(pod(), "too early")).step(ObjectAdded(pod()))
    steps.step(BindAnswered(OTHER, "of another pod")).step(BindAnswered(pod()))
    assert steps.told() == []
    steps.step(BindAnswered(pod(), "the node is gone"))
    assert steps.told() == [(5, "could not be bound: the node is gone")]


def test_a_run_that_starts_sees_the_pod_again() -> None:
    steps = Steps().step(ObjectAdded(pod())).step(None, ("bind", KEY, "n")).step(ObjectAdded(pod("n")))
    assert steps.told() == [(3, "is seen again by a scheduler that started")]
    assert steps.facts == PodFacts(1, 2, "n")
    steps.step(ObjectAdded(pod("m", uid="another")))
    assert steps.facts == PodFacts(4, None, "m"), "another pod of the name"
    steps.step(ObjectRemoved(pod("m", uid="another"))).step(ObjectAdded(pod("m", uid="another")))
    assert steps.facts == PodFacts(6, None, "m"), "it was gone in between"


def test_a_pod_that_is_evicted_knows_for_whom() -> None:
    steps = Steps(pod("n")).step(None, ("evict", "default/other", KEY))
    assert steps.facts.evicted_for == "", "another pod was evicted for it"
    steps.step(None, ("evict", KEY, "default/urgent"))
    assert steps.facts == PodFacts(None, None, "n", None, "default/urgent")


def test_differences_about_the_pod_are_shown_some_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it is in what was recorded, or in what came out now."""
    bound, other = ("bind", KEY, "n"), ("bind", "default/other", "n")
    steps = Steps(pod()).step(None, bound, ours=()).step(None, other, ours=()).step(None, ours=(bound,))
    assert [each.step for each in steps.story().differences] == [1, 3]
    assert not steps.story().is_equal
    for _ in range(30):
        steps.step(None, bound, ours=())
    assert len(steps.story().differences) == 20
    monkeypatch.setattr(pod_story, "DIFFERENCES", 1)
    assert len(Steps(pod()).step(None, bound, ours=()).step(None, bound, ours=()).story().differences) == 1


def test_a_name_that_is_misspelt_is_compared_with_so_many_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    similar = [a_pod(name, metadata={"uid": name}) for name in ("p1", "p2")]

    def message() -> str:
        steps = Steps()
        for each in similar:
            steps.step(ObjectAdded(each))
        with pytest.raises(NoSuchPod) as refused:
            steps.story()
        return str(refused.value)

    assert message().startswith("no pod 'default/p' in this part of the recording; did you mean default/p")
    assert "default/p2" in message()
    monkeypatch.setattr(pod_story, "NAMES", 1)
    assert "default/p1" in message() and "default/p2" not in message()
