"""The Deployment controller: moves pods from the sets of old templates to that of the present one, and remembers the old."""

from collections.abc import Iterable, Sequence

from mooring.apiserver.access import Api
from mooring.apiserver.admission.deletion import Deletion
from mooring.apiserver.store import Key, Write
from mooring.controllers.cluster_events import tell
from mooring.controllers.index import Index
from mooring.controllers.lifecycle.orphans import Orphans, Seekers, equal_labels
from mooring.controllers.workloads import rollout_numbers as numbers
from mooring.controllers.workloads.crews import Crews
from mooring.controllers.workloads.deployment_sets import (
    DEPLOYMENTS,
    Look,
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
from mooring.controllers.workloads.ownership import adopt, managers_concerned, release, selector_of
from mooring.controllers.workloads.replica_sets import REPLICA_SETS, REST_NS
from mooring.model.api_errors import ApiError
from mooring.model.json_objects import JsonObject
from mooring.model.selectors import Selector


class Deployments:
    """Owns ReplicaSets, never pods. Its steps are small: each change of a set brings it back for the next."""

    name = "deployment"
    storages: Sequence[str] = (DEPLOYMENTS.storage, REPLICA_SETS.storage)
    rest_ns = REST_NS

    def __init__(self, api: Api, sets: Index, orphan_sets: Orphans, crews: Crews) -> None:
        """`sets` are ReplicaSets by their controller."""
        self._api = api
        self._sets = sets
        self._orphans = orphan_sets
        self._crews = crews
        self._seekers = Seekers(api.store, DEPLOYMENTS.storage)
        self._writer = ReplicaSetWriter(api)

    def concerned(self, write: Write) -> Iterable[Key]:
        if write.storage == REPLICA_SETS.storage:
            return managers_concerned(write, DEPLOYMENTS.kind, self._seekers)
        return (write.key,)

    def sync(self, key: Key) -> int | None:
        deployment = self._api.find(DEPLOYMENTS, *key)
        if deployment is None:
            return None
        selector = selector_of(deployment)
        if selector.is_empty or selector.is_nothing:
            return None
        self._claim(deployment, selector)
        look = look_at(deployment, self._sets[deployment["metadata"]["uid"]])
        try:
            self._step(look)
        finally:
            self._tell(look)
        late_ns = late_at_ns(look)
        return late_ns if late_ns is not None and late_ns > self._api.clock.now_ns() else None

    def _step(self, look: Look) -> None:
        if "deletionTimestamp" in look.deployment["metadata"]:
            self._put(look, counted(look, self._api.now()))
            return
        note_pause(look, self._api.now())
        if look.new is not None:
            self._writer.refresh_new(look)
        if look.deployment["spec"].get("paused"):
            self._rescale(look)
            self._forget_history(look)
            self._put(look, counted(look, self._api.now()))
        elif is_rescaled(look) and self._rescale(look):
            self._put(look, counted(look, self._api.now()))
        elif is_recreated(look.deployment):
            self._recreate(look)
            self._conclude(look)
        else:
            self._roll(look)
            self._conclude(look)

    def _claim(self, deployment: JsonObject, selector: Selector) -> None:
        for item in self._sets[deployment["metadata"]["uid"]]:
            if not selector.matches(item["metadata"].get("labels", {})):
                release(self._api, deployment, REPLICA_SETS, item)
        candidates = self._orphans.candidates(deployment["metadata"]["namespace"], equal_labels(deployment))
        wanted = [item for item in candidates if selector.matches(item["metadata"].get("labels", {}))]
        adopt(self._api, DEPLOYMENTS, deployment, REPLICA_SETS, wanted)

    # ---- the ways to the present template

    def _roll(self, look: Look) -> None:
        """First make room for new pods, in a later look take old ones away."""
        total = sum(replicas_of(item) for item in look.sets)
        if look.new is None:
            self._begin(look, numbers.grown(look.bounds, 0, total))
            return
        size = numbers.grown(look.bounds, replicas_of(look.new), total)
        if size != replicas_of(look.new):
            self._writer.resize(look, look.new, size)
            return
        old = list(look.old)
        sizes = numbers.shrunk(look.bounds, _size(look.new), [_size(item) for item in old])
        for item, size in zip(old, sizes, strict=True):
            if size != replicas_of(item):
                self._writer.resize(look, item, size)

    def _recreate(self, look: Look) -> None:
        """Nothing new runs before everything old has ended."""
        running = [item for item in look.old if replicas_of(item)]
        for item in running:
            self._writer.resize(look, item, 0)
        if running or any(self._has_pods(item) for item in look.old):
            return
        if look.new is None:
            self._begin(look, look.bounds.replicas)
        elif replicas_of(look.new) != look.bounds.replicas:
            self._writer.resize(look, look.new, look.bounds.replicas)

    def _has_pods(self, replica_set: JsonObject) -> bool:
        return self._crews.of(replica_set["metadata"]["uid"]).count("ready", "unready", "terminating") > 0

    def _begin(self, look: Look, replicas: int) -> None:
        now = self._api.now()
        try:
            self._writer.create_new(look, replicas)
        except ApiError as refusal:
            name = look.deployment["metadata"]["name"]
            message = f'Failed to create new replica set "{name}": {refusal.message}'
            note(look, PROGRESSING, False, now, "ReplicaSetCreateError", message)
            self._put(look, counted(look, now))
            raise
        assert look.new is not None
        name = look.new["metadata"]["name"]
        if replicas:
            look.events.append(f"Scaled up replica set {name} from 0 to {replicas}")
        if has_deadline(look):
            note(look, PROGRESSING, True, now, "NewReplicaSetCreated", f'Created new replica set "{name}"')

    # ---- another number of replicas

    def _rescale(self, look: Look) -> bool:
        """One set gets all of it; several, in the middle of an update, get their shares.

        Returns whether there is a rule for it: there is none for several sets that are to be recreated.
        """
        active = [item for item in look.sets if replicas_of(item)]
        if len(active) <= 1:
            only = active[0] if active else look.new or (look.old[-1] if look.old else None)
            if only is not None:
                self._writer.resize(look, only, look.bounds.replicas)
        elif self._is_saturated(look):
            for item in list(look.old):
                self._writer.resize(look, item, 0)
        elif is_recreated(look.deployment):
            return False
        else:
            self._share_out(look, active)
        return True

    def _is_saturated(self, look: Look) -> bool:
        wanted = look.bounds.replicas
        return look.new is not None and replicas_of(look.new) == wanted == available_of(look.new)

    def _share_out(self, look: Look, active: list[JsonObject]) -> None:
        """Growing favours the newest, shrinking the oldest, of sets of one size."""
        grows = look.bounds.most >= sum(replicas_of(item) for item in active)
        by_age = list(reversed(active)) if grows else active
        favoured = sorted(by_age, key=replicas_of, reverse=True)
        parts = [numbers.Part(replicas_of(item), most_before(item, look.deployment)) for item in favoured]
        for item, size in zip(favoured, numbers.proportional(look.bounds, parts), strict=True):
            self._writer.resize(look, item, size)

    # ---- the end of a look

    def _conclude(self, look: Look) -> None:
        status = progressed(look, self._api.clock.now_ns(), self._api.now())
        if is_complete(look, status):
            self._forget_history(look)
        self._put(look, status)

    def _put(self, look: Look, status: JsonObject) -> None:
        if status != look.deployment.get("status"):
            look.deployment = self._api.put_status(DEPLOYMENTS, look.deployment, status)

    def _forget_history(self, look: Look) -> None:
        """Delete the sets of the oldest revisions, as far as they are empty and nobody is to go back to them."""
        empty = [item for item in look.old if _is_empty(item)]
        surplus = len(empty) - look.deployment["spec"].get("revisionHistoryLimit", len(empty))
        for item in sorted(empty, key=revision_of)[: max(0, surplus)]:
            metadata = item["metadata"]
            how = Deletion(uid=metadata["uid"], propagation="Background")
            self._api.delete(REPLICA_SETS, metadata["namespace"], metadata["name"], how)
            look.old = [other for other in look.old if other is not item]

    def _tell(self, look: Look) -> None:
        for message in look.events:
            tell(self._api, "deployment-controller", look.deployment, "ScalingReplicaSet", message)


def _size(replica_set: JsonObject) -> numbers.Size:
    return numbers.Size(replicas_of(replica_set), available_of(replica_set))


def _is_empty(replica_set: JsonObject) -> bool:
    metadata, status = replica_set["metadata"], replica_set.get("status", {})
    if "deletionTimestamp" in metadata or replicas_of(replica_set) or status.get("replicas"):
        return False
    return bool(status.get("observedGeneration", 0) >= metadata["generation"])
