"""InterPodAffinity: pods that want to be near, or away from, other pods, in the topology that their terms name."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.kernels import Ints, Mask
from mooring.cluster.nodes.labels import ABSENT, LabelColumn
from mooring.cluster.pods.carried import Concern
from mooring.cluster.pods.tallies import are_few
from mooring.cluster.pods.tally import Tally, sum_by_code
from mooring.framework.config.args import InterPodAffinityArgs
from mooring.framework.context import SchedulingContext
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
from mooring.kit.lazy import lazy
from mooring.model.affinity import AffinityTerm, PodPredicate, predicate_of
from mooring.model.label_set import LabelSet, LabelSetCases
from mooring.model.pod import Pod
from mooring.model.workloads import Namespace
from mooring.plugins.affinity.inter_pod_affinity_hints import EVENTS

_NO_AFFINITY, _ANTI_AFFINITY, _EXISTING_ANTI_AFFINITY = 1, 2, 3
_REJECTIONS = {
    _NO_AFFINITY: final("node(s) didn't match pod affinity rules"),
    _ANTI_AFFINITY: curable("node(s) didn't match pod anti-affinity rules"),
    _EXISTING_ANTI_AFFINITY: curable("node(s) didn't satisfy existing pods anti-affinity rules"),
}


Ask = tuple[str, PodPredicate, int]
"""A term of the incoming pod as a question about the pods on nodes: topology key, predicate and weight."""


@dataclass(frozen=True)
class OwnTerms:
    """The terms of the incoming pod. Required ones weigh 1."""

    affinity: tuple[Ask, ...]
    anti_affinity: tuple[Ask, ...]
    preferred: tuple[Ask, ...]

    @lazy
    def cases(self) -> LabelSetCases[tuple[bool, Mapping[str, int]]]:
        return LabelSetCases(predicate.selector for _, predicate, _ in (*self.affinity, *self.anti_affinity))

    def about(self, label_set: LabelSet) -> tuple[bool, Mapping[str, int]]:
        """Whether all affinity terms speak of a pod; and how many anti-affinity terms do, by topology key."""
        return self.cases.get(label_set, lambda: self._go_through(label_set))

    def _go_through(self, label_set: LabelSet) -> tuple[bool, Mapping[str, int]]:
        away = Counter(
            key for key, predicate, _ in self.anti_affinity if predicate.holds(label_set.namespace, label_set.labels)
        )
        return all(predicate.holds(label_set.namespace, label_set.labels) for _, predicate, _ in self.affinity), away


@dataclass(slots=True)
class Domains:
    """Pods by value of a topology label; a pod may count more than once."""

    column: LabelColumn
    counts: Ints

    def count(self, row: int, change: int) -> None:
        code = self.column.codes[row]
        if code != ABSENT:
            self.counts[code] += change


ByKey = dict[str, Domains]
"""By topology key. Parity: upstream too counts for all terms of a key together."""


@dataclass(slots=True)
class Neighbours:
    """The state of an attempt: the pods on nodes that decide where the pod may go. A what-if changes a clone of it."""

    own: OwnTerms
    affinity: ByKey
    """Pods that all affinity terms speak of."""
    anti_affinity: ByKey
    """Pods that an anti-affinity term speaks of, once for each term."""
    existing: ByKey
    """Pods whose own anti-affinity speaks of the incoming pod."""

    def clone(self) -> "Neighbours":
        parts = (self.affinity, self.anti_affinity, self.existing)
        return Neighbours(
            self.own, *({key: Domains(d.column, d.counts.copy()) for key, d in part.items()} for part in parts)
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

    def pre_filter(self, context: SchedulingContext) -> Rejection | Skip | None:
        fault = context.shape.terms(context.pod.namespace).fault
        if fault is not None:
            return final(f"parsing pod: {fault}")
        own = self._own_terms(context)
        existing = _existing_anti_affinity(context)
        if not existing and not own.affinity and not own.anti_affinity:
            return SKIP
        neighbours = Neighbours(
            own, _affinity_counts(context, own), _count_by_key(context, own.anti_affinity), existing
        )
        context.state.write((self.name, "neighbours"), neighbours)
        return None

    def add_pod(self, context: SchedulingContext, pod: Pod, row: int) -> None:
        _change(context, context.state.read((self.name, "neighbours")), pod, row, 1)

    def remove_pod(self, context: SchedulingContext, pod: Pod, row: int) -> None:
        _change(context, context.state.read((self.name, "neighbours")), pod, row, -1)

    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        codes: Codes | None = None
        for code, column, closed in _barriers(context, context.state.read((self.name, "neighbours"))):
            stopped = closed[column.codes[rows]] * np.int64(code)
            codes = stopped if codes is None else np.where(codes == 0, stopped, codes)
        return codes

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        return _REJECTIONS[code]

    # ---- Score

    def pre_score(self, context: SchedulingContext, rows: Rows) -> Skip | None:
        own = self._own_terms(context)
        if self._ignore_preferred_of_existing and not own.preferred:
            return SKIP
        pull = _count_by_key(context, own.preferred)
        for concern, tally in _terms_about(context):
            said = concern.among(context.nodes.labels) if tally.total else None
            for key, number in said.affinity.items() if said and self._hard_weight else ():
                _add_tally(pull, context, key, tally, number * self._hard_weight)
            for key, weight in said.preferred.items() if said else ():
                _add_tally(pull, context, key, tally, weight)
        if not pull:
            return SKIP
        context.state.write((self.name, "pull"), list(pull.values()))
        return None

    def score(self, context: SchedulingContext, rows: Rows) -> Scores | None:
        total: Ints | None = None
        for pull in context.state.read((self.name, "pull")):
            part = pull.counts[pull.column.codes[rows]]
            total = part if total is None else total + part
        return total

    def normalize(self, context: SchedulingContext, scores: Scores, rows: Rows) -> Scores:
        """Parity: divides before it multiplies, so 29 of 100 becomes 28."""
        lowest = scores.min()
        span = scores.max() - lowest
        if span == 0:
            return np.zeros(len(scores), np.int64)
        shares: NDArray[np.float64] = (scores - lowest) / float(span)
        return (100.0 * shares).astype(np.int64)

    def _own_terms(self, context: SchedulingContext) -> OwnTerms:
        namespaces = context.cluster.versions[Namespace]
        key = (self.name, "own", context.pod.namespace, namespaces)
        return context.of_shape(key, lambda: _resolve(context))


def _resolve(context: SchedulingContext) -> OwnTerms:
    terms, labels = context.shape.terms(context.pod.namespace), context.cluster.namespace_labels
    shared: dict[PodPredicate, PodPredicate] = {}
    """Thousands of terms may each reach thousands of namespaces; where these are the same ones they are kept once."""
    sets: dict[frozenset[str], frozenset[str]] = {}

    def ask(term: AffinityTerm, weight: int = 1) -> Ask:
        found = predicate_of(term, labels)
        namespaces = sets.setdefault(found.namespaces, found.namespaces)
        predicate = PodPredicate(found.selector, namespaces, found.anywhere)
        return term.topology_key, shared.setdefault(predicate, predicate), weight

    return OwnTerms(
        tuple(ask(term) for term in terms.affinity),
        tuple(ask(term) for term in terms.anti_affinity),
        tuple(ask(weighted.term, weighted.weight) for weighted in terms.preferred),
    )


def _affinity_counts(context: SchedulingContext, own: OwnTerms) -> ByKey:
    """Pods that all the terms speak of, by the values of each label that a term names.

    Of labels that no node has one is enough: it rejects every node.
    """
    if not own.affinity:
        return {}
    nodes, predicates = context.nodes, tuple(predicate for _, predicate, _ in own.affinity)
    counts: Ints | None = None
    if not are_few(predicate.selector for predicate in predicates):
        counts = nodes.tallies.census().count_all(predicates)

    def by_value(column: LabelColumn) -> Ints:
        if counts is not None:
            return sum_by_code(column.codes, counts, column.width)
        return nodes.tallies.matching(predicates, with_terminating=True).by_value(column)

    found: ByKey = {}
    lost = False
    for key, _, _ in own.affinity:
        if key in found or (lost and not nodes.labels.has(key)):
            continue
        lost = lost or not nodes.labels.has(key)
        column = nodes.labels.column(key)
        found[key] = Domains(column, by_value(column))
    return found


def _count_by_key(context: SchedulingContext, asks: Sequence[Ask]) -> ByKey:
    """Pods that terms speak of, times their weight, by the values of the labels that they name; keys without any left out.

    Labels that no node has count nowhere.
    """
    nodes = context.nodes
    asks = [ask for ask in asks if nodes.labels.has(ask[0])]
    found: ByKey = {}
    if are_few(predicate.selector for _, predicate, _ in asks):
        for key, predicate, weight in asks:
            _add_tally(found, context, key, nodes.tallies.matching((predicate,), with_terminating=True), weight)
        return found
    census = nodes.tallies.census()
    by_key: dict[str, list[Ask]] = {}
    for ask in asks:
        by_key.setdefault(ask[0], []).append(ask)
    for key, together in by_key.items():
        column = nodes.labels.column(key)
        counts, weighted = census.count_weighted([(predicate, weight) for _, predicate, weight in together])
        if sum_by_code(column.codes, counts, column.width).any():
            found[key] = Domains(column, sum_by_code(column.codes, weighted, column.width))
    return found


def _existing_anti_affinity(context: SchedulingContext) -> ByKey:
    """Pods on nodes whose anti-affinity speaks of the incoming pod, by the values of the label that it names."""
    found: ByKey = {}
    for concern, tally in _terms_about(context):
        if concern.anti and tally.total:
            for key, number in concern.among(context.nodes.labels).anti.items():
                _add_tally(found, context, key, tally, number)
    return found


def _barriers(context: SchedulingContext, neighbours: Neighbours) -> Iterator[tuple[int, LabelColumn, Mask]]:
    """The values of node labels at which a node is rejected, in the order in which upstream looks at them."""
    affinity = neighbours.affinity.values()
    # The first pod of a group may go anywhere: nobody that the terms speak of is there yet, and they speak of itself.
    is_first = (
        bool(affinity) and not any(d.counts.any() for d in affinity) and neighbours.own.about(context.pod.label_set)[0]
    )
    for domains in affinity:
        closed = np.zeros(len(domains.counts), np.bool_) if is_first else domains.counts <= 0
        closed[ABSENT] = True
        yield _NO_AFFINITY, domains.column, closed
    for domains in neighbours.anti_affinity.values():
        closed = domains.counts > 0
        if closed.any():
            yield _ANTI_AFFINITY, domains.column, closed
    for domains in neighbours.existing.values():
        yield _EXISTING_ANTI_AFFINITY, domains.column, domains.counts > 0


def _change(context: SchedulingContext, neighbours: Neighbours, pod: Pod, row: int, change: int) -> None:
    """A pod comes to a node (+1) or leaves it (-1)."""
    cluster, nodes = context.cluster, context.nodes
    labels, version = cluster.labels_of_namespace(context.pod.namespace), cluster.versions[Namespace]
    concern = nodes.tallies.concern(pod.shape.terms(pod.namespace), context.pod.label_set, labels, version)
    for key, number in concern.among(nodes.labels).anti.items():
        _domains(neighbours.existing, context, key).count(row, number * change)
    is_wanted, away = neighbours.own.about(pod.label_set)
    for domains in neighbours.affinity.values() if is_wanted else ():
        domains.count(row, change)
    for key, number in away.items():
        if nodes.labels.has(key):
            _domains(neighbours.anti_affinity, context, key).count(row, number * change)


def _domains(found: ByKey, context: SchedulingContext, key: str) -> Domains:
    domains = found.get(key)
    if domains is None:
        column = context.nodes.labels.column(key)
        domains = found[key] = Domains(column, np.zeros(column.width, np.int64))
    return domains


def _add_tally(found: ByKey, context: SchedulingContext, key: str, tally: Tally, weight: int) -> None:
    """Add weight x count for each value of the label, if any pod counts at all."""
    if not tally.total:
        return
    before = found.get(key)
    column = context.nodes.labels.column(key) if before is None else before.column
    counts = tally.by_value(column)
    if counts.any():
        part = counts if weight == 1 else counts * weight
        found[key] = Domains(column, part if before is None else before.counts + part)


def _terms_about(context: SchedulingContext) -> list[tuple[Concern, Tally]]:
    cluster, pod = context.cluster, context.pod
    labels = cluster.labels_of_namespace(pod.namespace)
    return cluster.nodes.tallies.terms_about(pod.label_set, labels, cluster.versions[Namespace])
