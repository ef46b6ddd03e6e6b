"""The ReplicationController controller: what ReplicaSets were before they had a selector with expressions."""

from mooring.apiserver.resource_api import ResourceApi
from mooring.controllers.lifecycle.orphans import Orphans
from mooring.controllers.workloads.owned_pods import OwnedPodIndex
from mooring.controllers.workloads.replica_sets import ReplicaSets
from mooring.model.kinds import RESOURCES

REPLICATION_CONTROLLERS = RESOURCES["", "v1", "replicationcontrollers"]


class ReplicationControllers(ReplicaSets):
    """The same rules on another kind."""

    name = "replication"

    def __init__(self, api: ResourceApi, owned_pods: OwnedPodIndex, orphans: Orphans) -> None:
        super().__init__(api, owned_pods, orphans, REPLICATION_CONTROLLERS)
