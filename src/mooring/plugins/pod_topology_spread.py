"""PodTopologySpread: keeps the pods that a selector matches evenly spread over zones, hosts or any other label."""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.cluster import Cluster
from mooring.cluster.kernels import Ints, Mask, round_half_away
from mooring.cluster.labels import ABSENT, HOSTNAME, LabelColumn
from mooring.cluster.match import match_labels, match_nodes
from mooring.cluster.tallies import Tally, sum_by_code
from mooring.framework.config.args import PodTopologySpreadArgs
from mooring.framework.cycle import Cycle, Keepsakes
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
from mooring.framework.status import SKIP, PluginError, Rejection, Skip, curable, final
from mooring.model.affinity import PodPredicate
from mooring.model.meta import int32
from mooring.model.pod import Pod, TopologySpreadConstraint
from mooring.model.selectors import Selector, SelectorError, compile_selector
from mooring.model.shape import PodShape
from mooring.model.tolerations import tolerates_hard
from mooring.plugins.default_spread import derived_selector, selector_source_version
from mooring.plugins.pod_topology_spread_hints import spread_events

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
_LABEL_MISSING, _TOO_SKEWED = 1, 2

SYSTEM_DEFAULTS = (
    TopologySpreadConstraint(topology_key=HOSTNAME, max_skew=3, when_unsatisfiable=SOFT),
    TopologySpreadConstraint(topology_key="topology.kubernetes.io/zone", max_skew=5, when_unsatisfiable=SOFT),
)


@dataclass(frozen=True, slots=True)
class Constraint:
    """A constraint as it applies to one pod."""

    key: str
    max_skew: int
    min_domains: int
    selector: Selector
    namespace: str
    honor_affinity: bool
    honor_taints: bool

    def tally(self, cycle: Cycle) -> Tally | None:
        """Pods that count. Parity: an empty selector matches every pod but counts none."""
        if self.selector.is_empty:
            return None
        predicate = PodPredicate(self.selector, frozenset((self.namespace,)))
        return cycle.nodes.tallies.matching((predicate,), with_terminating=False)


@dataclass(frozen=True, slots=True)
class Eligible:
    """The nodes whose pods a constraint counts, and the values of its label found there."""

    rows: NDArray[np.intp]
    domains: NDArray[np.intp]
    is_every_labelled: bool
    """Whether these are all the nodes that have the label at all."""


Keep = Callable[[Hashable, Callable[[], list[Constraint]]], list[Constraint]]
"""Gives what is kept for the pod's shape under a key, and builds it when there is nothing yet."""


class SkewCheck:
    """One hard constraint in an attempt: the pods that count, by value of its label."""

    def __init__(
        self, constraint: Constraint, column: LabelColumn, counts: Ints, eligible: Eligible, itself: int
    ) -> None:
        self.constraint = constraint
        self.column = column
        self.counts = counts
        self.eligible = eligible
        self.itself = itself

    def codes(self) -> Codes:
        """For each value of the label the code of the verdict, so that one look-up answers for a row."""
        domains, lowest = self.eligible.domains, 0
        if len(domains) >= self.constraint.min_domains:
            lowest = int(self.counts[domains].min())
        too_skewed = self.counts + (self.itself - lowest) > self.constraint.max_skew
        codes = too_skewed * np.int64(_TOO_SKEWED)
        codes[ABSENT] = _LABEL_MISSING
        return codes


class SkewChecks(list[SkewCheck]):
    """The state of an attempt; a what-if changes a clone of it."""

    def clone(self) -> "SkewChecks":
        return SkewChecks(
            SkewCheck(check.constraint, check.column, check.counts.copy(), check.eligible, check.itself)
            for check in self
        )


