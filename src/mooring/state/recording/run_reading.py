"""Reads recordings: which runs a directory holds, what each can be replayed from, and its steps one by one."""

import base64
from collections.abc import Iterator
from dataclasses import dataclass, field
from io import BytesIO
from itertools import groupby
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from mooring.api.kinds import KINDS
from mooring.framework.contract.intents import CallFault, WriteFault
from mooring.model.meta import KubeObject, ObjectMeta
from mooring.model.pod import Pod
from mooring.model.pod_spec import PodSpec, PodStatus
from mooring.scheduler import inputs
from mooring.state.recording import recorded_steps as steps
from mooring.state.recording.recorded_steps import Outcome, with_changes
from mooring.state.recording.run_files import segments_in
from mooring.state.recording.segment_file import SUFFIX, RecordingError, SegmentHeader, SegmentReader
from mooring.state.scheduler_state import SchedulerState


@dataclass(frozen=True, slots=True)
class RecordedStep:
    """A step as it was recorded."""

    code: int
    now_ns: int
    input: inputs.Input | None
    """None: an attempt, or the end of waits on Permit."""
    outcomes: tuple[Outcome, ...]


@dataclass(slots=True)
class RecordedRun:
    """The segments of one process, in order, and what is wrong with them."""

    name: str
    segments: list[SegmentReader] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    @property
    def header(self) -> SegmentHeader:
        return self.segments[0].header


def runs_in(directory: Path) -> list[RecordedRun]:
    """All runs in a directory of recordings, or the one run that the path is. Raises RecordingError if there is none."""
    if not directory.is_dir():
        raise RecordingError(f"{directory}: there is no such directory")
    own = sorted(path for path in directory.glob(f"*{SUFFIX}") if path.stem.isdigit())
    runs = [
        _run(Path(folder), list(paths)) for folder, paths in groupby(own or segments_in(directory), lambda p: p.parent)
    ]
    if not runs:
        raise RecordingError(f"{directory}: there is no recording in this directory")
    return runs


def _run(folder: Path, paths: list[Path]) -> RecordedRun:
    """Open the segments of a run. Segments that cannot be read become problems of the run."""
    run = RecordedRun(folder.name)
    for path in paths:
        try:
            run.segments.append(SegmentReader(path))
        except (RecordingError, OSError) as fault:
            run.problems.append(str(fault))
    return run


def read_state(block: bytes) -> SchedulerState:
    """The state at the beginning of a segment. Raises RecordingError."""
    try:
        return msgspec.json.decode(block, type=SchedulerState)
    except msgspec.MsgspecError as fault:
        raise RecordingError(f"its state cannot be read: {fault}") from fault


# ---- steps


