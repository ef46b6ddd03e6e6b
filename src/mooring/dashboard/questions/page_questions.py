"""Two questions that only the dashboard asks.

The changes of a what-if come from the page as texts, which never name files of the machine that answers. Rejections say
why pending pods do not fit on a node: each form of pod is decided once, on the cluster as it is.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from mooring.answers.trial.changing_cluster import ChangingCluster
from mooring.answers.trial.counterfactual import Counterfactual
from mooring.answers.trial.node_prices import NO_PRICES
from mooring.answers.what_if.question import CHANGES, Change, what_if_after
from mooring.answers.what_if.targets import reject
from mooring.api.validation.problem import Problem
from mooring.dashboard.interfaces import AskedChange, AskedChanges
from mooring.dashboard.slices import at_once
from mooring.dashboard.views.node_map import map_nodes, use_of
from mooring.framework import config as configuration
from mooring.framework.contract.status import Rejection
from mooring.inputs.input_errors import InputError
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.inputs.offers.price_list import PriceList
from mooring.kit.yaml_reader import YamlFault, keep_last, read_documents
from mooring.model.pod import Pod
from mooring.scheduler.decision import Decision, DecisionError, NoFit

MAX_CHANGES = 100
"""Largest number of changes in one question. After each change the cluster is simulated until nothing moves."""


def what_if_content(loaded: LoadedCluster, asked: AskedChanges, prices: PriceList = NO_PRICES) -> dict[str, Any]:
    """The answer of `mooring what-if -o json`, and the map of the nodes afterwards. Raises InputError, ConfigError."""
    changes = [prepared(loaded, each) for each in _checked(asked)]
    cluster = ChangingCluster(loaded, reads_files=False, prices=prices)
    answer = what_if_after(cluster, changes)
    return {"answer": answer.to_dict(), "after": _after(cluster)}


def _checked(asked: AskedChanges) -> list[AskedChange]:
    changes = [*asked.changes]
    if not changes:
        reject(f"no change: name at least one, such as drain NODE; the changes are {', '.join(CHANGES)}")
    if len(changes) > MAX_CHANGES:
        reject(f"{len(changes)} changes; one question takes at most {MAX_CHANGES}")
    return changes


def prepared(loaded: LoadedCluster, asked: AskedChange) -> Change:
    """A change as the answer takes it: text of manifests and configurations is read here."""
    name, value = asked.change, asked.value
    if name == "config":
        return name, configuration.load(value, "configuration", feature_gates=loaded.gates)
    if name == "apply":
        return name, _objects(name, value)
    number, sign, template = value.partition("=")
    if name == "add-nodes" and sign and "\n" in template.strip():
        return name, (number, _one_object(template))
    return name, value


def _one_object(text: str) -> Mapping[str, Any]:
    found = _objects("add-nodes", text)
    if len(found) != 1:
        raise InputError([Problem("", f"the template has {len(found)} objects; write one Node", where="add-nodes")])
    return found[0]


def _objects(change: str, text: str) -> list[Mapping[str, Any]]:
    """The documents of YAML or JSON text. Raises InputError."""
    try:
        documents = [each for each in read_documents(text, on_repeat=keep_last) if each is not None]
    except YamlFault as fault:
        where = f"{change}, line {fault.line}, column {fault.column}"
        raise InputError([Problem("", str(fault), where=where)]) from None
    found = [each for each in documents if isinstance(each, Mapping)]
    if len(found) < len(documents) or not found:
        raise InputError([Problem("", "the text must be objects in YAML or JSON", where=change)])
    return found


def _after(cluster: ChangingCluster) -> dict[str, Any]:
    """The nodes afterwards, in the form of the stream's events `nodes` and `use`."""
    table = cluster.simulated.cluster.nodes
    mapped = at_once(map_nodes(table, 0))
    use = use_of(table, mapped, "")
    return {"names": mapped.map.names, "resources": mapped.map.resources, "use": use.use, "pods": use.pods}


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
