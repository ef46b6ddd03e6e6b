"""Cures around the pod: nodes that are uncordoned, mended or added, and other pods that are evicted, moved or removed."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations

import msgspec
import numpy as np

from mooring.answers.explain.cure import (
    ANOTHER_MOVE,
    BROKEN_BUDGET,
    EACH,
    MORE_NODES,
    MOVE,
    REMOVE_POD,
    UNCORDON,
    WAIT,
    Cure,
    CureChange,
    Patient,
)
from mooring.answers.trial.changing_nodes import (
    STATE_TAINTS,
    equipment_of,
    equipped,
    free_names,
    node_like,
    with_cordon,
)
from mooring.answers.trial.counterfactual import Edit, MovePod, PlacePod, PutObject, RemovePod
from mooring.answers.trial.reasons import reasons_of
from mooring.cluster.cluster import Cluster
from mooring.controllers.nodes.node_lifecycle import UNSCHEDULABLE
from mooring.model.devices import ResourceSlice
from mooring.model.names import HOSTNAME
from mooring.model.node import Node, Taint
from mooring.model.pod import Pod
from mooring.model.storage import CSINode
from mooring.plugins.preemption.victim_search import budgets_of, split_by_budget
from mooring.rules.workload_pods import is_daemon
from mooring.scheduler.decision import NoFit, Placement

# ---- Cures by nodes: uncordon one, bring one back, or add one like those that are there.


MAX_NODES = 40
"""How many nodes of each kind are tried."""
MEND_NODE = MORE_NODES - 5


def by_uncordoning(patient: Patient) -> Iterator[Cure]:
    """Nodes that are cordoned."""
    nodes = [node for node in patient.trials.cluster.nodes.nodes if node is not None and node.spec.unschedulable]
    for node in nodes[:MAX_NODES]:
        yield from patient.cures(
            "uncordon", f"uncordon node {node.name}", UNCORDON, PutObject(with_cordon(node, False))
        )


def by_mending(patient: Patient) -> Iterator[Cure]:
    """Nodes with taints that Kubernetes sets by itself: not ready, unreachable, under pressure."""
    tried = 0
    for node in patient.trials.cluster.nodes.nodes:
        own = state_taints(node)
        if node is None or not own or tried >= MAX_NODES:
            continue
        tried += 1
        text = f"mend node {node.name}, which has the taint {', '.join(own)}"
        yield from patient.cures("mend-node", text, MEND_NODE, PutObject(mended(node)))


def _taints(node: Node | None) -> list[Taint]:
    return list(node.spec.taints or ()) if node is not None else []


def state_taints(node: Node | None) -> list[str]:
    """The keys of the taints that Kubernetes gave a node, but for that of a cordon."""
    keys = [taint.key for taint in _taints(node)]
    return [key for key in keys if key.startswith(STATE_TAINTS) and key != UNSCHEDULABLE]


def mended(node: Node) -> Node:
    """The node without these taints."""
    own = state_taints(node)
    taints = [taint for taint in _taints(node) if taint.key not in own]
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=taints or None))


def by_one_more(patient: Patient) -> Iterator[Cure]:
    """A new node like one that is there: one try for each kind of node, those that are most frequent first."""
    cluster = patient.trials.cluster
    for model, number in kinds_of_nodes(cluster)[:MAX_NODES]:
        edits = one_more_like(cluster, model)
        alike = f"{number} like it" if number > 1 else "the only one of its kind"
        yield from patient.cures("add-node", f"add a node like {model.name} ({alike})", MORE_NODES, *edits)


def kinds_of_nodes(cluster: Cluster) -> list[tuple[Node, int]]:
    """One node of each kind with how many there are, the most frequent kind first. A kind has the same amounts, taints,
    numbers of devices, and labels, but for its hostname."""
    first: dict[Hashable, Node] = {}
    counts: dict[Hashable, int] = {}
    devices = _devices(cluster)
    for node in cluster.nodes.nodes:
        if node is not None:
            kind = _kind(node), frozenset(devices.get(node.name, {}).items())
            first.setdefault(kind, node)
            counts[kind] = counts.get(kind, 0) + 1
    return [(first[kind], counts[kind]) for kind in sorted(counts, key=lambda kind: -counts[kind])]


def _devices(cluster: Cluster) -> dict[str, dict[str, int]]:
    """Node -> driver -> how many devices it has."""
    found: dict[str, dict[str, int]] = {}
    for item in cluster.objects[ResourceSlice].values():
        if isinstance(item, ResourceSlice) and item.spec.node_name:
            own = found.setdefault(item.spec.node_name, {})
            own[item.spec.driver] = own.get(item.spec.driver, 0) + len(item.spec.devices or ())
    return found


def _kind(node: Node) -> Hashable:
    labels = frozenset((key, value) for key, value in node.labels.items() if key != HOSTNAME and value != node.name)
    amounts = frozenset((node.status.allocatable or {}).items())
    taints = frozenset(taint for taint in _taints(node) if not taint.key.startswith(STATE_TAINTS))
    return labels, amounts, taints


def one_more_like(cluster: Cluster, model: Node, number: int = 1) -> list[Edit]:
    """A new node with the amounts, labels and taints of another one, its devices and drivers, and its DaemonSet pods.

    It is the one with this number among several that are added.
    """
    name = free_names(f"{model.name}-copy", number, cluster.nodes.row_book)[-1]
    objects = [*cluster.objects[CSINode].values(), *cluster.objects[ResourceSlice].values()]
    edits: list[Edit] = [PutObject(node_like(model, name))]
    edits += [PutObject(equipped(item, name)) for item in equipment_of(model.name, objects)]
    row = cluster.nodes.row_book[model.name]
    edits += [PlacePod(_copy(pod, name)) for pod in cluster.nodes.pods_on[row] if is_daemon(pod)]
    return edits


def _copy(pod: Pod, node: str) -> Pod:
    metadata = msgspec.structs.replace(pod.metadata, name=f"{pod.name}-{node}"[:253], uid="")
    spec = msgspec.structs.replace(pod.spec, node_name=node)
    return Pod(metadata=metadata, spec=spec, status=pod.status)


MAX_ROWS = 30
"""On how many nodes others are moved or removed, the nearest to fitting first."""
MAX_LEAVERS = 12
"""How many pods of a node are tried, one by one and in pairs."""
MAX_KEEPERS = 3
"""How many pods leave in one change because their anti-affinity keeps the pod away."""

# ---- pods that move or leave


def by_moves(patient: Patient) -> Iterator[Cure]:
    """Pods of a node that leave it: as a move if they find room elsewhere, else for good. Two only if one is not enough."""
    candidates = [movable(patient, row) for row in nearest_rows(patient)]
    found = list(by_leavers(patient, [(pod,) for pods in candidates for pod in pods]))
    yield from found or by_leavers(patient, [pair for pods in candidates for pair in combinations(pods, 2)])


def by_leavers(patient: Patient, sets: Iterable[tuple[Pod, ...]]) -> Iterator[Cure]:
    """Cures of both kinds, at most EACH of them."""
    left = {"move": EACH, "remove": EACH}
    for leavers in sets:
        if not any(left.values()) or not patient.budget.is_left():
            return
        node = patient.trials.node_for(patient.pod, [RemovePod(pod) for pod in leavers])
        if node is None:
            continue
        text = f"remove {' and '.join(pod.key for pod in leavers)} from {leavers[0].spec.node_name}"
        cure = _moved(patient, leavers, node) or removal(patient, leavers, text, node)
        kind = cure.kind.rpartition("+")[2]
        if left[kind]:
            left[kind] -= 1
            yield cure


def nearest_rows(patient: Patient) -> list[int]:
    """The nodes that others could make room on, those that lack least first."""
    decision = patient.trials.decide(patient.pod)
    if not isinstance(decision, NoFit):
        return []
    rows = np.concatenate(
        [reason.rows for reason in reasons_of(decision) if reason.can_evict] or [np.zeros(0, np.intp)]
    )
    amounts = patient.trials.cluster.nodes.amounts
    lack = np.zeros(len(rows))
    request = patient.pod.shape.request
    for place, wants in zip(amounts.places(request), request.values(), strict=True):
        lack += np.maximum(wants - (amounts.allocatable[place][rows] - amounts.requested[place][rows]), 0) / max(
            wants, 1
        )
    chosen: list[int] = rows[np.argsort(lack, kind="stable")[:MAX_ROWS]].tolist()
    return chosen


def movable(patient: Patient, row: int) -> list[Pod]:
    """Pods of a node, the smallest first among those that free enough, then the largest of the others."""
    pods = leaving_pods(patient.trials.cluster, row)
    amounts, wants = patient.trials.cluster.nodes.amounts, patient.pod.shape.request
    free = {name: amounts.free_on(name, [row])[0] for name in wants}

    def lack(pod: Pod) -> float:
        held = pod.shape.held
        return sum(max(wants[name] - free[name] - held.get(name, (0, 0))[0], 0) / max(wants[name], 1) for name in wants)

    def size(pod: Pod) -> float:
        return sum(held[0] / max(wants.get(name, 0), 1) for name, held in pod.shape.held.items() if name in wants)

    return sorted(pods, key=lambda pod: (lack(pod), size(pod), pod.key))[:MAX_LEAVERS]


def _moved(patient: Patient, leavers: Sequence[Pod], node: str) -> Cure | None:
    """The cure in which the pods find room on other nodes, once the patient is where it belongs."""
    trials, moves = patient.trials, list[MovePod]()
    with trials.changed([RemovePod(pod) for pod in leavers]), trials.placed(patient.pod, node):
        for pod in leavers:
            target = _new_home(patient, pod, moves)
            if target is None:
                return None
            moves.append(MovePod(pod, target))
    text = " and ".join(f"move {move.pod.key} from {move.pod.spec.node_name} to {move.node}" for move in moves)
    broken = broken_budgets(patient, leavers)
    cure = patient.cured("move", text, MOVE + ANOTHER_MOVE * (len(moves) - 1) + BROKEN_BUDGET * broken, *moves)
    return None if cure is None else replace(cure, broken_budgets=broken)


def _new_home(patient: Patient, pod: Pod, moves: Sequence[MovePod]) -> str | None:
    """Where the core puts a pod that has to move, after the others have moved."""
    loose = pod.with_node("")
    if not moves:
        decision = patient.trials.decide(loose)
    else:
        with patient.trials.placed(moves[0].pod.with_node(moves[0].node), moves[0].node):
            decision = patient.trials.decide(loose)
    return decision.node if isinstance(decision, Placement) else None


def removal(patient: Patient, leavers: Sequence[Pod], text: str, node: str) -> Cure:
    """The cure in which pods leave for good; that it places the patient on `node` was tried."""
    broken = broken_budgets(patient, leavers)
    change = CureChange("remove", text, removal_cost(leavers, broken), victims=tuple(leavers))
    return replace(patient.cure(change, node, [RemovePod(pod) for pod in leavers]), broken_budgets=broken)


def remove_on(patient: Patient, row: int) -> Iterator[CureChange]:
    """A pod that leaves a node."""
    for pod in movable(patient, row):
        text = f"remove {pod.key} from {pod.spec.node_name}"
        cost = removal_cost([pod], broken_budgets(patient, [pod]))
        yield CureChange("remove", text, cost, edits=(RemovePod(pod),), victims=(pod,))


def keepers_on(patient: Patient, row: int) -> Iterator[CureChange]:
    """The pods whose required anti-affinity keeps the pod from a node, on every node of its domain: all of them leave."""
    nodes, labels = patient.trials.cluster.nodes, patient.trials.cluster.labels_of_namespace(patient.pod.namespace)
    node = nodes.nodes[row]
    assert node is not None

    def keeps_away(other: Pod) -> bool:
        own = nodes.nodes[nodes.row_book[other.spec.node_name]]
        return own is not None and any(
            term.topology_key in node.labels
            and node.labels[term.topology_key] == own.labels.get(term.topology_key)
            and term.speaks_of(patient.pod.namespace, patient.pod.labels, labels)
            for term in other.shape.terms(other.namespace).anti_affinity
        )

    keepers = [other for other in nodes.pods() if keeps_away(other)]
    if keepers and all(other.is_terminating for other in keepers):
        yield waiting_for(keepers)
    elif any(change.kind == "remove" for change in patient.made):
        return  # all of them leave in one change, not one after the other
    elif 0 < len(keepers) <= MAX_KEEPERS and not any(is_daemon(other) or other.is_terminating for other in keepers):
        where: dict[str, list[str]] = {}
        for other in keepers:
            where.setdefault(other.spec.node_name, []).append(other.key)
        text = " and ".join(f"remove {' and '.join(keys)} from {name}" for name, keys in where.items())
        cost = removal_cost(keepers, broken_budgets(patient, keepers))
        yield CureChange("remove-keepers", text, cost, edits=tuple(map(RemovePod, keepers)), victims=tuple(keepers))


# ---- pods that end already


def by_waiting(patient: Patient) -> Iterator[Cure]:
    """The pods that end already have ended: those of one node if that suffices, otherwise all of them."""
    ending = [pod for pod in patient.trials.cluster.nodes.pods() if pod.is_terminating]
    node = patient.trials.node_for(patient.pod, [*map(RemovePod, ending)]) if ending else None
    if node is not None:
        there = [pod for pod in ending if pod.spec.node_name == node]
        for pods in (there, ending):
            change = waiting_for(pods)
            found = list(patient.cures(change.kind, change.text, change.cost, *change.edits)) if pods else []
            if found:
                yield from found
                return


def wait_on(patient: Patient, row: int) -> Iterator[CureChange]:
    """The pods of a node that end already have ended."""
    if ending := [pod for pod in patient.trials.cluster.nodes.pods_on[row] if pod.is_terminating]:
        yield waiting_for(ending)


def waiting_for(pods: Sequence[Pod]) -> CureChange:
    text = f"wait until {' and '.join(pod.key for pod in pods)} {'has' if len(pods) == 1 else 'have'} ended"
    return CureChange("wait", text, WAIT, edits=tuple(map(RemovePod, pods)))


def removal_cost(leavers: Sequence[Pod], broken: int) -> float:
    return REMOVE_POD + ANOTHER_MOVE * (len(leavers) - 1) + BROKEN_BUDGET * broken


def leaving_pods(cluster: Cluster, row: int) -> list[Pod]:
    """The pods of a node that may leave it: those of DaemonSets come again, and those that end leave anyway."""
    return [pod for pod in cluster.nodes.pods_on[row] if not is_daemon(pod) and not pod.is_terminating]


def broken_budgets(patient: Patient, leavers: Sequence[Pod]) -> int:
    """How many of the pods a disruption budget protects, if all of them leave."""
    return len(split_by_budget(leavers, budgets_of(patient.trials.cluster))[0])
