"""The nodes of a DaemonSet: on which of them its controller wants a pod, and for which node a pod is meant.

The controller decides this before the scheduler does, by the rules of node affinity and taints; daemon pods tolerate the
taints of troubled nodes. Manifests, what-if questions and the embedded controller go by these rules.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from mooring.api.json_objects import JsonObject
from mooring.model.node import NO_EXECUTE, Taint, tolerates_hard
from mooring.model.pod import Pod
from mooring.model.pod_spec import REQUIRED_TERMS, NodeSelector, Toleration
from mooring.model.selectors import compile_node_selector
from mooring.rules.workload_pods import daemon_tolerations

DAEMON_SET = "DaemonSet"


class NodeVerdict(NamedTuple):
    """Whether a DaemonSet wants a pod on the node, and if not, whether one that is there may stay."""

    runs: bool
    stays: bool


_NEITHER = NodeVerdict(False, False)


class DaemonNodes:
    """Judges nodes for the spec of one pod template."""

    def __init__(self, spec: JsonObject, compares: bool = True) -> None:
        """`compares` is the gate of the operators Lt and Gt in tolerations. Manifests have them only where the gate is on:
        admission refuses others."""
        self._spec, self._compares = spec, compares
        self._tolerations = msgspec.convert(daemon_tolerations(spec), list[Toleration])
        required = spec.get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED_TERMS)
        self._matcher = compile_node_selector(msgspec.convert(required, NodeSelector)) if required else None

    def verdict(self, name: str, labels: Mapping[str, str], taints: Sequence[Taint]) -> NodeVerdict:
        """Node name, selector and affinity must match. A taint NoSchedule keeps new pods away; NoExecute also evicts."""
        if (self._spec.get("nodeName") or name) != name:
            return _NEITHER
        if any(labels.get(key) != value for key, value in self._spec.get("nodeSelector", {}).items()):
            return _NEITHER
        if self._matcher is not None and not self._matcher.matches(name, labels):
            return _NEITHER
        if tolerates_hard(self._tolerations, taints, self._compares):
            return NodeVerdict(True, True)
        evicting = [taint for taint in taints if taint.effect == NO_EXECUTE]
        return NodeVerdict(False, tolerates_hard(self._tolerations, evicting, self._compares))


def is_daemon(pod: Pod) -> bool:
    """Whether a DaemonSet controls the pod."""
    controller = pod.controller()
    return controller is not None and controller.kind == DAEMON_SET


def node_of(pod: JsonObject) -> str:
    """The node that a daemon pod is on, or is meant for by its affinity before it is scheduled; empty: neither."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    required: Any = spec.get("affinity", {}).get("nodeAffinity", {}).get(REQUIRED_TERMS, {})
    for term in required.get("nodeSelectorTerms", ()):
        for line in term.get("matchFields", ()):
            if line["key"] == "metadata.name" and line["operator"] == "In" and len(line["values"]) == 1:
                return str(line["values"][0])
    return ""
