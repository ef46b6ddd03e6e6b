"""TeamQueues at its three extension points: PreEnqueue, QueueSort and PostFilter."""

from dataclasses import dataclass
from typing import Any

from mooring.plugin import (
    POD_GROUP,
    SKIP,
    UNSCHEDULED_POD,
    Action,
    ClusterEvent,
    FitError,
    GroupFitError,
    GroupSearch,
    Handle,
    NodeTable,
    Nomination,
    NoRoom,
    Pod,
    PodGroupPostFilterPlugin,
    PostFilterPlugin,
    PreEnqueuePlugin,
    PreFilterPlugin,
    QueueSortPlugin,
    Registration,
    Rejection,
    SchedulerServices,
    SchedulingContext,
    Skip,
    final,
    is_own_group,
    joins_group,
)

from .ledger import TeamLedger
from .reclaim import Reclaim
from .teams import Teams
from .usage import TeamUsage


@dataclass(slots=True)
class TeamState:
    """What the plugins of all profiles of a scheduler share. It is one of the scheduler's listeners, where they find it."""

    ledger: TeamLedger
    reclaim: Reclaim

    def __call__(self, old: Pod | None, new: Pod | None) -> None:
        self.ledger.pod_changed(old, new)


class TeamQueues(PreEnqueuePlugin, QueueSortPlugin, PreFilterPlugin, PostFilterPlugin, PodGroupPostFilterPlugin):
    """PreEnqueue holds pods back for which their team has no quota and may borrow none. QueueSort puts the pods of the team
    with the smallest share first. PostFilter, and PodGroupPostFilter for groups, reclaim quota from teams that have borrowed.

    One member that is held back holds its whole group back. So once a part of a group has quota, the other members pass
    PreEnqueue as well, and PreFilter rejects them.
    """

    name = "TeamQueues"

    def __init__(self, args: Any, handle: Handle) -> None:
        state = _shared_state(Teams.read(args), handle.services)
        self.ledger, self._reclaim = state.ledger, state.reclaim

    def events(self) -> list[Registration]:
        """Members complete a gang. Nothing else: the ledger follows all pods, and activates those that it admits. A hint
        would be asked about each pod that waits, with each pod that leaves."""
        return [
            Registration(ClusterEvent(UNSCHEDULED_POD, Action.ADD), joins_group),
            Registration(ClusterEvent(POD_GROUP.event, Action.ADD), is_own_group),
        ]

    def pre_enqueue(self, pod: Pod) -> Rejection | None:
        if self._reclaim.is_evicting(pod):
            return final("waiting for the preemption for this pod to be finished")
        reason = self.ledger.ask(pod)
        return None if reason is None or self.ledger.has_admitted_kin(pod) else final(reason)

    def pre_filter(self, context: SchedulingContext) -> Rejection | Skip | None:
        """Reject a member without quota that is tried with those of its group that have quota."""
        reason = self.ledger.ask(context.pod) if context.pod.group_key is not None else None
        return SKIP if reason is None else final(reason)

    def sort_key(self, pod: Pod, queued_at: float) -> tuple[float, int, float]:
        return self.ledger.share_before(pod), -pod.priority, queued_at

    def post_filter(self, failure: FitError) -> Nomination | NoRoom:
        return self._reclaim.find(failure, self._usage_on(failure.context.nodes))

    def pod_group_post_filter(self, failure: GroupFitError) -> GroupSearch:
        return self._reclaim.find_for_group(failure, self._usage_on(failure.cluster.nodes))

    def eviction_began(self, pod: Pod) -> None:
        self._reclaim.eviction_began(pod)

    def eviction_ended(self, pod: Pod) -> None:
        self._reclaim.eviction_ended(pod)

    def _usage_on(self, nodes: NodeTable) -> TeamUsage:
        """What teams have on these nodes: a what-if has nodes of its own."""
        usage = self.ledger.usage
        if usage.nodes is not nodes:
            usage = TeamUsage(self.ledger.teams, nodes)
        usage.refresh()
        return usage


def _shared_state(teams: Teams, services: SchedulerServices) -> TeamState:
    found = next((listener for listener in services.pod_listeners if isinstance(listener, TeamState)), None)
    if found is None:
        ledger = TeamLedger(teams, services.cluster, services.now_ns, services.activate)
        found = TeamState(ledger, Reclaim(teams))
        services.pod_listeners.append(found)
    elif found.ledger.teams != teams:
        raise ValueError("teams: Invalid value: all profiles must have the same teams")
    return found
