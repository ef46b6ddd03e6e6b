"""InterPodAffinity: pods that want to be near, or away from, other pods, in the topology that their terms name."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.kernels import Ints, Mask
from mooring.cluster.labels import ABSENT, LabelColumn
from mooring.framework.config.args import InterPodAffinityArgs
from mooring.framework.cycle import Cycle
from mooring.framework.events import Registration
from mooring.framework.points import (
    Codes,
    FilterPlugin,
    Handle,
    PreFilterExtensions,
    PreScorePlugin,
    Rows,
    ScorePlugin,
    Scores,
)
from mooring.framework.status import SKIP, Rejection, Skip, curable, final
from mooring.model.affinity import PodPredicate, predicate_of
from mooring.model.pod import Pod
from mooring.model.workloads import Namespace
from mooring.plugins.inter_pod_affinity_hints import EVENTS

_NO_AFFINITY, _ANTI_AFFINITY, _EXISTING_ANTI_AFFINITY = 1, 2, 3
_REJECTIONS = {
    _NO_AFFINITY: final("node(s) didn't match pod affinity rules"),
    _ANTI_AFFINITY: curable("node(s) didn't match pod anti-affinity rules"),
    _EXISTING_ANTI_AFFINITY: curable("node(s) didn't satisfy existing pods anti-affinity rules"),
}


@dataclass(frozen=True, slots=True)
class OwnTerms:
    """The terms of the incoming pod, as questions about the pods on nodes: (topology key, predicate[, weight])."""

    affinity: tuple[tuple[str, PodPredicate], ...]
    anti_affinity: tuple[tuple[str, PodPredicate], ...]
    preferred: tuple[tuple[str, PodPredicate, int], ...]


@dataclass(slots=True)
class TermCounts:
    """Pods that a required term speaks of, by value of its topology label."""

    column: LabelColumn
    predicate: PodPredicate
    counts: Ints

    def copy(self) -> "TermCounts":
        return TermCounts(self.column, self.predicate, self.counts.copy())


@dataclass(slots=True)
class Neighbours:
    """The state of an attempt: the pods on nodes that decide where the pod may go. A what-if changes a clone of it."""

    affinity: list[TermCounts]
    """Pods that all affinity terms speak of, counted for each term."""
    anti_affinity: list[TermCounts]
    existing: dict[LabelColumn, Ints]
    """Pods whose own anti-affinity speaks of the incoming pod."""

    def clone(self) -> "Neighbours":
        return Neighbours(
            [term.copy() for term in self.affinity],
            [term.copy() for term in self.anti_affinity],
            {column: counts.copy() for column, counts in self.existing.items()},
        )


class InterPodAffinity(PreFilterExtensions, FilterPlugin, PreScorePlugin, ScorePlugin):
    name = "InterPodAffinity"

    def __init__(self, args: Any, handle: Handle) -> None:
        del handle
        args = args if isinstance(args, InterPodAffinityArgs) else InterPodAffinityArgs()
        self._hard_weight = args.hard_pod_affinity_weight
        self._ignore_preferred_of_existing = args.ignore_preferred_terms_of_existing_pods

    def events(self) -> Sequence[Registration]:
        return EVENTS

    # ---- Filter

    def pre_filter(self, cycle: Cycle) -> Rejection | Skip | None:
        fault = cycle.shape.terms(cycle.pod.namespace).fault
        if fault is not None:
            return final(f"parsing pod: {fault}")
        own = self._own_terms(cycle)
        existing = _existing_anti_affinity(cycle)
        if not existing and not own.affinity and not own.anti_affinity:
            return SKIP
        neighbours = Neighbours(_affinity_counts(cycle, own), _anti_affinity_counts(cycle, own), existing)
        cycle.state.write((self.name, "neighbours"), neighbours)
        return None

    def add_pod(self, cycle: Cycle, pod: Pod, row: int) -> None:
        _change(cycle, cycle.state.read((self.name, "neighbours")), pod, row, 1)

    def remove_pod(self, cycle: Cycle, pod: Pod, row: int) -> None:
        _change(cycle, cycle.state.read((self.name, "neighbours")), pod, row, -1)

    def filter(self, cycle: Cycle, rows: Rows) -> Codes | None:
        codes: Codes | None = None
        for code, column, closed in _barriers(cycle, cycle.state.read((self.name, "neighbours"))):
            stopped = closed[column.codes[rows]] * np.int64(code)
            codes = stopped if codes is None else np.where(codes == 0, stopped, codes)
        return codes

    def rejection(self, cycle: Cycle, code: int) -> Rejection:
        return _REJECTIONS[code]

    # ---- Score

    def pre_score(self, cycle: Cycle, rows: Rows) -> Skip | None:
        own = self._own_terms(cycle)
        if self._ignore_preferred_of_existing and not own.preferred:
            return SKIP
        pull: dict[LabelColumn, Ints] = {}
        for key, predicate, weight in own.preferred:
            tally = cycle.nodes.tallies.matching((predicate,), with_terminating=True)
            _pull_towards(pull, cycle.nodes.labels.column(key), tally.by_value, weight, tally.total)
        for carried, tally in _terms_about(cycle):
            weight = self._hard_weight if carried.kind == "affinity" else carried.weight
            if weight and carried.kind != "anti":
                column = cycle.nodes.labels.column(carried.term.topology_key)
                _pull_towards(pull, column, tally.by_value, weight, tally.total)
        if not pull:
            return SKIP
        cycle.state.write((self.name, "pull"), pull)
        return None

    def score(self, cycle: Cycle, rows: Rows) -> Scores | None:
        total: Ints | None = None
        for column, pull in cycle.state.read((self.name, "pull")).items():
            part = pull[column.codes[rows]]
            total = part if total is None else total + part
        return total

    def normalize(self, cycle: Cycle, scores: Scores, rows: Rows) -> Scores:
        """Parity: divides before it multiplies, so 29 of 100 becomes 28."""
        lowest = scores.min()
        span = scores.max() - lowest
        if span == 0:
            return np.zeros(len(scores), np.int64)
        shares: NDArray[np.float64] = (scores - lowest) / float(span)
        return (100.0 * shares).astype(np.int64)

    def _own_terms(self, cycle: Cycle) -> OwnTerms:
        namespaces = cycle.cluster.versions[Namespace]
        key = (self.name, "own", cycle.pod.namespace, namespaces)
        return cycle.of_shape(key, lambda: _resolve(cycle))


def _resolve(cycle: Cycle) -> OwnTerms:
    terms, labels = cycle.shape.terms(cycle.pod.namespace), cycle.cluster.namespace_labels
    return OwnTerms(
        tuple((term.topology_key, predicate_of(term, labels)) for term in terms.affinity),
        tuple((term.topology_key, predicate_of(term, labels)) for term in terms.anti_affinity),
        tuple((w.term.topology_key, predicate_of(w.term, labels), w.weight) for w in terms.preferred),
    )


def _affinity_counts(cycle: Cycle, own: OwnTerms) -> list[TermCounts]:
    """Pods that all the terms speak of, for each term by the values of its label."""
    if not own.affinity:
        return []
    predicates = tuple(predicate for _, predicate in own.affinity)
    tally = cycle.nodes.tallies.matching(predicates, with_terminating=True)
    columns = [cycle.nodes.labels.column(key) for key, _ in own.affinity]
    return [TermCounts(c, p, tally.by_value(c)) for c, p in zip(columns, predicates, strict=True)]


def _anti_affinity_counts(cycle: Cycle, own: OwnTerms) -> list[TermCounts]:
    found = []
    for key, predicate in own.anti_affinity:
        column = cycle.nodes.labels.column(key)
        tally = cycle.nodes.tallies.matching((predicate,), with_terminating=True)
        found.append(TermCounts(column, predicate, tally.by_value(column)))
    return found


def _existing_anti_affinity(cycle: Cycle) -> dict[LabelColumn, Ints]:
    """Pods on nodes whose anti-affinity speaks of the incoming pod, by the values of the label that it names."""
    found: dict[LabelColumn, Ints] = {}
    for carried, tally in _terms_about(cycle):
        if carried.kind == "anti" and tally.total:
            column = cycle.nodes.labels.column(carried.term.topology_key)
            counts = tally.by_value(column)
            if counts.any():
                found[column] = found[column] + counts if column in found else counts
    return found


def _barriers(cycle: Cycle, neighbours: Neighbours) -> Iterator[tuple[int, LabelColumn, Mask]]:
    """The values of node labels at which a node is rejected, in the order in which upstream looks at them."""
    kin = cycle.pod.kin
    affinity = neighbours.affinity
    # The first pod of a group may go anywhere: nobody that the terms speak of is there yet, and they speak of itself.
    is_first = not any(term.counts.any() for term in affinity) and all(
        term.predicate.holds(kin.namespace, kin.labels) for term in affinity
    )
    for term in affinity:
        closed = np.zeros(len(term.counts), np.bool_) if is_first else term.counts <= 0
        closed[ABSENT] = True
        yield _NO_AFFINITY, term.column, closed
    for term in neighbours.anti_affinity:
        closed = term.counts > 0
        if closed.any():
            yield _ANTI_AFFINITY, term.column, closed
    for column, counts in neighbours.existing.items():
        yield _EXISTING_ANTI_AFFINITY, column, counts > 0


def _change(cycle: Cycle, neighbours: Neighbours, pod: Pod, row: int, change: int) -> None:
    """A pod comes to a node (+1) or leaves it (-1)."""
    kin, incoming = pod.kin, cycle.pod
    labels = cycle.cluster.labels_of_namespace(incoming.namespace)
    for term in pod.shape.terms(pod.namespace).anti_affinity:
        if term.speaks_of(incoming.namespace, incoming.labels, labels):
            column = cycle.nodes.labels.column(term.topology_key)
            _count(neighbours.existing.setdefault(column, np.zeros(column.width, np.int64)), column, row, change)
    if neighbours.affinity and all(t.predicate.holds(kin.namespace, kin.labels) for t in neighbours.affinity):
        for counted in neighbours.affinity:
            _count(counted.counts, counted.column, row, change)
    for counted in neighbours.anti_affinity:
        if counted.predicate.holds(kin.namespace, kin.labels):
            _count(counted.counts, counted.column, row, change)


def _count(counts: Ints, column: LabelColumn, row: int, change: int) -> None:
    code = column.codes[row]
    if code != ABSENT:
        counts[code] += change


def _terms_about(cycle: Cycle) -> Any:
    cluster, pod = cycle.cluster, cycle.pod
    labels = cluster.labels_of_namespace(pod.namespace)
    return cluster.nodes.tallies.terms_about(pod.kin, labels, cluster.versions[Namespace])


def _pull_towards(pull: dict[LabelColumn, Ints], column: LabelColumn, by_value: Any, weight: int, total: int) -> None:
    """Add weight x count for each value of the label, if any pod counts at all."""
    if not total:
        return
    counts = by_value(column)
    if counts.any():
        part = counts * weight
        pull[column] = pull[column] + part if column in pull else part
