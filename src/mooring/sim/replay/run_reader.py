"""Reads the steps of a run over all of its segments, and says what is missing.

After a gap the steps go on where the next state was recorded: what lies between is left out, because nobody knows what the
scheduler knew there.
"""

from collections.abc import Callable, Iterator

from mooring.kit.clock import in_seconds
from mooring.recording.reading import RecordedRun, RecordedStep, StepReader, read_state
from mooring.recording.segment_file import RecordingError, SegmentHeader, SegmentReader
from mooring.scheduler.saved_state import SavedState

Began = Callable[[SegmentHeader, SavedState | None], None]
"""Called where steps begin that do not follow from those before: with an empty scheduler (None), or with its state. May raise
RecordingError: then the segment is left out."""


class RunReader:
    """The steps of one run, in order."""

    def __init__(self, run: RecordedRun, began: Began) -> None:
        self.run = run
        self.problems = list(run.problems)
        """What is missing, and where the steps go on."""
        self.reader = StepReader(0)
        """It knows the objects as they were after the last step."""
        self.segments_done = 0
        self._began = began
        self._is_known = False
        """Whether steps can be read: all that was before them is known."""
        self._until_ns: int | None = None
        self._first_state: tuple[SegmentReader, SavedState] | None = None
        """The state of the segment that the steps begin with, once it was found to be good."""

    def steps(self, from_ns: int | None = None, until_ns: int | None = None) -> Iterator[RecordedStep]:
        """All steps until a moment, from the last segment on whose state is older than `from_ns`."""
        if not self.run.segments:
            self.problems.append(f"{self.run.name}: the run has no segment that can be read")
        self._until_ns = until_ns
        before: SegmentReader | None = None
        for segment in self._segments(from_ns):
            if until_ns is not None and segment.header.started_ns > until_ns:
                return
            yield from self._steps_of(segment, before)
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
            self._first_state = segment, read_state(next(segment.blocks(), b""))
        except RecordingError:
            return False
        return True

    def _steps_of(self, segment: SegmentReader, before: SegmentReader | None) -> Iterator[RecordedStep]:
        blocks = segment.blocks()
        try:
            self._begin(segment, before, blocks)
            for block in blocks:
                yield from self.reader.steps(block)
                if self.reader.is_over:
                    return
            if segment.damage is not None:
                raise RecordingError(segment.damage)
            if not segment.is_ended and segment is not self.run.segments[-1]:
                raise RecordingError("its end is missing")
        except RecordingError as fault:
            self._stop(segment, str(fault))

    # ---- where segments meet

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
            self.reader = StepReader(header.started_ns, self._until_ns)
            self._began(header, None)
            self._is_known = True
        if not self._is_known:
            raise RecordingError("the steps before it are gone, and it has no state to go on from")

    def _state(self, segment: SegmentReader, block: bytes) -> SavedState:
        """The state of a segment, which is decoded once. Raises RecordingError."""
        found, self._first_state = self._first_state, None
        return found[1] if found is not None and found[0] is segment else read_state(block)

    def _go_on_from(self, header: SegmentHeader, state: SavedState) -> None:
        self.reader = StepReader(header.started_ns, self._until_ns)
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
