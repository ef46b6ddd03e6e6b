"""Cures by one node: what keeps a pod from it is taken away, or a node that would do is described."""

from collections.abc import Iterator, Mapping

import msgspec

from mooring.answers.explain.cure import CHANGE_NODE, MORE_NODES, UNCORDON, UNLIKE_OTHERS, CureChange, Patient
from mooring.answers.explain.cures_by_others import MEND_NODE, mended, state_taints
from mooring.answers.explain.pod_rule_cures import untolerated
from mooring.answers.explain.request_cures import written
from mooring.answers.explain.selection_cures import labels_for, required_of
from mooring.answers.trial.changing_nodes import free_names, with_cordon
from mooring.answers.trial.counterfactual import PutObject
from mooring.answers.trial.reasons import show_taint
from mooring.model.meta import ObjectMeta
from mooring.model.names import HOSTNAME
from mooring.model.node import Node, NodeStatus, Taint
from mooring.model.pod import Pod

# ---- a node that is there


def uncordon_on(patient: Patient, row: int) -> Iterator[CureChange]:
    """The node without its cordon."""
    name = patient.trials.cluster.nodes.names[row]
    yield CureChange(
        "uncordon", f"uncordon node {name}", UNCORDON, node=name, apply_to_node=lambda node: with_cordon(node, False)
    )


def mend_on(patient: Patient, row: int) -> Iterator[CureChange]:
    """The node without the taints that Kubernetes gave it."""
    node = patient.trials.cluster.nodes.nodes[row]
    if node is not None and (own := state_taints(node)):
        text = f"mend node {node.name}, which has the taint {', '.join(own)}"
        yield CureChange("mend-node", text, MEND_NODE, node=node.name, apply_to_node=mended)


def untaint_on(patient: Patient, row: int) -> Iterator[CureChange]:
    """The node without the taints that keep the pod away."""
    name = patient.trials.cluster.nodes.names[row]
    if taints := sorted(untolerated(patient, row), key=show_taint):
        text = f"remove the taint {' and '.join(map(show_taint, taints))} from node {name}"
        cost = CHANGE_NODE * len(taints)
        yield CureChange("remove-taint", text, cost, node=name, apply_to_node=lambda node: _untainted(node, taints))


def _untainted(node: Node, taints: list[Taint]) -> Node:
    left = [taint for taint in node.taints if taint not in taints]
    changed: Node = msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=left or None))
    return changed


def slots_on(patient: Patient, row: int) -> Iterator[CureChange]:
    """The node with room for one more pod than it runs, if it may run no more."""
    nodes = patient.trials.cluster.nodes
    name, allowed, running = nodes.names[row], int(nodes.allowed_pods[row]), int(nodes.pod_count[row])
    if running < allowed:
        return
    text = f"let node {name} run {running + 1} pods instead of {allowed}"
    yield CureChange(
        "more-pods", text, CHANGE_NODE, node=name, apply_to_node=lambda node: _with_slots(node, running + 1)
    )


def _with_slots(node: Node, pods: int) -> Node:
    """The node with another number of pods, also in its capacity, which is no smaller than what can be allocated."""
    allocatable = {**(node.status.allocatable or {}), "pods": str(pods)}
    capacity = {**node.status.capacity, "pods": str(pods)} if node.status.capacity else node.status.capacity
    status = msgspec.structs.replace(node.status, allocatable=allocatable, capacity=capacity)
    changed: Node = msgspec.structs.replace(node, status=status)
    return changed


# ---- a node that is not there


MAX_DOMAINS = 5
"""How many combinations of topology labels a described node is tried with."""
_NEW_DOMAIN = "new"
"""The value of a topology label in a domain of its own."""


def described_nodes(patient: Patient) -> Iterator[CureChange]:
    """A node that has just what the pod asks for: for a cluster without nodes, or where none of its kind would do."""
    for topology in _possible_labels(patient):
        node = _described(patient, topology)
        if node is not None:
            text = f"add a node without taints{_named(patient, node)} that has at least {_shown(node)}"
            cost = MORE_NODES + UNLIKE_OTHERS
            yield CureChange("describe-node", text, cost, node=node.name, edits=(PutObject(node),))


def _described(patient: Patient, topology: Mapping[str, str]) -> Node | None:
    """The smallest node that is large enough, with the labels that the pod selects; those of its node selector, if no
    labels satisfy its affinity. None if the pod wants a node by name, and that is there."""
    pod, taken = patient.pod, patient.trials.cluster.nodes.row_book
    name = _asked_name(pod) or free_names("new-node", 1, taken)[0]
    allocatable = {each: written(each, amount) for each, amount in pod.shape.request.items() if amount}
    status = NodeStatus(allocatable={**allocatable, "pods": "1"}, capacity={**allocatable, "pods": "1"})
    node = Node(metadata=ObjectMeta(name=name, labels={HOSTNAME: name, **topology}), status=status)
    labels = labels_for(pod, node)
    if labels is None:
        labels = pod.spec.node_selector or {}
    if name in taken or HOSTNAME in labels:
        return None
    metadata = ObjectMeta(name=name, uid=f"node-{name}", labels={**node.labels, **labels})
    return Node(metadata=metadata, status=status)


def _asked_name(pod: Pod) -> str | None:
    """The name of the node that the pod wants, if every term of its affinity names one."""
    required = required_of(pod)
    terms = (required.node_selector_terms or []) if required is not None else []
    names = [line.values[0] for t in terms for line in t.match_fields or () if line.operator == "In" and line.values]
    return names[0] if names and all(term.match_fields for term in terms) else None


def _possible_labels(patient: Patient) -> list[dict[str, str]]:
    """Values of the labels that rules about other pods name: a domain of its own, then those of nodes that are there."""
    pod = patient.pod
    terms = pod.shape.terms(pod.namespace)
    keys = {each.topology_key for each in pod.shape.spread_constraints if each.when_unsatisfiable == "DoNotSchedule"}
    keys |= {each.topology_key for each in (*terms.affinity, *terms.anti_affinity)}
    keys -= {HOSTNAME}
    found = [dict.fromkeys(sorted(keys), _NEW_DOMAIN)]
    for node in patient.trials.cluster.nodes.nodes if keys else ():
        labels = {key: node.labels.get(key, _NEW_DOMAIN) for key in sorted(keys)} if node is not None else found[0]
        if labels not in found:
            found.append(labels)
    return found[:MAX_DOMAINS]


def _named(patient: Patient, node: Node) -> str:
    return f" named {node.name}" if _asked_name(patient.pod) else ""


def _shown(node: Node) -> str:
    """Amounts, then labels: `cpu 1, memory 64Mi, pods 1 and the labels disk=ssd, zone=new`."""
    amounts = [f"{name} {amount}" for name, amount in (node.status.allocatable or {}).items()]
    labels = [f"{key}={value}" for key, value in node.labels.items() if key != HOSTNAME]
    return ", ".join(amounts) + (f" and the labels {', '.join(labels)}" if labels else "")
