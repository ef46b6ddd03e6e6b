"""TotalsPlugin: a score plugin that has the last word about the totals of nodes."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence

from mooring.framework.contract.context import SchedulingContext
from mooring.framework.contract.events import Registration
from mooring.framework.contract.points import Rows, ScorePlugin, Scores


class TotalsPlugin(ScorePlugin):
    """Has the last word about totals: a score plugin that sees what the others gave. A profile has at most one. It is for
    policies that choose a node, or weights, for each pod, such as trained agents."""

    def score(self, context: SchedulingContext, rows: Rows) -> Scores | None:
        """It adds nothing to the sum of the others."""
        return None

    def events(self) -> Sequence[Registration]:
        """It rejects no pod, so no event helps one."""
        return ()

    @abstractmethod
    def totals(
        self, context: SchedulingContext, rows: Rows, scores: Callable[[], Mapping[str, Scores]]
    ) -> Scores | None:
        """An integer for each feasible row: the highest one wins. None: the weighted sum of the scores stands.

        `scores()` asks the score plugins of the profile: the normalized scores (0..100, without weights) of each by name.
        """
