"""What a kubelet checks before it starts a pod, whoever bound the pod: upstream's predicate admit handler.

The scheduler has checked the same, but pods also come with a node in their spec, or from another scheduler.
"""

from typing import NamedTuple

import msgspec

from mooring.controllers.nodes.node_loads import NodeLoad, NodeLoads
from mooring.controllers.nodes.node_making import OS
from mooring.model.json_objects import JsonObject
from mooring.model.names import is_extended_resource
from mooring.model.node import NO_EXECUTE, Taint, tolerates_hard
from mooring.model.quantity import parse
from mooring.model.requests import to_units
from mooring.model.shape import PodShape

_FIRST = ("cpu", "memory", "ephemeral-storage")
"""In this order a kubelet looks at resources; others follow."""


class PodRejection(NamedTuple):
    reason: str
    message: str


_WRONG_OS_LABEL = PodRejection(
    "PodOSSelectorNodeLabelDoesNotMatch",
    "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label",
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
    """`loads` must know all pods that were admitted."""

    def __init__(self, loads: NodeLoads) -> None:
        self._loads = loads
        self._capacities: dict[str, tuple[JsonObject, dict[str, int]]] = {}

    def rejection_of(self, pod: JsonObject, node: JsonObject) -> PodRejection | None:
        """None: the pod may start. Of several reasons the first counts, in upstream's order."""
        shape = self._loads.shape(pod["spec"])
        load = self._loads.of(node["metadata"]["name"])
        return (
            _wrong_system(pod, node)
            or _lacking(pod, shape, load, self._capacity(node))
            or (None if _is_wanted_node(shape, node) else _WRONG_NODE)
            or (_TAKEN_PORT if any(map(load.has_port, shape.host_ports)) else None)
            or _repelled(shape, node)
        )

    def forget(self, node: str) -> None:
        self._capacities.pop(node, None)

    def _capacity(self, node: JsonObject) -> dict[str, int]:
        """What the node has for pods, worked out once for each version of it."""
        name, written = node["metadata"]["name"], node.get("status", {}).get("allocatable", {})
        kept = self._capacities.get(name)
        if kept is not None and kept[0] is written:
            return kept[1]
        amounts = {resource: parse(text) for resource, text in written.items()}
        capacity = to_units(amounts) | {"pods": amounts.get("pods", 0) // 1_000_000_000}
        self._capacities[name] = written, capacity
        return capacity


def _wrong_system(pod: JsonObject, node: JsonObject) -> PodRejection | None:
    system = node["metadata"].get("labels", {}).get(OS, "linux")
    if pod["metadata"].get("labels", {}).get(OS, system) != system:
        return _WRONG_OS_LABEL
    return _WRONG_OS if pod["spec"].get("os", {}).get("name", system) != system else None


def _lacking(pod: JsonObject, shape: PodShape, load: NodeLoad, capacity: dict[str, int]) -> PodRejection | None:
    if load.pods + 1 > capacity["pods"]:
        return _out_of("pods", 1, load.pods, capacity["pods"])
    others = sorted(name for name in shape.request if name not in _FIRST)
    for name in (*_FIRST, *others):
        wanted, used = shape.request.get(name, 0), load.requested[name]
        if wanted > capacity.get(name, 0) - used and wanted and not _is_elsewhere(pod, name, capacity):
            return _out_of(name, wanted, used, capacity.get(name, 0))
    return None


def _is_elsewhere(pod: JsonObject, name: str, capacity: dict[str, int]) -> bool:
    """Whether it is not for the node to provide: what it does not know, or what devices stand for."""
    mappings = pod.get("status", {}).get("extendedResourceClaimStatus", {}).get("requestMappings", ())
    return is_extended_resource(name) and (
        name not in capacity or any(mapping.get("resourceName") == name for mapping in mappings)
    )


def _out_of(name: str, wanted: int, used: int, capacity: int) -> PodRejection:
    amounts = f"requested: {wanted}, used: {used}, capacity: {capacity}"
    return PodRejection(f"OutOf{name}", f"Node didn't have enough resource: {name}, {amounts}")


def _is_wanted_node(shape: PodShape, node: JsonObject) -> bool:
    name, labels = node["metadata"]["name"], node["metadata"].get("labels", {})
    if any(labels.get(key) != value for key, value in (shape.spec.node_selector or {}).items()):
        return False
    return shape.required_nodes is None or shape.required_nodes.matches(name, labels)


def _repelled(shape: PodShape, node: JsonObject) -> PodRejection | None:
    """Kubelets look at NoExecute only: other effects are for schedulers."""
    evicting = [taint for taint in node.get("spec", {}).get("taints", ()) if taint.get("effect") == NO_EXECUTE]
    taints = msgspec.convert(evicting, list[Taint]) if evicting else ()
    return None if tolerates_hard(shape.tolerations, taints) else _TAINTED
