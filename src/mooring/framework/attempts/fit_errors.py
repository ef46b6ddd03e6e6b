"""The argument of PostFilter plugins: an attempt that left no node, with the verdicts of all nodes (context.FitError)."""

from collections import Counter

import msgspec
import numpy as np
from numpy.typing import NDArray

from mooring.cluster.pods.nominated import NominatedLoad
from mooring.framework.attempts.attempt import Attempt, Verdicts, rejecting_filters
from mooring.framework.attempts.refiltering import RowArray
from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.points import Codes
from mooring.framework.contract.status import Code, FoundRejection, Rejection
from mooring.framework.kept.feasible import DEAD, NARROWED_OUT

_FEW_CODES = 4096


def count_codes(codes: Codes) -> list[tuple[int, int]]:
    """The distinct codes, ascending, each with how often it is there."""
    if not len(codes):
        return []
    least, most = int(codes.min()), int(codes.max())
    if least == most:
        return [(least, len(codes))]
    if least >= 0 and most < _FEW_CODES:
        counts = np.bincount(codes)  # Hot: a tenth of the time that sorting takes
        return [(code, int(counts[code])) for code in np.flatnonzero(counts).tolist()]
    distinct, numbers = np.unique(codes, return_counts=True)
    return list(zip(distinct.tolist(), numbers.tolist(), strict=True))


def rejecting_codes(attempt: Attempt, verdicts: Verdicts, index: int) -> list[tuple[int, int]]:
    """The distinct codes of the rows that a filter rejected first, each with how often it is there."""
    here = verdicts.first == index
    codes = attempt.codes(verdicts, index)[: len(here)]
    return count_codes(codes if here.all() else codes[here])


def found_rejections(attempt: Attempt, verdicts: Verdicts) -> list[FoundRejection]:
    """The distinct verdicts of filters, in the order of the filters.

    Hot: the diagnosis and preemption both ask, and to go over the columns of 5,000 nodes takes 15 µs.
    """
    if verdicts.found is not None and verdicts.found[0] is verdicts.first:
        return verdicts.found[1]
    found = [
        (index, code, count, attempt.rejection(index, code))
        for index in rejecting_filters(verdicts)
        for code, count in rejecting_codes(attempt, verdicts, index)
    ]
    verdicts.found = verdicts.first, found
    return found


class RejectedAttempt(msgspec.Struct):
    """The attempt, and the verdict of each node. It is a `FitError` for plugins."""

    attempt: Attempt
    verdicts: Verdicts | None
    """None if PreFilter rejected the pod before any node was looked at."""
    absent: Rejection | None
    """The verdict of nodes that were not looked at."""
    examine_all: bool = True
    """Whether preemption may look at every node, or only at as many as its arguments allow."""
    is_reviewed: bool = False
    """Whether extenders review the victims: then a plugin may answer with Candidates."""

    @property
    def context(self) -> SchedulingContext:
        return self.attempt.context

    @property
    def nominated(self) -> NominatedLoad:
        """The pods that are nominated to a node."""
        return self.attempt.context.cluster.nominated

    def curable_rows(self) -> RowArray:
        """The nodes that could take the pod if other pods left: all whose verdict is Unschedulable."""
        return np.flatnonzero(self.curable())

    def curable(self) -> NDArray[np.bool_]:
        """Mask over the rows: True where the node could take the pod if other pods left.

        Verdicts are judged once for each distinct code, not for each node.
        """
        nodes = self.attempt.context.nodes
        curable = np.zeros(nodes.height, np.bool_)
        if self.absent is not None and self.absent.code is Code.Unschedulable:
            curable |= nodes.alive[: nodes.height]
        if self.verdicts is not None:
            first = self.verdicts.first
            found = found_rejections(self.attempt, self.verdicts)
            codes_of = Counter(index for index, *_ in found)
            for index, code, _, rejection in found:
                rows = first == index
                if codes_of[index] > 1:
                    rows &= self.attempt.codes(self.verdicts, index)[: len(first)] == code
                if rejection.code is Code.Unschedulable:
                    curable |= rows
                else:
                    curable &= ~rows
            for name, objection in self.verdicts.objections.items():
                if (row := nodes.row_book.get(name)) is not None:
                    curable[row] = objection.code is Code.Unschedulable
        return curable

    def is_final(self, row: int) -> bool:
        """Whether the node can never take the pod, whichever pods leave. The verdict of an extender replaces that of
        filters."""
        objections = self.verdicts.objections if self.verdicts is not None else {}
        if objections and (objection := objections.get(self.attempt.context.nodes.names[row])) is not None:
            return objection.code is Code.UnschedulableAndUnresolvable
        if self.verdicts is None or self.verdicts.first[row] in (DEAD, NARROWED_OUT):
            return self.absent is None or self.absent.code is Code.UnschedulableAndUnresolvable
        index = int(self.verdicts.first[row])
        code = int(self.attempt.codes(self.verdicts, index)[row])
        return self.attempt.rejection(index, code).code is Code.UnschedulableAndUnresolvable
