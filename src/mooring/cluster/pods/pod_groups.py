"""The members of each pod group, and how far each member has come. Kept with every change, so that no attempt has to
search for them."""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import msgspec

from mooring.model.pod import Pod
from mooring.model.workloads import PodGroup


class PodGroupMembers(msgspec.Struct):
    """The members of one group by id; each is in one of the three."""

    unscheduled: dict[str, Pod] = msgspec.field(default_factory=dict)
    assumed: dict[str, Pod] = msgspec.field(default_factory=dict)
    assigned: dict[str, Pod] = msgspec.field(default_factory=dict)
    scheduled_uid: str = ""
    """The uid of the PodGroup whose status was told that it is scheduled: the watch shows that only later."""

    @property
    def member_count(self) -> int:
        return len(self.unscheduled) + self.scheduled_count

    @property
    def scheduled_count(self) -> int:
        """Members that have a node, or are about to."""
        return len(self.assumed) + len(self.assigned)

    def drop(self, pod_id: str) -> bool:
        """Forget a member. False: it was none."""
        found = self.unscheduled.pop(pod_id, None) or self.assumed.pop(pod_id, None) or self.assigned.pop(pod_id, None)
        return found is not None


class GroupCycle(msgspec.Struct):
    """One attempt for a whole root group: what the attempts for its members leave to those that follow."""

    scheduled_before: dict[str, int]
    """By key of a PodGroup in it: how many members had a node, or were about to, before the attempt."""
    state: dict[Hashable, Any] = msgspec.field(default_factory=dict)
    """Data that plugins keep for the next members of the group, each plugin under its own key."""


class PodGroups:
    """All groups that have members. Calls about pods that are in no group do nothing."""

    def __init__(self) -> None:
        self._groups: dict[str, PodGroupMembers] = {}
        self._cycle: GroupCycle | None = None

    @contextmanager
    def cycle(self, keys: Iterable[str]) -> Iterator[None]:
        """Around an attempt for these PodGroups, which are one tree. One attempt is made at a time."""
        self._cycle = GroupCycle({key: len(self.scheduled(key)) for key in keys})
        try:
            yield
        finally:
            self._cycle = None

    def cycle_of(self, pod: Pod) -> GroupCycle | None:
        """The attempt for the group of the pod that is under way; None: there is none, the pod is tried alone."""
        cycle = self._cycle
        return cycle if cycle is not None and pod.group_key in cycle.scheduled_before else None

    def of(self, pod: Pod) -> PodGroupMembers | None:
        """The group that the pod names; None if it names none, or no member is known."""
        key = pod.group_key
        return None if key is None else self._groups.get(key)

    def named(self, key: str) -> PodGroupMembers:
        """The members of the PodGroup with this key; none if no pod names it."""
        return self._groups.get(key) or PodGroupMembers()

    def members(self) -> Mapping[str, PodGroupMembers]:
        """All groups that have members, by key."""
        return self._groups

    def scheduled(self, key: str) -> list[str]:
        """The ids of the members of a group that have a node, or are about to."""
        group = self._groups.get(key)
        return [] if group is None else [*group.assumed, *group.assigned]

    def add(self, pod: Pod) -> None:
        """A pod was created or changed, or is seen on a node. One that is assumed stays so until it is seen there."""
        key = pod.group_key
        if key is None:
            return
        group = self._groups.get(key)
        if group is None:
            group = self._groups[key] = PodGroupMembers()
        if not pod.spec.node_name and pod.id in group.assumed:
            return
        group.drop(pod.id)
        (group.assigned if pod.spec.node_name else group.unscheduled)[pod.id] = pod

    def assume(self, pod: Pod) -> None:
        """A node was chosen for a member."""
        group = self.of(pod)
        if group is not None and group.unscheduled.pop(pod.id, None) is not None:
            group.assumed[pod.id] = pod

    def forget(self, pod: Pod) -> None:
        """The binding of an assumed member failed: it is unscheduled again. A member that was removed meanwhile
        stays removed."""
        group = self.of(pod)
        if group is not None and group.assumed.pop(pod.id, None) is not None:
            group.unscheduled[pod.id] = pod

    def remove(self, pod: Pod) -> None:
        """A pod is gone."""
        group = self.of(pod)
        if group is not None and group.drop(pod.id) and not group.member_count:
            del self._groups[pod.group_key or ""]

    def adopt(self, other: "PodGroups") -> None:
        """Have the members that another view of the same pods has."""
        self._groups = {
            key: PodGroupMembers(dict(group.unscheduled), dict(group.assumed), dict(group.assigned))
            for key, group in other._groups.items()
        }

    def check(self, placed: Collection[str], assumed: Collection[str]) -> list[str]:
        """The invariants that do not hold, in words; given the ids of the pods on nodes, seen or assumed to be there."""
        faults = []
        for key, group in self._groups.items():
            if not group.member_count:
                faults.append(f"pod group {key} has no members")
            faults += [f"{pod.key} is on a node, but unscheduled in {key}" for pod in _among(group.unscheduled, placed)]
            faults += [f"{pod.key} is assumed in {key} only" for pod in _missing(group.assumed, assumed)]
            faults += [f"{pod.key} is assigned in {key} only" for pod in _missing(group.assigned, placed)]
        return faults


def _among(members: dict[str, Pod], ids: Collection[str]) -> list[Pod]:
    return [pod for pod_id, pod in members.items() if pod_id in ids]


def _missing(members: dict[str, Pod], ids: Collection[str]) -> list[Pod]:
    return [pod for pod_id, pod in members.items() if pod_id not in ids]


def gang_minimum(declared: PodGroup | None, gates: Mapping[str, bool]) -> int | None:
    """How many pods of a group must fit before any of them goes; None if they need not go together."""
    gang = None if declared is None else declared.spec.scheduling_policy.gang
    return gang.min_count if gang is not None and gates.get("GenericWorkload", False) else None
