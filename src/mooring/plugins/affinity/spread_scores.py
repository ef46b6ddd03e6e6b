"""Soft constraints of PodTopologySpread: what each of them adds to the score of a node.

For each constraint it is count * log(domains + 2) + (maxSkew - 1), as upstream's scoreForCount. The logarithm (upstream's
topologyNormalizingWeight) makes up for labels with many values having few pods in each, so that hosts and zones weigh alike.
`maxSkew - 1` makes a larger tolerated skew matter less.
"""

import math
from collections.abc import Callable
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.columns.kernels import Ints, Mask, round_half_away
from mooring.cluster.columns.labels import ABSENT, LabelColumn
from mooring.cluster.tallies.tally import Tally
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import Rows, Scores
from mooring.framework.kept.score_by_group import PresentGroups, RowGroups
from mooring.model.names import HOSTNAME
from mooring.model.shape import PodPart
from mooring.plugins.affinity.spread_constraints import Constraints
from mooring.plugins.affinity.spread_counts import Counted, count_rows, count_values

Reals = NDArray[np.floating[Any]]

_NO_VALUES: Reals = np.zeros(0)


class SoftPart(msgspec.Struct):
    """Contribution of one soft constraint to the scores. It is one number for each value of the label of the constraint; for
    the host name label it is one number for each row, because each host is its own domain and nothing has to be summed."""

    column: LabelColumn
    by_value: Reals
    by_row: Reals | None

    def rounded(self) -> Ints:
        """Rounded contribution for each value of the label. It is the whole score if this constraint is the only one."""
        return round_half_away(self.by_value.astype(np.float64))

    def score(self, rows: Rows) -> Reals:
        """The part of each row, before rounding. A node without the label gets nothing from this constraint."""
        codes = codes_of(self.column, rows)
        scores: Reals = self.by_value[codes] if self.by_row is None else self.by_row[rows] * (codes != ABSENT)
        return scores


class SoftScores:
    """The soft constraints of a pod in one attempt. What they add is worked out when it is asked for: for the feasible rows,
    or for groups of them."""

    def __init__(self, constraints: Constraints, counted: Counted, rows: Rows, ignored: Mask | None) -> None:
        """`rows` are the feasible rows, and `ignored` those of them that lack a label."""
        self.constraints, self.ignored = constraints, ignored
        self._counted, self._rows = counted, rows
        self._parts: list[SoftPart] | None = None

    def parts(self, context: SchedulingContext) -> list[SoftPart]:
        """The scores of the feasible rows, constraint by constraint; none if all of these rows are ignored."""
        if self._parts is None:
            is_for_none = self.ignored is not None and bool(self.ignored.all())
            self._parts = [] if is_for_none else self._work_out(context)
        return self._parts

    def _work_out(self, context: SchedulingContext) -> list[SoftPart]:
        parts = []
        for constraint, eligible in zip(self.constraints, self._counted.eligible, strict=True):
            column, base = eligible.column, constraint.max_skew - 1
            weight = math.log(_domain_count(context, column, self._rows, self.ignored) + 2)
            if constraint.key == HOSTNAME:
                counts = count_rows(context, constraint, self._counted.is_few)
                parts.append(SoftPart(column, _NO_VALUES, counts * weight + base))
            else:
                by_value = count_values(context, constraint, eligible, self._counted.is_few) * weight + base
                by_value[ABSENT] = 0.0
                parts.append(SoftPart(column, by_value, None))
        return parts

    # ---- by groups: nodes with the same value of a label, and the same number of matching pods

    def groups(self, context: SchedulingContext) -> RowGroups | None:
        """The groups in which rows have the same score, if one constraint is about a label with few values, and the other, if
        there is one, about host names, which all nodes have."""
        keys, eligible, height = self.constraints.keys, self._counted.eligible, context.nodes.height
        others = [place for place, key in enumerate(keys) if key != HOSTNAME]
        if self.ignored is not None or not self._counted.is_few or len(others) != 1 or len(keys) > 2:
            return None
        column = eligible[others[0]].column
        if column.is_nowhere or column.places(height).narrow is None:
            return None
        if len(keys) == 1:
            return RowGroups(column, None)
        hosts, predicate = eligible[1 - others[0]].column, self.constraints[1 - others[0]].predicate
        key = ("hosts are named", height)
        if predicate is None or not context.of_nodes(key, lambda: _are_labelled(context, hosts), PodPart.SPREAD):
            return None
        tally = context.nodes.tallies.matching((predicate,), with_terminating=False)
        return RowGroups(column, tally) if isinstance(tally, Tally) else None

    def score_groups(self, context: SchedulingContext, present: PresentGroups) -> Scores:
        """The rounded score of each group: the same sums as of its rows. Hot: there are few, so they are plain numbers."""
        totals = [0.0] * len(present.codes)
        for constraint, eligible in zip(self.constraints, self._counted.eligible, strict=True):
            base = constraint.max_skew - 1
            if constraint.key == HOSTNAME:
                weight = math.log(present.feasible + 2)
                added = [count * weight + base for count in present.counts]
            else:
                codes = {*present.codes}
                weight = math.log(len(codes) - _is_one_twice(eligible.column, codes.__contains__) + 2)
                counts = count_values(context, constraint, eligible, self._counted.is_few)
                added = [0.0 if code == ABSENT else counts.item(code) * weight + base for code in present.codes]
            totals = [total + more for total, more in zip(totals, added, strict=True)]
        return round_half_away(np.array(totals))


def _are_labelled(context: SchedulingContext, column: LabelColumn) -> bool:
    """Whether all nodes have the label."""
    height = context.nodes.height
    return bool((column.codes[:height] != ABSENT)[context.nodes.alive[:height]].all())


def codes_of(column: LabelColumn, rows: Rows) -> NDArray[np.int32]:
    """The values of a label on these rows. Hot: `take` needs half the time that indexing needs."""
    return column.codes[rows] if isinstance(rows, slice) else column.codes.take(rows)


def _domain_count(context: SchedulingContext, column: LabelColumn, rows: Rows, ignored: Mask | None) -> int:
    """How many values of the label there are among the feasible nodes; for host names, how many nodes.

    Parity: a node without the label counts as having the empty value.
    """
    if ignored is None and isinstance(rows, slice):  # Hot: all nodes are feasible, so only nodes can change it
        key = ("domains", column.key, rows.stop)
        return context.of_nodes(key, lambda: _count_domains(column, column.codes[rows]), PodPart.SPREAD)
    codes = codes_of(column, rows)
    return _count_domains(column, codes if ignored is None or not ignored.any() else codes[~ignored])


def _count_domains(column: LabelColumn, codes: NDArray[np.int32]) -> int:
    """Number of domains among these nodes. For the host name label each node is a domain of its own. Parity: nodes without
    the label and nodes with an empty value count as one domain."""
    if column.key == HOSTNAME:
        return len(codes)
    present = np.bincount(codes, minlength=column.width)
    return int(np.count_nonzero(present)) - _is_one_twice(column, lambda code: bool(present[code]))


def _is_one_twice(column: LabelColumn, is_present: Callable[[int], bool]) -> bool:
    """Whether there are nodes without the label and nodes with an empty value, which are one domain."""
    empty = column.value_book.get("")
    return empty is not None and is_present(ABSENT) and is_present(empty)
