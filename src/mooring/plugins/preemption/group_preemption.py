"""Preemption by units: all pods on nodes as victims, in units that leave together, in the order of their importance,
kept from search to search; and which of them have to leave so that a pod group fits.

Hot: to find and sort 20,000 victims takes 60 ms; a group that preempts touches some ten nodes, and to enter their pods
anew takes 0.3 ms.

For a group, upstream searches the whole cluster: all units of lower priority leave, and the group is tried once. If it
fits, the nodes of its members stay the same from then on: units come back, the most important first and those that
break a disruption budget before the others, as long as the members still fit on their nodes.
"""

from bisect import bisect_left, insort
from collections.abc import Iterable, Mapping, Sequence, Set

import msgspec
import numpy as np

from mooring.cluster.change_log import Follower
from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.ranks import start_ns
from mooring.cluster.pods.pod_groups import GroupName
from mooring.framework.contract.group_points import GroupFitError, GroupRoom, GroupSearch, PodsLeave
from mooring.framework.contract.status import PluginError, Rejection, curable, final
from mooring.model.label_set import LabelSet
from mooring.model.pod import Pod
from mooring.plugins.preemption.victim_search import Budget, breaks_budget, is_being_preempted

# ---- The units in which preemption evicts pods: single pods, and whole groups that are disrupted together.
#
# The highest group above a pod with the disruption mode `all` leaves as one, on all nodes, or stays as one. All other pods,
# members of groups too, are units of their own. A unit counts with the priority of its root group.


Importance = tuple[int, int, int, int, int]
"""Ascending: the more important unit is the lesser."""
_MOST_PODS = 1 << 32
"""More than there are on any node."""
_POD, _GROUP, _COMPOSITE = 0, -1, -2
"""The kinds of units in the order of their importance."""


class VictimUnit(msgspec.Struct):
    """Pods that leave together: one pod, or all pods of a group on nodes."""

    pods: list[Pod]
    importance: Importance
    """Priority, kind, size, start, place."""

    @property
    def priority(self) -> int:
        return -self.importance[0]

    @property
    def is_group(self) -> bool:
        """Whether its eviction disrupts a group. Parity: that of any pod that names a group does."""
        return self.importance[1] != _POD


def pod_place(node_position: int, index: int) -> int:
    """The place of a pod among all pods, node by node in the order of upstream's snapshot. A pod that has not started counts
    as started when it is looked at, so the earlier it is met, the more important it is."""
    return node_position * _MOST_PODS + index


def single(pod: Pod, priority: int, place: int) -> VictimUnit:
    """A pod that may leave alone. Parity: any pod that names a group counts as a group, of one."""
    kind = _POD if pod.spec.scheduling_group is None else _GROUP
    return VictimUnit([pod], (-priority, kind, -1, start_ns(pod), place))


def whole(group: GroupName, priority: int, pods: list[Pod], place: int) -> VictimUnit:
    """A group that leaves as one, with its pods in the order of their places; `place` is that of the first. It started with
    the first of its pods that did."""
    kind = _COMPOSITE if group.is_composite else _GROUP
    return VictimUnit(pods, (-priority, kind, -len(pods), min(map(start_ns, pods)), place))


SplitUnits = tuple[list[tuple[VictimUnit, int]], list[VictimUnit]]
"""Units that break a disruption budget, each with how many of its pods do; the others."""


def split_by_budgets(units: Iterable[VictimUnit], budgets: Sequence[Budget]) -> SplitUnits:
    """Split units by whether they break a budget if all of them leave in this order.

    Hot: pods with the same labels have the same budgets. With 50 budgets and 4,000 pods this takes 4 ms instead of 70.
    """
    if not budgets:
        return [], [*units]
    left = [budget.allowed for budget in budgets]
    protecting: dict[LabelSet, list[int]] = {}
    breaking: list[tuple[VictimUnit, int]] = []
    others: list[VictimUnit] = []
    for unit in units:
        violations = 0
        for pod in unit.pods:
            places = protecting.get(pod.label_set)
            if places is None:
                places = protecting[pod.label_set] = [i for i, budget in enumerate(budgets) if budget.matches(pod)]
            violations += bool(places) and breaks_budget(pod, budgets, left, places)
        if violations:
            breaking.append((unit, violations))
        else:
            others.append(unit)
    return breaking, others


