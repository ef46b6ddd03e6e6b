"""Runs a recording again and compares each step: a scheduler that is told the same at the same times decides the same."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from mooring.framework import config as configuration
from mooring.framework.config import ConfigError
from mooring.framework.config.feature_gates import GateError, parse_gates
from mooring.framework.config.settings import read_settings
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.contract.annotation_keys import AnnotationKeys
from mooring.framework.profile.registry import Registry
from mooring.model.meta import KubeObject
from mooring.model.release import RULES
from mooring.queue.entry import TellPod
from mooring.scheduler.decide import DecideOptions
from mooring.scheduler.inputs import ConfigurationChanged
from mooring.scheduler.observer import SchedulerListeners
from mooring.scheduler.scheduler import Scheduler
from mooring.scheduler.ties import BY_NAME_IN_FILES, lowest_name
from mooring.state.made_decision import MadeDecision, showing
from mooring.state.recording.recorded_steps import ATTEMPT, READ_ANNOTATIONS, RELEASE, Outcome, outcomes_of
from mooring.state.recording.run_reading import RecordedRun, RecordedStep, StepReader
from mooring.state.recording.segment_file import RecordingError, SegmentHeader
from mooring.state.replay.run_reader import ReadingMark, RunReader
from mooring.state.scheduler_assembly import SchedulerLimits, all_plugins, build_scheduler, configuration_change
from mooring.state.scheduler_state import SchedulerState, is_quiet, other_objects, restore, state_of

# ---- A scheduler as the header of a recording describes it, with a clock that shows the recorded times.


class RecordedClock:
    """Shows the time of the step that is being replayed."""

    now = 0

    def now_ns(self) -> int:
        return self.now


def scheduler_of(
    header: SegmentHeader,
    clock: RecordedClock,
    registry: Registry | None = None,
    tell: TellPod | None = None,
    decided: Callable[[MadeDecision], None] | None = None,
) -> Scheduler:
    """A scheduler as the header of a recording describes it. `decided` is called with each decision.

    Raises RecordingError, and ConfigError for a configuration that cannot be built here.
    """
    config, gates = settings_of(header)
    options = DecideOptions(BY_NAME_IN_FILES.get(header.tie_break, lowest_name))
    limits = SchedulerLimits(header.max_unschedulable_s)
    scheduler = build_scheduler(config, clock, registry, options, SchedulerListeners(tell), gates, limits)
    if header.seed or decided is not None:
        scheduler.decide_with(showing(decided or (lambda made: None), header.seed))
    return scheduler


_OLDER_GROUPS = ("GangScheduling=true", "WorkloadAwarePreemption=true")
"""Gates that Kubernetes v1.37 merged into GenericWorkload, along with the removal of scheduling.k8s.io/v1alpha2."""


def _refuse_older_groups(gates_text: str) -> None:
    """Raise RecordingError for a recording with pod groups as v1.36 had them: their members were queued one by one."""
    found = [gate for gate in gates_text.split(",") if gate.strip() in _OLDER_GROUPS]
    if found:
        raise RecordingError(
            f"the recording has pod groups of Kubernetes v1.36 (scheduling.k8s.io/v1alpha2, feature gate {found[0]}), which "
            "v1.37 replaced; replay it with the version of Mooring that recorded it"
        )


def settings_of(header: SegmentHeader) -> tuple[KubeSchedulerConfiguration, Mapping[str, bool]]:
    """The configuration and the feature gates of the scheduler that was recorded. Raises RecordingError, ConfigError."""
    settings = read_settings(header.settings, "the recording")
    if settings is None:
        raise RecordingError("the header of the recording has no configuration")
    try:
        _refuse_older_groups(settings.gates_text)
        gates = parse_gates(settings.gates_text)
    except GateError as fault:
        raise RecordingError(f"the feature gates of the recording cannot be used: {fault}") from fault
    return configuration.from_object(settings.configuration, feature_gates=gates), gates


def rules_notes(runs: Iterable[RecordedRun]) -> list[str]:
    """A note for each run that was recorded under other rules than those of this version, or on an API server of another
    release."""
    notes: dict[str, None] = {}
    for run in runs:
        if not run.segments:
            continue
        header = run.header
        settings = read_settings(header.settings, "the recording")
        if header.source == "scheduler":
            notes |= dict.fromkeys(settings.notes(f"the recording {run.name}") if settings is not None else ())
        elif header.server and not _is_of_release(header.server):
            notes[
                f"{run.name}: the API server was {header.server}; if kube-scheduler was of that release too, it decided by "
                f"other rules than those of {RULES}, which Mooring has"
            ] = None
    return [*notes]


def _is_of_release(version: str) -> bool:
    """Whether a version of a server, such as `v1.37.2+k3s1`, is of the release whose rules Mooring has."""
    return version.removeprefix("v").startswith(f"{RULES}.")


def missing_plugins(run: RecordedRun, registry: Registry | None) -> list[str]:
    """A sentence for each plugin of the run that is not here."""
    names = run.header.plugins if run.segments else []
    known = all_plugins() if registry is None and names else registry
    return [
        f"{run.name}: its plugin {name} is not installed; name its file with --plugin FILE"
        for name in names
        if known is not None and name not in known
    ]


def concealed_annotations(runs: Iterable[RecordedRun], registry: Registry) -> list[str]:
    """A note for each plugin of the recording that reads annotations of which the recording has digests only."""
    notes: dict[str, None] = {}
    undeclared = {*registry.undeclared_readers()}
    for header in (run.header for run in runs if run.segments):
        kept = AnnotationKeys.of(header.annotations)
        for name in header.plugins:
            missing = registry.annotation_keys(name).missing_in(READ_ANNOTATIONS | kept) if name in registry else []
            if missing or (name in undeclared and not kept):
                notes[_concealed(name, missing)] = None
    return [*notes]


def _concealed(name: str, missing: Sequence[str]) -> str:
    which = ", ".join(missing) or "it declares none"
    keys = ",".join(missing) or "KEY,..."
    return (
        f"plugin {name} reads annotations of which the recording has digests only ({which}), so its decisions may come out "
        f"otherwise; record with --keep-annotations {keys}"
    )


_ENCODER = msgspec.json.Encoder()
FAULTS = 5
"""How many faults of steps are listed one by one."""


@dataclass(frozen=True, slots=True)
class ReplayedStep:
    """A recorded step and what came out of it now."""

    number: int
    """Counted from the beginning of the replay of its run."""
    step: RecordedStep
    outcomes: tuple[Outcome, ...]

    @property
    def is_equal(self) -> bool:
        return self.outcomes == self.step.outcomes


@dataclass(frozen=True, slots=True)
class ReplayHooks:
    """Who follows a replay beside its steps."""

    tell: TellPod | None = None
    """Receives the stories of pods, as the scheduler tells them."""
    began: Callable[[Scheduler], None] | None = None
    """Called with each scheduler that the replay builds: one at the beginning, and one after each gap."""
    decided: Callable[[RecordedStep, MadeDecision], None] | None = None
    """Called with each decision before anything follows from it, and with the step that it belongs to."""
    restore: Callable[[Scheduler, SchedulerState], None] = restore
    """Brings a new scheduler into a recorded state, at once or at the latest before the next step."""


@dataclass(frozen=True, slots=True)
class ReplayMark:
    """A place between two steps of a replay."""

    header: SegmentHeader
    state: SchedulerState
    others: Mapping[str, Sequence[KubeObject]]
    """The objects of the state that are neither nodes nor pods."""
    reading: ReadingMark

    def whole_state(self) -> SchedulerState:
        written = {kind: [msgspec.Raw(_ENCODER.encode(item)) for item in items] for kind, items in self.others.items()}
        return msgspec.structs.replace(self.state, objects=written)


def why_not(run: RecordedRun, registry: Registry | None) -> list[str]:
    """Why a run cannot be replayed: it is not that of a scheduler, or not of one that can be built here."""
    if not run.segments:
        return []  # the reader says so
    if run.header.source != "scheduler":
        return [f"{run.name}: another scheduler decided here, and Mooring only watched: use `mooring agree`"]
    consequence = "Without it no decision of this run can be trusted, so the run is not replayed"
    return [f"{text}. {consequence}" for text in missing_plugins(run, registry)]


class Replayer:
    """Replays one run. `scheduler` is as it was recorded after the last step that `steps` returned."""

    def __init__(
        self,
        run: RecordedRun,
        registry: Registry | None = None,
        hooks: ReplayHooks | None = None,
        clock: RecordedClock | None = None,
    ) -> None:
        """`clock` is set to the time of each step; hooks may read it."""
        self.run = run
        self._registry = registry
        self._hooks = hooks or ReplayHooks()
        self._history = RunReader(run, self._begin)
        self.clock = clock or RecordedClock()
        self.scheduler: Scheduler | None = None
        """None before the first step."""
        self.begun: SegmentHeader | None = None
        """The header of the segment that the scheduler began with."""
        self.count = 0
        """How many steps were replayed."""
        self.fault_count = 0
        """How many steps ended in an exception. That is no difference in itself: they may have when they were recorded."""
        self.faults: dict[str, None] = {}
        """Their texts, some of them."""
        self._present: RecordedStep | None = None

    @property
    def problems(self) -> list[str]:
        """The parts that could not be replayed, and why. The others are replayed all the same."""
        return self._history.problems

    @property
    def reader(self) -> StepReader:
        """The reader of the run, which knows the objects as they were after the last step."""
        return self._history.reader

    @property
    def segments_done(self) -> int:
        return self._history.segments_done

    def steps(self, from_ns: int | None = None, until_ns: int | None = None) -> Iterator[ReplayedStep]:
        """All steps until a moment, from the last segment on whose state is older than `from_ns`."""
        for step in self.recorded_steps(from_ns, until_ns):
            yield self.repeat(step)

    def recorded_steps(self, from_ns: int | None = None, until_ns: int | None = None) -> Iterator[RecordedStep]:
        """The steps as they were recorded; the caller passes each to `repeat` before or after it takes the next."""
        if self._can_begin():
            yield from self._history.steps(from_ns, until_ns)

    def mark(self) -> "ReplayMark | None":
        """Where the replay is, for one that goes on from there; None while a plugin is in the middle of its work."""
        scheduler, header = self.scheduler, self.begun
        if scheduler is None or header is None or not is_quiet(scheduler):
            return None
        return ReplayMark(header, state_of(scheduler), other_objects(scheduler), self._history.mark())

    def resume(self, mark: "ReplayMark") -> Iterator[RecordedStep]:
        """Begin with the state of a mark. Returns the steps after those that were read before the mark."""
        self._begin(mark.header, mark.whole_state())
        return self._history.resume(mark.reading)

    def _can_begin(self) -> bool:
        problems = why_not(self.run, self._registry)
        self.problems.extend(problems)
        return not problems

    def _begin(self, header: SegmentHeader, state: SchedulerState | None) -> None:
        """Build a scheduler, in this state if there is one. Raises RecordingError."""
        hooks = self._hooks
        self.clock.now = header.started_ns if state is None else state.now_ns
        decided = None if hooks.decided is None else self._decided
        try:
            scheduler = scheduler_of(header, self.clock, self._registry, hooks.tell, decided)
        except ConfigError as fault:
            raise RecordingError(f"its configuration cannot be used: {fault.problems[0]}") from fault
        if state is not None:
            hooks.restore(scheduler, state)
        self.scheduler, self.begun = scheduler, header
        if hooks.began is not None:
            hooks.began(scheduler)

    def _decided(self, made: MadeDecision) -> None:
        if self._present is not None and self._hooks.decided is not None:
            self._hooks.decided(self._present, made)

    def _built(self, scheduler: Scheduler, change: ConfigurationChanged) -> ConfigurationChanged:
        """The change with profiles for the scheduler. Marks have the new settings from now on."""
        assert self.begun is not None
        header = msgspec.structs.replace(self.begun, settings=change.settings)
        config, gates = settings_of(header)
        limits = SchedulerLimits(header.max_unschedulable_s)
        built = configuration_change(scheduler, config, self._registry, gates, limits)
        self.begun = header
        return built

    def repeat(self, step: RecordedStep) -> ReplayedStep:
        """Do one step again. A step that raised when it was recorded raises again: what it had changed by then counts."""
        scheduler = self.scheduler
        assert scheduler is not None
        self.clock.now = step.now_ns
        self._present = step
        try:
            if step.code == ATTEMPT:
                scheduler.attempt()
            elif step.code == RELEASE:
                scheduler.release_waiting()
            elif isinstance(step.input, ConfigurationChanged):
                scheduler.handle(self._built(scheduler, step.input))
            elif step.input is not None:
                scheduler.handle(step.input)
        except Exception as fault:
            self.fault_count += 1
            if len(self.faults) < FAULTS:
                self.faults[f"{type(fault).__name__}: {fault}"] = None
        self.count += 1
        return ReplayedStep(self.count, step, tuple(outcomes_of(scheduler.take_intents())))
