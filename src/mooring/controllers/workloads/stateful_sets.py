"""The StatefulSet controller: pods with names and claims of their own, made, updated and deleted in sequence."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_events import NORMAL, WARNING
from mooring.controllers.index import Index
from mooring.controllers.lifecycle.orphans import Orphans, Seekers
from mooring.controllers.nodes.pod_states import (
    available_at_ns,
    is_active,
    is_finished,
    is_ready,
    is_terminating,
    phase_of,
)
from mooring.controllers.workloads.owned_pods import OwnedPodIndex, OwnedPods
from mooring.controllers.workloads.ownership import covers_own_template, managers_concerned, selector_of
from mooring.controllers.workloads.pod_claiming import claim_pods
from mooring.controllers.workloads.pod_control import PODS, PodControl
from mooring.controllers.workloads.replica_sets import REST_NS
from mooring.controllers.workloads.revisions import Revisions, name_of, template_of
from mooring.controllers.workloads.stateful_pods import ordinal_of, ordinals_of, revision_of
from mooring.model.json_objects import JsonObject
from mooring.model.kinds import RESOURCES
from mooring.rules.workload_pods import claims_of, identified

STATEFUL_SETS = RESOURCES["apps", "v1", "statefulsets"]
CLAIMS = RESOURCES["", "v1", "persistentvolumeclaims"]


@dataclass(slots=True)
class LineUp:
    """A set while it is looked at: its pods by ordinal, and the two revisions they may have."""

    stateful_set: JsonObject
    pods: dict[int, JsonObject]
    current: JsonObject
    update: JsonObject

    @property
    def spec(self) -> JsonObject:
        spec: JsonObject = self.stateful_set["spec"]
        return spec

    @property
    def in_sequence(self) -> bool:
        return bool(self.spec["podManagementPolicy"] != "Parallel")

    @property
    def ordinals(self) -> range:
        return ordinals_of(self.stateful_set)

    @property
    def condemned(self) -> list[int]:
        """Ordinals of pods that there should not be, the highest first."""
        return sorted((ordinal for ordinal in self.pods if ordinal not in self.ordinals), reverse=True)

    @property
    def first_updated(self) -> int:
        """The lowest ordinal that is to have the new revision."""
        rolling = self.spec["updateStrategy"].get("rollingUpdate") or {}
        return int(self.ordinals.start + (rolling.get("partition") or 0))

    def revision_for(self, ordinal: int) -> JsonObject:
        is_kept = self.spec["updateStrategy"]["type"] == "RollingUpdate" and ordinal < self.first_updated
        return self.current if is_kept else self.update


class StatefulSets:
    """One step at a time where the set is ordered; all at once where it is parallel."""

    name = "statefulset"
    storages: Sequence[str] = (STATEFUL_SETS.storage, PODS.storage)
    rest_ns = REST_NS

    def __init__(self, api: ResourceApi, owned_pods: OwnedPodIndex, orphans: Orphans, revisions: Index) -> None:
        """`orphans` are pods without a controller, `revisions` are ControllerRevisions by their controller."""
        self._api = api
        self._owned_pods = owned_pods
        self._orphans = orphans
        self._revisions = Revisions(api, STATEFUL_SETS, revisions)
        self._seekers = Seekers(api.store, STATEFUL_SETS.storage)
        self._control = PodControl(api, STATEFUL_SETS, "statefulset-controller")

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        if write.storage == PODS.storage:
            return managers_concerned(write, STATEFUL_SETS.kind, self._seekers)
        return (write.key,)

    def sync(self, key: Key) -> int | None:
        stateful_set = self._api.find(STATEFUL_SETS, *key)
        if stateful_set is None:
            return None
        selector = selector_of(stateful_set)
        if not covers_own_template(stateful_set, selector):
            return None
        owned = self._owned_pods.of(stateful_set["metadata"]["uid"])
        claim_pods(self._api, STATEFUL_SETS, stateful_set, selector, owned, self._orphans, _belongs_to(stateful_set))
        line = self._line_up(stateful_set)
        if "deletionTimestamp" not in stateful_set["metadata"]:
            self._step(line)
        return self._report(line)

    def _line_up(self, stateful_set: JsonObject) -> LineUp:
        update = self._revisions.settle(stateful_set)
        named = stateful_set.get("status", {}).get("currentRevision")
        held = self._revisions.of(stateful_set)
        current = next((item for item in held if name_of(item) == named), update)
        return LineUp(stateful_set, self._pods(stateful_set), current, update)

    def _pods(self, stateful_set: JsonObject) -> dict[int, JsonObject]:
        owned = self._owned_pods.of(stateful_set["metadata"]["uid"])
        numbered = ((ordinal_of(stateful_set, pod), pod) for pod in owned.pods.values())
        return {ordinal: pod for ordinal, pod in numbered if ordinal is not None}

    # ---- the steps

    def _step(self, line: LineUp) -> None:
        """What comes later waits for what comes first, unless the set is parallel."""
        for ordinal in line.ordinals:
            if not self._make_true(line, ordinal) and line.in_sequence:
                return
        if not self._scale_down(line) and line.in_sequence:
            return
        if line.spec["updateStrategy"]["type"] == "RollingUpdate":
            self._replace_outdated(line)

    def _make_true(self, line: LineUp, ordinal: int) -> bool:
        """See to the pod of an ordinal. Returns whether it is as it should be."""
        pod = line.pods.get(ordinal)
        if pod is None:
            self._create(line, ordinal)
            return False
        if is_finished(pod):
            self._replace_finished(line, pod)
            return False
        self._make_claims(line, ordinal)
        return self._is_healthy(line, pod)

    def _scale_down(self, line: LineUp) -> bool:
        """Delete what is beyond the last ordinal, from the top. Returns whether nothing is left to delete."""
        unhealthy = [ordinal for ordinal in line.condemned if not self._is_healthy(line, line.pods[ordinal])]
        for ordinal in line.condemned:
            pod = line.pods[ordinal]
            if line.in_sequence and ordinal in unhealthy and ordinal != unhealthy[-1]:
                return False  # Parity: a sick pod waits for the sick ones below it, whose trouble may be the cause.
            if not is_terminating(pod):
                self._delete(line, pod)
            if line.in_sequence:
                return False
        return not line.condemned

    def _replace_outdated(self, line: LineUp) -> None:
        """One pod at a time, from the top, and none before the one above it is well."""
        for ordinal in reversed(range(line.first_updated, line.ordinals.stop)):
            pod = line.pods.get(ordinal)
            if pod is None:
                return
            if revision_of(pod) != name_of(line.update) and not is_terminating(pod):
                self._delete(line, pod)
                return
            if not self._is_healthy(line, pod):
                return

    def _is_healthy(self, line: LineUp, pod: JsonObject) -> bool:
        """Running, ready for long enough, and to stay."""
        if is_terminating(pod) or is_finished(pod):
            return False
        at_ns = available_at_ns(pod, line.spec.get("minReadySeconds", 0))
        return at_ns is not None and at_ns <= self._api.clock.now_ns()

    # ---- single pods

    def _create(self, line: LineUp, ordinal: int) -> None:
        self._make_claims(line, ordinal)
        revision = line.revision_for(ordinal)
        pod = self._control.pod_of(line.stateful_set, template_of(revision))
        made = self._control.create_untold(
            line.stateful_set, identified(line.stateful_set, pod, name_of(revision), ordinal)
        )
        self._tell(line, "SuccessfulCreate", f"create Pod {made['metadata']['name']}")

    def _delete(self, line: LineUp, pod: JsonObject) -> None:
        self._control.delete_untold(pod)
        self._tell(line, "SuccessfulDelete", f"delete Pod {pod['metadata']['name']}")

    def _replace_finished(self, line: LineUp, pod: JsonObject) -> None:
        """Its successor has the same name, so it is made when this one is gone."""
        if is_terminating(pod):
            return
        name, owner = pod["metadata"]["name"], line.stateful_set["metadata"]["name"]
        failed = phase_of(pod) == "Failed"
        reason, what = ("RecreatingFailedPod", "failed") if failed else ("RecreatingTerminatedPod", "terminated")
        place = f"{line.stateful_set['metadata']['namespace']}/{owner}"
        self._control.tell(line.stateful_set, WARNING, reason, f"StatefulSet {place} is recreating {what} Pod {name}")
        self._delete(line, pod)

    def _make_claims(self, line: LineUp, ordinal: int) -> None:
        namespace, owner = line.stateful_set["metadata"]["namespace"], line.stateful_set["metadata"]["name"]
        for claim in claims_of(line.stateful_set, ordinal):
            name = claim["metadata"]["name"]
            if self._api.find(CLAIMS, namespace, name) is None:
                self._api.create(CLAIMS, namespace, claim)
                message = f"create Claim {name} Pod {owner}-{ordinal} in StatefulSet {owner} success"
                self._control.tell(line.stateful_set, NORMAL, "SuccessfulCreate", message)

    def _tell(self, line: LineUp, reason: str, what: str) -> None:
        owner = line.stateful_set["metadata"]["name"]
        self._control.tell(line.stateful_set, NORMAL, reason, f"{what} in StatefulSet {owner} successful")

    # ---- status

    def _report(self, line: LineUp) -> int | None:
        """Write the status if it is another. Returns when the next ready pod will count as available."""
        owned = self._owned_pods.of(line.stateful_set["metadata"]["uid"])
        status, again_ns = self._status(line, owned)
        if status != line.stateful_set.get("status"):
            self._api.put_status(STATEFUL_SETS, line.stateful_set, status)
        live = {status["currentRevision"], status["updateRevision"], *map(revision_of, owned.pods.values())}
        self._revisions.trim(line.stateful_set, live)
        return again_ns

    def _status(self, line: LineUp, owned: OwnedPods) -> tuple[JsonObject, int | None]:
        now_ns, pods = self._api.clock.now_ns(), list(owned.pods.values())
        min_ready_s = line.spec.get("minReadySeconds", 0)
        ready = [pod for pod in pods if is_ready(pod) and not is_finished(pod)]
        moments = [at for pod in ready if (at := available_at_ns(pod, min_ready_s)) is not None]
        staying = [revision_of(pod) for pod in pods if is_active(pod)]
        counts = {
            "readyReplicas": len(ready),
            "currentReplicas": staying.count(name_of(line.current)),
            "updatedReplicas": staying.count(name_of(line.update)),
        }
        current = line.current
        if counts["updatedReplicas"] == len(pods) == len(ready) == line.spec["replicas"]:
            current, counts["currentReplicas"] = line.update, counts["updatedReplicas"]
        status: JsonObject = {
            "observedGeneration": line.stateful_set["metadata"]["generation"],
            "replicas": len(pods),
            **{key: number for key, number in counts.items() if number},
            "availableReplicas": sum(at <= now_ns for at in moments),
            "currentRevision": name_of(current),
            "updateRevision": name_of(line.update),
            "collisionCount": 0,
        }
        return status, min((at for at in moments if at > now_ns), default=None)


def _belongs_to(stateful_set: JsonObject) -> Callable[[JsonObject], bool]:
    """An orphan is taken in only if its name has the form of the set's."""
    return lambda pod: ordinal_of(stateful_set, pod) is not None
