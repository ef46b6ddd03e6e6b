"""On which nodes a DaemonSet runs, and for which node each of its pods is.

The controller decides this before the scheduler does, by the rules of node affinity and taints. Daemon pods tolerate
the taints of troubled nodes.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from mooring.model.json_objects import JsonObject
from mooring.model.node import NO_EXECUTE, Taint
from mooring.model.pod_spec import NodeSelector, Toleration
from mooring.model.selectors import NodeMatcher, compile_node_selector
from mooring.model.tolerations import tolerates_hard
from mooring.rules.workload_pods import REVISION_LABEL, daemon_tolerations

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class NodeVerdict(NamedTuple):
    """Whether a DaemonSet wants a pod on the node, and if not, whether one that is there may stay."""

    runs: bool
    stays: bool


_NEITHER = NodeVerdict(False, False)


@dataclass(slots=True)
class Eligibility:
    """The verdicts for one pod template, kept for as long as a node has the same labels and spec: 5,000 nodes change
    rarely."""

    template: JsonObject
    _tolerations: list[Toleration] = field(init=False)
    _matcher: NodeMatcher | None = field(init=False)
    _verdicts: dict[str, tuple[Any, Any, NodeVerdict]] = field(default_factory=dict)
    """By name of the node, with the labels and the spec that they were given for."""

    def __post_init__(self) -> None:
        spec = self.template["spec"]
        self._tolerations = msgspec.convert(daemon_tolerations(spec), list[Toleration])
        required = spec.get("affinity", {}).get("nodeAffinity", {}).get(_REQUIRED)
        self._matcher = compile_node_selector(msgspec.convert(required, NodeSelector)) if required else None

    def of(self, node: JsonObject) -> NodeVerdict:
        """The verdict on a node."""
        name, labels, spec = node["metadata"]["name"], node["metadata"].get("labels", {}), node.get("spec", {})
        held = self._verdicts.get(name)
        if held is not None and held[0] == labels and held[1] == spec:
            return held[2]
        verdict = self._judge(name, labels, spec.get("taints", []))
        self._verdicts[name] = labels, spec, verdict
        return verdict

    def forget(self, known: set[str]) -> None:
        """Drop verdicts on nodes that are gone."""
        for name in self._verdicts.keys() - known:
            del self._verdicts[name]

    def _judge(self, name: str, labels: dict[str, str], taints: list[JsonObject]) -> NodeVerdict:
        """Node name, selector and affinity must match. A taint NoSchedule keeps new pods away; NoExecute also evicts."""
        spec = self.template["spec"]
        if spec.get("nodeName", name) != name:
            return _NEITHER
        if any(labels.get(key) != value for key, value in spec.get("nodeSelector", {}).items()):
            return _NEITHER
        if self._matcher is not None and not self._matcher.matches(name, labels):
            return _NEITHER
        held = msgspec.convert(taints, list[Taint])
        if tolerates_hard(self._tolerations, held):
            return NodeVerdict(True, True)
        evicting = [taint for taint in held if taint.effect == NO_EXECUTE]
        return NodeVerdict(False, tolerates_hard(self._tolerations, evicting))


# ---- The pods of a DaemonSet: each is for one node, and says so by its affinity before it is scheduled.


def node_of(pod: JsonObject) -> str:
    """The node that the pod is on, or is meant for; empty: neither."""
    spec = pod["spec"]
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    required: Any = spec.get("affinity", {}).get("nodeAffinity", {}).get(_REQUIRED, {})
    for term in required.get("nodeSelectorTerms", ()):
        for line in term.get("matchFields", ()):
            if line["key"] == "metadata.name" and line["operator"] == "In" and len(line["values"]) == 1:
                return str(line["values"][0])
    return ""


def is_updated(pod: JsonObject, digest: str) -> bool:
    """Whether the pod is made from the template with this hash."""
    return bool(pod["metadata"].get("labels", {}).get(REVISION_LABEL) == digest)
