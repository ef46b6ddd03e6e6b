"""The node lifecycle controller: marks nodes that stopped their heartbeats, and sets the taints that follow from
conditions."""

from collections.abc import Callable, Iterable

import msgspec

from mooring.api.api_errors import ApiError
from mooring.api.json_objects import JsonObject
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite, key_of
from mooring.controllers.cluster_writes import (
    LEASE_STORE,
    NODE_STORE,
    NODES,
    POD_STORE,
    PODS,
    delete_object,
    record_event,
)
from mooring.controllers.control_loop import Controller, NodePodsController
from mooring.controllers.index import Index
from mooring.controllers.nodes.node_heartbeats import LEASE_NAMESPACE
from mooring.kit.clock import NS_PER_S
from mooring.model.node import COMPARISON_GATE, NO_EXECUTE, NO_SCHEDULE, Taint, covers
from mooring.model.pod_spec import Toleration
from mooring.rules.conditions import condition_of, disruption_target, holds, with_condition

# Conditions that become Unknown with a silent kubelet, and upstream's reasons.
_WATCHED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_STOPPED = ("NodeStatusUnknown", "Kubelet stopped posting node status.")
_NEVER = ("NodeStatusNeverUpdated", "Kubelet never posted node status.")


class NodeLifecycle(Controller):
    """Keys are nodes. A heartbeat is a renewed lease; its time is taken by the clock of this process, not from the
    lease, so that clocks need not agree."""

    name = "node-lifecycle"
    storages = (NODE_STORE, LEASE_STORE)

    def __init__(self, api: ResourceApi, pods_by_node: Index, grace_ns: Callable[[], int]) -> None:
        """`grace_ns` says how long a node may be silent."""
        super().__init__(api)
        self._pods_by_node = pods_by_node
        self._grace_ns = grace_ns
        self._heard_ns: dict[str, int] = {}
        """By node: when its last heartbeat came."""
        self._silent: set[str] = set()
        """Nodes that are marked as silent: their next heartbeat needs a sync."""

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """Hot: there are hundreds of renewals a second; only one that ends a silence needs a sync."""
        namespace, name = write.key
        if write.storage == NODE_STORE:
            return (write.key,)
        if namespace != LEASE_NAMESPACE or write.type == "DELETED":
            return ()
        self._heard_ns[name] = self._api.clock.now_ns()
        return (("", name),) if name in self._silent else ()

    def sync(self, key: Key) -> int | None:
        """Mark the node if it is silent, and set its taints. Returns when it would be silent for too long."""
        node = self._api.find(NODES, *key)
        if node is None:
            self._heard_ns.pop(key[1], None)
            self._silent.discard(key[1])
            return None
        now_ns = self._api.clock.now_ns()
        due_ns = self._heard_ns.setdefault(key[1], now_ns) + self._grace_ns()
        is_silent = now_ns >= due_ns
        if is_silent:
            self._silent.add(key[1])
            node = self._lose(node)
        else:
            self._silent.discard(key[1])
        self._taint(node)
        return None if is_silent else due_ns

    def _lose(self, node: JsonObject) -> JsonObject:
        """Conditions become Unknown, and the pods of the node are no longer ready."""
        status = node.get("status", {})
        conditions = unknown_conditions(node, self._api.now())
        if conditions != status.get("conditions", []):
            name = node["metadata"]["name"]
            node = self._api.put_status(NODES, node, {**status, "conditions": conditions})
            record_event(self._api, "node-controller", node, "NodeNotReady", f"Node {name} status is now: NodeNotReady")
        for pod in self._pods_by_node[node["metadata"]["name"]]:
            self._mark_unready(pod)
        return node

    def _mark_unready(self, pod: JsonObject) -> None:
        """Ready becomes False, so that services and workloads do not count on the pod. Containers are left as they are."""
        if not holds(pod, "Ready"):
            return
        status, ready = pod["status"], condition_of(pod, "Ready") or {}
        conditions = with_condition(status["conditions"], {**ready, "status": "False"}, self._api.now())
        try:
            self._api.put_status(PODS, pod, {**status, "conditions": conditions})
        except ApiError as refusal:
            if refusal.code != 404:
                raise

    def _taint(self, node: JsonObject) -> None:
        """Write the taints if they differ."""
        taints = with_taints(node, wanted_taints(node), self._api.now())
        if taints != taints_of(node):
            name = node["metadata"]["name"]
            self._api.change(NODES, "", name, lambda held: {**held, "spec": {**held["spec"], "taints": taints}})


