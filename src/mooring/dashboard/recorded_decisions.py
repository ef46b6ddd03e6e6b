"""The decisions of a recording in one table: when each was made, about which pod, in which step of its run.

The recording is read once, without its objects. A decision takes some 60 bytes here, most of them for the name of its pod.
"""

from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from mooring.dashboard.interfaces import DecisionLine
from mooring.framework.profile.registry import Registry
from mooring.kit.clock import in_millis
from mooring.state.recording.recorded_steps import Outcome
from mooring.state.recording.run_reading import OutcomeReader, RecordedRun
from mooring.state.recording.segment_file import SegmentHeader
from mooring.state.replay.differences import BIND, EVICT, FAIL, NOMINATE, is_decision, pods_of
from mooring.state.replay.replayer import why_not
from mooring.state.replay.run_reader import RunReader
from mooring.state.scheduler_state import SchedulerState

DENSITY_PARTS = 200
RESULTS = ("scheduled", "unschedulable", "nominated", "evicted")
"""Names of the results of a decision. The position is the code in the table."""
_SCHEDULED, _UNSCHEDULABLE, _NOMINATED, _EVICTED = range(len(RESULTS))
OnProgress = Callable[[int, int], None]
"""Called with the number of segments that are read, and of all."""


@dataclass(frozen=True, slots=True)
class SegmentStart:
    """How much of its run lies before a segment."""

    started_ns: int
    steps: int
    decisions: int
    """Counted from the beginning of the recording, not of the run."""
    is_start: bool
    """Whether a replay can begin here, as far as the header says."""


@dataclass(slots=True)
class RunSpan:
    """One run of the recording."""

    run: RecordedRun
    first_decision: int
    """How many decisions the runs before it have."""
    start_ns: int
    end_ns: int
    steps: int = 0
    segments: dict[int, SegmentStart] = field(default_factory=dict)
    """By their number."""


