"""On which nodes a DaemonSet runs: it asks before the scheduler does, and its pods put up with troubled nodes."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from mooring.model.json_objects import JsonObject
from mooring.model.node import NO_EXECUTE, Taint, tolerates_hard
from mooring.model.pod_spec import NodeSelector, Toleration
from mooring.model.selectors import NodeMatcher, compile_node_selector
from mooring.rules.workload_pods import daemon_tolerations

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


class NodeVerdict(NamedTuple):
    """What a DaemonSet wants of a node: a pod there, and if not, whether one that is there may stay."""

    runs: bool
    stays: bool


_NEITHER = NodeVerdict(False, False)


@dataclass(slots=True)
class Eligibility:
    """The verdicts of one pod template, kept for as long as a node has the same labels, taints and so on."""

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