_FEW_GROUPS = 1024
"""Allowance for groups that are remembered after their pods have left. The order is built again when more groups are
remembered than twice the number of units plus this number."""

Entry = tuple[*Importance, VictimUnit]
"""No two units have the same place, so that entries are never compared by the unit."""
Standing = tuple[GroupName | None, int | None]
"""How the pods of a PodGroup are evicted: the group that leaves as one with them, and their priority; None: their own."""


class VictimOrder:
    """Follows the node table of one cluster, and its groups."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.nodes = cluster.nodes
        self._news = Follower(self.nodes.touches, self.nodes.pod_touches)
        self._node_set = -1
        self._position: dict[int, int] = {}
        """By row: the place of the node among all nodes."""
        self.entries: list[Entry] = []
        self._singles: dict[int, list[Entry]] = {}
        """By row: units of one pod."""
        self._parts: dict[GroupName, dict[int, list[tuple[int, Pod]]]] = {}
        """By group that leaves as one, and row: its pods there, with their places."""
        self._groups_on: dict[int, set[GroupName]] = {}
        self._wholes: dict[GroupName, Entry] = {}
        self._seen: dict[str, Standing] = {}
        """The PodGroups that pods on nodes name, as they stood."""
        self._fresh: dict[str, Standing] = {}
        """Those that were looked at in this refresh. Hot: the pods of a group ask one after another, 1.5 µs each."""
        self._groups_position = 0
        self._member_rows: set[int] = set()

    @property
    def member_rows(self) -> set[int]:
        """The rows with pods that name a group."""
        return self._member_rows

    def refresh(self) -> None:
        """Bring the order up to date with the cluster."""
        self._fresh.clear()
        touched = self._news.news()
        changed_groups = self.cluster.group_changes.since(self._groups_position)
        self._groups_position = self.cluster.group_changes.end
        is_stale = self._node_set != self.nodes.node_set_version
        is_long = len(self._seen) > 2 * len(self.entries) + _FEW_GROUPS
        if touched is None or changed_groups is None or is_stale or is_long:
            self._node_set = self.nodes.node_set_version
            self._start_over()
            return
        rows = dict.fromkeys(row for row in touched if not self._is_entered(row))
        rows.update(dict.fromkeys(self._rows_of_changed_groups(changed_groups)))
        # All leave before any enters: a pod may get the place that another one, or a group, had before.
        changed = {name for row in rows for name in self._leave(row)}
        for name in changed:
            self._take_out(name)
        for row in rows:
            changed |= self._enter(row)
        self._regroup(changed)

    def below(self, priority: int) -> list[VictimUnit]:
        """The units with a lower priority, the most important first."""
        return [entry[-1] for entry in self.entries[bisect_left(self.entries, (1 - priority,)) :]]

    def has_below(self, priority: int) -> bool:
        """Whether there are units with a lower priority."""
        return bool(self.entries) and self.entries[-1][-1].priority < priority

    def below_on(self, priority: int, rows: Iterable[int]) -> list[VictimUnit]:
        """The units with a lower priority that have pods on these rows, the most important first."""
        found = {unit.importance: unit for row in rows for unit in self.on_row(row) if unit.priority < priority}
        return [found[importance] for importance in sorted(found)]

    def on_row(self, row: int) -> list[VictimUnit]:
        """The units with pods on a row, the most important first, with their pods elsewhere."""
        found = [*self._singles.get(row, ()), *(self._wholes[name] for name in self._groups_on.get(row, ()))]
        return [entry[-1] for entry in sorted(found)]

    def groups_without_node(self) -> dict[GroupName, str]:
        """The groups that leave as one and have pods on a node that is gone, with its name."""
        nodes = self.nodes
        gone = (row for row in np.flatnonzero(~nodes.alive[: nodes.height]).tolist() if nodes.pods_on[row])
        pods = ((pod, nodes.names[row]) for row in gone for pod in nodes.pods_on[row] if pod.group_key is not None)
        found = ((self._standing(pod)[0], name) for pod, name in pods)
        return {group: name for group, name in found if group is not None}

    def fault_on(self, rows: Iterable[int], without_node: Mapping[GroupName, str]) -> str | None:
        """Parity: upstream fails where a group with pods on one of these rows has pods on a node that is gone. Returns its
        text. `without_node` is what `groups_without_node` returns."""
        for row in rows if without_node else ():
            for group in self._groups_on.get(row, set()) & without_node.keys():
                name = without_node[group]
                missing = f'nodeinfo not found for node name "{name}"'
                return f'failed to get node info for node "{name}" from snapshot: {missing}'
        return None

    def _start_over(self) -> None:
        """Build the order of units again from all rows. Pods of a group that leaves as one form a single entry."""
        row_book = self.nodes.row_book
        self._position = {row_book[name]: place for place, name in enumerate(self.nodes.order.round_robin())}
        self.entries, self._singles, self._wholes = [], {}, {}
        self._parts, self._groups_on, self._seen, self._member_rows = {}, {}, {}, set()
        for row in self._position:
            self._enter(row, is_sorted=False)
        for name in self._parts:
            self._wholes[name] = entry = self._whole(name)
            self.entries.append(entry)
        self.entries.sort()

    def _standing(self, pod: Pod) -> Standing:
        """How the pods of the group of a pod are evicted."""
        tree, priority = self.cluster.group_tree, None
        for group in tree.upwards(pod):
            priority = group.priority
        return tree.disrupted_with(pod), priority

    def _rows_of_changed_groups(self, changed: list[GroupName]) -> list[int]:
        """Rows with pods of groups that came, went, or got another mode or priority. A CompositePodGroup may change how the
        pods of any group are evicted."""
        keys = {name.key for name in changed if not name.is_composite} & self._seen.keys()
        if any(name.is_composite for name in changed):
            keys = set(self._seen)
        if not keys:
            return []
        found, pods_on = [], self.nodes.pods_on
        for row in self._position:
            named = {pod.group_key: pod for pod in pods_on[row] if pod.group_key in keys}
            if any(self._standing(pod) != self._seen.get(key or "") for key, pod in named.items()):
                found.append(row)
        return found

    def _is_entered(self, row: int) -> bool:
        """Whether a row has the pods that are known of it. Hot: half of all touches are nominations, which move no pod."""
        known, there = self._singles.get(row), self.nodes.pods_on[row]
        if known is None or len(known) != len(there) or self._groups_on[row]:
            return False
        return all(entry[-1].pods[0] is pod for entry, pod in zip(known, there, strict=True))

    def _leave(self, row: int) -> set[GroupName]:
        """Take out what is known of a row. Returns the groups that have fewer pods now."""
        for entry in self._singles.pop(row, ()):
            del self.entries[bisect_left(self.entries, entry)]
        self._member_rows.discard(row)
        left = self._groups_on.pop(row, set())
        for name in left:
            del self._parts[name][row]
        return left

    def _enter(self, row: int, is_sorted: bool = True) -> set[GroupName]:
        """Enter the pods of a row. Returns the groups that have more pods now."""
        position = self._position.get(row)
        if position is None:  # its pods are on a node that is not there
            return set()
        singles, groups = [], set()
        for index, pod in enumerate(self.nodes.pods_on[row]):
            place, priority = pod_place(position, index), pod.priority
            key = pod.group_key
            if key is not None:
                self._member_rows.add(row)
                if key not in self._fresh:
                    self._fresh[key] = self._seen[key] = self._standing(pod)
                name, of_group = self._fresh[key]
                priority = priority if of_group is None else of_group
                if name is not None:
                    groups.add(name)
                    self._parts.setdefault(name, {}).setdefault(row, []).append((place, pod))
                    continue
            unit = single(pod, priority, place)
            singles.append((*unit.importance, unit))
        self._singles[row] = singles
        self._groups_on[row] = groups
        if is_sorted:
            for entry in singles:
                insort(self.entries, entry)
        else:
            self.entries += singles
        return groups

    def _regroup(self, names: set[GroupName]) -> None:
        """Enter groups anew whose pods are others now."""
        for name in sorted(names):
            self._take_out(name)
            if self._parts[name]:
                self._wholes[name] = entry = self._whole(name)
                insort(self.entries, entry)
            else:
                del self._parts[name]

    def _take_out(self, name: GroupName) -> None:
        before = self._wholes.pop(name, None)
        if before is not None:
            del self.entries[bisect_left(self.entries, before)]

    def _whole(self, name: GroupName) -> Entry:
        parts = sorted(part for there in self._parts[name].values() for part in there)
        pods = [pod for _, pod in parts]
        _, priority = self._seen[pods[0].group_key or ""]
        unit = whole(name, pods[0].priority if priority is None else priority, pods, parts[0][0])
        return (*unit.importance, unit)


_PREFIX = "pod group preemption: "
NEVER = curable(f"{_PREFIX}not eligible due to preemptionPolicy=Never.")
NO_VICTIMS = final(f"{_PREFIX}No preemption victims found for incoming preemptor")
ONGOING = f"{_PREFIX}ongoing preemption on nominated nodes"
"""Upstream's words, here and above."""


