"""A recording as a cluster at a moment that moves: the source of a dashboard, and the time line that moves it.

Forward, a move makes the steps in between: a cursor replays a run of the recording up to some step, and can go on from
there. Backward, and far ahead, a move begins at the nearest state, one that the recording has or one that a move has
passed; what is shown stays until the new moment is reached. A move works in slices between turns of the event loop; a
newer one replaces it.
"""

import asyncio
from bisect import bisect_right, insort
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from time import perf_counter

from mooring.dashboard.interfaces import DecisionsPage, Program, Refused, SeekTarget, SourceFacts, TimeLineState
from mooring.dashboard.recorded_decisions import RecordedDecisions, RunSpan, SegmentStart
from mooring.dashboard.views.scheduling_flow import FlowCounters, PodStories, SelfCheckFigures
from mooring.framework.profile.registry import Registry
from mooring.kit.clock import in_millis
from mooring.scheduler.scheduler import Scheduler
from mooring.state.recording.recorded_steps import Outcome
from mooring.state.recording.run_reading import RecordedStep
from mooring.state.recording.segment_file import RecordingError
from mooring.state.replay.differences import BIND, EVICT, FAIL, NOMINATE, is_decision
from mooring.state.replay.replayer import RecordedClock, Replayer, ReplayHooks, ReplayMark
from mooring.state.replay.run_reader import UnusableSpan, moment_of
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


# ---- Places of a recording that moves have passed: a way back begins at one of them instead of at the last recorded
# state.


MAX_MARKS = 24
"""For all runs. Each takes some 150 bytes for a pod, and shares the objects."""
NEWEST = 6
"""Number of the newest marks that are never dropped: the next way back is most likely short."""
STEPS = 500
"""At least so many steps lie between two marks: some 0.1 s of a replay."""
STEPS_FOR_A_POD = 0.1
"""More in a large cluster, where a mark takes longer: 50 ms for 30,000 pods."""


class PassedMarks:
    """The marks of one run, in the order of their steps."""

    def __init__(self, min_steps: int = STEPS, max_marks: int = MAX_MARKS) -> None:
        self._min_steps, self._max_marks = min_steps, max_marks
        self._marks: list[CursorMark] = []

    def __len__(self) -> int:
        return len(self._marks)

    def before(self, is_behind: Callable[[CursorMark], bool]) -> CursorMark | None:
        """The last mark that is not behind a place."""
        return next((mark for mark in reversed(self._marks) if not is_behind(mark)), None)

    def pass_by(self, cursor: ReplayCursor) -> None:
        """Take a mark where the cursor is, if none is near."""
        nearest = self._marks[found - 1].steps if (found := bisect_right(self._marks, cursor.steps, key=_steps)) else 0
        apart = max(self._min_steps, int(len(cursor.scheduler.pods) * STEPS_FOR_A_POD))
        if cursor.steps - nearest < apart or (mark := cursor.mark()) is None:
            return
        insort(self._marks, mark, key=_steps)
        if len(self._marks) > self._max_marks:
            self._drop()

    def _drop(self) -> None:
        """Drop the mark that is missed least: the one whose neighbours are closest to each other."""
        marks = self._marks
        gaps = {i: marks[i + 1].steps - marks[i - 1].steps for i in range(1, max(len(marks) - NEWEST, 2))}
        del marks[min(gaps, key=lambda i: gaps[i])]


def _steps(mark: CursorMark) -> int:
    return mark.steps


SLICE_S = 0.005
"""How long a move works before others get their turn; there is no live scheduler in this process."""
_COUNTED = {BIND: "scheduled", FAIL: "unschedulable"}
FAR = 10
"""Times the steps between two marks: from there on it is quicker to begin at a state than to make the steps up to it."""
_MILLISECOND_NS = 1_000_000
MAX_STEPS = 2**53
"""Largest value of `step`: the largest integer that JSON numbers hold exactly."""


@dataclass(frozen=True, slots=True)
class RecordedPlace:
    """A place in a recording: right after a step, or after all steps up to a moment."""

    span: int
    """The number of the run."""
    step: int | None
    """How many steps of the run are made; None: those until `when_ns`."""
    when_ns: int
    """Time of the recorded clock at this place, in nanoseconds."""
    position: int
    """How many decisions are made there."""

    def is_behind(self, cursor: ReplayCursor | CursorMark) -> bool:
        """Whether the cursor, or what passed here before, has gone too far to reach the place."""
        return cursor.latest_ns > self.when_ns if self.step is None else cursor.steps > self.step

    def is_reached(self, cursor: ReplayCursor) -> bool:
        next_ns = cursor.next_ns()
        if next_ns is None:
            return True
        return next_ns > self.when_ns if self.step is None else cursor.steps >= self.step


