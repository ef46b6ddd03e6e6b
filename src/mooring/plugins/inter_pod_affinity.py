"""InterPodAffinity: pods that want to be near, or away from, other pods, in the topology that their terms name."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.kernels import Ints, Mask
from mooring.cluster.labels import ABSENT, LabelColumn
from mooring.framework.config.args import InterPodAffinityArgs
from mooring.framework.cycle import Cycle
from mooring.framework.points import (
    Codes,
    FilterPlugin,
    Handle,
    PreFilterPlugin,
    PreScorePlugin,
    Rows,
    ScorePlugin,
    Scores,
)
from mooring.framework.status import SKIP, Rejection, Skip, curable, final
from mooring.model.affinity import PodPredicate, predicate_of
from mooring.model.workloads import Namespace

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


@dataclass(frozen=True, slots=True)
class Barrier:
    """The values of a node label at which a node is rejected."""

    code: int
    column: LabelColumn
    closed: Mask
    """By code of the label."""


class InterPodAffinity(PreFilterPlugin, FilterPlugin, PreScorePlugin, ScorePlugin):
    name = "InterPodAffinity"

    def __init__(self, args: Any, handle: Handle) -> None:
        del handle
        args = args if isinstance(args, InterPodAffinityArgs) else InterPodAffinityArgs()
        self._hard_weight = args.hard_pod_affinity_weight
        self._ignore_preferred_of_existing = args.ignore_preferred_terms_of_existing_pods

    # ---- Filter

    def pre_filter(self, cycle: Cycle) -> Rejection | Skip | None:
        fault = cycle.shape.terms(cycle.pod.namespace).fault
        if fault is not None:
            return final(f"parsing pod: {fault}")
        own = self._own_terms(cycle)
        barriers = [*_affinity_barriers(cycle, own), *_anti_affinity_barriers(cycle, own)]
        existing = _existing_barriers(cycle)
        if not existing and not own.affinity and not own.anti_affinity:
            return SKIP
        cycle.state.write((self.name, "barriers"), barriers + existing)
        return None

    def filter(self, cycle: Cycle, rows: Rows) -> Codes | None:
        codes: Codes | None = None
        for barrier in cycle.state.read((self.name, "barriers")):
            stopped = barrier.closed[barrier.column.codes[rows]]
            if codes is None:
                codes = stopped * np.int64(barrier.code)
            else:
                codes = np.where(codes == 0, stopped * np.int64(barrier.code), codes)
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


def _affinity_barriers(cycle: Cycle, own: OwnTerms) -> list[Barrier]:
    """Closed where no pod is that all terms speak of, unless there is none anywhere and the pod would be the first."""
    if not own.affinity:
        return []
    predicates = tuple(predicate for _, predicate in own.affinity)
    tally = cycle.nodes.tallies.matching(predicates, with_terminating=True)
    columns = [cycle.nodes.labels.column(key) for key, _ in own.affinity]
    sums = [tally.by_value(column) for column in columns]
    kin = cycle.pod.kin
    is_first = not any(s.any() for s in sums) and all(p.holds(kin.namespace, kin.labels) for p in predicates)
    barriers = []
    for column, counts in zip(columns, sums, strict=True):
        closed = np.zeros(column.width, np.bool_) if is_first else counts <= 0
        closed[ABSENT] = True
        barriers.append(Barrier(_NO_AFFINITY, column, closed))
    return barriers


def _anti_affinity_barriers(cycle: Cycle, own: OwnTerms) -> list[Barrier]:
    barriers = []
    for key, predicate in own.anti_affinity:
        column = cycle.nodes.labels.column(key)
        closed = cycle.nodes.tallies.matching((predicate,), with_terminating=True).by_value(column) > 0
        if closed.any():
            barriers.append(Barrier(_ANTI_AFFINITY, column, closed))
    return barriers


def _existing_barriers(cycle: Cycle) -> list[Barrier]:
    """Closed by pods on nodes whose anti-affinity speaks of the incoming pod."""
    closed: dict[LabelColumn, NDArray[np.bool_]] = {}
    for carried, tally in _terms_about(cycle):
        if carried.kind == "anti" and tally.total:
            column = cycle.nodes.labels.column(carried.term.topology_key)
            here = tally.by_value(column) > 0
            closed[column] = closed[column] | here if column in closed else here
    return [Barrier(_EXISTING_ANTI_AFFINITY, column, here) for column, here in closed.items() if here.any()]


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
