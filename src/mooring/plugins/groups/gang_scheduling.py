"""GangScheduling: the pods of a PodGroup with a gang policy go together, or none of them goes.

PreEnqueue holds a pod back until its PodGroup exists and minCount members have come. Permit makes a pod that has a node
wait until minCount members have one. An attempt for the whole group finds that out first (scheduler/groups/attempt.py),
so that members of an incomplete gang do not hold room while they wait for each other.
"""

from collections.abc import Sequence
from typing import Any

from mooring.api.kinds.scheduling import POD_GROUP
from mooring.cluster.pods.pod_groups import PodGroupMembers
from mooring.framework.contract.context import GROUP_TRIAL, SchedulingContext
from mooring.framework.contract.events import POD, Action, Change, ClusterEvent, EventKeys, Registration
from mooring.framework.contract.points import Handle, PermitPlugin, PreEnqueuePlugin, Wait
from mooring.framework.contract.status import PluginError, Rejection, final
from mooring.model.pod import Pod
from mooring.model.workloads import PodGroup
from mooring.plugins.hints import pods_of

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


PLUGINS = (GangScheduling,)
