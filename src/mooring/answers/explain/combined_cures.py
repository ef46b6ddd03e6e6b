"""Cures by several changes: node by node, from the reason why it rejects the pod to the reason that remains.

A node rejects a pod for one reason at a time. Each reason has changes that take it away, of the pod, of the node or of the
pods there. The search makes the cheapest of them, asks the node again, and goes on from what it answers then: best first, by
the cost of all changes that are made, over all nodes at once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import combinations, count
from math import inf

import msgspec

from mooring.answers.explain.claim_cures import volumes_on
from mooring.answers.explain.cure import (
    CHANGE_NODE,
    EACH,
    MORE_NODES,
    UNCORDON,
    UNLIKE_OTHERS,
    Cure,
    CureChange,
    Patient,
)
from mooring.answers.explain.cures_by_others import (
    MEND_NODE,
    broken_budgets,
    keepers_on,
    mended,
    remove_on,
    state_taints,
    wait_on,
)
from mooring.answers.explain.pod_rule_cures import (
    SPREAD,
    by_evicting,
    ports_on,
    relate_on,
    spread_on,
    tolerate_on,
    untolerated,
)
from mooring.answers.explain.request_cures import drop_on, enough_of, lower_on, shortages, shrink_on
from mooring.answers.explain.selection_cures import label_on, labels_for, required_of, widen_on
from mooring.answers.trial.changing_nodes import free_names, with_cordon
from mooring.answers.trial.counterfactual import PutObject
from mooring.answers.trial.reasons import Reason, reasons_of, show_taint
from mooring.model.meta import ObjectMeta
from mooring.model.names import HOSTNAME
from mooring.model.node import Node, NodeStatus, Taint
from mooring.model.pod import Pod
from mooring.scheduler.decision import NoFit

MOST_CHANGES = 3
"""How many changes a cure has, beside those without which the scheduler does not look at the pod."""
MAX_TARGETS = 24
"""How many nodes are asked, those that differ most first."""

# ---- changes of a node: what keeps the pod from it is taken away


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
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=left or None))


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
    return msgspec.structs.replace(node, status=status)


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
    allocatable = {each: enough_of(each, amount) for each, amount in pod.shape.request.items() if amount}
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


# ---- the search

OnNode = Callable[[Patient, int], Iterator[CureChange]]
"""Changes that may take away the reason why a node, named by its row, rejects the pod."""

_CHANGES: Mapping[str, tuple[OnNode, ...]] = {
    "NodeUnschedulable": (uncordon_on,),
    "TaintToleration": (tolerate_on, untaint_on, mend_on),
    "NodeAffinity": (widen_on, label_on),
    "PreFilter": (widen_on,),  # no one plugin is to blame for nodes that are left out; an affinity to names does that
    "NodePorts": (ports_on,),
    "NodeResourcesFit": (lower_on, drop_on, slots_on, shrink_on),
    SPREAD: (spread_on,),
    "InterPodAffinity": (relate_on, keepers_on),
    "VolumeBinding": (volumes_on,),
    "VolumeRestrictions": (volumes_on,),
    "VolumeZone": (volumes_on,),
    "NodeVolumeLimits": (volumes_on,),
}
"""By the plugin that rejects. Where pods that leave can help, that is tried as well."""

_REPORTED_ALONE = {
    "remove-taint",
    "label-node",
    "more-pods",
    "shrink-pod",
    "describe-node",
    "replace-volume",
    "drop-request",
    "remove-keepers",
}
"""Kinds of changes that no other search tries alone."""
_ORDER = (
    "uncordon",
    "mend-node",
    "remove-taint",
    "label-node",
    "more-pods",
    "create-volume",
    "replace-volume",
    "drop-request",
    "lower-request",
    "tolerate",
)
"""The order in which a sentence names its changes; others follow as they were made."""


@dataclass(order=True, slots=True)
class _Branch:
    """A patient, the next change that is made for it, and the node that this is for. The change waits until its turn comes:
    most never do."""

    cost: float
    length: int
    number: int
    node: str = field(compare=False)
    patient: Patient = field(compare=False)
    change: CureChange | None = field(compare=False)


class CombinedSearch:
    """The search for combinations that are cheaper than the cheapest other cure, which `below` is the cost of."""

    def __init__(self, patient: Patient, below: float) -> None:
        self._patient, self._below = patient, below
        self._branches: list[_Branch] = []
        self._numbers = count()
        self._seen: set[tuple[str, frozenset[str]]] = set()
        self._found: list[Cure] = []
        self._named: set[frozenset[str]] = set()
        self._left: dict[str, int] = {}
        nomination = patient.trials.nominate(patient.pod) if patient.budget.is_left() else None
        self._evicts_anyway = nomination is not None

    def run(self, asked: Iterable[tuple[str, Patient]]) -> list[Cure]:
        """All cures that are found by asking nodes about forms of the patient, the cheapest first."""
        for node, patient in asked:
            self._push(node, patient)
        while self._branches and self._patient.budget.is_left():
            branch = heappop(self._branches)
            made = self._made(branch.patient, branch.change)
            if self._is_wanted(made, branch.cost):
                patient = branch.patient if branch.change is None else branch.patient.after(branch.change)
                with patient.changed():
                    cures = self._ask(branch.node, patient)
                for cure in cures:
                    self._name(patient, cure)
        return self._found

    def _push(self, node: str, patient: Patient, change: CureChange | None = None) -> None:
        made = self._made(patient, change)
        key = node, frozenset(each.text for each in made)
        cost = patient.cost + (change.cost if change is not None else 0)
        if key not in self._seen and self._is_wanted(made, cost):
            self._seen.add(key)
            heappush(self._branches, _Branch(cost, len(made), next(self._numbers), node, patient, change))

    def _made(self, patient: Patient, change: CureChange | None = None) -> tuple[CureChange, ...]:
        """The changes that the search has made, and the next one."""
        made = patient.made[len(self._patient.made) :]
        return made if change is None else (*made, change)

    def _is_wanted(self, made: tuple[CureChange, ...], cost: float) -> bool:
        """Whether a cure of these changes, or of more, would be named."""
        if len(made) > 1:
            return cost < self._below and self._left.get("", EACH) > 0
        return not made or self._left.get(made[0].kind, EACH) > 0

    def _ask(self, name: str, patient: Patient) -> list[Cure]:
        """Ask the node: what it takes is a cure, and what it rejects leads to further changes."""
        made, row = self._made(patient), patient.trials.cluster.nodes.row_book[name]
        reason = patient.rejection_on(patient.pod, row)
        if reason is None:
            node = patient.node_for(patient.pod) if made else None
            return [patient.cure(None, node)] if node is not None else []
        if len(made) < MOST_CHANGES:
            # A node that is described gets what it needs in its description.
            is_described = any(change.node == name and change.edits for change in made)
            for change in changes_for(patient, row, reason):
                if not is_described or change.apply_to_node is None:
                    self._push(name, patient, change)
        return [*by_evicting(patient)] if made and reason.can_evict and not self._evicts_anyway else []

    def _name(self, patient: Patient, cure: Cure) -> None:
        """Keep a cure, if no part of it suffices and no other search finds it."""
        made = self._made(patient)
        kind = made[0].kind if len(made) == 1 else ""
        evicts = len(cure.victims) > sum(len(change.victims) for change in made)
        if kind and not evicts and kind not in _REPORTED_ALONE:
            return
        if not kind and (cure.cost >= self._below or self._is_too_much(made, evicts)):
            return
        # With another amount a request is lowered for another node, where more would have to be given up.
        alike = frozenset(change.kind if change.kind == "lower-request" else change.text for change in made)
        if alike in self._named:
            return
        self._named.add(alike)
        self._found.append(_ordered(self._patient, patient, cure))
        self._left[kind] = self._left.get(kind, EACH) - 1

    def _is_too_much(self, made: tuple[CureChange, ...], evicts: bool) -> bool:
        """Whether the pod gets a node with fewer of the changes."""
        for fewer in combinations(made, len(made) - 1):
            part = self._patient.after(*fewer)
            with part.changed():
                if part.node_for(part.pod) is not None or (evicts and any(by_evicting(part))):
                    return True
        return False


def _ordered(base: Patient, patient: Patient, cure: Cure) -> Cure:
    """The cure with its changes in the order in which people make them: nodes first, then the pod."""
    first, made = base.made, patient.made[len(base.made) :]
    rank = {kind: i for i, kind in enumerate(_ORDER)}
    changes = [*first, *sorted(made, key=lambda change: rank.get(change.kind, len(rank)))]
    leaving = [pod for change in made for pod in change.victims]
    return replace(
        cure,
        kind="+".join(change.kind for change in changes),
        change=", and ".join(change.text for change in changes),
        broken_budgets=cure.broken_budgets + broken_budgets(base, leaving),
    )


def changes_for(patient: Patient, row: int, reason: Reason) -> Iterator[CureChange]:
    """The changes that may take a reason away."""
    for each in _CHANGES.get(reason.plugin, ()):
        yield from each(patient, row)
    if reason.can_evict:
        yield from wait_on(patient, row)
        yield from remove_on(patient, row)


def nodes_to_ask(patient: Patient) -> list[str]:
    """The nodes to ask: of each kind of node the one that lacks least, then the next of each kind."""
    decision = patient.trials.decide(patient.pod)
    if not isinstance(decision, NoFit):
        return []
    cluster = patient.trials.cluster
    kinds: dict[object, list[int]] = {}
    for reason in reasons_of(decision):
        for row in reason.rows.tolist():
            kinds.setdefault((reason.plugin, reason.message, _kind(patient, row)), []).append(row)
    ranked: list[tuple[int, int, int]] = []
    for rows in kinds.values():
        lacking = sorted(zip(shortages(cluster, patient.pod, rows), rows, strict=True))
        ranked += [(place, -len(rows), row) for place, (_, row) in enumerate(lacking[:MAX_TARGETS])]
    return [cluster.nodes.names[row] for _, _, row in sorted(ranked)[:MAX_TARGETS]]


def by_combinations(patient: Patient, below: float) -> list[Cure]:
    """Several changes for nodes that are there, if they cost less than the cheapest other cure, which `below` is the cost
    of; and single changes of nodes and of pods there."""
    patient = replace(patient, budget=patient.budget.half())
    return CombinedSearch(patient, below).run((node, patient) for node in nodes_to_ask(patient))


def by_described_node(patient: Patient) -> list[Cure]:
    """A node that has what the pod asks for, with changes of the rules that no node satisfies."""
    asked = [(change.node, patient.after(change)) for change in described_nodes(patient)]
    return CombinedSearch(patient, inf).run(asked)


def _kind(patient: Patient, row: int) -> object:
    """The part of a node that decides which changes it needs, but for amounts and pods."""
    node = patient.trials.cluster.nodes.nodes[row]
    assert node is not None
    selected = tuple(node.labels.get(key) for key in patient.pod.spec.node_selector or {})
    return node.spec.unschedulable, frozenset(node.taints), selected
