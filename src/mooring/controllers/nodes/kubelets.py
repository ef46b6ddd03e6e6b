"""The kubelets of all nodes in one controller: a pod with a living node runs there, ends as its annotations say, and
stops."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec

from mooring.api.json_objects import JsonObject
from mooring.apiserver.admission.object_meta import Deletion
from mooring.apiserver.resource_api import ResourceApi
from mooring.apiserver.store import Key, StoreWrite, key_of
from mooring.controllers.cluster_writes import NODE_STORE, POD_STORE, PODS, WARNING, record_event
from mooring.controllers.control_loop import NodePodsController
from mooring.controllers.index import Index
from mooring.controllers.nodes.pod_life import Script, next_step, rejected, scheduled_ns, script_of
from mooring.controllers.nodes.pod_statuses import PodMoment
from mooring.controllers.nodes.simulated_nodes import OS, Addresses, Host
from mooring.kit.clock import NS_PER_S
from mooring.model.names import is_extended_resource
from mooring.model.node import COMPARISON_GATE, NO_EXECUTE, Taint, tolerates_hard
from mooring.model.pod import Pod
from mooring.model.pod_spec import FINISHED_PHASES, PodSpec
from mooring.model.quantity import parse
from mooring.model.requests import to_exact_units
from mooring.model.shape import HostPort, PodShape, collide, shape_of
from mooring.rules.conditions import holds

# ---- Checks of a kubelet before it starts a pod: upstream's predicate admit handler.
#
# The scheduler has checked the same, but pods also come with a node in their spec, or from another scheduler.


# ---- Loads: what the admitted pods of each node take from it.


_KEPT = 1024
"""Templates whose shapes are kept. Pods of one template share the lists in their specs, so few are needed."""

_PARTS = ("containers", "initContainers", "nodeSelector", "affinity", "tolerations", "overhead", "resources")
"""The parts of a spec that the shape used here depends on."""


@dataclass(slots=True)
class NodeLoad:
    """The resources that pods take from one node."""

    pods: int = 0
    """How many pods the kubelet has admitted."""
    requested: Counter[str] = field(default_factory=Counter)
    """In the units of the scheduler: cpu in milli, all else whole."""
    ports: Counter[HostPort] = field(default_factory=Counter)
    """Host ports in use, with the number of pods that have each."""

    def add(self, shape: PodShape, times: int) -> None:
        """Count a pod `times` times: 1 when it is admitted, -1 when it is over."""
        self.pods += times
        for name, amount in shape.exact_request.items():
            self.requested[name] += times * amount
        for port in shape.host_ports:
            self.ports[port] += times
            if not self.ports[port]:
                del self.ports[port]

    def has_port(self, wanted: HostPort) -> bool:
        """Whether a pod has the port: 0.0.0.0 collides with every address."""
        return any(collide(wanted, held) for held in self.ports)


class NodeLoads:
    """The loads of all nodes. It has to observe every write of a pod."""

    def __init__(self) -> None:
        self._loads: dict[str, NodeLoad] = {}
        self._admitted: dict[Key, tuple[str, PodShape]] = {}
        self._shapes: dict[int, tuple[tuple[object, ...], PodShape]] = {}

    def of(self, node: str) -> NodeLoad:
        return self._loads.get(node) or NodeLoad()

    def observe(self, write: StoreWrite) -> None:
        """Count the pod if it is admitted now. Hot: most writes change neither that nor the spec."""
        held = self._admitted.get(write.key)
        if write.type == "DELETED" or not is_admitted(write.object):
            if held is not None:
                self._release(write.key, *held)
        elif held is None or write.before is None or write.before["spec"] is not write.object["spec"]:
            if held is not None:
                self._release(write.key, *held)
            node, shape = write.object["spec"]["nodeName"], self.shape(write.object["spec"])
            self._admitted[write.key] = node, shape
            self._loads.setdefault(node, NodeLoad()).add(shape, 1)

    def shape(self, spec: JsonObject) -> PodShape:
        """The shape of a spec, kept by the identity of the objects in it; they are kept along, so their ids are not
        reused."""
        parts = tuple(spec.get(part) for part in _PARTS)
        kept = self._shapes.get(id(parts[0]))
        if kept is not None and all(a is b for a, b in zip(kept[0], parts, strict=True)):
            return kept[1]
        shape = shape_of(Pod(spec=msgspec.convert(spec, PodSpec)))
        if len(self._shapes) >= _KEPT:
            del self._shapes[next(iter(self._shapes))]
        self._shapes[id(parts[0])] = parts, shape
        return shape

    def _release(self, key: Key, node: str, shape: PodShape) -> None:
        del self._admitted[key]
        load = self._loads[node]
        load.add(shape, -1)
        if not load.pods:
            del self._loads[node]


def is_admitted(pod: JsonObject) -> bool:
    """Whether a kubelet has admitted the pod and it has not finished: only then its status has a start time."""
    status = pod.get("status", {})
    return bool("startTime" in status and status.get("phase") not in FINISHED_PHASES and pod["spec"].get("nodeName"))


_FIRST = ("cpu", "memory", "ephemeral-storage")
"""The order in which a kubelet checks resources; others follow by name."""


class PodRejection(NamedTuple):
    """The reason for which a kubelet does not start a pod: both texts are upstream's, and end up in the pod's status."""

    reason: str
    message: str


_WRONG_OS_LABEL = PodRejection(
    "PodOSSelectorNodeLabelDoesNotMatch", "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"
)
_WRONG_OS = PodRejection("PodOSNotSupported", "Failed to admit pod as the OS field doesn't match node OS")
_WRONG_NODE = PodRejection(
    "NodeAffinity", "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector"
)
_TAKEN_PORT = PodRejection(
    "NodePorts", "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
)
_TAINTED = PodRejection(
    "TaintToleration", "Predicate TaintToleration failed: node(s) had taints that the pod didn't tolerate"
)


class KubeletAdmission:
    """The checks of all kubelets. `loads` must know all pods that were admitted; `compares` is the gate of the operators
    Lt and Gt in tolerations."""

    def __init__(self, loads: NodeLoads, compares: bool = False) -> None:
        self._loads = loads
        self._compares = compares
        self._capacities: dict[str, tuple[JsonObject, dict[str, int]]] = {}
        """By node: the allocatable as written, and parsed."""

    def rejection_of(self, pod: JsonObject, node: JsonObject) -> PodRejection | None:
        """The reason for which the pod may not start, the first in upstream's order; None if it may start."""
        shape = self._loads.shape(pod["spec"])
        load = self._loads.of(node["metadata"]["name"])
        return (
            _wrong_system(pod, node)
            or _lacking(pod, shape, load, self._capacity(node))
            or (None if _is_wanted_node(shape, node) else _WRONG_NODE)
            or (_TAKEN_PORT if any(map(load.has_port, shape.host_ports)) else None)
            or _repelled(shape, node, self._compares)
        )

    def forget(self, node: str) -> None:
        self._capacities.pop(node, None)

    def _capacity(self, node: JsonObject) -> dict[str, int]:
        """The amounts that the node has for pods, parsed once for each version of its status."""
        name, written = node["metadata"]["name"], node.get("status", {}).get("allocatable", {})
        kept = self._capacities.get(name)
        if kept is not None and kept[0] is written:
            return kept[1]
        amounts = {resource: parse(text) for resource, text in written.items()}
        capacity = to_exact_units(amounts) | {"pods": amounts.get("pods", 0) // 1_000_000_000}
        self._capacities[name] = written, capacity
        return capacity


def _wrong_system(pod: JsonObject, node: JsonObject) -> PodRejection | None:
    """The pod's label or spec asks for another operating system than the node has."""
    system = node["metadata"].get("labels", {}).get(OS, "linux")
    if pod["metadata"].get("labels", {}).get(OS, system) != system:
        return _WRONG_OS_LABEL
    return _WRONG_OS if pod["spec"].get("os", {}).get("name", system) != system else None


def _lacking(pod: JsonObject, shape: PodShape, load: NodeLoad, capacity: dict[str, int]) -> PodRejection | None:
    """The first resource that the node does not have enough of."""
    if load.pods + 1 > capacity["pods"]:
        return _out_of("pods", 1, load.pods, capacity["pods"])
    others = sorted(name for name in shape.request if name not in _FIRST)
    for name in (*_FIRST, *others):
        wanted, used = shape.exact_request.get(name, 0), load.requested[name]
        if wanted > capacity.get(name, 0) - used and wanted and not _is_elsewhere(pod, name, capacity):
            return _out_of(name, wanted, used, capacity.get(name, 0))
    return None


def _is_elsewhere(pod: JsonObject, name: str, capacity: dict[str, int]) -> bool:
    """Whether the node need not provide the resource: it does not know it, or devices serve it for this pod."""
    mappings = pod.get("status", {}).get("extendedResourceClaimStatus", {}).get("requestMappings", ())
    return is_extended_resource(name) and (
        name not in capacity or any(mapping.get("resourceName") == name for mapping in mappings)
    )


def _out_of(name: str, wanted: int, used: int, capacity: int) -> PodRejection:
    amounts = f"requested: {wanted}, used: {used}, capacity: {capacity}"
    return PodRejection(f"OutOf{name}", f"Node didn't have enough resource: {name}, {amounts}")


def _is_wanted_node(shape: PodShape, node: JsonObject) -> bool:
    """nodeSelector and required affinity, as the scheduler checks them."""
    name, labels = node["metadata"]["name"], node["metadata"].get("labels", {})
    if any(labels.get(key) != value for key, value in (shape.spec.node_selector or {}).items()):
        return False
    return shape.required_nodes is None or shape.required_nodes.matches(name, labels)


def _repelled(shape: PodShape, node: JsonObject, compares: bool) -> PodRejection | None:
    """Kubelets check NoExecute only: other effects are for schedulers."""
    evicting = [taint for taint in node.get("spec", {}).get("taints", ()) if taint.get("effect") == NO_EXECUTE]
    taints = msgspec.convert(evicting, list[Taint]) if evicting else ()
    return None if tolerates_hard(shape.tolerations, taints, compares) else _TAINTED


REJECTED_AFTER_NS = NS_PER_S
"""How long after its scheduling a pod is rejected. Controllers replace a rejected pod at once, and with no delay the
two would run without a pause."""

# 10.128.0.0/9: room for eight million pods.
FIRST_POD_ADDRESS, POD_ADDRESSES = "10.128.0.1", (1 << 23) - 2


class Kubelets(NodePodsController):
    """Keys are pods. Pods of a node that has failed stay exactly as they are until it recovers."""

    name = "kubelets"

    def __init__(self, api: ResourceApi, pods_by_node: Index, usual: Script | None = None) -> None:
        """`usual` is how pods behave whose annotations do not say otherwise."""
        super().__init__(api, pods_by_node)
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
