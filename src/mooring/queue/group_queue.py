"""Pod groups in the queue: all members that wait for one root group wait, back off and are tried as one entity.

    add ──> incomplete: the PodGroup of the pod, or a group above it, does not exist
      └───> joins the entity of its root, wherever that waits; the first member makes the entity
      └───> pending: an attempt of its root is under way, at whose end the members that are left form the entity again

A group that was rejected backs off and is tried again, whatever happens meanwhile: events play no part. Only a group with a
member that a gate holds back waits for events.
"""

from collections.abc import Iterable, Iterator
from typing import Literal

from mooring.cluster.pods.pod_groups import GroupName, GroupTree
from mooring.framework.contract.events import FORCE_ACTIVATE, UNSCHEDULED_POD_ADD, UNSCHEDULED_POD_UPDATE
from mooring.kit.clock import Clock
from mooring.model.pod import Pod
from mooring.queue.entry import (
    ATTEMPT_FAILED,
    Place,
    QueueCounters,
    QueuedGroup,
    QueuedPod,
    TellPod,
    group_entry,
    group_entry_key,
    member_order,
)
from mooring.queue.hints import QueueingStrategy
from mooring.queue.places import Places
from mooring.queue.queue_log import QueueLog

_ADDED = UNSCHEDULED_POD_ADD.label
_REGROUPED = UNSCHEDULED_POD_UPDATE.label

Outcome = Literal["success", "rejected", "error"]
"""The result of an attempt of a group, for the queue."""


class AsideMembers:
    """Members that are in no entity, by PodGroup and pod."""

    def __init__(self) -> None:
        self._by_group: dict[str, dict[str, QueuedPod]] = {}

    def __iter__(self) -> Iterator[QueuedPod]:
        return (entry for entries in self._by_group.values() for entry in entries.values())

    def __len__(self) -> int:
        return sum(map(len, self._by_group.values()))

    def add(self, entry: QueuedPod) -> None:
        self._by_group.setdefault(entry.pod.group_key or "", {})[entry.key] = entry

    def get(self, pod: Pod) -> QueuedPod | None:
        return self._by_group.get(pod.group_key or "", {}).get(pod.key)

    def remove(self, pod: Pod) -> QueuedPod | None:
        """Take a member out; None: it was not there."""
        entries = self._by_group.get(pod.group_key or "", {})
        found = entries.pop(pod.key, None)
        if found is not None and not entries:
            del self._by_group[pod.group_key or ""]
        return found

    def clear(self, groups: Iterable[str]) -> list[QueuedPod]:
        """Take all members of these PodGroups out."""
        return [entry for group in groups for entry in self._by_group.pop(group, {}).values()]


