"""A profile at work: opens attempts and keeps, from one to the next, the answers that can be kept (memo.py)."""

from collections.abc import Callable
from typing import TypeVar

from mooring.cluster.cluster import Cluster
from mooring.framework.attempts.attempt import Attempt, Narrowing, PodRejected, Verdicts
from mooring.framework.contract.context import ResizeContext, SchedulingContext
from mooring.framework.contract.plugin_caller import ERROR, SUCCESS, PluginCaller, unwrapped
from mooring.framework.kept.feasible import FeasibleRows
from mooring.framework.kept.kept_answers import KeptAnswers
from mooring.framework.kept.prepared import PreparedProfile, SearchCursor
from mooring.framework.profile.profiles import Profile
from mooring.model.pod import Pod

C = TypeVar("C")


class MeasuredAttempt(Attempt):
    """An attempt that tells its caller when each extension point began and ended, and what came of it."""

    __slots__ = ()

    def pre_filter(self) -> Narrowing | PodRejected:
        caller, status = self.context.caller, ERROR
        began_ns = caller.began()
        try:
            outcome = super().pre_filter()
            rejection = outcome.rejection if isinstance(outcome, PodRejected) else None
            status = SUCCESS if rejection is None else rejection.code.name
        finally:
            caller.ended("PreFilter", status, began_ns)
        caller.pre_filtered(self._no_filter, rejection)
        return outcome

    def filter(self, narrowing: Narrowing) -> Verdicts:
        caller, status = self.context.caller, ERROR
        began_ns = caller.began()
        try:
            verdicts = super().filter(narrowing)
            status = SUCCESS
        finally:
            caller.ended("Filter", status, began_ns)
        if self._rejects_nothing(verdicts):
            caller.all_passed(self._no_filter, len(verdicts.first))
        else:
            caller.filtered(self._no_filter, verdicts.first, self.context.nodes.alive_count)
        return verdicts

    def _pre_score_and_score(self, feasible: FeasibleRows, score: Callable[..., C], *options: object) -> C:
        caller, point, status = self.context.caller, "PreScore", ERROR
        began_ns = caller.began()
        try:
            self._pre_score(feasible)
            began_ns, point = caller.ended("PreScore", SUCCESS, began_ns), "Score"
            card = score(feasible, *options)
            status = SUCCESS
        finally:
            caller.ended(point, status, began_ns)
        caller.scored(self._no_score, feasible.count)
        return card


class Runner(PreparedProfile):
    """A profile with what it keeps between attempts."""

    def __init__(
        self,
        profile: Profile,
        caller: PluginCaller | None = None,
        cursor: SearchCursor | None = None,
        kept: KeptAnswers | None = None,
    ) -> None:
        """`kept` may be shared by the runners of a scheduler: it is bounded for all of them together."""
        super().__init__(profile, caller, cursor)
        self.kept = kept or KeptAnswers()
        self._ask_for_binding_work = [plugin.has_binding_work for plugin in self.binding_plugins]

    def open(self, pod: Pod, cluster: Cluster, seed: int = 0) -> Attempt:
        """Begin an attempt to place a pod."""
        cluster.nodes.settle()
        if cluster.queues_resizes and pod.is_resize_deferred:
            return self._open_resize(pod, cluster, seed)
        memo = self.kept.memo(self, pod.shape, cluster.nodes)
        caller = self.caller.for_attempt(pod.id)
        begin = MeasuredAttempt if caller.measures else Attempt
        return begin(self, SchedulingContext(pod, cluster, seed, memo, caller), memo)

    def _open_resize(self, pod: Pod, cluster: Cluster, seed: int) -> Attempt:
        """Begin an attempt to make room for a resize. It keeps nothing, and reads nothing that is kept."""
        memo, caller = self.forgetful_memo(), self.caller.for_attempt(pod.id)
        begin = MeasuredAttempt if caller.measures else Attempt
        return begin(self, ResizeContext(pod, cluster, seed, memo, caller), memo)

    def score_weights(self) -> dict[str, int]:
        """The weights of the plugins that score, by name."""
        return {plugin.name: self.profile.weights[plugin.name] for plugin in self.scores}

    def has_binding_work(self, context: SchedulingContext) -> bool:
        """Whether a plugin may have a say between the decision and Bind, or its calls there are measured one by one."""
        if self.profile.permits or context.wrap is not unwrapped:
            return True
        try:
            for has_work in self._ask_for_binding_work:
                if has_work(context):
                    return True
        except Exception:  # a plugin may raise anything: then it is asked, and named if it fails there too
            return True
        return False
