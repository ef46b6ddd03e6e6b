"""The Deployment controller: moves pods from the sets of old templates to that of the present one, and keeps the old
sets as history."""

from collections.abc import Sequence

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key
from mooring.controllers.cluster_writes import DEPLOYMENTS, REPLICA_SETS, delete_object
from mooring.controllers.index import Index, Orphans
from mooring.controllers.nodes.pod_statuses import is_terminating
from mooring.controllers.workloads.deployment_sets import (
    DeploymentSync,
    Part,
    ReplicaSetWriter,
    Size,
    available_of,
    grown,
    is_recreated,
    is_rescaled,
    look_at,
    most_before,
    proportional,
    replicas_of,
    revision_of,
    shrunk,
)
from mooring.controllers.workloads.owned_pods import OwnedPodIndex
from mooring.controllers.workloads.workload_control import REST_NS, Workloads, selector_of
from mooring.kit.clock import NS_PER_S, moment_ns
from mooring.rules.conditions import (
    condition_of,
    find_condition,
    holds,
    timed,
    with_workload_condition,
    without_condition,
    workload_condition,
)

# ---- The status of a Deployment: what its sets add up to, and whether the rollout makes progress. Texts are
# upstream's.


AVAILABLE, PROGRESSING, FAILURE = "Available", "Progressing", "ReplicaFailure"
ROLLED_OUT, TIMED_OUT = "NewReplicaSetAvailable", "ProgressDeadlineExceeded"
_PAUSED, _RESUMED = "DeploymentPaused", "DeploymentResumed"
_NO_DEADLINE = 2**31 - 1
"""Upstream's value for "no deadline": the largest int32."""
_COUNTS = ("replicas", "updatedReplicas", "readyReplicas", "availableReplicas", "unavailableReplicas")


def note(sync: DeploymentSync, condition_type: str, status: bool | str, now: str, reason: str, message: str) -> None:
    """Set a condition. Conditions of Deployments also have the time of their last update."""
    condition = {**workload_condition(condition_type, status, now, reason, message), "lastUpdateTime": now}
    sync.conditions = with_workload_condition(sync.conditions, condition)


def note_pause(sync: DeploymentSync, now: str) -> None:
    """Say in the Progressing condition that no deadline runs while a Deployment is paused."""
    held = find_condition(sync.conditions, PROGRESSING)
    reason = held.get("reason", "") if held else ""
    if not has_deadline(sync) or reason == TIMED_OUT:
        return
    if sync.deployment["spec"].get("paused") and reason != _PAUSED:
        note(sync, PROGRESSING, "Unknown", now, _PAUSED, "Deployment is paused")
    elif not sync.deployment["spec"].get("paused") and reason == _PAUSED:
        note(sync, PROGRESSING, "Unknown", now, _RESUMED, "Deployment is resumed")


def counted(sync: DeploymentSync, now: str) -> JsonObject:
    """The status by the sets as they are; of conditions, only Available is set here."""
    counts = _counts(sync)
    status: JsonObject = {"observedGeneration": sync.deployment["metadata"]["generation"]}
    status |= {key: counts[key] for key in _COUNTS if counts[key]}
    status["terminatingReplicas"] = _sum(sync.sets, "terminatingReplicas")
    if sync.collisions:
        status["collisionCount"] = sync.collisions
    if counts["availableReplicas"] >= sync.bounds.fewest_available:
        note(sync, AVAILABLE, True, now, "MinimumReplicasAvailable", "Deployment has minimum availability.")
    else:
        note(
            sync, AVAILABLE, False, now, "MinimumReplicasUnavailable", "Deployment does not have minimum availability."
        )
    status["conditions"] = sync.conditions
    return status


def progressed(sync: DeploymentSync, now_ns: int, now: str) -> JsonObject:
    """The status with a judgement of the rollout: complete, progressing, or stuck for too long."""
    status = counted(sync, now)
    held = find_condition(status.get("conditions", ()), PROGRESSING)
    settled = held is not None and held.get("reason") == ROLLED_OUT
    # A rollout that completed is judged again only when pods of another template appear.
    rests = settled and status.get("replicas", 0) == status.get("updatedReplicas", 0)
    if has_deadline(sync) and not rests:
        if is_complete(sync, status):
            message = f"{_subject(sync)} has successfully progressed."
            note(sync, PROGRESSING, True, now, ROLLED_OUT, message)
        elif _moves(sync, status):
            _note_movement(sync, now)
        elif _is_late(sync, now_ns):
            note(sync, PROGRESSING, False, now, TIMED_OUT, f"{_subject(sync)} has timed out progressing.")
    sync.conditions = _with_failure(sync)
    status["conditions"] = sync.conditions
    return status


