"""Reads the steps of a run over all of its segments, and says what is missing.

After a gap the steps go on where the next state was recorded: what lies between is left out, because nobody knows what the
scheduler knew there.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from mooring.framework.config.durations import parse_duration
from mooring.kit.clock import in_seconds, moment_ns
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodSpec
from mooring.scheduler.inputs import ObjectAdded
from mooring.state.recording.recorded_steps import ADDED
from mooring.state.recording.run_reading import RecordedRun, RecordedStep, StepReader, read_state
from mooring.state.recording.segment_file import RecordingError, SegmentHeader, SegmentReader
from mooring.state.scheduler_state import SchedulerState

# ---- The part of a recording that a question is about: from a time on, until a time.


class UnusableSpan(ValueError):
    """A time that cannot be understood, or times that contradict each other; the text says why."""


@dataclass(frozen=True, slots=True)
class RecordedSpan:
    """None: from the first step on, until the last one."""

    from_ns: int | None = None
    until_ns: int | None = None


def began_ns(runs: Sequence[RecordedRun]) -> int:
    """When the first of the runs begins, as far as it is still there; 0 if no segment can be read."""
    return min((segment.header.started_ns for run in runs for segment in run.segments), default=0)


def span_of(runs: Sequence[RecordedRun], begin: str | None, end: str | None) -> RecordedSpan:
    """The span of two texts, each a time or a duration since the beginning of the recording. Raises UnusableSpan."""
    start_ns = began_ns(runs)
    from_ns = None if begin is None else moment_of(begin, start_ns, "--from")
    until_ns = None if end is None else moment_of(end, start_ns, "--until")
    if until_ns is not None and until_ns < start_ns:
        raise UnusableSpan(f"--until {end}: the recording begins later, at {in_seconds(start_ns)}")
    if from_ns is not None and until_ns is not None and until_ns < from_ns:
        raise UnusableSpan(f"--until {end}: this is before --from {begin}")
    return RecordedSpan(from_ns, until_ns)


def moment_of(text: str, start_ns: int, option: str) -> int:
    """A time in RFC 3339, or a duration since `start_ns`. Raises UnusableSpan."""
    passed_ns = parse_duration(text)
    found = start_ns + passed_ns if passed_ns is not None else _written_ns(text)
    if found is None:
        example = in_seconds(start_ns)
        raise UnusableSpan(
            f"{option} {text}: neither a time such as {example} nor a duration from the beginning such as 10m"
        )
    return found


def _written_ns(text: str) -> int | None:
    """A time with its zone; None for anything else."""
    try:
        return moment_ns(text) if datetime.fromisoformat(text).tzinfo is not None else None
    except (ValueError, OverflowError):
        return None


Began = Callable[[SegmentHeader, SchedulerState | None], None]
"""Called where steps begin that do not follow from those before: with an empty scheduler (None), or with its state. May raise
RecordingError: then the segment is left out."""
MakeReader = Callable[[int, int | None], StepReader]
"""Called with the time at which a segment begins, and with the end of what is read."""


@dataclass(frozen=True, slots=True)
class ReadingMark:
    """Right after a step of a run, for a reader that goes on from there."""

    segment: int
    """Position of the segment in the run."""
    steps: int
    """How many steps of the segment were read."""
    now_ns: int
    objects: Mapping[tuple[str, str], KubeObject]
    specs: Mapping[int, PodSpec]
    """Pod specs by number that later lines of the segment refer to."""


class RunReader:
    """The steps of one run, in order."""

    _NOTHING_BEFORE = "the steps before it are gone, and it has no state to go on from"

    def __init__(self, run: RecordedRun, began: Began, make_reader: MakeReader = StepReader) -> None:
        self.run = run
        self.problems = list(run.problems)
        """Messages about missing parts of the run, and about the place where the steps continue."""
        self._make_reader = make_reader
        self.reader = make_reader(0, None)
        """Reader of the present segment. It knows the objects as they were after the last step."""
        self.segments_done = 0
        self._began = began
        self._is_known = False
        """Whether steps can be read: all that was before them is known."""
        self._until_ns: int | None = None
        self._checked: tuple[SegmentReader, SchedulerState] | None = None
        """The state of the segment to begin with, which was read to see whether it can be."""
        self._segment = self._read = 0
        """The segment that is being read, and how many of its steps were."""

    def steps(self, from_ns: int | None = None, until_ns: int | None = None) -> Iterator[RecordedStep]:
        """All steps until a moment, from the last segment on whose state is older than `from_ns`."""
        if not self.run.segments:
            self.problems.append(f"{self.run.name}: the run has no segment that can be read")
        self._until_ns = until_ns
        yield from self._over(self._segments(from_ns))

    def mark(self) -> ReadingMark:
        """Where the reader is, after a step."""
        reader = self.reader
        return ReadingMark(self._segment, self._read, reader.now_ns, dict(reader.objects), dict(reader.specs))

    def resume(self, mark: ReadingMark) -> Iterator[RecordedStep]:
        """The steps after a mark that a reader of this run has made."""
        self.reader = self._make_reader(mark.now_ns, None)
        self.reader.objects, self.reader.specs = dict(mark.objects), dict(mark.specs)
        self._is_known = True
        yield from self._over(self.run.segments[mark.segment :], mark.steps)

    def _over(self, segments: Sequence[SegmentReader], skipped: int = 0) -> Iterator[RecordedStep]:
        """The steps of the segments, without the first ones if they were read before."""
        before: SegmentReader | None = None
        for segment in segments:
            if self._until_ns is not None and segment.header.started_ns > self._until_ns:
                return
            self._segment, self._read = self.run.segments.index(segment), skipped
            yield from self._steps_of(segment, before, skipped)
            skipped = 0
            if self.reader.is_over:
                return
            before = segment
            self.segments_done += 1

    def _segments(self, from_ns: int | None) -> list[SegmentReader]:
        """From the last segment on that begins before the moment and has all that is needed."""
        segments = self.run.segments
        if from_ns is None:
            return segments
        starts = [i for i, segment in enumerate(segments) if segment.header.started_ns <= from_ns]
        return segments[next((i for i in reversed(starts) if self._can_begin(segments[i])), 0) :]

    def _can_begin(self, segment: SegmentReader) -> bool:
        """Whether nothing before the segment is needed."""
        if segment.header.begins != "state":
            return segment.header.begins == "empty"
        try:
            self._checked = segment, read_state(next(segment.blocks(), b""))
        except RecordingError:
            return False
        return True

    def _steps_of(self, segment: SegmentReader, before: SegmentReader | None, skipped: int) -> Iterator[RecordedStep]:
        """The steps of one segment. What is wrong with it becomes a problem, not an exception."""
        blocks = segment.blocks()
        try:
            if skipped:
                blocks = _after(blocks, skipped, has_state=segment.header.begins == "state")
            else:
                self._begin(segment, before, blocks)
            for block in blocks:
                for step in self.reader.steps(block):
                    self._read += 1
                    yield step
                if self.reader.is_over:
                    return
            if segment.damage is not None:
                raise RecordingError(segment.damage)
            if not segment.is_ended and segment is not self.run.segments[-1]:
                self._miss_end(segment)
        except RecordingError as fault:
            self._stop(segment, str(fault))

    # ---- where segments meet

    def _miss_end(self, segment: SegmentReader) -> None:
        """The process ended before it could end the segment."""
        raise RecordingError("its end is missing")

    def _begin(self, segment: SegmentReader, before: SegmentReader | None, blocks: Iterator[bytes]) -> None:
        """Make sure that all is known that the steps of the segment follow from. Raises RecordingError."""
        header = segment.header
        if before is not None and self._is_known:
            self._note_gap(before, segment)
        if header.begins == "state":
            block = next(blocks, None)
            if block is None:
                raise RecordingError(segment.damage or "its state was not written")
            if not self._is_known:
                self._go_on_from(header, self._state(segment, block))
        elif header.begins == "empty":
            self._begin_empty(header)
        if not self._is_known:
            raise RecordingError(self._NOTHING_BEFORE)

    def _begin_empty(self, header: SegmentHeader) -> None:
        self.reader = self._make_reader(header.started_ns, self._until_ns)
        self._began(header, None)
        self._is_known = True

    def _state(self, segment: SegmentReader, block: bytes) -> SchedulerState:
        checked, self._checked = self._checked, None
        return checked[1] if checked is not None and checked[0] is segment else read_state(block)

    def _go_on_from(self, header: SegmentHeader, state: SchedulerState) -> None:
        """Let reader and scheduler go on from a recorded state. Raises RecordingError."""
        self.reader = self._make_reader(header.started_ns, self._until_ns)
        try:
            self.reader.know(state)
            self._began(header, state)
        except RecordingError:
            raise
        except Exception as fault:  # a state that was written by hand may contradict itself in any way
            raise RecordingError(f"its state cannot be used: {type(fault).__name__}: {fault}") from fault
        self._is_known = True

    def _note_gap(self, before: SegmentReader, segment: SegmentReader) -> None:
        """Steps are missing between two segments: what is known no longer holds."""
        header = segment.header
        begins = f"the replay goes on at {in_seconds(header.started_ns)}"
        if header.lost:
            self.problems.append(f"{segment.path}: {header.lost:,} steps before it were not recorded; {begins}")
        elif header.number != before.header.number + 1:
            between = f"the segments between {before.path.name} and this one are missing"
            self.problems.append(f"{segment.path}: {between}; {begins}")
        else:
            return
        self._is_known = False

    def _stop(self, segment: SegmentReader, reason: str) -> None:
        """The segment ends early: the next one must have a state."""
        is_read = self._is_known and self.reader.now_ns > segment.header.started_ns
        until = f"replayed until {in_seconds(self.reader.now_ns)}" if is_read else "not replayed"
        following = [each for each in self.run.segments if each.header.number > segment.header.number]
        on = next((each.header.started_ns for each in following if each.header.begins != "steps"), None)
        goes_on = "nothing follows" if on is None else f"the replay goes on at {in_seconds(on)}"
        self.problems.append(f"{segment.path}: {reason}; {until}, {goes_on}")
        self._is_known = False


# ---- The changes of the cluster of a run, whoever scheduled it.


@dataclass(frozen=True, slots=True)
class ClusterBegins:
    """Marks where the steps do not go on from those before: the objects of the cluster come first."""

    header: SegmentHeader


@dataclass(frozen=True, slots=True)
class ClusterStep:
    """A recorded step. `is_known`: it says what was there when a segment began, not what happened."""

    step: RecordedStep
    is_known: bool = False
    assumed_on: str = ""
    """For a known pod: the node that the recorded scheduler had decided on, with the binding under way."""


class ClusterReader(RunReader):
    """The steps of a run, of an observer as well, with the objects where they begin. A gap is no problem in itself: the
    objects tell what was there after it."""

    _NOTHING_BEFORE = "the steps before it are missing, and it does not say what was there"

    def __init__(self, run: RecordedRun) -> None:
        super().__init__(run, self._note_begin)
        self._begun: list[ClusterBegins | ClusterStep] = []
        """Beginnings and known objects to be given before the next step."""
        self._known = 0
        """How many of the next steps say what was there."""

    def __iter__(self) -> Iterator[ClusterBegins | ClusterStep]:
        for step in self.steps():
            yield from self._take_begun()
            yield ClusterStep(step, is_known=self._known > 0)
            self._known -= 1
        yield from self._take_begun()

    def _take_begun(self) -> list[ClusterBegins | ClusterStep]:
        begun, self._begun = self._begun, []
        return begun

    def _note_begin(self, header: SegmentHeader, state: SchedulerState | None) -> None:
        """Take the state of a scheduler as steps that add its objects."""
        self._known = header.known
        self._begun.append(ClusterBegins(header))
        if state is None:
            return
        self.reader.now_ns = state.now_ns
        ids = set(state.assumed)
        assumed = {pod.id: pod.spec.node_name for pod in state.pods if pod.id in ids and pod.spec.node_name}
        for item in sorted(self.reader.objects.values(), key=lambda item: not isinstance(item, Node)):
            node = assumed.get(item.id, "") if isinstance(item, Pod) and not item.spec.node_name else ""
            step = RecordedStep(ADDED, state.now_ns, ObjectAdded(item), ())
            self._begun.append(ClusterStep(step, True, node))

    def _begin(self, segment: SegmentReader, before: SegmentReader | None, blocks: Iterator[bytes]) -> None:
        """An observer has no state: each of its segments begins with the objects."""
        header = segment.header
        if header.begins != "objects":
            super()._begin(segment, before, blocks)
            return
        if before is not None and self._is_known:
            self._note_gap(before, segment)
        if not self._is_known:
            self._begin_empty(header)
            return
        left = header.known  # blocks of known objects have no other steps in them
        while left > 0 and (block := next(blocks, None)) is not None:
            left -= block.count(b"\n") + 1
        self.reader.now_ns = header.started_ns

    def _note_gap(self, before: SegmentReader, segment: SegmentReader) -> None:
        header = segment.header
        is_next = not header.lost and header.number == before.header.number + 1
        self._is_known = is_next and before.is_ended and self._known <= 0

    def _miss_end(self, segment: SegmentReader) -> None:
        """The next segment begins anew: see `_note_gap`."""

    def _stop(self, segment: SegmentReader, reason: str) -> None:
        self.problems.append(f"{segment.path}: {reason}; what follows in this file is not read")
        self._is_known = False


def _after(blocks: Iterator[bytes], skipped: int, has_state: bool) -> Iterator[bytes]:
    """The blocks without the state and the first lines."""
    if has_state:
        next(blocks, None)
    for block in blocks:
        lines = block.count(b"\n") + 1
        if skipped < lines:
            yield block.split(b"\n", skipped)[-1] if skipped else block
        skipped = max(skipped - lines, 0)