class GroupQueue:
    """The part of the scheduling queue that knows pod groups. Entities are in the places of the queue, like single pods."""

    def __init__(
        self,
        places: Places,
        tree: GroupTree,
        counters: QueueCounters,
        clock: Clock,
        tell: TellPod | None,
        log: QueueLog | None = None,
    ) -> None:
        self._places = places
        self._tree = tree
        self._counters = counters
        self._clock = clock
        self._tell = tell
        self._log = log
        self.incomplete = AsideMembers()
        """Members whose PodGroup, or a group above it, is not known."""
        self.pending = AsideMembers()
        """Members of the group whose attempt is under way that wait for its end."""
        self.in_cycle = ""
        """The key of the entity whose attempt is under way; empty: none is."""
        self.entities: dict[str, QueuedGroup] = {}
        """The entities in the places of the queue, by key."""
        self._entries: dict[str, QueuedPod] = {}
        """Every member that waits, in an entity or aside, by key of the pod."""

    # ---- Members come, change and go

    def add(self, entry: QueuedPod) -> Place:
        """A member comes to the queue, for the first time or back from an attempt."""
        self._entries[entry.key] = entry
        root = self._tree.root_of_pod(entry.pod)
        if root is None:
            self.incomplete.add(entry)
            if self._log is not None:
                self._log.incomplete(entry)
            return self._told(entry, "incomplete", "waits for its pod group to be complete: a group object is missing")
        key = group_entry_key(root)
        found = self._places.take_out(key)
        if found is not None:
            group, worth = found
            group.add(entry)
            place = self._places.requeue(group, worth, _ADDED)
            if self._log is not None:
                self._log.joined(entry, root, place)
            return place
        if key == self.in_cycle:
            self.pending.add(entry)
            if self._log is not None:
                self._log.pending(entry, root)
            return self._told(entry, "pending", "waits for the end of the attempt of its pod group")
        group = self.entities[key] = group_entry(root, entry)
        if self._log is not None:
            self._log.first(entry, root)
        return self._places.requeue(group, QueueingStrategy.AFTER_BACKOFF, _ADDED)

    def _told(self, entry: QueuedPod, place: Place, story: str) -> Place:
        if self._tell is not None:
            self._tell(entry.pod, story)
        return place

    def get(self, key: str) -> QueuedPod | None:
        """The entry of a member that waits."""
        return self._entries.get(key)

    def entity_of(self, pod: Pod) -> QueuedGroup | None:
        """The entity that a pod waits in, or would wait in; None: there is none."""
        root = self._tree.root_of_pod(pod)
        return None if root is None else self.entities.get(group_entry_key(root))

    def where(self, key: str) -> Place | None:
        """Where a member waits; None: it does not wait."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if self.incomplete.get(entry.pod) is entry:
            return "incomplete"
        if self.pending.get(entry.pod) is entry:
            return "pending"
        group = self.entity_of(entry.pod)
        return None if group is None else self._places.where(group.key)

    def replace_pod(self, entry: QueuedPod, pod: Pod) -> QueuedGroup | None:
        """A member was changed. Returns its entity; None: it is in none."""
        aside = self.incomplete.get(entry.pod) is entry or self.pending.get(entry.pod) is entry
        group = None if aside else self.entity_of(entry.pod)
        if group is not None:
            group.remove(entry)
        entry.pod, entry.uid = pod, pod.id
        if group is not None:
            group.add(entry)
            self._places.changed(group)
        return group

    def remove(self, key: str) -> QueuedPod | None:
        """A member is gone. Its entity goes with the last member, otherwise it stays where it was."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self._counters.release(entry)
        if self.incomplete.remove(entry.pod) is not None:
            if self._log is not None:
                self._log.no_longer_incomplete(entry)
            return entry
        root = self._tree.root_of_pod(entry.pod)
        assert root is not None, "a member that waits is incomplete, or has a root"
        if self.pending.remove(entry.pod) is not None:
            if self._log is not None:
                self._log.no_longer_pending(entry, root)
            return entry
        if self._log is not None:
            self._log.left(entry, root)
        self._take_from(self.entities[group_entry_key(root)], [entry], _ADDED)
        return entry

    def _take_from(self, group: QueuedGroup, entries: Iterable[QueuedPod], label: str) -> None:
        """Take members out of an entity in the queue."""
        found = self._places.take_out(group.key)
        for entry in entries:
            group.remove(entry)
        if not group.members:
            del self.entities[group.key]
        elif found is not None:
            self._places.requeue(group, found[1], label)

    # ---- Attempts

    def popped(self, group: QueuedGroup) -> None:
        """An attempt of the group begins: its members are no longer in the queue."""
        self.in_cycle = group.key
        group.alike = None
        del self.entities[group.key]
        for entry in group.entries:
            self._entries.pop(entry.key, None)

    def end_cycle(self, group: QueuedGroup, outcome: Outcome) -> Place | None:
        """The attempt of a group is over. The members that came back, or came meanwhile, form the entity again; None: there
        are none.

        After a success they are tried at once. If they are left over from the attempt, the entity keeps its time, so that it
        is next among those of its priority.
        """
        self.in_cycle = ""
        entries = self.pending.clear(self._tree.leaves(group.root))
        if not entries:
            return None
        tried = {entry.uid for entry in group.entries}
        assert group.key not in self.entities, "the entity of an attempt is not queued before the attempt is over"
        was_left_over = outcome == "success" and any(entry.uid in tried for entry in entries)
        group.become(entries)
        self._note_outcome(group, outcome)
        if not was_left_over:
            group.timestamp_ns = self._clock.now_ns()
        group.was_flushed, group.flushed_ns = False, 0
        self.entities[group.key] = group
        if outcome == "success":
            return self._places.to_active(group, ATTEMPT_FAILED)
        # Parity: the backoff goes by the members that the group has now, also if a gate holds the group back.
        self._places.backoff.rule.until_ns(group)
        # Unlike upstream, a group that failed waits for the end of the second even where backoff is disabled: it would be
        # tried again at once, for ever.
        return self._places.to_backoff(group, ATTEMPT_FAILED)

    def _note_outcome(self, group: QueuedGroup, outcome: Outcome) -> None:
        """Update what the entity remembers of its attempts; it decides how long the group backs off."""
        if outcome == "success":
            group.consecutive_errors = group.unschedulable_count = 0
            return
        group.backoff_until_ns = None
        if outcome == "rejected":
            group.unschedulable_count += 1
            group.consecutive_errors = 0
        else:
            group.consecutive_errors += 1

    def activate(self, pod: Pod) -> bool:
        """Make the group of a pod active whatever it waits for; only gates can hold it back. False: it is active, or not in
        the queue."""
        group = self.entity_of(pod)
        place = None if group is None else self._places.where(group.key)
        if group is None or place == "active":
            return False
        return self._places.to_active(group, FORCE_ACTIVATE.label, from_backoff=place == "backoff") == "active"

    # ---- Groups come and go

    def group_added(self, name: GroupName) -> None:
        """A group object came: members that waited for it join the queue. Each passes the gates on the way."""
        root = self._tree.root_of(name)
        if root is None:
            return
        if self._log is not None and group_entry_key(root) in self.entities:
            self._log.group_joined(name, root)
        entries = self.incomplete.clear(self._tree.leaves(root))
        for entry in entries:
            self.add(entry)
        if self._log is not None:
            self._log.group_added(name, root, len(entries))

    def group_updated(self, name: GroupName) -> None:
        """A group object changed, but not its place in the tree."""
        root = self._tree.root_of(name)
        if self._log is not None and root is not None and group_entry_key(root) in self.entities:
            self._log.group_updated(name, root)

    def group_removed(self, name: GroupName, root: GroupName | None, leaves: Iterable[str]) -> None:
        """A group object is gone. `root` was the root above it, and `leaves` were the PodGroups under that root. The members
        of those that have no root any more wait for their group to be complete."""
        if root is None:
            return
        lost = [leaf for leaf in leaves if self._tree.root_of(GroupName(leaf)) is None]
        key = group_entry_key(root)
        group = self.entities.get(key)
        if group is not None:
            left = [entry for leaf in lost for entry in group.members.get(leaf, ())]
            if left:
                self._take_from(group, left, _REGROUPED)
            if self._log is not None:
                self._log.group_removed(name, root, len(left))
        else:
            left = self.pending.clear(lost) if key == self.in_cycle else []
            if left and self._log is not None:
                self._log.group_removed_in_cycle(name, root, len(left))
        for entry in left:
            self.incomplete.add(entry)

    # ---- Views

    def take_over(self, groups: Iterable[QueuedGroup], incomplete: Iterable[QueuedPod]) -> None:
        """Know the entities of another queue, which are in the places already, and its incomplete members."""
        for group in groups:
            self.entities[group.key] = group
            self._entries |= {entry.key: entry for entry in group.entries}
        for entry in incomplete:
            self.incomplete.add(entry)
            self._entries[entry.key] = entry

    def more_pods(self) -> dict[Place, int]:
        """How many pods there are in each place beyond one for each entity."""
        found: dict[Place, int] = {"incomplete": len(self.incomplete), "pending": len(self.pending)}
        for group in self.entities.values():
            place = self._places.where(group.key)
            if place is not None:
                found[place] = found.get(place, 0) + group.size - 1
        return found

    def check(self) -> list[str]:
        """Invariants that do not hold."""
        queued = {entity.key: entity for entity in self._places if isinstance(entity, QueuedGroup)}
        problems = [] if queued == self.entities else ["the groups in the queue are not those that are known"]
        waiting = {entry.key: entry for group in self.entities.values() for entry in group.entries}
        waiting |= {entry.key: entry for entry in (*self.incomplete, *self.pending)}
        if waiting != self._entries:
            problems.append("the members in the queue are not those that are known")
        problems += [f"{key}: an entity without members" for key, group in self.entities.items() if not group.members]
        problems += [f"{key}: queued, and in its cycle too" for key in self.entities if key == self.in_cycle]
        for group in self.entities.values():
            leaves = set(self._tree.leaves(group.root))
            problems += [f"{leaf}: not under {group.key}" for leaf in group.members if leaf not in leaves]
            for entries in group.members.values():
                if entries != sorted(entries, key=member_order):
                    problems.append(f"{group.key}: the members are not in order")
        complete = [entry.key for entry in self.incomplete if self._tree.root_of_pod(entry.pod) is not None]
        return problems + [f"{key}: waits for its group, which is complete" for key in complete]