class StepReader:
    """Turns the lines of a segment into steps. It knows the objects, because updates hold only what changed."""

    def __init__(self, started_ns: int, until_ns: int | None = None) -> None:
        """The first step after `until_ns` is the end: it is neither returned nor known."""
        self.now_ns = started_ns
        self._until_ns = until_ns
        self.is_over = False
        self.objects: dict[tuple[str, str], KubeObject] = {}
        """(kind, key) -> the object as it was seen last."""
        self.specs: dict[int, PodSpec] = {}
        """Pod specs by number that later lines refer to (`PodTemplates`)."""

    def know(self, state: SchedulerState) -> None:
        """Take over the objects of a state that steps follow."""
        self.objects = {("Node", node.key): node for node in state.nodes}
        for kind, written in state.objects.items():
            for item in written:
                known = _item(kind, item)
                self.objects[kind, known.key] = known
        for number in state.known:
            self.objects["Pod", state.pods[number].key] = state.pods[number]

    def steps(self, block: bytes) -> Iterator[RecordedStep]:
        """The steps of a block. Raises RecordingError at a line that cannot be read."""
        for line in BytesIO(block):  # one by one: a list of all lines takes many times what a block of short ones does
            try:
                step = self._step(line)
                if step is None:
                    return
                yield step
            except (msgspec.MsgspecError, LookupError, ValueError, TypeError, AttributeError) as fault:
                # The last two: a change that fits no object.
                raise RecordingError(
                    f"a step cannot be read ({fault}): {line[:80].decode(errors='replace').rstrip()}"
                ) from fault

    def _step(self, line: bytes) -> RecordedStep | None:
        """Decode one line to a step; None if it is later than the end of the reading. Raises ValueError if an outcome is not
        complete."""
        parts = msgspec.structs.astuple(_LINE.decode(line))
        code, passed_ns, outcomes, *about = (part for part in parts if part is not msgspec.UNSET)
        now_ns = self.now_ns + _INT.decode(passed_ns)
        if self._until_ns is not None and now_ns > self._until_ns:
            self.is_over = True
            return None
        self.now_ns = now_ns
        number = _INT.decode(code)
        change = self._input(number, about)
        found = tuple(_OUTCOMES.decode(outcomes))
        if found and not all(map(steps.is_whole, found)):
            raise ValueError("an outcome is not complete")
        return RecordedStep(number, self.now_ns, change, found)

    def _input(self, code: int, about: list[msgspec.Raw]) -> inputs.Input | None:
        return None if code in (steps.ATTEMPT, steps.RELEASE) else _READ[code](self, about)

    # ---- one for each kind of step

    def _added(self, about: list[msgspec.Raw]) -> inputs.Input:
        kind, item = self._whole(about)
        self.objects[kind, item.key] = item
        return inputs.ObjectAdded(item)

    def _updated(self, about: list[msgspec.Raw]) -> inputs.Input:
        kind, key = _TEXT.decode(about[0]), _TEXT.decode(about[1])
        old = self.objects.pop((kind, key))
        new = with_changes(old, _CHANGES.decode(about[2]))
        if isinstance(new, Pod) and isinstance(old, Pod):
            new.inherit(old)
        self.objects[kind, new.key] = new
        return inputs.ObjectUpdated(old, new)

    def _removed(self, about: list[msgspec.Raw]) -> inputs.Input:
        kind, item = self._whole(about)
        self.objects.pop((kind, item.key), None)
        return inputs.ObjectRemoved(item)

    def _whole(self, about: list[msgspec.Raw]) -> tuple[str, KubeObject]:
        """The kind and the object that was written whole, a pod perhaps with the number of its spec; or a pod whose spec has
        one."""
        kind, (written, *more) = _TEXT.decode(about[0]), about[1:]
        if len(more) > 1:
            node_name, metadata, status = more
            if kind != "Pod":
                raise ValueError(f"a {kind} refers to the spec of a pod")
            spec = replace(self.specs[_INT.decode(written)], node_name=_TEXT.decode(node_name))
            return kind, Pod(_METADATA.decode(metadata), spec, _STATUS.decode(status))
        item = _item(kind, written)
        if more and isinstance(item, Pod):
            self.specs[_INT.decode(more[0])] = item.spec
        return kind, item

    def _bound(self, about: list[msgspec.Raw]) -> inputs.Input:
        """Only the id of the pod is known; the scheduler finds its binding by it."""
        pod_id, fault, elsewhere = _BOUND.decode(_list(about))
        return inputs.BindAnswered(_named(pod_id), fault, elsewhere)

    def _evicted(self, about: list[msgspec.Raw]) -> inputs.Input:
        victim, preemptor, fault, was_there = _EVICTED.decode(_list(about))
        return inputs.EvictionAnswered(victim, preemptor, fault, was_there)

    def _written(self, about: list[msgspec.Raw]) -> inputs.Input:
        kind, fault = _TEXT.decode(about[1]), _FAULT.decode(about[3])
        item = _item(kind, about[2]) if kind else None
        return inputs.WriteAnswered(_INT.decode(about[0]), item, None if fault is None else WriteFault(*fault))

    def _called(self, about: list[msgspec.Raw]) -> inputs.Input:
        token, reply, fault = _CALLED.decode(_list(about))
        return inputs.CallAnswered(token, CallFault(fault) if fault is not None else base64.b64decode(reply or ""))


class OutcomeReader(StepReader):
    """Reads only when each step was and what it led to: a tenth of the time, for those who look for decisions."""

    def know(self, state: SchedulerState) -> None:
        """No step needs the objects."""

    def _input(self, code: int, about: list[msgspec.Raw]) -> inputs.Input | None:
        return None


def _named(pod_id: str) -> Pod:
    """A pod of which only the id is known."""
    pod = Pod()
    pod.metadata.uid = pod_id
    return pod


def _item(kind: str, written: msgspec.Raw) -> KubeObject:
    return msgspec.json.decode(written, type=KINDS[kind].struct)


def _list(about: list[msgspec.Raw]) -> bytes:
    return b"[" + b",".join(bytes(each) for each in about) + b"]"


class _StepParts(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A line. No step has more parts: of a list, the decoder would first make all that there are."""

    code: msgspec.Raw
    passed_ns: msgspec.Raw
    outcomes: msgspec.Raw
    about_1: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    about_2: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    about_3: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    about_4: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET
    about_5: msgspec.Raw | msgspec.UnsetType = msgspec.UNSET


_LINE = msgspec.json.Decoder(_StepParts)
_INT = msgspec.json.Decoder(int)
_TEXT = msgspec.json.Decoder(str)
_OUTCOMES = msgspec.json.Decoder(list[tuple[str, ...]])
_CHANGES = msgspec.json.Decoder(dict[str, msgspec.Raw])
_BOUND = msgspec.json.Decoder(tuple[str, str | None, str])
_EVICTED = msgspec.json.Decoder(tuple[Pod, Pod, str | None, bool])
_FAULT = msgspec.json.Decoder(tuple[str, int] | None)
_METADATA = msgspec.json.Decoder(ObjectMeta)
_STATUS = msgspec.json.Decoder(PodStatus)
_SETTINGS = msgspec.json.Decoder(dict[str, Any])
_CALLED = msgspec.json.Decoder(tuple[int, str | None, str | None])

_READ: dict[int, Any] = {
    steps.ADDED: StepReader._added,
    steps.UPDATED: StepReader._updated,
    steps.REMOVED: StepReader._removed,
    steps.BOUND: StepReader._bound,
    steps.EVICTED: StepReader._evicted,
    steps.WRITTEN: StepReader._written,
    steps.CALLED: StepReader._called,
    steps.TIME: lambda reader, about: inputs.TimePassed(),
    steps.HALF_MINUTE: lambda reader, about: inputs.HalfMinutePassed(),
    steps.CONFIGURED: lambda reader, about: inputs.ConfigurationChanged(_SETTINGS.decode(about[0])),
}