class RecordedTimeLine:
    """Moves through a recording. `cursor` is what the dashboard shows."""

    def __init__(
        self,
        decisions: RecordedDecisions,
        registry: Registry | None = None,
        is_due: Callable[[float], bool] | None = None,
        mark_steps: int = STEPS,
    ) -> None:
        """`is_due` says whether a slice that began at this time is over. Raises RecordingError if nothing can be replayed."""
        self._decisions, self._registry = decisions, registry
        self._is_due = is_due or (lambda began_s: perf_counter() - began_s >= SLICE_S)
        if not decisions.spans:
            raise RecordingError("\n".join(decisions.problems) or "the recording has no run that can be read")
        self._density = decisions.density()
        self._marks = [PassedMarks(mark_steps) for _ in decisions.spans]
        self._far = FAR * mark_steps
        self.cursor, self._shown_span = self._first()
        self.version = 0
        self._now_ns = self.cursor.latest_ns
        self.flow = FlowCounters(self, [*self.cursor.scheduler.core.runners])
        """Counts what moves forward pass by."""
        self._target: RecordedPlace | None = None
        self._moving: asyncio.Task[None] | None = None
        self._replaced: asyncio.Future[None] | None = None
        """Ends when a newer move takes the place of the present one, or when that is over."""

    def _first(self) -> tuple[ReplayCursor, int]:
        """The beginning of the first run that can be replayed."""
        problems: list[str] = []
        for index, span in enumerate(self._decisions.spans):
            try:
                cursor = ReplayCursor(span, self._registry)
                for _ in cursor.prepare():
                    pass
                return cursor, index
            except RecordingError as fault:
                problems.append(str(fault))
        raise RecordingError("\n".join(problems))

    # ---- where it is

    def now_ns(self) -> int:
        """The moment that is shown."""
        return self._now_ns

    def state(self) -> TimeLineState:
        """State of the time line for the page: its bounds, the present time, and the number of decisions that are made."""
        decisions = self._decisions
        return TimeLineState(
            start=in_millis(decisions.start_ns),
            end=in_millis(decisions.end_ns),
            now=in_millis(self._now_ns),
            decisions=len(decisions),
            position=self.cursor.decisions,
            density=self._density,
            seeking=self._target is not None,
        )

    def decisions(self, after: int, limit: int) -> DecisionsPage:
        return DecisionsPage(list(self._decisions.lines(after, limit)), len(self._decisions))

    # ---- moving

    async def seek(self, target: SeekTarget) -> TimeLineState:
        """Move. Returns at the new moment, or earlier if another call has taken over. Raises Refused."""
        await self._go(self._place(target))
        return self.state()

    async def go_to(self, when_ns: int | None) -> None:
        """Move to a moment; None: to the end."""
        await self._go(self._at(self._decisions.end_ns if when_ns is None else when_ns))

    def _place(self, target: SeekTarget) -> RecordedPlace:
        """Convert the target of a seek into a place: after a decision, some decisions from the present place, or at a time.
        Raises Refused (422) for a time that cannot be read."""
        if target.decision is not None:
            return self._after(target.decision)
        if target.step is not None:
            present = self.cursor.decisions if self._target is None else self._target.position
            return self._after(present + min(max(target.step, -MAX_STEPS), MAX_STEPS))
        try:
            when_ns = moment_of(target.time or "", self._decisions.start_ns, "time")
        except UnusableSpan as fault:
            raise Refused(422, str(fault)) from None
        # The dashboard writes whole milliseconds: a time that it wrote means all of the last one.
        return self._at(when_ns - when_ns % _MILLISECOND_NS + _MILLISECOND_NS - 1)

    def _after(self, number: int) -> RecordedPlace:
        """The place right after a decision; a number that there is not means the nearest one."""
        decisions = self._decisions
        position = min(max(number, 0), len(decisions))
        if not position:
            return RecordedPlace(0, 0, decisions.spans[0].start_ns, 0)
        span = decisions.span_of(position)
        return RecordedPlace(span, decisions.step_of(position), decisions.time_ns(position), position)

    def _at(self, when_ns: int) -> RecordedPlace:
        """The place after all steps up to a moment."""
        decisions = self._decisions
        held_ns = min(max(when_ns, decisions.start_ns), decisions.end_ns)
        span = decisions.span_at(held_ns)
        return RecordedPlace(span, None, held_ns, decisions.made_until(span, held_ns))

    async def _go(self, place: RecordedPlace) -> None:
        if self._replaced is not None and not self._replaced.done():
            self._replaced.set_result(None)
        replaced = self._replaced = asyncio.get_running_loop().create_future()
        self._target = place
        if self._moving is None or self._moving.done():
            self._moving = asyncio.create_task(self._move())
        await replaced

    async def _move(self) -> None:
        """Reach the target, whichever it is by then."""
        fault: Exception | None = None
        try:
            while (place := self._target) is not None:
                if await self._reach(place) and self._target is place:
                    break
        except RecordingError as error:
            fault = Refused(503, str(error))
        except Exception as error:  # whoever asked for the move gets it
            fault = error
        finally:
            self._end(fault)

    def _end(self, fault: Exception | None) -> None:
        """End a seek: forget its target, and wake the request that waits for it, with the fault if there is one."""
        self._target = None
        self.version += 1
        waiting = self._replaced
        if waiting is None or waiting.done():
            return
        if fault is None:
            waiting.set_result(None)
        else:
            waiting.set_exception(fault)

    async def _reach(self, place: RecordedPlace) -> bool:
        """Bring a cursor to the place and show it. Returns False if another place is wanted meanwhile."""
        cursor = self._nearest(place)
        began_s = perf_counter()
        for _ in self._way(cursor, place):
            if self._is_due(began_s):
                if cursor is self.cursor:
                    self._now_ns = cursor.latest_ns
                await asyncio.sleep(0)
                if self._target is not place:
                    return False
                began_s = perf_counter()
        self.cursor, self._shown_span, self._now_ns = cursor, place.span, place.when_ns
        return True

    def _way(self, cursor: ReplayCursor, place: RecordedPlace) -> Iterator[None]:
        """Bring the cursor to the place, step by step."""
        yield from cursor.prepare()
        while not place.is_reached(cursor):
            made = cursor.make()
            if cursor is self.cursor and made.outcomes:
                self._count(made.outcomes)
            self._marks[place.span].pass_by(cursor)
            yield

    def _count(self, outcomes: Iterable[Outcome]) -> None:
        """The recording does not say how long attempts took."""
        for kind, pod, *_ in outcomes:
            if kind in _COUNTED:
                seen = self.cursor.scheduler.pods.get(pod)
                profile = seen.spec.scheduler_name if seen is not None else ""
                self.flow.attempts[profile, _COUNTED[kind]] += 1
            elif kind == EVICT:
                self.flow.victims += 1
                self.flow.evictions += 1
            elif kind == NOMINATE:
                self.flow.preemptions += 1

    def _nearest(self, place: RecordedPlace) -> ReplayCursor:
        """The cursor that is shown, if the place is not far ahead of it; else a new one, from the nearest state before."""
        span, shown = self._decisions.spans[place.span], self.cursor
        start = _start_before(span, place)
        mark = self._marks[place.span].before(place.is_behind)
        reached = max(start.steps if start is not None else 0, mark.steps if mark is not None else 0)
        if place.span == self._shown_span and not place.is_behind(shown) and reached - shown.steps <= self._far:
            return shown
        if mark is not None and mark.steps == reached:
            cursor = ReplayCursor(span, self._registry, mark=mark)
        else:
            cursor = ReplayCursor(span, self._registry, None if start is None else start.started_ns)
        cursor.stories.take_over(shown.stories, cursor.latest_ns)
        return cursor

    async def close(self) -> None:
        """End the move that is under way."""
        if self._moving is not None:
            self._moving.cancel()
            with suppress(asyncio.CancelledError):
                await self._moving


