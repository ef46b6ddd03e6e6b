"""The cluster of a scheduler at a moment of its replay, for questions that `explain` answers."""

from collections.abc import Mapping
from dataclasses import replace

from mooring.answers.trial.counterfactual import Counterfactual
from mooring.cluster.cluster import Cluster
from mooring.cluster.columns.kernels import Mask
from mooring.framework.attempts.runner import Runner
from mooring.model.pod import Pod
from mooring.scheduler.decide import DecideOptions, decide
from mooring.scheduler.decision import Decision, DecisionError
from mooring.scheduler.scheduler import Scheduler
from mooring.state.replay.recorded_settings import MadeDecision


class MomentView(Counterfactual):
    """Decides as the scheduler would now, with its options and a given seed. Extenders are not called.

    Nothing that is asked here changes the scheduler: between steps the view is a fork of its cluster.
    """

    def __init__(self, cluster: Cluster, runners: Mapping[str, Runner], options: DecideOptions, seed: int) -> None:
        """Not that of Counterfactual, which builds a cluster from objects."""
        self.cluster = cluster
        self._runners = dict(runners)
        self.decisions = 0
        self.priority_classes = []
        self.events = ()
        self.queue = None
        self._options = replace(options, extenders=())
        self._seed = seed

    def decide(
        self, pod: Pod, *, explain: bool = False, cluster: Cluster | None = None, within: Mask | None = None
    ) -> Decision:
        runner = self.runner(pod)
        if runner is None:
            return DecisionError(f'no profile has the scheduler name "{pod.spec.scheduler_name}"')
        self.decisions += 1
        options = replace(self._options, explain=True, record=True) if explain else self._options
        if within is not None:
            options = replace(options, within=within)
        start = runner.cursor.start
        try:
            return decide(runner, pod, cluster or self.cluster, options, self._seed)
        finally:
            runner.cursor.start = start  # the next attempt of the scheduler begins its search where it would have


def view_between_steps(scheduler: Scheduler) -> MomentView:
    """The cluster as the next attempt will see it."""
    core = scheduler.core
    return MomentView(core.cluster.fork(), core.runners, core.options, core.queue.attempts + 1)


def view_at_decision(made: MadeDecision) -> MomentView:
    """The cluster as the decision saw it. Good until anything follows from the decision."""
    return MomentView(made.cluster, {made.pod.spec.scheduler_name: made.runner}, made.options, made.seed)
