"""Decisions as they are made: for drivers that note or compare each of them before anything follows from it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from mooring.cluster.cluster import Cluster
from mooring.framework.attempts.runner import Runner
from mooring.model.pod import Pod
from mooring.scheduler.core import Deciding
from mooring.scheduler.decide import DecideOptions, decide, deciding
from mooring.scheduler.decision import Decision
from mooring.scheduler.extender_asking import InterestedExtenders
from mooring.scheduler.extender_steps import Steps


@dataclass(frozen=True, slots=True)
class MadeDecision:
    """A decision, with all that it takes to make it again. Good until anything follows from it."""

    runner: Runner
    pod: Pod
    cluster: Cluster
    options: DecideOptions
    seed: int
    decision: Decision
    search_start: int
    """Where a partial search over the nodes began."""
    was_extended: bool
    """Whether extenders took part. They are not asked again."""

    def explained(self) -> Decision:
        """Make the decision again, with every verdict and every score, and without extenders."""
        cursor, options = self.runner.cursor, replace(self.options, explain=True, record=True, extenders=())
        after, cursor.start = cursor.start, self.search_start
        try:
            return decide(self.runner, self.pod, self.cluster, options, self.seed)
        finally:
            cursor.start = after


def showing(
    show: Callable[[MadeDecision], None],
    seed: int = 0,
    inner: Deciding = deciding,
    adjust: Callable[[DecideOptions], DecideOptions] = lambda options: options,
) -> Deciding:
    """Decides as `inner` does and shows each decision. `seed` is added to the seed of each attempt, and `adjust` may change
    the options."""

    def decide_and_show(
        runner: Runner,
        pod: Pod,
        cluster: Cluster,
        options: DecideOptions,
        attempt: int,
        interested: InterestedExtenders | None,
    ) -> Steps[Decision]:
        start, options = runner.cursor.start, adjust(options)
        decision = yield from inner(runner, pod, cluster, options, seed + attempt, interested)
        was_extended = interested is not None
        show(MadeDecision(runner, pod, cluster, options, seed + attempt, decision, start, was_extended))
        return decision

    return decide_and_show
