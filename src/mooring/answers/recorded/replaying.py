"""The question of `mooring replay`: does every decision of a recording come out equal? And the recorded arrivals and
changes once more, with the placements of another configuration.

For the latter both the recorded and the other configuration are simulated, so that the two differ in nothing else: an
attempt takes a millisecond, and of nodes with the same score the one with the lowest name is taken.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from time import perf_counter
from typing import ClassVar

import msgspec

from mooring.answers.experiments.compared_run import RunInputs, RunResult
from mooring.answers.experiments.comparing import comparison_of
from mooring.answers.experiments.comparison import Comparison
from mooring.answers.experiments.figures import unpack
from mooring.answers.experiments.run_plan import RunPlan
from mooring.answers.experiments.workers import RunProgress, run_here
from mooring.answers.form.answer import AnswerTable, ClusterAnswer
from mooring.answers.form.data_table import Columns, DataTable, Time, data_table
from mooring.answers.form.published import Count, Form, Number, Positive
from mooring.answers.recorded.decision_difference import (
    DifferenceForm,
    ExplainedDecision,
    StepDifference,
    difference_table,
    explain_decision,
    explain_placed,
    is_otherwise,
    step_difference,
)
from mooring.framework.config.types import DEFAULT_SCHEDULER_NAME, KubeSchedulerConfiguration
from mooring.framework.profile.registry import Registry
from mooring.inputs.recorded_load import RecordedLoad, recorded_load
from mooring.kit.callbacks import Progress
from mooring.kit.clock import NS_PER_S, in_seconds
from mooring.kit.words import count
from mooring.model.node import Node
from mooring.scheduler.scheduler import Scheduler
from mooring.sim.results import show_seconds
from mooring.state.made_decision import MadeDecision
from mooring.state.recording.run_reading import RecordedRun, RecordedStep
from mooring.state.recording.segment_file import RecordingError
from mooring.state.replay.differences import BIND, ReplayTally, decided_for
from mooring.state.replay.replayer import ReplayedStep, Replayer, ReplayHooks, missing_plugins, settings_of
from mooring.state.replay.run_reader import RecordedSpan

# ---- The answer of `mooring replay`: which decisions came out equal, and the first that did not, explained.


FIGURES = ("steps", "decisions", "equal_decisions", "binds", "failures", "evictions", "differing_steps")
"""The counts of a tally that are published."""
_figures: Callable[[ReplayTally], tuple[int, int, int, int, int, int, int]] = attrgetter(*FIGURES)


class ReplayedRunForm(Form, frozen=True):
    """One run of the recording, which is one process, and what became of it."""

    name: str
    version: str
    """The version of Mooring that recorded it."""
    began: str = msgspec.field(name="from")
    """The first step; empty if nothing was replayed."""
    until: str
    steps: Count
    decisions: Count
    """Steps that bound pods, failed or evicted pods."""
    equal_decisions: Count
    binds: Count
    failures: Count
    evictions: Count
    differing_steps: Count


class ReplayForm(Form, frozen=True):
    """All runs of a recording, replayed."""

    equal: bool
    """Whether every step came out as it was recorded."""
    steps: Count
    decisions: Count
    """Steps that bound pods, failed or evicted pods."""
    equal_decisions: Count
    binds: Count
    failures: Count
    evictions: Count
    differing_steps: Count
    runs: Sequence[ReplayedRunForm]
    """The runs of the recording, in order of their beginning; a run is one process."""
    recorded_seconds: Number
    took_seconds: Number
    speed: Number
    """The recorded time, divided by the time that the replay took."""
    first_difference: DifferenceForm | None
    differences: Sequence[DifferenceForm]
    """The first hundred."""
    differences_by_kind: Mapping[str, Positive]
    """How many steps differ in which way."""
    problems: Sequence[str]
    """The parts that could not be replayed, and why."""
    notes: Sequence[str]


@dataclass(frozen=True, slots=True)
class ReplayedRun:
    """One run and what became of it."""

    name: str
    version: str
    tally: ReplayTally

    @property
    def is_replayed(self) -> bool:
        return self.tally.first_ns is not None

    def span_ns(self) -> tuple[int | None, int | None]:
        """When the first and the last step in the span that was asked for were; None if there are none."""
        return self.tally.first_ns, self.tally.last_ns if self.is_replayed else None

    def times(self) -> tuple[str, str]:
        """The span for people; empty if there is none."""
        began, ended = self.span_ns()
        return ("", "") if began is None or ended is None else (in_seconds(began), in_seconds(ended))

    def published(self) -> ReplayedRunForm:
        return ReplayedRunForm(self.name, self.version, *self.times(), *_figures(self.tally))


@dataclass(frozen=True, repr=False)
class ReplayAnswer(ClusterAnswer):
    """All runs of a recording, replayed."""

    kind: ClassVar[str] = "Replay"
    form: ClassVar = ReplayForm
    yes_if: ClassVar = "is_equal"
    runs: Sequence[ReplayedRun]
    took_s: float
    first: StepDifference | None = None
    differences: Sequence[StepDifference] = ()
    """The first ones, at most `replaying.LISTED`."""
    problems: Sequence[str] = ()
    notes: Sequence[str] = ()
    total: ReplayTally = field(default_factory=ReplayTally)

    @property
    def is_equal(self) -> bool:
        return not self.total.differing_steps

    @property
    def is_replayed(self) -> bool:
        return any(run.is_replayed for run in self.runs)

    @property
    def recorded_s(self) -> float:
        """The recorded time, over all runs."""
        return sum((run.tally.last_ns - (run.tally.first_ns or run.tally.last_ns)) / NS_PER_S for run in self.runs)

    @property
    def speed(self) -> float:
        """How much faster than real time it was."""
        return self.recorded_s / self.took_s if self.took_s else 0.0

    # ---- as text

    def summary(self) -> list[str]:
        lines = [self._headline(), self._time_line()]
        if self.first is not None:
            lines += ["", *self.first.sentences()]
        return lines

    def _headline(self) -> str:
        total, runs = self.total, [run for run in self.runs if run.is_replayed]
        decided = (
            f"{total.decisions:,} decisions ({total.binds:,} binds, {total.failures:,} failures, "
            f"{total.evictions:,} evictions)"
        )
        if self.is_equal:
            outcome = "all came out equal"
        elif total.differing_decisions:
            outcome = f"{total.equal_decisions:,} came out equal, {total.differing_decisions:,} did not"
        else:
            outcome = f"all came out equal, but {count(total.differing_steps, 'step')} asked for something else"
        return f"{count(len(runs), 'run')}, {total.steps:,} steps, {decided}: {outcome}"

    def _time_line(self) -> str:
        times = [run.times() for run in self.runs if run.is_replayed]
        if not times:
            return "Nothing was replayed"
        began, ended = min(each[0] for each in times), max(each[1] for each in times)
        return (
            f"Recorded from {began} to {ended} ({show_seconds(self.recorded_s)}), replayed in "
            f"{show_seconds(self.took_s)}: {self.speed:,.0f} times real time"
        )

    def tables(self) -> list[AnswerTable]:
        explained = self.first.decision.tables() if self.first is not None and self.first.decision is not None else []
        kinds = [(kind, f"{number:,}") for kind, number in self.kinds().items()]
        return [
            *explained,
            AnswerTable("Differences by kind", ("instead of what was recorded", "steps"), kinds),
            AnswerTable("Runs", _RUN_COLUMNS, [_run_row(run) for run in self.runs], is_detail=len(self.runs) < 2),
            AnswerTable(
                "The first differences",
                ("at", "step", "then", "now"),
                [(in_seconds(d.at_ns), d.step, "; ".join(d.recorded), "; ".join(d.ours)) for d in self.differences],
                is_detail=True,
            ),
        ]

    # ---- as plain data

    def data_tables(self) -> Mapping[str, DataTable]:
        columns: Columns = {"run": str, "version": str, "from": Time, "until": Time}
        counts: Columns = dict.fromkeys(FIGURES, int)
        runs = ((run.name, run.version, *run.span_ns(), *_figures(run.tally)) for run in self.runs)
        return {"runs": data_table({**columns, **counts}, runs), "differences": difference_table(self.differences)}

    def kinds(self) -> dict[str, int]:
        """How many steps differ in which way, the most frequent first."""
        return dict(self.total.by_kind.most_common())

    def published(self) -> ReplayForm:
        return ReplayForm(
            self.is_equal,
            *_figures(self.total),
            runs=[run.published() for run in self.runs],
            recorded_seconds=self.recorded_s,
            took_seconds=self.took_s,
            speed=self.speed,
            first_difference=None if self.first is None else self.first.published(),
            differences=[each.published() for each in self.differences],
            differences_by_kind=self.kinds(),
            problems=self.problems,
            notes=self.notes,
        )


_RUN_COLUMNS = ("run", "from", "until", "steps", "decisions", "equal")


def _run_row(run: ReplayedRun) -> tuple[object, ...]:
    began, ended = run.times()
    tally = run.tally
    return (
        run.name,
        began or "-",
        ended or "-",
        f"{tally.steps:,}",
        f"{tally.decisions:,}",
        f"{tally.equal_decisions:,}",
    )


LISTED = 100
"""How many differences are listed; the others are counted."""


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


RECORDED = "recorded"
"""The name of the recorded configuration in the comparison."""


@dataclass(frozen=True, slots=True)
class RecordedSettings:
    """How the recorded scheduler was configured, in the first run."""

    config: KubeSchedulerConfiguration
    gates: Mapping[str, bool]


def recorded_settings(runs: Sequence[RecordedRun]) -> RecordedSettings:
    """Raises RecordingError where no run has any, ConfigError where they cannot be used."""
    header = next((run.header for run in runs if run.segments), None)
    if header is None:
        raise RecordingError(*(problem for run in runs for problem in run.problems[:1]))
    return RecordedSettings(*settings_of(header))


def would_have(
    runs: Sequence[RecordedRun],
    recorded: RecordedSettings,
    name: str,
    config: KubeSchedulerConfiguration,
    registry: Registry,
    span: RecordedSpan | None = None,
    on_progress: RunProgress | None = None,
) -> Comparison:
    """Compare the recorded configuration with another one on what was recorded. Raises RunFault, RecordingError."""
    if missing := [text for run in runs for text in missing_plugins(run, registry)]:
        raise RecordingError("\n".join(missing))
    names = frozenset(profile.scheduler_name or DEFAULT_SCHEDULER_NAME for profile in recorded.config.profiles)
    load = recorded_load(runs, names, span or RecordedSpan())
    if not load.objects and not load.arrivals:
        raise RecordingError("\n".join(load.problems) or "nothing was recorded in this time")
    inputs = RunInputs(
        load.objects,
        load.arrivals,
        gates=recorded.gates,
        until_ns=load.over_ns,
        registry=registry,
        changes=load.changes,
        replaced=frozenset(load.evicted),
    )
    plans = [RunPlan(RECORDED, RECORDED, recorded.config), RunPlan(_distinct(name), name, config)]
    found = dict(run_here(inputs, plans, on_progress or (lambda done, total: None)))
    results = [found[i] for i in range(len(plans))]
    return comparison_of(inputs, plans, results, [*load.problems, *_notes(load, results[0])])


def _distinct(name: str) -> str:
    return name if name != RECORDED else f"{name} (2)"


def _notes(load: RecordedLoad, result: RunResult) -> list[str]:
    """How far the simulation is from what was recorded, and what its figures leave out."""
    notes, placements = [], unpack(result.placements)
    if placements:
        kept = {pod: None if pod in load.evicted else node for pod, node in load.placements.items()}
        same = sum(placements.get(pod) == node for pod, node in kept.items())
        reason = ": nodes with the same score are chosen by name here, and attempts take other times"
        notes.append(
            f"simulated under the recorded configuration, {same:,} of {len(kept):,} pods end where they ended"
            f"{reason if same < len(kept) else ''}"
        )
    if any(isinstance(change.item, Node) for change in load.changes):
        notes.append("nodes changed while it was recorded; utilisation is a share of the nodes at the end")
    return notes