def _start_before(span: RunSpan, place: RecordedPlace) -> SegmentStart | None:
    """The last segment before a place that a replay can begin with; None: the beginning.

    Readers begin at the last segment of a time. Where the clock was set back, or segments begin at the same time, that may be
    one behind the place: then an earlier one is named.
    """
    starts = [start for start in span.segments.values() if start.is_start]
    if place.step is None:
        before = [start for start in starts if start.started_ns <= place.when_ns]
    else:
        step = place.step
        behind_ns = min((start.started_ns for start in starts if start.steps > step), default=None)
        before = [start for start in starts if start.steps <= step]
        before = [start for start in before if behind_ns is None or start.started_ns < behind_ns]
    return max(before, key=lambda start: start.started_ns, default=None)


# ---- The replaying scheduler of a recording as the source of a dashboard: every page shows the moment of the time
# line.


class RecordingSource:
    """Shows where the time line is. Stories have what was replayed: a move far ahead passes over some of it."""

    def __init__(self, program: Program, line: RecordedTimeLine) -> None:
        self._program: Program = program
        self._line = line
        self.flow: FlowCounters | None = line.flow

    @property
    def scheduler(self) -> Scheduler:
        return self._line.cursor.scheduler

    @property
    def stories(self) -> PodStories | None:
        return self._line.cursor.stories

    def now_ns(self) -> int:
        return self._line.now_ns()

    def facts(self) -> SourceFacts:
        return SourceFacts(self._program, [*self.scheduler.core.runners])

    def self_check(self) -> SelfCheckFigures | None:
        return None
