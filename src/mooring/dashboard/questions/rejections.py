"""Why pending pods are rejected on a node: each form of pod is decided once, on the cluster as it is."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mooring.answers.trial.counterfactual import Counterfactual
from mooring.framework.contract.status import Rejection
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.model.pod import Pod
from mooring.scheduler.decision import Decision, DecisionError, NoFit

MAX_FORMS = 500
"""How many forms of pods are decided: 10 ms each on 5,000 nodes."""


@dataclass(frozen=True, slots=True)
class NodeReason:
    """A verdict on a node: upstream's words, and the plugin that said them."""

    reason: str
    plugin: str


def rejections_on(loaded: LoadedCluster, node: str) -> dict[str, Any]:
    """The reasons, those of most pods first. `total` are the pods that are rejected there; `unasked` those that were not
    decided, because there are too many forms of pods."""
    trials = Counterfactual(loaded)
    found: dict[NodeReason, list[Pod]] = {}
    ours = [pod for pod in loaded.pending() if trials.runner(pod) is not None]
    gated = {pod.key: gate for pod in ours if (gate := trials.gate(pod)) is not None}
    for pod in ours:
        if pod.key in gated:
            found.setdefault(NodeReason(gated[pod.key].message, gated[pod.key].plugin), []).append(pod)
    forms = sorted(_forms([pod for pod in ours if pod.key not in gated]), key=len, reverse=True)
    for pods in forms[:MAX_FORMS]:
        verdict = _verdict(trials, pods[0], node)
        if verdict is not None:
            found.setdefault(verdict, []).extend(pods)
    ranked = sorted(found.items(), key=lambda each: (-len(each[1]), each[0].reason))
    return {
        "pods": [_entry(reason, pods) for reason, pods in ranked],
        "total": sum(map(len, found.values())),
        "unasked": sum(map(len, forms[MAX_FORMS:])),
    }


def _forms(pods: Sequence[Pod]) -> list[list[Pod]]:
    """Pods in groups that get the same verdict."""
    forms: dict[tuple[object, ...], list[Pod]] = {}
    for pod in pods:
        key = (pod.shape, pod.label_set, pod.namespace, pod.priority, pod.spec.scheduler_name)
        forms.setdefault(key, []).append(pod)
    return list(forms.values())


def _verdict(trials: Counterfactual, pod: Pod, node: str) -> NodeReason | None:
    """None: the node would take the pod."""
    decision = trials.decide(pod, explain=True)
    if isinstance(decision, DecisionError):
        return NodeReason(decision.error, "")
    rejection = _rejection(decision, node)
    return None if rejection is None else NodeReason(rejection.message, rejection.plugin or "PreFilter")


def _rejection(decision: Decision, node: str) -> Rejection | None:
    """The word of the first filter that rejects the node, or that of PreFilter about nodes that it left out."""
    if isinstance(decision, DecisionError) or decision.details is None:
        return None
    found = decision.details.rejected.get(node)
    if found is not None:
        return found
    is_left_out = isinstance(decision, NoFit) or node not in decision.details.feasible
    return decision.diagnosis.absent if is_left_out and decision.diagnosis is not None else None


def _entry(reason: NodeReason, pods: Sequence[Pod]) -> dict[str, Any]:
    first = min(pods, key=lambda pod: (pod.metadata.creation_timestamp or "", pod.key))
    example = {"namespace": first.namespace, "name": first.name}
    return {"reason": reason.reason, "plugin": reason.plugin, "count": len(pods), "example": example}
