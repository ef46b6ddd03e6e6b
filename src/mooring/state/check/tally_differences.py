"""Compares counts of pods: by selector, by label set and by the affinity terms that pods carry."""

from collections.abc import Iterator, Mapping

import numpy as np

from mooring.cluster.nodes.table import NodeTable
from mooring.cluster.tallies.tallies import TallyKey
from mooring.cluster.tallies.tally import Tally, sum_by_code
from mooring.model.affinity import CarriedTerm
from mooring.model.label_set import LabelSet
from mooring.model.node import Node
from mooring.state.check.difference import Findings, StateDifference, cut
from mooring.state.check.row_pairs import RowPairing


def compare_tallies(running: NodeTable, fresh: NodeTable) -> Findings:
    """Tallies of both tables. Those that only the fresh table lacks are counted there now."""
    pairing = RowPairing(running, fresh)
    for key in list(running.tallies._predicates):
        tally = running.tallies._predicates.get(key)
        if tally is not None:
            yield from _unequal(pairing, tally, fresh.tallies.tally(key), _said(key))
            yield from _unequal_sums(tally, _said(key))
        yield None
    for terms in running.tallies.terms.carried.keys() | fresh.tallies.terms.carried.keys():
        yield from _unequal_carriers(pairing, running, fresh, terms)
        yield None
    for label_set in running.tallies._label_sets.keys() | fresh.tallies._label_sets.keys():
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
    ours, theirs = running.tallies.terms.carried.get(terms), fresh.tallies.terms.carried.get(terms)
    what = cut(f"pods that carry {terms}")
    if ours is not None and theirs is not None:
        yield from _unequal(pairing, ours.tally, theirs.tally, what)
    elif ours is not None or theirs is not None:
        yield StateDifference(
            "tally", None, what, "total", *(str(each.tally.total if each else 0) for each in (ours, theirs))
        )


def _unequal_members(label_set: LabelSet, running: NodeTable, fresh: NodeTable) -> Iterator[StateDifference]:
    ours, theirs = _members(label_set, running), _members(label_set, fresh)
    for name, terminating in ours.keys() | theirs.keys():
        counts = ours.get((name, terminating), 0), theirs.get((name, terminating), 0)
        if counts[0] != counts[1]:
            which = "terminating pods" if terminating else "pods"
            what = cut(f"{which} with labels {dict(label_set.labels)} in {label_set.namespace}")
            yield StateDifference("tally", Node, name, what, *map(str, counts))


def _members(label_set: LabelSet, nodes: NodeTable) -> Mapping[tuple[str, bool], int]:
    """(Node, whether they terminate) -> how many pods have the labels."""
    there = nodes.tallies._label_sets.get(label_set)
    if there is None:
        return {}
    parts = ((False, there.rows), (True, there.terminating))
    return {(nodes.names[row], terminating): count for terminating, rows in parts for row, count in rows.items()}
