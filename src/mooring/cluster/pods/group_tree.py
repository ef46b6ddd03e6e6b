"""The hierarchy of pod groups: which CompositePodGroup a group is part of, and which groups a CompositePodGroup has.

Without the gate CompositePodGroup each PodGroup is a tree of its own, whatever parent it names.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple, cast

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
        return None if key is None else self.root_of(GroupName(key))

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
