"""PodTopologySpread: keeps the pods that a selector matches evenly spread over zones, hosts or any other label.

Filter applies the hard constraints (DoNotSchedule), Score the soft ones (ScheduleAnyway). `spread_constraints.py` says
which constraints a pod has, `spread_counts.py` counts pods by domain and holds the skew check.

Everything here reads the cluster (Reads.CLUSTER): a pod that lands in one domain changes the skew of all others, so the
answer for a node depends on all of them. The counts come from tallies that the cache keeps up to date;
only the comparison with the minimum is done in each attempt.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.kernels import Integers, Ints, Mask, round_half_away
from mooring.cluster.columns.labels import LabelColumn
from mooring.cluster.tallies.tallies import PodTallies
from mooring.framework.config.args import PodTopologySpreadArgs
from mooring.framework.contract.context import KeptValues, SchedulingContext
from mooring.framework.contract.events import (
    ASSIGNED_POD,
    NODE,
    TARGET_POD,
    Action,
    Change,
    ClusterEvent,
    Registration,
    has_place,
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
from mooring.framework.contract.status import (
    SKIP,
    SKIP_FOR_NOW,
    SKIP_SHAPE,
    PluginError,
    Rejection,
    Skip,
    curable,
    final,
)
from mooring.framework.kept.score_by_group import PresentGroups, RowGroups, ScoreByGroup
from mooring.framework.kept.score_by_value import ScoreByValue
from mooring.model.names import HOSTNAME
from mooring.model.node import COMPARISON_GATE
from mooring.model.pod import Pod
from mooring.model.shape import PodPart, PodShape
from mooring.plugins.affinity.spread_constraints import (
    HARD,
    SOFT,
    SYSTEM_DEFAULTS,
    Constraints,
    default_constraints,
    own_constraints,
    selector_source_version,
)
from mooring.plugins.affinity.spread_counts import LABEL_MISSING, SkewChecks, counted_by
from mooring.plugins.affinity.spread_scores import SoftScores, codes_of

_SPREAD = PodPart.SPREAD  # Hot: as in shape.py
_FEW = 24
"""Largest number of scores that are normalized one by one, without arrays."""

Keep = Callable[[Hashable, Callable[[], Constraints]], Constraints]
"""Gives what is kept for the pod's shape under a key, and builds it when there is nothing yet."""


