"""The steps of a recorded run one after the other, across its segments, whatever is missing or damaged between them."""

from collections.abc import Iterator
from dataclasses import dataclass, field

import msgspec

from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.scheduler.inputs import ObjectAdded
from mooring.state.recording.reading import RecordedRun, RecordedStep, StepReader, read_state
from mooring.state.recording.segment_file import RecordingError, SegmentHeader, SegmentReader
from mooring.state.recording.steps import ADDED


@dataclass(frozen=True, slots=True)
class ClusterBegins:
    """What follows does not go on from the steps before: the objects of the cluster come first."""

    header: SegmentHeader


@dataclass(frozen=True, slots=True)
class ClusterStep:
    """A recorded step. `is_known`: it says what was there when a segment began, not what happened."""

    step: RecordedStep
    is_known: bool = False
    assumed_on: str = ""
    """For a known pod: the node that the recorded scheduler had decided on, with the binding under way."""


@dataclass(slots=True)
class RunSteps:
    """Reads one run. `problems` has one line for each part that could not be read."""

    run: RecordedRun
    problems: list[str] = field(default_factory=list)
    files_read: int = 0
    _reader: StepReader = field(default_factory=lambda: StepReader(0))
    _goes_on: bool = False
    """Whether all steps up to here were read."""
    _number: int = 0

    def __iter__(self) -> Iterator[ClusterBegins | ClusterStep]:
        self.problems += self.run.problems
        for segment in self.run.segments:
            header = segment.header
            self._goes_on = self._goes_on and not header.lost and header.number == self._number + 1
            self._number = header.number
            try:
                yield from self._segment(segment)
            except (RecordingError, TypeError, AttributeError) as fault:  # the last two: a change that fits no object
                self._stop(segment, str(fault))
            if segment.damage is not None:
                self._stop(segment, segment.damage)
            self.files_read += 1

    def _stop(self, segment: SegmentReader, reason: str) -> None:
        self.problems.append(f"{segment.path}: {reason}; what follows in this file is not read")
        self._goes_on = False

    def _segment(self, segment: SegmentReader) -> Iterator[ClusterBegins | ClusterStep]:
        header, blocks = segment.header, segment.blocks()
        if header.begins == "steps" and not self._goes_on:
            self._stop(segment, "the steps before it are missing, and it does not say what was there")
            return
        if header.begins == "state":
            yield from self._state(header, blocks)
        elif header.begins == "objects" and self._goes_on:
            _skip(blocks, header.known)
            self._reader.now_ns = header.started_ns
        elif header.begins != "steps":
            yield self._begin(header)
        known = 0 if self._goes_on else header.known
        for block in blocks:
            for step in self._reader.steps(block):
                yield ClusterStep(step, is_known=known > 0)
                known -= 1
        self._goes_on = known <= 0 and segment.is_ended

    def _begin(self, header: SegmentHeader) -> ClusterBegins:
        self._reader = StepReader(header.started_ns)
        return ClusterBegins(header)

    def _state(self, header: SegmentHeader, blocks: Iterator[bytes]) -> Iterator[ClusterBegins | ClusterStep]:
        """The state of a scheduler as steps that add its objects; nothing, if they are known."""
        block = next(blocks, None)
        if block is None:
            raise RecordingError("its state was not written")
        if self._goes_on:
            return
        yield self._begin(header)
        state = read_state(block)
        try:
            self._reader.know(state)
        except (msgspec.MsgspecError, KeyError, IndexError) as fault:  # an object in it, or the number of a pod
            raise RecordingError(f"its state cannot be read: {fault}") from fault
        self._reader.now_ns = state.now_ns
        ids = set(state.assumed)
        assumed = {pod.id: pod.spec.node_name for pod in state.pods if pod.id in ids and pod.spec.node_name}
        for item in sorted(self._reader.objects.values(), key=lambda item: not isinstance(item, Node)):
            node = assumed.get(item.id, "") if isinstance(item, Pod) and not item.spec.node_name else ""
            yield ClusterStep(RecordedStep(ADDED, state.now_ns, ObjectAdded(item), ()), True, node)


def _skip(blocks: Iterator[bytes], steps: int) -> None:
    """Pass over blocks of known objects: they have no other steps in them."""
    while steps > 0 and (block := next(blocks, None)) is not None:
        steps -= block.count(b"\n") + 1
