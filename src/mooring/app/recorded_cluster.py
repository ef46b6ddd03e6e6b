"""The cluster of a recording at a moment, as an embedded cluster that kubectl can look at."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

import msgspec

from mooring.api.json_objects import JsonObject
from mooring.api.kinds import BY_STRUCT
from mooring.embedded.embedded_cluster import EmbeddedCluster, EmbeddedSettings
from mooring.embedded.seeding import seed
from mooring.framework.config.types import KubeSchedulerConfiguration
from mooring.framework.profile.registry import Registry
from mooring.kit.callbacks import ReportFault
from mooring.model.meta import KubeObject
from mooring.model.pod import Pod
from mooring.model.workloads import ReplicaSet, ReplicationController, StatefulSet
from mooring.state.recording.run_reading import RecordedRun
from mooring.state.recording.segment_file import SegmentHeader
from mooring.state.replay.run_reader import RunReader
from mooring.state.scheduler_state import SchedulerState

OWNERS = (ReplicaSet, ReplicationController, StatefulSet)
"""A recording has their selectors only: without templates their controllers would make pods of nothing."""


@dataclass(frozen=True, slots=True)
class RecordedMoment:
    """The objects of a recording after the last step before a moment."""

    now_ns: int
    objects: Sequence[KubeObject]
    problems: Sequence[str]


def moment_in(runs: Sequence[RecordedRun], until_ns: int | None = None) -> RecordedMoment:
    """The cluster at a moment, or at the end of the recording, as the run that saw it last saw it."""
    found = RecordedMoment(0, (), ())
    problems: list[str] = []
    for run in runs:
        history = RunReader(run, _nothing)
        for _ in history.steps(sys.maxsize if until_ns is None else until_ns, until_ns):
            pass  # the reader follows the objects
        problems += history.problems
        if history.reader.objects and history.reader.now_ns >= found.now_ns:
            found = RecordedMoment(history.reader.now_ns, tuple(history.reader.objects.values()), ())
    return RecordedMoment(found.now_ns, found.objects, problems)


def _nothing(header: SegmentHeader, state: SchedulerState | None) -> None:
    """Only the objects are wanted, and no scheduler."""


@dataclass(frozen=True, slots=True)
class RecordedClusterSettings:
    """How the embedded cluster is scheduled, if at all."""

    config: KubeSchedulerConfiguration
    registry: Registry | None
    gates: Mapping[str, bool] | None
    schedules: bool = False


def open_recorded(
    moment: RecordedMoment, settings: RecordedClusterSettings, report: ReportFault
) -> tuple[EmbeddedCluster, list[str]]:
    """An embedded cluster with the objects of a moment, and what could not be put into it. Raises ConfigError."""
    cluster = EmbeddedCluster(
        EmbeddedSettings(settings.config, settings.registry, gates=settings.gates, schedules=settings.schedules),
        report=report,
    )
    return cluster, seed(cluster.api, served_forms(moment.objects))


def served_forms(objects: Iterable[KubeObject]) -> list[JsonObject]:
    """The objects as an API server shows them, without workloads, and the priority classes of their pods."""
    found: list[JsonObject] = []
    classes = RecordedPriorities()
    for item in objects:
        spec = BY_STRUCT.get(type(item))
        if spec is None or isinstance(item, OWNERS):
            continue
        written = {"apiVersion": spec.api_version, "kind": spec.kind, **msgspec.to_builtins(item)}
        found.append(classes.with_class(written) if isinstance(item, Pod) else written)
    return [*classes.objects(), *found]


class RecordedPriorities:
    """Schedulers do not watch priority classes, but a pod can have its priority only by a class."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, str], str] = {}
        """(priority, preemption policy) -> the class."""

    def with_class(self, pod: JsonObject) -> JsonObject:
        """The pod with a class of its priority."""
        spec = pod["spec"]
        priority, policy = spec.get("priority") or 0, spec.get("preemptionPolicy") or "PreemptLowerPriority"
        if (priority, policy) == (0, "PreemptLowerPriority"):
            return pod
        wanted = spec.get("priorityClassName") or f"recorded-{priority}".replace("--", "-minus-")
        name = self._names.get((priority, policy)) or self._unused(wanted)
        self._names[priority, policy] = name
        return {**pod, "spec": {**spec, "priorityClassName": name}}

    def _unused(self, wanted: str) -> str:
        """The name, with a number if a class of another priority has it."""
        taken = set(self._names.values())
        return next(name for i in count(1) if (name := wanted if i == 1 else f"{wanted}-{i}") not in taken)

    def objects(self) -> list[JsonObject]:
        """PriorityClass objects for the priorities and preemption policies that recorded pods have."""
        return [
            {
                "apiVersion": "scheduling.k8s.io/v1",
                "kind": "PriorityClass",
                "metadata": {"name": name},
                "value": priority,
                "preemptionPolicy": policy,
            }
            for (priority, policy), name in self._names.items()
            if not name.startswith("system-")  # every cluster has these
        ]