class RecordedDecisions:
    """Numbers are from 1, in the order of the runs and of their steps."""

    def __init__(self) -> None:
        self.spans: list[RunSpan] = []
        self.problems: list[str] = []
        self._times_ns, self._steps = array("q"), array("q")
        self._names, self._name_ends = bytearray(), array("q")
        self._nodes: list[str] = []
        self._node_book: dict[str, int] = {}
        self._node_numbers, self._pod_counts = array("i"), array("i")
        self._results = bytearray()

    def __len__(self) -> int:
        return len(self._times_ns)

    @property
    def start_ns(self) -> int:
        return min((span.start_ns for span in self.spans), default=0)

    @property
    def end_ns(self) -> int:
        return max((span.end_ns for span in self.spans), default=0)

    # ---- questions

    def span_of(self, number: int) -> int:
        """Which run a decision belongs to; 0 for the place before the first decision."""
        firsts = [span.first_decision for span in self.spans]
        return max(bisect_right(firsts, number - 1) - 1, 0)

    def span_at(self, when_ns: int) -> int:
        """Which run shows a moment: the last one that had begun."""
        begun = [i for i, span in enumerate(self.spans) if span.start_ns <= when_ns]
        return begun[-1] if begun else 0

    def made_until(self, index: int, when_ns: int) -> int:
        """How many decisions are made at a moment of this run; of those before it, all."""
        first = self.spans[index].first_decision
        last = self.spans[index + 1].first_decision if index + 1 < len(self.spans) else len(self)
        return bisect_right(self._times_ns, when_ns, first, last)

    def step_of(self, number: int) -> int:
        """How many steps of its run are made right after a decision."""
        return self._steps[number - 1]

    def time_ns(self, number: int) -> int:
        return self._times_ns[number - 1]

    def lines(self, after: int, limit: int) -> Iterator[DecisionLine]:
        """The decisions that follow the first `after` ones."""
        for i in range(max(after, 0), min(max(after, 0) + limit, len(self))):
            name = self._names[self._name_ends[i - 1] if i else 0 : self._name_ends[i]].decode()
            namespace, _, pod = name.rpartition("/")
            node, result = self._nodes[self._node_numbers[i]], RESULTS[self._results[i]]
            yield DecisionLine(i + 1, in_millis(self._times_ns[i]), namespace, pod, node, result, self._pod_counts[i])

    def density(self) -> list[int]:
        """How many decisions there are in each part of the time between start and end."""
        parts, start_ns = DENSITY_PARTS, self.start_ns
        end_ns = max(self.end_ns, start_ns + parts)
        times = np.frombuffer(self._times_ns, np.int64) - start_ns
        places = np.clip(times * parts // (end_ns - start_ns), 0, parts - 1)
        counts: list[int] = np.bincount(places, minlength=parts).tolist()
        return counts

    # ---- reading

    def add(self, run: RecordedRun, on_segment: Callable[[], None] = lambda: None) -> None:
        """Read a run to its end."""
        history = RunReader(run, _nothing, OutcomeReader)
        span = RunSpan(run, len(self), run.header.started_ns, run.header.started_ns)
        begun = 0
        for step in history.steps():
            while begun <= history.segments_done:
                self._begin(span, run.segments[begun].header)
                begun += 1
                on_segment()
            span.steps += 1
            span.end_ns = max(span.end_ns, step.now_ns)
            if step.outcomes and is_decision(step.outcomes):
                self._note(step.now_ns, span.steps, step.outcomes)
        self.spans.append(span)
        self.problems += history.problems

    def _begin(self, span: RunSpan, header: SegmentHeader) -> None:
        is_start = header.begins in ("empty", "state")
        span.segments[header.number] = SegmentStart(header.started_ns, span.steps, len(self), is_start)

    def _note(self, now_ns: int, step: int, outcomes: Sequence[Outcome]) -> None:
        """Append one decision to the columns of the table. Pod names are stored in one byte string and node names by number,
        to save memory."""
        pod, node, result = _summary(outcomes)
        self._times_ns.append(now_ns)
        self._steps.append(step)
        self._names += pod.encode(errors="replace")
        self._name_ends.append(len(self._names))
        number = self._node_book.setdefault(node, len(self._nodes))
        if number == len(self._nodes):
            self._nodes.append(node)
        self._node_numbers.append(number)
        self._pod_counts.append(max(len(pods_of(outcomes)), 1))
        self._results.append(result)


def _summary(outcomes: Sequence[Outcome]) -> tuple[str, str, int]:
    """Pod, node and code of the result: a bind says most, then a nomination, then a failure."""
    first = {kind: (pod, about) for kind, pod, about in reversed([each for each in outcomes if len(each) == 3])}
    if BIND in first:
        return (*first[BIND], _SCHEDULED)
    if first.get(NOMINATE, ("", ""))[1]:
        return (*first[NOMINATE], _NOMINATED)
    if FAIL in first:
        return first[FAIL][0], "", _UNSCHEDULABLE
    return (first[EVICT][0], "", _EVICTED) if EVICT in first else (first[NOMINATE][0], "", _UNSCHEDULABLE)


def _nothing(header: SegmentHeader, state: SchedulerState | None) -> None:
    """No scheduler is wanted."""


def read_decisions(
    runs: Sequence[RecordedRun], registry: Registry | None = None, on_progress: OnProgress | None = None
) -> RecordedDecisions:
    """The decisions of all runs that can be replayed, in the order in which the runs began."""
    decisions, done = RecordedDecisions(), 0
    reasons = {id(run): why_not(run, registry) for run in runs}
    decisions.problems += [problem for problems in reasons.values() for problem in problems]
    usable = [run for run in runs if run.segments and not reasons[id(run)]]
    total = sum(len(run.segments) for run in usable)

    def on_segment() -> None:
        nonlocal done
        done += 1
        if on_progress is not None:
            on_progress(done, total)

    for run in sorted(usable, key=lambda run: run.header.started_ns):
        decisions.add(run, on_segment)
    return decisions
