"""Everything of a cluster that is no workload controller, put together so that they share what they look things up in."""

from dataclasses import dataclass, field

from mooring.apiserver.resource_api import ResourceApi
from mooring.controllers.cluster_kinds import POD_STORE
from mooring.controllers.control_loop import Controller
from mooring.controllers.discovery import discovered
from mooring.controllers.index import Index, by_node
from mooring.controllers.lifecycle.garbage import Garbage
from mooring.controllers.lifecycle.namespaces import Namespaces
from mooring.controllers.lifecycle.pod_garbage import FinishedPods, StrandedPods
from mooring.controllers.nodes.devices import Devices
from mooring.controllers.nodes.kubelets import Kubelets
from mooring.controllers.nodes.node_heartbeats import NodeHeartbeats
from mooring.controllers.nodes.node_lifecycle import NodeLifecycle
from mooring.controllers.nodes.pod_scripts import Script
from mooring.controllers.nodes.taint_eviction import TaintEviction
from mooring.controllers.storage.claim_binding import ClaimBinding
from mooring.controllers.storage.ephemeral_claims import EphemeralClaims
from mooring.controllers.storage.resource_claims import ClaimRelease, PodClaims
from mooring.controllers.storage.volumes import ClaimProtection, Volumes
from mooring.controllers.workloads.disruption_budgets import DisruptionBudgets


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """How the simulated part of the cluster behaves."""

    heartbeat_s: float = 5.0
    pods: Script = field(default_factory=Script)
    root_certificate: str = ""


def cluster_services(api: ResourceApi, pace: SimulationSettings | None = None) -> list[Controller]:
    """Kubelets, node and volume controllers, garbage collection and the rest, for one ControlLoop."""
    pace = pace or SimulationSettings()
    pods_by_node = Index(api.store, POD_STORE, by_node)
    heartbeats = NodeHeartbeats(api, pace.heartbeat_s)
    return [
        Kubelets(api, pods_by_node, pace.pods),
        heartbeats,
        NodeLifecycle(api, pods_by_node, heartbeats.grace_ns),
        TaintEviction(api, pods_by_node),
        StrandedPods(api, pods_by_node),
        FinishedPods(api),
        DisruptionBudgets(api),
        ClaimBinding(api),
        Volumes(api),
        ClaimProtection(api),
        EphemeralClaims(api),
        Devices(api),
        PodClaims(api),
        ClaimRelease(api),
        Garbage(api),
        Namespaces(api, pace.root_certificate),
        *discovered(api),
    ]
