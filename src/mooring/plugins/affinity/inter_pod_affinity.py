"""InterPodAffinity: pods that want to be near, or away from, other pods, in the topology that their terms name.

Filter: a node passes if its topology domains contain a pod that all required affinity terms match, contain none that a
required anti-affinity term matches, and none whose own anti-affinity matches the incoming pod. Score: preferred terms
of the incoming pod and of pods on nodes, each times its weight, and required affinity terms of pods on nodes, times
hardPodAffinityWeight. `affinity_counts.py` has the counts.

Everything here reads the cluster (Reads.CLUSTER): one pod anywhere in it can change the answer for every node, so the
framework has to ask in every attempt, unless neither the pod nor any on a node has terms that concern the other. What
makes that affordable is that the counts are kept, not the answers.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.kernels import Integers, Ints, Mask
from mooring.cluster.columns.labels import ABSENT, LabelColumn
from mooring.cluster.tallies.carried_terms import TermsAbout
from mooring.cluster.tallies.tallies import PodTallies
from mooring.framework.config.args import InterPodAffinityArgs
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import (
    ASSIGNED_POD,
    NODE,
    TARGET_POD,
    Action,
    Change,
    ClusterEvent,
    Registration,
    has_place,
    new_node_of,
    nodes_of,
    pods_of,
)
from mooring.framework.contract.points import (
    Codes,
    FilterPlugin,
    Handle,
    Need,
    PreFilterExtensions,
    PreScorePlugin,
    Reads,
    Rows,
    Scores,
    reads,
)
from mooring.framework.contract.status import SKIP, SKIP_FOR_NOW, Rejection, Skip, curable, final
from mooring.framework.kept.score_by_group import PresentGroups, RowGroups, ScoreByGroup
from mooring.framework.kept.score_by_value import ScoreByValue
from mooring.model.affinity import AffinityTerm
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodAffinity
from mooring.model.shape import PodPart
from mooring.model.workloads import Namespace
from mooring.plugins.affinity.affinity_counts import (
    ByKey,
    ByKeyOrNode,
    Domains,
    Neighbours,
    OwnTerms,
    add_concerns,
    closed_on_rows,
    count_by_key,
    count_change,
    count_existing,
    count_wanted,
    counted_on_rows,
    resolve_terms,
    terms_about,
)

# Codes of `filter`. Missing affinity is final (preemption removes pods, and that never adds the wanted one);
# anti-affinity is curable, because the pods in the way may be evicted. Upstream: UnschedulableAndUnresolvable and
# Unschedulable.
_NO_AFFINITY, _ANTI_AFFINITY, _EXISTING_ANTI_AFFINITY = 1, 2, 3
_REJECTIONS = {
    _NO_AFFINITY: final("node(s) didn't match pod affinity rules"),
    _ANTI_AFFINITY: curable("node(s) didn't match pod anti-affinity rules"),
    _EXISTING_ANTI_AFFINITY: curable("node(s) didn't satisfy existing pods anti-affinity rules"),
}


_POD_TERMS = PodPart.POD_TERMS  # Hot: as in shape.py

_FEW = 24
"""Largest number of scores that are normalized one by one, without arrays."""


class InterPodAffinity(PreFilterExtensions, FilterPlugin, PreScorePlugin, ScoreByValue, ScoreByGroup):
    """PreFilter counts, Filter and Score look the domain of each node up; AddPod and RemovePod keep the counts of a
    what-if."""

    name = "InterPodAffinity"
    skips_resizes = True
    needs = (
        Need("filter", "preFilter", 'error reading "PreFilterInterPodAffinity" from cycleState: not found'),
        Need("score", "preScore", 'failed to read "PreScoreInterPodAffinity" from cycleState: not found'),
    )
    is_same_in_all_profiles = True
    needs_feasible = False

    def __init__(self, args: Any, handle: Handle) -> None:
        is_by_node = handle.feature_gates.get("InterPodAffinityHostnameFastPath", False)
        self._by_key: type[ByKey] = ByKeyOrNode if is_by_node else ByKey
        args = args if isinstance(args, InterPodAffinityArgs) else InterPodAffinityArgs()
        self._hard_weight = args.hard_pod_affinity_weight
        self._ignore_preferred_of_existing = args.ignore_preferred_terms_of_existing_pods

    def events(self) -> Sequence[Registration]:
        return EVENTS

    def version(self, cluster: Cluster) -> tuple[int, int]:
        """A pod that no term concerns may be concerned by one that comes, or when the labels of its namespace change."""
        return cluster.nodes.tallies.terms.version, cluster.versions[Namespace]

    # ---- Filter

    @reads(Reads.CLUSTER, PodPart.POD_TERMS)
    def pre_filter(self, context: SchedulingContext) -> Rejection | Skip | None:
        """Count the pods that the required terms of the incoming pod match, and the pods whose required anti-affinity matches
        it. Filter is skipped if the pod has no required terms and there are no such pods."""
        fault = context.shape.terms(context.pod.namespace).fault
        if fault is not None:
            return final(f"parsing pod: {fault}")
        own = self._own_terms(context)
        # A pod without terms still meets the anti-affinity of others, so only both together allow SKIP.
        about = terms_about(context)
        existing = count_existing(context, about, self._by_key)
        if not existing and not own.affinity and not own.anti_affinity:
            skip = self._skip(context, about)
            if skip is not None:
                return skip
        wanted = count_wanted(context, own, self._by_key)
        unwanted = count_by_key(context, own.anti_affinity, self._by_key)
        context.state.write((self.name, "neighbours"), Neighbours(own, wanted, unwanted, existing))
        return None

    def _skip(self, context: SchedulingContext, about: TermsAbout) -> Skip | None:
        """How Filter is skipped for a pod that no term concerns. Parity: with InterPodAffinityHostnameFastPath it is not
        skipped while any pod on a node has anti-affinity to pods on its host, and nominated pods then count."""
        nodes = context.cluster.nodes
        tallies = list(nodes.tallies.terms.of_hosts()) if self._by_key is ByKeyOrNode else []
        if any(nodes.alive.take(tally.rows_and_counts[0]).any() for tally in tallies):
            return None
        return SKIP if about or tallies else SKIP_FOR_NOW  # the node of these pods may come

    def add_pod(self, context: SchedulingContext, pod: Pod, row: int) -> None:
        count_change(context, context.state.read((self.name, "neighbours")), pod, row, 1)

    def remove_pod(self, context: SchedulingContext, pod: Pod, row: int) -> None:
        count_change(context, context.state.read((self.name, "neighbours")), pod, row, -1)

    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        """The first barrier that stops a row gives the code. Hot: there is one look-up for each label, by its value on the
        row, and not for each barrier; bytes are read and written several times as fast as 64-bit integers."""
        by_value: dict[LabelColumn, NDArray[np.int8]] = {}
        barriers = list(_barriers(context, context.state.read((self.name, "neighbours"))))
        for code, column, closed in reversed(barriers):  # so that an earlier one is written over a later one
            codes = by_value.get(column)
            if codes is None:
                codes = by_value[column] = np.zeros(column.width, np.int8)
            codes[closed.nonzero()[0]] = code
        found: NDArray[np.int8] | None = None
        for column, codes in by_value.items():
            stopped = _by_row(column, codes, rows, context.nodes.height)
            if found is None or stopped is None:
                found = stopped if found is None else found
            else:  # the codes are in the order in which upstream checks, so the lowest is the first
                found = np.where((found == 0) | ((stopped != 0) & (stopped < found)), stopped, found)
        return found

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        return _REJECTIONS[code]

    def counted_rows(self, context: SchedulingContext, tallies: PodTallies) -> Mask | None:
        """With InterPodAffinityHostnameFastPath also the rows with pods for which `_skip` does not skip Filter."""
        counted = counted_on_rows(context, self._own_terms(context), tallies)
        if counted is not None and self._by_key is ByKeyOrNode:
            for tally in tallies.terms.of_hosts():
                counted |= tally.counts[: len(counted)] > 0
        return counted

    def codes_beside(self, context: SchedulingContext, tallies: PodTallies) -> Ints | None:
        """Anti-affinity closes rows. Pods that the incoming one wants near may open others as well."""
        own = self._own_terms(context)
        if own.affinity or self._by_key is ByKeyOrNode:
            return None
        closed = closed_on_rows(context, own, tallies)
        if closed is None:
            return None
        by_own, by_others = closed
        return np.where(by_own, _ANTI_AFFINITY, np.where(by_others, _EXISTING_ANTI_AFFINITY, 0))

    # ---- Score

    @reads(Reads.CLUSTER, PodPart.POD_TERMS)
    def pre_score(self, context: SchedulingContext, rows: Rows) -> Skip | None:
        """Sum the pull of all terms for each topology value. Like upstream, it counts pods on all nodes, not only on
        the feasible ones in `rows`."""
        own = self._own_terms(context)
        if self._ignore_preferred_of_existing and not own.preferred:
            return SKIP
        pull = count_by_key(context, own.preferred)
        about = terms_about(context)
        if self._hard_weight:
            add_concerns(pull, context, about, "affinity", self._hard_weight)
        add_concerns(pull, context, about, "preferred", 1)
        if not pull:
            return SKIP if about or own.preferred else SKIP_FOR_NOW
        context.state.write((self.name, "pull"), list(pull.values()))
        return None

    def score(self, context: SchedulingContext, rows: Rows) -> Scores | None:
        """Raw score of a row: the sum over topology keys of the weights of matching terms in the domain of its node. These
        are preferred terms, and required affinity terms of pods on nodes with their configured weight."""
        total: Ints | None = None
        for pull in context.state.read((self.name, "pull")):
            codes = pull.column.codes
            part = pull.counts.take(codes[rows] if isinstance(rows, slice) else codes.take(rows))
            total = part if total is None else total + part
        return total

    def score_by_value(self, context: SchedulingContext) -> tuple[LabelColumn, Integers] | None:
        """As a rule all terms name one label."""
        pulls = context.state.read((self.name, "pull"))
        return (pulls[0].column, pulls[0].counts) if len(pulls) == 1 else None

    def row_groups(self, context: SchedulingContext) -> RowGroups | None:
        """The values of the label, if all terms name one that has few values."""
        column, _ = self.score_by_value(context) or (None, None)
        if column is None or column.is_nowhere or column.places(context.nodes.height).narrow is None:
            return None
        return RowGroups(column, None)

    def score_groups(self, context: SchedulingContext, present: PresentGroups) -> Scores:
        pulls: list[Domains] = context.state.read((self.name, "pull"))
        return pulls[0].counts.take(present.codes)

    def normalize(self, context: SchedulingContext, scores: Scores, rows: Rows) -> Scores:
        """Scale from the lowest sum (0) to the highest (100). Sums may be negative: anti-affinity has negative weights.

        Parity: upstream divides before it multiplies, in floating point, and truncates, so 29 of 100 becomes 28.
        """
        if len(scores) <= _FEW:
            return _shares_of_few(scores.tolist())
        lowest = int(scores.min())
        span = int(scores.max()) - lowest
        if span == 0:
            return np.zeros(len(scores), np.int64)
        if span < len(scores):  # Hot: as a rule there are few different sums, and looking up is faster than dividing
            return _shares(np.arange(span + 1), span).take(scores - lowest)
        return _shares(scores - lowest, span)

    def _own_terms(self, context: SchedulingContext) -> OwnTerms:
        """Kept with the shape. The version of Namespace objects is part of the key, because namespace selectors depend
        on their labels."""
        namespaces = context.cluster.versions[Namespace]
        key = (self.name, "own", context.pod.namespace, namespaces)
        return context.of_shape(key, lambda: resolve_terms(context), _POD_TERMS)


def _by_row(column: LabelColumn, codes: NDArray[np.int8], rows: Rows, height: int) -> NDArray[np.int8] | None:
    """The codes of rows by their value of a label; None: 0 for all."""
    if not isinstance(rows, slice):
        return codes.take(column.codes.take(rows))
    if rows == slice(0, height):
        return column.places(height).by_row(codes)
    return codes.take(column.codes[rows])


def _shares_of_few(scores: list[int]) -> NDArray[np.int32]:
    """Compute the same shares as `_shares`, but from a list of plain integers. Hot: there is one score for each value of a
    label, so the list is short, and arrays take three times as long."""
    lowest, span = min(scores), float(max(scores) - min(scores)) or 1.0
    return np.array([int(100.0 * ((score - lowest) / span)) for score in scores], np.int32)


def _shares(above: Ints, span: int) -> NDArray[np.int32]:
    """Normalized scores: the distance of each sum from the lowest sum, in percent of the span between the lowest and the
    highest."""
    shares: NDArray[np.float64] = above / float(span)
    return (100.0 * shares).astype(np.int32)


def _barriers(context: SchedulingContext, neighbours: Neighbours) -> Iterator[tuple[int, LabelColumn, Mask]]:
    """(code, label, values of the label at which a node is rejected), in the order in which upstream checks.

    Affinity rejects where no matching pod is, and also where the label is missing; anti-affinity only where a matching
    pod is, and a node without the label (ABSENT counts 0) passes.
    """
    affinity = neighbours.affinity.values()
    # Upstream's exception for the first pod of a group: if no pod in the cluster matches and the terms match the pod
    # itself, it may go to any node that has the labels. Otherwise the group could never start.
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


# ---- Queueing hints: which changes can help a pod that InterPodAffinity rejected. Parity: hints are coarser than the
# filter. Several affinity terms count only when a pod meets all of them, anti-affinity terms when it meets any; no term
# at all counts as not met, and namespace selectors are tried against no labels.


Terms = tuple[AffinityTerm, ...]


def neighbours_may_fit(pod: Pod, change: Change) -> bool:
    """Whether a pod came that the waiting pod wants near, or one went that one of the two wants away; or labels changed
    so."""
    old, new = pods_of(change)
    # Pods without a node count in no domain.
    if not all(has_place(other) for other in (old, new) if other is not None):
        return False
    if _is_unreadable(pod):
        return True
    terms = pod.shape.terms(pod.namespace)
    if old is None:
        return new is not None and terms.want(new.label_set)
    if new is None:
        return terms.avoid(old.label_set) or _keeps_away(old, pod)
    return (terms.want(new.label_set) and not terms.want(old.label_set)) or (
        terms.avoid(old.label_set) and not terms.avoid(new.label_set)
    )


def topology_may_fit(pod: Pod, change: Change) -> bool:
    """Whether a node entered a domain where the waiting pod may find what it wants, or left one that was closed to it.

    Parity: a pod without terms of its own was rejected by the anti-affinity of others, and no change of a node helps
    it.
    """
    if _is_unreadable(pod):
        return True
    (old, _), new = nodes_of(change), new_node_of(change)
    terms = pod.shape.terms(pod.namespace)
    if old is None:
        return bool(terms.anti_affinity) or not terms.affinity_keys.isdisjoint(new.labels)
    return any(_enters(key, old, new) for key in terms.affinity_keys & new.labels.keys()) or any(
        _enters(key, new, old) for key in terms.anti_affinity_keys & old.labels.keys()
    )


EVENTS = (
    Registration(ClusterEvent(ASSIGNED_POD, Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL), neighbours_may_fit),
    Registration(ClusterEvent(TARGET_POD, Action.UPDATE_POD_LABEL)),
    Registration(ClusterEvent(NODE, Action.ADD | Action.UPDATE_NODE_LABEL), topology_may_fit),
)
"""A node that goes is not among them: pods on it leave with events of their own."""


def _keeps_away(other: Pod, pod: Pod) -> bool:
    """Whether the other pod's anti-affinity matches the waiting pod. Terms that do not compile count as a match: a hint
    that cannot tell says yes."""
    terms = other.shape.terms(other.namespace)
    group = other.spec.affinity.pod_anti_affinity if other.spec.affinity else None
    return _is_lost(group, terms.anti_affinity) or terms.avoid(pod.label_set)


def _enters(key: str, before: Node, now: Node) -> bool:
    """Whether the node has a value of the label that it did not have before."""
    value = now.labels.get(key)
    return value is not None and value != before.labels.get(key)


def _is_unreadable(pod: Pod) -> bool:
    """Whether required terms of the pod do not compile. A hint that cannot tell says yes."""
    affinity, terms = pod.spec.affinity, pod.shape.terms(pod.namespace)
    if affinity is None or not terms.faults:
        return False
    return _is_lost(affinity.pod_affinity, terms.affinity) or _is_lost(affinity.pod_anti_affinity, terms.anti_affinity)


def _is_lost(written: PodAffinity | None, compiled: Terms) -> bool:
    """Whether terms are written that were not compiled: one term that does not compile drops its whole list."""
    return written is not None and bool(written.required) and not compiled


PLUGINS = (InterPodAffinity,)
