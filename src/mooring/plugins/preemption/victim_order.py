"""All pods on nodes as victims of pod groups, in the order of their importance, kept from search to search.

Hot: to find and sort 20,000 victims takes 60 ms; a group that preempts touches some ten nodes, and to enter their pods anew
takes 0.3 ms.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Sequence
from operator import itemgetter
from typing import cast

import msgspec

from mooring.cluster.change_log import Follower, RowLog
from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.ranks import start_ns
from mooring.model.pod import Pod
from mooring.model.workloads import DISRUPTED_TOGETHER, PodGroup
from mooring.plugins.preemption.victim_search import Budget

# ---- The victims that preemption for a pod group chooses from: single pods, and whole groups that are disrupted
# together.
#
# A group with the disruption mode PodGroup leaves as one or stays as one, and counts with the priority of the group.
# All other pods, members of groups too, are victims of their own.


Importance = tuple[int, bool, int, int, int]
"""Ascending: the more important victim is the lesser."""
_MOST_PODS = 1 << 32
"""More than there are on any node."""


class GroupVictim(msgspec.Struct):
    """Pods that leave together: one pod, or all pods of a group on nodes."""

    pods: list[Pod]
    importance: Importance
    """Priority, groups before pods, size, start, place."""


def pod_place(node_position: int, index: int) -> int:
    """The place of a pod among all pods, node by node in the order of upstream's snapshot. A pod that has not started counts
    as started when it is looked at, so the earlier it is met, the more important it is."""
    return node_position * _MOST_PODS + index


def single(pod: Pod, place: int) -> GroupVictim:
    """A pod that may leave alone. Parity: any pod that names a group counts as a group, of one."""
    is_group = pod.spec.scheduling_group is not None
    return GroupVictim([pod], (-pod.priority, not is_group, -1, start_ns(pod), place))


def whole(group: PodGroup, pods: list[Pod], place: int) -> GroupVictim:
    """A group that leaves as one, with its pods in the order of their places, the first of which is given.

    Parity: it counts as started when that first pod was, whichever is the oldest.
    """
    return GroupVictim(pods, (-group.priority, False, -len(pods), start_ns(pods[0]), place))


def split_by_budgets(
    victims: Iterable[GroupVictim], budgets: Sequence[Budget]
) -> tuple[list[GroupVictim], list[GroupVictim]]:
    """(victims that break a budget if all leave in this order, the others).

    Parity: the pods of a victim take from budgets one after another until one finds a budget used up. Unlike for a single
    preemptor, the budgets and pods behind that one are not counted any more.
    """
    left = [budget.allowed for budget in budgets]
    breaking: list[GroupVictim] = []
    others: list[GroupVictim] = []
    for victim in victims:
        breaks = any(_breaks(pod, budgets, left) for pod in victim.pods)
        (breaking if breaks else others).append(victim)
    return breaking, others


def _breaks(pod: Pod, budgets: Sequence[Budget], left: list[int]) -> bool:
    """Whether the eviction of the pod violates a disruption budget. `left` holds the evictions that each budget still allows,
    and is counted down here."""
    for i, budget in enumerate(budgets):
        if budget.matches(pod) and pod.name not in budget.disrupted:
            left[i] -= 1
            if left[i] < 0:
                return True
    return False


_FEW_GROUPS = 1024
"""Allowance for groups that are remembered after their pods have left. The order is built again when more groups are
remembered than twice the number of victims plus this number."""

Entry = tuple[*Importance, GroupVictim]
"""No two victims have the same place, so that entries are never compared by the victim."""


class VictimOrder:
    """Follows the node table of one cluster, and its PodGroups."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.nodes = cluster.nodes
        self._news = Follower(self.nodes.touches, self.nodes.pod_touches)
        self._node_set = -1
        self._position: dict[int, int] = {}
        """By row: the place of the node among all nodes."""
        self.entries: list[Entry] = []
        self.touches = RowLog()
        """Rows whose victims changed."""
        self._singles: dict[int, list[Entry]] = {}
        """By row: victims of one pod."""
        self._parts: dict[str, dict[int, list[tuple[int, Pod]]]] = {}
        """By group that leaves as one, and row: its pods there, with their places."""
        self._groups_on: dict[int, set[str]] = {}
        self._wholes: dict[str, Entry] = {}
        self._seen: dict[str, PodGroup | None] = {}
        """The groups that pods on nodes name, as they were."""
        self._groups_position = 0

    def refresh(self) -> None:
        """Bring the order up to date with the cluster."""
        touched = self._news.news()
        changed_groups = self.cluster.group_changes.since(self._groups_position)
        self._groups_position = self.cluster.group_changes.end
        is_stale = self._node_set != self.nodes.node_set_version
        is_long = len(self._seen) > 2 * len(self.entries) + _FEW_GROUPS
        if touched is None or changed_groups is None or is_stale or is_long:
            self._node_set = self.nodes.node_set_version
            self._start_over()
            return
        rows = dict.fromkeys(touched)
        rows.update(dict.fromkeys(self._rows_of_changed_groups(changed_groups)))
        # All leave before any enters: a pod may get the place that another one, or a group, had before.
        changed = {key for row in rows for key in self._leave(row)}
        for key in changed:
            self._take_out(key)
        for row in rows:
            changed |= self._enter(row)
            self.touches.note(row)
        self._regroup(changed)

    def below(self, priority: int) -> list[Entry]:
        """The victims with a lower priority, the most important first."""
        return self.entries[bisect_left(self.entries, (1 - priority,)) :]

    def has_below(self, priority: int) -> bool:
        return bool(self.entries) and self.entries[-1][0] > -priority

    def on_row(self, row: int) -> list[tuple[Entry, list[Pod]]]:
        """The victims with pods on a row, the most important first, each with its pods there."""
        found = [(entry, entry[-1].pods) for entry in self._singles.get(row, ())]
        wholes = self._groups_on.get(row, ())
        found += [(self._wholes[key], [pod for _, pod in self._parts[key][row]]) for key in wholes]
        return sorted(found, key=_ENTRY)

    def _start_over(self) -> None:
        """Build the order of victims again from all rows. Pods of a group that is preempted as one form a single entry."""
        self.touches.note_all()
        row_book = self.nodes.row_book
        self._position = {row_book[name]: place for place, name in enumerate(self.nodes.order.round_robin())}
        self.entries, self._singles, self._wholes = [], {}, {}
        self._parts, self._groups_on, self._seen = {}, {}, {}
        for row in self._position:
            self._enter(row, is_sorted=False)
        for key in self._parts:
            self._wholes[key] = entry = self._whole(key)
            self.entries.append(entry)
        self.entries.sort()

    def _rows_of_changed_groups(self, changed: list[str]) -> list[int]:
        """Rows with pods of groups that came, went, or got another mode or priority."""
        others = set()
        for key in changed:
            if key not in self._seen:
                continue  # it has no pods on nodes
            if _disruption(self.cluster.pod_group(key)) != _disruption(self._seen[key]):
                others.add(key)
        if not others:
            return []
        pods_on = self.nodes.pods_on
        return [row for row in self._position if any(pod.group_key in others for pod in pods_on[row])]

    def _leave(self, row: int) -> set[str]:
        """Take out what is known of a row. Returns the groups that have fewer pods now."""
        for entry in self._singles.pop(row, ()):
            del self.entries[bisect_left(self.entries, entry)]
        left = self._groups_on.pop(row, set())
        for key in left:
            del self._parts[key][row]
        return left

    def _enter(self, row: int, is_sorted: bool = True) -> set[str]:
        """Enter the pods of a row. Returns the groups that have more pods now."""
        position = self._position.get(row)
        if position is None:  # its pods are on a node that is not there
            return set()
        singles, groups = [], set()
        for index, pod in enumerate(self.nodes.pods_on[row]):
            place = pod_place(position, index)
            key = pod.group_key
            if key is not None:
                group = self._seen[key] = self.cluster.pod_group(key)
                if group is not None and group.spec.disruption_mode == DISRUPTED_TOGETHER:
                    groups.add(key)
                    self._parts.setdefault(key, {}).setdefault(row, []).append((place, pod))
                    continue
            victim = single(pod, place)
            singles.append((*victim.importance, victim))
        self._singles[row] = singles
        self._groups_on[row] = groups
        if is_sorted:
            for entry in singles:
                insort(self.entries, entry)
        else:
            self.entries += singles
        return groups

    def _regroup(self, keys: set[str]) -> None:
        """Enter groups anew whose pods are others now."""
        for key in sorted(keys):
            self._take_out(key)
            for row in self._parts[key]:
                self.touches.note(row)
            if self._parts[key]:
                self._wholes[key] = entry = self._whole(key)
                insort(self.entries, entry)
            else:
                del self._parts[key]

    def _take_out(self, key: str) -> None:
        before = self._wholes.pop(key, None)
        if before is not None:
            del self.entries[bisect_left(self.entries, before)]

    def _whole(self, key: str) -> Entry:
        parts = sorted(part for there in self._parts[key].values() for part in there)
        victim = whole(cast(PodGroup, self._seen[key]), [pod for _, pod in parts], parts[0][0])
        return (*victim.importance, victim)


_ENTRY = itemgetter(0)


def _disruption(group: PodGroup | None) -> tuple[str | None, int | None] | None:
    return None if group is None else (group.spec.disruption_mode, group.spec.priority)
