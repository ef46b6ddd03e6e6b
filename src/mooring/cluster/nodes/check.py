"""The invariants of the node table: everything that is kept up to date is counted anew and compared.

Simulations and state machine tests run this after every step; it is far too slow for service.
"""

from collections import Counter

import numpy as np

from mooring.cluster.columns.facts import NO_FACTS, facts_of
from mooring.cluster.columns.resource_amounts import MAX_SUM
from mooring.cluster.nodes.table import NodeTable
from mooring.model.quantity import MAX_AMOUNT


def check_table(nodes: NodeTable) -> list[str]:
    """The invariants that do not hold, in words; empty when all is well. Counts everything anew."""
    return [
        *_check_rows(nodes),
        *_check_facts(nodes),
        *_check_sums(nodes),
        *_check_labels(nodes),
        *_check_tallies(nodes),
    ]


def _check_rows(nodes: NodeTable) -> list[str]:
    """Names, rows and pods refer to each other."""
    faults = []
    if sorted(nodes.row_book.values()) != sorted(set(range(nodes.height)) - set(nodes._free)):
        faults.append("rows in use and free rows do not make up the table")
    for name, row in nodes.row_book.items():
        if nodes.names[row] != name:
            faults.append(f"row {row} of node {name} is named {nodes.names[row]!r}")
    alive = [row for row in range(nodes.height) if nodes.nodes[row] is not None]
    if np.flatnonzero(nodes.alive).tolist() != alive or nodes.alive_count != len(alive):
        faults.append("alive rows are not those that have a node")
    where = {pod_id: row for row, pods in enumerate(nodes.pods_on) for pod_id in (pod.id for pod in pods)}
    if where != nodes._row_of_pod:
        faults.append("pods are not on the rows where they are looked up")
    return faults


def _check_facts(nodes: NodeTable) -> list[str]:
    """Columns hold what the objects of nodes say."""
    faults, amounts = [], nodes.amounts
    for row, node in enumerate(nodes.nodes):
        facts = NO_FACTS if node is None else facts_of(node)
        held = {name: int(amounts.allocatable[i, row]) for name, i in amounts.resource_book.items()}
        wanted = {name: facts.allocatable.get(name, 0) for name in amounts.resource_book}
        if (row in amounts.huge_rows) != (max(facts.allocatable.values(), default=0) >= MAX_AMOUNT):
            faults.append(f"row {row}: whether its node has more than cells can show is noted wrongly")
        if held != wanted or nodes.allowed_pods[row] != facts.allowed_pods:
            faults.append(f"row {row}: allocatable is {held} ({nodes.allowed_pods[row]} pods), its node has {wanted}")
        taints, features = (
            nodes.taints.values[nodes.taints.codes[row]],
            nodes.features.values[nodes.features.codes[row]],
        )
        if (bool(nodes.unschedulable[row]), taints, features) != (facts.unschedulable, facts.taints, facts.features):
            faults.append(f"row {row}: taints or features are not those of its node")
    return faults


def _check_sums(nodes: NodeTable) -> list[str]:
    """Amounts and numbers of pods are sums over the pods of a row, also beyond what a cell can show."""
    faults, amounts = [], nodes.amounts
    for row in range(nodes.height):
        pods = nodes.pods_on[row]
        held: Counter[str] = Counter()
        scored: Counter[str] = Counter()
        for pod in pods:
            held.update({name: amount for name, (amount, _) in pod.shape.held.items()})
            scored.update({name: amount for name, (_, amount) in pod.shape.held.items()})
        for name, index in amounts.resource_book.items():
            if amounts.requested[index, row] != _shown(held[name]) or amounts.scored[index, row] != _shown(
                scored[name]
            ):
                kept = f"{amounts.requested[index, row]} (scored {amounts.scored[index, row]})"
                faults.append(f"row {row}: {name} requested is {kept}, pods hold {held[name]} ({scored[name]})")
            beyond = amounts._requested_beyond.get((index, row)), amounts._scored_beyond.get((index, row))
            if beyond != (_aside(held[name]), _aside(scored[name])):
                faults.append(f"row {row}: {name} is kept aside as {beyond}, pods hold {held[name]} ({scored[name]})")
        if nodes.pod_count[row] != len(pods):
            faults.append(f"row {row}: counts {nodes.pod_count[row]} pods, has {len(pods)}")
    return faults


def _shown(total: int) -> int:
    """The sum as a cell shows it."""
    return max(-MAX_SUM, min(total, MAX_SUM))


def _aside(total: int) -> int | None:
    """The sum as it is kept aside, where a cell cannot show it."""
    return None if _shown(total) == total else total


def _check_labels(nodes: NodeTable) -> list[str]:
    """Columns of labels hold what nodes have."""
    faults = []
    for key, rows in nodes.labels._rows.items():
        if rows != {row for row, node in enumerate(nodes.nodes) if node is not None and key in node.labels}:
            faults.append(f"label {key} is not where nodes have it")
    for key, column in nodes.labels._columns.items():
        for row, node in enumerate(nodes.nodes):
            if column.values[column.codes[row]] != (node.labels.get(key) if node else None):
                faults.append(f"row {row}: label {key} is encoded as {column.values[column.codes[row]]!r}")
    return faults


def _check_tallies(nodes: NodeTable) -> list[str]:
    """Tallies, and their sums by label value, are what a recount gives."""
    tallies, faults = nodes.tallies, []
    for (predicate, with_terminating), tally in tallies._predicates.items():
        counts = np.zeros(len(tally.counts), np.int32)
        for row, pods in enumerate(nodes.pods_on):
            counts[row] = sum(
                predicate.holds(pod.namespace, pod.labels) and (with_terminating or not pod.is_terminating)
                for pod in pods
            )
        if not np.array_equal(counts, tally.counts):
            faults.append(f"tally of {predicate} differs from a recount")
    kept_tallies = set(map(id, tallies._predicates.values()))
    links = (tally for where in tallies._label_sets.values() for tally, _ in where.tallies or ())
    if any(id(tally) not in kept_tallies for tally in links):
        faults.append("pods are counted in a tally that is not kept")
    carried: Counter[tuple[object, int]] = Counter()
    for row, pods in enumerate(nodes.pods_on):
        for pod in pods:
            carried.update((terms, row) for terms in pod.shape.terms(pod.namespace).counted)
    kept = {
        (terms, int(row)): int(carriers.tally.counts[row])
        for terms, carriers in tallies.terms.carried.items()
        for row in np.flatnonzero(carriers.tally.counts)
    }
    if kept != dict(carried):
        faults.append("carried terms differ from a recount")
    for tally in (*tallies._predicates.values(), *(carriers.tally for carriers in tallies.terms.carried.values())):
        for column, sums in tally.sums.items():
            if sums.version != column.version:
                continue
            fresh = np.bincount(column.codes, tally.counts, column.width)[1 : len(sums.counts)]
            if not np.array_equal(sums.counts[1:], fresh) or sums.total != fresh.sum():
                faults.append(f"sums over {column.key} differ from a recount")
    return faults
