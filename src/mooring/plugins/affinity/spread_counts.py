"""What PodTopologySpread counts: the nodes that a constraint takes in, and the pods on them by value of its label.

A pod may have thousands of constraints, each about a label of its own. So what they share (the nodes that have all the
labels, the nodes that the pod's affinity and tolerations leave) is worked out once for all of them, and labels that no
node has cost next to nothing.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mooring.cluster.nodes.kernels import Ints, Mask
from mooring.cluster.nodes.labels import ABSENT, LabelColumn
from mooring.cluster.nodes.match import match_labels, match_nodes
from mooring.cluster.pods.tallies import are_few
from mooring.cluster.pods.tally import sum_by_code
from mooring.framework.context import SchedulingContext
from mooring.framework.points import Rows
from mooring.plugins.affinity.spread_constraints import Constraints, SpreadConstraint

FEW_CONSTRAINTS = 64
"""Up to so many constraints, what they take in is kept from one attempt to the next."""


@dataclass(frozen=True, slots=True)
class Eligible:
    """The nodes whose pods a constraint counts, and the values of its label found there."""

    column: LabelColumn
    """Its codes go with `domains`: another column of the same label may have others."""
    rows: NDArray[np.intp]
    among: Mask
    """The same rows, as a mask."""
    domains: NDArray[np.intp]
    is_every_labelled: bool
    """Whether these are all the nodes that have the label at all."""


@dataclass(frozen=True, slots=True)
class Counted:
    """What the constraints of a pod take in: depends on nodes and the pod's shape only."""

    lacking: Mask
    """Rows without at least one of the labels."""
    eligible: list[Eligible]
    """One for each constraint, up to the first whose label no node has, if all labels are required: that one closes
    every node, and none is left to count on."""
    is_few: bool
    """Whether few of the constraints are about labels that nodes have, so that what they count may be kept."""


def counted_by(context: SchedulingContext, constraints: Constraints, action: str, require_all: bool) -> Counted:
    """What the constraints take in; kept for as long as no node changes, unless there are many of them.

    `require_all`: only nodes that have the labels of all the constraints count.
    """

    def find() -> Counted:
        return _find_counted(context, constraints, require_all)

    # All pods of a shape have constraints with the same keys and policies, whatever their selectors.
    # A pod on a node that nobody has seen makes the table longer, though no node changes.
    key = ("spread", action, context.nodes.height)
    return context.of_nodes(key, find) if len(constraints) <= FEW_CONSTRAINTS else find()


def _find_counted(context: SchedulingContext, constraints: Constraints, require_all: bool) -> Counted:
    nodes = context.nodes
    rows = slice(0, nodes.height)
    lacking = lacking_rows(context, constraints.keys if require_all else (), rows)
    counted = nodes.alive[rows] & ~lacking
    masks: dict[tuple[bool, bool], tuple[NDArray[np.intp], Mask]] = {}
    eligible = []
    for constraint in constraints:
        policy = (constraint.honor_affinity, constraint.honor_taints)
        if policy not in masks:
            mask = counted & _left_by(context, *policy)
            masks[policy] = (np.flatnonzero(mask), mask)
        column = nodes.labels.column(constraint.key)
        eligible.append(_eligible(column, rows, *masks[policy]))
        if require_all and column.is_nowhere:
            break
    is_few = are_few(constraint.selector for constraint in constraints if nodes.labels.has(constraint.key))
    return Counted(lacking, eligible, is_few)


def _eligible(column: LabelColumn, every: slice, rows: NDArray[np.intp], mask: Mask) -> Eligible:
    if column.is_nowhere:
        return Eligible(column, rows, mask, np.flatnonzero(len(rows)), True)
    codes = column.codes[rows]
    is_every = np.count_nonzero(codes) == np.count_nonzero(column.codes[every])
    return Eligible(column, rows, mask, np.flatnonzero(np.bincount(codes)), bool(is_every))


def _left_by(context: SchedulingContext, honor_affinity: bool, honor_taints: bool) -> Mask:
    """The rows that node affinity and tolerations leave to the pod, as far as they are honoured."""
    nodes, shape = context.nodes, context.shape
    rows = slice(0, nodes.height)
    left = np.ones(nodes.height, np.bool_)
    if honor_affinity and shape.spec.node_selector:
        left &= match_labels(nodes, shape.spec.node_selector, rows)
    if honor_affinity and shape.required_nodes is not None:
        left &= match_nodes(nodes, shape.required_nodes, rows)
    if honor_taints:
        codes = nodes.taint_set[rows]
        fine = np.zeros(len(nodes.taint_sets), np.bool_)
        for code in np.flatnonzero(np.bincount(codes)):
            fine[code] = shape.tolerance.covers_hard(nodes.taint_sets[code])
        left &= fine[codes]
    return left


def lacking_rows(context: SchedulingContext, keys: tuple[str, ...], rows: Rows) -> Mask:
    """Rows without at least one of the labels."""
    labels, size = context.nodes.labels, len(context.nodes.alive[rows])
    if not all(map(labels.has, keys)):
        return np.ones(size, np.bool_)
    lacking = np.zeros(size, np.bool_)
    for key in keys:
        lacking |= labels.column(key).codes[rows] == ABSENT
    return lacking


def count_values(context: SchedulingContext, constraint: SpreadConstraint, eligible: Eligible, is_few: bool) -> Ints:
    """The pods that count, by value of the constraint's label, on nodes that are eligible. Do not write to it."""
    column, predicate = eligible.column, constraint.predicate
    if column.is_nowhere or predicate is None or not len(eligible.rows):
        return np.zeros(column.width, np.int64)
    if is_few and eligible.is_every_labelled:
        return context.nodes.tallies.matching((predicate,), with_terminating=False).by_value(column)
    counts = count_rows(context, constraint, is_few)
    return sum_by_code(column.codes[eligible.rows], counts[eligible.rows], column.width)


def count_rows(context: SchedulingContext, constraint: SpreadConstraint, is_few: bool) -> Ints:
    """The pods that count, by row, wherever they are. Do not write to it."""
    predicate, tallies = constraint.predicate, context.nodes.tallies
    if predicate is None:
        return np.zeros(context.nodes.capacity, np.int64)
    if is_few:
        return tallies.matching((predicate,), with_terminating=False).counts
    census = tallies.census()
    return census.by_row(census.holding(predicate).astype(np.int64), with_terminating=False)
