"""The kubelets of all nodes in one: a pod that has a living node runs there, ends as its annotations say, and stops."""

from collections.abc import Iterable, Sequence

from mooring.apiserver.admission.object_meta import Deletion
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite, key_of
from mooring.controllers.cluster_events import WARNING, tell
from mooring.controllers.cluster_kinds import NODE_STORE, POD_STORE, PODS
from mooring.controllers.index import Index
from mooring.controllers.nodes.addresses import Addresses
from mooring.controllers.nodes.kubelet_admission import KubeletAdmission, PodRejection
from mooring.controllers.nodes.node_hosts import Host
from mooring.controllers.nodes.node_loads import NodeLoads
from mooring.controllers.nodes.pod_life import PodMoment, next_step, rejected, scheduled_ns
from mooring.controllers.nodes.pod_scripts import Script, script_of
from mooring.kit.clock import NS_PER_S
from mooring.model.json_objects import JsonObject
from mooring.rules.conditions import holds

REJECTED_AFTER_NS = NS_PER_S
"""A kubelet needs a moment, too: controllers replace a rejected pod at once, which would otherwise never pause."""

FIRST_POD_ADDRESS, POD_ADDRESSES = "10.128.0.1", (1 << 23) - 2


class Kubelets:
    """Pods of a node that fails are left exactly as they are until it recovers."""

    name = "kubelets"
    storages: Sequence[str] = (POD_STORE, NODE_STORE)
    rest_ns = 0

    def __init__(self, api: ResourceApi, pods_by_node: Index, usual: Script | None = None) -> None:
        """`usual` is how pods behave whose annotations do not say otherwise."""
        self._api = api
        self._pods_by_node = pods_by_node
        self._usual = usual or Script()
        held = (pod.get("status", {}).get("podIP", "") for pod in api.store.all(POD_STORE))
        self._addresses = Addresses(FIRST_POD_ADDRESS, POD_ADDRESSES, held)
        self._hosts: dict[str, Host] = {}
        self._loads = NodeLoads()
        self._admission = KubeletAdmission(self._loads)
        self._moment = PodMoment(0)

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """Hot: the kubelets' own writes change nothing but the status, and that is not looked at again."""
        if write.storage == NODE_STORE:
            return self._pods_of(write)
        pod, before = write.object, write.before
        self._loads.hear(write)
        if write.type == "DELETED":
            self._addresses.free(pod.get("status", {}).get("podIP", ""))
            return ()
        spec = pod["spec"]
        if not spec.get("nodeName"):
            return ()
        if before is not None and before["spec"] is spec and not _is_asked_anew(pod, before):
            return ()
        return (write.key,)

    def _pods_of(self, write: StoreWrite) -> Iterable[Key]:
        node, before = write.object, write.before
        if write.type == "DELETED":
            self._hosts.pop(node["metadata"]["name"], None)
            self._admission.forget(node["metadata"]["name"])
            return ()
        if (
            before is not None
            and Host.of(before).lives == Host.of(node).lives
            and holds(before, "Ready") == holds(node, "Ready")
        ):
            return ()
        return [key_of(pod) for pod in self._pods_by_node[node["metadata"]["name"]]]

    def sync(self, key: Key) -> int | None:
        pod = self._api.store.find(POD_STORE, key)
        host = self._host(pod) if pod is not None else None
        if pod is None or host is None or not host.lives:
            return None
        if _is_new(pod):
            rejection = self._admission.rejection_of(pod, host.node)
            if rejection is not None:
                return self._reject(pod, rejection)
        step = next_step(pod, host, self._addresses.take, script_of(pod, self._usual), self._present())
        if step.status is not None:
            self._api.put_status(PODS, pod, step.status)
        if step.is_over:
            self._api.delete(PODS, *key, Deletion(grace_s=0, uid=pod["metadata"]["uid"]))
        return step.again_ns

    def _reject(self, pod: JsonObject, rejection: PodRejection) -> int | None:
        """Fail the pod as soon as it is time; what holds it back may be gone until then."""
        due_ns = scheduled_ns(pod) + REJECTED_AFTER_NS
        if self._api.clock.now_ns() < due_ns:
            return due_ns
        self._api.put_status(PODS, pod, rejected(pod, *rejection, self._present()))
        tell(self._api, "kubelet", pod, rejection.reason, rejection.message, WARNING)
        return None

    def _host(self, pod: JsonObject) -> Host | None:
        name = pod["spec"].get("nodeName", "")
        node = self._api.store.find(NODE_STORE, ("", name))
        if node is None:
            return None
        host = self._hosts.get(name)
        if host is None or host.node is not node:
            host = self._hosts[name] = Host.of(node)
        return host

    def _present(self) -> PodMoment:
        now_ns = self._api.clock.now_ns()
        if self._moment.now_ns // NS_PER_S != now_ns // NS_PER_S:
            self._moment = PodMoment(now_ns)
        self._moment.now_ns = now_ns
        return self._moment


def _is_new(pod: JsonObject) -> bool:
    """Whether the kubelet has not admitted the pod yet, and still may."""
    status = pod["status"]
    return status.get("phase") == "Pending" and "startTime" not in status and "deletionTimestamp" not in pod["metadata"]


def _is_asked_anew(pod: JsonObject, before: JsonObject) -> bool:
    """Whether somebody wants something else of a pod whose spec has not changed."""
    meta, held = pod["metadata"], before["metadata"]
    return (
        meta.get("annotations") is not held.get("annotations")
        or meta.get("deletionTimestamp") != held.get("deletionTimestamp")
        or meta.get("deletionGracePeriodSeconds") != held.get("deletionGracePeriodSeconds")
        or "readinessGates" in pod["spec"]
    )