def is_complete(sync: DeploymentSync, status: JsonObject) -> bool:
    """Whether all pods have the present template and are available, and no other pod is left."""
    wanted = sync.bounds.replicas
    return all(status.get(key, 0) == wanted for key in ("updatedReplicas", "replicas", "availableReplicas"))


def late_at_ns(sync: DeploymentSync) -> int | None:
    """When a rollout that does not progress will have taken too long; None: no deadline runs."""
    held = find_condition(sync.conditions, PROGRESSING)
    if held is None or not has_deadline(sync) or held.get("reason") in (ROLLED_OUT, TIMED_OUT, _PAUSED):
        return None
    # Times are written in whole seconds: one more, so that the deadline has passed for certain.
    return _deadline_ns(sync, held) + NS_PER_S


def has_deadline(sync: DeploymentSync) -> bool:
    return bool(sync.deployment["spec"].get("progressDeadlineSeconds", _NO_DEADLINE) != _NO_DEADLINE)


def _counts(sync: DeploymentSync) -> dict[str, int]:
    """Counts of the status of a Deployment, summed over its ReplicaSets. Pods that are wanted but not available count as
    unavailable."""
    available = sum(available_of(item) for item in sync.sets)
    return {
        "replicas": _sum(sync.sets, "replicas"),
        "updatedReplicas": _sum([sync.new] if sync.new is not None else [], "replicas"),
        "readyReplicas": _sum(sync.sets, "readyReplicas"),
        "availableReplicas": available,
        "unavailableReplicas": max(0, sum(replicas_of(item) for item in sync.sets) - available),
    }


def _sum(sets: Sequence[JsonObject], count: str) -> int:
    return sum(item.get("status", {}).get(count, 0) for item in sets)


def _subject(sync: DeploymentSync) -> str:
    """The object that messages are about: the new set, or the Deployment if there is none yet."""
    if sync.new is not None:
        return f'ReplicaSet "{sync.new["metadata"]["name"]}"'
    return f'Deployment "{sync.deployment["metadata"]["name"]}"'


def _moves(sync: DeploymentSync, status: JsonObject) -> bool:
    """Whether there are more new, ready or available replicas than at the last sync, or fewer old ones."""
    before = sync.deployment.get("status", {})
    more = any(status.get(key, 0) > before.get(key, 0) for key in _COUNTS[1:4])
    return more or _outdated(status) < _outdated(before)


def _outdated(status: JsonObject) -> int:
    old: int = status.get("replicas", 0) - status.get("updatedReplicas", 0)
    return old


def _note_movement(sync: DeploymentSync, now: str) -> None:
    """Restart the deadline, also where neither status nor reason changes."""
    held = find_condition(sync.conditions, PROGRESSING)
    condition = workload_condition(PROGRESSING, True, now, "ReplicaSetUpdated", f"{_subject(sync)} is progressing.")
    condition["lastUpdateTime"] = now
    sync.conditions = [*without_condition(sync.conditions, PROGRESSING), timed(held, condition, now)]


def _is_late(sync: DeploymentSync, now_ns: int) -> bool:
    """Whether the deadline has passed since the last progress."""
    held = find_condition(sync.conditions, PROGRESSING)
    if held is None or held.get("reason") in (ROLLED_OUT, _PAUSED):
        return False
    if held.get("reason") == TIMED_OUT:
        return True
    return now_ns > _deadline_ns(sync, held)


def _deadline_ns(sync: DeploymentSync, progress: JsonObject) -> int:
    deadline_s: int = sync.deployment["spec"]["progressDeadlineSeconds"]
    return moment_ns(progress["lastUpdateTime"]) + deadline_s * NS_PER_S


def _with_failure(sync: DeploymentSync) -> list[JsonObject]:
    """A set that cannot create its pods has a condition; the Deployment copies it, the new set's first."""
    for item in [*([sync.new] if sync.new is not None else []), *sync.old]:
        if holds(item, FAILURE):
            held = condition_of(item, FAILURE) or {}
            failure = {**held, "lastUpdateTime": held["lastTransitionTime"]}
            return with_workload_condition(sync.conditions, failure)
    return without_condition(sync.conditions, FAILURE)


