"""Notes of controllers about pods that they could not create: events and conditions of workloads.

A quota, an admission webhook or a limit rejects a pod before the scheduler sees it. The controller of the ReplicaSet, Job or
StatefulSet then writes an event with the reason FailedCreate, and some set a condition.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property

from mooring.answers.form.published import Form
from mooring.answers.trial.workload_book import WorkloadBook, WorkloadName
from mooring.inputs.created_objects import count_pods
from mooring.inputs.loaded_cluster import LoadedCluster
from mooring.kit.words import count
from mooring.model.meta import KubeObject
from mooring.model.workloads import Workload
from mooring.rules.workload_pods import DAEMON_SET

TOLD_CONDITIONS = {"ReplicaFailure": "True", "Progressing": "False", "Failed": "True", "FailureTarget": "True"}
"""Conditions of workloads that say why pods are missing, with the status in which they do: those of Deployments, ReplicaSets
and Jobs."""
NOTE_HEADS = ("at", "reason", "message")


class ControllerNote(Form, frozen=True):
    """An event or a condition in which a controller says why it created no pod."""

    about: str
    """Kind, namespace and name of the object that it is about."""
    at: str
    """When it was said last; empty if that is not known."""
    reason: str
    """One word, such as FailedCreate."""
    message: str
    times: int
    """How often it was said."""


def note_rows(notes: Iterable[ControllerNote]) -> list[tuple[object, ...]]:
    """The notes as rows of a table."""
    return [(note.at or "-", note.reason, note.message) for note in notes]


class ControllerNotes:
    """The notes of a cluster by workload: those about a Deployment's ReplicaSets and a CronJob's Jobs are the owner's too."""

    def __init__(self, loaded: LoadedCluster) -> None:
        self._loaded = loaded
        self._objects = {WorkloadName(each.kind, each.key): each for each in loaded.workloads}

    @cached_property
    def _by_workload(self) -> Mapping[WorkloadName, Sequence[ControllerNote]]:
        found: dict[WorkloadName, dict[tuple[str, str], ControllerNote]] = {}
        for name, note in self._all():
            for owner in (name, *self._above(name)):
                # A condition repeats what the newest event says.
                found.setdefault(owner, {}).setdefault((note.reason, note.message), note)
        return {name: sorted(notes.values(), key=_newest_first, reverse=True) for name, notes in found.items()}

    def _all(self) -> Iterator[tuple[WorkloadName, ControllerNote]]:
        for event in self._loaded.events:
            about = event.involved_object
            name = WorkloadName(about.kind, f"{about.namespace}/{about.name}")
            known = self._objects.get(name)
            if event.is_failed_create and (known is None or event.is_about(known, about.kind)):
                yield name, ControllerNote(str(name), event.last_time, event.reason, event.message, event.times)
        for name, workload in self._objects.items():
            for condition in workload.status.conditions or ():
                if condition.type is not None and TOLD_CONDITIONS.get(condition.type) == condition.status:
                    reason, said = condition.reason or condition.type, condition.message or ""
                    yield name, ControllerNote(str(name), condition.last_transition_time or "", reason, said, 1)

    def _above(self, name: WorkloadName) -> Iterator[WorkloadName]:
        workload = self._objects.get(name)
        owner = workload.controller() if workload is not None else None
        if workload is not None and owner is not None:
            yield WorkloadName(owner.kind, f"{workload.namespace}/{owner.name}")

    def about(self, name: WorkloadName) -> Sequence[ControllerNote]:
        """The notes about a workload, the newest first."""
        return self._by_workload.get(name, ())

    def wanting(self) -> Iterator[tuple[WorkloadName, Workload]]:
        """The workloads at the top, such as Deployments, about which there are notes."""
        for name in sorted(self._by_workload):
            workload = self._objects.get(name)
            if workload is not None and not any(above in self._by_workload for above in self._above(name)):
                yield name, workload


def _newest_first(note: ControllerNote) -> str:
    return note.at.removesuffix("Z")


# ---- workloads that lack pods


def wanted_pods(workload: Workload) -> int | None:
    """How many pods a workload should have; None for a DaemonSet, whose nodes decide."""
    return None if workload.kind == DAEMON_SET else count_pods(workload)


def missing_words(loaded: LoadedCluster, workload: Workload, existing: int, notes: Sequence[ControllerNote]) -> str:
    """A sentence about a workload that has no pods, or fewer than it should have."""
    wanted = wanted_pods(workload)
    if wanted == 0:
        return f"It wants no pods: {_why_none(workload)}"
    wants = "It should have pods" if wanted is None else f"It should have {count(wanted, 'pod')}"
    if notes:
        them = "the others" if existing else "them"
        said = notes[0].message or f"{notes[0].reason}; the input has no message"
        return f"{wants}, and its controller could not create {them}: {said}"
    return f"{wants}, and nothing says why there are none: {_unsaid(loaded, workload)}"


def _why_none(workload: Workload) -> str:
    if workload.kind != "Job":
        return "spec.replicas is 0"
    if workload.spec.suspend:
        return "spec.suspend is true"
    return "it has finished"


def _unsaid(loaded: LoadedCluster, workload: Workload) -> str:
    """The parts of the input that are missing and would say more. Events live for an hour on most clusters."""
    namespace, _, name = workload.key.rpartition("/")
    about = f"FailedCreate event about it{' or its ReplicaSets' if workload.kind == 'Deployment' else ''}"
    lacks = [f"no {about}", "no condition of it"]
    if workload.kind == "Deployment" and not _replica_sets(loaded, workload):
        lacks.append("none of its ReplicaSets")
    asked = "replicasets" if workload.kind == "Deployment" else f"{workload.kind.lower()} {name}"
    return f"the input has {', '.join(lacks[:-1])} and {lacks[-1]}; try kubectl describe {asked} -n {namespace}"


def _replica_sets(loaded: LoadedCluster, workload: Workload) -> list[KubeObject]:
    book = WorkloadBook(loaded.workloads, lambda kind, key: None)
    return book.replica_sets_of(WorkloadName(workload.kind, workload.key), loaded.objects)
