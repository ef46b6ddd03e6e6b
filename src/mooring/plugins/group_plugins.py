"""The plugins for PodGroups. GangScheduling: the pods of a group with a gang policy go together, or none of them goes.
TopologyPlacementGenerator: the members of a group go to nodes with one value of the label that it names.
PodGroupPodsCount: of several such values, the one where most members fit.

NodeResourcesFit scores placements as well (plugins/resources/placement_score.py).
"""

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

import numpy as np

from mooring.api.kinds.scheduling import COMPOSITE_POD_GROUP, POD_GROUP
from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.kernels import MAX_SCORE
from mooring.cluster.columns.labels import ABSENT
from mooring.cluster.nodes.table import NodeTable
from mooring.cluster.pods.pod_groups import GroupName, GroupTree, PodGroupMembers, PodGroups, name_of
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import (
    ASSIGNED_POD_ADD,
    UNSCHEDULED_POD_ADD,
    Action,
    Change,
    ClusterEvent,
    EventKeys,
    Registration,
    pods_of,
)
from mooring.framework.contract.group_points import (
    PlacementFeasiblePlugin,
    PlacementGeneratePlugin,
    PlacementProgress,
    PlacementScorePlugin,
    PodGroupAssignments,
    PodGroupContext,
    PodGroupPlacement,
    group_not_found,
)
from mooring.framework.contract.points import Handle, PermitPlugin, PreEnqueuePlugin, Scores, Wait
from mooring.framework.contract.status import Code, PluginError, Rejection, curable, final
from mooring.model.pod import Pod
from mooring.model.workloads import AnyPodGroup, CompositePodGroup, PodGroup

# ---- GangScheduling
#
# PreEnqueue holds pods back until minCount members of their group have come; with CompositePodGroups until enough groups of
# the tree have. PlacementFeasible says in an attempt for the group whether enough of it fit. Permit makes a pod that has a
# node wait until enough members have one: after an attempt for the group they do.


TIMEOUT_S = 300
"""How long Permit waits, upstream's five minutes. After that the waiting members give their nodes back."""

Counting = Callable[[PodGroupMembers], int]
"""Counts the members of a PodGroup: all that are known, or those that have a node."""


class GangScheduling(PreEnqueuePlugin, PermitPlugin, PlacementFeasiblePlugin):
    """Members and their states come from the cluster's groups; the plugin has no state of its own."""

    name = "GangScheduling"
    is_asked_by_group = True

    def __init__(self, args: Any, handle: Handle) -> None:
        self._services = handle.services
        self._is_nested = handle.feature_gates.get("CompositePodGroup", False)

    def events(self) -> Sequence[Registration]:
        """In a tree of groups any of them may complete what a pod waits for: then events name no pods."""
        of_pod, of_group = (None, None) if self._is_nested else (_GROUP_OF_POD, _GROUP)
        found = [
            Registration(UNSCHEDULED_POD_ADD, joins_group, of_pod),
            Registration(ASSIGNED_POD_ADD, joins_group, of_pod),
            Registration(ClusterEvent(POD_GROUP.event, Action.ADD), is_own_group, of_group),
            Registration(ClusterEvent(POD_GROUP.event, Action.UPDATE), lowers_minimum, of_group),
        ]
        if self._is_nested:
            found.append(Registration(ClusterEvent(COMPOSITE_POD_GROUP.event, Action.ADD), is_own_group))
        return found

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        """Messages are upstream's, `pods's` included."""
        cluster, key = self._cluster, pod.group_key
        if key is None or cluster.groups is None:
            return None
        declared = cluster.pod_group(key)
        if declared is None:
            return final(f'waiting for pods\'s pod group "{GroupName(key).name}" to appear in scheduling queue')
        if not self._is_nested or declared.parent_key is None:
            # Parity: with nested groups a basic group needs a pod, which is there.
            return None if count_all(cluster.groups.named(key)) >= declared.min_count else _TOO_FEW
        root = self._tree.root_of_pod(pod)
        if root is None:
            where = f"compositepodgroup/{declared.parent_key}"
            return final(f"failed to build hierarchy snapshot: parent composite pod group state not found for {where}")
        return None if self._is_ready(root, count_all) else final(_quorum(root))

    def placement_feasible(self, group: PodGroupContext, progress: PlacementProgress) -> Rejection | None:
        """Messages are upstream's; they say minCount for groups of groups as well."""
        needed, scheduled, remaining = _minimum(group.declared), progress.scheduled, progress.remaining
        counts = f"{scheduled} scheduled, {remaining} remaining"
        if remaining + scheduled < needed:
            return curable(f"minCount ({needed}) cannot be satisfied: {counts}")
        if scheduled < needed:
            return Rejection((f"minCount ({needed}) is not yet satisfied: {counts}",), Code.Wait)
        return None

    def enough_members(self, group: PodGroupContext) -> int | None:
        return _minimum(group.declared)

    def permit(self, context: SchedulingContext, node_name: str) -> Rejection | Wait | None:
        """Wait, or let the whole gang go."""
        pod = context.pod
        if pod.group_key is None or self._cluster.groups is None:
            return None
        declared = self._cluster.pod_group(pod.group_key)
        if declared is None:
            why = group_not_found(GroupName(pod.group_key))
            raise PluginError(f"failed to get podGroup {pod.group_key}: {why}")
        if self._is_nested and declared.parent_key is not None:
            root = self._tree.root_of_pod(pod)
            if root is None:
                raise PluginError(
                    f"failed to build hierarchy snapshot: {group_not_found(GroupName(declared.parent_key, True))}"
                )
            return self._permit(pod, root, _quorum(root))
        if declared.spec.scheduling_policy.gang is None:
            return None
        return self._permit(pod, GroupName(declared.key), "waiting for minCount pods from a gang to be scheduled")

    def _permit(self, pod: Pod, root: GroupName, waiting: str) -> Wait | None:
        """Let a pod go with all that wait in its tree of groups, if enough have a node; else it waits."""
        groups = [self._groups.named(key) for key in self._tree.leaves(root)]
        if not self._is_ready(root, count_scheduled):
            # The members without a node are needed now: without this they may sit in backoff until the timeout.
            self._services.activate([pod for group in groups for pod in group.unscheduled.values()])
            return Wait(TIMEOUT_S, waiting)
        held_back = self._services.waiting.by_id
        # Hot: after an attempt of the group no member waits, and each of them asks.
        for member_id in (each for group in groups for each in group.assumed if each != pod.id) if held_back else ():
            held = held_back.get(member_id)
            if held is not None:
                held.allow(self.name)
        return None

    def _is_ready(self, name: GroupName, count: Counting) -> bool:
        """Whether a PodGroup has enough members, or a CompositePodGroup enough groups that have."""
        declared = self._tree.find(name)
        if declared is None:
            return False
        if not name.is_composite:
            return count(self._groups.named(name.key)) >= _minimum(declared)
        return sum(self._is_ready(child, count) for child in self._tree.children(name)) >= _minimum(declared)

    @property
    def _cluster(self) -> Cluster:
        assert self._services.cluster is not None
        return self._services.cluster

    @property
    def _tree(self) -> GroupTree:
        return self._cluster.group_tree

    @property
    def _groups(self) -> PodGroups:
        """The members that the scheduler knows."""
        assert self._cluster.groups is not None, "asked only where groups are kept"
        return self._cluster.groups


