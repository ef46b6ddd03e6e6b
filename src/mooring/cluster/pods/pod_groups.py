"""The members of each pod group, and how far each member has come. Kept with every change, so that no attempt has to
search for them.

Groups have a hierarchy: a group is part of a CompositePodGroup, and a CompositePodGroup has groups. Without the gate
CompositePodGroup each PodGroup is a tree of its own, whatever parent it names.
"""

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, cast

import msgspec

from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.workloads import AnyPodGroup, CompositePodGroup, PodGroup

MAX_DEPTH = 4
"""Upstream's WorkloadMaxTreeDepth. Questions about victims follow parents so far and no further."""


class GroupName(NamedTuple):
    """A PodGroup or a CompositePodGroup; both may have the same key."""

    key: str
    """`namespace/name`."""
    is_composite: bool = False

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]


class GroupTree:
    """Follows the objects of a cluster. It keeps the children of groups that do not exist yet, too."""

    def __init__(self, groups: Mapping[str, KubeObject], composites: Mapping[str, KubeObject], is_nested: bool) -> None:
        """`is_nested`: whether CompositePodGroups count (gate CompositePodGroup)."""
        self._groups = cast("Mapping[str, PodGroup]", groups)
        self._composites = cast("Mapping[str, CompositePodGroup]", composites)
        self.is_nested = is_nested
        self._children: dict[str, dict[GroupName, None]] = {}
        """By key of the parent."""

    def find(self, name: GroupName) -> AnyPodGroup | None:
        """The object of this name; None while it does not exist."""
        return (self._composites if name.is_composite else self._groups).get(name.key)

    def changed(self, old: AnyPodGroup | None, new: AnyPodGroup | None) -> None:
        """A group came, changed or went. Parents are immutable; an object that contradicts that is followed all the same."""
        for group in (old, new) if self.is_nested else ():
            if group is not None and group.parent_key is not None:
                children, name = self._children.setdefault(group.parent_key, {}), name_of(group)
                if group is new:
                    children[name] = None
                else:
                    children.pop(name, None)
                if not children:
                    del self._children[group.parent_key]

    def parent(self, group: AnyPodGroup) -> GroupName | None:
        """The CompositePodGroup that a group is part of, whether or not it exists."""
        key = group.parent_key if self.is_nested else None
        return None if key is None else GroupName(key, True)

    def root_of(self, name: GroupName) -> GroupName | None:
        """The topmost group above this one; None: one of the groups on the way does not exist, or they form a cycle."""
        if not self.is_nested:
            return name if self.find(name) is not None else None
        seen = set()
        while name not in seen:
            seen.add(name)
            group = self.find(name)
            if group is None:
                return None
            parent = self.parent(group)
            if parent is None:
                return name
            name = parent
        return None

    def root_of_pod(self, pod: Pod) -> GroupName | None:
        """The topmost group that the pod is scheduled with; None: it is in none, or not all of them exist."""
        key = pod.group_key
        if key is None or (not self.is_nested and key not in self._groups):  # Hot: most clusters have no trees
            return None
        return self.root_of(GroupName(key)) if self.is_nested else GroupName(key)

    def upwards(self, pod: Pod) -> Iterator[AnyPodGroup]:
        """The groups of a pod that exist, from its PodGroup to the root. A group that is missing ends it."""
        name = None if pod.group_key is None else GroupName(pod.group_key)
        for _ in range(MAX_DEPTH):
            group = None if name is None else self.find(name)
            if group is None:
                return
            yield group
            name = self.parent(group)

    def children(self, name: GroupName) -> list[GroupName]:
        """The groups of a CompositePodGroup that exist: the oldest first, then by name."""
        if not name.is_composite:
            return []
        found = [(self.find(child), child) for child in self._children.get(name.key, ())]
        known = [(group.metadata.creation_timestamp or "", child.name, child) for group, child in found if group]
        return [child for *_, child in sorted(known)]

    def leaves(self, name: GroupName) -> list[str]:
        """The keys of all PodGroups in the tree under a group, or of the group itself."""
        if not name.is_composite:
            return [name.key] if self.find(name) is not None else []
        found, seen, left = [], set(), [name]
        while left:
            each = left.pop()
            if each in seen:
                continue
            seen.add(each)
            if not each.is_composite and self.find(each) is not None:
                found.append(each.key)
            left += reversed(self.children(each))
        return found

    def victim_priority(self, pod: Pod) -> int:
        """The priority by which preemption chooses the pod: that of the topmost group that is known, or its own."""
        found = pod.priority
        for group in self.upwards(pod):
            found = group.priority
        return found

    def disrupted_with(self, pod: Pod) -> GroupName | None:
        """The highest group above the pod that preemption evicts as one; None: the pod may be evicted alone."""
        found = None
        for group in self.upwards(pod):
            if group.is_disrupted_together:
                found = name_of(group)
        return found

    def check(self) -> list[str]:
        """Invariants that do not hold."""
        made: dict[str, set[GroupName]] = {}
        for group in (*self._groups.values(), *self._composites.values()) if self.is_nested else ():
            if group.parent_key is not None:
                made.setdefault(group.parent_key, set()).add(name_of(group))
        kept = {key: set(children) for key, children in self._children.items()}
        return [] if made == kept else ["the tree of pod groups contradicts the groups"]


def name_of(group: AnyPodGroup) -> GroupName:
    """The name of a group."""
    return GroupName(group.key, isinstance(group, CompositePodGroup))


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
