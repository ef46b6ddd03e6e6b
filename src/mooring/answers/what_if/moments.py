"""What a cluster looks like at one moment: where each pod is, why the others are pending, and how full nodes are."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mooring.answers.utilisation import Utilisation, utilisation_of
from mooring.answers.what_if.changing_cluster import ChangingCluster
from mooring.model.pod import Pod
from mooring.rules.conditions import typed_condition
from mooring.scheduler.failure import POD_SCHEDULED
from mooring.sim.group_states import GroupState, group_reason, group_states


@dataclass(frozen=True, slots=True)
class ClusterMoment:
    """The pods of a cluster that has come to rest."""

    nodes: dict[str, str]
    """Pod -> its node; empty for a pod that is pending. Without pods that have finished or are being deleted unplaced."""
    utilisation: Utilisation
    groups: Mapping[str, GroupState] = field(default_factory=dict)
    """Pod groups by key, if the scheduler heeds groups."""


def moment_of(cluster: ChangingCluster) -> ClusterMoment:
    pods = [pod for pod in cluster.pods() if pod.spec.node_name or not pod.is_terminating]
    places = {pod.key: pod.spec.node_name for pod in pods}
    scheduler = cluster.simulated.scheduler
    for pod in pods:
        counted = scheduler.placed(pod.id) if not pod.spec.node_name else None
        if counted is not None and scheduler.waiting.get(pod.id) is None:
            places[pod.key] = counted.spec.node_name  # a Bind plugin bound it without the driver
    return ClusterMoment(places, utilisation_of(cluster.simulated.cluster.nodes), _groups(cluster, pods, places))


def _groups(cluster: ChangingCluster, pods: Sequence[Pod], places: Mapping[str, str]) -> dict[str, GroupState]:
    states = group_states(cluster.simulated.cluster, [(pod, places[pod.key]) for pod in pods])
    for state in states.values():
        if not state.is_placed:
            state.message = group_reason(why_pending(cluster, key) for key, node in state.nodes.items() if not node)
    return states


def why_pending(cluster: ChangingCluster, key: str) -> str:
    """Why a pod has no node."""
    pod = cluster.find("Pod", key)
    if not isinstance(pod, Pod):
        return ""
    simulated = cluster.simulated
    if simulated.runner(pod) is None:
        return f'no profile has the scheduler name "{pod.spec.scheduler_name}"'
    waiting = simulated.scheduler.waiting.get(pod.id)
    if waiting is not None:
        return f"has room on {waiting.node_name} and waits for {', '.join(waiting.pending_plugins)}"
    entry = simulated.scheduler.queued(key)
    if entry is not None and entry.is_gated:
        return entry.gating_message
    condition = typed_condition(pod.status.conditions, POD_SCHEDULED)
    return (condition.message if condition is not None else None) or "it was not attempted"
