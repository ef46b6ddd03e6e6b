"""Counts of PodTopologySpread: the nodes that a constraint includes, the pods on these nodes by value of the topology label,
and the skew.

Placing the pod in a domain is allowed if

  pods in the domain + 1 if the selector matches the pod itself - minimum over the eligible domains <= maxSkew

which is upstream's criterion word for word. The check is exact on columns because everything in it depends on the value
of the label alone: one array over the values answers for all nodes.

A pod may have thousands of constraints, each about a label of its own. So what they share (the nodes that have all the
labels, the nodes that the pod's affinity and tolerations leave) is worked out once for all of them, and labels that no
node has cost next to nothing.
"""

from collections.abc import Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.kernels import Integers, Ints, Mask
from mooring.cluster.columns.labels import ABSENT, LabelColumn
from mooring.cluster.nodes.match import match_labels, match_nodes
from mooring.cluster.tallies.tallies import PodTallies, are_few
from mooring.cluster.tallies.tally import sum_by_code
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import Codes, Rows
from mooring.model.pod import Pod
from mooring.model.shape import PodPart
from mooring.plugins.affinity.spread_constraints import Constraints, SpreadConstraint

FEW_CONSTRAINTS = 64
"""Up to so many constraints, what they take in is kept from one attempt to the next: it is a few arrays for each
constraint and shape. Real pods have two or three; with more, the memory would grow with one object."""


class Eligible(msgspec.Struct, frozen=True):
    """The nodes whose pods a constraint counts, and the values of its label found there.

    Upstream's domains are the values found on eligible nodes: a zone all of whose nodes are excluded does not pull the
    minimum down to 0.
    """

    column: LabelColumn
    """Column of the label. Its codes belong to `domains`: another column of the same label may have other codes."""
    rows: NDArray[np.intp]
    among: Mask
    """The rows that count, as a mask."""
    domains: NDArray[np.intp]
    is_every_labelled: bool
    """Whether these are all the nodes that have the label at all. Then the tally's sums by value can be used as they
    are."""


class Counted(msgspec.Struct, frozen=True):
    """Nodes that the constraints of a pod include. The result depends only on the nodes and on the shape of the pod."""

    lacking: Mask
    """Rows without at least one of the labels."""
    is_any_lacking: bool
    eligible: list[Eligible]
    """One for each constraint, up to the first whose label no node has, if all labels are required: that one closes
    every node, and none is left to count on."""
    is_few: bool
    """Whether few of the constraints are about labels that nodes have, so that what they count may be kept."""


def counted_by(
    context: SchedulingContext, constraints: Constraints, action: str, require_all: bool, compares: bool
) -> Counted:
    """Find the nodes that the constraints include. The result is kept until a node changes, unless the pod has more than
    FEW_CONSTRAINTS constraints.

    `require_all`: only nodes that have the labels of all the constraints count. `compares`: tolerations may compare
    numbers.
    """

    def find() -> Counted:
        return _find_counted(context, constraints, require_all, compares)

    # All pods with the same spread constraints have the same keys and policies, whatever their selectors, so the action is
    # key enough beside the parts of the shape that policies honour. The height is part of it because a pod on a node that
    # was never seen makes the table longer, though no node changes.
    honoured = context.shape.part(PodPart.NODE_SELECTION), context.shape.part(PodPart.TOLERATIONS)
    key = ("spread", action, context.nodes.height, *honoured)
    return context.of_nodes(key, find, PodPart.SPREAD) if len(constraints) <= FEW_CONSTRAINTS else find()


