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

from mooring.answers.explain.cure import EACH, Cure, CureChange, Patient
from mooring.answers.explain.cures_by_others import broken_budgets, remove_on
from mooring.answers.explain.node_cures import described_nodes, mend_on, slots_on, uncordon_on, untaint_on
from mooring.answers.explain.pod_rule_cures import SPREAD, ports_on, relate_on, spread_on, tolerate_on
from mooring.answers.explain.priority_cures import by_evicting
from mooring.answers.explain.request_cures import lower_on, shortages, shrink_on
from mooring.answers.explain.selection_cures import label_on, widen_on
from mooring.answers.explain.volume_cures import volumes_on
from mooring.answers.trial.reasons import Reason, reasons_of
from mooring.scheduler.decision import NoFit

MOST_CHANGES = 3
"""How many changes a cure has, beside those without which the scheduler does not look at the pod."""
MAX_TARGETS = 24
"""How many nodes are asked, those that differ most first."""

OnNode = Callable[[Patient, int], Iterator[CureChange]]
"""Changes that may take away the reason why a node, named by its row, rejects the pod."""

_CHANGES: Mapping[str, tuple[OnNode, ...]] = {
    "NodeUnschedulable": (uncordon_on,),
    "TaintToleration": (tolerate_on, untaint_on, mend_on),
    "NodeAffinity": (widen_on, label_on),
    "PreFilter": (widen_on,),  # no one plugin is to blame for nodes that are left out; an affinity to names does that
    "NodePorts": (ports_on,),
    "NodeResourcesFit": (lower_on, slots_on, shrink_on),
    SPREAD: (spread_on,),
    "InterPodAffinity": (relate_on,),
    "VolumeBinding": (volumes_on,),
    "VolumeRestrictions": (volumes_on,),
    "VolumeZone": (volumes_on,),
    "NodeVolumeLimits": (volumes_on,),
}
"""By the plugin that rejects. Where pods that leave can help, that is tried as well."""

_REPORTED_ALONE = {"remove-taint", "label-node", "more-pods", "shrink-pod", "describe-node"}
"""Kinds of changes that no other search tries alone."""
_ORDER = (
    "uncordon",
    "mend-node",
    "remove-taint",
    "label-node",
    "more-pods",
    "create-volume",
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
