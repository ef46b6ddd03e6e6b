"""All controllers of workloads, over the tables that they share."""

from mooring.apiserver.resource_api import ResourceApi
from mooring.controllers.control_loop import Controller
from mooring.controllers.index import Index, by_controller
from mooring.controllers.lifecycle.orphans import Orphans
from mooring.controllers.workloads.cron_jobs import CronJobs
from mooring.controllers.workloads.daemon_sets import DaemonSets
from mooring.controllers.workloads.deployments import Deployments
from mooring.controllers.workloads.jobs import JOBS, Jobs
from mooring.controllers.workloads.owned_pods import OwnedPodIndex
from mooring.controllers.workloads.pod_control import PODS
from mooring.controllers.workloads.replica_sets import REPLICA_SETS, ReplicaSets
from mooring.controllers.workloads.replication_controllers import ReplicationControllers
from mooring.controllers.workloads.revisions import REVISIONS
from mooring.controllers.workloads.stateful_sets import StatefulSets


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
