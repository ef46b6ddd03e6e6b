"""The plugins for PodGroups. GangScheduling: the pods of a group with a gang policy go together, or none of them goes.
TopologyPlacementGenerator: the members of a group go to nodes with one value of the label that it names.
PodGroupPodsCount: of several such values, the one where most members fit.

NodeResourcesFit scores placements as well (plugins/resources/placement_score.py).
"""

from collections.abc import Sequence
from typing import Any
from weakref import ref

import numpy as np

from mooring.api.kinds.scheduling import POD_GROUP
from mooring.cluster.columns.kernels import MAX_SCORE
from mooring.cluster.columns.labels import ABSENT
from mooring.cluster.nodes.table import NodeTable
from mooring.cluster.pods.pod_groups import PodGroupMembers
from mooring.framework.contract.context import GROUP_TRIAL, SchedulingContext
from mooring.framework.contract.events import POD, Action, Change, ClusterEvent, EventKeys, Registration, pods_of
from mooring.framework.contract.group_points import (
    PlacementGeneratePlugin,
    PlacementScorePlugin,
    PodGroupAssignments,
    PodGroupContext,
    PodGroupPlacement,
)
from mooring.framework.contract.points import Handle, PermitPlugin, PreEnqueuePlugin, Scores, Wait
from mooring.framework.contract.status import PluginError, Rejection, final
from mooring.model.pod import Pod
from mooring.model.workloads import PodGroup

# ---- GangScheduling
#
# PreEnqueue holds a pod back until its PodGroup exists and minCount members have come. Permit makes a pod that has a
# node wait until minCount members have one. An attempt for the whole group finds that out first
# (scheduler/groups/group_attempt.py), so that members of an incomplete gang do not hold room while they wait for each
# other.


TIMEOUT_S = 300
"""How long Permit waits, upstream's five minutes. After that the waiting members give their nodes back."""


class GangScheduling(PreEnqueuePlugin, PermitPlugin):
    """Members and their states come from the cluster's groups; the plugin has no state of its own."""

    name = "GangScheduling"

    def __init__(self, args: Any, handle: Handle) -> None:
        self._services = handle.services

    def events(self) -> Sequence[Registration]:
        return (
            Registration(ClusterEvent(POD, Action.ADD), joins_group, _GROUP_OF_POD),
            Registration(ClusterEvent(POD_GROUP.event, Action.ADD), is_own_group, _GROUP),
        )

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        """Messages are upstream's, `pods's` included."""
        if not self._is_member(pod):
            return None
        declared = self._declared(pod)
        if declared is None:
            group = pod.spec.scheduling_group
            name = "" if group is None else group.pod_group_name
            return final(f'waiting for pods\'s pod group "{name}" to appear in scheduling queue')
        gang = declared.spec.scheduling_policy.gang
        if gang is not None and self._group(pod).member_count < gang.min_count:
            return final("waiting for minCount pods from a gang to appear in scheduling queue")
        return None

    def permit(self, context: SchedulingContext, node_name: str) -> Rejection | Wait | None:
        """Wait, or let the whole gang go. In a trial of a group (GROUP_TRIAL) it only answers: a trial must not change
        the queue."""
        pod = context.pod
        if not self._is_member(pod):
            return None
        declared = self._declared(pod)
        if declared is None:
            raise PluginError(f'podgroup.scheduling.k8s.io "{pod.group_key}" not found')
        gang = declared.spec.scheduling_policy.gang
        if gang is None:
            return None
        group, is_trial = self._group(pod), context.state.find(GROUP_TRIAL)
        if group.scheduled_count < gang.min_count:
            if not is_trial:
                # The members without a node are needed now: without this they may sit in backoff until the timeout.
                self._services.activate(list(group.unscheduled.values()))
            return Wait(TIMEOUT_S, "waiting for minCount pods from a gang to be scheduled")
        if not is_trial:
            self._allow_others(pod, group)
        return None

    def enough_members(self, pod: Pod) -> int | None:
        """minCount of a gang; any member goes where there is none."""
        declared = self._declared(pod) if self._is_member(pod) else None
        if declared is None:
            return None
        gang = declared.spec.scheduling_policy.gang
        return 1 if gang is None else gang.min_count

    def _allow_others(self, pod: Pod, group: PodGroupMembers) -> None:
        """Release the members that wait in Permit: this pod completes the gang."""
        for member_id in group.assumed:
            waiting = self._services.waiting.get(member_id) if member_id != pod.id else None
            if waiting is not None:
                waiting.allow(self.name)

    def _is_member(self, pod: Pod) -> bool:
        """Whether the pod is scheduled with a group: never where groups are not kept."""
        cluster = self._services.cluster
        return cluster is not None and cluster.groups is not None and pod.group_key is not None

    def _declared(self, pod: Pod) -> PodGroup | None:
        """The pod's PodGroup object; None while it does not exist."""
        assert self._services.cluster is not None
        return self._services.cluster.pod_group(pod.group_key or "")

    def _group(self, pod: Pod) -> PodGroupMembers:
        """The members that the scheduler knows; empty if it knows none."""
        assert self._services.cluster is not None and self._services.cluster.groups is not None
        return self._services.cluster.groups.of(pod) or PodGroupMembers()


# ---- Queueing hints: which changes can complete the gang that a pod waits for.


def joins_group(pod: Pod, change: Change) -> bool:
    """Whether a pod came that is in the same group."""
    _, new = pods_of(change)
    return new is not None and new.group_key == pod.group_key


def is_own_group(pod: Pod, change: Change) -> bool:
    """Whether it is the pod's group that came."""
    return change.new is not None and change.new.key == pod.group_key


def _group_keys(pod: Pod | None) -> tuple[str | None, ...]:
    return () if pod is None else (pod.group_key,)


_GROUP_OF_POD = EventKeys(_group_keys, lambda change: _group_keys(pods_of(change)[1]))
_GROUP = EventKeys(_group_keys, lambda change: () if change.new is None else (change.new.key,))


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
        members = group.members
        scheduled = [*members.assumed.values(), *members.assigned.values()]
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
    parts = zip(found.tolist(), np.split(parent.rows[order], starts[1:]), strict=True)
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
        scheduled = group.members.scheduled_count
        return np.array([scheduled + len(candidate.pods) for candidate in candidates], np.int64)

    def normalize_placements(self, group: PodGroupContext, scores: Scores) -> Scores:
        most = int(scores.max(initial=0))
        if not most:
            raise PluginError("no pods from pod group are assigned to any of the candidate placements")
        return scores * MAX_SCORE // most


PLUGINS = (GangScheduling, PodGroupPodsCount, TopologyPlacementGenerator)
