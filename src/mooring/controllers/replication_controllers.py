"""The ReplicationController controller: what ReplicaSets were before they had a selector with expressions."""

from mooring.api.access import Api
from mooring.api.resources import RESOURCES
from mooring.controllers.crews import Crews
from mooring.controllers.orphans import Orphans
from mooring.controllers.replica_sets import ReplicaSets

REPLICATION_CONTROLLERS = RESOURCES["", "v1", "replicationcontrollers"]


class ReplicationControllers(ReplicaSets):
    """The same rules on another kind."""

    name = "replication"

    def __init__(self, api: Api, crews: Crews, orphans: Orphans) -> None:
        super().__init__(api, crews, orphans, REPLICATION_CONTROLLERS)
