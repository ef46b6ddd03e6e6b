"""The taint eviction controller: evicts pods from nodes with NoExecute taints, at once or when their tolerations run
out."""

from collections.abc import Iterable, Sequence

import msgspec

from mooring.api.json_objects import JsonObject
from mooring.apiserver.admission.object_meta import Deletion
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_kinds import NODE_STORE, POD_STORE, PODS
from mooring.controllers.cluster_writes import record_event
from mooring.controllers.index import Index
from mooring.controllers.nodes.node_lifecycle import taints_of
from mooring.kit.clock import NS_PER_S
from mooring.model.node import COMPARISON_GATE, NO_EXECUTE, Taint, covers
from mooring.model.pod_spec import Toleration
from mooring.rules.conditions import disruption_target, with_condition

# Upstream's names in events.
_SOURCE = "taint-eviction-controller"
_REASON = "TaintManagerEviction"


class TaintEviction:
    """Keys are pods. A toleration with a limit runs from the moment when the pod was first seen beside the taint."""

    name = "taint-eviction"
    storages: Sequence[str] = (POD_STORE, NODE_STORE)
    rest_ns = 0

    def __init__(self, api: ResourceApi, pods_by_node: Index) -> None:
        self._api = api
        self._pods_by_node = pods_by_node
        self._evicting: dict[str, list[Taint]] = {}
        """By node: its NoExecute taints, where it has any."""
        self._began_ns: dict[str, int] = {}
        """By uid of a pod: when its toleration began to run."""

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """Pods of nodes whose taints changed, and pods that are new on a node with such taints."""
        if write.storage == NODE_STORE:
            return self._pods_of(write)
        pod = write.object
        if write.type == "DELETED":
            self._began_ns.pop(pod["metadata"]["uid"], None)
            return ()
        # Hot: usually no node has such taints, and then a pod needs no further check.
        is_concerned = self._evicting and pod["spec"].get("nodeName") in self._evicting and _is_new(write)
        return (write.key,) if is_concerned else ()

    def _pods_of(self, write: StoreWrite) -> Iterable[Key]:
        """All pods of a node whose NoExecute taints are others now."""
        node, name = write.object, write.object["metadata"]["name"]
        if write.type == "DELETED":
            self._evicting.pop(name, None)
            return ()
        taints = _evicting_taints(node)
        if taints == self._evicting.get(name, []):
            return ()
        if taints:
            self._evicting[name] = taints
        else:
            del self._evicting[name]
        return [(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in self._pods_by_node[name]]

    def sync(self, key: Key) -> int | None:
        """Evict the pod, or return when it will be time."""
        pod = self._api.store.find(POD_STORE, key)
        if pod is None or pod["metadata"].get("deletionTimestamp"):
            return None
        taints = self._evicting.get(pod["spec"].get("nodeName", ""), [])
        stay_s = tolerated_s(pod, taints, self._api.is_on(COMPARISON_GATE))
        if stay_s is None:
            self._stay(pod)
            return None
        now_ns = self._api.clock.now_ns()
        due_ns = self._began_ns.setdefault(pod["metadata"]["uid"], now_ns) + stay_s * NS_PER_S
        if now_ns < due_ns:
            return due_ns
        self._evict(pod)
        return None

    def _stay(self, pod: JsonObject) -> None:
        """The taints are gone, or tolerated: an eviction that was planned is cancelled."""
        if self._began_ns.pop(pod["metadata"]["uid"], None) is not None:
            record_event(self._api, _SOURCE, pod, _REASON, f"Cancelling deletion of Pod {_name(pod)}")

    def _evict(self, pod: JsonObject) -> None:
        """Mark the pod as disrupted, so that its Job does not count a failure of its own, then delete it."""
        meta, status = pod["metadata"], pod["status"]
        why = disruption_target("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint", pod)
        conditions = with_condition(status.get("conditions", ()), why, self._api.now())
        record_event(self._api, _SOURCE, pod, _REASON, f"Marking for deletion Pod {_name(pod)}")
        self._api.put_status(PODS, pod, {**status, "conditions": conditions})
        self._api.delete(PODS, meta["namespace"], meta["name"], Deletion(uid=meta["uid"]))


def tolerated_s(pod: JsonObject, taints: list[Taint], compares: bool = False) -> int | None:
    """How long the pod may stay beside these taints: None for ever, 0 not at all. The shortest toleration counts.
    `compares` is the gate of the operators Lt and Gt."""
    tolerations = [msgspec.convert(written, Toleration) for written in pod["spec"].get("tolerations", ())]
    limits = []
    for taint in taints:
        fitting = next((toleration for toleration in tolerations if covers(toleration, taint, compares)), None)
        if fitting is None:
            return 0
        if fitting.toleration_seconds is not None:
            limits.append(max(fitting.toleration_seconds, 0))
    return min(limits, default=None)


def _evicting_taints(node: JsonObject) -> list[Taint]:
    return [msgspec.convert(taint, Taint) for taint in taints_of(node) if taint.get("effect") == NO_EXECUTE]


def _is_new(write: StoreWrite) -> bool:
    """Whether the pod came to its node, or has other tolerations now."""
    return write.before is None or write.before["spec"] is not write.object["spec"]


def _name(pod: JsonObject) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