class PodTopologySpread(PreFilterExtensions, FilterPlugin, PreScorePlugin, ScoreByValue, ScoreByGroup):
    """PreFilter and PreScore count, Filter and Score look the domain of each row up; AddPod and RemovePod serve
    what-ifs."""

    name = "PodTopologySpread"
    skips_resizes = True
    needs = (
        Need("filter", "preFilter", 'reading "PreFilterPodTopologySpread" from cycleState: not found'),
        Need("score", "preScore", 'error reading "PreScorePodTopologySpread" from cycleState: not found'),
    )
    is_same_in_all_profiles = True

    def __init__(self, args: Any, handle: Handle) -> None:
        self._compares = handle.feature_gates.get(COMPARISON_GATE, False)
        args = args if isinstance(args, PodTopologySpreadArgs) else PodTopologySpreadArgs()
        # Upstream has two kinds of defaults: a list in the profile, or the built-in SYSTEM_DEFAULTS, which are all
        # soft.
        self._by_list = args.defaulting_type == "List"
        self._defaults = tuple(args.default_constraints or ()) if self._by_list else SYSTEM_DEFAULTS
        self._has_hard_defaults = any(constraint.when_unsatisfiable == HARD for constraint in self._defaults)
        self._unschedulable: WeakKeyDictionary[PodShape, KeptValues] = WeakKeyDictionary()
        """For hints, which have no attempt: the constraints of the shapes that they were asked about. Entries go with
        their shape."""

    def events(self) -> Sequence[Registration]:
        return spread_events(self._hard_constraints)

    # ---- Filter

    @reads(Reads.CLUSTER, PodPart.SPREAD)
    def pre_filter(self, context: SchedulingContext) -> Skip | None:
        if not context.shape.spread_constraints and not self._has_hard_defaults:
            return SKIP_SHAPE
        constraints = self._constraints(context, HARD)
        if not constraints:
            return SKIP
        counted = counted_by(context, constraints, HARD, require_all=True, compares=self._compares)
        context.state.write((self.name, "checks"), SkewChecks(context, constraints, counted))
        return None

    def add_pod(self, context: SchedulingContext, pod: Pod, row: int) -> None:
        self._checks(context).change(context, pod, row, 1)

    def remove_pod(self, context: SchedulingContext, pod: Pod, row: int) -> None:
        self._checks(context).change(context, pod, row, -1)

    def filter(self, context: SchedulingContext, rows: Rows) -> Codes | None:
        return self._checks(context).verdicts(rows)

    def _checks(self, context: SchedulingContext) -> SkewChecks:
        checks: SkewChecks = context.state.read((self.name, "checks"))
        return checks

    def rejection(self, context: SchedulingContext, code: int) -> Rejection:
        if code == LABEL_MISSING:
            return final("node(s) didn't match pod topology spread constraints (missing required label)")
        return curable("node(s) didn't match pod topology spread constraints")

    def counted_rows(self, context: SchedulingContext, tallies: PodTallies) -> Mask | None:
        return self._checks(context).counted_rows(context.nodes.height, tallies)

    def codes_beside(self, context: SchedulingContext, tallies: PodTallies) -> Ints | None:
        return self._checks(context).codes_beside(context.nodes.height, tallies)

    # ---- Score

    @reads(Reads.CLUSTER, PodPart.SPREAD)
    def pre_score(self, context: SchedulingContext, rows: Rows) -> Skip | None:
        """Work out what each soft constraint adds to the score of a node.

        Nodes that lack a label are ignored (they get 0) if the constraints are the pod's own or the profile's list. The
        system defaults score every node, because clusters without zones are common.
        """
        constraints = self._constraints(context, SOFT)
        if not constraints:
            return SKIP_FOR_NOW
        require_all = self._by_list or bool(context.shape.spread_constraints)
        counted = counted_by(context, constraints, SOFT, require_all, self._compares)
        ignored = counted.lacking[rows] if require_all and counted.is_any_lacking else None
        context.state.write((self.name, "soft"), SoftScores(constraints, counted, rows, ignored))
        context.state.write((self.name, "ignored"), ignored)
        return None

    def score(self, context: SchedulingContext, rows: Rows) -> Scores | None:
        """Raw score of a row: the sum over the soft constraints, rounded as upstream does. A lower sum means fewer matching
        pods in the domains of the node."""
        parts = self._soft(context).parts(context)
        if len(parts) == 1 and parts[0].by_row is None:  # Hot: as a rule; then few values are rounded, and not all rows
            return parts[0].rounded().take(codes_of(parts[0].column, rows))
        total = np.zeros(len(context.nodes.alive[rows]))
        for part in parts:
            total += part.score(rows)
        return round_half_away(total)

    def score_by_value(self, context: SchedulingContext) -> tuple[LabelColumn, Integers] | None:
        """As a rule there is one constraint, not about host names, and all nodes have its label."""
        soft = self._soft(context)
        if len(soft.constraints) != 1 or soft.constraints[0].key == HOSTNAME or soft.ignored is not None:
            return None
        part = soft.parts(context)[0]
        return part.column, part.rounded()

    def row_groups(self, context: SchedulingContext) -> RowGroups | None:
        """As a rule a pod without constraints of its own has the default ones: about host names, and about zones."""
        return self._soft(context).groups(context)

    def score_groups(self, context: SchedulingContext, present: PresentGroups) -> Scores:
        return self._soft(context).score_groups(context, present)

    def _soft(self, context: SchedulingContext) -> SoftScores:
        soft: SoftScores = context.state.read((self.name, "soft"))
        return soft

    def normalize(self, context: SchedulingContext, scores: Scores, rows: Rows) -> Scores:
        """Turn counts into scores: the fewer pods the better, (highest + lowest - count) * 100 / highest, as upstream;
        nodes without all labels get 0."""
        ignored: Mask | None = context.state.read((self.name, "ignored"))
        if ignored is None and len(scores) <= _FEW:
            return _fewer_is_better(scores.tolist())
        counted = scores if ignored is None or not ignored.any() else scores[~ignored]
        if not len(counted):
            return np.zeros(len(scores), np.int64)
        # Parity: upstream starts its maximum at 0, so it is 0 also where all sums are negative (maxSkew 0 from
        # unvalidated objects).
        highest, lowest = max(int(counted.max()), 0), int(counted.min())
        if highest == 0:
            result: Scores = np.full(len(scores), 100, np.int64)
        elif highest - lowest < len(scores) and counted is scores:  # Hot: looking up is faster than dividing
            result = ((highest - np.arange(highest - lowest + 1)) * 100 // highest).take(scores - lowest)
        else:
            result = (highest + lowest - scores) * 100 // highest
        if ignored is not None:
            result[ignored] = 0
        return result

    # ---- which constraints

    def version(self, cluster: Cluster) -> int:
        """A pod without constraints of its own gets default ones when an object comes that selects it."""
        return selector_source_version(cluster)

    def _constraints(self, context: SchedulingContext, action: str) -> Constraints:
        return self._find_constraints(
            context.pod, context.cluster, action, lambda key, build: context.of_shape(key, build, _SPREAD)
        )

    def _hard_constraints(self, pod: Pod, cluster: Cluster) -> Constraints:
        """The hard constraints of a pod outside of an attempt: hints ask for them."""
        kept = self._unschedulable.get(pod.shape)
        if kept is None:
            kept = self._unschedulable[pod.shape] = KeptValues()
        return self._find_constraints(pod, cluster, HARD, lambda key, build: kept.get(key, 0, build))

    def _find_constraints(self, pod: Pod, cluster: Cluster, action: str, keep: Keep) -> Constraints:
        """The hard or soft constraints of the pod, or else the profile's default ones if a selector can be derived.

        `keep` has to be keyed by all that the constraints depend on beside the shape: for own ones the namespace and
        the labels that matchLabelKeys names, for default ones the labels, the controller and the version of the objects
        with selectors.
        """
        if pod.shape.spread_constraints:
            # Only the labels count that matchLabelKeys names: pods of a StatefulSet share no others.
            named = tuple(map(pod.labels.get, pod.shape.spread_label_keys))
            return keep((self.name, action, pod.namespace, named), lambda: own_constraints(pod, action))
        if not any(constraint.when_unsatisfiable == action for constraint in self._defaults):
            return Constraints()
        owner = pod.controller()
        source = (owner.api_version, owner.kind, owner.name) if owner else None
        key = (self.name, action, pod.label_set, source, selector_source_version(cluster))
        return keep(key, lambda: default_constraints(pod, cluster, action, self._defaults))


def _fewer_is_better(scores: list[int]) -> Ints:
    """Compute the same normalized scores as `normalize`, but from a list of plain integers. Hot: there is one score for each
    value of a label, so the list is short, and arrays take longer."""
    highest, lowest = max(0, *scores), min(scores)
    if highest == 0:
        return np.full(len(scores), 100, np.int64)
    return np.array([(highest + lowest - score) * 100 // highest for score in scores], np.int64)


# ---- Queueing hints: a pod that PodTopologySpread rejected waits until something that a hard constraint counts has
# changed.


Labels = Mapping[str, str]


FindConstraints = Callable[[Pod, Cluster], Constraints]
"""The hard constraints of a pod. Hints call it for every unschedulable pod at every event, so it has to keep its
answers."""

_PODS = ClusterEvent(ASSIGNED_POD, Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL)
_ITSELF = ClusterEvent(TARGET_POD, Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION)
_NODES = ClusterEvent(NODE, Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT)


def spread_events(find: FindConstraints) -> tuple[Registration, ...]:
    """Cluster events that PodTopologySpread registers, with their queueing hints. If the constraints of a pod cannot be
    computed, the hint returns True: the next attempt then reports the error."""

    def after_pod(pod: Pod, change: Change) -> bool:
        try:
            return skew_may_change(pod, change, find)
        except PluginError:
            return True

    def after_own_update(pod: Pod, change: Change) -> bool:
        try:
            return own_update_matters(change, find(pod, change.cluster))
        except PluginError:
            return True

    def after_node(pod: Pod, change: Change) -> bool:
        try:
            return domains_may_change(change, find(pod, change.cluster))
        except PluginError:
            return True

    return Registration(_PODS, after_pod), Registration(_ITSELF, after_own_update), Registration(_NODES, after_node)


def skew_may_change(pod: Pod, change: Change, find: FindConstraints) -> bool:
    """Whether a pod came, went or changed that a hard constraint counts.

    One that leaves can lower the skew of its domain; one that comes can raise the minimum, against which the skew is
    measured.
    """
    old, new = pods_of(change)
    if not all(_is_involved(other, pod) for other in (old, new) if other is not None):
        return False
    constraints = find(pod, change.cluster)
    if old is not None and new is not None:
        return _matches_others(old, new, constraints)
    return bool(constraints.matching((new or old or pod).label_set).any())


def domains_may_change(change: Change, constraints: Constraints) -> bool:
    """Whether a node with all topology keys came or went, moved to another domain, or has other taints.

    A domain that appears or disappears changes the minimum and the number of domains (minDomains). Taints matter for
    constraints that honour them.
    """
    old, new = nodes_of(change)
    keys = constraints.keys
    counted_before = old is not None and _has_all(keys, old.labels)
    counts_now = new is not None and _has_all(keys, new.labels)
    if old is None or new is None or counted_before != counts_now:
        return counted_before or counts_now
    return counts_now and (any(old.labels[key] != new.labels[key] for key in keys) or old.taints != new.taints)


def own_update_matters(change: Change, constraints: Constraints) -> bool:
    """Whether the waiting pod tolerates other taints, where a constraint honours them, or matches other constraints."""
    old, new = pods_of(change)
    assert old is not None and new is not None
    if constraints.honor_taints and old.shape.tolerations != new.shape.tolerations:
        return True
    return _matches_others(old, new, constraints)


def _matches_others(old: Pod, new: Pod, constraints: Constraints) -> bool:
    """Whether the labels of a pod match other constraints than before."""
    return old.label_set is not new.label_set and bool(
        (constraints.matching(old.label_set) != constraints.matching(new.label_set)).any()
    )


def _is_involved(other: Pod, pod: Pod) -> bool:
    """Whether the other pod counts for the waiting one as far as its place tells."""
    return has_place(other) and other.namespace == pod.namespace


def _has_all(keys: Iterable[str], labels: Labels) -> bool:
    return all(key in labels for key in keys)


PLUGINS = (PodTopologySpread,)
