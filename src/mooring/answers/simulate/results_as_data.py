"""Results of simulations as plain data. A public interface: fields may be added, but not renamed or removed.

Amounts are whole numbers: cpu in milli-CPU, memory in bytes.
"""

from collections.abc import Iterable
from typing import Any

from mooring.kit.clock import NS_PER_S
from mooring.scheduler.decision import DecisionError, NoFit, Placement
from mooring.sim.results import Explanation, FailureReason, Fate, NodeUse, PodResult, SimulatedEviction, Story


def pod_as_data(result: PodResult) -> dict[str, Any]:
    """One entry of `pods`."""
    answer: dict[str, Any] = {
        "namespace": result.pod.namespace,
        "name": result.pod.name,
        "result": result.fate.value,
        "attempts": result.attempts,
    }
    if result.fate is Fate.SCHEDULED:
        answer["node"] = result.node
        answer["feasibleNodes"] = result.feasible_count
        answer["best"] = [{"node": node, "score": score} for node, score in result.best]
    else:
        answer["message"] = result.message
    if result.nominated:
        answer["nominatedNode"] = result.nominated
    if result.replaces:
        answer["replaces"] = result.replaces
    return answer


def node_as_data(node: NodeUse) -> dict[str, Any]:
    """One entry of `nodes`."""
    return {
        "name": node.name,
        "pods": node.pods,
        "newPods": node.new_pods,
        "allowedPods": node.allowed_pods,
        "requested": {name: used for name, (used, _) in node.amounts.items()},
        "allocatable": {name: room for name, (_, room) in node.amounts.items()},
    }


def evictions_as_data(evictions: Iterable[SimulatedEviction]) -> list[dict[str, str]]:
    return [
        {
            "namespace": eviction.pod.namespace,
            "name": eviction.pod.name,
            "node": eviction.node,
            "for": eviction.preemptor,
            **({"replacedBy": eviction.replaced_by} if eviction.replaced_by else {}),
        }
        for eviction in evictions
    ]


def limits_as_data(limits: Iterable[FailureReason], counted: str) -> list[dict[str, Any]]:
    """What limits; `counted` is the name of the field for how often: pods or attempts."""
    return [
        {"plugin": each.plugin, "message": each.message, counted: each.times, "nodes": each.nodes} for each in limits
    ]


def story_as_data(story: Story) -> list[dict[str, Any]]:
    """The moments of a story. Times are in seconds since the beginning; moments of an attempt have attempt and cycle."""
    return [
        {"at": moment.at_ns / NS_PER_S, "text": moment.text}
        | ({"attempt": moment.attempt, "cycle": moment.cycle} if moment.attempt else {})
        for moment in story.moments
    ]


def explanation_as_data(explanation: Explanation) -> dict[str, Any]:
    """One entry of `explanations`."""
    decision = explanation.decision
    answer: dict[str, Any] = {"pod": explanation.pod.key, "result": explanation.fate.value}
    if explanation.now_on:
        answer["nowOn"] = explanation.now_on
    if isinstance(decision, Placement):
        answer["node"] = decision.node
    if isinstance(decision, NoFit):
        answer["message"] = decision.message
    elif explanation.fate is not Fate.SCHEDULED:
        answer["message"] = why_not_placed(explanation)
    if explanation.preemption:
        answer["preemption"] = explanation.preemption
    if explanation.victims:
        answer["victims"] = explanation.victims
    return answer | _details_as_data(explanation)


def _details_as_data(explanation: Explanation) -> dict[str, Any]:
    decision = explanation.decision
    if not isinstance(decision, Placement | NoFit) or decision.details is None:
        return {}
    details = decision.details
    rejected = {
        node: {"plugin": r.plugin, "code": r.code.name, "reasons": list(r.reasons)}
        for node, r in details.rejected.items()
    }
    return {"scores": details.scores, "totals": details.totals, "feasible": details.feasible, "rejected": rejected}


def why_not_placed(explanation: Explanation) -> str:
    """Why a pod has no node, in a sentence."""
    return explanation.decision.error if isinstance(explanation.decision, DecisionError) else explanation.message
