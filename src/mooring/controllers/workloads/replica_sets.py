"""The ReplicaSet controller, which also serves ReplicationControllers: as many pods of one template as asked for."""

from collections.abc import Iterable, Sequence

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.api.kind_spec import KindSpec
from mooring.api.kinds import RESOURCES
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_kinds import PODS
from mooring.controllers.index import Adopters, Orphans
from mooring.controllers.nodes.pod_statuses import ACTIVE, available_at_ns
from mooring.controllers.workloads.owned_pods import OwnedPodIndex, OwnedPods, first_to_go
from mooring.controllers.workloads.ownership import (
    PodControl,
    claim_pods,
    covers_own_template,
    managers_concerned,
    selector_of,
)
from mooring.kit.clock import NS_PER_S
from mooring.rules.conditions import (
    condition_of,
    with_workload_condition,
    without_condition,
    workload_condition,
)

REPLICA_SETS = RESOURCES["apps", "v1", "replicasets"]
BURST = 500
"""Pods created or deleted in one sync (upstream: BurstReplicas)."""
REST_NS = NS_PER_S // 20
"""50 ms between two syncs of one set: while 500 pods start, each of their writes concerns it."""
_FAILURE = "ReplicaFailure"


class ReplicaSets:
    """Keys are ReplicaSets. Creates missing pods, deletes surplus ones, adopts orphans, releases pods that do not
    match."""

    name = "replicaset"
    rest_ns = REST_NS

    def __init__(
        self, api: ResourceApi, owned_pods: OwnedPodIndex, orphans: Orphans, resource: KindSpec = REPLICA_SETS
    ) -> None:
        """`orphans` are the pods without a controller."""
        self.storages: Sequence[str] = (resource.storage, PODS.storage)
        self._api = api
        self._resource = resource
        self._owned_pods = owned_pods
        self._orphans = orphans
        self._adopters = Adopters(api.store, resource.storage)
        self._control = PodControl(api, resource, f"{self.name}-controller")

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        if write.storage == PODS.storage:
            return managers_concerned(write, self._resource.kind, self._adopters)
        return (write.key,)

    def sync(self, key: Key) -> int | None:
        """The status is written also if scaling was refused; then the refusal is raised, so that the loop tries again."""
        replica_set = self._api.find(self._resource, *key)
        if replica_set is None:
            return None
        selector = selector_of(replica_set)
        if not covers_own_template(replica_set, selector):
            return None
        owned = self._owned_pods.of(replica_set["metadata"]["uid"])
        claim_pods(self._api, self._resource, replica_set, selector, owned, self._orphans)
        refusal = self._try_to_scale(replica_set)
        again_ns = self._report(replica_set, refusal)
        if refusal is not None:
            raise refusal
        return again_ns

    # ---- how many pods

    def _try_to_scale(self, replica_set: JsonObject) -> ApiError | None:
        """Scale, and return a refusal instead of raising it. A set that is being deleted is not scaled."""
        if "deletionTimestamp" in replica_set["metadata"]:
            return None
        try:
            self._scale(replica_set, self._owned_pods.of(replica_set["metadata"]["uid"]))
        except ApiError as refusal:
            return refusal
        return None

    def _scale(self, replica_set: JsonObject, owned: OwnedPods) -> None:
        """Create or delete, at most BURST pods."""
        missing = replica_set["spec"]["replicas"] - owned.count(*ACTIVE)
        if missing > 0:
            pod = self._control.pod_of(replica_set, replica_set["spec"]["template"])
            self._control.create_many(replica_set, [pod] * min(missing, BURST))
        elif missing < 0:
            surplus = first_to_go(owned.active(), min(-missing, BURST), self._api.clock.now_ns())
            self._control.delete_many(replica_set, surplus)

    # ---- status

    def _report(self, replica_set: JsonObject, refusal: ApiError | None) -> int | None:
        """Write the status if it is another. Returns when the next ready pod will count as available."""
        owned = self._owned_pods.of(replica_set["metadata"]["uid"])
        available, again_ns = self._available(replica_set, owned)
        counts = {
            "fullyLabeledReplicas": _fully_labelled(replica_set, owned),
            "readyReplicas": owned.count("ready"),
            "availableReplicas": available,
        }
        # Counts of zero are left out, as the API's omitempty does, so that an unchanged status compares equal.
        status: JsonObject = {"replicas": owned.count(*ACTIVE)}
        status |= {key: number for key, number in counts.items() if number}
        if self._resource is REPLICA_SETS:
            status["terminatingReplicas"] = owned.count("terminating")
        status["observedGeneration"] = replica_set["metadata"]["generation"]
        conditions = self._conditions(replica_set, refusal)
        if conditions:
            status["conditions"] = conditions
        if status != replica_set.get("status"):
            self._api.put_status(self._resource, replica_set, status)
        return again_ns

    def _available(self, replica_set: JsonObject, owned: OwnedPods) -> tuple[int, int | None]:
        """(available pods, when the next one will be). Without minReadySeconds all ready pods are available."""
        min_ready_s = replica_set["spec"].get("minReadySeconds", 0)
        if not min_ready_s:
            return owned.count("ready"), None
        now_ns = self._api.clock.now_ns()
        moments = [at for pod in owned.active() if (at := available_at_ns(pod, min_ready_s)) is not None]
        return sum(at <= now_ns for at in moments), min((at for at in moments if at > now_ns), default=None)

    def _conditions(self, replica_set: JsonObject, refusal: ApiError | None) -> list[JsonObject]:
        """ReplicaFailure while the API server refuses pods."""
        held = replica_set.get("status", {}).get("conditions", [])
        if refusal is None:
            return without_condition(held, _FAILURE)
        if condition_of(replica_set, _FAILURE):
            return list(held)
        return with_workload_condition(
            held, workload_condition(_FAILURE, True, self._api.now(), "FailedCreate", refusal.message)
        )


def _fully_labelled(replica_set: JsonObject, owned: OwnedPods) -> int:
    """How many active pods have all labels of the template."""
    wanted = frozenset(replica_set["spec"]["template"].get("metadata", {}).get("labels", {}).items())
    return sum(number for (labels, state), number in owned.tally.items() if state in ACTIVE and wanted <= labels)


# ---- ReplicationControllers: what ReplicaSets were before they had selectors with expressions.


REPLICATION_CONTROLLERS = RESOURCES["", "v1", "replicationcontrollers"]


class ReplicationControllers(ReplicaSets):
    """The same rules for another kind, as upstream does it too."""

    name = "replication"

    def __init__(self, api: ResourceApi, owned_pods: OwnedPodIndex, orphans: Orphans) -> None:
        super().__init__(api, owned_pods, orphans, REPLICATION_CONTROLLERS)
