"""The StatefulSet controller: pods with stable names and claims, created, updated and deleted in order."""

import re
from dataclasses import dataclass

from mooring.api.json_objects import JsonObject
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key
from mooring.controllers.cluster_writes import CLAIMS, STATEFUL_SETS, WARNING
from mooring.controllers.nodes.pod_statuses import (
    availability,
    is_active,
    is_finished,
    is_ready,
    is_terminating,
    phase_of,
)
from mooring.controllers.workloads.owned_pods import OwnedPods
from mooring.controllers.workloads.workload_control import (
    REST_NS,
    PodWorkloads,
    Revisions,
    WorkloadIndexes,
    name_of,
    revision_label,
    template_of,
)
from mooring.rules.workload_pods import claims_of, identified


@dataclass(slots=True)
class StatefulSetSync:
    """A StatefulSet during one sync: its pods by ordinal, and the two revisions that they may have."""

    stateful_set: JsonObject
    """The object as the sync found it."""
    pods: dict[int, JsonObject]
    """By ordinal: the pods that the set owns, also those beyond its replicas."""
    current: JsonObject
    """The revision before the update that is under way."""
    update: JsonObject
    """The revision of the present template."""

    @property
    def spec(self) -> JsonObject:
        spec: JsonObject = self.stateful_set["spec"]
        return spec

    @property
    def in_sequence(self) -> bool:
        """Whether each step waits for the one before (podManagementPolicy OrderedReady)."""
        return bool(self.spec["podManagementPolicy"] != "Parallel")

    @property
    def ordinals(self) -> range:
        """The ordinals that should exist."""
        start = self.spec.get("ordinals", {}).get("start", 0)
        return range(start, start + self.spec["replicas"])

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
        """The revision that the pod of an ordinal should have: below the partition the current one."""
        is_kept = self.spec["updateStrategy"]["type"] == "RollingUpdate" and ordinal < self.first_updated
        return self.current if is_kept else self.update


