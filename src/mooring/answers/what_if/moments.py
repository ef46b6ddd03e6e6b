"""What a cluster looks like at one moment: where each pod is, why the others are pending, and how full nodes are."""

from dataclasses import dataclass

from mooring.answers.utilisation import Utilisation, utilisation_of
from mooring.answers.what_if.changing_cluster import ChangingCluster
from mooring.model.pod import Pod
from mooring.rules.conditions import typed_condition
from mooring.scheduler.failure import POD_SCHEDULED


@dataclass(frozen=True, slots=True)
class ClusterMoment:
    """The pods of a cluster that has come to rest."""

    nodes: dict[str, str]
    """Pod -> its node; empty for a pod that is pending. Without pods that have finished or are being deleted unplaced."""
    utilisation: Utilisation


def moment_of(cluster: ChangingCluster) -> ClusterMoment:
    pods = [pod for pod in cluster.pods() if pod.spec.node_name or not pod.is_terminating]
    places = {pod.key: pod.spec.node_name for pod in pods}
    scheduler = cluster.simulated.scheduler
    for pod in pods:
        counted = scheduler.placed(pod.id) if not pod.spec.node_name else None
        if counted is not None and scheduler.waiting.get(pod.id) is None:
            places[pod.key] = counted.spec.node_name  # a Bind plugin bound it without the driver
    return ClusterMoment(places, utilisation_of(cluster.simulated.cluster.nodes))


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