_TOO_FEW = final("waiting for minCount pods from a gang to appear in scheduling queue")


def _minimum(declared: AnyPodGroup) -> int:
    assert isinstance(declared, PodGroup | CompositePodGroup)
    return declared.min_count


def _quorum(root: GroupName) -> str:
    return f'waiting for composite pod group "{root.name}" tree to meet quorum'


def count_all(members: PodGroupMembers) -> int:
    return members.member_count


def count_scheduled(members: PodGroupMembers) -> int:
    return members.scheduled_count


# ---- Queueing hints: which changes can complete the gang that a pod waits for.


def joins_group(pod: Pod, change: Change) -> bool:
    """Whether a pod came that is in the same group, or in the same tree of groups."""
    _, new = pods_of(change)
    key = None if new is None else new.group_key
    return key is not None and _is_kin(pod, key, False, change)


def is_own_group(pod: Pod, change: Change) -> bool:
    """Whether it is the pod's group that came, or one of the same tree."""
    return isinstance(change.new, AnyPodGroup) and _is_kin(pod, *name_of(change.new), change)


def lowers_minimum(pod: Pod, change: Change) -> bool:
    """Whether the pod's group, or one of the same tree, needs fewer pods than before."""
    if not (isinstance(change.old, PodGroup) and isinstance(change.new, PodGroup)):
        return is_own_group(pod, change)
    before, after = (each.spec.scheduling_policy.gang for each in (change.old, change.new))
    is_lower = before is not None and after is not None and after.min_count < before.min_count
    return is_lower and _is_kin(pod, *name_of(change.new), change)


def _is_kin(pod: Pod, key: str, is_composite: bool, change: Change) -> bool:
    """Whether the group with a key is the one of the pod, or in the same tree. A pod without a group is in no tree."""
    tree, own = change.cluster.group_tree, pod.group_key
    if own is None or not tree.is_nested:  # Hot: without names of groups
        return own == key and not is_composite
    root = tree.root_of(GroupName(own))
    return root is not None and root == tree.root_of(GroupName(key, is_composite))


def _group_keys(pod: Pod | None) -> tuple[str | None, ...]:
    return () if pod is None else (pod.group_key,)


