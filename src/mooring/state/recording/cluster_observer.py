"""Records the changes of a cluster that another scheduler runs: everything that its watches show, with the time.

An observer has no scheduler and no state of its own. So every segment begins with the objects as they were then, as steps
that add them (`begins: objects`), and can be read without the segments before it.
"""

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from mooring.kit.clock import Clock
from mooring.model.meta import KubeObject
from mooring.model.node import Node
from mooring.model.pod import Pod
from mooring.scheduler.inputs import Input, ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.state.recording.recorded_steps import ADDED, block_of, whole_object
from mooring.state.recording.recorder import RunRecorder
from mooring.state.recording.run_files import RecordingFigures, RecordingLimits, RunFiles
from mooring.state.recording.segment_file import SegmentHeader

KnownObjects = Callable[[], Iterable[KubeObject]]
"""All objects that are known now."""

KNOWN_STEPS = 10_000
"""Number of known objects in one block: few blocks wait for the disk, and none is near the limit of a block."""
OBSERVER = "observer"
"""The source in the header of such a recording."""


def observe_run(
    directory: Path, header: SegmentHeader, clock: Clock, known: KnownObjects, limits: RecordingLimits | None = None
) -> "ObserverRecorder":
    """Begin to record in a folder of its own in the directory. Raises OSError where that cannot be written to."""
    limits, figures = limits or RecordingLimits(), RecordingFigures()
    files = RunFiles(directory, limits, header.started_ns, figures)
    return ObserverRecorder(files, msgspec.structs.replace(header, source=OBSERVER), limits, figures, clock, known)


class ObserverRecorder(RunRecorder):
    """The recorder of one cluster: a ChangeListener that writes what it gets."""

    def __init__(
        self,
        files: RunFiles,
        header: SegmentHeader,
        limits: RecordingLimits,
        figures: RecordingFigures,
        clock: Clock,
        known: KnownObjects,
    ) -> None:
        self._clock, self._known = clock, known
        self.bindings = 0
        """Pods that got their node while they were watched."""
        super().__init__(files, header, limits, figures)

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
