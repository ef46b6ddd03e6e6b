"""The changes that others made to a recorded cluster, without the decisions of its scheduler: pods and nodes came and went.

From it a simulation makes what would have happened under another configuration. A pod that had a node leaves as long after
it gets its node as it did when it was recorded; a pod that had none leaves when it left. A pod that the recorded scheduler
evicted stays: nobody knows how long it would have run.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from mooring.inputs.arrivals import Arrival, PlannedChange
from mooring.model.devices import ResourceClaim
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod, without_nomination
from mooring.model.storage import PersistentVolume, PersistentVolumeClaim
from mooring.model.workloads import PodGroup
from mooring.scheduler.inputs import Input, ObjectAdded, ObjectRemoved, ObjectUpdated
from mooring.state.recording.recorded_steps import ATTEMPT, HALF_MINUTE, RELEASE, TIME, kind_of
from mooring.state.recording.run_reading import RecordedRun, RecordedStep
from mooring.state.recording.segment_file import SegmentHeader
from mooring.state.replay.differences import EVICT
from mooring.state.replay.run_reader import RecordedSpan, RunReader
from mooring.state.scheduler_state import SchedulerState

ANSWERED = (PersistentVolumeClaim, PersistentVolume, ResourceClaim, PodGroup)
"""Kinds that the scheduler and its controllers write to after a decision: the simulation makes such changes itself."""
_AFTER_LISTING = (ATTEMPT, RELEASE, TIME, HALF_MINUTE)
"""Steps of a scheduler that has seen all objects."""

ObjectName = tuple[str, str]
"""(kind, key)"""
View = Mapping[ObjectName, KubeObject]


@dataclass(slots=True)
class RecordedLife:
    """A pod that the recorded scheduler had to place."""

    pod: Pod
    """As it arrived."""
    arrived_ns: int
    bound_ns: int | None = None
    node: str = ""
    left_ns: int | None = None
    was_evicted: bool = False


@dataclass(slots=True)
class RecordedLoad:
    """Times are since the beginning."""

    objects: list[KubeObject]
    """The objects at the beginning, without pods that waited for a node: these are arrivals."""
    arrivals: list[Arrival]
    changes: list[PlannedChange]
    placements: dict[str, str]
    """Pod -> the node that it was bound to, of the arrivals; the last one of its name counts."""
    evicted: frozenset[str]
    """The arrivals that the recorded scheduler evicted."""
    over_ns: int
    problems: list[str] = field(default_factory=list)


def recorded_load(runs: Sequence[RecordedRun], names: frozenset[str], span: RecordedSpan) -> RecordedLoad:
    """The load of runs that follow each other. `names` are the scheduler names that the recorded scheduler answers to."""
    collecting, problems = _Collecting(names, span.from_ns or 0), list[str]()
    for run in runs:
        collecting.next_run()
        history = RunReader(run, collecting.began)
        for step in history.steps(span.from_ns, span.until_ns):
            collecting.look_at(history.reader.objects, step)
        collecting.run_ended(history.reader.objects)
        problems += history.problems
    return collecting.load(problems)


class _Collecting:
    """Follows the objects over all runs. A run that starts lists what is there; what it does not list is gone."""

    def __init__(self, names: frozenset[str], from_ns: int) -> None:
        self._names, self._from_ns = names, from_ns
        self._world: dict[ObjectName, KubeObject] = {}
        """The cluster as it was seen last, by any run."""
        self._is_listing = True
        self._begin_ns: int | None = None
        self._now_ns = 0
        self._objects: list[KubeObject] = []
        self._changes: list[tuple[int, KubeObject, bool]] = []
        self._lives: dict[str, RecordedLife] = {}
        """By pod id, in order of arrival."""

    def next_run(self) -> None:
        self._is_listing = True

    def began(self, header: SegmentHeader, state: SchedulerState | None) -> None:
        self._is_listing = True

    def look_at(self, view: View, step: RecordedStep) -> None:
        """Take over a step; while objects are listed, only its time counts."""
        if self._is_listing:
            is_ready = step.code in _AFTER_LISTING and step.now_ns >= max(self._now_ns, self._from_ns)
            if not is_ready:
                return
            self._now_ns = step.now_ns
            self._catch_up(view)
        self._now_ns = max(step.now_ns, self._now_ns)
        if step.input is not None:
            self._take_in(step.input)
        for outcome in step.outcomes:
            if outcome[0] == EVICT:
                self._evicted(outcome[1])

    def run_ended(self, view: View) -> None:
        """A run that never got beyond its listing has told what is there all the same; not if it ended too early."""
        if self._is_listing and view and not self._world and not self._from_ns:
            self._catch_up(view)

    def _catch_up(self, view: View) -> None:
        """Make the cluster what the view of a run says."""
        self._is_listing = False
        is_first, self._begin_ns = self._begin_ns is None, self._now_ns if self._begin_ns is None else self._begin_ns
        for name in [name for name in self._world if name not in view]:
            self._removed(self._world[name])
        for name, item in view.items():
            known = self._world.get(name)
            if known is None:
                self._added(item, is_there=is_first)
            elif _is_another(known, item):
                self._removed(known)
                self._added(item)
            elif known != item:
                self._updated(known, item)

    # ---- changes

    def _take_in(self, taken: Input) -> None:
        match taken:
            case ObjectAdded():
                self._added(taken.item)
            case ObjectUpdated():
                self._updated(taken.old, taken.new)
            case ObjectRemoved():
                self._removed(taken.item)

    def _added(self, item: KubeObject, is_there: bool = False) -> None:
        self._world[_name(item)] = item
        if isinstance(item, Pod) and not item.spec.node_name:
            if item.spec.scheduler_name in self._names and not item.is_finished:
                self._lives[item.id] = RecordedLife(without_nomination(item), self._now_ns)
        elif is_there:
            self._objects.append(item)
        elif not (isinstance(item, PersistentVolume) and item.spec.claim_ref is not None):  # made for a claim
            self._change(item)

    def _updated(self, old: KubeObject, new: KubeObject) -> None:
        self._world[_name(new)] = new
        if isinstance(new, Pod) and isinstance(old, Pod):
            self._pod_updated(old, new)
        elif not isinstance(new, ANSWERED):
            self._change(new)

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        """Note that a pod was updated. Binding by the recorded scheduler becomes part of its life; edits, and pods of other
        schedulers, become changes that the simulation repeats."""
        life = self._lives.get(new.id)
        is_bound = bool(new.spec.node_name) and not old.spec.node_name
        if life is None:
            if is_bound or (new.spec.node_name and _is_edited(old, new)):  # another scheduler's
                self._change(new)
        elif is_bound:
            life.bound_ns, life.node = self._now_ns, new.spec.node_name
        elif _is_edited(old, new):
            self._change(new)

    def _removed(self, item: KubeObject) -> None:
        """Note that an object was removed. This ends the life of a pod of the recorded scheduler. The simulation repeats the
        removal of other objects, of pods that others placed, and of pods that were never bound."""
        self._world.pop(_name(item), None)
        life = self._lives.get(item.id) if isinstance(item, Pod) else None
        if life is None:
            if not isinstance(item, Pod) or item.spec.node_name:
                self._change(item, is_removal=True)
            return
        life.left_ns = self._now_ns
        if life.bound_ns is None:
            self._change(item, is_removal=True)

    def _evicted(self, key: str) -> None:
        victim = self._world.get(("Pod", key))
        life = self._lives.get(victim.id) if isinstance(victim, Pod) else None
        if life is not None:
            life.was_evicted = True

    def _change(self, item: KubeObject, is_removal: bool = False) -> None:
        self._changes.append((self._now_ns, item, is_removal))

    # ---- the result

    def load(self, problems: list[str]) -> RecordedLoad:
        """Build the load with all times relative to the beginning of the recording, in nanoseconds."""
        begin_ns = self._begin_ns or 0
        lives = self._lives.values()
        return RecordedLoad(
            self._objects,
            [Arrival(life.arrived_ns - begin_ns, life.pod, _run_ns(life)) for life in lives],
            [PlannedChange(now_ns - begin_ns, item, is_removal) for now_ns, item, is_removal in self._changes],
            {life.pod.key: life.node for life in lives if life.node},
            frozenset(life.pod.key for life in lives if life.was_evicted),
            max(self._now_ns - begin_ns, 0),
            problems,
        )


def _name(item: KubeObject) -> ObjectName:
    return kind_of(item), item.key


def _is_another(known: KubeObject, item: KubeObject) -> bool:
    """Whether another object has the name by now."""
    return bool(known.uid and item.uid) and known.uid != item.uid


def _run_ns(life: RecordedLife) -> int | None:
    """How long the pod was on its node; None: to the end, or until it was evicted."""
    if life.bound_ns is None or life.left_ns is None or life.was_evicted:
        return None
    return life.left_ns - life.bound_ns


def _is_edited(old: Pod, new: Pod) -> bool:
    """Whether somebody changed labels, annotations or the spec, other than its node. That a pod is being deleted does not
    count: when it leaves says it."""
    spec = msgspec.structs.replace(new.spec, node_name=old.spec.node_name)
    is_same = old.metadata.labels == new.metadata.labels and old.metadata.annotations == new.metadata.annotations
    return spec != old.spec or not is_same