def _find_counted(context: SchedulingContext, constraints: Constraints, require_all: bool, compares: bool) -> Counted:
    """Find the nodes that the constraints include. The part that does not depend on selectors is kept once for all pods with
    the same node selection: thousands of templates may differ only in selectors, and this part takes 90 KiB for 5,000
    nodes."""

    def find() -> _Reach:
        return find_reach(context, constraints, require_all, compares)

    asked = tuple((constraint.key, constraint.honor_affinity, constraint.honor_taints) for constraint in constraints)
    tolerations = context.shape.part(PodPart.TOLERATIONS)
    key = ("spread reach", context.nodes.height, require_all, compares, tolerations, asked)
    is_kept = len(constraints) <= FEW_CONSTRAINTS
    reach = context.of_nodes(key, find, PodPart.NODE_SELECTION) if is_kept else find()
    labels = context.nodes.labels
    return Counted(*reach, are_few(each.selector for each in constraints if labels.has(each.key)))


_Reach = tuple[Mask, bool, list[Eligible]]
"""`lacking`, `is_any_lacking` and `eligible` of Counted."""


def find_reach(context: SchedulingContext, constraints: Constraints, require_all: bool, compares: bool) -> _Reach:
    """Go through the constraints once; nodes are masked once for each of the four combinations of policies."""
    nodes = context.nodes
    rows = slice(0, nodes.height)
    lacking = lacking_rows(context, constraints.keys if require_all else (), rows)
    counted = nodes.alive[rows] & ~lacking
    masks: dict[tuple[bool, bool], tuple[NDArray[np.intp], Mask]] = {}
    eligible = []
    for constraint in constraints:
        policy = (constraint.honor_affinity, constraint.honor_taints)
        if policy not in masks:
            mask = counted & _left_by(context, *policy, compares)
            masks[policy] = (np.flatnonzero(mask), mask)
        column = nodes.labels.column(constraint.key)
        eligible.append(_eligible(column, rows, *masks[policy]))
        if require_all and column.is_nowhere:
            break
    return lacking, bool((lacking & nodes.alive[rows]).any()), eligible


def _eligible(column: LabelColumn, every: slice, rows: NDArray[np.intp], mask: Mask) -> Eligible:
    """The rows and values for one constraint. `every` is the slice of all rows in use."""
    if column.is_nowhere:
        return Eligible(column, rows, mask, np.flatnonzero(len(rows)), True)
    codes = column.codes[rows]
    is_every = np.count_nonzero(codes) == np.count_nonzero(column.codes[every])
    return Eligible(column, rows, mask, np.flatnonzero(np.bincount(codes)), bool(is_every))


def _left_by(context: SchedulingContext, honor_affinity: bool, honor_taints: bool, compares: bool) -> Mask:
    """The rows that node affinity and tolerations leave to the pod, as far as they are honoured. Taint sets are
    interned, so each distinct set is tried once."""
    nodes, shape = context.nodes, context.shape
    rows = slice(0, nodes.height)
    left = np.ones(nodes.height, np.bool_)
    if honor_affinity and shape.spec.node_selector:
        left &= match_labels(nodes, shape.spec.node_selector, rows)
    if honor_affinity and shape.required_nodes is not None:
        left &= match_nodes(nodes, shape.required_nodes, rows)
    if honor_taints:
        codes = nodes.taints.codes[rows]
        fine = np.zeros(len(nodes.taints.values), np.bool_)
        for code in np.flatnonzero(np.bincount(codes)):
            fine[code] = shape.tolerance.covers_hard(nodes.taints.values[code], compares)
        left &= fine[codes]
    return left


def lacking_rows(context: SchedulingContext, keys: tuple[str, ...], rows: Rows) -> Mask:
    """Rows without at least one of the labels: hard constraints reject them, soft ones give them 0. A label that no
    node has closes all rows without making a column for it."""
    labels, size = context.nodes.labels, len(context.nodes.alive[rows])
    if not all(map(labels.has, keys)):
        return np.ones(size, np.bool_)
    lacking = np.zeros(size, np.bool_)
    for key in keys:
        lacking |= labels.column(key).codes[rows] == ABSENT
    return lacking


