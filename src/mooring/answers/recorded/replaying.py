"""The question of `mooring replay`: does every decision of a recording come out equal?"""

from collections.abc import Callable, Sequence
from time import perf_counter

from mooring.answers.recorded.decision_difference import (
    ExplainedDecision,
    StepDifference,
    explain_decision,
    explain_placed,
    is_otherwise,
    step_difference,
)
from mooring.answers.recorded.replay_answer import ReplayAnswer, ReplayedRun
from mooring.framework.profile.registry import Registry
from mooring.scheduler.scheduler import Scheduler
from mooring.state.recording.reading import RecordedRun, RecordedStep
from mooring.state.replay.differences import BIND, ReplayTally, decided_for
from mooring.state.replay.recorded_settings import MadeDecision
from mooring.state.replay.recorded_span import RecordedSpan
from mooring.state.replay.replayer import ReplayedStep, Replayer, ReplayHooks

LISTED = 100
"""How many differences are listed; the others are counted."""
Progress = Callable[[int, int], None]
"""Called with the number of segments that are done, and of all."""


def replay(
    runs: Sequence[RecordedRun],
    registry: Registry | None = None,
    span: RecordedSpan | None = None,
    on_progress: Progress | None = None,
) -> ReplayAnswer:
    """Replay all runs, one after the other, as far as they can be replayed."""
    question = _Replaying(registry, span or RecordedSpan(), SegmentProgress(runs, on_progress))
    began_s = perf_counter()
    replayed = [question.replay(run) for run in runs]
    total = ReplayTally()
    for each in replayed:
        total.include(each.tally)
    return ReplayAnswer(
        replayed,
        perf_counter() - began_s,
        question.first,
        question.differences,
        question.problems,
        question.notes,
        total,
    )


class SegmentProgress:
    """Counts the segments that were replayed."""

    def __init__(self, runs: Sequence[RecordedRun], on_progress: Progress | None) -> None:
        self._total = sum(len(run.segments) for run in runs)
        self._done = 0
        self._on_progress = on_progress

    def present(self, replayer: Replayer) -> None:
        if self._on_progress is not None:
            self._on_progress(self._done + replayer.segments_done, self._total)

    def ended(self, run: RecordedRun) -> None:
        self._done += len(run.segments)


class _Replaying:
    """Replays runs and collects what differs."""

    def __init__(self, registry: Registry | None, span: RecordedSpan, progress: SegmentProgress) -> None:
        self._registry, self._span, self._progress = registry, span, progress
        self.first: StepDifference | None = None
        self.differences: list[StepDifference] = []
        self.problems: list[str] = []
        self.notes: list[str] = []
        self._explained: ExplainedDecision | None = None
        """The last decision that seemed to come out otherwise."""

    def replay(self, run: RecordedRun) -> ReplayedRun:
        replayer = Replayer(run, self._registry, ReplayHooks(decided=self._decided))
        tally, early = ReplayTally(), 0
        from_ns = self._span.from_ns or 0
        for replayed in replayer.steps(self._span.from_ns, self._span.until_ns):
            if replayed.step.now_ns < from_ns:
                early += not replayed.is_equal
                continue
            tally.add(replayed)
            if not replayed.is_equal:
                self._differs(run, replayed, replayer.scheduler)
            self._progress.present(replayer)
        self._progress.ended(run)
        self._note(run, replayer, early)
        version = run.header.version if run.segments else ""
        return ReplayedRun(run.name, version, tally)

    def _decided(self, step: RecordedStep, made: MadeDecision) -> None:
        """Explain a decision that seems to differ while the cluster is as it was decided on."""
        if self.first is None and is_otherwise(made.decision, decided_for(step.outcomes, made.pod.key)):
            self._explained = explain_decision(made, step.outcomes)

    def _differs(self, run: RecordedRun, replayed: ReplayedStep, scheduler: Scheduler | None) -> None:
        if self.first is None:
            explained = self._explanation_for(replayed) or _explain_late(scheduler, replayed)
            self.first = step_difference(run.name, replayed, explained)
        if len(self.differences) < LISTED:
            self.differences.append(step_difference(run.name, replayed))

    def _explanation_for(self, replayed: ReplayedStep) -> ExplainedDecision | None:
        """The explanation, if it is about a pod of this step. A bind may come later than its decision."""
        found, outcomes = self._explained, [*replayed.step.outcomes, *replayed.outcomes]
        return found if found is not None and any(found.pod in outcome for outcome in outcomes) else None

    def _note(self, run: RecordedRun, replayer: Replayer, early: int) -> None:
        self.problems += replayer.problems
        if early:
            self.notes.append(
                f"{run.name}: {early:,} steps before --from came out otherwise; later ones may follow from it"
            )
        if replayer.fault_count:
            told = "; ".join(replayer.faults)
            self.notes.append(f"{run.name}: {replayer.fault_count:,} steps ended in an error: {told}")


def _explain_late(scheduler: Scheduler | None, replayed: ReplayedStep) -> ExplainedDecision | None:
    """A bind that other work came before, such as that of volumes: decided again as if the pod had no node yet."""
    if scheduler is None:
        return None
    recorded = {outcome[1]: outcome[2] for outcome in replayed.step.outcomes if outcome[0] == BIND}
    ours = [outcome[1] for outcome in replayed.outcomes if outcome[0] == BIND]
    found = (explain_placed(scheduler, pod, recorded.get(pod, "")) for pod in (*ours, *recorded))
    return next((each for each in found if each is not None), None)
