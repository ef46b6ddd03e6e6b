"""Results of simulations as plain data. A public interface: fields may be added, but not renamed or removed.

Amounts are whole numbers: cpu in milli-CPU, memory in bytes.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from mooring.answers.form.published import Published, fields_of
from mooring.kit.clock import NS_PER_S
from mooring.scheduler.decision import DecisionError, NoFit, Placement
from mooring.sim.results import Explanation, FailureReason, Fate, NodeUse, PodResult, SimulatedEviction, Story


def pod_as_data(result: PodResult) -> dict[str, Any]:
    """One entry of `pods`."""
    answer = fields_of(result, "pod.namespace pod.name fate:result attempts")
    if result.fate is Fate.SCHEDULED:
        best = [{"node": node, "score": score} for node, score in result.best]
        answer |= {**fields_of(result, "node feasible_count:feasibleNodes"), "best": best}
    else:
        answer["message"] = result.message
    return answer | fields_of(result, "nominated?:nominatedNode replaces?")


def node_as_data(node: NodeUse) -> dict[str, Any]:
    """One entry of `nodes`."""
    return {
        **fields_of(node, "name pods new_pods allowed_pods"),
        "requested": {name: used for name, (used, _) in node.amounts.items()},
        "allocatable": {name: room for name, (_, room) in node.amounts.items()},
    }


def uses_as_data(groups: Mapping[str, Published]) -> list[dict[str, Any]]:
    """The use of zones, pools or nodes, each with its name."""
    return [{"name": name, **use.content()} for name, use in groups.items()]


def evictions_as_data(evictions: Iterable[SimulatedEviction]) -> list[dict[str, str]]:
    """The entries of `preempted`."""
    return [fields_of(each, "pod.namespace pod.name node preemptor:for replaced_by?") for each in evictions]


def limits_as_data(limits: Iterable[FailureReason], counted: str) -> list[dict[str, Any]]:
    """The entries of `limits`; `counted` is the name of the field for how often: pods or attempts."""
    return [fields_of(each, f"plugin message times:{counted} nodes") for each in limits]


def story_as_data(story: Story) -> list[dict[str, Any]]:
    """The moments of a story. Times are in seconds since the beginning; moments of an attempt have attempt and cycle."""
    return [
        {"at": each.at_ns / NS_PER_S, **fields_of(each, "text attempt cycle" if each.attempt else "text")}
        for each in story.moments
    ]


def explanation_as_data(explanation: Explanation) -> dict[str, Any]:
    """One entry of `explanations`."""
    decision = explanation.decision
    answer = fields_of(explanation, "pod.key:pod fate:result now_on?")
    if isinstance(decision, Placement):
        answer["node"] = decision.node
    if isinstance(decision, NoFit):
        answer["message"] = decision.message
    elif explanation.fate is not Fate.SCHEDULED:
        answer["message"] = why_not_placed(explanation)
    answer |= fields_of(explanation, "preemption? victims?")
    details = decision.details if isinstance(decision, Placement | NoFit) else None
    if details is None:
        return answer
    rejected = {node: fields_of(each, "plugin code.name:code reasons") for node, each in details.rejected.items()}
    return {**answer, **fields_of(details, "scores totals feasible"), "rejected": rejected}


def why_not_placed(explanation: Explanation) -> str:
    """Why a pod has no node, in a sentence."""
    return explanation.decision.error if isinstance(explanation.decision, DecisionError) else explanation.message