class StatefulSets(PodWorkloads):
    """Keys are StatefulSets. One step at a time where the set is ordered; all at once where it is parallel."""

    name = "statefulset"
    resource = STATEFUL_SETS
    rest_ns = REST_NS

    def __init__(self, api: ResourceApi, indexes: WorkloadIndexes) -> None:
        super().__init__(api, indexes)
        self._revisions = Revisions(api, STATEFUL_SETS, indexes.revisions)

    def may_adopt(self, workload: JsonObject, orphan: JsonObject) -> bool:
        """An orphan is adopted only if its name is one of the set's."""
        return ordinal_of(workload, orphan) is not None

    def sync(self, key: Key) -> int | None:
        """Adopt, take a step, report."""
        stateful_set = self._api.find(STATEFUL_SETS, *key)
        if stateful_set is None or not self.claim_pods(stateful_set):
            return None
        sync = self._begin_sync(stateful_set)
        if not is_terminating(stateful_set):
            self._step(sync)
        return self._report(sync)

    def _begin_sync(self, stateful_set: JsonObject) -> StatefulSetSync:
        """The revisions, and the pods by ordinal; pods with other names are left out. Without a current revision in the
        status the update revision is the current one."""
        update = self._revisions.settle(stateful_set)
        named = stateful_set.get("status", {}).get("currentRevision")
        held = self._revisions.of(stateful_set)
        current = next((item for item in held if name_of(item) == named), update)
        numbered = ((ordinal_of(stateful_set, pod), pod) for pod in self.pods_of(stateful_set).pods.values())
        pods = {ordinal: pod for ordinal, pod in numbered if ordinal is not None}
        return StatefulSetSync(stateful_set, pods, current, update)

    # ---- the steps

    def _step(self, sync: StatefulSetSync) -> None:
        """Later ordinals wait for earlier ones, unless the set is parallel: create and repair, then scale down, then
        update."""
        # Lowest ordinal first; an unhealthy pod stops all that follow in an ordered set.
        for ordinal in sync.ordinals:
            if not self._make_true(sync, ordinal) and sync.in_sequence:
                return
        if not self._scale_down(sync) and sync.in_sequence:
            return
        if sync.spec["updateStrategy"]["type"] == "RollingUpdate":
            self._replace_outdated(sync)

    def _make_true(self, sync: StatefulSetSync, ordinal: int) -> bool:
        """Create or replace the pod of an ordinal if necessary. Returns whether it is healthy."""
        pod = sync.pods.get(ordinal)
        if pod is None:
            self._create(sync, ordinal)
            return False
        if is_finished(pod):
            self._replace_finished(sync, pod)
            return False
        self._make_claims(sync, ordinal)
        return self._is_healthy(sync, pod)

    def _scale_down(self, sync: StatefulSetSync) -> bool:
        """Delete pods beyond the last ordinal, from the top. Returns whether none is left."""
        unhealthy = [ordinal for ordinal in sync.condemned if not self._is_healthy(sync, sync.pods[ordinal])]
        for ordinal in sync.condemned:
            pod = sync.pods[ordinal]
            if sync.in_sequence and ordinal in unhealthy and ordinal != unhealthy[-1]:
                return False  # Parity: a sick pod waits for the sick ones below it, whose trouble may be the cause.
            if not is_terminating(pod):
                self._delete(sync, pod)
            if sync.in_sequence:
                return False
        return not sync.condemned

    def _replace_outdated(self, sync: StatefulSetSync) -> None:
        """One pod at a time, from the top, and none before the one above it is healthy."""
        for ordinal in reversed(range(sync.first_updated, sync.ordinals.stop)):
            pod = sync.pods.get(ordinal)
            if pod is None:
                return
            if revision_label(pod) != name_of(sync.update) and not is_terminating(pod):
                self._delete(sync, pod)
                return
            if not self._is_healthy(sync, pod):
                return

    def _is_healthy(self, sync: StatefulSetSync, pod: JsonObject) -> bool:
        """Running, available, and not being deleted."""
        if is_terminating(pod) or is_finished(pod):
            return False
        return availability([pod], sync.spec.get("minReadySeconds", 0), self._api.clock.now_ns())[0] == 1

    # ---- single pods

    def _create(self, sync: StatefulSetSync, ordinal: int) -> None:
        """Claims first: the pod's volumes refer to them."""
        self._make_claims(sync, ordinal)
        revision = sync.revision_for(ordinal)
        pod = self.pod_of(sync.stateful_set, template_of(revision))
        made = self.create_one(sync.stateful_set, identified(sync.stateful_set, pod, name_of(revision), ordinal))
        self._record(sync, "SuccessfulCreate", f"create Pod {made['metadata']['name']}")

    def _delete(self, sync: StatefulSetSync, pod: JsonObject) -> None:
        self.delete_one(pod)
        self._record(sync, "SuccessfulDelete", f"delete Pod {pod['metadata']['name']}")

    def _replace_finished(self, sync: StatefulSetSync, pod: JsonObject) -> None:
        """Delete a finished pod. Its successor has the same name, so it is created when this one is gone."""
        if is_terminating(pod):
            return
        name, owner = pod["metadata"]["name"], sync.stateful_set["metadata"]["name"]
        failed = phase_of(pod) == "Failed"
        reason, what = ("RecreatingFailedPod", "failed") if failed else ("RecreatingTerminatedPod", "terminated")
        place = f"{sync.stateful_set['metadata']['namespace']}/{owner}"
        message = f"StatefulSet {place} is recreating {what} Pod {name}"
        self.record(sync.stateful_set, reason, message, WARNING)
        self._delete(sync, pod)

    def _make_claims(self, sync: StatefulSetSync, ordinal: int) -> None:
        """Create the claims of an ordinal that are missing. They stay when the pod is deleted."""
        namespace, owner = sync.stateful_set["metadata"]["namespace"], sync.stateful_set["metadata"]["name"]
        for claim in claims_of(sync.stateful_set, ordinal):
            name = claim["metadata"]["name"]
            if self._api.find(CLAIMS, namespace, name) is None:
                self._api.create(CLAIMS, namespace, claim)
                message = f"create Claim {name} Pod {owner}-{ordinal} in StatefulSet {owner} success"
                self.record(sync.stateful_set, "SuccessfulCreate", message)

    def _record(self, sync: StatefulSetSync, reason: str, what: str) -> None:
        owner = sync.stateful_set["metadata"]["name"]
        self.record(sync.stateful_set, reason, f"{what} in StatefulSet {owner} successful")

    # ---- status

    def _report(self, sync: StatefulSetSync) -> int | None:
        """Write the status if it is another. Returns when the next ready pod will count as available."""
        owned = self.pods_of(sync.stateful_set)
        status, again_ns = self._status(sync, owned)
        self.report(sync.stateful_set, status)
        live = {status["currentRevision"], status["updateRevision"], *map(revision_label, owned.pods.values())}
        self._revisions.trim(sync.stateful_set, live)
        return again_ns

    def _status(self, sync: StatefulSetSync, owned: OwnedPods) -> tuple[JsonObject, int | None]:
        """The status, and when the next pod becomes available. The update revision becomes the current one when all
        pods have it."""
        pods = list(owned.pods.values())
        ready = [pod for pod in pods if is_ready(pod) and not is_finished(pod)]
        available, again_ns = availability(ready, sync.spec.get("minReadySeconds", 0), self._api.clock.now_ns())
        staying = [revision_label(pod) for pod in pods if is_active(pod)]
        counts = {
            "readyReplicas": len(ready),
            "currentReplicas": staying.count(name_of(sync.current)),
            "updatedReplicas": staying.count(name_of(sync.update)),
        }
        current = sync.current
        # The update is complete: its revision becomes the current one.
        if counts["updatedReplicas"] == len(pods) == len(ready) == sync.spec["replicas"]:
            current, counts["currentReplicas"] = sync.update, counts["updatedReplicas"]
        status: JsonObject = {
            "observedGeneration": sync.stateful_set["metadata"]["generation"],
            "replicas": len(pods),
            **{key: number for key, number in counts.items() if number},
            "availableReplicas": available,
            "currentRevision": name_of(current),
            "updateRevision": name_of(sync.update),
            "collisionCount": 0,
        }
        return status, again_ns


# ---- Ordinals: the pods of a StatefulSet have stable names, `<set>-<ordinal>`.


_NAME = re.compile(r"(.*)-([0-9]+)")


def ordinal_of(stateful_set: JsonObject, pod: JsonObject) -> int | None:
    """The ordinal of a pod; None: by its name it is not one of the set's."""
    found = _NAME.fullmatch(pod["metadata"]["name"])
    if found is None or found.group(1) != stateful_set["metadata"]["name"]:
        return None
    return int(found.group(2))
