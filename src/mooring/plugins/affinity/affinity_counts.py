"""Counts of InterPodAffinity: the number of pods by the value of a topology label, for the terms of the incoming pod and for
the terms of pods on nodes.

A term names a topology key and selects pods. What matters about a node is how many selected pods are on all nodes with
the same value of that label, so every count here is an array with one place for each value that the label has in the
cluster, and place 0 (ABSENT) for nodes without the label.

Upstream walks all nodes and their pods in PreFilter and fills maps (key, value) -> count. Here the cache keeps a tally
for each predicate as pods come and go, so an attempt adds a few arrays up. The numbers are the same: both count each
pod once for each term that matches it.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from mooring.cluster.columns.kernels import Integers, Ints, Mask
from mooring.cluster.columns.labels import ABSENT, LabelColumn, LabelColumns
from mooring.cluster.tallies.carried_terms import CarriedTerms, TermsAbout
from mooring.cluster.tallies.tallies import PodTallies, are_few
from mooring.cluster.tallies.tally import PodCounts, Tally, sum_by_code, sum_sparse
from mooring.framework.contract.context import SchedulingContext
from mooring.kit.lazy import lazy
from mooring.model.affinity import AffinityTerm, PodPredicate, all_of, predicate_of
from mooring.model.label_set import LabelSet, LabelSetCases
from mooring.model.names import HOSTNAME
from mooring.model.pod import Pod
from mooring.model.workloads import Namespace

_MAX_INT32 = (1 << 31) - 1

Ask = tuple[str, PodPredicate, int]
"""A term of the incoming pod as a question about the pods on nodes: topology key, predicate, and weight (1 for a
required term)."""


@dataclass(frozen=True)
class OwnTerms:
    """The terms of the incoming pod, compiled, with namespace selectors resolved to the namespaces that exist now."""

    affinity: tuple[Ask, ...]
    anti_affinity: tuple[Ask, ...]
    preferred: tuple[Ask, ...]

    @lazy
    def wanted(self) -> PodPredicate:
        """The predicate of pods that all affinity terms match. There must be such terms."""
        return all_of([predicate for _, predicate, _ in self.affinity])

    @lazy
    def cases(self) -> LabelSetCases[tuple[bool, Mapping[str, int]]]:
        """Cache of the answers of `about`. Pods that differ only in labels that no term asks about share an answer."""
        return LabelSetCases(predicate.selector for _, predicate, _ in (*self.affinity, *self.anti_affinity))

    def about(self, label_set: LabelSet) -> tuple[bool, Mapping[str, int]]:
        """Whether all affinity terms match a pod of this label set; and how many anti-affinity terms do, by topology
        key.

        Upstream counts a pod for affinity only if it matches every required affinity term, and counts it for each
        anti-affinity term on its own.
        """
        return self.cases.get(label_set, lambda: self._go_through(label_set))

    def _go_through(self, label_set: LabelSet) -> tuple[bool, Mapping[str, int]]:
        away = Counter(
            key for key, predicate, _ in self.anti_affinity if predicate.holds(label_set.namespace, label_set.labels)
        )
        return all(predicate.holds(label_set.namespace, label_set.labels) for _, predicate, _ in self.affinity), away


class Domains(msgspec.Struct):
    """Counts by value of one topology label; a pod counts as often as terms match it."""

    column: LabelColumn
    """Gives the value of each node as an index into `counts`."""
    counts: Integers
    most: int = 1 << 62
    """No count is further from 0, as far as that is known."""
    counts_absent: bool = False
    """Whether place ABSENT has the pods on nodes without the label."""

    def count(self, row: int, change: int) -> None:
        """Add `change` for the domain of a node. A node without the label belongs to no domain."""
        code = self.column.codes[row]
        if code != ABSENT or self.counts_absent:
            self.counts[code] += change


class ByKey(dict[str, Domains]):
    """Counts by topology key. Parity: upstream too counts for all terms of a key together."""

    def column(self, labels: LabelColumns, key: str) -> LabelColumn:
        """The column whose values are the domains of a topology key."""
        return labels.column(key)


class ByKeyOrNode(ByKey):
    """Counts by topology key, with one domain for each node that has a host name, also where several nodes have the same host
    name: the gate InterPodAffinityHostnameFastPath decides terms about hosts on the node itself."""

    def column(self, labels: LabelColumns, key: str) -> LabelColumn:
        return labels.hosts() if key == HOSTNAME else labels.column(key)


class Neighbours(msgspec.Struct):
    """The state of an attempt, as upstream's preFilterState: three counts that decide where the pod may go.

    A what-if (preemption, nominated pods) changes a clone with `count_change`, so counts must be copied and columns
    need not.
    """

    own: OwnTerms
    affinity: ByKey
    """Pods that all affinity terms match. A node needs at least one in its domain."""
    anti_affinity: ByKey
    """Pods that an anti-affinity term matches, once for each term. A node may have none in its domain."""
    existing: ByKey
    """Pods whose own anti-affinity terms match the incoming pod. A node may have none in its domain."""

    def clone(self) -> "Neighbours":
        parts = (self.affinity, self.anti_affinity, self.existing)
        return Neighbours(self.own, *map(_copy, parts))


def _copy(part: ByKey) -> ByKey:
    """A copy of the counts that a what-if may change."""
    return type(part)(
        (key, Domains(each.column, each.counts.copy(), counts_absent=each.counts_absent)) for key, each in part.items()
    )


def resolve_terms(context: SchedulingContext) -> OwnTerms:
    """Compile the terms of the pod against the namespaces of the cluster.

    The result depends on the pod's shape, its namespace and the labels of all namespaces: the caller keeps it under
    these.
    """
    terms, labels = context.shape.terms(context.pod.namespace), context.cluster.namespace_labels
    # Thousands of terms may each select thousands of namespaces. Equal sets and equal predicates are stored once.
    shared: dict[PodPredicate, PodPredicate] = {}
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


def count_wanted(context: SchedulingContext, own: OwnTerms, by_key: type[ByKey] = ByKey) -> ByKey:
    """Pods that all affinity terms match, by value of each topology key of the terms.

    One key that no node has is enough in the result, because it closes every node: a pod with thousands of such keys
    costs one array.
    """
    if not own.affinity:
        return ByKey()
    if by_key is ByKeyOrNode and all(key == HOSTNAME for key, _, _ in own.affinity):
        return _count_wanted_on_hosts(context, own)
    nodes = context.nodes
    counts: Ints | None = None
    if not are_few(predicate.selector for _, predicate, _ in own.affinity):
        counts = nodes.tallies.census().count_all(predicate for _, predicate, _ in own.affinity)

    def by_value(column: LabelColumn) -> Integers:
        if counts is not None:
            return sum_by_code(column.codes, counts, column.width)
        return nodes.tallies.matching((own.wanted,), with_terminating=True).by_value(column)

    found = ByKey()  # Parity: if one term is not about hosts, upstream decides all of them by label
    lost = False
    for key, _, _ in own.affinity:
        if key in found or (lost and not nodes.labels.has(key)):
            continue
        lost = lost or not nodes.labels.has(key)
        column = nodes.labels.column(key)
        found[key] = Domains(column, by_value(column))
    return found


def _count_wanted_on_hosts(context: SchedulingContext, own: OwnTerms) -> ByKey:
    """Pods that all affinity terms match, node by node. Parity: the exception for the first pod of a group also counts pods
    on nodes without a host name, which `count_wanted` leaves out."""
    nodes, height = context.nodes, context.nodes.height
    if are_few(predicate.selector for _, predicate, _ in own.affinity):
        counts: Integers = nodes.tallies.matching((own.wanted,), with_terminating=True).counts
    else:
        counts = nodes.tallies.census().count_all(predicate for _, predicate, _ in own.affinity)
    found = ByKeyOrNode()
    column = found.column(nodes.labels, HOSTNAME)
    by_host = sum_by_code(column.codes[:height], counts[:height], column.width)
    by_host[ABSENT] = counts[:height][nodes.alive[:height] & (column.codes[:height] == ABSENT)].sum()
    found[HOSTNAME] = Domains(column, by_host, counts_absent=True)
    return found


def count_by_key(context: SchedulingContext, asks: Sequence[Ask], by_key: type[ByKey] = ByKey) -> ByKey:
    """Pods that terms match, times the weight of the term, by value of the topology key. Keys without any such pod are
    left out.

    Terms about labels that no node has are dropped first: they match no domain. Few selectors use tallies, which the
    cache keeps up to date; a pod with many counts once over a census instead, so that other pods do not pay for its
    tallies.
    """
    nodes = context.nodes
    asks = [ask for ask in asks if nodes.labels.has(ask[0])]
    found = by_key()
    if are_few(predicate.selector for _, predicate, _ in asks):
        for key, predicate, weight in asks:
            add_tally(found, context, key, nodes.tallies.matching((predicate,), with_terminating=True), weight)
        return found
    census = nodes.tallies.census()
    asks_of: dict[str, list[Ask]] = {}
    for ask in asks:
        asks_of.setdefault(ask[0], []).append(ask)
    for key, together in asks_of.items():
        column = found.column(nodes.labels, key)
        counts, weighted = census.count_weighted([(predicate, weight) for _, predicate, weight in together])
        if sum_by_code(column.codes, counts, column.width).any():
            found[key] = Domains(column, sum_by_code(column.codes, weighted, column.width))
    return found


def count_existing(context: SchedulingContext, about: TermsAbout, by_key: type[ByKey] = ByKey) -> ByKey:
    """Pods on nodes whose required anti-affinity terms match the incoming pod, by value of the topology key of those
    terms. `about` is what `terms_about` gives."""
    found = by_key()
    add_concerns(found, context, about, "anti", 1)
    return found


def add_concerns(found: ByKey, context: SchedulingContext, about: TermsAbout, kind: str, weight: int) -> None:
    """Add what the terms of pods on nodes say about the incoming pod: terms of one kind, times a weight. `about` is what
    `terms_about` gives for these pods."""
    labels, terms = context.nodes.labels, context.cluster.nodes.tallies.terms
    if not about.concerns or not terms.lists_of_kind[kind]:
        return
    before = set(found) if about.has_exclusions else None
    is_only_list = len(about.concerns) == 1  # Hot: the usual case
    small: dict[str, list[tuple[Tally, int]]] = {}
    for concern, tally in terms.lists(about):
        if tally.total and concern.of(kind):
            for key, number in concern.among(labels).of(kind).items():
                if is_only_list or tally.sparse_counts is None:
                    add_tally(found, context, key, tally, number * weight)
                else:
                    small.setdefault(key, []).append((tally, number * weight))
    for key, tallies in small.items():
        _add_small_tallies(found, context, key, tallies)
    if before is not None:  # an exclusion may have taken away all that the other lists say
        for key in found.keys() - before:
            if not found[key].counts.any() and not _is_said(terms, about, kind, key, found[key].column):
                del found[key]


def _is_said(terms: CarriedTerms, about: TermsAbout, kind: str, key: str, column: LabelColumn) -> bool:
    """Whether a term of any pod on a node with the label is about the incoming pod. Weights may cancel out."""
    said = np.zeros(column.width, np.int64)
    for concern, tally in terms.lists(about):
        number = concern.terms_of(kind).get(key)
        if number:
            said += np.multiply(tally.by_value(column), number, dtype=np.int64)
    return bool(said.any())


def count_change(context: SchedulingContext, neighbours: Neighbours, pod: Pod, row: int, change: int) -> None:
    """Count a pod that comes to a node (+1) or leaves it (-1), as upstream's updateWithPod does.

    Both directions matter: the terms of that pod about the incoming one, and the terms of the incoming one about that
    pod. `affinity` has a fixed set of keys (those of the own terms); the other two may get a new key, because a key
    without any matching pod was left out.
    """
    cluster, nodes = context.cluster, context.nodes
    labels, version = cluster.labels_of_namespace(context.pod.namespace), cluster.versions[Namespace]
    terms, label_set = pod.shape.terms(pod.namespace), context.pod.label_set
    for key, number in nodes.tallies.terms.number_of_anti_terms(terms, label_set, labels, version).items():
        if number and nodes.labels.has(key):
            _domains(neighbours.existing, context, key).count(row, number * change)
    is_wanted, away = neighbours.own.about(pod.label_set)
    for domains in neighbours.affinity.values() if is_wanted else ():
        domains.count(row, change)
    for key, number in away.items():
        if nodes.labels.has(key):
            _domains(neighbours.anti_affinity, context, key).count(row, number * change)


def _domains(found: ByKey, context: SchedulingContext, key: str) -> Domains:
    """The counts for a key, made with zeros if there are none yet."""
    domains = found.get(key)
    if domains is None:
        column = found.column(context.nodes.labels, key)
        domains = found[key] = Domains(column, np.zeros(column.width, np.int64))
    return domains


def add_tally(found: ByKey, context: SchedulingContext, key: str, tally: PodCounts, weight: int) -> None:
    """Add weight x count for each value of the label. Leaves out a key whose sum is zero everywhere, as no node is
    affected."""
    before = found.get(key)
    column = found.column(context.nodes.labels, key) if before is None else before.column
    counts = tally.by_value_if_any(column)
    if counts is not None:
        _add_counts(found, key, column, counts, weight, tally.total)


def _add_small_tallies(found: ByKey, context: SchedulingContext, key: str, tallies: list[tuple[Tally, int]]) -> None:
    """Add tallies that have few rows, each with its weight, to the counts of a topology key. Hot: there may be thousands of
    these tallies, and one addition over all values of the label takes 10 µs for each."""
    if len(tallies) == 1:
        add_tally(found, context, key, *tallies[0])
        return
    by_row: Counter[int] = Counter()
    for tally, weight in tallies:
        for row, count in (tally.sparse_counts or {}).items():
            by_row[row] += weight * count
    column = found.column(context.nodes.labels, key)
    counts = sum_sparse(by_row, column, np.int64)
    if counts is not None:
        _add_counts(found, key, column, counts, 1, int(np.abs(counts).max()))


def _add_counts(found: ByKey, key: str, column: LabelColumn, counts: Integers, weight: int, most: int) -> None:
    """Add weight x count, of which none is further from 0 than `most`.

    `counts` may be shared and must not be written to, so every sum is a new array.
    """
    before = found.get(key)
    most = abs(weight) * most + (0 if before is None else before.most)
    integers = np.int32 if most <= _MAX_INT32 else np.int64  # Hot: for 5,000 values 3 µs a step instead of 9
    part = counts if weight == 1 else np.multiply(counts, weight, dtype=integers)
    total = part if before is None else np.add(before.counts, part, dtype=integers)
    found[key] = Domains(column, total, most)


def terms_about(context: SchedulingContext, tallies: PodTallies | None = None) -> TermsAbout:
    """Find the affinity terms of pods on nodes that match the incoming pod, summed for each list of terms that pods carry.

    Other pods than those on nodes have `tallies` of their own.
    """
    cluster, pod = context.cluster, context.pod
    labels = cluster.labels_of_namespace(pod.namespace)
    tallies = cluster.nodes.tallies if tallies is None else tallies
    return tallies.terms.about(pod.label_set, labels, cluster.versions[Namespace])


# ---- Which pods count at all: a what-if without them need not count again.


def counted_on_rows(context: SchedulingContext, own: OwnTerms, tallies: PodTallies) -> Mask | None:
    """The rows with pods that a term is about, their own or the incoming pod's. None: too many terms to tell by tallies."""
    predicates = [predicate for _, predicate, _ in own.anti_affinity]
    if not are_few(predicate.selector for _, predicate, _ in (*own.affinity, *own.anti_affinity)):
        return None
    height = context.nodes.height
    counted = np.zeros(height, np.bool_)
    for predicate in (own.wanted, *predicates) if own.affinity else predicates:
        counted |= tallies.matching((predicate,), with_terminating=True).counts[:height] > 0
    about = terms_about(context, tallies)
    number_of_terms = np.zeros(height, np.int64) if about.has_exclusions else None
    for concern, tally in tallies.terms.lists(about):
        if not concern.anti or not tally.total:
            continue
        if number_of_terms is None:  # Hot: the usual case; the sums take 2 % of a decision
            counted |= tally.counts[:height] > 0
        else:
            number_of_terms += sum(concern.anti.values()) * tally.counts[:height].astype(np.int64)
    return counted if number_of_terms is None else counted | (number_of_terms > 0)


def closed_on_rows(context: SchedulingContext, own: OwnTerms, tallies: PodTallies) -> tuple[Mask, Mask] | None:
    """The rows that pods there close by anti-affinity: by terms of the incoming pod about them, and by theirs about it. A row
    without the label of a term is not closed by it. None: too many terms to tell by tallies, or terms that exclude pods."""
    about, labels, height = terms_about(context, tallies), context.nodes.labels, context.nodes.height
    if about.has_exclusions or not are_few(predicate.selector for _, predicate, _ in own.anti_affinity):
        return None
    by_own, by_others = np.zeros(height, np.bool_), np.zeros(height, np.bool_)
    for key, predicate, _ in own.anti_affinity:
        if labels.has(key):
            counts = tallies.matching((predicate,), with_terminating=True).counts
            by_own |= (counts[:height] > 0) & (labels.column(key).codes[:height] != ABSENT)
    for concern, tally in tallies.terms.lists(about):
        for key in concern.among(labels).anti if tally.total else ():
            by_others |= (tally.counts[:height] > 0) & (labels.column(key).codes[:height] != ABSENT)
    return by_own, by_others
