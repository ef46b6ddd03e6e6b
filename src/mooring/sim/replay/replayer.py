"""Runs a recording again and compares each step: a scheduler that is told the same at the same times decides the same."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import msgspec

from mooring.framework.config import ConfigError
from mooring.framework.registry import Registry
from mooring.kit.clock import in_seconds
from mooring.recording.reading import RecordedRun, RecordedStep, StepReader
from mooring.recording.segment_file import RecordingError, SegmentReader
from mooring.recording.steps import ATTEMPT, RELEASE, Outcome, outcomes_of
from mooring.scheduler.core import Tell
from mooring.scheduler.saved_state import SavedState, restore
from mooring.scheduler.scheduler import Scheduler
from mooring.sim.replay.recorded_settings import MadeDecision, RecordedClock, missing_plugins, scheduler_of

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

    tell: Tell | None = None
    """Receives the stories of pods, as the scheduler tells them."""
    began: Callable[[Scheduler], None] | None = None
    """Called with each scheduler that the replay builds: one at the beginning, and one after each gap."""
    decided: Callable[[RecordedStep, MadeDecision], None] | None = None
    """Called with each decision before anything follows from it, and with the step that it belongs to."""


class Replayer:
    """Replays one run. `scheduler` is as it was recorded after the last step that `steps` returned.

    After a gap the replay goes on from the next state that was recorded; `problems` says where that was.
    """

    def __init__(
        self,
        run: RecordedRun,
        registry: Registry | None = None,
        hooks: ReplayHooks | None = None,
        clock: RecordedClock | None = None,
    ) -> None:
        """`clock` is set to the time of each step; hooks may read it."""
        self.run = run
        self.problems = list(run.problems)
        """What could not be replayed, and why; what can be replayed all the same."""
        self._registry = registry
        self._hooks = hooks or ReplayHooks()
        self.clock = clock or RecordedClock(0)
        self.scheduler: Scheduler | None = None
        """None: the steps that come next cannot be replayed, because what was before them is not known."""
        self.reader = StepReader(0)
        self.count = 0
        """How many steps were replayed."""
        self.fault_count = 0
        """How many steps ended in an exception. It need not be a difference: it may have done so when it was recorded."""
        self.faults: dict[str, None] = {}
        """Their texts, some of them."""
        self.segments_done = 0
        self._present: RecordedStep | None = None
        self._is_over = False

    def steps(self, from_ns: int | None = None, until_ns: int | None = None) -> Iterator[ReplayedStep]:
        """All steps until a moment, from the last segment on whose state is older than `from_ns`."""
        if not self._can_begin():
            return
        before: SegmentReader | None = None
        for segment in self._segments(from_ns):
            self._is_over = until_ns is not None and segment.header.started_ns > until_ns
            if not self._is_over:
                yield from self._replay(segment, before, until_ns)
            if self._is_over:
                return
            before = segment
            self.segments_done += 1

    def _can_begin(self) -> bool:
        """Whether there is anything to replay, and all that it takes."""
        if not self.run.segments:
            self.problems.append(f"{self.run.name}: the run has no segment that can be read; it is not replayed")
            return False
        if self.run.header.source != "scheduler":
            self.problems.append(
                f"{self.run.name}: another scheduler decided here, and Mooring only watched: use `mooring agree`"
            )
            return False
        missing = missing_plugins(self.run.header, self._registry)
        for name in missing:
            self.problems.append(
                f"{self.run.name}: its plugin {name} is not installed; name its file with --plugin FILE. "
                "Without it the decisions of this run mean nothing, so the run is not replayed"
            )
        return not missing

    def _segments(self, from_ns: int | None) -> list[SegmentReader]:
        """The segments to replay: from the last one that begins before the moment and has all that is needed."""
        start = 0
        for index, segment in enumerate(self.run.segments if from_ns is not None else ()):
            if segment.header.begins != "gap" and segment.header.started_ns <= (from_ns or 0):
                start = index
        return self.run.segments[start:]

    # ---- one segment

    def _replay(
        self, segment: SegmentReader, before: SegmentReader | None, until_ns: int | None
    ) -> Iterator[ReplayedStep]:
        blocks = segment.blocks()
        try:
            self._begin(segment, before, blocks)
            for block in blocks:
                for step in self.reader.steps(block):
                    if until_ns is not None and step.now_ns > until_ns:
                        self._is_over = True
                        return
                    yield self._repeat(step)
            if segment.damage is not None:
                raise RecordingError(segment.damage)
        except RecordingError as fault:
            self._stop(segment, str(fault))

    def _begin(self, segment: SegmentReader, before: SegmentReader | None, blocks: Iterator[bytes]) -> None:
        """Make sure that the scheduler is as it was where the segment begins. Raises RecordingError."""
        header = segment.header
        if before is not None and self.scheduler is not None:
            self._note_gap(before, segment)
        if header.begins == "state":
            block = next(blocks, None)
            if block is None:
                raise RecordingError(segment.damage or "its state was not written")
            if self.scheduler is None:
                self._go_on_from(segment, block)
        elif header.begins == "empty":
            self._start(segment)
        if self.scheduler is None:
            raise RecordingError("the steps before it are gone, and it has no state to go on from")

    def _note_gap(self, before: SegmentReader, segment: SegmentReader) -> None:
        """Steps are missing between two segments: what is known of the scheduler no longer holds."""
        header = segment.header
        begins = f"the replay goes on at {in_seconds(header.started_ns)}"
        if header.lost:
            self.problems.append(f"{segment.path}: {header.lost:,} steps before it were not recorded; {begins}")
        elif header.number != before.header.number + 1:
            self.problems.append(
                f"{segment.path}: the segments between {before.path.name} and this one are missing; {begins}"
            )
        else:
            return
        self.scheduler = None

    def _stop(self, segment: SegmentReader, reason: str) -> None:
        """The segment ends early: the next one must have a state."""
        is_at_work = self.scheduler is not None and self.clock.now > segment.header.started_ns
        until = f"replayed until {in_seconds(self.clock.now)}" if is_at_work else "not replayed"
        following = [each for each in self.run.segments if each.header.number > segment.header.number]
        next_one = next((each for each in following if each.header.begins != "gap"), None)
        on = (
            "nothing follows" if next_one is None else f"the replay goes on at {in_seconds(next_one.header.started_ns)}"
        )
        self.problems.append(f"{segment.path}: {reason}; {until}, {on}")
        self.scheduler = None

    # ---- a scheduler as it was

    def _start(self, segment: SegmentReader) -> None:
        """A scheduler that knows nothing. Raises RecordingError."""
        hooks, header = self._hooks, segment.header
        self.clock.now = header.started_ns
        self.reader = StepReader(header.started_ns)
        try:
            self.scheduler = scheduler_of(
                header, self.clock, self._registry, hooks.tell, None if hooks.decided is None else self._decided
            )
        except ConfigError as fault:
            raise RecordingError(f"the recorded configuration cannot be used: {fault.problems[0]}") from fault
        if hooks.began is not None:
            hooks.began(self.scheduler)

    def _go_on_from(self, segment: SegmentReader, block: bytes) -> None:
        self._start(segment)
        scheduler, self.scheduler = self.scheduler, None
        assert scheduler is not None
        try:
            state = msgspec.json.decode(block, type=SavedState)
            self.clock.now = state.now_ns
            self.reader.know(state)
            restore(scheduler, state)
        except (msgspec.MsgspecError, KeyError, IndexError, ValueError) as fault:
            raise RecordingError(f"its state cannot be read: {fault}") from fault
        self.scheduler = scheduler

    def _decided(self, made: MadeDecision) -> None:
        if self._present is not None and self._hooks.decided is not None:
            self._hooks.decided(self._present, made)

    # ---- one step

    def _repeat(self, step: RecordedStep) -> ReplayedStep:
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
            elif step.input is not None:
                scheduler.handle(step.input)
        except Exception as fault:
            self._note_fault(fault)
        self.count += 1
        return ReplayedStep(self.count, step, tuple(outcomes_of(scheduler.take_intents())))

    def _note_fault(self, fault: Exception) -> None:
        self.fault_count += 1
        if len(self.faults) < FAULTS:
            self.faults[f"{type(fault).__name__}: {fault}"] = None