class PodTopologySpread(PreFilterExtensions, FilterPlugin, PreScorePlugin, ScorePlugin):
    name = "PodTopologySpread"

    def __init__(self, args: Any, handle: Handle) -> None:
        del handle
        args = args if isinstance(args, PodTopologySpreadArgs) else PodTopologySpreadArgs()
        self._by_list = args.defaulting_type == "List"
        self._defaults = tuple(args.default_constraints or ()) if self._by_list else SYSTEM_DEFAULTS
        self._parked: WeakKeyDictionary[PodShape, Keepsakes] = WeakKeyDictionary()
        """For hints: the constraints of the shapes that they were asked about."""

    def events(self) -> Sequence[Registration]:
        return spread_events(self._hard_constraints)

    # ---- Filter

    def pre_filter(self, cycle: Cycle) -> Skip | None:
        constraints = self._constraints(cycle, HARD)
        if not constraints:
            return SKIP
        keys = tuple(constraint.key for constraint in constraints)
        checks = SkewChecks(_check(cycle, constraint, keys) for constraint in constraints)
        cycle.state.write((self.name, "checks"), checks)
        return None

    def add_pod(self, cycle: Cycle, pod: Pod, row: int) -> None:
        self._change(cycle, pod, row, 1)

    def remove_pod(self, cycle: Cycle, pod: Pod, row: int) -> None:
        self._change(cycle, pod, row, -1)

    def filter(self, cycle: Cycle, rows: Rows) -> Codes | None:
        verdict: Codes | None = None
        for check in cycle.state.read((self.name, "checks")):
            codes: Codes = check.codes()[check.column.codes[rows]]
            verdict = codes if verdict is None else np.where(verdict == 0, codes, verdict)
        return verdict

    def _change(self, cycle: Cycle, pod: Pod, row: int, change: int) -> None:
        """Parity: unlike the first count, this one takes pods that are being deleted, and empty selectors, in."""
        checks: SkewChecks = cycle.state.read((self.name, "checks"))
        if pod.namespace != cycle.pod.namespace or any(check.column.codes[row] == ABSENT for check in checks):
            return
        for check in checks:
            if check.constraint.selector.matches(pod.labels) and row in check.eligible.rows:
                check.counts[check.column.codes[row]] += change

    def rejection(self, cycle: Cycle, code: int) -> Rejection:
        if code == _LABEL_MISSING:
            return final("node(s) didn't match pod topology spread constraints (missing required label)")
        return curable("node(s) didn't match pod topology spread constraints")

    # ---- Score

    def pre_score(self, cycle: Cycle, rows: Rows) -> Skip | None:
        constraints = self._constraints(cycle, SOFT)
        if not constraints:
            return SKIP
        require_all = self._by_list or bool(cycle.shape.spec.topology_spread_constraints)
        keys = tuple(constraint.key for constraint in constraints)
        ignored = _lacking(cycle, keys, rows) if require_all else None
        parts = []
        for constraint in constraints:
            column = cycle.nodes.labels.column(constraint.key)
            size = _domain_count(column, rows, ignored)
            weight = math.log(size + 2)
            tally = constraint.tally(cycle)
            sums = _counts(cycle, constraint, keys if require_all else (), tally)
            by_value = sums * weight + (constraint.max_skew - 1)
            by_value[ABSENT] = 0.0
            parts.append((column, by_value, tally, weight, constraint.max_skew))
        cycle.state.write((self.name, "soft"), parts)
        cycle.state.write((self.name, "ignored"), ignored)
        return None

    def score(self, cycle: Cycle, rows: Rows) -> Scores | None:
        total = np.zeros(len(cycle.nodes.alive[rows]))
        for column, by_value, tally, weight, max_skew in cycle.state.read((self.name, "soft")):
            codes = column.codes[rows]
            if column.key == HOSTNAME:
                counts = 0 if tally is None else tally.counts[rows]
                total += (counts * weight + (max_skew - 1)) * (codes != ABSENT)
            else:
                total += by_value[codes]
        return round_half_away(total)

    def normalize(self, cycle: Cycle, scores: Scores, rows: Rows) -> Scores:
        """The fewer pods the better; nodes without all labels get 0."""
        ignored: Mask | None = cycle.state.read((self.name, "ignored"))
        counted = scores if ignored is None or not ignored.any() else scores[~ignored]
        if not len(counted):
            return np.zeros(len(scores), np.int64)
        highest, lowest = max(int(counted.max()), 0), int(counted.min())
        result = np.full(len(scores), 100, np.int64) if highest == 0 else (highest + lowest - scores) * 100 // highest
        if ignored is not None:
            result[ignored] = 0
        return result

    # ---- which constraints

    def _constraints(self, cycle: Cycle, action: str) -> list[Constraint]:
        return self._find_constraints(cycle.pod, cycle.cluster, action, cycle.of_shape)

    def _hard_constraints(self, pod: Pod, cluster: Cluster) -> list[Constraint]:
        """The hard constraints of a pod that no attempt is made for."""
        kept = self._parked.get(pod.shape)
        if kept is None:
            kept = self._parked[pod.shape] = Keepsakes()
        return self._find_constraints(pod, cluster, HARD, lambda key, build: kept.get(key, 0, build))

    def _find_constraints(self, pod: Pod, cluster: Cluster, action: str, keep: Keep) -> list[Constraint]:
        """The hard or soft constraints of the pod, or else the profile's default ones if a selector can be derived."""
        own = pod.shape.spec.topology_spread_constraints
        if own:
            # Of the labels only those count that matchLabelKeys names: pods of a StatefulSet share no others.
            named = tuple(pod.labels.get(key) for constraint in own for key in constraint.match_label_keys or ())
            return keep((self.name, action, pod.namespace, named), lambda: _own_constraints(pod, action))
        if not any(constraint.when_unsatisfiable == action for constraint in self._defaults):
            return []
        owner = pod.controller()
        source = (owner.api_version, owner.kind, owner.name) if owner else None
        key = (self.name, action, pod.kin, source, selector_source_version(cluster))
        return keep(key, lambda: self._default_constraints(pod, cluster, action))

    def _default_constraints(self, pod: Pod, cluster: Cluster, action: str) -> list[Constraint]:
        try:
            selector = derived_selector(cluster, pod)
        except SelectorError as fault:
            raise PluginError(str(fault)) from None
        if selector.is_empty:
            return []
        return [
            _apply(constraint, selector, pod.namespace)
            for constraint in self._defaults
            if constraint.when_unsatisfiable == action
        ]