def count_values(
    context: SchedulingContext, constraint: SpreadConstraint, eligible: Eligible, is_few: bool
) -> Integers:
    """The pods that count, by value of the constraint's label, on nodes that are eligible. Do not write to it: it may
    be the tally's own array.

    Terminating pods do not count (`with_terminating`), as upstream: they leave soon, and counting them would delay
    their replacements.
    """
    column, predicate = eligible.column, constraint.predicate
    if column.is_nowhere or predicate is None or not len(eligible.rows):
        return np.zeros(column.width, np.int64)
    if is_few and eligible.is_every_labelled:
        return context.nodes.tallies.matching((predicate,), with_terminating=False).by_value(column)
    counts = count_rows(context, constraint, is_few)
    return sum_by_code(column.codes[eligible.rows], counts[eligible.rows], column.width)


def count_rows(context: SchedulingContext, constraint: SpreadConstraint, is_few: bool) -> Integers:
    """The pods that count, by row, wherever they are."""
    predicate, tallies = constraint.predicate, context.nodes.tallies
    if predicate is None:
        return np.zeros(context.nodes.capacity, np.int64)
    if is_few:
        return tallies.matching((predicate,), with_terminating=False).counts.astype(np.int32)
    census = tallies.census()
    return census.by_row(census.holding(predicate).astype(np.int64), with_terminating=False)


# ---- The skew check: which nodes the hard constraints of a pod close, also with other pods on a node.


# Codes of the filter. A missing label is final: no eviction adds it. Skew is curable.
LABEL_MISSING, TOO_SKEWED = 1, 2


_BEYOND = 1 << 62
"""More pods than any domain has."""


class SkewCheck(msgspec.Struct):
    """One hard constraint: the pods that count, by value of its label."""

    constraint: SpreadConstraint
    counts: Integers
    eligible: Eligible
    itself: int
    """1 if the selector matches the pod itself, which then adds to the skew; 0 otherwise."""

    @property
    def column(self) -> LabelColumn:
        return self.eligible.column

    def closed_by(self, more: Ints) -> Mask:
        """The rows whose domain would have too many pods if so many `more` came to the row alone. `more` is by row, and 0
        outside of eligible rows.

        The minimum over domains is that of the others, or of the domain of the row, whichever is lower. So rows that are
        closed without these pods stay closed.
        """
        codes, counts = self.column.codes[: len(more)], self.counts.astype(np.int64)
        after, domains = counts[codes] + more, self.eligible.domains
        lowest: Ints | int = 0
        if len(domains) >= self.constraint.min_domains and len(domains):
            place = int(counts[domains].argmin())
            others = np.delete(counts[domains], place)
            second = int(others.min()) if len(others) else _BEYOND
            lowest = np.minimum(np.where(codes == domains[place], second, int(counts[domains[place]])), after)
        closed: Mask = (more > 0) & (after + self.itself - lowest > self.constraint.max_skew)
        return closed

    def codes(self, shifts: dict[int, int] | None) -> Codes:
        """For each value of the label the code of the verdict, so that one look-up answers for a row. `shifts` changes
        counts."""
        counts = self.counts
        if shifts:
            counts = counts.copy()
            for code, change in shifts.items():
                counts[code] += change
        # Too few domains: the minimum stays 0, so each domain takes at most maxSkew pods until minDomains exist.
        domains, lowest = self.eligible.domains, 0
        if len(domains) >= self.constraint.min_domains:
            lowest = int(counts[domains].min())
        too_skewed = counts + (self.itself - lowest) > self.constraint.max_skew
        codes = too_skewed * np.int8(TOO_SKEWED)
        codes[ABSENT] = LABEL_MISSING
        return codes


