"""GangScheduling: the pods of a PodGroup with a gang policy go together, or none of them goes.

A pod is held back until its group is there and enough members have come. It may go to its node when enough of them have
one. An attempt for the whole group finds that out (scheduler/groups/attempt.py), so that no member holds room meanwhile.
"""

from collections.abc import Sequence
from typing import Any, cast

from mooring.cluster.pods.pod_groups import PodGroupMembers
from mooring.framework.context import GROUP_TRIAL, SchedulingContext
from mooring.framework.events import POD, Action, ClusterEvent, Registration
from mooring.framework.points import Handle, PermitPlugin, PreEnqueuePlugin, Wait
from mooring.framework.status import PluginError, Rejection, final
from mooring.model.kinds.scheduling import POD_GROUP
from mooring.model.pod import Pod
from mooring.model.workloads import PodGroup
from mooring.plugins.groups.gang_scheduling_hints import is_own_group, joins_group

TIMEOUT_S = 300


class GangScheduling(PreEnqueuePlugin, PermitPlugin):
    name = "GangScheduling"

    def __init__(self, args: Any, handle: Handle) -> None:
        self._services = handle.services

    def events(self) -> Sequence[Registration]:
        return (
            Registration(ClusterEvent(POD, Action.ADD), joins_group),
            Registration(ClusterEvent(POD_GROUP.event, Action.ADD), is_own_group),
        )

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
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
                self._services.activate(list(group.unscheduled.values()))
            return Wait(TIMEOUT_S, "waiting for minCount pods from a gang to be scheduled")
        if not is_trial:
            self._allow_others(pod, group)
        return None

    def _allow_others(self, pod: Pod, group: PodGroupMembers) -> None:
        """Let those go that wait for the gang to be complete."""
        for member_id in group.assumed:
            waiting = self._services.waiting.get(member_id) if member_id != pod.id else None
            if waiting is not None:
                waiting.allow(self.name)

    def _is_member(self, pod: Pod) -> bool:
        """Whether the pod is scheduled with a group: never where groups are not kept."""
        cluster = self._services.cluster
        return cluster is not None and cluster.groups is not None and pod.group_key is not None

    def _declared(self, pod: Pod) -> PodGroup | None:
        assert self._services.cluster is not None
        return cast("PodGroup | None", self._services.cluster.objects[PodGroup].get(pod.group_key or ""))

    def _group(self, pod: Pod) -> PodGroupMembers:
        assert self._services.cluster is not None and self._services.cluster.groups is not None
        return self._services.cluster.groups.of(pod) or PodGroupMembers()
