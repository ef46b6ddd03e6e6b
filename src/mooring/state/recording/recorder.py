"""Records the steps of a scheduler. Each is encoded when it is over; a thread compresses and writes them
(`run_files.py`).

An observer records the changes of a cluster that another scheduler runs: everything that its watches show, with the
time. It has no scheduler and no state of its own. So every segment begins with the objects as they were then, as steps
that add them (`begins: objects`), and can be read without the segments before it.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from weakref import ref

import msgspec

from mooring.framework.config.settings import settings_object
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.contract.annotation_keys import AnnotationKeys
from mooring.framework.contract.intents import Intent
from mooring.kit.clock import NS_PER_S, Clock
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodSpec
from mooring.model.shape import PodShape
from mooring.plugins import in_tree
from mooring.scheduler.inputs import ConfigurationChanged, Input, ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.scheduler.scheduler import Scheduler
from mooring.state.recording.recorded_steps import (
    ADDED,
    CONFIGURED,
    LINES,
    REMOVED,
    Concealer,
    Line,
    MakeParts,
    Outcomes,
    Parts,
    append_line,
    block_of,
    is_same_but_for_node,
    outcomes_of,
    whole_object,
)
from mooring.state.recording.run_files import RecordingFigures, RecordingLimits, RunFiles
from mooring.state.recording.segment_file import SegmentHeader
from mooring.state.scheduler_state import is_quiet, other_objects, state_of

# ---- Pods without their specs: a spec that was written in this segment is referred to by number.
#
# Most pods of a cluster come from some hundred templates, and two thirds of what is written of a pod is its spec. A
# line that writes a pod as a whole may give its spec a number; later ones have the number, the node, the metadata and
# the status.


MAX_TEMPLATES = 1024
"""Specs that have numbers at once; beyond it all are numbered anew. They take some 2 MiB."""


class PodTemplates:
    """The specs that were written, as `parts` writes them. `clear` when a segment begins: who reads it may have
    read none before."""

    def __init__(self) -> None:
        self._written: dict[ref[PodShape], tuple[int, PodSpec]] = {}
        """By shape, which is quicker to find than an equal spec. A shape ends with its pods."""

    def clear(self) -> None:
        self._written.clear()

    def parts(self, change: ObjectAdded | ObjectRemoved, conceal: Concealer) -> Parts:
        """The parts of a line about an object; of a pod only those that differ from its template, where that was written."""
        pod = change.item
        if type(pod) is not Pod:
            return whole_object(change, conceal)
        shown, shape = conceal(pod), pod.__dict__.get("shape")
        if shape is None:  # nothing has asked for it so far: that takes longer than to write the spec
            return "Pod", shown
        written = self._written.get(ref(shape))
        if written is None:
            return "Pod", shown, self._number(shape, pod.spec)
        number, spec = written
        if not is_same_but_for_node(spec, pod.spec):  # two templates of one shape: the first has the number
            return "Pod", shown
        return "Pod", number, pod.spec.node_name, shown.metadata, shown.status

    def _number(self, shape: PodShape, spec: PodSpec) -> int:
        """The number of a spec that is written now."""
        if len(self._written) >= MAX_TEMPLATES:
            self._written.clear()
        number = len(self._written)
        self._written[ref(shape)] = number, spec
        return number


log = logging.getLogger(__name__)

FLUSH_NS = NS_PER_S // 2
"""A process that is killed loses the steps of this time at most."""
RETRY_NS = 10 * NS_PER_S
"""How long after a segment another one is begun because steps were lost: a disk that is full stays so for a while."""
LARGEST = 2
"""A scheduler that is never quiet gets segments without a state when they are so many times as large as they should be:
otherwise old ones could not be removed."""
FLUSH_BYTES = 64 << 10
"""So many bytes of lines are written together, if they come within that time: some 100 steps. Blocks of 16 KiB make files a
tenth larger; larger ones than this save nothing."""


class RecordingSettings(msgspec.Struct, frozen=True):
    """Where a scheduler is to be recorded, and within which limits."""

    directory: Path
    limits: RecordingLimits = msgspec.field(default_factory=RecordingLimits)
    version: str = ""
    """Version of Mooring, for the header of segments."""
    annotations: tuple[str, ...] = ()
    """Patterns of annotation keys whose values are written, beside those that Mooring reads itself."""


def scheduler_header(
    config: KubeSchedulerConfiguration,
    gates: Mapping[str, bool] | None,
    started_ns: int,
    version: str = "",
    annotations: Sequence[str] = (),
) -> SegmentHeader:
    """The header for a scheduler with this configuration; its other fields may be set afterwards."""
    enabled = {name for profile in config.profiles for name in profile.plugins.enabled_names()}
    return SegmentHeader(
        run="",
        number=0,
        started_ns=started_ns,
        version=version,
        settings=settings_object(config, gates),
        plugins=_other_plugins(enabled),
        annotations=[*annotations],
    )


def _other_plugins(enabled: Iterable[str]) -> list[str]:
    """Those of the names that are no plugins of Mooring."""
    return sorted({*enabled} - {*in_tree()})


def record_live(
    settings: RecordingSettings | None,
    config: KubeSchedulerConfiguration,
    gates: Mapping[str, bool] | None,
    started_ns: int,
    max_unschedulable_s: float = 300.0,
) -> "RunRecorder | None":
    """The recorder of a live scheduler, which breaks ties by seed; None where nothing is to be recorded. Raises OSError."""
    if settings is None:
        return None
    header = scheduler_header(config, gates, started_ns, settings.version, settings.annotations)
    header.max_unschedulable_s = max_unschedulable_s
    return RunRecorder(settings.directory, header, settings.limits)


class RunRecorder:
    """The recorder of one scheduler, in a folder of its own in the directory. `header` says what the scheduler is; run and
    number are filled in. Raises OSError where the directory cannot be written to."""

    def __init__(self, directory: Path, header: SegmentHeader, limits: RecordingLimits | None = None) -> None:
        self._limits, self.figures = limits or RecordingLimits(), RecordingFigures()
        self.files = RunFiles(directory, self._limits, header.started_ns, self.figures)
        self._header = header
        self._conceal, self._templates = Concealer(AnnotationKeys.of(header.annotations)), PodTemplates()
        parts: MakeParts = self._templates.parts
        configured: MakeParts = self._configured
        self._makers = {
            **LINES,
            ObjectAdded: (ADDED, parts),
            ObjectRemoved: (REMOVED, parts),
            ConfigurationChanged: (CONFIGURED, configured),
        }
        self._lines = bytearray()
        """Encoded lines of the steps that were not handed over yet, each with its line end."""
        self._steps = 0
        """Number of steps in `_lines`."""
        self._last_ns = header.started_ns
        """The time of the last step."""
        self._flushed_ns = header.started_ns
        self._renewed_ns = header.started_ns
        self._number = 0
        self._lost = 0
        """Steps that were dropped since the present segment began; then nothing more is written to it."""
        self._begin("empty")

    # ---- the steps

    def took_in(self, scheduler: Scheduler, now_ns: int, change: Input, intents: Sequence[Intent]) -> None:
        try:
            outcomes = outcomes_of(intents) if intents else ()
            if self._append(self._line(now_ns, outcomes, change), now_ns):
                self._hand_over(scheduler, now_ns)
        except Exception as fault:
            self._fail(fault)

    def _line(self, now_ns: int, outcomes: Outcomes, change: Input) -> Line:
        code, parts = self._makers[type(change)]
        return code, now_ns - self._last_ns, outcomes, *parts(change, self._conceal)

    def _configured(self, change: ConfigurationChanged, conceal: Concealer) -> Parts:
        """The configuration changes: the headers of later segments have the new one."""
        assert change.profiles is not None, "a scheduler at work gets profiles that are built"
        enabled = {name for runner in change.profiles.runners.values() for name in runner.profile.plugins}
        header = self._header
        self._header = msgspec.structs.replace(header, settings=change.settings, plugins=_other_plugins(enabled))
        return (change.settings,)

    def stepped(self, scheduler: Scheduler, now_ns: int, code: int, intents: Sequence[Intent]) -> None:
        try:
            if self._append((code, now_ns - self._last_ns, outcomes_of(intents)), now_ns):
                self._hand_over(scheduler, now_ns)
        except Exception as fault:
            self._fail(fault)

    def _append(self, line: Line, now_ns: int) -> bool:
        """Note a step. Returns whether it is time to hand steps over.

        Hot: it is encoded at once, while its objects are in the caches of the processor; nothing of it is kept but the line.
        """
        lines = self._lines
        append_line(line, lines, -1)
        lines += b"\n"
        self._last_ns = now_ns
        self._steps += 1
        return len(lines) >= FLUSH_BYTES or not 0 <= now_ns - self._flushed_ns < FLUSH_NS

    def _hand_over(self, scheduler: Scheduler, now_ns: int) -> None:
        """Hand steps over, and begin a new segment when it is time and the scheduler is quiet."""
        self._flush(now_ns)
        if not self._wants_segment(now_ns):
            return
        if is_quiet(scheduler):
            self._renew(scheduler, now_ns)
        elif self.files.segment_size >= LARGEST * self._limits.segment_bytes and not self._lost:
            self._begin("steps")

    def _fail(self, fault: Exception) -> None:
        """A recording must never stop a scheduler. The steps before this one are good; what follows needs a new state."""
        if not self._lost:
            log.error("steps of the scheduler could not be recorded", exc_info=fault)
        self.figures.faults += 1
        del self._lines[self._lines.rfind(b"\n") + 1 :]
        self.interrupted()

    def interrupted(self) -> None:
        """Something else than a step changed the scheduler: what follows needs a new state."""
        self._flush(self._last_ns)
        self._lost += 1

    def close(self) -> None:
        """Write what is noted, and end the run."""
        self._flush(self._last_ns)
        self.files.close()

    # ---- writing

    def _flush(self, now_ns: int) -> None:
        """Hand the noted steps to the thread. They are lost if steps before them are, or if the thread has no room."""
        lines, self._lines = self._lines, bytearray()
        steps, self._steps, self._flushed_ns = self._steps, 0, now_ns
        if self._lost or self.files.is_failed or not self.files.has_room():
            self._lost += steps
            self.figures.lost_steps += steps
        elif steps:
            self.figures.steps += steps
            del lines[-1:]  # a block has no end after its last line
            self.files.write(lambda: lines)

    def _wants_segment(self, now_ns: int) -> bool:
        """Whether it is time for a new segment. After a loss that is as soon as the disk has caught up."""
        if self._lost:
            has_caught_up = not self._limits.drops or self.files.waiting == 0
            return has_caught_up and now_ns - self._renewed_ns >= RETRY_NS
        is_due = now_ns - self._renewed_ns >= self._limits.interval_s * NS_PER_S
        return is_due or self.files.segment_size >= self._limits.segment_bytes

    def _renew(self, scheduler: Scheduler, now_ns: int) -> None:
        """Begin a segment with the present state."""
        state, others = state_of(scheduler), other_objects(scheduler)
        self._last_ns = self._renewed_ns = now_ns
        self._begin("state")
        conceal = self._conceal

        def encode() -> bytes:
            state.objects = {
                kind: [msgspec.Raw(msgspec.json.encode(conceal(item))) for item in items]
                for kind, items in others.items()
            }
            state.nodes = [conceal(node) for node in state.nodes]
            state.pods = [conceal(pod) for pod in state.pods]
            return msgspec.json.encode(state)

        self.files.write(encode)

    def _begin(self, begins: str) -> None:
        """Begin a segment. It says how many steps were lost before it."""
        self._number += 1
        self._templates.clear()
        lost, self._lost = self._lost, 0
        header = msgspec.structs.replace(
            self._header, run=self.files.run, number=self._number, begins=begins, lost=lost, started_ns=self._last_ns
        )
        self.files.begin(header)


KnownObjects = Callable[[], Iterable[KubeObject]]
"""All objects that are known now."""

KNOWN_STEPS = 10_000
"""Number of known objects in one block: few blocks wait for the disk, and none is near the limit of a block."""
OBSERVER = "observer"
"""The source in the header of such a recording."""


class ObserverRecorder(RunRecorder):
    """The recorder of one cluster: a ChangeListener that writes what it gets."""

    def __init__(
        self,
        directory: Path,
        header: SegmentHeader,
        clock: Clock,
        known: KnownObjects,
        limits: RecordingLimits | None = None,
    ) -> None:
        self._clock, self._known = clock, known
        self.bindings = 0
        """Pods that got their node while they were watched."""
        super().__init__(directory, msgspec.structs.replace(header, source=OBSERVER), limits)

    @property
    def path(self) -> Path:
        """The folder of this run."""
        return self.files.path

    @property
    def known_count(self) -> int:
        """How many objects the present segment began with."""
        return self._header.known

    # ---- changes

    def added(self, item: KubeObject) -> None:
        self._note(ObjectAdded(item))

    def updated(self, old: KubeObject, new: KubeObject) -> None:
        if isinstance(old, Pod) and isinstance(new, Pod) and new.spec.node_name and not old.spec.node_name:
            self.bindings += 1
        self._note(ObjectUpdated(old, new))

    def removed(self, item: KubeObject) -> None:
        self._note(ObjectRemoved(item))

    def _note(self, change: Input) -> None:
        now_ns = self._clock.now_ns()
        if self._append(self._line(now_ns, (), change), now_ns):
            self._flush(now_ns)

    def write_out(self) -> None:
        """Hand over what was noted, and begin a new segment when it is time. Call it a few times a second, between changes:
        the known objects must be those after the last change."""
        now_ns = self._clock.now_ns()
        self._flush(now_ns)
        if self._wants_segment(now_ns):
            self._last_ns = self._renewed_ns = now_ns
            self._begin("objects")

    # ---- segments

    def _begin(self, begins: str) -> None:
        """Begin a segment with the known objects, whatever came before: objects are values, the thread encodes them."""
        objects = sorted(self._known(), key=_order)
        self._header = msgspec.structs.replace(self._header, known=len(objects))
        super()._begin("objects")
        for start in range(0, len(objects), KNOWN_STEPS):
            self._write_known(objects[start : start + KNOWN_STEPS])

    def _write_known(self, objects: list[KubeObject]) -> None:
        conceal = self._conceal

        def encode() -> bytes:
            return block_of((ADDED, 0, (), *whole_object(ObjectAdded(item), conceal)) for item in objects)

        self.files.write(encode)


def _order(item: KubeObject) -> int:
    """Nodes before the pods on them, and what pods refer to before pods."""
    return 0 if isinstance(item, Node) else 2 if isinstance(item, Pod) else 1