def unknown_conditions(node: JsonObject, now: str) -> list[JsonObject]:
    """The node's conditions with all that a kubelet reports set to Unknown."""
    conditions: list[JsonObject] = node.get("status", {}).get("conditions", [])
    for condition_type in _WATCHED:
        held = condition_of(node, condition_type)
        if held is not None and held.get("status") == "Unknown":
            continue
        reason, message = _NEVER if held is None else _STOPPED
        lost = {**(held or {}), "type": condition_type, "status": "Unknown", "reason": reason, "message": message}
        conditions = with_condition(conditions, lost, now)
    return conditions


# ---- Taints that follow from conditions and from spec.unschedulable, beside those that other writers set.


NOT_READY, UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"

_BY_CONDITION: dict[tuple[str, str], str] = {
    ("Ready", "False"): NOT_READY,
    ("Ready", "Unknown"): UNREACHABLE,
    ("MemoryPressure", "True"): "node.kubernetes.io/memory-pressure",
    ("DiskPressure", "True"): "node.kubernetes.io/disk-pressure",
    ("PIDPressure", "True"): "node.kubernetes.io/pid-pressure",
    ("NetworkUnavailable", "True"): "node.kubernetes.io/network-unavailable",
}
"""Upstream's table: condition and status -> taint with effect NoSchedule."""
_EVICTING = frozenset((NOT_READY, UNREACHABLE))
"""Taints that also have the effect NoExecute: pods are evicted from nodes that are not ready."""
_OURS = frozenset(
    [(key, NO_SCHEDULE) for key in (*_BY_CONDITION.values(), UNSCHEDULABLE)] + [(key, NO_EXECUTE) for key in _EVICTING]
)
"""Taints that this controller may remove."""

Mark = tuple[str, str]
"""Key and effect of a taint."""


def wanted_taints(node: JsonObject) -> list[Mark]:
    """The taints that the node should have. A node that has not reported yet whether it is ready keeps a not-ready
    taint that it was created with."""
    conditions = {c["type"]: c.get("status", "") for c in node.get("status", {}).get("conditions", ())}
    keys = [_BY_CONDITION[pair] for pair in conditions.items() if pair in _BY_CONDITION]
    marks = [(key, NO_SCHEDULE) for key in keys] + [(key, NO_EXECUTE) for key in keys if key in _EVICTING]
    if node.get("spec", {}).get("unschedulable"):
        marks.append((UNSCHEDULABLE, NO_SCHEDULE))
    if "Ready" not in conditions:
        marks += [mark for mark in map(mark_of, taints_of(node)) if mark[0] == NOT_READY]
    return marks


def with_taints(node: JsonObject, wanted: list[Mark], now: str) -> list[JsonObject]:
    """The node's taints: those of other writers, wanted ones as they are, and new ones with the present time."""
    kept = [taint for taint in taints_of(node) if mark_of(taint) not in _OURS or mark_of(taint) in wanted]
    held = {mark_of(taint) for taint in kept}
    new = [mark for mark in wanted if mark not in held]
    return [*kept, *({"key": key, "effect": effect, "timeAdded": now} for key, effect in new)]


def taints_of(node: JsonObject) -> list[JsonObject]:
    taints: list[JsonObject] = node.get("spec", {}).get("taints", [])
    return taints


def mark_of(taint: JsonObject) -> Mark:
    return taint.get("key", ""), taint.get("effect", "")


# ---- The taint eviction controller: evicts pods from nodes with NoExecute taints, at once or when their tolerations
# run out.


# Upstream's names in events.
_SOURCE = "taint-eviction-controller"
_REASON = "TaintManagerEviction"


class TaintEviction(NodePodsController):
    """Keys are pods. A toleration with a limit runs from the moment when the pod was first seen beside the taint."""

    name = "taint-eviction"

    def __init__(self, api: ResourceApi, pods_by_node: Index) -> None:
        super().__init__(api, pods_by_node)
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
        taints = [msgspec.convert(taint, Taint) for taint in taints_of(node) if taint.get("effect") == NO_EXECUTE]
        if taints == self._evicting.get(name, []):
            return ()
        if taints:
            self._evicting[name] = taints
        else:
            del self._evicting[name]
        return map(key_of, self._pods_by_node[name])

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
        status = pod["status"]
        why = disruption_target("DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint", pod)
        conditions = with_condition(status.get("conditions", ()), why, self._api.now())
        record_event(self._api, _SOURCE, pod, _REASON, f"Marking for deletion Pod {_name(pod)}")
        self._api.put_status(PODS, pod, {**status, "conditions": conditions})
        delete_object(self._api, PODS, pod)


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


def _is_new(write: StoreWrite) -> bool:
    """Whether the pod came to its node, or has other tolerations now."""
    return write.before is None or write.before["spec"] is not write.object["spec"]


def _name(pod: JsonObject) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