class SkewChecks:
    """The state of an attempt. A what-if changes a clone of it, which shares everything but the changes."""

    def __init__(self, context: SchedulingContext, constraints: Constraints, counted: Counted) -> None:
        self._constraints = constraints
        self._lacking = counted.lacking
        self._is_labelled = not counted.is_any_lacking
        itself = constraints.matching(context.pod.label_set).tolist()
        self._checks = [
            SkewCheck(constraint, count_values(context, constraint, eligible, counted.is_few), eligible, int(is_meant))
            for constraint, eligible, is_meant in zip(constraints, counted.eligible, itself, strict=False)
        ]
        self._shifts: dict[int, dict[int, int]] = {}
        """By place of the constraint and code of the value: how many pods more, or fewer, count than in the cluster."""
        self._everywhere: list[Codes | None] = []
        """The verdicts for all rows without any change, once worked out; shared by all clones."""

    @property
    def checks(self) -> Sequence[SkewCheck]:
        """One for each constraint, with what is counted in the cluster as it is."""
        return self._checks

    def clone(self) -> "SkewChecks":
        """Copies the shifts alone. Preemption clones once for each candidate node, so counts must not be copied."""
        other: SkewChecks = object.__new__(SkewChecks)
        other.__dict__.update(self.__dict__)
        other._shifts = {place: dict(shifts) for place, shifts in self._shifts.items()}
        return other

    def verdicts(self, rows: Rows) -> Codes | None:
        """The code of the first constraint that a node fails; 0 where there is none. None: no node fails any."""
        if self._shifts or len(self._checks) <= FEW_CONSTRAINTS:
            return self._ask(rows)
        # What-ifs about nodes that lack a label change nothing, however many there are: for these, once is enough.
        if not self._everywhere:
            self._everywhere.append(self._ask(slice(0, len(self._lacking))))
        everywhere = self._everywhere[0]
        return None if everywhere is None else everywhere[rows]

    def change(self, context: SchedulingContext, pod: Pod, row: int, change: int) -> None:
        """Count a pod that comes to a node (+1) or leaves it (-1).

        Parity: unlike the first count, this one counts pods that are being deleted, and pods for empty selectors, as
        upstream's updateWithPod does.
        """
        if pod.namespace != context.pod.namespace or self._lacking[row]:
            return
        for place in np.flatnonzero(self._constraints.matching(pod.label_set)).tolist():
            check = self._checks[place]
            if check.eligible.among[row]:
                shifts = self._shifts.setdefault(place, {})
                code = int(check.column.codes[row])
                shifts[code] = shifts.get(code, 0) + change

    def codes_beside(self, height: int, tallies: PodTallies) -> Ints | None:
        """The rows that pods there close, each alone; None: constraints that tallies do not count as `change` does."""
        if self._shifts or not are_few(constraint.selector for constraint in self._constraints):
            return None
        closed = np.zeros(height, np.bool_)
        for check in self._checks:
            if check.constraint.predicate is None:
                return None
            counts = tallies.matching((check.constraint.predicate,), with_terminating=True).counts[:height]
            counting = check.eligible.among[:height] & ~self._lacking[:height]
            if (counting & (counts > 0)).any():
                closed |= check.closed_by(np.where(counting, counts, 0).astype(np.int64))
        return closed * np.int64(TOO_SKEWED)

    def counted_rows(self, height: int, tallies: PodTallies) -> Mask | None:
        """The rows with pods that `change` may count; None: constraints that tallies do not count as `change` does."""
        if not are_few(constraint.selector for constraint in self._constraints):
            return None
        counted = np.zeros(height, np.bool_)
        for constraint in self._constraints:
            if constraint.predicate is None:
                return None
            counted |= tallies.matching((constraint.predicate,), with_terminating=True).counts[:height] > 0
        return counted

    def _ask(self, rows: Rows) -> Codes | None:
        """Go through the constraints in their order; a row keeps the code of the first that rejects it.

        Hot: where all nodes have the label and no domain is closed, which is the rule, no node is looked at.
        """
        verdict: Codes | None = None
        for place, check in enumerate(self._checks):
            by_value = check.codes(self._shifts.get(place))
            if self._is_labelled and not np.count_nonzero(by_value[ABSENT + 1 :]):
                continue
            codes: Codes = by_value.take(check.column.codes[rows])
            verdict = codes if verdict is None else np.where(verdict == 0, codes, verdict)
        return verdict