class Deployments(Workloads):
    """Keys are Deployments. Owns ReplicaSets, never pods. Each sync takes one small step: a change of a set brings it
    back."""

    name = "deployment"
    resource, owned = DEPLOYMENTS, REPLICA_SETS
    rest_ns = REST_NS

    def __init__(self, api: ResourceApi, sets: Index, orphan_sets: Orphans, owned_pods: OwnedPodIndex) -> None:
        """`sets` are ReplicaSets by their controller."""
        super().__init__(api, orphan_sets)
        self._sets = sets
        self._owned_pods = owned_pods
        self._writer = ReplicaSetWriter(api)

    def sync(self, key: Key) -> int | None:
        """Adopt, take one step, record events. Returns when the progress deadline passes."""
        deployment = self._api.find(DEPLOYMENTS, *key)
        if deployment is None:
            return None
        selector = selector_of(deployment)
        # An empty selector would adopt every ReplicaSet of the namespace.
        if selector.is_empty or selector.is_nothing:
            return None
        owned = self._sets[deployment["metadata"]["uid"]]
        strangers = [item for item in owned if not selector.matches(item["metadata"].get("labels", {}))]
        self.claim(deployment, selector, strangers)
        sync = look_at(deployment, self._sets[deployment["metadata"]["uid"]])
        try:
            self._step(sync)
        finally:
            for message in sync.events:
                self.record(sync.deployment, "ScalingReplicaSet", message)
        late_ns = late_at_ns(sync)
        return late_ns if late_ns is not None and late_ns > self._api.clock.now_ns() else None

    def _step(self, sync: DeploymentSync) -> None:
        """One step, in upstream's order: deleted, paused, rescaled, Recreate, RollingUpdate."""
        if is_terminating(sync.deployment):
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

    # ---- the ways to the present template

    def _roll(self, sync: DeploymentSync) -> None:
        """First grow the new set as far as maxSurge allows, in a later sync shrink old ones as far as maxUnavailable
        allows."""
        # Sizes as specified, not pods as they are: the ReplicaSets have yet to act on the last step.
        total = sum(replicas_of(item) for item in sync.sets)
        if sync.new is None:
            self._begin(sync, grown(sync.bounds, 0, total))
            return
        size = grown(sync.bounds, replicas_of(sync.new), total)
        if size != replicas_of(sync.new):
            self._writer.resize(sync, sync.new, size)
            return
        old = list(sync.old)
        sizes = shrunk(sync.bounds, _size(sync.new), [_size(item) for item in old])
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
        parts = [Part(replicas_of(item), most_before(item, sync.deployment)) for item in favoured]
        for item, size in zip(favoured, proportional(sync.bounds, parts), strict=True):
            self._writer.resize(sync, item, size)

    # ---- the end of a look

    def _conclude(self, sync: DeploymentSync) -> None:
        """Write the status, and drop history once the rollout is complete."""
        status = progressed(sync, self._api.clock.now_ns(), self._api.now())
        if is_complete(sync, status):
            self._forget_history(sync)
        self._put(sync, status)

    def _put(self, sync: DeploymentSync, status: JsonObject) -> None:
        sync.deployment = self.report(sync.deployment, status)

    def _forget_history(self, sync: DeploymentSync) -> None:
        """Delete the sets of the oldest revisions beyond revisionHistoryLimit, if they are empty."""
        empty = [item for item in sync.old if _is_empty(item)]
        surplus = len(empty) - sync.deployment["spec"].get("revisionHistoryLimit", len(empty))
        for item in sorted(empty, key=revision_of)[: max(0, surplus)]:
            delete_object(self._api, REPLICA_SETS, item, "Background")
            sync.old = [other for other in sync.old if other is not item]


def _size(replica_set: JsonObject) -> Size:
    return Size(replicas_of(replica_set), available_of(replica_set))


def _is_empty(replica_set: JsonObject) -> bool:
    """Whether the set has no pods, and its controller has seen its last change."""
    metadata, status = replica_set["metadata"], replica_set.get("status", {})
    if "deletionTimestamp" in metadata or replicas_of(replica_set) or status.get("replicas"):
        return False
    return bool(status.get("observedGeneration", 0) >= metadata["generation"])
