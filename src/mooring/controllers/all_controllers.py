"""Puts the controllers of an embedded cluster together, with the indexes that they share.

A controller that needs nothing but the API lists its class in `CONTROLLERS` of its module and is found. One that shares
an index with others is built by hand below.
"""

import pkgutil
from collections.abc import Iterator
from importlib import import_module
from types import ModuleType

from mooring import controllers
from mooring.apiserver.resource_api import ResourceApi
from mooring.controllers.cluster_writes import JOBS, POD_STORE, REPLICA_SETS, REVISIONS
from mooring.controllers.control_loop import Controller
from mooring.controllers.index import Index, Orphans, by_controller, by_node
from mooring.controllers.lifecycle.garbage import StrandedPods
from mooring.controllers.nodes.kubelets import Kubelets
from mooring.controllers.nodes.node_heartbeats import NodeHeartbeats
from mooring.controllers.nodes.node_lifecycle import NodeLifecycle, TaintEviction
from mooring.controllers.nodes.pod_life import Script
from mooring.controllers.workloads.cron_jobs import CronJobs
from mooring.controllers.workloads.daemon_sets import DaemonSets
from mooring.controllers.workloads.deployments import Deployments
from mooring.controllers.workloads.jobs import Jobs
from mooring.controllers.workloads.owned_pods import OwnedPodIndex
from mooring.controllers.workloads.replica_sets import ReplicaSets, ReplicationControllers
from mooring.controllers.workloads.stateful_sets import StatefulSets
from mooring.controllers.workloads.workload_control import WorkloadIndexes


def all_controllers(api: ResourceApi) -> list[Controller]:
    """Every controller, for one ControlLoop."""
    return [*workload_controllers(api), *cluster_services(api)]


def workload_controllers(api: ResourceApi) -> list[Controller]:
    """Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and CronJobs."""
    store = api.store
    indexes = WorkloadIndexes(
        OwnedPodIndex(store), Orphans(store, POD_STORE), Index(store, REVISIONS.storage, by_controller)
    )
    sets, orphan_sets = Index(store, REPLICA_SETS.storage, by_controller), Orphans(store, REPLICA_SETS.storage)
    return [
        Deployments(api, sets, orphan_sets, indexes.owned_pods),
        *(make(api, indexes) for make in (ReplicaSets, ReplicationControllers, StatefulSets, DaemonSets, Jobs)),
        CronJobs(api, Index(store, JOBS.storage, by_controller)),
    ]


# ---- The rest of the control plane, and the simulated nodes.


def cluster_services(api: ResourceApi, usual: Script | None = None) -> list[Controller]:
    """Kubelets, node and volume controllers, garbage collection and the rest. `usual` is how pods behave whose annotations
    do not say otherwise."""
    pods_by_node = Index(api.store, POD_STORE, by_node)
    heartbeats = NodeHeartbeats(api)
    return [
        Kubelets(api, pods_by_node, usual),
        heartbeats,
        NodeLifecycle(api, pods_by_node, heartbeats.grace_ns),
        TaintEviction(api, pods_by_node),
        StrandedPods(api, pods_by_node),
        *discovered(api),
    ]


# ---- Discovery: a new file in a room of this package is enough to add a controller.


def discovered(api: ResourceApi) -> list[Controller]:
    """One of each class that a module of a room lists in `CONTROLLERS`, in the order of the modules' names."""
    return [make(api) for module in _modules() for make in getattr(module, "CONTROLLERS", ())]


def _modules() -> Iterator[ModuleType]:
    """All modules of all rooms. They are imported only here, so that a module that no other imports is found too."""
    for room in pkgutil.iter_modules(controllers.__path__, f"{controllers.__name__}."):
        if room.ispkg:
            path = import_module(room.name).__path__
            for module in pkgutil.iter_modules(path, f"{room.name}."):
                yield import_module(module.name)
