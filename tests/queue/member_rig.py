"""A queue of pod groups to test, on a virtual clock, and some of their members."""

from collections.abc import Mapping
from typing import Any

from gangs import GROUP_GATES, a_group, a_member
from mooring.cluster.cluster import Cluster
from mooring.framework import config
from mooring.framework.profile.profiles import build_profiles
from mooring.kit.clock import NS_PER_S, VirtualClock
from mooring.model.pod import Pod
from mooring.model.workloads import PodGroup
from mooring.plugins import in_tree
from mooring.queue.entry import QueuedGroup, QueueListeners
from mooring.queue.queue import SchedulingQueue

A, B, C = a_member("a"), a_member("b"), a_member("c")
GATED = a_member("g", schedulingGates=[{"name": "wait"}])


class Queue:
    """A queue of a scheduler that heeds pod groups, or does not."""

    def __init__(
        self,
        *pods: Pod,
        heeds_groups: bool = True,
        groups: tuple[PodGroup, ...] = (a_group(),),
        gates: Mapping[str, bool] = GROUP_GATES,
    ) -> None:
        self.clock = VirtualClock(1_000 * NS_PER_S)
        self.cluster = Cluster(gates if heeds_groups else {})
        for group in groups:
            self.cluster.put(group)
        self.stories: list[str] = []
        self.queue = SchedulingQueue(
            self.clock,
            build_profiles(config.default(), in_tree()),
            cluster=self.cluster,
            lookup={pod.key: pod for pod in pods}.get,
            listeners=QueueListeners(tell=lambda pod, text: self.stories.append(text)),
        )
        for pod in pods:
            self.queue.add(pod)
        self.check()

    def check(self) -> None:
        assert self.queue.check() == []

    def pop(self) -> QueuedGroup:
        group = self.queue.pop()
        assert isinstance(group, QueuedGroup)
        self.check()
        return group

    def end(self, group: QueuedGroup, outcome: Any, *rejected: str) -> str | None:
        """Members that are named come back; the attempt ends."""
        for entry in group.entries:
            if entry.pod.name in rejected:
                entry.reject_by(["NodeResourcesFit"])
                assert self.queue.add_unschedulable(entry) == "pending"
            else:
                self.queue.done(entry.uid)
        assert self.queue.groups is not None
        place = self.queue.groups.end_cycle(group, outcome)
        self.check()
        return place

    def where(self, *pods: Pod) -> list[str | None]:
        return [self.queue.where(pod.key) for pod in pods]
