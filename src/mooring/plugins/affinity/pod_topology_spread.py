"""PodTopologySpread: keeps the pods that a selector matches evenly spread over zones, hosts or any other label."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.cluster import Cluster
from mooring.cluster.nodes.kernels import Mask, round_half_away
from mooring.cluster.nodes.labels import ABSENT, HOSTNAME, LabelColumn
from mooring.framework.config.args import PodTopologySpreadArgs
from mooring.framework.context import KeptValues, SchedulingContext
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
from mooring.framework.status import SKIP, SKIP_SHAPE, Rejection, Skip, curable, final
from mooring.model.pod import Pod
from mooring.model.shape import PodShape
from mooring.plugins.affinity.default_spread import selector_source_version
from mooring.plugins.affinity.pod_topology_spread_hints import spread_events
from mooring.plugins.affinity.spread_constraints import (
    HARD,
    SOFT,
    SYSTEM_DEFAULTS,
    Constraints,
    default_constraints,
    own_constraints,
)
from mooring.plugins.affinity.spread_counts import Counted, count_rows, count_values, counted_by
from mooring.plugins.affinity.spread_skew import LABEL_MISSING, SkewChecks

Reals = NDArray[np.floating[Any]]

_NO_VALUES: Reals = np.zeros(0)

Keep = Callable[[Hashable, Callable[[], Constraints]], Constraints]
"""Gives what is kept for the pod's shape under a key, and builds it when there is nothing yet."""


class PodTopologySpread(PreFilterExtensions, FilterPlugin, PreScorePlugin, ScorePlugin):
    name = "PodTopologySpread"

    def __init__(self, args: Any, handle: Handle) -> None:
        del handle
        args = args if isinstance(args, PodTopologySpreadArgs) else PodTopologySpreadArgs()
        self._by_list = args.defaulting_type == "List"
        self._defaults = tuple(args.default_constraints or ()) if self._by_list else SYSTEM_DEFAULTS
        self._has_hard_defaults = any(constraint.when_unsatisfiable == HARD for constraint in self._defaults)
        self._unschedulable: WeakKeyDictionary[PodShape, KeptValues] = WeakKeyDictionary()
        """For hints: the constraints of the shapes that they were asked about."""

    def events(self) -> Sequence[Registration]:
        return spread_events(self._hard_constraints)

    # ---- Filter

    def pre_filter(self, context: SchedulingContext) -> Skip | None:
        if not context.shape.spec.topology_spread_constraints and not self._has_hard_defaults:
            return SKIP_SHAPE
        constraints = self._constraints(context, HARD)
        if not constraints:
            return SKIP
        counted = counted_by(context, constraints, HARD, require_all=True)
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

    # ---- Score

    def pre_score(self, context: SchedulingContext, rows: Rows) -> Skip | None:
        constraints = self._constraints(context, SOFT)
        if not constraints:
            return SKIP
        require_all = self._by_list or bool(context.shape.spec.topology_spread_constraints)
        counted = counted_by(context, constraints, SOFT, require_all)
        ignored = counted.lacking[rows] if require_all else None
        parts = (
            [] if ignored is not None and ignored.all() else _soft_parts(context, constraints, counted, rows, ignored)
        )
        context.state.write((self.name, "soft"), parts)
        context.state.write((self.name, "ignored"), ignored)
        return None

    def score(self, context: SchedulingContext, rows: Rows) -> Scores | None:
        total = np.zeros(len(context.nodes.alive[rows]))
        for part in context.state.read((self.name, "soft")):
            total += part.score(rows)
        return round_half_away(total)

    def normalize(self, context: SchedulingContext, scores: Scores, rows: Rows) -> Scores:
        """The fewer pods the better; nodes without all labels get 0."""
        ignored: Mask | None = context.state.read((self.name, "ignored"))
        counted = scores if ignored is None or not ignored.any() else scores[~ignored]
        if not len(counted):
            return np.zeros(len(scores), np.int64)
        highest, lowest = max(int(counted.max()), 0), int(counted.min())
        result = np.full(len(scores), 100, np.int64) if highest == 0 else (highest + lowest - scores) * 100 // highest
        if ignored is not None:
            result[ignored] = 0
        return result

    # ---- which constraints

    def _constraints(self, context: SchedulingContext, action: str) -> Constraints:
        return self._find_constraints(context.pod, context.cluster, action, context.of_shape)

    def _hard_constraints(self, pod: Pod, cluster: Cluster) -> Constraints:
        """The hard constraints of a pod that no attempt is made for."""
        kept = self._unschedulable.get(pod.shape)
        if kept is None:
            kept = self._unschedulable[pod.shape] = KeptValues()
        return self._find_constraints(pod, cluster, HARD, lambda key, build: kept.get(key, 0, build))

    def _find_constraints(self, pod: Pod, cluster: Cluster, action: str, keep: Keep) -> Constraints:
        """The hard or soft constraints of the pod, or else the profile's default ones if a selector can be derived."""
        own = pod.shape.spec.topology_spread_constraints
        if own:
            # Of the labels only those count that matchLabelKeys names: pods of a StatefulSet share no others.
            named = tuple(map(pod.labels.get, pod.shape.spread_label_keys))
            return keep((self.name, action, pod.namespace, named), lambda: own_constraints(pod, action))
        if not any(constraint.when_unsatisfiable == action for constraint in self._defaults):
            return Constraints()
        owner = pod.controller()
        source = (owner.api_version, owner.kind, owner.name) if owner else None
        key = (self.name, action, pod.label_set, source, selector_source_version(cluster))
        return keep(key, lambda: default_constraints(pod, cluster, action, self._defaults))


@dataclass(slots=True)
class SoftPart:
    """What one soft constraint adds to the scores: by value of its label, or row by row where that is the host name."""

    column: LabelColumn
    by_value: Reals
    by_row: Reals | None

    def score(self, rows: Rows) -> Reals:
        codes = self.column.codes[rows]
        scores: Reals = self.by_value[codes] if self.by_row is None else self.by_row[rows] * (codes != ABSENT)
        return scores


def _soft_parts(
    context: SchedulingContext, constraints: Constraints, counted: Counted, rows: Rows, ignored: Mask | None
) -> list[SoftPart]:
    parts = []
    for constraint, eligible in zip(constraints, counted.eligible, strict=True):
        column, base = eligible.column, constraint.max_skew - 1
        weight = math.log(_domain_count(column, rows, ignored) + 2)
        if constraint.key == HOSTNAME:
            parts.append(SoftPart(column, _NO_VALUES, count_rows(context, constraint, counted.is_few) * weight + base))
            continue
        by_value = count_values(context, constraint, eligible, counted.is_few) * weight + base
        by_value[ABSENT] = 0.0
        parts.append(SoftPart(column, by_value, None))
    return parts


def _domain_count(column: LabelColumn, rows: Rows, ignored: Mask | None) -> int:
    """How many values of the label there are among the feasible nodes; for host names, how many nodes.

    Parity: a node without the label counts as having the empty value.
    """
    codes = column.codes[rows]
    if ignored is not None and ignored.any():
        codes = codes[~ignored]
    if column.key == HOSTNAME:
        return len(codes)
    present = np.bincount(codes, minlength=column.width)
    count = int(np.count_nonzero(present))
    empty = column.value_book.get("")
    return count - 1 if empty is not None and present[ABSENT] and present[empty] else count