_GROUP_OF_POD = EventKeys(_group_keys, lambda change: _group_keys(pods_of(change)[1]), by_group=True)
_GROUP = EventKeys(_group_keys, lambda change: () if change.new is None else (change.new.key,), by_group=True)


_KEPT_LABELS = 16
"""Labels whose domains are kept: clusters have a handful of topology levels."""


class TopologyPlacementGenerator(PlacementGeneratePlugin):
    """A placement for each value of the label, in the order of the values. Where members have a node already, only their
    value is left."""

    name = "TopologyPlacementGenerator"

    def __init__(self, args: Any, handle: Handle) -> None:
        self._kept: dict[str, tuple[ref[NodeTable], int, dict[str, PodGroupPlacement]]] = {}
        """By label: the domains of a table, and the end of its log of nodes that they are for."""

    def events(self) -> tuple[()]:
        """The queue does not know it as one that rejected a pod."""
        return ()

    def generate_placements(self, group: PodGroupContext, parent: PodGroupPlacement) -> Sequence[PodGroupPlacement]:
        """One placement for each domain of the topology key of the group. If members have nodes already, only their domain
        remains; without a topology key, the parent placement itself."""
        key = group.declared.topology_key
        if key is None:
            return [parent]
        scheduled = group.scheduled
        required = _domain_of(scheduled, key, group.nodes) if scheduled else None
        domains = self._domains(key, group.nodes, parent)
        if required is None:
            return list(domains.values())
        return [domains[required]] if required in domains else []

    def _domains(self, key: str, nodes: NodeTable, parent: PodGroupPlacement) -> dict[str, PodGroupPlacement]:
        """The domains by name. Hot: kept while no node changes, if the parent has all nodes: 5,000 nodes take 0.4 ms."""
        if len(parent.rows) != nodes.alive_count:
            return _group_rows(key, nodes, parent)
        kept = self._kept.get(key)
        if kept is None or kept[0]() is not nodes or kept[1] != nodes.node_touches.end:
            if len(self._kept) >= _KEPT_LABELS:
                self._kept.clear()
            kept = self._kept[key] = ref(nodes), nodes.node_touches.end, _group_rows(key, nodes, parent)
        return kept[2]


def _group_rows(key: str, nodes: NodeTable, parent: PodGroupPlacement) -> dict[str, PodGroupPlacement]:
    """The rows of each value of the label, by value in ascending order. Rows without the label are in none of them.

    Parity: upstream's order is that of a map, so any will do; this one makes runs repeatable.
    """
    column = nodes.labels.column(key)
    codes = column.codes[parent.rows]
    order = np.argsort(codes, kind="stable")
    found, starts = np.unique(codes[order], return_index=True)
    parts = zip(found.tolist(), np.split(parent.rows[order], starts)[1:], strict=True)  # the first part is empty
    by_name = {str(column.values[code]): rows for code, rows in parts if code != ABSENT}
    return {name: PodGroupPlacement(name, by_name[name]) for name in sorted(by_name)}


def _domain_of(pods: Sequence[Pod], key: str, nodes: NodeTable) -> str:
    """The domain of members that have a node. Errors are upstream's, word for word."""
    column, domain = nodes.labels.column(key), ""
    for pod in pods:
        row = nodes.row_book.get(pod.spec.node_name)
        if row is None or not nodes.alive[row]:
            where = f'getting node for pod {pod.key}: nodeinfo not found for node name "{pod.spec.node_name}"'
            raise PluginError(f"cannot determine domain for already scheduled pods: {where}")
        code = int(column.codes[row])
        if code == ABSENT:
            text = f"no topology domain found for pod {pod.key}"
            raise PluginError(f"cannot determine domain for already scheduled pods: {text}")
        found = str(column.values[code])
        if domain not in ("", found):
            text = f"more than 1 domain found for pod group: {domain}, {found}"
            raise PluginError(f"cannot determine domain for already scheduled pods: {text}")
        domain = found
    return domain


class PodGroupPodsCount(PlacementScorePlugin):
    """Scores the share of members that have a node, of the largest number in any placement."""

    name = "PodGroupPodsCount"

    def events(self) -> tuple[()]:
        return ()

    def grows_with_pods(self, pods: Sequence[Pod]) -> bool:
        return True

    def score_placements(self, group: PodGroupContext, candidates: Sequence[PodGroupAssignments]) -> Scores:
        """Members that had a node before count as well, so that one more or less changes little."""
        scheduled = len(group.scheduled)
        return np.array([scheduled + len(candidate.pods) for candidate in candidates], np.int64)

    def normalize_placements(self, group: PodGroupContext, scores: Scores) -> Scores:
        most = int(scores.max(initial=0))
        if not most:
            raise PluginError("no pods from pod group are assigned to any of the candidate placements")
        return scores * MAX_SCORE // most


PLUGINS = (GangScheduling, PodGroupPodsCount, TopologyPlacementGenerator)
