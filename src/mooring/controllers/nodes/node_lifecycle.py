"""Watches over nodes: one that is no longer heard of is marked so, and taints follow what its conditions say."""

from collections.abc import Callable, Iterable, Sequence

from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_kinds import LEASE_STORE, NODE_STORE, NODES, PODS
from mooring.controllers.cluster_writes import record_event
from mooring.controllers.index import Index
from mooring.controllers.nodes.node_heartbeats import LEASE_NAMESPACE
from mooring.model.api_errors import ApiError
from mooring.model.json_objects import JsonObject
from mooring.model.node import NO_EXECUTE, NO_SCHEDULE
from mooring.rules.conditions import condition_of, holds, with_condition

# ---- The taints that a node's conditions and its owner call for, and how to put them beside those of others.


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
_EVICTING = frozenset((NOT_READY, UNREACHABLE))
_OURS = frozenset(
    [(key, NO_SCHEDULE) for key in (*_BY_CONDITION.values(), UNSCHEDULABLE)] + [(key, NO_EXECUTE) for key in _EVICTING]
)

Mark = tuple[str, str]


def wanted_taints(node: JsonObject) -> list[Mark]:
    """Key and effect of each. A node that has not said yet whether it is ready stays not ready, if it is so marked."""
    conditions = {c["type"]: c.get("status", "") for c in node.get("status", {}).get("conditions", ())}
    keys = [_BY_CONDITION[pair] for pair in conditions.items() if pair in _BY_CONDITION]
    marks = [(key, NO_SCHEDULE) for key in keys] + [(key, NO_EXECUTE) for key in keys if key in _EVICTING]
    if node.get("spec", {}).get("unschedulable"):
        marks.append((UNSCHEDULABLE, NO_SCHEDULE))
    if "Ready" not in conditions:
        marks += [mark for mark in map(mark_of, taints_of(node)) if mark[0] == NOT_READY]
    return marks


def with_taints(node: JsonObject, wanted: list[Mark], now: str) -> list[JsonObject]:
    """The node's taints: those of others, ours that are still wanted as they are, and new ones from now on."""
    kept = [taint for taint in taints_of(node) if mark_of(taint) not in _OURS or mark_of(taint) in wanted]
    held = {mark_of(taint) for taint in kept}
    new = [mark for mark in wanted if mark not in held]
    return [*kept, *({"key": key, "effect": effect, "timeAdded": now} for key, effect in new)]


def taints_of(node: JsonObject) -> list[JsonObject]:
    taints: list[JsonObject] = node.get("spec", {}).get("taints", [])
    return taints


def mark_of(taint: JsonObject) -> Mark:
    return taint.get("key", ""), taint.get("effect", "")


_WATCHED = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_STOPPED = ("NodeStatusUnknown", "Kubelet stopped posting node status.")
_NEVER = ("NodeStatusNeverUpdated", "Kubelet never posted node status.")


class NodeLifecycle:
    """A node is heard of when its lease is renewed; when that was is kept by our own clock, not by the lease's text."""

    name = "node-lifecycle"
    storages: Sequence[str] = (NODE_STORE, LEASE_STORE)
    rest_ns = 0

    def __init__(self, api: ResourceApi, pods_by_node: Index, grace_ns: Callable[[], int]) -> None:
        """`grace_ns` tells how long a node may be silent."""
        self._api = api
        self._pods_by_node = pods_by_node
        self._grace_ns = grace_ns
        self._heard_ns: dict[str, int] = {}
        self._silent: set[str] = set()

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """Hot: there are hundreds of renewals a second; only one that ends a silence needs a look."""
        namespace, name = write.key
        if write.storage == NODE_STORE:
            return (write.key,)
        if namespace != LEASE_NAMESPACE or write.type == "DELETED":
            return ()
        self._heard_ns[name] = self._api.clock.now_ns()
        return (("", name),) if name in self._silent else ()

    def sync(self, key: Key) -> int | None:
        node = self._api.find(NODES, *key)
        if node is None:
            self._heard_ns.pop(key[1], None)
            self._silent.discard(key[1])
            return None
        now_ns = self._api.clock.now_ns()
        due_ns = self._heard_ns.setdefault(key[1], now_ns) + self._grace_ns()
        is_silent = now_ns >= due_ns
        self._note(key[1], is_silent)
        if is_silent:
            node = self._lose(node)
        self._taint(node)
        return None if is_silent else due_ns

    def _note(self, name: str, is_silent: bool) -> None:
        (self._silent.add if is_silent else self._silent.discard)(name)

    def _lose(self, node: JsonObject) -> JsonObject:
        """Nothing is known of the node any more, nor of the pods on it."""
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
        taints = with_taints(node, wanted_taints(node), self._api.now())
        if taints != taints_of(node):
            name = node["metadata"]["name"]
            self._api.change(NODES, "", name, lambda held: {**held, "spec": {**held["spec"], "taints": taints}})


def unknown_conditions(node: JsonObject, now: str) -> list[JsonObject]:
    conditions: list[JsonObject] = node.get("status", {}).get("conditions", [])
    for type in _WATCHED:
        held = condition_of(node, type)
        if held is not None and held.get("status") == "Unknown":
            continue
        reason, message = _NEVER if held is None else _STOPPED
        lost = {**(held or {}), "type": type, "status": "Unknown", "reason": reason, "message": message}
        conditions = with_condition(conditions, lost, now)
    return conditions