def _own_constraints(pod: Pod, action: str) -> list[Constraint]:
    found = []
    for constraint in pod.shape.spec.topology_spread_constraints or ():
        if constraint.when_unsatisfiable == action:
            try:
                selector = compile_selector(constraint.label_selector)
            except SelectorError as fault:
                raise PluginError(str(fault)) from None
            same = {key: pod.labels[key] for key in constraint.match_label_keys or () if key in pod.labels}
            found.append(_apply(constraint, selector.with_equal(same), pod.namespace))
    return found


def _apply(constraint: TopologySpreadConstraint, selector: Selector, namespace: str) -> Constraint:
    return Constraint(
        constraint.topology_key,
        int32(constraint.max_skew),
        int32(constraint.min_domains or 1),
        selector,
        namespace,
        honor_affinity=constraint.node_affinity_policy != "Ignore",
        honor_taints=constraint.node_taints_policy == "Honor",
    )


def _check(cycle: Cycle, constraint: Constraint, keys: tuple[str, ...]) -> SkewCheck:
    return SkewCheck(
        constraint,
        cycle.nodes.labels.column(constraint.key),
        _counts(cycle, constraint, keys, constraint.tally(cycle)),
        _eligible(cycle, constraint, keys),
        itself=int(constraint.selector.matches(cycle.pod.labels)),
    )


def _counts(cycle: Cycle, constraint: Constraint, keys: tuple[str, ...], tally: Tally | None) -> Ints:
    """Pods that count, by value of the constraint's label, on nodes that are eligible."""
    column = cycle.nodes.labels.column(constraint.key)
    if tally is None:
        return np.zeros(column.width, np.int64)
    eligible = _eligible(cycle, constraint, keys)
    if eligible.is_every_labelled:
        return tally.by_value(column)
    return sum_by_code(column.codes[eligible.rows], tally.counts[eligible.rows], column.width)


def _eligible(cycle: Cycle, constraint: Constraint, keys: tuple[str, ...]) -> Eligible:
    """Depends on nodes and the pod's shape only, so it is worked out once for as long as no node changes."""
    key = ("spread", constraint.key, constraint.honor_affinity, constraint.honor_taints, keys)
    return cycle.of_nodes(key, lambda: _find_eligible(cycle, constraint, keys))


def _find_eligible(cycle: Cycle, constraint: Constraint, keys: tuple[str, ...]) -> Eligible:
    nodes, shape = cycle.nodes, cycle.shape
    rows = slice(0, nodes.height)
    column = nodes.labels.column(constraint.key)
    counted = nodes.alive[rows] & ~_lacking(cycle, keys, rows)
    if constraint.honor_affinity and shape.spec.node_selector:
        counted &= match_labels(nodes, shape.spec.node_selector, rows)
    if constraint.honor_affinity and shape.required_nodes is not None:
        counted &= match_nodes(nodes, shape.required_nodes, rows)
    if constraint.honor_taints:
        fine = np.array([tolerates_hard(shape.tolerations, taints) for taints in nodes.taint_sets], np.bool_)
        counted &= fine[nodes.taint_set[rows]]
    found = np.flatnonzero(counted)
    codes = column.codes[found]
    labelled = np.count_nonzero(codes) == np.count_nonzero(column.codes[rows])
    return Eligible(found, np.flatnonzero(np.bincount(codes)), bool(labelled))


def _lacking(cycle: Cycle, keys: tuple[str, ...], rows: Rows) -> Mask:
    """Rows without at least one of the labels."""
    lacking = np.zeros(len(cycle.nodes.alive[rows]), np.bool_)
    for key in keys:
        lacking |= cycle.nodes.labels.column(key).codes[rows] == ABSENT
    return lacking


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
