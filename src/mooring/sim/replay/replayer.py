"""Runs a recording again and compares each step: a scheduler that is told the same at the same times decides the same."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import msgspec

from mooring.cluster.cluster import Cluster
from mooring.framework import config as configuration
from mooring.framework.config.feature_gates import parse_gates
from mooring.framework.config.settings import read_settings
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.registry import Registry
from mooring.framework.runner import Runner
from mooring.model.pod import Pod
from mooring.recording.reading import RecordedRun, RecordedStep, StepReader
from mooring.recording.segment_file import RecordingError, SegmentHeader, SegmentReader
from mooring.recording.steps import ATTEMPT, RELEASE, Outcome, outcomes_of
from mooring.scheduler.assembly import build_scheduler
from mooring.scheduler.core import Deciding
from mooring.scheduler.decide import DecideOptions, by_seed, deciding, lowest_name
from mooring.scheduler.decision import Decision
from mooring.scheduler.extenders.interest import InterestedExtenders
from mooring.scheduler.extenders.steps import Steps
from mooring.scheduler.saved_state import SavedState, restore
from mooring.scheduler.scheduler import Scheduler


class RecordedClock:
    """Shows the time of the step that is being replayed."""

    def __init__(self, now_ns: int) -> None:
        self.now = now_ns

    def now_ns(self) -> int:
        return self.now


@dataclass(frozen=True, slots=True)
class ReplayedStep:
    """A recorded step and what came out of it now."""

    number: int
    """Counted from the beginning of the replay."""
    step: RecordedStep
    outcomes: tuple[Outcome, ...]

    @property
    def is_equal(self) -> bool:
        return self.outcomes == self.step.outcomes


class Replayer:
    """Replays one run. `scheduler` is as it was recorded after the last step that `steps` returned."""

    def __init__(self, run: RecordedRun, registry: Registry | None = None) -> None:
        self.run = run
        self.problems = list(run.problems)
        """What could not be replayed, and why."""
        self._registry = registry
        self.clock = RecordedClock(0)
        self.scheduler: Scheduler | None = None
        self.reader = StepReader(0)
        self._count = 0

    def steps(self, from_ns: int | None = None) -> Iterator[ReplayedStep]:
        """All steps, from the last segment on whose state is older than `from_ns`."""
        for segment in self._segments(from_ns):
            yield from self._replay(segment)

    def _segments(self, from_ns: int | None) -> list[SegmentReader]:
        """The segments to replay: from the last one that begins before the moment and has all that is needed."""
        start = 0
        for index, segment in enumerate(self.run.segments):
            header = segment.header
            if header.begins != "steps" and (from_ns is None or header.started_ns <= from_ns):
                start = index if from_ns is not None else start
        return self.run.segments[start:]

    def _replay(self, segment: SegmentReader) -> Iterator[ReplayedStep]:
        blocks = segment.blocks()
        if segment.header.begins == "state":
            block = next(blocks, None)
            if block is None:
                self._stop(segment, "its state was not written")
                return
            if self.scheduler is None or segment.header.lost:
                self._go_on_from(segment.header, block)
        elif segment.header.begins == "empty":
            self._start(segment.header)
        if self.scheduler is None:
            self._stop(segment, "the steps before it are gone, and it has no state to go on from")
            return
        for block in blocks:
            for step in self.reader.steps(block):
                yield self._repeat(step)
        if segment.damage is not None:
            self._stop(segment, segment.damage)
        elif not segment.is_ended and segment is not self.run.segments[-1]:
            self._stop(segment, "its end is missing")

    def _stop(self, segment: SegmentReader, reason: str) -> None:
        """The segment ends early: the next one must have a state."""
        self.problems.append(f"{segment.path}: {reason}")
        self.scheduler = None

    def _start(self, header: SegmentHeader) -> None:
        self.clock.now = header.started_ns
        self.reader = StepReader(header.started_ns)
        self.scheduler = scheduler_of(header, self.clock, self._registry)

    def _go_on_from(self, header: SegmentHeader, block: bytes) -> None:
        self._start(header)
        try:
            state = msgspec.json.decode(block, type=SavedState)
        except msgspec.MsgspecError as fault:
            raise RecordingError(f"the state at the beginning of a segment cannot be read: {fault}") from fault
        self.clock.now = state.now_ns
        self.reader.know(state)
        assert self.scheduler is not None
        restore(self.scheduler, state)

    def _repeat(self, step: RecordedStep) -> ReplayedStep:
        """Do one step again."""
        scheduler = self.scheduler
        assert scheduler is not None
        self.clock.now = step.now_ns
        if step.code == ATTEMPT:
            scheduler.attempt()
        elif step.code == RELEASE:
            scheduler.release_waiting()
        elif step.input is not None:
            scheduler.handle(step.input)
        self._count += 1
        return ReplayedStep(self._count, step, tuple(outcomes_of(scheduler.take_intents())))


def scheduler_of(header: SegmentHeader, clock: RecordedClock, registry: Registry | None = None) -> Scheduler:
    """A scheduler as the header of a recording describes it."""
    config, gates = settings_of(header)
    tie_break = by_seed if header.tie_break == "seed" else lowest_name
    options = DecideOptions(tie_break=tie_break, examine_all=header.examine_all)
    scheduler = build_scheduler(
        config, clock, registry, options, gates=gates, max_unschedulable_s=header.max_unschedulable_s
    )
    if header.seed:
        scheduler.decide_with(deciding_with_seed(header.seed))
    return scheduler


def deciding_with_seed(seed: int) -> Deciding:
    """Decides as ever, with seeds that `seed` changes."""

    def decide(
        runner: Runner,
        pod: Pod,
        cluster: Cluster,
        options: DecideOptions,
        attempt: int,
        interested: InterestedExtenders | None,
    ) -> Steps[Decision]:
        return deciding(runner, pod, cluster, options, seed + attempt, interested)

    return decide


def settings_of(header: SegmentHeader) -> tuple[KubeSchedulerConfiguration, Mapping[str, bool]]:
    """The configuration and the feature gates of the scheduler that was recorded."""
    settings = read_settings(header.settings, "the recording")
    if settings is None:
        raise RecordingError("the header of the recording has no configuration")
    gates = parse_gates(settings.gates_text)
    return configuration.from_object(settings.configuration, feature_gates=gates), gates
