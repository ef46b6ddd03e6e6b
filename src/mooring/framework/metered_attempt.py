"""An attempt whose extension points are measured."""

from typing import TYPE_CHECKING

import numpy as np

from mooring.framework.attempt import Attempt, AttemptError, Narrowing, PodRejected, ScoreCard, Verdicts
from mooring.framework.cycle import Cycle
from mooring.framework.memo import PASSED, ShapeMemo
from mooring.framework.point_meters import ERROR, STATUS, SUCCESS, PointMeters
from mooring.framework.points import Rows
from mooring.framework.status import Code

if TYPE_CHECKING:
    from mooring.framework.runner import Runner


class MeteredAttempt(Attempt):
    """Does what an attempt does, and records how long it took and who had a say."""

    __slots__ = ("_left_out", "_meters", "_pre_scored_ns")

    def __init__(self, runner: "Runner", cycle: Cycle, memo: ShapeMemo, meters: PointMeters) -> None:
        super().__init__(runner, cycle, memo)
        self._meters = meters
        self._left_out: frozenset[str] = frozenset()
        self._pre_scored_ns = 0
        cycle.probe = meters.probe(cycle.seed)

    def pre_filter(self) -> Narrowing | PodRejected:
        meters, began_ns, status = self._meters, self._meters.now_ns(), ERROR
        try:
            outcome = super().pre_filter()
            status = STATUS[outcome.rejection.code] if isinstance(outcome, PodRejected) else SUCCESS
        finally:
            meters.observe("PreFilter", status, began_ns)
        self._left_out = frozenset(self._no_filter)
        if isinstance(outcome, PodRejected) and outcome.rejection.code is Code.UnschedulableAndUnresolvable:
            meters.evaluations.refused(self._left_out, outcome.rejection.plugin)
        else:
            meters.evaluations.pre_filtered(self._left_out)
        return outcome

    def filter(self, narrowing: Narrowing) -> Verdicts:
        meters, began_ns, status = self._meters, self._meters.now_ns(), ERROR
        try:
            verdicts = super().filter(narrowing)
            status = SUCCESS
        finally:
            meters.observe("Filter", status, began_ns)
        passed = int(np.count_nonzero(verdicts.first == PASSED))
        if passed == self.cycle.nodes.alive_count:
            meters.evaluations.all_passed(self._left_out, passed)
        else:
            meters.evaluations.rejected(self._left_out, verdicts.first, passed)
        return verdicts

    def score(self, rows: Rows, explain: bool = False) -> ScoreCard:
        self._pre_scored_ns = 0
        try:
            card = super().score(rows, explain)
        except AttemptError:
            if self._pre_scored_ns:
                self._meters.observe("Score", ERROR, self._pre_scored_ns)
            raise
        self._meters.observe("Score", SUCCESS, self._pre_scored_ns)
        self._meters.evaluations.scored(frozenset(self._no_score), len(card.totals))
        return card

    def _pre_score(self, rows: Rows) -> None:
        began_ns, status = self._meters.now_ns(), ERROR
        try:
            super()._pre_score(rows)
            status = SUCCESS
        finally:
            ended_ns = self._meters.observe("PreScore", status, began_ns)
        self._pre_scored_ns = ended_ns
