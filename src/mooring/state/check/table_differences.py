"""Compares two node tables by the names of nodes: the nodes, their pods, every column, and what several nodes or pods share,
such as volumes, the devices of claims, room for nominated pods, and pod groups."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence

import numpy as np

from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.float_columns import FloatColumns
from mooring.cluster.nodes.table import NodeTable
from mooring.cluster.pods.nominated import Crowd
from mooring.cluster.pods.pod_groups import PodGroupMembers
from mooring.cluster.tallies.tallies import TallyKey
from mooring.cluster.tallies.tally import Tally, sum_by_code
from mooring.model.affinity import CarriedTerm
from mooring.model.label_set import LabelSet
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.storage import PersistentVolume
from mooring.state.check.object_differences import (
    BATCH,
    DifferenceKind,
    Findings,
    RowPairing,
    StateDifference,
    cut,
    in_batches,
    in_codes_of,
    version_of,
)

# ---- Compares counts of pods: by selector, by label set and by the affinity terms that pods carry.


def compare_tallies(running: NodeTable, fresh: NodeTable) -> Findings:
    """Tallies of both tables. Those that only the fresh table lacks are counted there now."""
    pairing = RowPairing(running, fresh)
    for key in list(running.tallies.kept()):
        tally = running.tallies.kept().get(key)
        if tally is not None:
            yield from _unequal(pairing, tally, fresh.tallies.tally(key), _said(key))
            yield from _unequal_sums(tally, _said(key))
        yield None
    for terms in running.tallies.terms.carried.keys() | fresh.tallies.terms.carried.keys():
        yield from _unequal_carriers(pairing, running, fresh, terms)
        yield None
    for label_set in running.tallies.label_sets().keys() | fresh.tallies.label_sets().keys():
        yield from _unequal_members(label_set, running, fresh)  # a label set may be on every row
        yield None


def _said(key: TallyKey) -> str:
    predicate, with_terminating = key
    kinds = "pods" if with_terminating else "pods that do not terminate"
    return cut(f"{kinds} that match {predicate.selector}")


def _unequal(pairing: RowPairing, tally: Tally, recount: Tally, what: str) -> Iterator[StateDifference]:
    for name, ours, theirs in pairing.now().unequal(tally.counts, recount.counts):
        yield StateDifference("tally", Node, name, what, str(ours), str(theirs))
    if tally.total != recount.total:
        yield StateDifference("tally", None, what, "total", str(tally.total), str(recount.total))


def _unequal_sums(tally: Tally, what: str) -> Iterator[StateDifference]:
    """Sums over values of labels follow from the counts and the columns of the same table."""
    for column, sums in tally.sums.items():
        if sums.version != column.version:
            continue  # it is made anew when a pod asks
        real = sum_by_code(column.codes, tally.counts, column.width)[: len(sums.counts)]
        for code in np.flatnonzero(real[1:] != sums.counts[1:]) + 1:
            where = f"{column.key}={column.values[code]}"
            yield StateDifference("tally", None, what, where, str(sums.counts[code]), str(real[code]))


def _unequal_carriers(
    pairing: RowPairing, running: NodeTable, fresh: NodeTable, terms: tuple[CarriedTerm, ...]
) -> Iterator[StateDifference]:
    """Compare the counts of the pods that carry a list of terms. If only one scheduler has the list, the totals differ."""
    ours, theirs = running.tallies.terms.carried.get(terms), fresh.tallies.terms.carried.get(terms)
    what = cut(f"pods that carry {terms}")
    if ours is not None and theirs is not None:
        yield from _unequal(pairing, ours.tally, theirs.tally, what)
    elif ours is not None or theirs is not None:
        yield StateDifference(
            "tally", None, what, "total", *(str(each.tally.total if each else 0) for each in (ours, theirs))
        )


def _unequal_members(label_set: LabelSet, running: NodeTable, fresh: NodeTable) -> Iterator[StateDifference]:
    """Yield a difference for each node on which the two schedulers count a different number of pods with this label set."""
    ours, theirs = _members(label_set, running), _members(label_set, fresh)
    for name, terminating in ours.keys() | theirs.keys():
        counts = ours.get((name, terminating), 0), theirs.get((name, terminating), 0)
        if counts[0] != counts[1]:
            which = "terminating pods" if terminating else "pods"
            what = cut(f"{which} with labels {dict(label_set.labels)} in {label_set.namespace}")
            yield StateDifference("tally", Node, name, what, *map(str, counts))


def _members(label_set: LabelSet, nodes: NodeTable) -> Mapping[tuple[str, bool], int]:
    """(Node, whether they terminate) -> how many pods have the labels."""
    there = nodes.tallies.label_sets().get(label_set)
    if there is None:
        return {}
    parts = ((False, there.rows), (True, there.terminating))
    return {(nodes.names[row], terminating): count for terminating, rows in parts for row, count in rows.items()}


def compare_tables(running: Cluster, fresh: Cluster) -> Findings:
    """Everything of the node tables but tallies."""
    ours, theirs = running.nodes, fresh.nodes
    pairing = RowPairing(ours, theirs)
    yield from _rows(ours, theirs)
    yield from _pods(ours, theirs)
    yield from _numbers(ours, theirs, pairing)
    yield from _codes(ours, theirs, pairing)
    yield from _labels(ours, theirs, pairing)
    yield from _ports(ours, theirs)
    yield from _row_by_row(list(ours.row_book), _images_of, ours, theirs)
    yield from _floats(running)


def _row(name: str, what: str, believed: object, fresh: object, kind: DifferenceKind = "row") -> StateDifference:
    return StateDifference(kind, Node, name, what, str(believed), str(fresh))


def _rows(running: NodeTable, fresh: NodeTable) -> Findings:
    """Names of rows, and which of them have a node."""
    for name in running.row_book.keys() ^ fresh.row_book.keys():
        is_there = name in running.row_book
        yield _row(name, "row", "there is one" if is_there else "there is none", "none" if is_there else "there is one")
    if running.alive_count != int(np.count_nonzero(running.alive[: running.height])):
        alive = int(np.count_nonzero(running.alive[: running.height]))
        yield StateDifference("row", None, "nodes", "count", str(running.alive_count), str(alive))
    yield None


def _pods(running: NodeTable, fresh: NodeTable) -> Findings:
    """Which pods are on which node, by the list of each row and by the pod."""
    yield from _row_by_row(list(running.row_book), _pods_of_row, running, fresh)
    yield from in_batches(fresh.pod_ids(), lambda pod_id: _row_of_pod(pod_id, running, fresh))


RowComparison = Callable[[str, int, int, NodeTable, NodeTable], Iterable[StateDifference]]
"""(name of a node, its row in each table, running, fresh) -> the differences."""


def _row_by_row(names: Sequence[str], compare: RowComparison, running: NodeTable, fresh: NodeTable) -> Findings:
    """Compare the rows of these nodes. A node that one of the tables no longer has is left out."""

    def compare_rows_of(name: str) -> Iterable[StateDifference]:
        row, other = running.row_book.get(name), fresh.row_book.get(name)
        return () if row is None or other is None else compare(name, row, other, running, fresh)

    return in_batches(names, compare_rows_of)


def _pods_of_row(name: str, row: int, other: int, running: NodeTable, fresh: NodeTable) -> Iterator[StateDifference]:
    """Pods of a node that are not on it, are counted twice, or are looked up on another row."""
    ours, theirs = ({pod.id: pod for pod in table.pods_on[at]} for table, at in ((running, row), (fresh, other)))
    for pod_id in ours.keys() - theirs.keys():
        elsewhere = fresh.row_of_pod(pod_id)
        where = "nowhere" if elsewhere is None else f"on {fresh.names[elsewhere]}"
        yield StateDifference("object", Pod, ours[pod_id].key, "node", f"on {name}", where)
    if len(ours) != len(running.pods_on[row]):
        yield _row(name, "pods", f"{len(running.pods_on[row])}, some of them twice", len(theirs))
    for pod_id in ours:
        if running.row_of_pod(pod_id) != row:
            yield _row(name, "pods", f"{ours[pod_id].key} is looked up elsewhere", f"{ours[pod_id].key} is here")


def _row_of_pod(pod_id: str, running: NodeTable, fresh: NodeTable) -> Iterator[StateDifference]:
    row, there = fresh.row_of_pod(pod_id), running.row_of_pod(pod_id)
    if row is not None and there is None:
        pod = next(pod for pod in fresh.pods_on[row] if pod.id == pod_id)
        yield StateDifference("object", Pod, pod.key, "node", "nowhere", f"on {fresh.names[row]}")


def _numbers(running: NodeTable, fresh: NodeTable, pairing: RowPairing) -> Findings:
    """Amounts and other columns of numbers."""
    for what in ("alive", "allowed_pods", "pod_count", "unschedulable"):
        for name, ours, theirs in pairing.now().unequal(getattr(running, what), getattr(fresh, what)):
            yield _row(name, what.replace("_", " "), ours, theirs)
    yield None
    fresh.amounts.places(running.amounts.resource_book)
    for resource in list(running.amounts.resource_book):
        place, other = running.amounts.resource_book.get(resource), fresh.amounts.resource(resource)
        if place is None:
            continue
        for what in ("allocatable", "requested", "scored"):
            ours, theirs = getattr(running.amounts, what)[place], getattr(fresh.amounts, what)[other]
            for name, believed, right in pairing.now().unequal(ours, theirs):
                yield _row(name, f"{what} {resource}", believed, right)
        yield None


def _codes(running: NodeTable, fresh: NodeTable, pairing: RowPairing) -> Findings:
    """Taints and declared features."""
    pairs = pairing.now()
    for name, _, _ in pairs.unequal(in_codes_of(fresh.taints, running.taints), fresh.taints.codes):
        ours, theirs = (t.taints.values[t.taints.codes[t.row_book[name]]] for t in (running, fresh))
        yield _row(name, "taints", ours, theirs)
    for name, _, _ in pairs.unequal(in_codes_of(fresh.features, running.features), fresh.features.codes):
        held, real = (t.features.values[t.features.codes[t.row_book[name]]] for t in (running, fresh))
        yield _row(name, "declared features", sorted(held), sorted(real))
    yield None


def _labels(running: NodeTable, fresh: NodeTable, pairing: RowPairing) -> Findings:
    """Columns of labels, and the labels that new columns are made of."""
    for key in running.labels.kept_keys():
        ours, theirs = running.labels.column(key), fresh.labels.column(key)
        for name, _, code in pairing.now().unequal(in_codes_of(theirs, ours), theirs.codes):
            believed = ours.values[ours.codes[running.row_book[name]]]
            yield _row(name, f"label {key}", believed, theirs.values[code])
        yield None
    yield from _row_by_row(pairing.now().names, _labels_of, running, fresh)


def _labels_of(name: str, row: int, other: int, running: NodeTable, fresh: NodeTable) -> Iterator[StateDifference]:
    """The labels of a node, and whether the node is among those that have each of them."""
    ours, theirs = running.labels.on_row(row), fresh.labels.on_row(other)
    if ours is not theirs and ours != theirs:
        yield _row(name, "labels", ours, theirs)
    for key in ours:
        if row not in running.labels.rows_by_key().get(key, ()):
            yield _row(name, f"label {key}", "not among the nodes that have it", "among them")


def _ports(running: NodeTable, fresh: NodeTable) -> Findings:
    """Ports that are taken although no pod of the node holds them.

    Parity: of two pods of a node with the same port the first that leaves frees it, as upstream, and a fresh scheduler
    cannot know that. So a port that is free here and taken there is no difference.
    """
    for row, (address, protocol, port) in running.ports.uses():
        name = running.names[row]
        if not fresh.ports.is_held(fresh.row_book.get(name, -1), (address, protocol, port)):
            yield _row(name, f"port {address}:{port}/{protocol}", "taken", "free", "port")
    yield None


def _images_of(name: str, row: int, other: int, running: NodeTable, fresh: NodeTable) -> Iterator[StateDifference]:
    """The images of a node, and on how many nodes its row believes each to be, where it looked after the last change."""
    ours, theirs = running.images, fresh.images
    missing = ours.names_on(row) ^ theirs.names_on(other)
    if missing:
        yield _row(name, "images", f"differ in {sorted(missing)[:3]}", "those of its node")
    elif ours.names_on(row) and not ours.lags(row):
        real = {image: theirs.node_count(image) for image in theirs.names_on(other)}
        if ours.seen_by(row) != real:
            yield _row(name, "images on other nodes", ours.seen_by(row), real)


def _floats(running: Cluster) -> Findings:
    """The amounts as floats: they follow the table, so they are compared with those of the same table, made anew."""
    kept, nodes = running.float_columns(), running.nodes
    anew = FloatColumns(nodes)
    anew.refresh()
    for what in ("divisor", "held", "free", "free_percent"):
        ours, theirs = getattr(kept, what), getattr(anew, what)
        for row in np.flatnonzero((ours != theirs).any(0)).tolist() if ours.shape == theirs.shape else ():
            yield _row(nodes.names[row], f"floats of {what.replace('_', ' ')}", ours[:, row], theirs[:, row])
    yield None


# ---- nominated pods and pod groups


def compare_nominated(running: Cluster, fresh: Cluster) -> Findings:
    """Compare the room that nominated pods will take, node by node. Which pods are nominated is the same on both sides."""
    ours, theirs = running.nominated, fresh.nominated
    resources = list(running.nodes.amounts.resource_book)
    fresh.nodes.amounts.places(resources)  # before pods are counted there
    priorities = {pod.priority for pod_id in ours.pod_ids() if (pod := ours.get(pod_id)) is not None}
    for priority in sorted(priorities):
        right = _by_node(theirs.crowd_from(priority), fresh, resources)
        for crowd in ours.kept_sums(priority):
            believed = _by_node(crowd, running, resources)
            for name in believed.keys() | right.keys():
                if believed.get(name) != right.get(name):
                    what = f"room for pods nominated with priority {priority}"
                    yield StateDifference(
                        "nomination", Node, name, what, str(believed.get(name, 0)), str(right.get(name, 0))
                    )
        yield None


def _by_node(crowd: Crowd, cluster: Cluster, resources: list[str]) -> dict[str, tuple[int, dict[str, int]]]:
    """Node -> how many pods are nominated to it, and what they request."""
    places = dict(zip(resources, cluster.nodes.amounts.places(resources), strict=True))
    return {
        cluster.nodes.names[row]: (
            int(crowd.pod_count[place]),
            {name: int(crowd.requested[at, place]) for name, at in places.items() if crowd.requested[at, place]},
        )
        for place, row in enumerate(crowd.rows.tolist())
    }


def compare_groups(running: Cluster, fresh: Cluster) -> Findings:
    """The members of pod groups, and how far each has come."""
    if running.groups is None or fresh.groups is None:
        return
    nobody = PodGroupMembers()
    for key in running.groups.members().keys() | fresh.groups.members().keys():
        ours, theirs = (each.members().get(key, nobody) for each in (running.groups, fresh.groups))
        for what in ("unscheduled", "assumed", "assigned"):
            believed, right = (sorted(getattr(each, what)) for each in (ours, theirs))
            if believed != right:
                yield StateDifference("group", None, key, what, str(believed), str(right))
    yield None


def compare_volumes(running: Cluster, fresh: Cluster) -> Findings:
    """Volumes on nodes by driver, and volumes as they are filed by class and claim."""
    for count, _ in enumerate(fresh.refresh_volumes_in_steps(), 1):
        if count % BATCH == 0:
            yield None
    ours, theirs = running.volumes_on_nodes(), fresh.volumes_on_nodes()
    pairing = RowPairing(running.nodes, fresh.nodes)
    for driver in list(ours.by_driver.keys() | theirs.by_driver.keys()):
        nothing = np.zeros(max(running.nodes.capacity, fresh.nodes.capacity), np.int64)
        columns = ours.by_driver.get(driver, nothing), theirs.by_driver.get(driver, nothing)
        for name, believed, right in pairing.now().unequal(*columns):
            yield StateDifference("volume", Node, name, f"volumes of {driver}", str(believed), str(right))
        yield None
    yield from in_batches(pairing.now().names, lambda name: _volumes_of_row(name, running, fresh))
    storage = running.storage
    names = list(storage.filed().keys() | storage.volumes.keys())
    yield from in_batches(names, lambda name: _filed_volume(name, running))


def _volumes_of_row(name: str, running: Cluster, fresh: Cluster) -> Iterator[StateDifference]:
    """Asked of both anew, because between two batches pods may have come."""
    row, other = running.nodes.row_book.get(name), fresh.nodes.row_book.get(name)
    if row is None or other is None:
        return
    ours, theirs = running.volumes_on_nodes().row(row), fresh.volumes_on_nodes().row(other)
    if ours is not theirs and ours != theirs:
        for what in ("used", "attached", "named", "fault"):
            believed, right = getattr(ours, what), getattr(theirs, what)
            if believed != right:
                yield StateDifference("volume", Node, name, f"volumes {what}", str(believed), str(right))


def _filed_volume(name: str, running: Cluster) -> Iterator[StateDifference]:
    volume, filed = running.storage.volume(name), running.storage.filed().get(name)
    if volume is not filed:
        yield StateDifference("volume", PersistentVolume, name, "filed", version_of(filed), version_of(volume))


# ---- devices


def compare_devices(running: Cluster, fresh: Cluster) -> Findings:
    """How many claims hold each device."""
    ours, theirs = running.claims, fresh.claims
    for what in ("exclusive", "shares", "consumed"):
        yield from _unequal_holders("device", what, getattr(ours, what), getattr(theirs, what))
    yield None


def _unequal_holders(
    kind: DifferenceKind, what: str, ours: Mapping[Hashable, object], theirs: Mapping[Hashable, object]
) -> Iterator[StateDifference]:
    """Yield a difference for each key whose values in the running and in the fresh scheduler are not equal."""
    for key in ours.keys() | theirs.keys() if ours != theirs else ():
        if ours.get(key) != theirs.get(key):
            name = "/".join(key) if isinstance(key, tuple) else str(key)
            yield StateDifference(kind, None, name, what, str(ours.get(key, 0)), str(theirs.get(key, 0)))
