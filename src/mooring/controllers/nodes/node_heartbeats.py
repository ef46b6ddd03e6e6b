"""Writes of simulated nodes about themselves: heartbeats, status and devices.

Every living node renews its lease in kube-node-lease, and reports its status: that it is ready when it starts, and what is
allocatable when its capacity changes. It publishes a slice for each driver of its devices.
"""

from collections.abc import Iterable
from zlib import crc32

from mooring.api.json_objects import JsonObject
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite
from mooring.controllers.cluster_writes import LEASES, NODE_STORE, NODES, SLICES, change_metadata
from mooring.controllers.control_loop import Controller
from mooring.controllers.nodes.simulated_nodes import (
    Addresses,
    address_of,
    alive_status,
    declared_devices,
    lives,
    missing_labels,
    slices_of,
)
from mooring.kit.clock import NS_PER_S, in_micros

# Upstream's namespace and lease duration of kubelets.
LEASE_NAMESPACE = "kube-node-lease"
LEASE_S = 40
INTERVAL_S, MOST_PER_S = 5.0, 200.0
"""Seconds between two renewals of a lease. With many nodes the interval grows, so that there are at most 200 renewals a
second: 5,000 nodes renew every 25 s."""
# 172.16.0.0/12: room for a million nodes.
FIRST_NODE_ADDRESS, NODE_ADDRESSES = "172.16.0.1", (1 << 20) - 2


class NodeHeartbeats(Controller):
    """Keys are nodes. Node objects come alive by themselves, whichever client creates them."""

    name = "node-heartbeats"
    storages = (NODE_STORE,)

    def __init__(self, api: ResourceApi) -> None:
        super().__init__(api)
        self._resized: dict[Key, JsonObject] = {}
        """The status of nodes before others changed their capacity, until their kubelets report."""
        self._addresses = Addresses(
            FIRST_NODE_ADDRESS, NODE_ADDRESSES, (address_of(node) for node in api.store.all(NODE_STORE))
        )

    def interval_ns(self) -> int:
        """The time between two renewals of one lease, with as many nodes as there are now."""
        return round(max(INTERVAL_S, self._api.store.count(NODE_STORE) / MOST_PER_S) * NS_PER_S)

    def grace_ns(self) -> int:
        """How long a living node is silent at most, with something to spare. NodeLifecycle goes by it."""
        return 3 * self.interval_ns()

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """New nodes, and nodes that failed, recovered or have another capacity. Renewals go on by time, not by writes."""
        node, before = write.object, write.before
        if write.type == "DELETED":
            self._addresses.free(address_of(node))
            self._resized.pop(write.key, None)
            return ()
        if before is None or lives(before) != lives(node):
            return (write.key,)
        if _capacity(before) in ({}, _capacity(node)):
            return ()  # the kubelet itself gives a capacity to a node that has none
        self._resized.setdefault(write.key, before.get("status", {}))
        return (write.key,)

    def sync(self, key: Key) -> int | None:
        """Report the node if it is new, renew its lease, and return when to do so again."""
        node = self._api.find(NODES, *key)
        if node is None or not lives(node):
            return None
        lease = self._api.find(LEASES, LEASE_NAMESPACE, key[1])
        is_new = lease is None or _node_uid(lease) != node["metadata"]["uid"]
        self._come_up(node, is_new, self._resized.pop(key, None))
        self._renew(node, lease)
        now_ns, interval_ns = self._api.clock.now_ns(), self.interval_ns()
        # Nodes that are made together must not all renew at once for ever after.
        return now_ns + (interval_ns * (crc32(key[1].encode()) % 1000 + 1) // 1000 if is_new else interval_ns)

    def _come_up(self, node: JsonObject, is_new: bool, resized: JsonObject | None) -> None:
        """Write labels and status as a kubelet does at its start; nothing if there is nothing to say. `resized` is the status
        before the capacity changed."""
        if is_new and (labels := missing_labels(node)):
            own = node["metadata"].get("labels", {})
            node = change_metadata(self._api, NODES, node, labels={**labels, **own})
        held = node.get("status", {})
        address = "" if held.get("addresses") else self._addresses.take()
        status = alive_status(node, is_new, address, self._api.now(), resized)
        if status != held:
            self._api.put_status(NODES, node, status)

    def _renew(self, node: JsonObject, lease: JsonObject | None) -> None:
        """Renew the lease, or make it. A lease of an earlier node of the same name is taken over."""
        name = node["metadata"]["name"]
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": LEASE_S,
            "renewTime": in_micros(self._api.clock.now_ns()),
        }
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node["metadata"]["uid"]}
        meta = {"name": name, "ownerReferences": [owner]}
        if lease is None:
            self._api.create(LEASES, LEASE_NAMESPACE, {"metadata": meta, "spec": spec})
        elif lease["metadata"].get("ownerReferences") == meta["ownerReferences"]:
            self._api.put_spec(LEASES, lease, {**lease["spec"], **spec})
        else:
            taken_over = {**lease, "metadata": {**lease["metadata"], **meta}, "spec": spec}
            self._api.change(LEASES, LEASE_NAMESPACE, name, lambda held: taken_over)


def _capacity(node: JsonObject) -> JsonObject:
    found: JsonObject = node.get("status", {}).get("capacity", {})
    return found


def _node_uid(lease: JsonObject) -> str:
    owners: list[JsonObject] = lease["metadata"].get("ownerReferences", [])
    return str(owners[0].get("uid", "")) if owners else ""


class Devices(Controller):
    """Publishes one slice for each driver that a node names."""

    name = "devices"
    storages = (NODE_STORE,)

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        return (write.key,) if write.type != "DELETED" and declared_devices(write.object) else ()

    def sync(self, key: Key) -> int | None:
        """Create or update the slices. A changed slice gets a new generation: schedulers go by it."""
        node = self._api.find(NODES, "", key[1])
        if node is None:
            return None
        for made in slices_of(node):
            spec = made["spec"]
            held = self._api.find(SLICES, "", made["metadata"]["name"])
            if held is None:
                self._api.create(SLICES, "", made)
            elif held["spec"]["devices"] != spec["devices"]:
                pool = {**spec["pool"], "generation": held["spec"]["pool"]["generation"] + 1}
                self._api.put_spec(SLICES, held, {**spec, "pool": pool})
        return None


CONTROLLERS = (Devices,)
