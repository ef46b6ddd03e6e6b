"""A run of a recording that is replayed up to some step, and can go on from there."""

from collections.abc import Iterator
from dataclasses import dataclass

from mooring.dashboard.timeline.recorded_decisions import RunSpan
from mooring.dashboard.views.pod_stories import PodStories
from mooring.framework.profile.registry import Registry
from mooring.scheduler.scheduler import Scheduler
from mooring.state.recording.run_reading import RecordedStep
from mooring.state.recording.segment_file import RecordingError
from mooring.state.replay.differences import is_decision
from mooring.state.replay.replayer import RecordedClock, Replayer, ReplayHooks, ReplayMark
from mooring.state.scheduler_state import SchedulerState, restoring


@dataclass(frozen=True, slots=True)
class CursorMark:
    """A place that a cursor has passed."""

    steps: int
    decisions: int
    latest_ns: int
    next: RecordedStep
    """The step that follows: it is read, and not made."""
    replay: ReplayMark


class ReplayCursor:
    """Stands between two steps of a run. It has read the next step, and not made it."""

    def __init__(
        self,
        span: RunSpan,
        registry: Registry | None = None,
        from_ns: int | None = None,
        mark: "CursorMark | None" = None,
    ) -> None:
        """From the mark on, or from the last state before `from_ns`, or from the beginning; `prepare` comes next.

        Raises RecordingError if there is nothing to replay.
        """
        self.span = span
        clock = RecordedClock()
        self.stories = PodStories(clock.now_ns)
        """Stories of pods, up to the last replayed step."""
        self._restoring: Iterator[None] = iter(())
        """Remaining work until the scheduler has the state that the replay begins with."""
        hooks = ReplayHooks(tell=self.stories.tell, began=self._began, restore=self._restore)
        self._replayer = Replayer(span.run, registry, hooks, clock)
        self.steps = 0
        """How many steps of the run are made."""
        self.decisions = span.first_decision
        """How many decisions of the recording are made."""
        self.latest_ns = span.start_ns
        """The latest time of a step that was made."""
        if mark is None:
            self._begin(from_ns)
        else:
            self._resume(mark)

    def _begin(self, from_ns: int | None) -> None:
        replayer = self._replayer
        self._recorded = replayer.recorded_steps(from_ns)
        self._next: RecordedStep | None = next(self._recorded, None)
        if replayer.scheduler is None:
            raise RecordingError("\n".join(replayer.problems) or f"{self.span.run.name}: there is nothing to replay")
        self.latest_ns = replayer.clock.now_ns()

    def _resume(self, mark: "CursorMark") -> None:
        self._recorded = self._replayer.resume(mark.replay)
        self._next = mark.next
        self.steps, self.decisions, self.latest_ns = mark.steps, mark.decisions, mark.latest_ns

    def mark(self) -> "CursorMark | None":
        """This place, for a cursor that begins here; None at the end, and while a plugin is in the middle of its work."""
        replay = self._replayer.mark() if self._next is not None else None
        if replay is None or self._next is None:
            return None
        return CursorMark(self.steps, self.decisions, self.latest_ns, self._next, replay)

    @property
    def scheduler(self) -> Scheduler:
        """The scheduler as it was recorded after the last step that was made."""
        scheduler = self._replayer.scheduler
        assert scheduler is not None
        return scheduler

    def _restore(self, scheduler: Scheduler, state: SchedulerState) -> None:
        self._restoring = restoring(scheduler, state)

    def prepare(self) -> Iterator[None]:
        """Bring the scheduler into the state that it begins with, in parts. Raises RecordingError."""
        try:
            yield from self._restoring
        except Exception as fault:  # a state that was written by hand may contradict itself in any way
            raise RecordingError(
                f"{self.span.run.name}: a state cannot be used: {type(fault).__name__}: {fault}"
            ) from fault

    def _began(self, scheduler: Scheduler) -> None:
        """A replay begins, or goes on after a gap: the segment says how much lies before it."""
        header = self._replayer.begun
        assert header is not None
        start = self.span.segments.get(header.number)
        if start is not None:
            self.steps, self.decisions = start.steps, start.decisions

    def next_ns(self) -> int | None:
        """The time of the next step; None at the end, and at the end of what was there when the recording was read."""
        return self._next.now_ns if self._next is not None and self.steps < self.span.steps else None

    def make(self) -> RecordedStep:
        """Make the next step, and return it."""
        step = self._next
        assert step is not None
        self._replayer.repeat(step)
        self.steps += 1
        self.decisions += bool(step.outcomes) and is_decision(step.outcomes)
        self.latest_ns = max(self.latest_ns, step.now_ns)
        self._next = next(self._recorded, None)
        for _ in self.prepare():  # a gap lies before the next step: another scheduler goes on behind it
            pass
        return step
