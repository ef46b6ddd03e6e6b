"""The hard constraints of one pod in one attempt: which nodes they close, also with other pods on a node."""

from dataclasses import dataclass

import numpy as np

from mooring.cluster.nodes.kernels import Ints
from mooring.cluster.nodes.labels import ABSENT, LabelColumn
from mooring.framework.context import SchedulingContext
from mooring.framework.points import Codes, Rows
from mooring.model.pod import Pod
from mooring.plugins.affinity.spread_constraints import Constraints, SpreadConstraint
from mooring.plugins.affinity.spread_counts import FEW_CONSTRAINTS, Counted, Eligible, count_values

LABEL_MISSING, TOO_SKEWED = 1, 2


@dataclass(slots=True)
class SkewCheck:
    """One hard constraint: the pods that count, by value of its label."""

    constraint: SpreadConstraint
    counts: Ints
    eligible: Eligible
    itself: int

    @property
    def column(self) -> LabelColumn:
        return self.eligible.column

    def codes(self, shifts: dict[int, int] | None) -> Codes:
        """For each value of the label the code of the verdict, so that one look-up answers for a row."""
        counts = self.counts
        if shifts:
            counts = counts.copy()
            for code, change in shifts.items():
                counts[code] += change
        domains, lowest = self.eligible.domains, 0
        if len(domains) >= self.constraint.min_domains:
            lowest = int(counts[domains].min())
        too_skewed = counts + (self.itself - lowest) > self.constraint.max_skew
        codes = too_skewed * np.int64(TOO_SKEWED)
        codes[ABSENT] = LABEL_MISSING
        return codes


class SkewChecks:
    """The state of an attempt. A what-if changes a clone of it, which shares everything but the changes."""

    def __init__(self, context: SchedulingContext, constraints: Constraints, counted: Counted) -> None:
        self._constraints = constraints
        self._lacking = counted.lacking
        itself = constraints.matching(context.pod.label_set).tolist()
        self._checks = [
            SkewCheck(constraint, count_values(context, constraint, eligible, counted.is_few), eligible, int(is_meant))
            for constraint, eligible, is_meant in zip(constraints, counted.eligible, itself, strict=False)
        ]
        self._shifts: dict[int, dict[int, int]] = {}
        """By place of the constraint and code of the value: how many pods more, or fewer, count than in the cluster."""
        self._everywhere: list[Codes] = []
        """The verdicts for all rows without any change, once worked out; shared by all clones."""

    def clone(self) -> "SkewChecks":
        other: SkewChecks = object.__new__(SkewChecks)
        other.__dict__.update(self.__dict__)
        other._shifts = {place: dict(shifts) for place, shifts in self._shifts.items()}
        return other

    def verdicts(self, rows: Rows) -> Codes:
        """The code of the first constraint that a node fails; 0 where there is none."""
        if self._shifts or len(self._checks) <= FEW_CONSTRAINTS:
            return self._ask(rows)
        # What-ifs about nodes that lack a label change nothing, however many there are: for these, once is enough.
        if not self._everywhere:
            self._everywhere.append(self._ask(slice(0, len(self._lacking))))
        return self._everywhere[0][rows]

    def change(self, context: SchedulingContext, pod: Pod, row: int, change: int) -> None:
        """A pod comes to a node (+1) or leaves it (-1).

        Parity: unlike the first count, this one takes pods that are being deleted, and empty selectors, in.
        """
        if pod.namespace != context.pod.namespace or self._lacking[row]:
            return
        for place in np.flatnonzero(self._constraints.matching(pod.label_set)).tolist():
            check = self._checks[place]
            if check.eligible.among[row]:
                shifts = self._shifts.setdefault(place, {})
                code = int(check.column.codes[row])
                shifts[code] = shifts.get(code, 0) + change

    def _ask(self, rows: Rows) -> Codes:
        verdict: Codes | None = None
        for place, check in enumerate(self._checks):
            codes: Codes = check.codes(self._shifts.get(place))[check.column.codes[rows]]
            verdict = codes if verdict is None else np.where(verdict == 0, codes, verdict)
        assert verdict is not None, "without constraints there is nothing to check"
        return verdict
