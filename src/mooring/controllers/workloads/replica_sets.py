"""The ReplicaSet controller, which also serves ReplicationControllers: as many pods of one template as asked for."""

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.apiserver.store import Key
from mooring.controllers.cluster_writes import REPLICA_SETS, REPLICATION_CONTROLLERS
from mooring.controllers.nodes.pod_statuses import ACTIVE, availability, is_terminating
from mooring.controllers.workloads.owned_pods import OwnedPods, first_to_go
from mooring.controllers.workloads.workload_control import BURST, REST_NS, PodWorkloads
from mooring.rules.conditions import condition_of, with_workload_condition, without_condition, workload_condition

_FAILURE = "ReplicaFailure"


class ReplicaSets(PodWorkloads):
    """Keys are ReplicaSets. Creates missing pods, deletes surplus ones, adopts orphans, releases pods that do not
    match."""

    name = "replicaset"
    resource = REPLICA_SETS
    rest_ns = REST_NS

    def sync(self, key: Key) -> int | None:
        """The status is written also if scaling was refused; then the refusal is raised, so that the loop tries again."""
        replica_set = self._api.find(self.resource, *key)
        if replica_set is None or not self.claim_pods(replica_set):
            return None
        refusal = None
        try:
            if not is_terminating(replica_set):
                self._scale(replica_set, self.pods_of(replica_set))
        except ApiError as refused:
            refusal = refused
        again_ns = self._report(replica_set, refusal)
        if refusal is not None:
            raise refusal
        return again_ns

    def _scale(self, replica_set: JsonObject, owned: OwnedPods) -> None:
        """Create or delete, at most BURST pods."""
        missing = replica_set["spec"]["replicas"] - owned.count(*ACTIVE)
        if missing > 0:
            self.create_many(replica_set, [self.pod_of(replica_set)] * min(missing, BURST))
        elif missing < 0:
            surplus = first_to_go(owned.active(), min(-missing, BURST), self._api.clock.now_ns())
            self.delete_many(replica_set, surplus)

    # ---- status

    def _report(self, replica_set: JsonObject, refusal: ApiError | None) -> int | None:
        """Write the status if it is another. Returns when the next ready pod will count as available."""
        owned = self.pods_of(replica_set)
        available, again_ns = self._available(replica_set, owned)
        counts = {
            "fullyLabeledReplicas": _fully_labelled(replica_set, owned),
            "readyReplicas": owned.count("ready"),
            "availableReplicas": available,
        }
        # Counts of zero are left out, as the API's omitempty does, so that an unchanged status compares equal.
        status: JsonObject = {"replicas": owned.count(*ACTIVE)}
        status |= {key: number for key, number in counts.items() if number}
        if self.resource is REPLICA_SETS:
            status["terminatingReplicas"] = owned.count("terminating")
        status["observedGeneration"] = replica_set["metadata"]["generation"]
        conditions = self._conditions(replica_set, refusal)
        if conditions:
            status["conditions"] = conditions
        self.report(replica_set, status)
        return again_ns

    def _available(self, replica_set: JsonObject, owned: OwnedPods) -> tuple[int, int | None]:
        """The number of available pods, and when the next one will be. Without minReadySeconds all ready pods are."""
        min_ready_s = replica_set["spec"].get("minReadySeconds", 0)
        if not min_ready_s:
            return owned.count("ready"), None
        return availability(owned.active(), min_ready_s, self._api.clock.now_ns())

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


class ReplicationControllers(ReplicaSets):
    """Keys are ReplicationControllers, the predecessors of ReplicaSets: upstream, too, serves them by the same rules."""

    name = "replication"
    resource = REPLICATION_CONTROLLERS
