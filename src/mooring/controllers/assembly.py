"""All controllers of an embedded cluster."""

import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib import import_module
from types import ModuleType

from mooring import controllers
from mooring.apiserver.resource_api import ResourceApi
from mooring.controllers.cluster_kinds import POD_STORE, PODS
from mooring.controllers.control_loop import Controller
from mooring.controllers.index import Index, Orphans, by_controller, by_node
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
from mooring.controllers.storage.pod_claims import ClaimRelease, EphemeralClaims, PodClaims
from mooring.controllers.storage.volumes import ClaimProtection, Volumes
from mooring.controllers.workloads.cron_jobs import CronJobs
from mooring.controllers.workloads.daemon_sets import DaemonSets
from mooring.controllers.workloads.deployments import Deployments
from mooring.controllers.workloads.disruption_budgets import DisruptionBudgets
from mooring.controllers.workloads.jobs import JOBS, Jobs
from mooring.controllers.workloads.owned_pods import OwnedPodIndex
from mooring.controllers.workloads.replica_sets import REPLICA_SETS, ReplicaSets, ReplicationControllers
from mooring.controllers.workloads.revisions import REVISIONS
from mooring.controllers.workloads.stateful_sets import StatefulSets

# ---- All controllers of workloads, over the tables that they share.


def workload_controllers(api: ResourceApi) -> list[Controller]:
    store = api.store
    owned_pods, orphans = OwnedPodIndex(store), Orphans(store, PODS.storage)
    sets, orphan_sets = Index(store, REPLICA_SETS.storage, by_controller), Orphans(store, REPLICA_SETS.storage)
    revisions = Index(store, REVISIONS.storage, by_controller)
    return [
        Deployments(api, sets, orphan_sets, owned_pods),
        ReplicaSets(api, owned_pods, orphans),
        ReplicationControllers(api, owned_pods, orphans),
        StatefulSets(api, owned_pods, orphans, revisions),
        DaemonSets(api, owned_pods, orphans, revisions),
        Jobs(api, owned_pods, orphans),
        CronJobs(api, Index(store, JOBS.storage, by_controller)),
    ]


# ---- Finds controllers that need nothing but the API: a new file in a room of this package is enough to add one.


def discovered(api: ResourceApi) -> list[Controller]:
    """One of each class that a module of a room names in `CONTROLLERS`, in the order of the modules' names.

    Controllers that share tables with others, or have a settings, are put together by hand: cluster_services, workloads.
    """
    return [make(api) for module in _modules() for make in getattr(module, "CONTROLLERS", ())]


def _modules() -> Iterator[ModuleType]:
    for room in pkgutil.iter_modules(controllers.__path__, f"{controllers.__name__}."):
        if room.ispkg:
            path = import_module(room.name).__path__
            for module in pkgutil.iter_modules(path, f"{room.name}."):
                yield import_module(module.name)


# ---- Everything of a cluster that is no workload controller, put together so that they share what they look things up in.


@dataclass(frozen=True, slots=True)
class SimulationSettings:
    """How the simulated part of the cluster behaves."""

    heartbeat_s: float = 5.0
    pods: Script = field(default_factory=Script)
    root_certificate: str = ""


def cluster_services(api: ResourceApi, settings: SimulationSettings | None = None) -> list[Controller]:
    """Kubelets, node and volume controllers, garbage collection and the rest, for one ControlLoop."""
    settings = settings or SimulationSettings()
    pods_by_node = Index(api.store, POD_STORE, by_node)
    heartbeats = NodeHeartbeats(api, settings.heartbeat_s)
    return [
        Kubelets(api, pods_by_node, settings.pods),
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
        Namespaces(api, settings.root_certificate),
        *discovered(api),
    ]


def all_controllers(api: ResourceApi) -> list[Controller]:
    return [*workload_controllers(api), *cluster_services(api)]
