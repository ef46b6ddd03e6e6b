"""The ReplicationController controller: what ReplicaSets were before they had a selector with expressions."""

from mooring.apiserver.access import Api
from mooring.controllers.lifecycle.orphans import Orphans
from mooring.controllers.workloads.crews import Crews
from mooring.controllers.workloads.replica_sets import ReplicaSets
from mooring.model.resources import RESOURCES

REPLICATION_CONTROLLERS = RESOURCES["", "v1", "replicationcontrollers"]


class ReplicationControllers(ReplicaSets):
    """The same rules on another kind."""

    name = "replication"

    def __init__(self, api: Api, crews: Crews, orphans: Orphans) -> None:
        super().__init__(api, crews, orphans, REPLICATION_CONTROLLERS)
