"""The Deployment controller: moves pods from the sets of old templates to that of the present one, and keeps the old
sets as history."""

from collections.abc import Iterable, Sequence

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.apiserver.admission.object_meta import Deletion
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_writes import record_event
from mooring.controllers.index import Adopters, Index, Orphans, equal_labels
from mooring.controllers.workloads import rollout_numbers as numbers
from mooring.controllers.workloads.deployment_sets import (
    DEPLOYMENTS,
    DeploymentSync,
    ReplicaSetWriter,
    available_of,
    is_recreated,
    is_rescaled,
    look_at,
    most_before,
    replicas_of,
    revision_of,
)
from mooring.controllers.workloads.deployment_status import (
    PROGRESSING,
    counted,
    has_deadline,
    is_complete,
    late_at_ns,
    note,
    note_pause,
    progressed,
)
from mooring.controllers.workloads.owned_pods import OwnedPodIndex
from mooring.controllers.workloads.ownership import adopt, managers_concerned, release, selector_of
from mooring.controllers.workloads.replica_sets import REPLICA_SETS, REST_NS
from mooring.model.selectors import Selector


class Deployments:
    """Keys are Deployments. Owns ReplicaSets, never pods. Each sync takes one small step: a change of a set brings it
    back."""

    name = "deployment"
    storages: Sequence[str] = (DEPLOYMENTS.storage, REPLICA_SETS.storage)
    rest_ns = REST_NS

    def __init__(self, api: ResourceApi, sets: Index, orphan_sets: Orphans, owned_pods: OwnedPodIndex) -> None:
        """`sets` are ReplicaSets by their controller."""
        self._api = api
        self._sets = sets
        self._orphans = orphan_sets
        self._owned_pods = owned_pods
        self._adopters = Adopters(api.store, DEPLOYMENTS.storage)
        self._writer = ReplicaSetWriter(api)

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        if write.storage == REPLICA_SETS.storage:
            return managers_concerned(write, DEPLOYMENTS.kind, self._adopters)
        return (write.key,)

    def sync(self, key: Key) -> int | None:
        """Adopt, take one step, record events. Returns when the progress deadline passes."""
        deployment = self._api.find(DEPLOYMENTS, *key)
        if deployment is None:
            return None
        selector = selector_of(deployment)
        # An empty selector would adopt every ReplicaSet of the namespace.
        if selector.is_empty or selector.is_nothing:
            return None
        self._claim(deployment, selector)
        sync = look_at(deployment, self._sets[deployment["metadata"]["uid"]])
        try:
            self._step(sync)
        finally:
            self._record(sync)
        late_ns = late_at_ns(sync)
        return late_ns if late_ns is not None and late_ns > self._api.clock.now_ns() else None

    def _step(self, sync: DeploymentSync) -> None:
        """One step, in upstream's order: deleted, paused, rescaled, Recreate, RollingUpdate."""
        if "deletionTimestamp" in sync.deployment["metadata"]:
            self._put(sync, counted(sync, self._api.now()))
            return
        note_pause(sync, self._api.now())
        if sync.new is not None:
            self._writer.refresh_new(sync)
        if sync.deployment["spec"].get("paused"):
            self._rescale(sync)
            self._forget_history(sync)
            self._put(sync, counted(sync, self._api.now()))
        # A change of spec.replicas is applied before the rollout goes on, so that shares are computed from a settled
        # state.
        elif is_rescaled(sync) and self._rescale(sync):
            self._put(sync, counted(sync, self._api.now()))
        elif is_recreated(sync.deployment):
            self._recreate(sync)
            self._conclude(sync)
        else:
            self._roll(sync)
            self._conclude(sync)

    def _claim(self, deployment: JsonObject, selector: Selector) -> None:
        """Adopt matching orphaned sets, and release sets that do not match any more."""
        for item in self._sets[deployment["metadata"]["uid"]]:
            if not selector.matches(item["metadata"].get("labels", {})):
                release(self._api, deployment, REPLICA_SETS, item)
        candidates = self._orphans.candidates(deployment["metadata"]["namespace"], equal_labels(deployment))
        wanted = [item for item in candidates if selector.matches(item["metadata"].get("labels", {}))]
        adopt(self._api, DEPLOYMENTS, deployment, REPLICA_SETS, wanted)

    # ---- the ways to the present template

    def _roll(self, sync: DeploymentSync) -> None:
        """First grow the new set as far as maxSurge allows, in a later sync shrink old ones as far as maxUnavailable
        allows."""
        # Sizes as specified, not pods as they are: the ReplicaSets have yet to act on the last step.
        total = sum(replicas_of(item) for item in sync.sets)
        if sync.new is None:
            self._begin(sync, numbers.grown(sync.bounds, 0, total))
            return
        size = numbers.grown(sync.bounds, replicas_of(sync.new), total)
        if size != replicas_of(sync.new):
            self._writer.resize(sync, sync.new, size)
            return
        old = list(sync.old)
        sizes = numbers.shrunk(sync.bounds, _size(sync.new), [_size(item) for item in old])
        for item, size in zip(old, sizes, strict=True):
            if size != replicas_of(item):
                self._writer.resize(sync, item, size)

    def _recreate(self, sync: DeploymentSync) -> None:
        """No new pod runs before every old one has ended."""
        running = [item for item in sync.old if replicas_of(item)]
        for item in running:
            self._writer.resize(sync, item, 0)
        if running or any(self._has_pods(item) for item in sync.old):
            return
        if sync.new is None:
            self._begin(sync, sync.bounds.replicas)
        elif replicas_of(sync.new) != sync.bounds.replicas:
            self._writer.resize(sync, sync.new, sync.bounds.replicas)

    def _has_pods(self, replica_set: JsonObject) -> bool:
        """Whether any pod of the set still runs or ends."""
        return self._owned_pods.of(replica_set["metadata"]["uid"]).count("ready", "unready", "terminating") > 0

    def _begin(self, sync: DeploymentSync, replicas: int) -> None:
        """Create the new set. A refusal is reported in the conditions."""
        now = self._api.now()
        try:
            self._writer.create_new(sync, replicas)
        except ApiError as refusal:
            name = sync.deployment["metadata"]["name"]
            message = f'Failed to create new replica set "{name}": {refusal.message}'
            note(sync, PROGRESSING, False, now, "ReplicaSetCreateError", message)
            self._put(sync, counted(sync, now))
            raise
        assert sync.new is not None
        name = sync.new["metadata"]["name"]
        if replicas:
            sync.events.append(f"Scaled up replica set {name} from 0 to {replicas}")
        if has_deadline(sync):
            note(sync, PROGRESSING, True, now, "NewReplicaSetCreated", f'Created new replica set "{name}"')

    # ---- another number of replicas

    def _rescale(self, sync: DeploymentSync) -> bool:
        """Apply another number of replicas: one set gets all of it; several, in the middle of an update, get their
        shares.

        Returns whether there is a rule: there is none for several sets with Recreate.
        """
        active = [item for item in sync.sets if replicas_of(item)]
        if len(active) <= 1:
            only = active[0] if active else sync.new or (sync.old[-1] if sync.old else None)
            if only is not None:
                self._writer.resize(sync, only, sync.bounds.replicas)
        elif self._is_saturated(sync):
            for item in list(sync.old):
                self._writer.resize(sync, item, 0)
        elif is_recreated(sync.deployment):
            return False
        else:
            self._share_out(sync, active)
        return True

    def _is_saturated(self, sync: DeploymentSync) -> bool:
        """Whether the new set has all the pods that are wanted, available: then old sets go to 0."""
        wanted = sync.bounds.replicas
        return sync.new is not None and replicas_of(sync.new) == wanted == available_of(sync.new)

    def _share_out(self, sync: DeploymentSync, active: list[JsonObject]) -> None:
        """Growing favours the newest, shrinking the oldest, of sets of one size. Upstream's proportional scaling."""
        grows = sync.bounds.most >= sum(replicas_of(item) for item in active)
        by_age = list(reversed(active)) if grows else active
        favoured = sorted(by_age, key=replicas_of, reverse=True)
        parts = [numbers.Part(replicas_of(item), most_before(item, sync.deployment)) for item in favoured]
        for item, size in zip(favoured, numbers.proportional(sync.bounds, parts), strict=True):
            self._writer.resize(sync, item, size)

    # ---- the end of a look

    def _conclude(self, sync: DeploymentSync) -> None:
        """Write the status, and drop history once the rollout is complete."""
        status = progressed(sync, self._api.clock.now_ns(), self._api.now())
        if is_complete(sync, status):
            self._forget_history(sync)
        self._put(sync, status)

    def _put(self, sync: DeploymentSync, status: JsonObject) -> None:
        if status != sync.deployment.get("status"):
            sync.deployment = self._api.put_status(DEPLOYMENTS, sync.deployment, status)

    def _forget_history(self, sync: DeploymentSync) -> None:
        """Delete the sets of the oldest revisions beyond revisionHistoryLimit, if they are empty."""
        empty = [item for item in sync.old if _is_empty(item)]
        surplus = len(empty) - sync.deployment["spec"].get("revisionHistoryLimit", len(empty))
        for item in sorted(empty, key=revision_of)[: max(0, surplus)]:
            metadata = item["metadata"]
            how = Deletion(uid=metadata["uid"], propagation="Background")
            self._api.delete(REPLICA_SETS, metadata["namespace"], metadata["name"], how)
            sync.old = [other for other in sync.old if other is not item]

    def _record(self, sync: DeploymentSync) -> None:
        for message in sync.events:
            record_event(self._api, "deployment-controller", sync.deployment, "ScalingReplicaSet", message)


def _size(replica_set: JsonObject) -> numbers.Size:
    return numbers.Size(replicas_of(replica_set), available_of(replica_set))


def _is_empty(replica_set: JsonObject) -> bool:
    """Whether the set has no pods, and its controller has seen its last change."""
    metadata, status = replica_set["metadata"], replica_set.get("status", {})
    if "deletionTimestamp" in metadata or replicas_of(replica_set) or status.get("replicas"):
        return False
    return bool(status.get("observedGeneration", 0) >= metadata["generation"])
