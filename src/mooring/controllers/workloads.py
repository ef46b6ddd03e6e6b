"""All controllers of workloads, over the tables that they share."""

from mooring.api.access import Api
from mooring.controllers.control_loop import Controller
from mooring.controllers.crews import Crews
from mooring.controllers.cron_jobs import CronJobs
from mooring.controllers.daemon_sets import DaemonSets
from mooring.controllers.deployments import Deployments
from mooring.controllers.index import Index, by_controller
from mooring.controllers.jobs import JOBS, Jobs
from mooring.controllers.orphans import Orphans
from mooring.controllers.pod_control import PODS
from mooring.controllers.replica_sets import REPLICA_SETS, ReplicaSets
from mooring.controllers.replication_controllers import ReplicationControllers
from mooring.controllers.revisions import REVISIONS
from mooring.controllers.stateful_sets import StatefulSets


def workload_controllers(api: Api) -> list[Controller]:
    store = api.store
    crews, orphans = Crews(store), Orphans(store, PODS.storage)
    sets, orphan_sets = Index(store, REPLICA_SETS.storage, by_controller), Orphans(store, REPLICA_SETS.storage)
    revisions = Index(store, REVISIONS.storage, by_controller)
    return [
        Deployments(api, sets, orphan_sets, crews),
        ReplicaSets(api, crews, orphans),
        ReplicationControllers(api, crews, orphans),
        StatefulSets(api, crews, orphans, revisions),
        DaemonSets(api, crews, orphans, revisions),
        Jobs(api, crews, orphans),
        CronJobs(api, Index(store, JOBS.storage, by_controller)),
    ]
