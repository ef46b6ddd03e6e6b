"""Random: any of the feasible nodes."""

from typing import Any

import numpy as np

from mooring.plugin import Handle, PreScorePlugin, Rows, SchedulingContext, ScorePlugin, Scores, Skip, choose

PICKED = "Random/picked"


class Random(PreScorePlugin, ScorePlugin):
    """PreScore picks one of the feasible nodes by the seed of the attempt, and Score prefers it to all others. The argument
    `seed` gives other picks."""

    name = "Random"
    is_in_range = True

    def __init__(self, args: Any, handle: Handle) -> None:
        self._seed: int = (args or {}).get("seed", 0)

    def pre_score(self, context: SchedulingContext, rows: Rows) -> Skip | None:
        feasible = np.arange(context.nodes.height)[rows]
        context.state.write(PICKED, int(feasible[choose(context.seed + (self._seed << 32), len(feasible))]))
        return None

    def score(self, context: SchedulingContext, rows: Rows) -> Scores | None:
        return np.where(np.arange(context.nodes.height)[rows] == context.state.read(PICKED), 100, 0)
