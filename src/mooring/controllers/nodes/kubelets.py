"""The kubelets of all nodes in one controller: a pod with a living node runs there, ends as its annotations say, and
stops."""

from collections.abc import Iterable, Sequence

from mooring.api.json_objects import JsonObject
from mooring.apiserver.admission.object_meta import Deletion
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite, key_of
from mooring.controllers.cluster_kinds import NODE_STORE, POD_STORE, PODS
from mooring.controllers.cluster_writes import WARNING, record_event
from mooring.controllers.index import Index
from mooring.controllers.nodes.kubelet_admission import KubeletAdmission, NodeLoads, PodRejection
from mooring.controllers.nodes.pod_life import next_step, rejected, scheduled_ns
from mooring.controllers.nodes.pod_scripts import Script, script_of
from mooring.controllers.nodes.pod_statuses import PodMoment
from mooring.controllers.nodes.simulated_nodes import Addresses, Host
from mooring.kit.clock import NS_PER_S
from mooring.model.node import COMPARISON_GATE
from mooring.rules.conditions import holds

REJECTED_AFTER_NS = NS_PER_S
"""How long after its scheduling a pod is rejected. Controllers replace a rejected pod at once, and with no delay the
two would run without a pause."""

# 10.128.0.0/9: room for eight million pods.
FIRST_POD_ADDRESS, POD_ADDRESSES = "10.128.0.1", (1 << 23) - 2


class Kubelets:
    """Keys are pods. Pods of a node that has failed stay exactly as they are until it recovers."""

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
        """By node: what its pods need to know of it."""
        self._loads = NodeLoads()
        self._admission = KubeletAdmission(self._loads, api.is_on(COMPARISON_GATE))
        self._moment = PodMoment(0)
        """The present second, with the parts of statuses that all pods share that begin in it."""

    def concerned(self, write: StoreWrite) -> Iterable[Key]:
        """Pods that need a look. Hot: the kubelets' own writes change nothing but the status, and that needs none."""
        if write.storage == NODE_STORE:
            return self._pods_of(write)
        pod, before = write.object, write.before
        self._loads.observe(write)
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
        """All pods of a node that failed or recovered."""
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
        """Take one step in the life of a pod: pod_life.py says which."""
        pod = self._api.store.find(POD_STORE, key)
        host = self._host(pod) if pod is not None else None
        if pod is None or host is None or not host.lives:
            return None
        # Admission is checked until the pod has started: room may become free, or the node may change, before it is
        # rejected.
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
        """Fail the pod when it is time; what is in its way may be gone by then."""
        due_ns = scheduled_ns(pod) + REJECTED_AFTER_NS
        if self._api.clock.now_ns() < due_ns:
            return due_ns
        self._api.put_status(PODS, pod, rejected(pod, *rejection, self._present()))
        record_event(self._api, "kubelet", pod, rejection.reason, rejection.message, WARNING)
        return None

    def _host(self, pod: JsonObject) -> Host | None:
        """The host of the pod's node, made again for each version of the node; None: the node does not exist."""
        name = pod["spec"].get("nodeName", "")
        node = self._api.store.find(NODE_STORE, ("", name))
        if node is None:
            return None
        host = self._hosts.get(name)
        if host is None or host.node is not node:
            host = self._hosts[name] = Host.of(node)
        return host

    def _present(self) -> PodMoment:
        """The moment of now. Statuses have times in whole seconds, so one object serves a second."""
        now_ns = self._api.clock.now_ns()
        if self._moment.now_ns // NS_PER_S != now_ns // NS_PER_S:
            self._moment = PodMoment(now_ns)
        self._moment.now_ns = now_ns
        return self._moment


def _is_new(pod: JsonObject) -> bool:
    """Whether the kubelet has not admitted the pod yet, and still can."""
    status = pod["status"]
    return status.get("phase") == "Pending" and "startTime" not in status and "deletionTimestamp" not in pod["metadata"]


def _is_asked_anew(pod: JsonObject, before: JsonObject) -> bool:
    """Whether something other than the spec changed that the kubelet has to act on: annotations, deletion, or
    conditions for readiness gates."""
    meta, held = pod["metadata"], before["metadata"]
    return (
        meta.get("annotations") is not held.get("annotations")
        or meta.get("deletionTimestamp") != held.get("deletionTimestamp")
        or meta.get("deletionGracePeriodSeconds") != held.get("deletionGracePeriodSeconds")
        or "readinessGates" in pod["spec"]
    )
