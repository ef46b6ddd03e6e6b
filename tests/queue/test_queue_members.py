"""Members of pod groups in the queue: taken together, and sent back with a backoff that they serve to the end."""

from gangs import a_member
from mooring.cluster.cluster import Cluster
from mooring.cluster.pods.pod_groups import PodGroups
from mooring.framework import config
from mooring.framework.profile.profiles import build_profiles
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.pod import Pod
from mooring.plugins.builtin import in_tree
from mooring.queue.queue import SchedulingQueue

A = a_member("a")
GATED = a_member("g", schedulingGates=[{"name": "wait"}])


class Queue:
    """A queue of a scheduler that heeds pod groups, or does not."""

    def __init__(self, *pods: Pod, heeds_groups: bool = True) -> None:
        self.clock, self.cluster = VirtualClock(1_000 * NS_PER_S), Cluster()
        self.cluster.groups = PodGroups() if heeds_groups else None
        profiles = build_profiles(config.default(), in_tree())
        known = {pod.key: pod for pod in pods}
        self.stories: list[str] = []
        self.queue = SchedulingQueue(
            self.clock,
            profiles,
            cluster=self.cluster,
            lookup=known.get,
            tell=lambda pod, text: self.stories.append(text),
        )
        for pod in pods:
            self.queue.add(pod)

    def reject(self, *plugins: str) -> str:
        """Take the next pod and send it back; where it is then."""
        entry = self.queue.pop()
        assert entry is not None
        entry.reject_by(plugins)
        place = self.queue.add_unschedulable(entry)
        assert self.queue.check() == []
        return place


def test_a_member_is_taken_wherever_it_waits() -> None:
    world = Queue(A)
    entry = world.queue.pop_member(A)
    assert entry is not None and world.queue.is_in_flight(A.id)
    assert world.queue.pop_member(A) is None  # it is in flight
    entry.reject_by(["NodeResourcesFit"])
    assert world.queue.add_unschedulable(entry) == "backoff"
    assert world.queue.pop_member(A) is entry
    assert entry.attempts == world.queue.attempts == 2
    assert world.queue.check() == []


def test_a_member_that_is_held_back_or_unknown_is_not_taken() -> None:
    world = Queue(GATED)
    assert world.queue.pop_member(GATED) is None
    assert world.queue.pop_member(A) is None
    assert world.queue.pop_member(a_member("g", metadata={"uid": "another"})) is None
    assert world.queue.where(GATED.key) == "gated"


def test_a_member_of_the_same_name_but_another_pod_is_not_taken() -> None:
    """The one that waits was created anew: an attempt of the old one must not take it."""
    world = Queue(A)
    assert world.queue.pop_member(a_member("a", metadata={"uid": "the one before"})) is None
    assert (world.queue.where(A.key), world.queue.is_in_flight(A.id), world.queue.attempts) == ("active", False, 0)
    assert world.queue.check() == []


def test_a_member_serves_its_backoff_to_the_end() -> None:
    world = Queue(A)
    assert world.reject("NodeResourcesFit") == "backoff"
    assert world.stories[-1] == "rejected by NodeResourcesFit, to backoff until 00:16:42"
    assert not world.queue.has_next()
    world.clock.advance_ns(2 * NS_PER_S)
    world.queue.flush_backoff()
    assert world.queue.has_next()
    assert world.reject() == "backoff"
    assert world.stories[-1].startswith("sent back with its group, to backoff")


def test_where_groups_are_not_heeded_a_member_is_parked() -> None:
    world = Queue(A, heeds_groups=False)
    assert world.reject("NodeResourcesFit") == "unschedulable"