def answer_at_once(failure: GroupFitError, goes_by_group: bool) -> GroupRoom | Rejection | None:
    """The answer for a group that may not preempt, or whose victims are leaving already; None: victims have to be searched.

    `goes_by_group`: whether the preemption policy of the group counts, not that of its pods.
    """
    policies = [failure.group.spec.preemption_policy]
    if not goes_by_group:
        policies = [pod.spec.preemption_policy for pod in failure.members]
    if "Never" in policies:
        return NEVER
    if is_ongoing(failure):
        return GroupRoom(ONGOING, {pod.key: pod.status.nominated_node_name for pod in failure.members})
    return None


def search_victims(failure: GroupFitError, order: VictimOrder, budgets: Sequence[Budget]) -> GroupSearch:
    """The victims for a group. Raises PluginError."""
    priority = failure.group.priority
    fault = order.fault_on(sorted(order.member_rows), order.groups_without_node())
    if fault is not None:
        raise PluginError(f"{_PREFIX}failed to create domain: {fault}")
    if not order.has_below(priority):
        return NO_VICTIMS
    found = yield PodsLeave(priority=priority)
    if isinstance(found, Rejection):
        return Rejection((f"{_PREFIX}{found.message}",) if found.message else (), found.code)
    breaking, others = _split(order, priority, budgets, found.rows)
    staying_away = [(unit, violations) for unit, violations in breaking if not found.reprieve(unit.pods)]
    staying_away += [(unit, 0) for unit in others if not found.reprieve(unit.pods)]
    victims = sorted((unit for unit, _ in staying_away), key=lambda unit: unit.importance)
    pods = tuple(pod for unit in victims for pod in unit.pods)
    return GroupRoom(
        f"{_PREFIX}found a placement for podgroup, preempting {len(pods)} victims",
        found.nodes,
        pods,
        violations=sum(violations for _, violations in staying_away),
        disrupted_groups=sum(unit.is_group for unit in victims),
    )


def _split(order: VictimOrder, priority: int, budgets: Sequence[Budget], rows: Set[int] | None) -> SplitUnits:
    """The units of lower priority with pods on these rows (None: on all rows), split by budgets. Units on other rows count
    for budgets as well."""
    if rows is None:
        return split_by_budgets(order.below(priority), budgets)
    near = order.below_on(priority, rows)
    if not budgets:
        return [], near
    breaking, others = split_by_budgets(order.below(priority), budgets)
    wanted = {id(unit) for unit in near}
    return [each for each in breaking if id(each[0]) in wanted], [unit for unit in others if id(unit) in wanted]


def is_ongoing(failure: GroupFitError) -> bool:
    """Whether pods of lower priority are leaving a node that a member is nominated to, because they were preempted."""
    nodes, tree = failure.cluster.nodes, failure.cluster.group_tree
    nominated = dict.fromkeys(pod.status.nominated_node_name for pod in failure.members)
    rows = (nodes.row_book.get(name or "") for name in nominated)
    return any(
        is_being_preempted(pod) and tree.victim_priority(pod) < failure.group.priority
        for row in rows
        if row is not None
        for pod in nodes.pods_on[row]
    )
