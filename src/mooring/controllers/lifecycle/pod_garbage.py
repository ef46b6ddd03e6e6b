"""Deletes pods that no other controller deletes: those whose node is gone, and the oldest of too many finished ones."""

from collections.abc import Iterable, Sequence

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.apiserver.admission.object_meta import Deletion
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_kinds import NODE_STORE, POD_STORE, PODS
from mooring.controllers.index import Index
from mooring.kit.clock import NS_PER_S
from mooring.model.pod_spec import FINISHED_PHASES
from mooring.rules.conditions import disruption_target, with_condition

QUARANTINE_S = 40
"""How long a node must be gone, as upstream: it may be replaced by one of the same name."""

MOST_FINISHED = 12_500
"""Upstream's --terminated-pod-gc-threshold."""
_ALL: Key = ("", "finished")
"""FinishedPods has one task for all pods."""


class StrandedPods:
    """Pods whose node does not exist: no kubelet will ever end them."""

    name = "stranded-pods"
    storages: Sequence[str] = (POD_STORE, NODE_STORE)
    rest_ns = 0

    def __init__(self, api: ResourceApi, pods_by_node: Index, quarantine_s: float = QUARANTINE_S) -> None:
        self._api = api
        self._pods_by_node = pods_by_node
        self._quarantine_ns = round(quarantine_s * NS_PER_S)
        self._gone_ns: dict[str, int] = {}
        """By node: when it was first found missing."""

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """Pods of a node that is deleted, and pods that are bound to a node that does not exist."""
        if write.storage == NODE_STORE:
            name = write.object["metadata"]["name"]
            if write.type == "ADDED":
                self._gone_ns.pop(name, None)
            pods = self._pods_by_node[name] if write.type == "DELETED" else ()
            return [(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods]
        node = write.object["spec"].get("nodeName")
        is_placed = node and (write.before is None or write.before["spec"] is not write.object["spec"])
        return (write.key,) if is_placed and write.type != "DELETED" and not self._exists(node) else ()

    def _exists(self, node: str) -> bool:
        return self._api.store.find(NODE_STORE, ("", node)) is not None

    def sync(self, key: Key) -> int | None:
        """Delete the pod if its node has been gone for long enough; otherwise return when that will be."""
        pod = self._api.store.find(POD_STORE, key)
        node = pod["spec"].get("nodeName") if pod is not None else None
        if pod is None or not node or self._exists(node):
            return None
        now_ns = self._api.clock.now_ns()
        due_ns = self._gone_ns.setdefault(node, now_ns) + self._quarantine_ns
        if now_ns < due_ns:
            return due_ns
        self._remove(pod)
        return None

    def _remove(self, pod: JsonObject) -> None:
        """Mark the pod failed and disrupted, so that its workload counts it rightly, then delete it without grace: no
        kubelet would confirm."""
        meta, status = pod["metadata"], pod["status"]
        if status.get("phase") not in FINISHED_PHASES:
            why = disruption_target("DeletionByPodGC", "PodGC: node no longer exists", pod)
            conditions = with_condition(status.get("conditions", ()), why, self._api.now())
            self._api.put_status(PODS, pod, {**status, "phase": "Failed", "conditions": conditions})
        self._api.delete(PODS, meta["namespace"], meta["name"], Deletion(grace_s=0, uid=meta["uid"]))


class FinishedPods:
    """Finished pods are kept for users to read, but only so many."""

    name = "finished-pods"
    storages: Sequence[str] = (POD_STORE,)
    rest_ns = 20 * NS_PER_S
    """Upstream's period of the pod garbage collector."""

    def __init__(self, api: ResourceApi, most: int = MOST_FINISHED) -> None:
        self._api = api
        self._most = most
        self._finished: set[Key] = set()

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """Count finished pods; only one too many needs a sync."""
        if write.type != "DELETED" and write.object.get("status", {}).get("phase") not in FINISHED_PHASES:
            return ()
        if write.type == "DELETED":
            self._finished.discard(write.key)
            return ()
        self._finished.add(write.key)
        return (_ALL,) if len(self._finished) > self._most else ()

    def sync(self, key: Key) -> int | None:
        """Delete the oldest of too many. The rest of 20 s is upstream's period."""
        excess = len(self._finished) - self._most
        if excess <= 0:
            return None
        found = (self._api.store.find(POD_STORE, key) for key in self._finished)
        pods = sorted((pod for pod in found if pod is not None), key=_age)
        for pod in pods[:excess]:
            self._remove(pod["metadata"])
        return None

    def _remove(self, meta: JsonObject) -> None:
        try:
            self._api.delete(PODS, meta["namespace"], meta["name"], Deletion(grace_s=0, uid=meta["uid"]))
        except ApiError as refusal:
            if refusal.code not in (404, 409):
                raise


def _age(pod: JsonObject) -> tuple[str, str, str]:
    """The oldest first; names break ties, so that runs can be repeated."""
    meta = pod["metadata"]
    return meta["creationTimestamp"], meta["namespace"], meta["name"]
