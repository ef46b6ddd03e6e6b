"""Cures by nodes: uncordon one, bring one back, or add one like those that are there."""

from collections.abc import Hashable, Iterator
from itertools import count, islice

import msgspec

from mooring.answers.explain.cure import MORE_NODES, UNCORDON, Cure, Patient
from mooring.answers.trial.counterfactual import Edit, PlacePod, PutObject
from mooring.answers.trial.new_nodes import STATE_TAINTS, equipment_of, equipped, node_like
from mooring.answers.trial.owners import is_daemon
from mooring.cluster.cluster import Cluster
from mooring.model.devices import ResourceSlice
from mooring.model.names import HOSTNAME
from mooring.model.node import Node, Taint
from mooring.model.pod import Pod
from mooring.model.storage import CSINode

_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
MAX_NODES = 40
"""How many nodes of each kind are tried."""
MEND_NODE = MORE_NODES - 5


def by_uncordoning(patient: Patient) -> Iterator[Cure]:
    """Nodes that are cordoned."""
    nodes = [node for node in patient.trials.cluster.nodes.nodes if node is not None and node.spec.unschedulable]
    for node in nodes[:MAX_NODES]:
        cure = patient.cured("uncordon", f"uncordon node {node.name}", UNCORDON, PutObject(uncordoned(node)))
        if cure is not None:
            yield cure


def uncordoned(node: Node) -> Node:
    taints = [taint for taint in node.spec.taints or () if taint.key != _UNSCHEDULABLE]
    return msgspec.structs.replace(
        node, spec=msgspec.structs.replace(node.spec, unschedulable=False, taints=taints or None)
    )


def by_mending(patient: Patient) -> Iterator[Cure]:
    """Nodes with taints that Kubernetes sets by itself: not ready, unreachable, under pressure."""
    tried = 0
    for node in patient.trials.cluster.nodes.nodes:
        own = [
            taint.key for taint in _taints(node) if taint.key.startswith(STATE_TAINTS) and taint.key != _UNSCHEDULABLE
        ]
        if node is None or not own or tried >= MAX_NODES:
            continue
        tried += 1
        text = f"mend node {node.name}, which has the taint {', '.join(own)}"
        cure = patient.cured("mend-node", text, MEND_NODE, PutObject(_mended(node)))
        if cure is not None:
            yield cure


def _taints(node: Node | None) -> list[Taint]:
    return list(node.spec.taints or ()) if node is not None else []


def _mended(node: Node) -> Node:
    taints = [taint for taint in _taints(node) if not taint.key.startswith(STATE_TAINTS)]
    return msgspec.structs.replace(node, spec=msgspec.structs.replace(node.spec, taints=taints or None))


def by_one_more(patient: Patient) -> Iterator[Cure]:
    """A new node like one that is there: one try for each kind of node, those that are most frequent first."""
    cluster = patient.trials.cluster
    for model, number in kinds_of_nodes(cluster)[:MAX_NODES]:
        edits = one_more_like(cluster, model)
        alike = f"{number} like it" if number > 1 else "the only one of its kind"
        cure = patient.cured("add-node", f"add a node like {model.name} ({alike})", MORE_NODES, *edits)
        if cure is not None:
            yield cure


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
    return labels, amounts, frozenset(_taints(_mended(node)))


def one_more_like(cluster: Cluster, model: Node, number: int = 1) -> list[Edit]:
    """A new node with the amounts, labels and taints of another one, its devices and drivers, and its DaemonSet pods.

    It is the one with this number among several that are added.
    """
    name = _free_name(cluster, model.name, number)
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


def _free_name(cluster: Cluster, stem: str, number: int) -> str:
    """The free name with this number, from 1."""
    free = (name for i in count(1) if (name := f"{stem}-copy-{i}") not in cluster.nodes.row_book)
    return next(islice(free, number - 1, None))
